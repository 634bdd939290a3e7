// @NAME@ in AssemblyScript: an I/O is completed where it was issued if the CPU that hears of it has
// `waiting` more. `make as` builds it, with asc.

import { event, field, parameter, play, request } from "./halfwink";
export { halfwink_abi, halfwink_about, halfwink_block, halfwink_decide } from "./halfwink";

enum Event { Start, Timer, Done, Used, Poll, Empty }
enum Action { Here = 1, Give, Rest }
enum Rest { Spin, Again, Pause, HaltC1 }

let most: u64 = 0;

function decide(): void {
    switch (event()) {
        case Event.Start:
            most = <u64>parameter(0);
            break;
        case Event.Done: {
            const tag = field(0), issuer = field(1), heard = field(2);
            if (field(3) < most || issuer == heard) request(Action.Here, tag);
            else request(Action.Give, tag, issuer);
            break;
        }
        case Event.Empty:
            request(Action.Rest, field(0), Rest.HaltC1);
            break;
    }
}

play(`{
    "family": "completion",
    "title": "back to the issuer, if many I/Os wait",
    "events": ["done"],
    "parameters": [
        {"name": "waiting", "default": 4, "least": 0, "most": 1000000,
         "title": "waiting I/Os from which on the issuer completes"}
    ]
}`, decide);
