// @NAME@ in AssemblyScript: the first request of a service is recorded, and its lines are loaded by
// `cores` cores when the next one is announced. `make as` builds it, with asc.

import { event, field, parameter, play, request } from "./halfwink";
export { halfwink_abi, halfwink_about, halfwink_block, halfwink_decide } from "./halfwink";

enum Event {
    Start, Timer, Announced, Arrived, Idle, Lost, Dumped, Built, Loaded, Closed, Missed, Received
}
enum Action { Wake = 1, Build = 9, Load, Stop, Hold, Forget, Sham, Record }
enum Order { Address, FirstUse, Tags }
enum Recorded { CodeMisses, Misses, Pages }

/** State of the set of a service. */
enum State { None, Recorded, Building, Ready, Loading }

/** Services that there is room for: their ports and sets, of which the first ones are in use. */
const ROOM = 16;
const ports = new StaticArray<u64>(ROOM);
const states = new StaticArray<i32>(ROOM);
let known = 0;
let cores: u64 = 0;

/** The place of a service, which is new if need be; -1 if there is no room. */
function placeOf(port: u64): i32 {
    for (let place = 0; place < known; place++) if (ports[place] == port) return place;
    if (known == ROOM) return -1;
    ports[known] = port;
    return known++;
}

function decide(): void {
    const port = field(0);
    switch (event()) {
        case Event.Start:
            cores = <u64>parameter(0);
            break;
        case Event.Announced: {
            request(Action.Wake);
            const place = placeOf(port);
            if (place >= 0 && states[place] == State.Ready) {
                states[place] = State.Loading;
                request(Action.Load, port, u64.MAX_VALUE, cores + 256 * Order.FirstUse);
            }
            break;
        }
        case Event.Arrived: {
            const place = placeOf(port);
            if (place < 0) break;
            if (states[place] == State.None) {
                states[place] = State.Recorded;
                request(Action.Record, port, Recorded.Misses);
            } else if (states[place] == State.Loading) request(Action.Hold, port);
            break;
        }
        case Event.Idle:
            for (let place = 0; place < known; place++)
                if (states[place] == State.Recorded) {
                    states[place] = State.Building;
                    request(Action.Build, ports[place]);
                }
            break;
        case Event.Built: {
            const place = placeOf(port);
            if (place >= 0) states[place] = field(1) > 0 ? State.Ready : State.None;
            break;
        }
        case Event.Loaded: {
            const place = placeOf(port);
            if (place >= 0 && states[place] == State.Loading) states[place] = State.Ready;
            break;
        }
        case Event.Closed: {
            const place = placeOf(port);
            if (place < 0) break;
            states[place] = State.None;
            request(Action.Forget, port);
            break;
        }
    }
}

play(`{
    "family": "preheat",
    "title": "loads what the first request missed",
    "events": ["announced", "arrived", "idle", "built", "loaded", "closed"],
    "parameters": [
        {"name": "cores", "default": 2, "least": 1, "most": 64, "title": "cores that load"}
    ]
}`, decide);
