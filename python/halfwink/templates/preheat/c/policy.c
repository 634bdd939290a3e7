/* @NAME@ in C: the first request of a service is recorded, and its lines are loaded by `cores` cores
   when the next one is announced. `make c` builds it, with clang and lld. */

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

/* State of the set of a service. */
enum { NONE, RECORDED, BUILDING, READY, LOADING };

/* Services that there is room for: their ports and sets, of which the first ones are in use. All
   65,536 ports would be too many to look at: an event has fuel for 100,000 instructions. */
enum { ROOM = 16 };
static struct service {
    u64 port;
    int set;
} services[ROOM];
static int known;
static u64 cores;

/* Returns a service, which is new if need be; 0 if there is no room. */
static struct service *find(u64 port) {
    for (int place = 0; place < known; place++)
        if (services[place].port == port)
            return &services[place];
    if (known == ROOM)
        return 0;
    services[known].port = port;
    return &services[known++];
}

static void decide(void) {
    u64 port = block.field[0];
    struct service *service;
    switch (block.event) {
    case START:
        cores = (u64)block.parameter[0];
        break;
    case ANNOUNCED:
        request(WAKE, 0, 0, 0);
        service = find(port);
        if (service && service->set == READY) {
            service->set = LOADING;
            request(LOAD, port, ~0ULL, cores + 256 * FIRST_USE);
        }
        break;
    case ARRIVED:
        service = find(port);
        if (service && service->set == NONE) {
            service->set = RECORDED;
            request(RECORD, port, MISSES, 0);
        } else if (service && service->set == LOADING)
            request(HOLD, port, 0, 0);
        break;
    case IDLE:
        for (service = services; service < services + known; service++)
            if (service->set == RECORDED) {
                service->set = BUILDING;
                request(BUILD, service->port, 0, 0);
            }
        break;
    case BUILT:
        service = find(port);
        if (service)
            service->set = block.field[1] ? READY : NONE;
        break;
    case LOADED:
        service = find(port);
        if (service && service->set == LOADING)
            service->set = READY;
        break;
    case CLOSED:
        service = find(port);
        if (service) {
            service->set = NONE;
            request(FORGET, port, 0, 0);
        }
        break;
    }
}
