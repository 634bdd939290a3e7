/* @NAME@ in C: gates a halted core once it has been idle for `after_us` microseconds.
   `make c` builds it, with clang alone. */

typedef unsigned long long u64;

#define EXPORT(name) __attribute__((export_name(#name))) name

/* The block of version 1 of the interface: 64 words of 64 bits. Times are picoseconds. */
static struct {
    u64 now, event, field[12];
    double parameter[16];
    u64 timer, actions;
    struct {
        u64 kind, field[3];
    } action[8];
} block;

enum { START, TIMER, STALL_BEGIN, STALL_END, TOKEN, RESPONSE, IDLE_BEGIN, IDLE_END, AWAKE, GRANTED };
enum { GATE = 1, REST, WAKE };

#define OFF (~0ULL)

static const char about[] =
    "{\"family\": \"gating\", \"title\": \"gates a halted core after a fixed time\","
    " \"events\": [\"idle-begin\", \"idle-end\"],"
    " \"parameters\": [{\"name\": \"after_us\", \"unit\": \"us\", \"default\": 5, \"least\": 0,"
    " \"most\": 1000000, \"title\": \"idle time after which the core is gated\"}]}";

static u64 after;
static int gated;

int EXPORT(halfwink_abi)(void) { return 1; }
const char *EXPORT(halfwink_about)(void) { return about; }
void *EXPORT(halfwink_block)(void) { return &block; }

static void request(u64 kind) { block.action[block.actions++].kind = kind; }

void EXPORT(halfwink_decide)(void) {
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
        request(GATE);
        break;
    case IDLE_END:
        block.timer = OFF;
        if (gated) {
            gated = 0;
            request(WAKE);
        }
        break;
    }
}
