/* @NAME@ in C: gates a halted core once it has been idle for `after_us` microseconds.
   `make c` builds it, with clang and lld. */

#define ABOUT \
    "{\"family\": \"gating\", \"title\": \"gates a halted core after a fixed time\"," \
    " \"events\": [\"idle-begin\", \"idle-end\"]," \
    " \"parameters\": [{\"name\": \"after_us\", \"unit\": \"us\", \"default\": 5, \"least\": 0," \
    " \"most\": 1000000, \"title\": \"idle time after which the core is gated\"}]}"

#include "halfwink.h"

enum {
    STALL_BEGIN = 2, STALL_END, TOKEN, RESPONSE, IDLE_BEGIN, IDLE_END, AWAKE, GRANTED, IDLE_STATE
};
enum { GATE = 1, REST, WAKE };

static u64 after;
static int gated;

static void decide(void) {
    switch (block.event) {
    case START:
        after = (u64)(block.parameter[0] * 1e6);
        break;
    case IDLE_BEGIN:
        block.timer = block.now + after;
        break;
    case TIMER:
        block.timer = OFF;
        gated = 1;
        request(GATE, 0, 0, 0);
        break;
    case IDLE_END:
        block.timer = OFF;
        if (gated) {
            gated = 0;
            request(WAKE, 0, 0, 0);
        }
        break;
    }
}
