/*
 * Executes the same instructions at the same addresses wherever it runs: freestanding, static, with
 * its stack and data at fixed places. So a recorded execution and one under Valgrind must have the
 * same cache misses. It writes, chases at random, recurses and streams. Compile with
 *   -O2 -static -nostdlib -ffreestanding -fno-pic -no-pie -fno-stack-protector
 *   -fno-tree-vectorize -fno-tree-loop-distribute-patterns
 */

/* halfwink's markers: recording begins at one and ends at the other. */
#define START ".byte 0x0f,0x1f,0x80,1,0x48,0x57,0x54\n"
#define STOP ".byte 0x0f,0x1f,0x80,2,0x48,0x57,0x54\n"

typedef unsigned long u64;

static u64 table[1 << 16];
static unsigned char bytes[1 << 18];
u64 stack[1 << 12] __attribute__((aligned(64)));

static void leave(int status)
{
    __asm__ volatile(STOP "mov $60, %%eax\n syscall" : : "D"((long)status) : "rax", "rcx", "r11");
    __builtin_unreachable();
}

static u64 next(u64 *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static u64 sieve(void)
{
    u64 primes = 0;
    for (u64 i = 2; i < sizeof bytes; i++) {
        if (bytes[i])
            continue;
        primes++;
        for (u64 j = i * 2; j < sizeof bytes; j += i)
            bytes[j]++;
    }
    return primes;
}

static void sort(u64 *a, long n)
{
    while (n > 1) {
        u64 pivot = a[n / 2];
        long i = 0, j = n - 1;
        while (i <= j) {
            while (a[i] < pivot) i++;
            while (a[j] > pivot) j--;
            if (i <= j) { u64 t = a[i]; a[i] = a[j]; a[j] = t; i++; j--; }
        }
        sort(a, j + 1);
        a += i;
        n -= i;
    }
}

void work(void)
{
    u64 x = 88172645463325252UL;
    for (u64 i = 0; i < 1 << 16; i++)
        table[i] = next(&x);
    u64 sum = sieve();
    for (int i = 0; i < 200000; i++)
        sum += table[next(&x) & 0xffff];
    sort(table, 1 << 14);
    for (u64 i = 1; i < 1 << 14; i++)
        if (table[i - 1] > table[i])
            leave(2);
    leave(sum == 0);
}

__asm__(".globl _start\n_start:\n" START " lea stack+32768(%rip), %rsp\n call work\n");
