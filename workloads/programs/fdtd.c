/* Maxwell's equations in a box of metal by finite differences in the time domain.
 *
 *   fdtd CELLS STEPS WARM_UP mode|pulse
 *
 * Yee, IEEE Trans. Antennas Propag. 14 (1966): electric and magnetic fields on staggered grids, each
 * stepped from the other's curl. Space and time steps are 1 and COURANT, the speed of light is 1.
 * `mode` starts from a mode of the empty box; `pulse` sends a pulse at a dielectric ball, with an absorbing
 * layer before the walls. After WARM_UP steps recording starts. Prints the field at a probe each step. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark.h"

#define COURANT 0.5
#define PI 3.14159265358979323846

typedef struct {
    double *x, *y, *z;
} Field;

static long cells, row, plane;
static Field e, h;
/* What a cell keeps of its electric field in a step, and what of the curl it adds. */
static double *keeps, *adds;

static long at(long i, long j, long k) { return i + row * j + plane * k; }

/* Arrays begin at different places within a page, as separate arrays of a Fortran program do. */
static double *array(double value) {
    static size_t shift;
    size_t size = (size_t)(plane * (cells + 1)), lead = 72 * shift++;
    double *values = malloc((size + lead) * sizeof(double));
    if (values == NULL) {
        fprintf(stderr, "fdtd: not enough memory\n");
        exit(1);
    }
    values += lead;
    for (size_t i = 0; i < size; i++) values[i] = value;
    return values;
}

static void step_h(double *restrict hx, double *restrict hy, double *restrict hz, const double *restrict ex,
                   const double *restrict ey, const double *restrict ez) {
    for (long k = 0; k < cells; k++)
        for (long j = 0; j < cells; j++)
            for (long i = at(0, j, k); i < at(cells, j, k); i++) {
                hx[i] += COURANT * ((ey[i + plane] - ey[i]) - (ez[i + row] - ez[i]));
                hy[i] += COURANT * ((ez[i + 1] - ez[i]) - (ex[i + plane] - ex[i]));
                hz[i] += COURANT * ((ex[i + row] - ex[i]) - (ey[i + 1] - ey[i]));
            }
}

/* The field along a wall of metal stays zero: it is never stepped. */
static void step_e(double *restrict ex, double *restrict ey, double *restrict ez, const double *restrict hx,
                   const double *restrict hy, const double *restrict hz) {
    for (long k = 1; k < cells; k++)
        for (long j = 1; j < cells; j++)
            for (long i = at(1, j, k); i < at(cells, j, k); i++) {
                double keep = keeps[i], add = adds[i];
                ex[i] = keep * ex[i] + add * ((hz[i] - hz[i - row]) - (hy[i] - hy[i - plane]));
                ey[i] = keep * ey[i] + add * ((hx[i] - hx[i - plane]) - (hz[i] - hz[i - 1]));
                ez[i] = keep * ez[i] + add * ((hy[i] - hy[i - 1]) - (hx[i] - hx[i - row]));
            }
    /* The walls at i = 0, j = 0 and k = 0 have a field that stands on them. */
    for (long a = 1; a < cells; a++)
        for (long b = 1; b < cells; b++) {
            long x = at(0, a, b), y = at(a, 0, b), z = at(a, b, 0);
            ex[x] = keeps[x] * ex[x] + adds[x] * ((hz[x] - hz[x - row]) - (hy[x] - hy[x - plane]));
            ey[y] = keeps[y] * ey[y] + adds[y] * ((hx[y] - hx[y - plane]) - (hz[y] - hz[y - 1]));
            ez[z] = keeps[z] * ez[z] + adds[z] * ((hy[z] - hy[z - 1]) - (hx[z] - hx[z - row]));
        }
}

/* A ball of permittivity 12 off the middle, and conductivity that grows towards the walls: Taflove,
 * Hagness, Computational Electrodynamics (2005), eq 3.31. */
static void set_materials(void) {
    long layer = cells / 10;
    for (long k = 0; k <= cells; k++)
        for (long j = 0; j <= cells; j++)
            for (long i = 0; i <= cells; i++) {
                long wall = i, x = i - 3 * cells / 5, y = j - cells / 2, z = k - cells / 2;
                long sides[] = {j, k, cells - i, cells - j, cells - k};
                for (int s = 0; s < 5; s++) wall = sides[s] < wall ? sides[s] : wall;
                double deep = wall < layer ? (double)(layer - wall) / (double)layer : 0.0;
                double permittivity = 25 * (x * x + y * y + z * z) < cells * cells ? 12.0 : 1.0;
                double loss = 0.5 * COURANT * deep * deep * deep / permittivity;
                keeps[at(i, j, k)] = (1.0 - loss) / (1.0 + loss);
                adds[at(i, j, k)] = COURANT / permittivity / (1.0 + loss);
            }
}

/* One half wave each way between the walls, without a field along z. */
static void set_mode(void) {
    for (long k = 0; k <= cells; k++)
        for (long j = 0; j < cells; j++)
            for (long i = 0; i <= cells; i++)
                e.y[at(i, j, k)] = sin(PI * (double)i / (double)cells) * sin(PI * (double)k / (double)cells);
}

int main(int count, char **words) {
    int mode = count == 5 && strcmp(words[4], "mode") == 0;
    if (count != 5 || (!mode && strcmp(words[4], "pulse") != 0)) {
        fprintf(stderr, "usage: fdtd CELLS STEPS WARM_UP mode|pulse\n");
        return 2;
    }
    cells = atol(words[1]);
    long steps = atol(words[2]), warm_up = atol(words[3]);
    if (cells < 4 || steps < 0) {
        fprintf(stderr, "fdtd: expected at least 4 cells each way\n");
        return 2;
    }
    row = cells + 1, plane = row * row;
    e = (Field){array(0.0), array(0.0), array(0.0)}, h = (Field){array(0.0), array(0.0), array(0.0)};
    keeps = array(1.0), adds = array(COURANT);
    if (mode)
        set_mode();
    else
        set_materials();
    long probe = at(cells / 3, cells / 2, cells / 2), source = at(cells / 4, cells / 2, cells / 2);
    for (long i = 0; i < steps; i++) {
        if (i == warm_up) start_recording();
        double late = (double)i - 30.0;
        if (!mode) e.z[source] += sin(0.6 * late) * exp(-0.1 * late * late);
        step_h(h.x, h.y, h.z, e.x, e.y, e.z);
        step_e(e.x, e.y, e.z, h.x, h.y, h.z);
        printf("%.17g\n", mode ? e.y[probe] : e.z[probe]);
    }
    return 0;
}
