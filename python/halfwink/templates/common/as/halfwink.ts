// Version 1 of the interface of halfwink, as all families share it: events in, actions out, through
// a block of 64 words in this module's memory. Times are picoseconds. A policy calls `play` with
// its description and its function, and exports the last four functions of this file.

/** Number of the call that asks for more actions, and the time of a timer that is off. */
const MORE = u64.MAX_VALUE;
export const OFF = u64.MAX_VALUE;
/** Most actions of an event, and those that the block has room for at a time. */
const MOST = 512;
const ROOM = 8;

/** The words of the block, by their places. */
const BLOCK = memory.data(8 * 64, 8);
const FIELDS = BLOCK + 8 * 2;
const PARAMETERS = BLOCK + 8 * 14;
const TIMER = BLOCK + 8 * 30;
const COUNT = BLOCK + 8 * 31;
const ACTIONS = BLOCK + 8 * 32;
/** The actions of an event, four words each. */
const ACTION = 8 * 4;
const REQUESTED = memory.data(8 * 4 * 512, 8);

let about = new ArrayBuffer(0);
let decide: () => void = () => {};
let count = 0;
let sent = 0;

/** Names the policy: its description, and the function that decides on each event. */
export function play(description: string, callback: () => void): void {
    about = String.UTF8.encode(description, true);
    decide = callback;
}

/** The time of the event. */
export function now(): u64 {
    return load<u64>(BLOCK);
}

/** The number of the event. */
export function event(): i32 {
    return <i32>load<u64>(BLOCK + 8);
}

/** A field of the event, from 0. */
export function field(place: i32): u64 {
    return load<u64>(FIELDS + 8 * place);
}

/** A parameter, in the order of the description. */
export function parameter(place: i32): f64 {
    return load<f64>(PARAMETERS + 8 * place);
}

/** Rings at this time, or never if it is `OFF`. The timer stays until it is set again. */
export function setTimer(at: u64): void {
    store<u64>(TIMER, at);
}

/** Requests an action of this number with its fields; at most 512 at one event. */
export function request(kind: i32, first: u64 = 0, second: u64 = 0, third: u64 = 0): void {
    assert(count < MOST);
    const action = REQUESTED + ACTION * count++;
    store<u64>(action, <u64>kind);
    store<u64>(action + 8, first);
    store<u64>(action + 16, second);
    store<u64>(action + 24, third);
}

export function halfwink_abi(): i32 {
    return 1;
}

export function halfwink_about(): usize {
    return changetype<usize>(about);
}

export function halfwink_block(): usize {
    return BLOCK;
}

export function halfwink_decide(): void {
    if (load<u64>(BLOCK + 8) != MORE) {
        count = sent = 0;
        decide();
    }
    store<u64>(COUNT, <u64>(count - sent));
    for (let place = 0; place < ROOM && sent < count; place++, sent++)
        memory.copy(ACTIONS + ACTION * place, REQUESTED + ACTION * sent, ACTION);
}
