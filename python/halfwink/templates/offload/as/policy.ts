// @NAME@ in AssemblyScript: system calls whose mean run is longer than `threshold` instructions
// move. `make as` builds it, with asc.

import { event, field, parameter, play, request } from "./halfwink";
export { halfwink_abi, halfwink_about, halfwink_block, halfwink_decide } from "./halfwink";

enum Event { Start, Timer, Enter, Exit, Sample }
enum Action { Here = 1, OsCore, Beside }
/** Calls and vectors that have a mean of their own, and cycles of a decision in software. */
const KNOWN = 2048;
const DECIDES = 16;

let threshold: f64 = 0;
const mean = new StaticArray<f64>(KNOWN);
const seen = new StaticArray<bool>(KNOWN);
/** Place of the last entry in the table. */
let entered = 0;

function decide(): void {
    switch (event()) {
        case Event.Start:
            threshold = parameter(0);
            break;
        case Event.Enter: {
            entered = <i32>((3 * field(1) + field(0)) % KNOWN);
            const isLong = seen[entered] && mean[entered] > threshold;
            request(isLong ? Action.OsCore : Action.Here, DECIDES);
            break;
        }
        case Event.Exit: {
            const run = <f64>field(0);
            mean[entered] = seen[entered] ? 0.75 * mean[entered] + 0.25 * run : run;
            seen[entered] = true;
            break;
        }
    }
}

play(`{
    "family": "offload",
    "title": "moves the system calls whose mean run is long",
    "events": ["enter", "exit"],
    "parameters": [
        {"name": "threshold", "default": 1000, "least": 0, "most": 1000000000,
         "title": "instructions from which on a call moves"}
    ]
}`, decide);
