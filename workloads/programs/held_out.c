/* Small programs whose errors were not looked at while mechanisms of the chip were chosen: they say
 * how wrong it is on programs that it was not made for. They were written, and recorded, before the
 * first of them was played. See harness.h. */
#include "harness.h"

static uint64_t *keys, *values;
static uint32_t *from, *to, *links;
static uint8_t *text, *out;
static double *real, *imaginary, *turns;
static size_t count;

#include "held_out_first.h"

/* Writes 30,000 bytes as letters. */
static void set_base64(void) {
    count = 30000;
    text = memory(count);
    out = memory(count / 3 * 4);
    for (size_t n = 0; n < count; n++)
        text[n] = (uint8_t)draw();
}

static uint64_t base64(void) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789+/";
    uint8_t *to = out;
    for (size_t n = 0; n < count; n += 3) {
        uint32_t three = (uint32_t)text[n] << 16 | (uint32_t)text[n + 1] << 8 | text[n + 2];
        *to++ = (uint8_t)letters[three >> 18];
        *to++ = (uint8_t)letters[three >> 12 & 63];
        *to++ = (uint8_t)letters[three >> 6 & 63];
        *to++ = (uint8_t)letters[three & 63];
    }
    return out[0] + out[count - 1];
}

/* Unpacks literals and copies of what came before, byte by byte. */
static void set_unpack(void) {
    count = 60000;
    text = memory(count);
    out = memory(count + 64);
    size_t made = 0, n = 0;
    while (made < count) {
        /* A literal of 1 to 8 bytes, or the length and distance of a copy. */
        if (made < 16 || below(3) == 0) {
            size_t length = 1 + below(8);
            text[n++] = (uint8_t)length;
            for (size_t k = 0; k < length; k++)
                text[n++] = (uint8_t)draw();
            made += length;
        } else {
            size_t length = 4 + below(24), distance = 1 + below(made < 4096 ? made : 4096);
            text[n++] = (uint8_t)(128 + length);
            text[n++] = (uint8_t)distance;
            text[n++] = (uint8_t)(distance >> 8);
            made += length;
        }
    }
}

static uint64_t unpack(void) {
    const uint8_t *at = text;
    uint8_t *to = out;
    while (to < out + count) {
        size_t token = *at++;
        if (token < 128)
            while (token--)
                *to++ = *at++;
        else {
            const uint8_t *back = to - (at[0] | at[1] << 8);
            at += 2;
            for (token -= 128; token--;)
                *to++ = *back++;
        }
    }
    return out[count - 1];
}

/* Multiplies numbers of 64 words. */
static void set_bigint(void) {
    keys = memory(8 * 64);
    values = memory(8 * 64);
    links = memory(8 * 128);
    for (int n = 0; n < 64; n++)
        keys[n] = draw(), values[n] = draw();
}

static uint64_t bigint(void) {
    uint64_t *product = (uint64_t *)(void *)links;
    for (int round = 0; round < 8; round++) {
        for (int n = 0; n < 128; n++)
            product[n] = 0;
        for (int i = 0; i < 64; i++) {
            uint64_t carry = 0;
            for (int j = 0; j < 64; j++) {
                __uint128_t now = (__uint128_t)keys[i] * values[j] + product[i + j] + carry;
                product[i + j] = (uint64_t)now;
                carry = (uint64_t)(now >> 64);
            }
            product[i + 64] = carry;
        }
    }
    return product[64];
}

/* Asks a Bloom filter of 128 KB for 20,000 keys, three bits each. */
static void set_bloom(void) {
    count = 20000;
    out = memory(128 << 10);
    values = memory(8 * count);
    for (size_t n = 0; n < count; n++) {
        values[n] = draw();
        if (n & 1)
            for (int k = 0; k < 3; k++) {
                uint32_t bit = (uint32_t)(values[n] >> (20 * k)) & ((1 << 20) - 1);
                out[bit >> 3] |= (uint8_t)(1 << (bit & 7));
            }
    }
}

