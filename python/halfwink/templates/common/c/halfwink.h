/* Version 1 of the interface of halfwink, as all families share it: events in, actions out, through
   a block of 64 words in this module's memory. Times are picoseconds. A policy defines `ABOUT`, then
   includes this file, then defines `decide`. */

typedef unsigned long long u64;

#define EXPORT(name) __attribute__((export_name(#name))) name

static struct {
    u64 now, event, field[12];
    double parameter[16];
    u64 timer, actions;
    u64 action[8][4];
} block;

/* Events of all families, and a timer that is off. */
enum { START, TIMER };
#define OFF (~0ULL)

static void decide(void);

/* The actions of an event, of which the block has room for eight at a time. */
static u64 requested[512][4];
static u64 count, sent;

/* Requests an action of this number with its fields; at most 512 at one event. */
static void request(u64 kind, u64 first, u64 second, u64 third) {
    u64 *action = requested[count++];
    action[0] = kind;
    action[1] = first;
    action[2] = second;
    action[3] = third;
}

int EXPORT(halfwink_abi)(void) { return 1; }
const char *EXPORT(halfwink_about)(void) { return ABOUT; }
void *EXPORT(halfwink_block)(void) { return &block; }

void EXPORT(halfwink_decide)(void) {
    if (block.event != ~0ULL) {
        count = sent = 0;
        decide();
    }
    block.actions = count - sent;
    for (int place = 0; place < 8 && sent < count; place++, sent++)
        for (int word = 0; word < 4; word++)
            block.action[place][word] = requested[sent][word];
}
