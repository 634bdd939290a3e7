/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Something for the recorded compiler to compile: an arithmetic interpreter with a hash table, a
 * sorted index, string building and a bit of floating point.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum token_kind { TOKEN_END, TOKEN_NUMBER, TOKEN_NAME, TOKEN_OPERATOR, TOKEN_OPEN, TOKEN_CLOSE };

struct token {
    enum token_kind kind;
    double number;
    char name[32];
    char op;
};

struct lexer {
    const char *text;
    size_t at;
    struct token current;
    char error[128];
};

struct variable {
    char name[32];
    double value;
    uint64_t uses;
    struct variable *next;
};

struct table {
    struct variable **buckets;
    size_t size;
    size_t count;
};

struct buffer {
    char *data;
    size_t length;
    size_t capacity;
};

static uint64_t hash_of(const char *name)
{
    uint64_t hash = 1469598103934665603ull;
    for (; *name; name++) {
        hash ^= (unsigned char)*name;
        hash *= 1099511628211ull;
    }
    return hash;
}

static void table_init(struct table *table)
{
    table->size = 16;
    table->count = 0;
    table->buckets = calloc(table->size, sizeof *table->buckets);
}

static void table_grow(struct table *table)
{
    size_t size = table->size * 2;
    struct variable **buckets = calloc(size, sizeof *buckets);
    if (!buckets)
        return;
    for (size_t i = 0; i < table->size; i++) {
        struct variable *entry = table->buckets[i];
        while (entry) {
            struct variable *next = entry->next;
            size_t slot = hash_of(entry->name) & (size - 1);
            entry->next = buckets[slot];
            buckets[slot] = entry;
            entry = next;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->size = size;
}

static struct variable *table_find(struct table *table, const char *name, int create)
{
    size_t slot = hash_of(name) & (table->size - 1);
    for (struct variable *entry = table->buckets[slot]; entry; entry = entry->next) {
        if (!strcmp(entry->name, name)) {
            entry->uses++;
            return entry;
        }
    }
    if (!create)
        return NULL;
    if (table->count * 4 > table->size * 3) {
        table_grow(table);
        slot = hash_of(name) & (table->size - 1);
    }
    struct variable *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    snprintf(entry->name, sizeof entry->name, "%s", name);
    entry->next = table->buckets[slot];
    table->buckets[slot] = entry;
    table->count++;
    return entry;
}

static int compare_variables(const void *left, const void *right)
{
    const struct variable *a = *(struct variable *const *)left;
    const struct variable *b = *(struct variable *const *)right;
    if (a->uses != b->uses)
        return a->uses < b->uses ? 1 : -1;
    return strcmp(a->name, b->name);
}

static struct variable **table_sorted(struct table *table)
{
    struct variable **sorted = malloc((table->count + 1) * sizeof *sorted);
    size_t n = 0;
    if (!sorted)
        return NULL;
    for (size_t i = 0; i < table->size; i++)
        for (struct variable *entry = table->buckets[i]; entry; entry = entry->next)
            sorted[n++] = entry;
    sorted[n] = NULL;
    qsort(sorted, n, sizeof *sorted, compare_variables);
    return sorted;
}

static void buffer_add(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    char piece[256];
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= sizeof piece)
        length = sizeof piece - 1;
    if (buffer->length + length + 1 > buffer->capacity) {
        size_t capacity = buffer->capacity ? buffer->capacity * 2 : 64;
        while (capacity < buffer->length + length + 1)
            capacity *= 2;
        char *data = realloc(buffer->data, capacity);
        if (!data)
            return;
        buffer->data = data;
        buffer->capacity = capacity;
    }
    memcpy(buffer->data + buffer->length, piece, length + 1);
    buffer->length += length;
}

static void lexer_next(struct lexer *lexer)
{
    struct token *token = &lexer->current;
    const char *text = lexer->text;
    while (isspace((unsigned char)text[lexer->at]))
        lexer->at++;
    char c = text[lexer->at];
    if (!c) {
        token->kind = TOKEN_END;
    } else if (isdigit((unsigned char)c) || c == '.') {
        char *end;
        errno = 0;
        token->kind = TOKEN_NUMBER;
        token->number = strtod(text + lexer->at, &end);
        if (errno)
            snprintf(lexer->error, sizeof lexer->error, "number out of range at %zu", lexer->at);
        lexer->at = end - text;
    } else if (isalpha((unsigned char)c) || c == '_') {
        size_t n = 0;
        token->kind = TOKEN_NAME;
        while (isalnum((unsigned char)text[lexer->at]) || text[lexer->at] == '_') {
            if (n + 1 < sizeof token->name)
                token->name[n++] = text[lexer->at];
            lexer->at++;
        }
        token->name[n] = 0;
    } else if (c == '(' || c == ')') {
        token->kind = c == '(' ? TOKEN_OPEN : TOKEN_CLOSE;
        lexer->at++;
    } else {
        token->kind = TOKEN_OPERATOR;
        token->op = c;
        lexer->at++;
    }
}

static int binding_of(char op)
{
    switch (op) {
    case '=': return 1;
    case '<': case '>': return 2;
    case '+': case '-': return 3;
    case '*': case '/': case '%': return 4;
    case '^': return 5;
    default: return 0;
    }
}

static double expression(struct lexer *lexer, struct table *table, int binding);

static double call(const char *name, double x)
{
    static const struct { const char *name; double (*function)(double); } known[] = {
        { "sqrt", sqrt }, { "sin", sin }, { "cos", cos }, { "exp", exp },
        { "log", log }, { "floor", floor }, { "ceil", ceil }, { "fabs", fabs },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name))
            return known[i].function(x);
    return NAN;
}

