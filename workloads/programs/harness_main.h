/* The command line of programs that stand in the table `programs`. */
#define PROGRAMS (sizeof programs / sizeof *programs)

static int same(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

int main(int argc, char **argv) {
    size_t which = 0;
    while (argc > 1 && which < PROGRAMS && !same(argv[1], programs[which].name))
        which++;
    if (argc < 2 || which == PROGRAMS) {
        for (size_t n = 0; n < PROGRAMS; n++)
            say(1, programs[n].name), say(1, "\n");
        return argc < 2 ? 0 : 2;
    }
    uint64_t repeats = 0;
    for (const char *c = argc > 2 ? argv[2] : "1"; *c >= '0' && *c <= '9'; c++)
        repeats = 10 * repeats + (uint64_t)(*c - '0');
    huge = argc > 3 && argv[3][0] == '1';
    programs[which].set();
    uint64_t (*work)(void) = programs[which].work;
    uint64_t sum = work(), least = UINT64_MAX, least_ns = UINT64_MAX;
    for (uint64_t n = 0; n < repeats; n++) {
        uint64_t from_ns = cpu_ns(), from = ticks();
        start_recording();
        uint64_t again = work();
        stop_recording();
        uint64_t took = ticks() - from, took_ns = cpu_ns() - from_ns;
        least = took < least ? took : least;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
        if (again != sum) {
            say(2, "not the same again\n");
            return 1;
        }
    }
    say_number(least), say(1, " "), say_number(least_ns), say(1, " ");
    say_number(sum), say(1, "\n");
    return 0;
}

#ifdef ALONE
/* The kernel leaves the number of arguments and then the arguments on the stack. */
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin\n");

__attribute__((used)) void begin(long *stack) {
    stop(main((int)stack[0], (char **)(stack + 1)));
}
#endif
