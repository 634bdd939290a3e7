/* @NAME@ in C: system calls whose mean run is longer than `threshold` instructions move. `make c`
   builds it, with clang and lld. */

#define ABOUT \
    "{\"family\": \"offload\", \"title\": \"moves the system calls whose mean run is long\"," \
    " \"events\": [\"enter\", \"exit\"]," \
    " \"parameters\": [{\"name\": \"threshold\", \"default\": 1000, \"least\": 0," \
    " \"most\": 1000000000, \"title\": \"instructions from which on a call moves\"}]}"

#include "halfwink.h"

enum { ENTER = 2, EXIT, SAMPLE };
enum { HERE = 1, OS_CORE, BESIDE };
/* Calls and vectors that have a mean of their own, and cycles of a decision in software. */
enum { KNOWN = 2048, DECIDES = 16 };

static double threshold, mean[KNOWN];
static unsigned char seen[KNOWN];
static u64 entered;

static void decide(void) {
    double now = (double)block.field[0];
    switch (block.event) {
    case START:
        threshold = block.parameter[0];
        break;
    case ENTER:
        entered = (3 * block.field[1] + block.field[0]) % KNOWN;
        request(seen[entered] && mean[entered] > threshold ? OS_CORE : HERE, DECIDES, 0, 0);
        break;
    case EXIT:
        mean[entered] = seen[entered] ? 0.75 * mean[entered] + 0.25 * now : now;
        seen[entered] = 1;
        break;
    }
}
