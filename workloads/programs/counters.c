// Two threads that add to counters of their own, in one line or apart: what a line costs that
// travels between cores. Prints the nanoseconds of an addition: the median of all rounds, of the
// slower thread in each.
//
//     gcc -O2 -pthread counters.c -o counters
//     ./counters atomic 8 20000 1000   # or plain; bytes between the counters; additions; rounds

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_ROUNDS 10000

static _Alignas(64) char counters[1024];
static _Alignas(64) atomic_int ready[MOST_ROUNDS];
static int is_atomic, distance, rounds;
static long additions;
static double took[2][MOST_ROUNDS];

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void *add(void *which) {
    long me = (long)which;
    // Where a process has one CPU only, both threads run there.
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(me, &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    char *counter = counters + me * distance;
    for (int round = 0; round < rounds; round++) {
        atomic_fetch_add(&ready[round], 1);
        while (atomic_load(&ready[round]) < 2) {}
        double begin = now();
        if (is_atomic) {
            for (long n = 0; n < additions; n++) atomic_fetch_add((atomic_long *)counter, 1);
        } else {
            volatile long *plain = (volatile long *)counter;
            for (long n = 0; n < additions; n++) *plain = *plain + 1;
        }
        took[me][round] = (now() - begin) / additions;
    }
    return NULL;
}

static int compare(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "expected: atomic or plain, bytes between, additions, rounds\n");
        return 2;
    }
    is_atomic = strcmp(words[1], "atomic") == 0;
    distance = atoi(words[2]);
    additions = atol(words[3]);
    rounds = atoi(words[4]);
    if (distance < 8 || distance > 960 || additions < 1 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "expected 8 to 960 bytes, 1 addition or more, 1 to %d rounds\n", MOST_ROUNDS);
        return 2;
    }
    pthread_t other;
    pthread_create(&other, NULL, add, (void *)1);
    add((void *)0);
    pthread_join(other, NULL);
    double slower[MOST_ROUNDS];
    for (int n = 0; n < rounds; n++) slower[n] = took[0][n] > took[1][n] ? took[0][n] : took[1][n];
    qsort(slower, rounds, sizeof *slower, compare);
    printf("%.2f ns\n", slower[rounds / 2]);
}
