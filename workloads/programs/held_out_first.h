/* The first eleven programs of held_out.c, which includes this file. */

/* Joins two tables: a hash table of 4,096 rows, probed by 20,000. */
#define BUCKETS 4096

static void set_join(void) {
    count = 20000;
    links = memory(4 * (BUCKETS + 4097));
    keys = memory(8 * 4097);
    values = memory(8 * count);
    for (int n = 1; n <= 4096; n++)
        keys[n] = below(8192);
    for (size_t n = 0; n < count; n++)
        values[n] = below(8192);
}

static uint64_t join(void) {
    uint32_t *heads = links, *next = links + BUCKETS;
    uint64_t sum = 0;
    for (int n = 0; n < BUCKETS; n++)
        heads[n] = 0;
    for (uint32_t n = 1; n <= 4096; n++) {
        uint32_t *head = &heads[keys[n] * 0x9e3779b97f4a7c15 >> 52];
        next[n] = *head;
        *head = n;
    }
    for (size_t n = 0; n < count; n++)
        for (uint32_t at = heads[values[n] * 0x9e3779b97f4a7c15 >> 52]; at; at = next[at])
            if (keys[at] == values[n])
                sum += at;
    return sum;
}

/* Sorts 16,384 numbers by four digits of eight bits. */
static void set_radix(void) {
    count = 16384;
    from = memory(4 * count);
    to = memory(4 * count);
    links = memory(4 * count);
    for (size_t n = 0; n < count; n++)
        links[n] = (uint32_t)draw();
}

static uint64_t radix(void) {
    uint32_t places[256];
    for (size_t n = 0; n < count; n++)
        from[n] = links[n];
    for (int digit = 0; digit < 32; digit += 8) {
        for (int n = 0; n < 256; n++)
            places[n] = 0;
        for (size_t n = 0; n < count; n++)
            places[from[n] >> digit & 255]++;
        uint32_t sum = 0;
        for (int n = 0; n < 256; n++) {
            uint32_t these = places[n];
            places[n] = sum;
            sum += these;
        }
        for (size_t n = 0; n < count; n++)
            to[places[from[n] >> digit & 255]++] = from[n];
        uint32_t *last = from;
        from = to, to = last;
    }
    return from[0] + from[count / 2];
}

/* A queue of events: the first is taken out, another one comes in later. */
static void set_events(void) {
    count = 2048;
    keys = memory(8 * (count + 1));
    values = memory(8 * (count + 1));
    for (size_t n = 1; n <= count; n++)
        values[n] = n * 1000;
}

static uint64_t events(void) {
    uint64_t seed = 12345, sum = 0;
    for (size_t n = 1; n <= count; n++)
        keys[n] = values[n];
    for (int turn = 0; turn < 6000; turn++) {
        sum ^= keys[1];
        seed = seed * 6364136223846793005 + 1442695040888963407;
        uint64_t time = keys[1] + (seed >> 42);
        size_t at = 1, child = 2;
        while (child <= count) {
            child += child < count && keys[child + 1] < keys[child];
            if (keys[child] >= time)
                break;
            keys[at] = keys[child];
            at = child, child = 2 * at;
        }
        keys[at] = time;
    }
    return sum;
}

/* Sums the columns of a table in text. */
static void set_csv(void) {
    count = 60000;
    text = memory(count + 32);
    size_t n = 0;
    while (n + 24 < count)
        for (int field = 0; field < 5; field++) {
            for (uint64_t number = below(1 + below(1000000)); number; number /= 10)
                text[n++] = (uint8_t)('0' + number % 10);
            text[n++] = field < 4 ? ',' : '\n';
        }
    count = n;
}

static uint64_t csv(void) {
    uint64_t sums[5] = {0}, number = 0;
    int field = 0;
    for (size_t n = 0; n < count; n++) {
        uint8_t c = text[n];
        if (c >= '0' && c <= '9')
            number = 10 * number + (uint64_t)(c - '0');
        else {
            sums[field] += number;
            number = 0;
            field = c == ',' ? field + 1 : 0;
        }
    }
    return sums[0] ^ sums[1] ^ sums[2] ^ sums[3] ^ sums[4];
}

