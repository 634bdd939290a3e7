/* @NAME@ in C: the first request of a service is recorded, and its lines are loaded by `cores` cores
   when the next one is announced. `make c` builds it, with clang alone. */

#define ABOUT \
    "{\"family\": \"preheat\", \"title\": \"loads what the first request missed\"," \
    " \"events\": [\"announced\", \"arrived\", \"idle\", \"built\", \"loaded\", \"closed\"]," \
    " \"parameters\": [{\"name\": \"cores\", \"default\": 2, \"least\": 1, \"most\": 64," \
    " \"title\": \"cores that load\"}]}"

#include "halfwink.h"

enum { ANNOUNCED = 2, ARRIVED, IDLE, LOST, DUMPED, BUILT, LOADED, CLOSED };
enum { WAKE = 1, BUILD = 9, LOAD, STOP, HOLD, FORGET, SHAM, RECORD };
enum { ADDRESS, FIRST_USE, TAGS };
enum { CODE_MISSES, MISSES, PAGES };

/* Sets of services, by their ports. */
enum { NONE, RECORDED, BUILDING, READY, LOADING };
static unsigned char set[65536];
static u64 cores;

static void decide(void) {
    u64 service = block.field[0] & 65535;
    switch (block.event) {
    case START:
        cores = (u64)block.parameter[0];
        break;
    case ANNOUNCED:
        request(WAKE, 0, 0, 0);
        if (set[service] == READY) {
            set[service] = LOADING;
            request(LOAD, service, ~0ULL, cores + 256 * FIRST_USE);
        }
        break;
    case ARRIVED:
        if (set[service] == NONE) {
            set[service] = RECORDED;
            request(RECORD, service, MISSES, 0);
        } else if (set[service] == LOADING)
            request(HOLD, service, 0, 0);
        break;
    case IDLE:
        for (int port = 0; port < 65536 && count < 512; port++)
            if (set[port] == RECORDED) {
                set[port] = BUILDING;
                request(BUILD, port, 0, 0);
            }
        break;
    case BUILT:
        set[service] = block.field[1] ? READY : NONE;
        break;
    case LOADED:
        if (set[service] == LOADING)
            set[service] = READY;
        break;
    case CLOSED:
        set[service] = NONE;
        request(FORGET, service, 0, 0);
        break;
    }
}
