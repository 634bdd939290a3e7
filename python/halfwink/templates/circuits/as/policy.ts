// @NAME@ in AssemblyScript: each host sends to every other one in turn, for `day_us` at a time.
// `make as` builds it, with asc.

import { event, field, parameter, play, request } from "./halfwink";
export { halfwink_abi, halfwink_about, halfwink_block, halfwink_decide } from "./halfwink";

enum Event { Start, Timer, Demand, Next, Lost, Back }
enum Action { Join = 1, Day }

/** Hosts that there is room for: a circuit of each and the day are 512 actions. */
const ROOM = 511;

let hosts: u64 = 0;
let day: u64 = 0;
const isLost = new StaticArray<bool>(ROOM);

function decide(): void {
    switch (event()) {
        case Event.Start:
            hosts = min<u64>(field(0), ROOM);
            day = max<u64>(<u64>(parameter(0) * 1e6), field(2));
            break;
        case Event.Next: {
            const plane = field(0);
            const shift = 1 + field(1) % (hosts - 1);
            for (let from: u64 = 0; from < hosts; from++) {
                const to = (from + shift) % hosts;
                if (!isLost[<i32>from] && !isLost[<i32>to]) request(Action.Join, plane, from, to);
            }
            request(Action.Day, plane, day);
            break;
        }
        case Event.Lost:
        case Event.Back:
            isLost[<i32>field(0)] = event() == Event.Lost;
            break;
    }
}

play(`{
    "family": "circuits",
    "title": "turns of one length",
    "events": ["next", "lost", "back"],
    "parameters": [
        {"name": "day_us", "unit": "us", "default": 300, "least": 0.001, "most": 1000000000,
         "title": "length of a day"}
    ]
}`, decide);