static uint64_t bloom(void) {
    uint64_t found = 0;
    for (size_t n = 0; n < count; n++) {
        int all = 1;
        for (int k = 0; k < 3 && all; k++) {
            uint32_t bit = (uint32_t)(values[n] >> (20 * k)) & ((1 << 20) - 1);
            all = out[bit >> 3] >> (bit & 7) & 1;
        }
        found += (uint64_t)all;
    }
    return found;
}

/* Visits a graph of 4,096 nodes with eight edges each, breadth first. */
static void set_graph(void) {
    count = 4096;
    links = memory(4 * 8 * count);
    from = memory(4 * count);
    to = memory(4 * count);
    for (size_t n = 0; n < 8 * count; n++)
        links[n] = (uint32_t)below(count);
}

static uint64_t graph(void) {
    uint64_t sum = 0;
    for (size_t n = 0; n < count; n++)
        to[n] = ~0u;
    size_t head = 0, tail = 1;
    from[0] = 0, to[0] = 0;
    while (head < tail) {
        uint32_t node = from[head++];
        sum += to[node];
        for (size_t n = 8 * node; n < 8 * (size_t)node + 8; n++)
            if (to[links[n]] == ~0u) {
                to[links[n]] = to[node] + 1;
                from[tail++] = links[n];
            }
    }
    return sum;
}

/* A cache of 1,024 entries that forgets the one that was used least recently. */
struct entry {
    uint32_t key, before, after, chain;
};

static struct entry *entries;

static void set_lru(void) {
    count = 8000;
    entries = memory(1025 * sizeof *entries);
    links = memory(4 * 1024);
    values = memory(8 * count);
    for (size_t n = 0; n < count; n++)
        values[n] = below(2) ? below(600) : below(6000);
}

static uint64_t lru(void) {
    uint64_t hits = 0;
    for (uint32_t n = 0; n <= 1024; n++)
        entries[n] = (struct entry){~0u, n ? n - 1 : 1024, n < 1024 ? n + 1 : 0, 0};
    for (int n = 0; n < 1024; n++)
        links[n] = 0;
    for (size_t n = 0; n < count; n++) {
        uint32_t key = (uint32_t)values[n], slot = key * 2654435761u >> 22, at = links[slot];
        while (at && entries[at].key != key)
            at = entries[at].chain;
        if (at)
            hits++;
        else {
            at = entries[0].before;
            if (entries[at].key != ~0u) {
                uint32_t *link = &links[entries[at].key * 2654435761u >> 22];
                while (*link != at)
                    link = &entries[*link].chain;
                *link = entries[at].chain;
            }
            entries[at].key = key;
            entries[at].chain = links[slot];
            links[slot] = at;
        }
        entries[entries[at].before].after = entries[at].after;
        entries[entries[at].after].before = entries[at].before;
        entries[at].before = 0, entries[at].after = entries[0].after;
        entries[entries[0].after].before = at;
        entries[0].after = at;
    }
    return hits;
}

/* Finds a word in text by what its last letters allow to skip (Horspool 1980). */
static void set_find(void) {
    static const char *word[] = {"core ", "waits ",  "for ", "memory ",
                                 "and ",  "sleeps ", "a ",   "while. "};
    count = 80000;
    text = memory(count + 8);
    for (size_t n = 0; n < count;)
        for (const char *c = word[below(8)]; *c && n < count; c++)
            text[n++] = (uint8_t)*c;
}

static uint64_t find(void) {
    static const char what[] = "memory waits";
    const size_t length = sizeof what - 1;
    uint8_t skip[256];
    uint64_t found = 0;
    for (int n = 0; n < 256; n++)
        skip[n] = (uint8_t)length;
    for (size_t n = 0; n + 1 < length; n++)
        skip[(uint8_t)what[n]] = (uint8_t)(length - 1 - n);
    for (size_t at = 0; at + length <= count; at += skip[text[at + length - 1]]) {
        size_t k = length;
        while (k && text[at + k - 1] == (uint8_t)what[k - 1])
            k--;
        found += k == 0;
    }
    return found;
}

