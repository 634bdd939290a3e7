/* @NAME@ in C: the kernel has `most` ways while it misses more than the user, else one. `make c`
   builds it, with clang alone. */

#define ABOUT \
    "{\"family\": \"segregation\", \"title\": \"more ways for the side that misses more\"," \
    " \"events\": [\"begin\", \"sample\"]," \
    " \"parameters\": [{\"name\": \"most\", \"default\": 4, \"least\": 1, \"most\": 31," \
    " \"title\": \"ways of a kernel that misses more\"}," \
    " {\"name\": \"after\", \"default\": 100000, \"least\": 1, \"most\": 1000000000000," \
    " \"unit\": \"cycles\", \"title\": \"cycles between two samples\"}]}"

#include "halfwink.h"

enum { BEGIN = 2, SAMPLE, UTILITY };
enum { SET = 1, SAMPLE_AFTER };
enum { INSTRUCTIONS, CYCLES };

static u64 ways, most, after;

static void decide(void) {
    u64 kernel = 1;
    switch (block.event) {
    case START:
        ways = block.field[0];
        most = (u64)block.parameter[0];
        after = (u64)block.parameter[1];
        return;
    case SAMPLE:
        if (block.field[5] > block.field[4])
            kernel = most < ways ? most : ways - 1;
        break;
    case BEGIN:
        break;
    default:
        return;
    }
    if (ways < 2)
        return;
    request(SET, 0, kernel, 0);
    request(SAMPLE_AFTER, after, CYCLES, 0);
}
