/* @NAME@ in C: each host sends to every other one in turn, for `day_us` at a time. `make c` builds
   it, with clang and lld. */

#define ABOUT \
    "{\"family\": \"circuits\", \"title\": \"turns of one length\"," \
    " \"events\": [\"next\", \"lost\", \"back\"]," \
    " \"parameters\": [{\"name\": \"day_us\", \"unit\": \"us\", \"default\": 300, \"least\": 0.001," \
    " \"most\": 1000000000, \"title\": \"length of a day\"}]}"

#include "halfwink.h"

enum { DEMAND = 2, NEXT, LOST, BACK };
enum { JOIN = 1, DAY };

/* Hosts that there is room for: a circuit of each and the day are 512 actions. */
enum { ROOM = 511 };

static u64 hosts, day;
static unsigned char is_lost[ROOM];

static void decide(void) {
    u64 plane = block.field[0], shift;
    switch (block.event) {
    case START:
        hosts = block.field[0] < ROOM ? block.field[0] : ROOM;
        day = (u64)(block.parameter[0] * 1e6);
        if (day < block.field[2])
            day = block.field[2];
        break;
    case NEXT:
        shift = 1 + block.field[1] % (hosts - 1);
        for (u64 from = 0; from < hosts; from++) {
            u64 to = (from + shift) % hosts;
            if (!is_lost[from] && !is_lost[to])
                request(JOIN, plane, from, to);
        }
        request(DAY, plane, day, 0);
        break;
    case LOST:
    case BACK:
        is_lost[block.field[0] % ROOM] = block.event == LOST;
        break;
    }
}
