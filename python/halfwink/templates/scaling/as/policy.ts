// @NAME@ in AssemblyScript: a core that finds nothing asks its queue `polls` times more, then
// halts. `make as` builds it, with asc.

import { event, field, parameter, play, request } from "./halfwink";
export { halfwink_abi, halfwink_about, halfwink_block, halfwink_decide } from "./halfwink";

enum Event { Start, Timer, Poll, Empty }
enum Action { Wake = 1, Park, SetStep, Wish, Move, Rest }
/** Kinds of rest; those with a depth have one for each of C1, C3 and C6. */
enum Rest { Spin, Again, Pause, Halt, HaltFor = 6, Nap = 9, Sleep = 12 }

let polls: u64 = 0;
/** Cores that have asked their queue again since they had packets. */
const waited = new StaticArray<bool>(256);

function decide(): void {
    const core = <i32>field(0);
    switch (event()) {
        case Event.Start:
            polls = <u64>parameter(0);
            break;
        case Event.Poll:
            if (field(1) > 0) waited[core] = false;
            break;
        case Event.Empty:
            if (waited[core]) request(Action.Rest, core, Rest.Halt);
            else request(Action.Rest, core, Rest.Again, polls);
            waited[core] = true;
            break;
    }
}

play(`{
    "family": "scaling",
    "title": "some empty polls, then a halt in C1",
    "parameters": [
        {"name": "polls", "default": 100, "least": 1, "most": 1000000,
         "title": "empty polls after which a core halts"}
    ]
}`, decide);
