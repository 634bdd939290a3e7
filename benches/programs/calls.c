/* A loop of small reads: as much system call and as little program as can be. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  int fd = open(argv[1], O_RDONLY);
  long n = atol(argv[2]);
  char b[64];
  struct timespec t, u;
  clock_gettime(CLOCK_MONOTONIC, &t);
  for (long i = 0; i < n; i++)
    if (pread(fd, b, 1, i % 64) != 1) return 1;
  clock_gettime(CLOCK_MONOTONIC, &u);
  printf("%.1f\n", ((u.tv_sec - t.tv_sec) * 1e9 + (u.tv_nsec - t.tv_nsec)) / n);
}
