/* @NAME@ in C: an I/O is completed where it was issued if the CPU that hears of it has `waiting`
   more. `make c` builds it, with clang and lld. */

#define ABOUT \
    "{\"family\": \"completion\", \"title\": \"back to the issuer, if many I/Os wait\"," \
    " \"events\": [\"done\"]," \
    " \"parameters\": [{\"name\": \"waiting\", \"default\": 4, \"least\": 0, \"most\": 1000000," \
    " \"title\": \"waiting I/Os from which on the issuer completes\"}]}"

#include "halfwink.h"

enum { DONE = 2, USED, POLL, EMPTY };
enum { HERE = 1, GIVE, REST };
enum { SPIN, AGAIN, PAUSE, HALT_C1 };

static u64 most;

static void decide(void) {
    u64 io = block.field[0], issuer = block.field[1], heard = block.field[2];
    switch (block.event) {
    case START:
        most = (u64)block.parameter[0];
        break;
    case DONE:
        if (block.field[3] < most || issuer == heard)
            request(HERE, io, 0, 0);
        else
            request(GIVE, io, issuer, 0);
        break;
    case EMPTY:
        request(REST, block.field[0], HALT_C1, 0);
        break;
    }
}