/* A sparse matrix of 4,096 rows with eight elements each, times a vector. */
static void set_sparse(void) {
    count = 4096;
    links = memory(4 * 8 * count);
    real = memory(8 * 8 * count);
    turns = memory(8 * count);
    imaginary = memory(8 * count);
    for (size_t n = 0; n < 8 * count; n++)
        links[n] = (uint32_t)below(count), real[n] = (double)below(10);
    for (size_t n = 0; n < count; n++)
        turns[n] = (double)below(10);
}

static uint64_t sparse(void) {
    for (size_t row = 0; row < count; row++) {
        double sum = 0;
        for (size_t n = 8 * row; n < 8 * row + 8; n++)
            sum += real[n] * turns[links[n]];
        imaginary[row] = sum;
    }
    return (uint64_t)imaginary[count / 2];
}

/* Counts what a document of JSON holds. */
static void set_json(void) {
    static const char *part[] = {"{\"id\":",        "1234",
                                 ",\"name\":\"halfwink\"", ",\"on\":true",
                                 ",\"tags\":[1,2,3]",  "}, "};
    count = 40000;
    text = memory(count + 64);
    size_t n = 0;
    text[n++] = '[';
    while (n < count)
        for (int k = 0; k < 6; k++)
            if (k < 2 || k == 5 || below(3))
                for (const char *c = part[k]; *c; c++)
                    text[n++] = (uint8_t)*c;
    count = n;
}

static uint64_t json(void) {
    uint64_t objects = 0, lists = 0, strings = 0, numbers = 0, names = 0, depth = 0;
    for (size_t n = 0; n < count;)
        switch (text[n]) {
        case '{': objects++, depth++, n++; break;
        case '[': lists++, depth++, n++; break;
        case '}':
        case ']': depth--, n++; break;
        case '"':
            strings++;
            for (n++; n < count && text[n] != '"'; n++)
                n += text[n] == '\\';
            n++;
            break;
        case 't':
        case 'f':
        case 'n': names++, n += text[n] == 'f' ? 5 : 4; break;
        default:
            if (text[n] >= '0' && text[n] <= '9') {
                numbers++;
                while (n < count && text[n] >= '0' && text[n] <= '9')
                    n++;
            } else
                n++;
        }
    return objects ^ lists << 8 ^ strings << 16 ^ numbers << 24 ^ names << 32 ^ depth << 48;
}

/* Copies blocks of 1 to 8 KB, word by word. */
static void set_copy(void) {
    count = 64;
    keys = memory(128 << 10);
    values = memory(128 << 10);
    links = memory(4 * 3 * count);
    for (size_t n = 0; n < count; n++) {
        links[3 * n] = (uint32_t)below(15 << 10);
        links[3 * n + 1] = (uint32_t)below(15 << 10);
        links[3 * n + 2] = (uint32_t)(128 + below(896));
    }
}

static uint64_t copy(void) {
    for (size_t n = 0; n < count; n++) {
        const uint64_t *source = keys + links[3 * n];
        uint64_t *target = values + links[3 * n + 1];
        for (size_t k = 0; k < links[3 * n + 2]; k++) {
            target[k] = source[k];
            __asm__ volatile("" ::: "memory");
        }
    }
    return values[0];
}

/* Copies blocks of 16 bytes to 8 KB with the instruction for it. */
static void set_movsb(void) {
    set_copy();
    for (size_t n = 0; n < count; n++)
        links[3 * n + 2] = (uint32_t)(16u << below(10));
}

static uint64_t movsb(void) {
    for (size_t n = 0; n < count; n++) {
        const void *source = keys + links[3 * n];
        void *target = values + links[3 * n + 1];
        size_t size = links[3 * n + 2];
        __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(size)::"memory");
    }
    return values[0];
}

/* Evaluates expressions as trees, each node by a function of its own. */
struct node {
    uint64_t (*is)(const struct node *);
    const struct node *left, *right;
    uint64_t value;
};

