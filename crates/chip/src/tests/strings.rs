//! Repeated string instructions on cores that move many bytes at once. By hand.

use super::*;
use crate::StringSpec;

const SPEC: StringSpec = StringSpec { bytes: 64, start: 30, short_bytes: 128, short_start: 10 };

/// Fills `count` elements of so many bytes from `from` on; returns nanoseconds, instructions and
/// micro-operations.
fn fill(strings: Option<StringSpec>, size: u8, from: u64, count: u64) -> (u64, u64, u64) {
    let stos = Step { base: 1 << 7, access: Some(true), ..op(Kind::String, 7, &[0]) };
    repeat(strings, stos, size, (0..count).map(|n| from + n * u64::from(size)))
}

fn repeat(
    strings: Option<StringSpec>,
    step: Step,
    size: u8,
    places: impl Iterator<Item = u64>,
) -> (u64, u64, u64) {
    let mut writer = Writer::new();
    let block = writer.block(&[step]);
    writer.program.instrs[0].flags = halfwink_trace::InstrFlags::REP;
    writer.program.sites[0].size = size;
    let (mut script, lines) = writer.script();
    let mut data = Vec::new();
    for place in places {
        script.run(block, vec![at(place)]);
        data.push(place & !63);
    }
    data.dedup();
    let mut machine = simple("out-of-order");
    machine.core.strings = strings;
    let result = run(&machine, "always-on", vec![task(script, warm(&lines, &data))]);
    let work = result.cores[0].work;
    (ns(&result), work.instructions[0], work.uops[0])
}

#[test]
fn iterations_within_a_block_are_one_store() {
    // A store an iteration, one a cycle. Two lines: two stores.
    assert_eq!(fill(None, 1, DATA, 128), (130, 1, 128));
    let (_, instructions, uops) = fill(Some(SPEC), 1, DATA, 128);
    assert_eq!((instructions, uops), (1, 2));
    // From the middle of a line: what is left of it, a line, eight bytes of the next.
    assert_eq!(fill(Some(SPEC), 1, DATA + 8, 128).2, 3);
    assert_eq!(fill(Some(StringSpec { bytes: 16, ..SPEC }), 8, DATA, 16).2, 8);
}

#[test]
fn a_start_is_waited_for_once() {
    let free = StringSpec { start: 0, short_start: 0, ..SPEC };
    let of = |spec, size, count| fill(Some(spec), size, DATA, count).0;
    // The first iteration is dispatched in cycle 0, the next begins behind the start.
    assert_eq!(of(SPEC, 1, 128), of(free, 1, 128) + 9);
    // What exceeds the short bytes waits for the rest of a long start.
    assert!(of(SPEC, 1, 128) < 30 && of(SPEC, 1, 192) >= 30);
    // Elements of more bytes than one begin as a long one does.
    assert_eq!(of(SPEC, 8, 16), of(free, 8, 16) + 29);
}

#[test]
fn what_is_not_moved_upward_is_played_one_by_one() {
    let stos = Step { base: 1 << 7, access: Some(true), ..op(Kind::String, 7, &[0]) };
    let down = (0..64).rev().map(|n| DATA + n);
    assert_eq!(repeat(Some(SPEC), stos, 1, down).2, 64);
    // Elements that lie in two blocks each.
    let split = (0..4).map(|n| DATA + 60 + 64 * n);
    assert_eq!(repeat(Some(SPEC), stos, 8, split).2, 4);
    // A search compares: each iteration is a load and an operation.
    let scas = Step { base: 1 << 7, access: Some(false), ..op(Kind::String, FLAGS, &[0]) };
    let places = (0..64).map(|n| DATA + n);
    let (time, instructions, uops) = repeat(Some(SPEC), scas, 1, places);
    assert_eq!((instructions, uops), (1, 128));
    let places = (0..64).map(|n| DATA + n);
    assert_eq!(repeat(None, scas, 1, places).0, time);
}

#[test]
fn fetch_ahead_follows_a_string_instruction_that_lies_in_two_lines() {
    let stos = Step { base: 1 << 7, access: Some(true), ..op(Kind::String, 7, &[0]) };
    let play = |from: u64| {
        let mut writer = Writer::new();
        let block = writer.block_at(CODE + 62, false, &[stos]);
        let behind = writer.block_at(CODE + 66, false, &[alu(1, &[1])]);
        writer.program.instrs[0].flags = halfwink_trace::InstrFlags::REP;
        writer.program.sites[0].size = 1;
        let (mut script, lines) = writer.script();
        for n in 0..256 {
            script.run(block, vec![at(from + n)]);
        }
        script.run(behind, vec![]);
        let mut machine = simple("out-of-order");
        machine.core.strings = Some(SPEC);
        machine.fetch.queue = 8;
        machine.fetch.lines_per_cycle = 1;
        let data: Vec<u64> = (0..5).map(|n| DATA + 64 * n).collect();
        let result = run(&machine, "always-on", vec![task(script, warm(&lines, &data))]);
        (result.cores[0].work.instructions[0], result.cores[0].work.uops[0])
    };
    // An instruction in two lines has an operation more, with each store.
    assert_eq!(play(DATA), (2, 9));
    assert_eq!(play(DATA + 8), (2, 11));
}

#[test]
fn values_that_no_core_has_are_refused() {
    let complaint = |strings: &str| {
        let text = SIMPLE.replace("[branch]", &format!("[core.strings]\n{strings}\n[branch]"));
        Machine::parse(&Input::new("simple", text)).unwrap_err().to_string()
    };
    let whole = "bytes = 64\nstart_cycles = 30\nshort_bytes = 128\nshort_start_cycles = 10";
    let text = SIMPLE.replace("[branch]", &format!("[core.strings]\n{whole}\n[branch]"));
    let machine = Machine::parse(&Input::new("simple", text)).unwrap();
    assert_eq!(machine.core.strings, Some(SPEC));
    for (from, to, said) in [
        ("bytes = 64", "bytes = 48", "bytes 48, expected 8, 16, 32 or 64"),
        ("start_cycles = 30", "start_cycles = 300", "start_cycles 300, expected 0 to 200"),
        ("short_start_cycles = 10", "short_start_cycles = 31", "expected 0 to 30"),
        ("short_bytes = 128", "short_bytes = 5000", "short_bytes 5000, expected 0 to 4096"),
    ] {
        let found = complaint(&whole.replacen(from, to, 1));
        assert!(found.contains(said) && found.starts_with("simple:"), "{found}");
    }
}
