// @NAME@ in AssemblyScript: the kernel has ways by its share of the reads of the cache, `least` at
// least. `make as` builds it, with asc.

import { event, field, parameter, play, request } from "./halfwink";
export { halfwink_abi, halfwink_about, halfwink_block, halfwink_decide } from "./halfwink";

enum Event { Start, Timer, Begin, Sample, Utility }
enum Action { Set = 1, SampleAfter }
enum Span { Instructions, Cycles }

let ways: u64 = 0;
let least: u64 = 0;
let after: u64 = 0;

function decide(): void {
    let kernel: u64 = 0;
    switch (event()) {
        case Event.Start:
            ways = field(0);
            least = <u64>parameter(0);
            after = <u64>parameter(1);
            return;
        case Event.Begin:
            kernel = ways / 2;
            break;
        case Event.Sample: {
            const reads = max<u64>(field(2) + field(3), 1);
            kernel = (2 * ways * field(3) + reads) / (2 * reads);
            break;
        }
        default:
            return;
    }
    // A single way cannot be split.
    if (ways < 2) return;
    request(Action.Set, 0, min<u64>(max<u64>(kernel, least), ways - 1));
    request(Action.SampleAfter, after, Span.Cycles);
}

play(`{
    "family": "segregation",
    "title": "ways by the share of the reads",
    "events": ["begin", "sample"],
    "parameters": [
        {"name": "least", "default": 1, "least": 1, "most": 31,
         "title": "ways that the kernel has at least"},
        {"name": "after", "default": 100000, "least": 1, "most": 1000000000000, "unit": "cycles",
         "title": "cycles between two samples"}
    ]
}`, decide);
