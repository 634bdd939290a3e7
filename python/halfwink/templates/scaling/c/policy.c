/* @NAME@ in C: a core that finds nothing asks its queue `polls` times more, then halts.
   `make c` builds it, with clang and lld. */

#define ABOUT \
    "{\"family\": \"scaling\", \"title\": \"some empty polls, then a halt in C1\"," \
    " \"parameters\": [{\"name\": \"polls\", \"default\": 100, \"least\": 1, \"most\": 1000000," \
    " \"title\": \"empty polls after which a core halts\"}]}"

#include "halfwink.h"

enum { POLL = 2, EMPTY };
enum { WAKE = 1, PARK, SET_STEP, WISH, MOVE, REST };
/* Kinds of rest; those with a depth have one for each of C1, C3 and C6. */
enum { SPIN, AGAIN, PAUSE, HALT, HALT_FOR = 6, NAP = 9, SLEEP = 12 };

static u64 polls;
static char waited[256];

static void decide(void) {
    u64 core = block.field[0];
    switch (block.event) {
    case START:
        polls = (u64)block.parameter[0];
        break;
    case POLL:
        if (block.field[1] > 0)
            waited[core] = 0;
        break;
    case EMPTY:
        if (waited[core])
            request(REST, core, HALT, 0);
        else
            request(REST, core, AGAIN, polls);
        waited[core] = 1;
        break;
    }
}
