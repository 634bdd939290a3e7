/* Calls that would wait, end their thread, or name memory that is not there, when another thread
   makes them. Each case prints what it saw; the output must be the same with and without
   delegation. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char path[] = "waits.tmp";

static void check(const char *what, long got) { printf("%s: %ld\n", what, got); }

/* A call and its error. */
static void answer(const char *what, long got) {
  int error = got < 0 ? errno : 0;
  printf("%s: %ld, %d\n", what, got, error);
}

static int file(void) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0 || write(fd, "0123456789abcdef", 16) != 16 || lseek(fd, 0, SEEK_SET)) exit(9);
  return fd;
}

/* A call that no wrapper sees, as those inside of libc. */
static long unseen(long number, long a, long b, long c) {
  long got;
  __asm__ volatile("syscall" : "=a"(got) : "a"(number), "D"(a), "S"(b), "d"(c)
                   : "rcx", "r11", "memory");
  return got;
}

static void vectors(void) {
  int fd = file();
  char b[16], *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || munmap(pages + 4096, 4096)) exit(9);
  struct iovec good[2] = {{b, 3}, {b + 3, 5}}, *edge = (struct iovec *)(pages + 4096) - 1;
  struct iovec *volatile nowhere = (struct iovec *)64;
  *edge = good[0];
  answer("vector that ends in nowhere", readv(fd, edge, 2));
  answer("vector nowhere", readv(fd, nowhere, 2));
  answer("vector beyond all addresses", writev(fd, (struct iovec *)-64, 1));
  answer("no vector", writev(fd, NULL, 0));
  answer("fewer pieces than none", readv(fd, edge, -1));
  answer("too many pieces", readv(fd, edge, 1025));
  struct iovec bad[2] = {{b, 4}, {(void *)8, 4}}, huge[2] = {{b, ~0ul}, {b, 4}};
  answer("first piece good", preadv(fd, bad, 2, 0));
  answer("piece of all bytes", readv(fd, huge, 2));
  answer("good", readv(fd, good, 2));
}

static void *reads_for_ever(void *fd) {
  char b[16];
  for (;;)
    if (pread(*(int *)fd, b, 16, 0) != 16) check("wrong", errno);
  return NULL;
}

static void leave(int n) {
  (void)n;
  pthread_exit((void *)7);
}

static volatile int ready, cleaned;
static char big[16 << 20];

static long us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Whoever cleans up may use memory again that a call was given, which is written from its start. */
static void clean(void *unused) {
  volatile char *last = big + sizeof big - 1;
  (void)unused;
  *last = 'c';
  for (long begun = us(); us() - begun < 10000;)
    if (*last != 'c') {
      check("written after the end", 1);
      return;
    }
  cleaned++;
}

/* Almost all of its time it is in a call. */
static void *leaves(void *fd) {
  pthread_cleanup_push(clean, NULL);
  ready = 1;
  for (;;)
    if (pread(*(int *)fd, big, sizeof big, 0) != sizeof big) check("wrong", errno);
  pthread_cleanup_pop(0);
  return NULL;
}

static void *leaves_at_any_time(void *fd) {
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  return leaves(fd);
}

/* How a thread ended: 1 cancelled, 7 by itself, -1 not within ten seconds. */
static long ends(pthread_t t) {
  struct timespec until;
  void *r;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 10;
  if (pthread_timedjoin_np(t, &r, &until)) return -1;
  return r == PTHREAD_CANCELED ? 1 : (long)r;
}

static void cancelled(void) {
  static int fd;
  pthread_t t;
  fd = file();
  struct timespec moment = {0, 5000000};
  pthread_create(&t, NULL, reads_for_ever, &fd);
  nanosleep(&moment, NULL);
  pthread_cancel(t);
  check("cancelled between calls", ends(t));
  signal(SIGUSR1, leave);
  memset(big, 'j', sizeof big);
  if (pwrite(fd, big, sizeof big, 0) != sizeof big) exit(9);
  long left[2] = {0, 0};
  for (int i = 0; i < 40; i++) {
    ready = 0;
    pthread_create(&t, NULL, i % 2 ? leaves_at_any_time : leaves, &fd);
    while (!ready) sched_yield();
    nanosleep(&moment, NULL);
    if (i % 2) pthread_cancel(t);
    else pthread_kill(t, SIGUSR1);
    left[i % 2] += ends(t);
  }
  check("left by a handler, 20 times 7", left[0]);
  check("cancelled at any time, of 20", left[1]);
  check("cleaned up", cleaned);
}

