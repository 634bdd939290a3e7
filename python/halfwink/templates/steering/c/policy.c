/* @NAME@ in C: the big machine serves what comes while the small one has `threshold` requests, and
   sleeps otherwise. `make c` builds it, with clang and lld. */

#define ABOUT \
    "{\"family\": \"steering\", \"title\": \"the big machine from a threshold on\"," \
    " \"parameters\": [{\"name\": \"threshold\", \"default\": 4, \"least\": 0, \"most\": 1000000," \
    " \"title\": \"requests of the small machine from which on the big one serves\"}]}"

#include "halfwink.h"

enum { ARRIVE = 2, FINISH, AWAKE, ASLEEP, LOST, BACK };
enum { SEND = 1, WAKE, SLEEP };
enum { SMALL, BIG };

static u64 threshold, requests[2];
static int lost[2];
/* Whether the big machine is on or wakes up, and whether it serves now. */
static int is_up = 1, is_on = 1;

static void decide(void) {
    u64 side = block.field[0];
    switch (block.event) {
    case START:
        threshold = (u64)block.parameter[0];
        break;
    case ARRIVE:
        side = (requests[SMALL] < threshold && !lost[SMALL]) || lost[BIG] ? SMALL : BIG;
        requests[side]++;
        request(SEND, side, 0, 0);
        if (side == BIG && !is_up) {
            is_up = 1;
            request(WAKE, BIG, 0, 0);
        }
        break;
    case FINISH:
        if (requests[side] > 0)
            requests[side]--;
        break;
    case LOST:
        lost[side] = 1;
        if (side == BIG)
            is_on = 0;
        break;
    case AWAKE:
    case BACK:
        lost[side] = 0;
        if (side == BIG)
            is_up = is_on = 1;
        break;
    }
    /* The big machine sleeps once it has nothing to do, unless the small one is lost. */
    if (is_on && requests[BIG] == 0 && !lost[SMALL] && !lost[BIG]) {
        is_up = is_on = 0;
        request(SLEEP, BIG, 0, 0);
    }
}