static double primary(struct lexer *lexer, struct table *table)
{
    struct token token = lexer->current;
    double value = 0;
    lexer_next(lexer);
    switch (token.kind) {
    case TOKEN_NUMBER:
        return token.number;
    case TOKEN_NAME:
        if (lexer->current.kind == TOKEN_OPEN) {
            lexer_next(lexer);
            value = call(token.name, expression(lexer, table, 1));
            if (lexer->current.kind == TOKEN_CLOSE)
                lexer_next(lexer);
            return value;
        }
        if (lexer->current.kind == TOKEN_OPERATOR && lexer->current.op == '=') {
            lexer_next(lexer);
            value = expression(lexer, table, 1);
            struct variable *variable = table_find(table, token.name, 1);
            if (variable)
                variable->value = value;
            return value;
        }
        struct variable *variable = table_find(table, token.name, 0);
        return variable ? variable->value : NAN;
    case TOKEN_OPEN:
        value = expression(lexer, table, 1);
        if (lexer->current.kind != TOKEN_CLOSE)
            snprintf(lexer->error, sizeof lexer->error, "expected ) at %zu", lexer->at);
        lexer_next(lexer);
        return value;
    case TOKEN_OPERATOR:
        if (token.op == '-')
            return -primary(lexer, table);
        /* fall through */
    default:
        snprintf(lexer->error, sizeof lexer->error, "unexpected input at %zu", lexer->at);
        return NAN;
    }
}

static double expression(struct lexer *lexer, struct table *table, int binding)
{
    double left = primary(lexer, table);
    while (lexer->current.kind == TOKEN_OPERATOR) {
        char op = lexer->current.op;
        int strength = binding_of(op);
        if (strength < binding || !strength)
            break;
        lexer_next(lexer);
        double right = expression(lexer, table, op == '^' ? strength : strength + 1);
        switch (op) {
        case '+': left += right; break;
        case '-': left -= right; break;
        case '*': left *= right; break;
        case '/': left /= right; break;
        case '%': left = fmod(left, right); break;
        case '^': left = pow(left, right); break;
        case '<': left = left < right; break;
        case '>': left = left > right; break;
        default: break;
        }
    }
    return left;
}

static void transform(double *data, size_t n)
{
    for (size_t step = 1; step < n; step *= 2)
        for (size_t i = 0; i < n; i += 2 * step)
            for (size_t j = i; j < i + step; j++) {
                double a = data[j], b = data[j + step];
                data[j] = a + b;
                data[j + step] = a - b;
            }
}

int main(int argc, char **argv)
{
    struct table table;
    struct buffer out = { 0 };
    double samples[256];
    table_init(&table);
    for (int i = 1; i < argc; i++) {
        struct lexer lexer = { .text = argv[i] };
        lexer_next(&lexer);
        double value = expression(&lexer, &table, 1);
        if (*lexer.error)
            buffer_add(&out, "%s: %s\n", argv[i], lexer.error);
        else
            buffer_add(&out, "%s = %.17g\n", argv[i], value);
        samples[i & 255] = value;
    }
    transform(samples, 256);
    struct variable **sorted = table_sorted(&table);
    for (struct variable **entry = sorted; entry && *entry; entry++)
        buffer_add(&out, "%s: %g, %llu uses\n", (*entry)->name, (*entry)->value,
                   (unsigned long long)(*entry)->uses);
    buffer_add(&out, "%g\n", samples[0]);
    fputs(out.data ? out.data : "", stdout);
    free(sorted);
    free(out.data);
    return 0;
}