static void on_alarm(int n) { (void)n; }

/* The timer goes on, so that no signal comes just before the call and no more. */
static void ring(long us) {
  struct sigaction a = {.sa_handler = on_alarm};
  sigaction(SIGALRM, &a, NULL);
  struct itimerval t = {{0, us}, {0, us}};
  setitimer(ITIMER_REAL, &t, NULL);
}

static void hidden_changes(void) {
  char b[16];
  struct iovec v = {b, 8};
  int p[2], s[2], fd = file();
  if (pipe(p) || socketpair(AF_UNIX, SOCK_STREAM, 0, s)) exit(9);
  answer("of a file", read(fd, b, 8));
  if (unseen(SYS_dup2, p[0], fd, 0) != fd) exit(9);
  ring(20000);
  answer("of a pipe in its place", read(fd, b, 8));
  answer("again, in pieces", readv(fd, &v, 1));
  close(fd);
  fd = file();
  answer("into a file", write(fd, "x", 1));
  if (unseen(SYS_dup2, p[1], fd, 0) != fd) exit(9);
  for (long got = 0; got < 1 << 16;) got += write(p[1], big, 4096);
  answer("into a full pipe in its place", write(fd, "x", 1));
  close(fd);
  /* Whoever shares a pipe may tell it to wait. */
  int *ends[] = {p, s};
  for (int i = 0; i < 2; i++) {
    int out = ends[i][1], in = ends[i][0];
    fcntl(in, F_SETFL, O_RDWR | O_NONBLOCK), fcntl(out, F_SETFL, O_RDWR | O_NONBLOCK);
    while (read(in, big, sizeof big) > 0);
    answer("nothing there", read(in, b, 8));
    answer("some", write(out, "abc", 3));
    answer("some", read(in, b, 8));
    if (unseen(SYS_fcntl, in, F_SETFL, O_RDWR)) exit(9);
    answer("waits", read(in, b, 8));
    answer("waits, in pieces", readv(in, &v, 1));
    fcntl(in, F_SETFL, O_RDWR | O_NONBLOCK);
    while (write(out, big, 4096) > 0);
    answer("no room", write(out, big, 4096));
    if (unseen(SYS_fcntl, out, F_SETFL, O_RDWR)) exit(9);
    answer("waits for room", write(out, big, 4096));
    fcntl(out, F_SETFL, O_RDWR | O_NONBLOCK);
  }
  answer("nothing to send", recv(s[1], b, 8, 0));
  if (unseen(SYS_fcntl, s[1], F_SETFL, O_RDWR)) exit(9);
  answer("receives", recv(s[1], b, 8, 0));
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  fcntl(s[1], F_SETFL, O_RDWR | O_NONBLOCK);
  answer("no message", recvmsg(s[1], &m, 0));
  if (unseen(SYS_fcntl, s[1], F_SETFL, O_RDWR)) exit(9);
  answer("waits for one", recvmsg(s[1], &m, 0));
  off_t at = 0;
  fd = file();
  fcntl(s[1], F_SETFL, O_RDWR | O_NONBLOCK);
  while (write(s[1], big, 4096) > 0);
  answer("no room for a file", sendfile(s[1], fd, &at, 16));
  if (unseen(SYS_fcntl, s[1], F_SETFL, O_RDWR)) exit(9);
  answer("waits for room for it", sendfile(s[1], fd, &at, 16));
  close(fd), close(p[0]), close(p[1]), close(s[0]), close(s[1]);
  /* What libc opens anew, inside of itself. */
  FILE *f = fopen(path, "r+");
  fd = fileno(f);
  answer("of the stream's file", read(fd, b, 1));
  if (mkfifo("waits.fifo", 0600) || !(f = freopen("waits.fifo", "r+", f))) exit(9);
  check("the same", fileno(f) == fd);
  answer("of a FIFO in its place", read(fd, b, 1));
  fclose(f), unlink("waits.fifo");
  struct itimerval none = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &none, NULL);
}