/* Reads letters of 1 to 8 bits off a stream. */
static void set_huffman(void) {
    count = 30000;
    out = memory(count);
    values = memory(8 * (count / 8));
    for (size_t n = 0; n < count / 8; n++)
        values[n] = draw();
}

static uint64_t huffman(void) {
    /* A one ends each letter, or its eighth bit does. */
    uint64_t sum = 0, bits = 0;
    size_t left = 0, word = 0;
    for (size_t n = 0; n < count; n++) {
        uint8_t letter = 0;
        for (;;) {
            if (!left) {
                if (word == count / 8)
                    return sum;
                bits = values[word++], left = 64;
            }
            uint64_t bit = bits & 1;
            bits >>= 1, left--, letter++;
            if (bit || letter == 8)
                break;
        }
        out[n] = letter;
        sum += letter;
    }
    return sum;
}

/* How long points of the plane stay near. */
static void set_fractal(void) {}

static uint64_t fractal(void) {
    uint64_t sum = 0;
    for (int row = 0; row < 40; row++)
        for (int column = 0; column < 40; column++) {
            double a = 0.05 * column - 1.5, b = 0.05 * row - 1, x = 0, y = 0;
            int n = 0;
            while (n < 100 && x * x + y * y < 4) {
                double next = x * x - y * y + a;
                y = 2 * x * y + b, x = next;
                n++;
            }
            sum += (uint64_t)n;
        }
    return sum;
}

/* Turns a matrix of 256 rows and columns over. */
static void set_transpose(void) {
    real = memory(8 << 16);
    imaginary = memory(8 << 16);
    for (int n = 0; n < 1 << 16; n++)
        real[n] = n;
}

static uint64_t transpose(void) {
    for (int i = 0; i < 256; i++)
        for (int j = 0; j < 256; j++)
            imaginary[256 * j + i] = real[256 * i + j];
    return (uint64_t)imaginary[12345];
}

/* Calls what a table names, in an order without a pattern. */
static void set_dispatch(void) {
    count = 12000;
    text = memory(count);
    for (size_t n = 0; n < count; n++)
        text[n] = (uint8_t)below(16);
}

#define HANDLER(n) \
    static __attribute__((noinline)) uint64_t handler##n(uint64_t x) { \
        return (x ^ n) * (2 * n + 3) + (x >> (n + 1)); \
    }
HANDLER(0) HANDLER(1) HANDLER(2) HANDLER(3) HANDLER(4) HANDLER(5) HANDLER(6) HANDLER(7)
HANDLER(8) HANDLER(9) HANDLER(10) HANDLER(11) HANDLER(12) HANDLER(13) HANDLER(14) HANDLER(15)

static uint64_t dispatch(void) {
    static uint64_t (*const table[])(uint64_t) = {
        handler0, handler1, handler2,  handler3,  handler4,  handler5,  handler6,  handler7,
        handler8, handler9, handler10, handler11, handler12, handler13, handler14, handler15};
    uint64_t x = 1;
    for (size_t n = 0; n < count; n++)
        x = table[text[n]](x);
    return x;
}

static const struct program programs[] = {
    {"base64", set_base64, base64},
    {"bigint", set_bigint, bigint},
    {"bloom", set_bloom, bloom},
    {"btree", set_btree, btree},
    {"copy", set_copy, copy},
    {"csv", set_csv, csv},
    {"dispatch", set_dispatch, dispatch},
    {"events", set_events, events},
    {"fft", set_fft, fft},
    {"find", set_find, find},
    {"fractal", set_fractal, fractal},
    {"graph", set_graph, graph},
    {"huffman", set_huffman, huffman},
    {"join", set_join, join},
    {"json", set_json, json},
    {"lru", set_lru, lru},
    {"movsb", set_movsb, movsb},
    {"radix", set_radix, radix},
    {"sparse", set_sparse, sparse},
    {"transpose", set_transpose, transpose},
    {"tree", set_tree, tree},
    {"unpack", set_unpack, unpack},
};
#include "harness_main.h"
