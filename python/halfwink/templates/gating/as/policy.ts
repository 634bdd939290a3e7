// @NAME@ in AssemblyScript: gates a halted core once it has been idle for `after_us` microseconds.
// `make as` builds it, with asc.

import { OFF, event, now, parameter, play, request, setTimer } from "./halfwink";
export { halfwink_abi, halfwink_about, halfwink_block, halfwink_decide } from "./halfwink";

enum Event {
    Start, Timer, StallBegin, StallEnd, Token, Response, IdleBegin, IdleEnd, Awake, Granted,
    IdleState
}
enum Action { Gate = 1, Rest, Wake }

let after: u64 = 0;
let gated = false;

function decide(): void {
    switch (event()) {
        case Event.Start:
            after = <u64>(parameter(0) * 1e6);
            break;
        case Event.IdleBegin:
            setTimer(now() + after);
            break;
        case Event.Timer:
            setTimer(OFF);
            gated = true;
            request(Action.Gate);
            break;
        case Event.IdleEnd:
            setTimer(OFF);
            if (gated) {
                gated = false;
                request(Action.Wake);
            }
            break;
    }
}

play(`{
    "family": "gating",
    "title": "gates a halted core after a fixed time",
    "events": ["idle-begin", "idle-end"],
    "parameters": [
        {"name": "after_us", "unit": "us", "default": 5, "least": 0, "most": 1000000,
         "title": "idle time after which the core is gated"}
    ]
}`, decide);
