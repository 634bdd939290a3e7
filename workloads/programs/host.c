/* Small programs with whose errors in view mechanisms of the chip were chosen. Those of
 * held_out.c were not looked at meanwhile. See harness.h. */
#include "harness.h"

/* What programs work on. */
static uint64_t *words, *more;
static uint32_t *numbers, *table;
static uint8_t *bytes, *other;
static double *reals, *results;
static size_t many;

/* Integer arithmetic in one chain: a hash of 64 bits. */
static void set_hash(void) {
    many = 15000;
    words = memory(4096);
    for (int n = 0; n < 512; n++)
        words[n] = draw();
}

static uint64_t hash(void) {
    uint64_t h = 14695981039346656037u;
    for (size_t n = 0; n < many; n++) {
        h = (h ^ words[n & 511]) * 1099511628211u;
        h ^= h >> 29;
    }
    return h;
}

/* Integer arithmetic in independent chains: rounds of ChaCha (Bernstein 2008). */
static void set_chacha(void) { many = 2000; }

#define TURN(x, n) ((x) << (n) | (x) >> (32 - (n)))
#define QUARTER(a, b, c, d) \
    a += b, d = TURN(d ^ a, 16), c += d, b = TURN(b ^ c, 12), a += b, d = TURN(d ^ a, 8), c += d, \
    b = TURN(b ^ c, 7)

static uint64_t chacha(void) {
    uint32_t x[16];
    for (uint32_t n = 0; n < 16; n++)
        x[n] = n * 0x61707865;
    for (size_t n = 0; n < many; n++) {
        QUARTER(x[0], x[4], x[8], x[12]);
        QUARTER(x[1], x[5], x[9], x[13]);
        QUARTER(x[2], x[6], x[10], x[14]);
        QUARTER(x[3], x[7], x[11], x[15]);
    }
    uint64_t sum = 0;
    for (int n = 0; n < 16; n++)
        sum += x[n];
    return sum;
}

/* A product of matrices of 40 by 40: floating point, in the first cache. */
#define SIDE 40

static void set_matrix(void) {
    reals = memory(2 * SIDE * SIDE * 8);
    results = memory(SIDE * SIDE * 8);
    for (int n = 0; n < 2 * SIDE * SIDE; n++)
        reals[n] = (double)below(1000) / 1000;
}

static uint64_t matrix(void) {
    const double *a = reals, *b = reals + SIDE * SIDE;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            double sum = 0;
            for (int k = 0; k < SIDE; k++)
                sum += a[i * SIDE + k] * b[k * SIDE + j];
            results[i * SIDE + j] = sum;
        }
    return (uint64_t)(1000 * results[SIDE + 1]);
}

/* Bodies that attract each other: square roots and divisions. */
#define BODIES 64

static void set_bodies(void) {
    reals = memory(7 * BODIES * 8);
    for (int n = 0; n < 4 * BODIES; n++)
        reals[n] = 1 + (double)below(1000) / 100;
}

static uint64_t bodies(void) {
    const double *x = reals, *y = x + BODIES, *z = y + BODIES, *m = z + BODIES;
    double *f = reals + 4 * BODIES;
    for (int i = 0; i < BODIES; i++) {
        double fx = 0, fy = 0, fz = 0;
        for (int j = 0; j < BODIES; j++) {
            double dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
            double square = dx * dx + dy * dy + dz * dz + 0.01, root;
            __asm__("sqrtsd %1, %0" : "=x"(root) : "x"(square));
            double pull = m[j] / (square * root);
            fx += pull * dx, fy += pull * dy, fz += pull * dz;
        }
        f[3 * i] = fx, f[3 * i + 1] = fy, f[3 * i + 2] = fz;
    }
    return (uint64_t)(1000 * f[5]);
}

/* A heap sort of 1200 numbers: branches that nobody foresees. */
static void set_sort(void) {
    many = 1200;
    numbers = memory(8 * many);
    for (size_t n = 0; n < many; n++)
        numbers[n] = (uint32_t)draw();
}

static void sink(uint32_t *heap, size_t at, size_t size) {
    uint32_t value = heap[at];
    for (size_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && heap[child] < heap[child + 1])
            child++;
        if (heap[child] <= value)
            break;
        heap[at] = heap[child];
    }
    heap[at] = value;
}

static uint64_t sort(void) {
    uint32_t *heap = numbers + many;
    for (size_t n = 0; n < many; n++)
        heap[n] = numbers[n];
    for (size_t n = many / 2; n-- > 0;)
        sink(heap, n, many);
    for (size_t n = many; n-- > 1;) {
        uint32_t last = heap[n];
        heap[n] = heap[0], heap[0] = last;
        sink(heap, 0, n);
    }
    return heap[many / 2];
}

/* Searches in a sorted table of 128 KB, by branches. */
static void set_search(void) {
    many = 32768;
    numbers = memory(4 * many);
    table = memory(4 * 2000);
    for (size_t n = 0; n < many; n++)
        numbers[n] = (uint32_t)(2 * n);
    for (int n = 0; n < 2000; n++)
        table[n] = (uint32_t)below(2 * many);
}

