/* What may go wrong when another thread makes a program's calls. Each case prints what it saw; the
   output must be the same with and without delegation. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[] = "hazards.tmp";

static void check(const char *what, long got) { printf("%s: %ld\n", what, got); }

static int file(void) {
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (fd < 0) exit(9);
  return fd;
}

static void errors(void) {
  char b[8];
  errno = 77;
  check("read of a bad descriptor", read(999, b, 8));
  check("errno", errno);
  check("open of nothing", open("no/such/file", O_RDONLY));
  check("errno", errno);
  int fd = file();
  check("write", write(fd, "12345678", 8));
  check("read into nowhere", pread(fd, (void *)8, 8, 0));
  check("errno", errno);
  struct stat s;
  check("stat", stat(path, &s) == 0 ? s.st_size : -1);
  check("fstat", fstat(fd, &s) == 0 ? s.st_size : -1);
  struct iovec v[2] = {{b, 3}, {b + 3, 5}};
  check("readv", lseek(fd, 0, SEEK_SET) + readv(fd, v, 2));
  check("bytes", memcmp(b, "12345678", 8));
  check("close", close(fd));
  check("read after close", read(fd, b, 8));
  check("errno", errno);
}

/* A descriptor changes what it is, over and over. */
static void natures(void) {
  char b[64];
  for (int round = 0; round < 50; round++) {
    int fd = file(), p[2];
    if (write(fd, "abc", 3) != 3 || pipe(p)) exit(9);
    dup2(p[0], fd);
    if (write(p[1], "xyz", 3) != 3) exit(9);
    if (read(fd, b, 64) != 3 || memcmp(b, "xyz", 3)) check("wrong bytes", round);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    if (read(fd, b, 64) != -1 || errno != EAGAIN) check("wrong end", errno);
    close(fd), close(p[0]), close(p[1]);
  }
  int s[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, s)) exit(9);
  check("nothing to receive", recv(s[0], b, 64, MSG_DONTWAIT));
  check("errno", errno);
  check("send", send(s[1], "hello", 5, MSG_DONTWAIT));
  check("recv", recv(s[0], b, 64, MSG_DONTWAIT));
  int fd = file();
  if (write(fd, "0123456789", 10) != 10) exit(9);
  off_t at = 2;
  fcntl(s[1], F_SETFL, O_NONBLOCK);
  check("sendfile", sendfile(s[1], fd, &at, 5));
  check("recv", recv(s[0], b, 64, 0));
  check("bytes", memcmp(b, "23456", 5));
  struct pollfd f = {s[0], POLLIN, 0};
  check("poll", poll(&f, 1, 0));
  check("poll and wait", poll(&f, 1, 20));
}

static volatile sig_atomic_t broken, rung;
static void on_pipe(int n) { broken = n; }

static void pipes(void) {
  int p[2];
  signal(SIGPIPE, on_pipe);
  if (pipe2(p, O_NONBLOCK)) exit(9);
  close(p[0]);
  check("write to nobody", write(p[1], "x", 1));
  check("errno", errno);
  check("signal", broken);
  signal(SIGXFSZ, on_pipe);
  struct rlimit old, l;
  getrlimit(RLIMIT_FSIZE, &old);
  l = old;
  l.rlim_cur = 4;
  setrlimit(RLIMIT_FSIZE, &l);
  int fd = file();
  check("write to the limit", write(fd, "1234567", 7));
  check("write beyond", write(fd, "8", 1));
  check("errno", errno);
  check("signal", broken);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGPIPE, SIG_DFL);
}

/* A handler that makes calls interrupts calls, thousands of times. */
static int ring_fd;
static void on_alarm(int n) {
  char b[16];
  int before = errno;
  (void)n;
  if (pread(ring_fd, b, 16, 0) == 16 && !memcmp(b, "handlers handler", 16)) rung++;
  errno = before;
}

static void handlers(void) {
  char b[4096], want[4096];
  memset(want, 'w', sizeof want);
  ring_fd = file();
  if (write(ring_fd, "handlers handler", 16) != 16) exit(9);
  if (pwrite(ring_fd, want, sizeof want, 4096) != sizeof want) exit(9);
  struct sigaction a = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &a, NULL);
  struct itimerval t = {{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &t, NULL);
  long wrong = 0;
  for (int i = 0; i < 100000 && rung < 300; i++) {
    memset(b, 0, 64);
    if (pread(ring_fd, b, 4096, 4096) != 4096 || memcmp(b, want, 4096)) wrong++;
  }
  memset(&t, 0, sizeof t);
  setitimer(ITIMER_REAL, &t, NULL);
  check("wrong answers beside handlers", wrong);
  check("handlers ran", rung > 0);
}

static sigjmp_buf away;
static void on_jump(int n) {
  (void)n;
  siglongjmp(away, 1);
}

/* A handler jumps out of calls. */
static void jumps(void) {
  static char b[1 << 16];
  struct sigaction a = {.sa_handler = on_jump, .sa_flags = SA_NODEFER};
  sigaction(SIGALRM, &a, NULL);
  volatile int jumped = 0;
  volatile long wrong = 0;
  int fd = file();
  memset(b, 'j', sizeof b);
  if (write(fd, b, sizeof b) != sizeof b) exit(9);
  for (volatile int i = 0; i < 200; i++) {
    if (sigsetjmp(away, 1)) {
      jumped++;
      char c[8];
      if (pread(fd, c, 8, 8) != 8 || memcmp(c, "jjjjjjjj", 8)) wrong++;
      continue;
    }
    struct itimerval t = {{0, 0}, {0, 100}};
    setitimer(ITIMER_REAL, &t, NULL);
    for (;;)
      if (pread(fd, b, sizeof b, 0) != sizeof b) wrong++;
  }
  check("jumped", jumped);
  check("wrong after jumps", wrong);
}

