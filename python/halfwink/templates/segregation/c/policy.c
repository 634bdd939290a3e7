/* @NAME@ in C: the kernel has ways by its share of the reads of the cache, `least` at least.
   `make c` builds it, with clang and lld. */

#define ABOUT \
    "{\"family\": \"segregation\", \"title\": \"ways by the share of the reads\"," \
    " \"events\": [\"begin\", \"sample\"]," \
    " \"parameters\": [{\"name\": \"least\", \"default\": 1, \"least\": 1, \"most\": 31," \
    " \"title\": \"ways that the kernel has at least\"}," \
    " {\"name\": \"after\", \"default\": 100000, \"least\": 1, \"most\": 1000000000000," \
    " \"unit\": \"cycles\", \"title\": \"cycles between two samples\"}]}"

#include "halfwink.h"

enum { BEGIN = 2, SAMPLE, UTILITY };
enum { SET = 1, SAMPLE_AFTER };
enum { INSTRUCTIONS, CYCLES };

static u64 ways, least, after;

static void decide(void) {
    u64 kernel = 0, reads = block.field[2] + block.field[3];
    switch (block.event) {
    case START:
        ways = block.field[0];
        least = (u64)block.parameter[0];
        after = (u64)block.parameter[1];
        return;
    case SAMPLE:
        if (reads == 0)
            reads = 1;
        kernel = (2 * ways * block.field[3] + reads) / (2 * reads);
        break;
    case BEGIN:
        kernel = ways / 2;
        break;
    default:
        return;
    }
    if (ways < 2)
        return;
    kernel = kernel < least ? least : kernel;
    request(SET, 0, kernel < ways ? kernel : ways - 1, 0);
    request(SAMPLE_AFTER, after, CYCLES, 0);
}
