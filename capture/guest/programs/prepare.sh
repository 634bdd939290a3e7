# SPDX-License-Identifier: GPL-2.0-or-later
# Runs once inside the unpacked guest of the computing programs, as root.

# Debian has the library that simulates a quantum computer, and no program that uses it: this one
# factors a number by Shor's algorithm.
cat >/tmp/shor.c <<'C'
#include <quantum.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
    int n = count > 1 ? atoi(words[1]) : 15, base = count > 2 ? atoi(words[2]) : 7;
    int width = quantum_getwidth(n * n), small = quantum_getwidth(n), scratch = 3 * small + 2;
    quantum_reg reg = quantum_new_qureg(0, width);
    for (int i = 0; i < width; i++) quantum_hadamard(i, &reg);
    quantum_addscratch(scratch, &reg);
    quantum_exp_mod_n(n, base, width, small, &reg);
    for (int i = 0; i < scratch; i++) quantum_bmeasure(0, &reg);
    quantum_qft(width, &reg);
    printf("%lld\n", (long long)quantum_measure(reg));
    return 0;
}
C
gcc -O2 -std=gnu99 -o /usr/local/bin/shor /tmp/shor.c -fopenmp -lquantum -lm
rm /tmp/shor.c