static uint64_t search(void) {
    uint64_t found = 0;
    for (int n = 0; n < 2000; n++) {
        size_t low = 0, high = many;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (numbers[middle] < table[n])
                low = middle + 1;
            else
                high = middle;
        }
        found += low;
    }
    return found;
}

/* Walks through memory from pointer to pointer, a line each. */
static void set_walk(size_t size, size_t steps) {
    size_t lines = size / 64;
    words = memory(size);
    uint32_t *order = memory(4 * lines);
    for (size_t n = 0; n < lines; n++)
        order[n] = (uint32_t)n;
    for (size_t n = lines; n-- > 1;) {
        size_t with = below(n + 1);
        uint32_t last = order[n];
        order[n] = order[with], order[with] = last;
    }
    for (size_t n = 0; n < lines; n++)
        words[8 * order[n]] = 8 * order[(n + 1) % lines];
    many = steps;
}

static void set_walk_l1(void) { set_walk(16 << 10, 20000); }
static void set_walk_l2(void) { set_walk(256 << 10, 20000); }
static void set_walk_l3(void) { set_walk(2560 << 10, 81920); }
static void set_walk_memory(void) { set_walk(8 << 20, 1 << 17); }

static uint64_t walk(void) {
    uint64_t at = 0;
    for (size_t n = 0; n < many; n++)
        at = words[at];
    return at;
}

/* Sums of lines that lie anywhere in 32 MB, independent of each other. */
static void set_gather(void) {
    many = 60000;
    size_t lines = (32u << 20) / 64;
    words = memory(32u << 20);
    table = memory(4 * many);
    for (size_t n = 0; n < many; n++)
        table[n] = (uint32_t)(8 * below(lines));
}

static uint64_t gather(void) {
    uint64_t sum = 0;
    for (size_t n = 0; n < many; n++)
        sum += words[table[n]];
    return sum;
}

/* STREAM's triad (McCalpin 1995) in arrays of so many bytes. */
static void set_triad(size_t size) {
    many = size / 8;
    reals = memory(2 * size);
    results = memory(size);
    for (size_t n = 0; n < 2 * many; n++)
        reals[n] = (double)(n & 255);
}

static void set_triad_l2(void) { set_triad(96 << 10); }
static void set_triad_memory(void) { set_triad(3 << 19); }

static uint64_t triad(void) {
    const double *a = reals, *b = reals + many;
    for (size_t n = 0; n < many; n++)
        results[n] = a[n] + 3 * b[n];
    return (uint64_t)results[many / 2];
}

/* A count of bytes: loads of what was just stored. */
static void set_count(void) {
    many = 20000;
    bytes = memory(many);
    table = memory(4 * 256);
    for (size_t n = 0; n < many; n++)
        bytes[n] = (uint8_t)(below(256) & below(256));
}

static uint64_t count(void) {
    for (int n = 0; n < 256; n++)
        table[n] = 0;
    for (size_t n = 0; n < many; n++)
        table[bytes[n]]++;
    return table[0];
}

/* CRC-32 by table: a chain through the first cache. */
static void set_crc(void) {
    many = 20000;
    bytes = memory(many);
    table = memory(4 * 256);
    for (size_t n = 0; n < many; n++)
        bytes[n] = (uint8_t)draw();
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t c = n;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? 0xedb88320 ^ c >> 1 : c >> 1;
        table[n] = c;
    }
}

static uint64_t crc(void) {
    uint32_t c = ~0u;
    for (size_t n = 0; n < many; n++)
        c = table[(c ^ bytes[n]) & 255] ^ c >> 8;
    return ~c;
}

/* An interpreter of invented code: indirect jumps. */
static void set_interpret(void) {
    many = 4096;
    bytes = memory(many);
    for (size_t n = 0; n < many; n++)
        bytes[n] = (uint8_t)below(8);
}

static uint64_t interpret(void) {
    uint64_t a = 1, b = 2, c = 3;
    for (int round = 0; round < 4; round++)
        for (size_t at = 0; at < many; at++)
            switch (bytes[at]) {
            case 0: a += b; break;
            case 1: b ^= a; break;
            case 2: c = a * 5 + c; break;
            case 3: a = c >> 3; break;
            case 4: b += c & 15; break;
            case 5: c -= b; break;
            case 6: a ^= c << 2; break;
            default: b = a - c; break;
            }
    return a + b + c;
}

/* Compression: the last place with the same hash, and how far it agrees. */
static void set_compress(void) {
    many = 22000;
    bytes = memory(many + 8);
    table = memory(4 * 4096);
    static const char *word[] = {"the ", "server ", "waits ", "for ", "a ", "line ", "of ", "cache, "};
    for (size_t n = 0; n < many;)
        for (const char *c = word[below(8)]; *c && n < many; c++)
            bytes[n++] = (uint8_t)*c;
}

