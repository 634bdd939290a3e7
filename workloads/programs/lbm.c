/* Flow in a box under a moving lid, by the lattice Boltzmann method: three dimensions, 19 speeds.
 *
 *   lbm WIDTH DEPTH HEIGHT STEPS WARM_UP
 *
 * Single relaxation time, D3Q19: Qian, d'Humieres, Lallemand, Europhys. Lett. 17 (1992), eqs 3, 4, 9.
 * Cells are records of 19 densities and a kind; a step reads one grid, collides, and pushes into the
 * other. After WARM_UP steps recording starts. Prints the mass before and after, and the
 * momentum along the lid's of the layer below it and of the middle one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark.h"

#define OMEGA 1.95
#define LID_X 0.005
#define LID_Y 0.002
#define REST (1.0 / 3.0)
#define AXIS (1.0 / 18.0)
#define EDGE (1.0 / 36.0)

enum { C, E, W, N, S, U, D, NE, NW, SE, SW, EU, ED, WU, WD, NU, ND, SU, SD, SPEEDS };
enum { FLUID, WALL, LID };

/* Each speed: its opposite, its direction, its weight, and its component of the velocity. */
#define EACH_SPEED(DO)                   \
    DO(C, C, 0, 0, 0, REST, 0.0)         \
    DO(E, W, 1, 0, 0, AXIS, x)           \
    DO(W, E, -1, 0, 0, AXIS, -x)         \
    DO(N, S, 0, 1, 0, AXIS, y)           \
    DO(S, N, 0, -1, 0, AXIS, -y)         \
    DO(U, D, 0, 0, 1, AXIS, z)           \
    DO(D, U, 0, 0, -1, AXIS, -z)         \
    DO(NE, SW, 1, 1, 0, EDGE, (x + y))   \
    DO(NW, SE, -1, 1, 0, EDGE, (y - x))  \
    DO(SE, NW, 1, -1, 0, EDGE, (x - y))  \
    DO(SW, NE, -1, -1, 0, EDGE, (-x - y)) \
    DO(EU, WD, 1, 0, 1, EDGE, (x + z))   \
    DO(ED, WU, 1, 0, -1, EDGE, (x - z))  \
    DO(WU, ED, -1, 0, 1, EDGE, (z - x))  \
    DO(WD, EU, -1, 0, -1, EDGE, (-x - z)) \
    DO(NU, SD, 0, 1, 1, EDGE, (y + z))   \
    DO(ND, SU, 0, 1, -1, EDGE, (y - z))  \
    DO(SU, ND, 0, -1, 1, EDGE, (z - y))  \
    DO(SD, NU, 0, -1, -1, EDGE, (-y - z))

typedef struct {
    double f[SPEEDS];
    long kind;
} Cell;

static long width, depth, height;

static long at(long i, long j, long k) { return i + width * (j + depth * k); }

/* A wall sends what came back where it came from. */
static void bounce(const Cell *from, Cell *to) {
#define BACK(q, opposite, cx, cy, cz, weight, along) \
    to[(-(cx)) + width * ((-(cy)) + depth * (-(cz)))].f[opposite] = from->f[q];
    EACH_SPEED(BACK)
#undef BACK
}

static void collide(const Cell *from, Cell *to) {
    const double *f = from->f;
    double mass = f[C] + f[E] + f[W] + f[N] + f[S] + f[U] + f[D] + f[NE] + f[NW] + f[SE] + f[SW] + f[EU] + f[ED] +
                  f[WU] + f[WD] + f[NU] + f[ND] + f[SU] + f[SD];
    double x = (f[E] - f[W] + f[NE] - f[NW] + f[SE] - f[SW] + f[EU] + f[ED] - f[WU] - f[WD]) / mass;
    double y = (f[N] - f[S] + f[NE] + f[NW] - f[SE] - f[SW] + f[NU] + f[ND] - f[SU] - f[SD]) / mass;
    double z = (f[U] - f[D] + f[EU] - f[ED] + f[WU] - f[WD] + f[NU] - f[ND] + f[SU] - f[SD]) / mass;
    if (from->kind == LID) x = LID_X, y = LID_Y, z = 0.0;
    double square = 1.5 * (x * x + y * y + z * z);
#define PUSH(q, opposite, cx, cy, cz, weight, along)          \
    to[(cx) + width * ((cy) + depth * (cz))].f[q] =           \
        (1.0 - OMEGA) * f[q] + OMEGA * weight * mass * (1.0 + along * (4.5 * along + 3.0) - square);
    EACH_SPEED(PUSH)
#undef PUSH
}

static void step(const Cell *from, Cell *to) {
    long cells = width * depth * height;
    for (long i = 0; i < cells; i++) {
        if (from[i].kind == WALL)
            bounce(&from[i], &to[i]);
        else
            collide(&from[i], &to[i]);
    }
}

/* Walls on all sides, fluid at rest, and below the upper wall the lid. Walls hold nothing at first. */
static void fill(Cell *grid) {
    for (long k = 0; k < height; k++)
        for (long j = 0; j < depth; j++)
            for (long i = 0; i < width; i++) {
                Cell *cell = &grid[at(i, j, k)];
                int edge = i == 0 || j == 0 || k == 0 || i == width - 1 || j == depth - 1 || k == height - 1;
                cell->kind = edge ? WALL : k == height - 2 ? LID : FLUID;
                if (edge) continue;
#define SET(q, opposite, cx, cy, cz, weight, along) cell->f[q] = weight;
                EACH_SPEED(SET)
#undef SET
            }
}

/* A grid with room before and behind for what walls push out of it. */
static Cell *grid(void) {
    long margin = width * depth + width + 1;
    Cell *cells = calloc((size_t)(width * depth * height + 2 * margin), sizeof(Cell));
    if (cells == NULL) {
        fprintf(stderr, "lbm: not enough memory\n");
        exit(1);
    }
    fill(cells + margin);
    return cells + margin;
}

/* The fluid's mass, and what is on its way back out of the walls. */
static double mass(const Cell *cells) {
    double sum = 0.0;
    for (long i = 0; i < width * depth * height; i++)
        for (int q = 0; q < SPEEDS; q++) sum += cells[i].f[q];
    return sum;
}

/* Momentum of a layer along the lid's. */
static double drift(const Cell *cells, long layer) {
    double sum = 0.0;
    for (long i = at(0, 0, layer); i < at(0, 0, layer + 1); i++) {
        const double *f = cells[i].f;
        if (cells[i].kind == FLUID)
            sum += f[E] - f[W] + f[NE] - f[NW] + f[SE] - f[SW] + f[EU] + f[ED] - f[WU] - f[WD];
    }
    return sum;
}

int main(int count, char **words) {
    if (count != 6) {
        fprintf(stderr, "usage: lbm WIDTH DEPTH HEIGHT STEPS WARM_UP\n");
        return 2;
    }
    width = atol(words[1]), depth = atol(words[2]), height = atol(words[3]);
    long steps = atol(words[4]), warm_up = atol(words[5]);
    if (width < 4 || depth < 4 || height < 4 || steps < 0) {
        fprintf(stderr, "lbm: expected at least 4 cells each way\n");
        return 2;
    }
    Cell *now = grid(), *next = grid();
    double before = mass(now);
    for (long i = 0; i < steps; i++) {
        if (i == warm_up) start_recording();
        step(now, next);
        Cell *other = now;
        now = next, next = other;
    }
    printf("mass %.17g %.17g drift %.17g %.17g\n", before, mass(now), drift(now, height - 3), drift(now, height / 2));
    return 0;
}