/* A blocking read is interrupted by a handler, as ever. */
static void on_nothing(int n) { (void)n; }
static void interrupted(void) {
  int p[2];
  char b[8];
  struct sigaction a = {.sa_handler = on_nothing};
  sigaction(SIGALRM, &a, NULL);
  if (pipe(p)) exit(9);
  struct itimerval t = {{0, 0}, {0, 20000}};
  setitimer(ITIMER_REAL, &t, NULL);
  check("interrupted read", read(p[0], b, 8));
  check("errno", errno);
}

static void *hammer(void *arg) {
  long id = (long)arg, wrong = 0;
  char name[32], b[512], want[512];
  snprintf(name, sizeof name, "hazards.%ld", id);
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  for (long i = 0; i < 2000; i++) {
    memset(want, 'a' + (id + i) % 26, sizeof want);
    if (pwrite(fd, want, sizeof want, 0) != sizeof want) wrong++;
    if (pread(fd, b, sizeof b, 0) != sizeof b || memcmp(b, want, sizeof b)) wrong++;
    errno = 0;
    if (read(-1 - id, b, 1) != -1 || errno != EBADF) wrong++;
  }
  close(fd), unlink(name);
  return (void *)wrong;
}

static void threads(void) {
  pthread_t t[8];
  long wrong = 0;
  for (int round = 0; round < 3; round++) {
    for (long i = 0; i < 8; i++) pthread_create(&t[i], NULL, hammer, (void *)i);
    for (int i = 0; i < 8; i++) {
      void *r;
      pthread_join(t[i], &r);
      wrong += (long)r;
    }
  }
  check("wrong in threads", wrong);
}

static volatile int cleaned;
static void cleanup(void *p) { cleaned = *(int *)p; }
static void *waits(void *arg) {
  int seven = 7;
  char b[8];
  pthread_cleanup_push(cleanup, &seven);
  if (read(*(int *)arg, b, 8) < 0) check("read failed", errno);
  pthread_cleanup_pop(0);
  return NULL;
}

static void cancelled(void) {
  int p[2];
  pthread_t t;
  void *r;
  if (pipe(p)) exit(9);
  pthread_create(&t, NULL, waits, &p[0]);
  usleep(20000);
  pthread_cancel(t);
  pthread_join(t, &r);
  check("cancelled", r == PTHREAD_CANCELED);
  check("cleaned up", cleaned);
}

static void families(void) {
  int status, fd = file();
  char b[8];
  if (write(fd, "family!!", 8) != 8) exit(9);
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) {
      pid_t grandchild = fork();
      if (grandchild == 0) _exit(pread(fd, b, 8, 0) == 8 && !memcmp(b, "family!!", 8) ? 3 : 4);
      waitpid(grandchild, &status, 0);
      _exit(pread(fd, b, 8, 0) + WEXITSTATUS(status));
    }
    if (pread(fd, b, 8, 0) != 8) check("parent's read", i);
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 11) check("child", WEXITSTATUS(status));
  }
  /* A vfork child opens and closes; its parent's files stay as they were. */
  for (int i = 0; i < 20; i++) {
    pid_t child = vfork();
    if (child == 0) {
      int other = open("/dev/null", O_WRONLY);
      dup2(other, fd);
      close(other);
      if (write(fd, "gone", 4) != 4) _exit(5);
      execl("/bin/true", "true", (char *)NULL);
      _exit(6);
    }
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status)) check("vfork child", WEXITSTATUS(status));
    if (pread(fd, b, 8, 0) != 8 || memcmp(b, "family!!", 8)) check("after vfork", i);
  }
  check("vfork that fails to run", ({
          pid_t c = vfork();
          if (c == 0) {
            execl("/no/such/program", "x", (char *)NULL);
            _exit(42);
          }
          waitpid(c, &status, 0);
          WEXITSTATUS(status);
        }));
  FILE *f = popen("echo popen; exit 3", "r");
  check("popen", fread(b, 1, 8, f));
  check("pclose", WEXITSTATUS(pclose(f)));
  check("system", WEXITSTATUS(system("exit 4")));
}

static void credentials(void) {
  int fd = file();
  char b[4];
  if (write(fd, "cred", 4) != 4) exit(9);
  check("before", pread(fd, b, 4, 0));
  pid_t child = fork();
  if (child == 0) {
    if (pread(fd, b, 4, 0) != 4) _exit(1);
    if (geteuid() == 0 && (setgid(65534) || setuid(65534))) _exit(2);
    /* Only root may; a worker that has stayed root would. */
    int secret = open("/etc/shadow", O_RDONLY);
    if (secret >= 0) _exit(3);
    _exit(pread(fd, b, 4, 0) == 4 ? 0 : 4);
  }
  int status;
  waitpid(child, &status, 0);
  check("privileges dropped", WEXITSTATUS(status));
}

int main(int argc, char **argv) {
  (void)argv;
  setvbuf(stdout, NULL, _IONBF, 0);
  errors();
  natures();
  pipes();
  handlers();
  jumps();
  interrupted();
  threads();
  cancelled();
  families();
  credentials();
  unlink(path);
  if (argc > 1) { /* ends by a signal */
    fflush(stdout);
    raise(SIGKILL);
  }
  return 5;
}