static uint64_t compress(void) {
    uint64_t matched = 0;
    for (int n = 0; n < 4096; n++)
        table[n] = 0;
    for (size_t n = 0; n + 4 < many;) {
        uint32_t four;
        __builtin_memcpy(&four, bytes + n, 4);
        uint32_t *last = &table[four * 2654435761u >> 20];
        size_t from = *last, length = 0;
        *last = (uint32_t)n;
        while (from < n && n + length < many && bytes[from + length] == bytes[n + length])
            length++;
        matched += length >= 4 ? length : 0;
        n += length >= 4 ? length : 1;
    }
    return matched;
}

/* Look-ups in a hash table of 1 MB, half of them in vain. */
#define SLOTS (1 << 17)

static void set_lookup(void) {
    many = 20000;
    words = memory(8 * SLOTS);
    more = memory(8 * many);
    for (int n = 0; n < SLOTS / 2; n++) {
        uint64_t key = draw() | 1, at = key * 0x9e3779b97f4a7c15 >> 47;
        while (words[at])
            at = (at + 1) & (SLOTS - 1);
        words[at] = key;
        if ((size_t)n < many)
            more[n] = n & 1 ? key : draw() | 1;
    }
}

static uint64_t lookup(void) {
    uint64_t found = 0;
    for (size_t n = 0; n < many; n++) {
        uint64_t at = more[n] * 0x9e3779b97f4a7c15 >> 47;
        while (words[at] && words[at] != more[n])
            at = (at + 1) & (SLOTS - 1);
        found += words[at] == more[n];
    }
    return found;
}

/* A five-point stencil over 260 KB. */
#define GRID 180

static void set_stencil(void) {
    reals = memory(GRID * GRID * 8);
    results = memory(GRID * GRID * 8);
    for (int n = 0; n < GRID * GRID; n++)
        reals[n] = (double)below(100);
}

static uint64_t stencil(void) {
    for (int i = 1; i < GRID - 1; i++)
        for (int j = 1; j < GRID - 1; j++) {
            const double *at = reals + i * GRID + j;
            results[i * GRID + j] = 0.5 * at[0] + 0.125 * (at[-1] + at[1] + at[-GRID] + at[GRID]);
        }
    return (uint64_t)(1000 * results[GRID + 1]);
}

/* Primes below 50,000. */
static void set_sieve(void) {
    many = 50000;
    bytes = memory(many);
}

static uint64_t sieve(void) {
    uint64_t primes = 0;
    for (size_t n = 0; n < many; n++)
        bytes[n] = 1;
    for (size_t n = 2; n < many; n++)
        if (bytes[n]) {
            primes++;
            for (size_t k = n * n; k < many; k += n)
                bytes[k] = 0;
        }
    return primes;
}

/* Calls: ways through a tree. */
static void set_calls(void) { many = 20; }

static __attribute__((noinline)) uint64_t ways(uint64_t n) {
    if (n < 2)
        return n;
    uint64_t a = ways(n - 1);
    __asm__ volatile("" : "+r"(a));
    return a + ways(n - 2);
}

static uint64_t calls(void) { return ways(many); }

/* Distances of words: dynamic programming with minima. */
static void set_align(void) {
    many = 160;
    bytes = memory(many);
    other = memory(many);
    numbers = memory(8 * (many + 1));
    for (size_t n = 0; n < many; n++)
        bytes[n] = (uint8_t)below(4), other[n] = (uint8_t)below(4);
}

static uint64_t align(void) {
    uint32_t *above = numbers, *row = numbers + many + 1;
    for (size_t j = 0; j <= many; j++)
        above[j] = (uint32_t)j;
    for (size_t i = 0; i < many; i++) {
        row[0] = (uint32_t)i + 1;
        for (size_t j = 0; j < many; j++) {
            uint32_t best = above[j] + (bytes[i] != other[j]);
            best = best < above[j + 1] + 1 ? best : above[j + 1] + 1;
            row[j + 1] = best < row[j] + 1 ? best : row[j] + 1;
        }
        uint32_t *last = above;
        above = row, row = last;
    }
    return above[many];
}

static const struct program programs[] = {
    {"hash", set_hash, hash},
    {"chacha", set_chacha, chacha},
    {"matrix", set_matrix, matrix},
    {"bodies", set_bodies, bodies},
    {"sort", set_sort, sort},
    {"search", set_search, search},
    {"count", set_count, count},
    {"crc", set_crc, crc},
    {"interpret", set_interpret, interpret},
    {"compress", set_compress, compress},
    {"sieve", set_sieve, sieve},
    {"calls", set_calls, calls},
    {"align", set_align, align},
    {"stencil", set_stencil, stencil},
    {"lookup", set_lookup, lookup},
    {"triad-288k", set_triad_l2, triad},
    {"triad-4608k", set_triad_memory, triad},
    {"walk-16k", set_walk_l1, walk},
    {"walk-256k", set_walk_l2, walk},
    {"walk-2560k", set_walk_l3, walk},
    {"walk-8m", set_walk_memory, walk},
    {"gather", set_gather, gather},
};
#include "harness_main.h"