static uint64_t is_value(const struct node *n) { return n->value; }
static uint64_t is_sum(const struct node *n) {
    return n->left->is(n->left) + n->right->is(n->right);
}
static uint64_t is_product(const struct node *n) {
    return n->left->is(n->left) * n->right->is(n->right);
}
static uint64_t is_difference(const struct node *n) {
    return n->left->is(n->left) - n->right->is(n->right);
}
static uint64_t is_choice(const struct node *n) {
    return n->left->is(n->left) & 1 ? n->right->is(n->right) : n->value;
}

static struct node *nodes;

static void set_tree(void) {
    count = 6000;
    nodes = memory(count * sizeof *nodes);
    static uint64_t (*const kinds[])(const struct node *) = {is_sum, is_product, is_difference,
                                                             is_choice};
    for (size_t n = count; n-- > 0;) {
        nodes[n].value = below(100);
        if (2 * n + 2 < count) {
            nodes[n].is = kinds[below(4)];
            nodes[n].left = &nodes[2 * n + 1], nodes[n].right = &nodes[2 * n + 2];
        } else
            nodes[n].is = is_value;
    }
}

static uint64_t tree(void) {
    uint64_t sum = 0;
    for (size_t n = 0; n < 16; n++)
        sum = 3 * sum + nodes[n].is(&nodes[n]);
    return sum;
}

/* Looks 6,000 keys up in a tree with 15 keys in each node. */
#define KEYS 15

static void set_btree(void) {
    /* Three full levels of 16, 256 and 4,096 children: keys in order, implicit pointers. */
    count = 1 + 16 + 256 + 4096;
    keys = memory(8 * (KEYS + 1) * count);
    for (size_t n = 0; n < count; n++) {
        size_t level = n < 1 ? 0 : n < 17 ? 1 : n < 273 ? 2 : 3;
        static const size_t first[] = {0, 1, 17, 273};
        uint64_t span = UINT64_C(1) << (32 - 4 * level), begin = (n - first[level]) * span;
        for (uint64_t k = 0; k < KEYS; k++)
            keys[(KEYS + 1) * n + k] = begin + (k + 1) * (span >> 4);
    }
    values = memory(8 * 6000);
    for (int n = 0; n < 6000; n++)
        values[n] = draw() >> 32;
}

static uint64_t btree(void) {
    uint64_t sum = 0;
    for (int n = 0; n < 6000; n++) {
        size_t at = 0;
        for (;;) {
            const uint64_t *node = keys + (KEYS + 1) * at;
            size_t k = 0;
            while (k < KEYS && node[k] <= values[n])
                k++;
            sum += k;
            if (at >= 273)
                break;
            at = 16 * at + 1 + k;
        }
    }
    return sum;
}

/* Fourier transform of 1,024 complex numbers. */
static void set_fft(void) {
    count = 1024;
    real = memory(8 * count);
    imaginary = memory(8 * count);
    turns = memory(16 * count);
    /* exp(2 pi i n / 1024), by turning on; its error does not matter here. */
    double c = 1, s = 0;
    for (size_t n = 0; n < count; n++) {
        turns[2 * n] = c, turns[2 * n + 1] = s;
        double next = c * 0.99998117528260111 - s * 0.0061358846491544753;
        s = s * 0.99998117528260111 + c * 0.0061358846491544753, c = next;
    }
}

static uint64_t fft(void) {
    for (size_t n = 0; n < count; n++)
        real[n] = (double)(n & 7), imaginary[n] = 0;
    for (size_t half = count / 2, step = 1; half; half /= 2, step *= 2)
        for (size_t block = 0; block < count; block += 2 * half)
            for (size_t n = 0; n < half; n++) {
                size_t a = block + n, b = a + half;
                double c = turns[2 * n * step], s = turns[2 * n * step + 1];
                double x = real[a] - real[b], y = imaginary[a] - imaginary[b];
                real[a] += real[b], imaginary[a] += imaginary[b];
                real[b] = x * c - y * s, imaginary[b] = x * s + y * c;
            }
    return (uint64_t)real[0];
}