/* One thread waits; the others' calls go on. */
static void *waits(void *fd) {
  char b[4];
  ready = 1;
  return (void *)(long)read(*(int *)fd, b, 4);
}

static void others_go_on(void) {
  char b[16];
  int p[2], fd = file();
  pthread_t t;
  if (pipe2(p, O_NONBLOCK)) exit(9);
  answer("nothing yet", read(p[0], b, 4));
  if (unseen(SYS_fcntl, p[0], F_SETFL, O_RDONLY)) exit(9);
  struct timespec moment = {0, 5000000};
  ready = 0;
  pthread_create(&t, NULL, waits, &p[0]);
  while (!ready) sched_yield();
  nanosleep(&moment, NULL);
  long right = 0;
  for (int i = 0; i < 2000; i++) right += pread(fd, b, 16, 0) == 16;
  check("calls beside one that waits", right);
  check("who one is beside it", setuid(getuid()));
  if (write(p[1], "four", 4) != 4) exit(9);
  check("it ends", ends(t));
  close(fd), close(p[0]), close(p[1]);
}

static int zero_fd;
static int shares_memory(void *fd) {
  char b[16];
  for (int i = 0; i < 500; i++)
    if (pread(*(int *)fd, b, 16, 0) != 16) return 5;
  /* Its own files: the parent's stay what they are. */
  dup2(zero_fd, *(int *)fd);
  return pread(*(int *)fd, b, 16, 0) == 16 && !b[0] ? 3 : 4;
}

static int our_fd;
static void begins_anew(void) { _exit(shares_memory(&our_fd)); }

static void clones(void) {
  static char stack[1 << 16] __attribute__((aligned(16)));
  char b[16];
  int status, pidfd = -1, fd = file();
  for (int i = 0; i < 20; i++) {
    struct clone_args a = {.flags = CLONE_PIDFD, .pidfd = (long)&pidfd, .exit_signal = SIGCHLD};
    pid_t child = syscall(SYS_clone3, &a, sizeof a);
    if (child == 0) _exit(pread(fd, b, 16, 0) == 16 && !memcmp(b, "0123", 4) ? 3 : 4);
    siginfo_t how = {0};
    if (waitid(P_PIDFD, pidfd, &how, WEXITED) || how.si_status != 3) check("clone3", how.si_status);
    close(pidfd);
    if (pread(fd, b, 16, 0) != 16) check("after clone3", errno);
  }
  answer("clone3 of nowhere", syscall(SYS_clone3, (void *)64, sizeof(struct clone_args)));
  answer("clone3 of nothing", syscall(SYS_clone3, NULL, 0));
  int wrong = 0;
  our_fd = fd, zero_fd = open("/dev/zero", O_RDONLY);
  for (int i = 0; i < 6; i++) {
    /* Where the child returns to. */
    struct clone_args a = {.flags = CLONE_VM, .exit_signal = SIGCHLD, .stack = (long)stack};
    a.stack_size = sizeof stack - 16;
    *(void **)(stack + a.stack_size) = (void *)begins_anew;
    pid_t child = i % 2 ? clone(shares_memory, stack + sizeof stack, CLONE_VM | SIGCHLD, &fd)
                        : syscall(SYS_clone3, &a, sizeof a);
    for (int n = 0; n < 500; n++) wrong += pread(fd, b, 16, 0) != 16;
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 3) check("child in our memory", WEXITSTATUS(status));
    wrong += pread(fd, b, 16, 0) != 16 || b[0] != '0';
  }
  check("wrong beside a child in our memory", wrong);
}

int main(void) {
  setvbuf(stdout, NULL, _IONBF, 0);
  vectors();
  cancelled();
  hidden_changes();
  others_go_on();
  clones();
  unlink(path);
  return 5;
}
