/* Harness of programs that are timed on a machine and were recorded: halfwink calibrate host.
 *
 *     programs NAME [REPEATS [HUGE]]
 *
 * Each does the same work again and again. The first time is not timed: it leaves the caches as
 * every later one finds them. Printed are the least ticks of the time-stamp counter that a
 * repetition took, the least nanoseconds of this CPU's that it was given (right where others run
 * in between, coarser where it is short), and a checksum, which must be the same each time. HUGE is
 * 1 for memory in huge pages. A recording takes what lies between the marks of the first timed
 * repetition.
 *
 * Nothing of a C library is used, so that the same few kilobytes run on every x86-64 Linux: with
 * -DALONE there is none (workloads/host/make.sh), else there is one around it. A file of programs
 * includes this one first, and harness_main.h behind its table of programs. */
#include <stddef.h>
#include <stdint.h>
#include "mark.h"

static void stop_recording(void) {
    __asm__ volatile(".byte 0x0f, 0x1f, 0x80, 2, 0x48, 0x57, 0x54" ::: "memory");
}

static long ask(long call, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(call)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return call;
}

enum { WRITE = 1, MMAP = 9, MADVISE = 28, CLOCK_GETTIME = 228, EXIT_GROUP = 231 };

static void say(int to, const char *text) {
    size_t length = 0;
    while (text[length])
        length++;
    ask(WRITE, to, (long)text, (long)length, 0, 0, 0);
}

static void say_number(uint64_t number) {
    char text[24], *at = text + sizeof text - 1;
    *at = 0;
    do
        *--at = (char)('0' + number % 10);
    while (number /= 10);
    say(1, at);
}

static void stop(int status) { ask(EXIT_GROUP, status, 0, 0, 0, 0, 0); }

static uint64_t ticks(void) {
    uint32_t low, high;
    __asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
}

static uint64_t cpu_ns(void) {
    /* CLOCK_THREAD_CPUTIME_ID */
    int64_t time[2] = {0, 0};
    ask(CLOCK_GETTIME, 3, (long)time, 0, 0, 0, 0);
    return (uint64_t)(1000000000 * time[0] + time[1]);
}

#ifdef ALONE
/* Compilers write calls of it. */
void *memset(void *to, int value, size_t count) {
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(count) : "a"(value) : "memory");
    return to;
}
#endif

static int huge;

/* MAP_PRIVATE | MAP_ANONYMOUS, PROT_READ | PROT_WRITE; zero, as all memory from the kernel. */
static void *memory(size_t bytes) {
    size_t step = 2u << 20, whole = (bytes + step - 1) / step * step;
    long got = ask(MMAP, 0, (long)(whole + step), 3, 0x22, -1, 0);
    if (got < 0 && got > -4096) {
        say(2, "no memory\n");
        stop(1);
    }
    char *at = (char *)(((uintptr_t)got + step - 1) / step * step);
    /* MADV_HUGEPAGE, MADV_NOHUGEPAGE */
    ask(MADVISE, (long)at, (long)whole, huge ? 14 : 15, 0, 0, 0);
    for (size_t n = 0; n < bytes; n += 4096)
        *(volatile char *)(at + n) = 0;
    return at;
}

/* xorshift64* (Vigna 2016) */
static uint64_t state = 0x9e3779b97f4a7c15;

static uint64_t draw(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1d;
}

static uint64_t below(uint64_t bound) { return (uint64_t)(((__uint128_t)draw() * bound) >> 64); }

/* A program: its name, what prepares its memory, and its work, which returns a checksum. */
struct program {
    const char *name;
    void (*set)(void);
    uint64_t (*work)(void);
};
