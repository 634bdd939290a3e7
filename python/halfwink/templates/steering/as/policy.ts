// @NAME@ in AssemblyScript: the big machine serves what comes while the small one has `threshold`
// requests, and sleeps otherwise. `make as` builds it, with asc.

import { event, field, parameter, play, request } from "./halfwink";
export { halfwink_abi, halfwink_about, halfwink_block, halfwink_decide } from "./halfwink";

enum Event { Start, Timer, Arrive, Finish, Awake, Asleep, Lost, Back }
enum Action { Send = 1, Wake, Sleep }
const SMALL = 0;
const BIG = 1;

let threshold: u64 = 0;
const requests = new StaticArray<u64>(2);
const lost = new StaticArray<bool>(2);
/** Whether the big machine is on or wakes up, and whether it serves now. */
let isUp = true;
let isOn = true;

function decide(): void {
    let side = <i32>field(0);
    switch (event()) {
        case Event.Start:
            threshold = <u64>parameter(0);
            break;
        case Event.Arrive:
            side = (requests[SMALL] < threshold && !lost[SMALL]) || lost[BIG] ? SMALL : BIG;
            requests[side]++;
            request(Action.Send, side);
            if (side == BIG && !isUp) {
                isUp = true;
                request(Action.Wake, BIG);
            }
            break;
        case Event.Finish:
            if (requests[side] > 0) requests[side]--;
            break;
        case Event.Lost:
            lost[side] = true;
            if (side == BIG) isOn = false;
            break;
        case Event.Awake:
        case Event.Back:
            lost[side] = false;
            if (side == BIG) isUp = isOn = true;
            break;
    }
    // The big machine sleeps once it has nothing to do, unless the small one is lost.
    if (isOn && requests[BIG] == 0 && !lost[SMALL] && !lost[BIG]) {
        isUp = isOn = false;
        request(Action.Sleep, BIG);
    }
}

play(`{
    "family": "steering",
    "title": "the big machine from a threshold on",
    "parameters": [
        {"name": "threshold", "default": 4, "least": 0, "most": 1000000,
         "title": "requests of the small machine from which on the big one serves"}
    ]
}`, decide);
