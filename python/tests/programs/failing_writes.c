/* Lets the n-th call that changes files below a folder fail, or ends the process there.
 *
 *     LD_PRELOAD=this FAILING_BELOW=/folder FAILING_LOG=/calls FAILING_AT=3 FAILING_HOW=full halfwink
 *
 * Each such call adds a line to the log: its name and its path. With FAILING_AT=0 none fails.
 * `full` is ENOSPC without any effect; `killed` is SIGKILL, after half of the bytes of a write.
 * Processes of one command count together: the log is locked while a call is counted.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum fate { GOES_ON, FULL, KILLED };

static int is_below(const char *path) {
    const char *folder = getenv("FAILING_BELOW");
    size_t length = folder ? strlen(folder) : 0;
    return length && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

/* Counts a call, and says what becomes of it. Only system calls, which are not counted again. */
static enum fate count(const char *name, const char *path) {
    if (!is_below(path) || !getenv("FAILING_LOG")) return GOES_ON;
    int log = syscall(SYS_openat, AT_FDCWD, getenv("FAILING_LOG"),
                      O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (log < 0) return GOES_ON;
    while (flock(log, LOCK_EX)) {
    }
    char text[PATH_MAX + 32];
    long lines = 1;
    for (ssize_t got; (got = read(log, text, sizeof text)) > 0;)
        for (ssize_t n = 0; n < got; n++) lines += text[n] == '\n';
    int length = snprintf(text, sizeof text, "%s %s\n", name, path);
    syscall(SYS_write, log, text, length);
    syscall(SYS_close, log);
    const char *at = getenv("FAILING_AT"), *how = getenv("FAILING_HOW");
    if (!at || !how || lines != atol(at)) return GOES_ON;
    return strcmp(how, "killed") ? FULL : KILLED;
}

static enum fate of_path(const char *name, int folder, const char *path) {
    char whole[2 * PATH_MAX] = "";
    if (path[0] != '/') {
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(folder == AT_FDCWD ? "/proc/self/cwd" : link, whole, PATH_MAX);
        if (length < 0) return GOES_ON;
        whole[length] = 0;
        if (path[0]) strcat(whole, "/");
    }
    strncat(whole, path, PATH_MAX - 1);
    return count(name, whole);
}

static enum fate of_file(const char *name, int file) {
    return getenv("FAILING_BELOW") ? of_path(name, file, "") : GOES_ON;
}

/* Ends a call that is not made. */
static int ends(enum fate fate) {
    if (fate == KILLED) {
        kill(getpid(), SIGKILL);
        pause();
    }
    errno = ENOSPC;
    return -1;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPENS(name, folder, ...)                                                   \
    mode_t mode = 0;                                                               \
    if (flags & (O_CREAT | __O_TMPFILE)) {                                         \
        va_list rest;                                                              \
        va_start(rest, flags);                                                     \
        mode = va_arg(rest, mode_t);                                               \
        va_end(rest);                                                              \
    }                                                                              \
    if (flags & (O_CREAT | O_TRUNC)) {                                             \
        enum fate fate = of_path("open", folder, path);                            \
        if (fate != GOES_ON) return ends(fate);                                    \
    }                                                                              \
    return NEXT(name)(__VA_ARGS__, flags, mode);

int open(const char *path, int flags, ...) { OPENS(open, AT_FDCWD, path) }
int open64(const char *path, int flags, ...) { OPENS(open64, AT_FDCWD, path) }
int openat(int folder, const char *path, int flags, ...) { OPENS(openat, folder, folder, path) }
int openat64(int folder, const char *path, int flags, ...) { OPENS(openat64, folder, folder, path) }

ssize_t write(int file, const void *bytes, size_t size) {
    enum fate fate = of_file("write", file);
    if (fate == KILLED) NEXT(write)(file, bytes, size / 2);
    if (fate != GOES_ON) return ends(fate);
    return NEXT(write)(file, bytes, size);
}

ssize_t writev(int file, const struct iovec *parts, int number) {
    enum fate fate = of_file("write", file);
    if (fate == KILLED) NEXT(writev)(file, parts, number / 2);
    if (fate != GOES_ON) return ends(fate);
    return NEXT(writev)(file, parts, number);
}

ssize_t pwrite64(int file, const void *bytes, size_t size, off64_t at) {
    enum fate fate = of_file("write", file);
    if (fate == KILLED) NEXT(pwrite64)(file, bytes, size / 2, at);
    if (fate != GOES_ON) return ends(fate);
    return NEXT(pwrite64)(file, bytes, size, at);
}

#define OF_FILE(name, type, parameters, ...)                                       \
    type name parameters {                                                         \
        enum fate fate = of_file(#name, file);                                     \
        if (fate != GOES_ON) return ends(fate);                                    \
        return NEXT(name)(__VA_ARGS__);                                            \
    }

OF_FILE(fsync, int, (int file), file)
OF_FILE(fdatasync, int, (int file), file)
OF_FILE(sendfile64, ssize_t, (int file, int from, off64_t *at, size_t size), file, from, at, size)

ssize_t copy_file_range(int from, off64_t *at, int file, off64_t *to, size_t size, unsigned flags) {
    enum fate fate = of_file("copy_file_range", file);
    if (fate != GOES_ON) return ends(fate);
    return NEXT(copy_file_range)(from, at, file, to, size, flags);
}

int rename(const char *from, const char *path) {
    enum fate fate = of_path("rename", AT_FDCWD, path);
    if (fate != GOES_ON) return ends(fate);
    return NEXT(rename)(from, path);
}

int renameat(int old, const char *from, int folder, const char *path) {
    enum fate fate = of_path("rename", folder, path);
    if (fate != GOES_ON) return ends(fate);
    return NEXT(renameat)(old, from, folder, path);
}

int link(const char *from, const char *path) {
    enum fate fate = of_path("link", AT_FDCWD, path);
    if (fate != GOES_ON) return ends(fate);
    return NEXT(link)(from, path);
}

int mkdir(const char *path, mode_t mode) {
    struct stat found;
    /* A folder that is there takes no room. */
    enum fate fate = stat(path, &found) ? of_path("mkdir", AT_FDCWD, path) : GOES_ON;
    if (fate != GOES_ON) return ends(fate);
    return NEXT(mkdir)(path, mode);
}
