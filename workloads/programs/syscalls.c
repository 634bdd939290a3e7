/* Asks the kernel again and again: a hot loop of system calls.
 *
 *   syscalls getpid|gettimeofday|read|write|mix COUNT WARM_UP
 *
 * `read` and `write` move 4096 bytes at places of a file of 1 MiB (`calls.tmp` in the present folder, in
 * memory where the recorder runs this), `mix` calls each of the four in turn. After WARM_UP calls recording starts.
 * Prints how many calls gave what they should. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "mark.h"

#define BLOCK 4096
#define BLOCKS 256

enum { GETPID, GETTIMEOFDAY, READ, WRITE, KINDS };

static const char *const names[] = {"getpid", "gettimeofday", "read", "write"};
static char block[BLOCK];
static int file;

/* Whether the call gave what it should. `syscall` does without libc's copies of the answer. */
static int call(int kind, long turn) {
    struct timeval time;
    off_t place = (off_t)(turn * 7 % BLOCKS) * BLOCK;
    switch (kind) {
    case GETPID:
        return syscall(SYS_getpid) > 0;
    case GETTIMEOFDAY:
        return syscall(SYS_gettimeofday, &time, NULL) == 0;
    case READ:
        return syscall(SYS_pread64, file, block, BLOCK, place) == BLOCK;
    default:
        return syscall(SYS_pwrite64, file, block, BLOCK, place) == BLOCK;
    }
}

int main(int count, char **words) {
    int kind = 0;
    while (count == 4 && kind < KINDS && strcmp(words[1], names[kind]) != 0) kind++;
    if (count != 4 || (kind == KINDS && strcmp(words[1], "mix") != 0)) {
        fprintf(stderr, "usage: syscalls getpid|gettimeofday|read|write|mix COUNT WARM_UP\n");
        return 2;
    }
    long calls = atol(words[2]), warm_up = atol(words[3]), good = 0;
    file = open("calls.tmp", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || unlink("calls.tmp") != 0) {
        fprintf(stderr, "syscalls: cannot make calls.tmp here\n");
        return 1;
    }
    for (int i = 0; i < BLOCKS; i++)
        if (write(file, block, BLOCK) != BLOCK) return 1;
    for (long i = 0; i < calls; i++) {
        if (i == warm_up) start_recording();
        good += call(kind == KINDS ? (int)(i % KINDS) : kind, i);
    }
    printf("%ld of %ld\n", good, calls);
    return good == calls ? 0 : 1;
}
