// SPDX-License-Identifier: GPL-2.0-or-later
use super::*;

fn define(recorder: &mut Recorder, pc: u64, instrs: &[&[u8]]) -> u32 {
    let lengths = instrs.iter().map(|i| i.len() as u8).collect();
    let bytes = instrs.concat();
    recorder.intern(Definition { pc, phys: pc, phys_next_page: 0, bytes, lengths })
}

fn nops(recorder: &mut Recorder, pc: u64, count: usize) -> u32 {
    define(recorder, pc, &vec![&[0x90][..]; count])
}

fn play(recorder: &mut Recorder, thread: &mut Thread, blocks: &[u32]) {
    for &block in blocks {
        recorder.block(thread, block);
    }
    recorder.land(thread, None);
}

/// Address, instructions and accesses of each run.
fn runs(recorder: &mut Recorder) -> Vec<(u64, u16, u16)> {
    let items = recorder.batch.items.clone();
    let blocks = &recorder.blocks;
    let run = |item: &Item| match *item {
        Item::Run { block, executed, accesses } => {
            Some((blocks.info(block).pc, executed, accesses))
        }
        _ => None,
    };
    items.iter().filter_map(run).collect()
}

#[test]
fn window_begins_and_ends_within_blocks() {
    let mut recorder = Recorder::new(3, 6);
    let mut thread = Thread::new(0);
    let (a, b, c) = (
        nops(&mut recorder, 0x1000, 5),
        nops(&mut recorder, 0x1005, 3),
        nops(&mut recorder, 0x1008, 4),
    );
    recorder.block(&mut thread, a);
    thread.access(b, 2, 0x70, 4, Direction::Load);
    thread.access(a, 1, 0x10, 8, Direction::Load);
    thread.access(a, 3, 0x30, 8, Direction::Load);
    thread.access(a, 4, 0x40, 4, Direction::Store);
    play(&mut recorder, &mut thread, &[b, c]);
    assert_eq!(runs(&mut recorder), [(0x1003, 2, 2), (0x1005, 3, 0), (0x1008, 1, 0)]);
    assert_eq!(recorder.batch.accesses[0].instr, 0, "counted from the window's begin");
    assert!(recorder.is_over());
    assert_eq!(recorder.position(), 12, "the last block is executed to its end");
}

#[test]
fn iterations_of_a_repeated_instruction_are_one_instruction() {
    let mut recorder = Recorder::new(0, 3);
    let mut thread = Thread::new(0);
    let a = define(&mut recorder, 0x1000, &[&[0x90], &[0xf3, 0xa4]]);
    let again = define(&mut recorder, 0x1001, &[&[0xf3, 0xa4]]);
    let rest = nops(&mut recorder, 0x1003, 2);
    play(&mut recorder, &mut thread, &[a, again, again]);
    assert_eq!((recorder.position(), recorder.is_over()), (2, false));
    play(&mut recorder, &mut thread, &[rest]);
    assert_eq!(
        runs(&mut recorder),
        [(0x1000, 2, 0), (0x1001, 1, 0), (0x1001, 1, 0), (0x1003, 1, 0)]
    );
}

#[test]
fn window_does_not_begin_with_a_further_iteration() {
    let mut recorder = Recorder::new(2, 2);
    let mut thread = Thread::new(0);
    let a = define(&mut recorder, 0x1000, &[&[0x90], &[0xf3, 0xa4]]);
    let again = define(&mut recorder, 0x1001, &[&[0xf3, 0xa4]]);
    let rest = nops(&mut recorder, 0x1003, 2);
    play(&mut recorder, &mut thread, &[a, again, rest]);
    assert_eq!(runs(&mut recorder), [(0x1003, 2, 0)]);
}

#[test]
fn vector_accesses_are_one_and_atomic_ones_two() {
    let mut recorder = Recorder::new(0, u64::MAX);
    let mut thread = Thread::new(0);
    let a = nops(&mut recorder, 0x1000, 5);
    recorder.block(&mut thread, a);
    for part in 0..4 {
        thread.access(a, 2, 0x100 + part * 8, 8, Direction::Load);
    }
    thread.access(a, 3, 0x120, 8, Direction::Load);
    thread.access(a, 4, 0x200, 4, Direction::Both);
    let found: Vec<_> = thread.accesses.iter().map(|a| (a.instr, a.size, a.write)).collect();
    assert_eq!(found, [(2, 32, false), (3, 8, false), (4, 4, false), (4, 4, true)]);
}

#[test]
fn threads_are_told_apart_and_have_blocks_of_their_own_in_flight() {
    let mut recorder = Recorder::new(0, u64::MAX);
    let (mut one, mut two) = (Thread::new(0), Thread::new(7));
    let (a, b) = (nops(&mut recorder, 0x1000, 4), nops(&mut recorder, 0x2000, 2));
    recorder.block(&mut one, a);
    recorder.block(&mut two, b);
    two.access(b, 0, 0x20, 8, Direction::Load);
    one.access(a, 3, 0x10, 8, Direction::Store);
    recorder.land(&mut one, None);
    recorder.system_call(&one, 24, [0; 6]);
    recorder.land(&mut two, None);
    assert_eq!(runs(&mut recorder), [(0x1000, 4, 1), (0x2000, 2, 1)]);
    let call = Event::Syscall { number: 24, args: [0; 6] };
    let expected = [Event::Cpu(0), Event::AddressSpace(SPACE), call, Event::Cpu(7)];
    assert_eq!(recorder.batch.events, expected);
    assert_eq!(recorder.batch.accesses[0].address.virt.0, 0x10);
}

#[test]
fn block_that_begins_again_in_its_middle_ended_there() {
    let mut recorder = Recorder::new(0, u64::MAX);
    let mut thread = Thread::new(0);
    let (a, rest) = (nops(&mut recorder, 0x1000, 4), nops(&mut recorder, 0x1002, 2));
    recorder.block(&mut thread, a);
    thread.access(a, 0, 0x10, 8, Direction::Store);
    thread.access(a, 2, 0x1003, 1, Direction::Store);
    recorder.block(&mut thread, rest);
    thread.access(rest, 0, 0x1003, 1, Direction::Store);
    recorder.land(&mut thread, None);
    assert_eq!(runs(&mut recorder), [(0x1000, 2, 1), (0x1002, 2, 1)]);
    assert_eq!((recorder.position(), recorder.counts.signals), (4, 0));
}

#[test]
fn loop_that_begins_again_at_its_first_instruction_was_interrupted_there() {
    let mut recorder = Recorder::new(0, u64::MAX);
    let mut thread = Thread::new(0);
    // nop; nop; jmp to the first.
    let whole = define(&mut recorder, 0x1000, &[&[0x90], &[0x90], &[0xeb, 0xfc]]);
    let alone = nops(&mut recorder, 0x1000, 1);
    let rest = define(&mut recorder, 0x1001, &[&[0x90], &[0xeb, 0xfc]]);
    play(&mut recorder, &mut thread, &[whole, whole, alone, rest, whole]);
    let expected = [(0x1000, 3, 0), (0x1000, 1, 0), (0x1001, 2, 0), (0x1000, 3, 0)];
    assert_eq!(runs(&mut recorder), expected);
    assert_eq!(recorder.counts.signals, 0);
}

#[test]
fn handler_of_a_signal_follows_a_complete_block() {
    let mut recorder = Recorder::new(0, u64::MAX);
    let mut thread = Thread::new(0);
    let (a, handler) = (nops(&mut recorder, 0x1000, 4), nops(&mut recorder, 0x9000, 2));
    play(&mut recorder, &mut thread, &[a, handler]);
    assert_eq!(runs(&mut recorder), [(0x1000, 4, 0), (0x9000, 2, 0)]);
    assert_eq!(recorder.counts.signals, 1);
}

#[test]
fn marks_and_calls_outside_the_window_are_left_out() {
    let mut recorder = Recorder::new(4, u64::MAX);
    let mut thread = Thread::new(0);
    let (a, b) = (nops(&mut recorder, 0x1000, 4), nops(&mut recorder, 0x1004, 2));
    let mark = |code| Event::Mark { code, arg: 0 };
    recorder.block(&mut thread, a);
    thread.event(mark(16));
    recorder.land(&mut thread, None);
    recorder.system_call(&thread, 1, [0; 6]);
    recorder.block(&mut thread, b);
    thread.event(mark(17));
    recorder.land(&mut thread, None);
    assert_eq!(recorder.batch.events[2..], [mark(17)]);
    assert_eq!(recorder.counts.system_calls, 0);
}

/// A loop of `count` instructions, the last of which jumps to the first.
fn turn(recorder: &mut Recorder, pc: u64, count: u8) -> u32 {
    let jump = [0xeb, 0u8.wrapping_sub(count + 1)];
    let mut instrs = vec![&[0x90][..]; usize::from(count) - 1];
    instrs.push(&jump);
    define(recorder, pc, &instrs)
}

/// Arguments of the marks before samples.
fn begins(recorder: &Recorder) -> Vec<u64> {
    let begin = |event: &Event| match *event {
        Event::Mark { code: SAMPLE_MARK, arg } => Some(arg),
        _ => None,
    };
    recorder.batch.events.iter().filter_map(begin).collect()
}

#[test]
fn samples_are_whole_blocks_and_their_distance_doubles() {
    let mut recorder = Recorder::new(50, u64::MAX).sampling(Some(Samples::new(1, 100)));
    let mut thread = Thread::new(0);
    let block = turn(&mut recorder, 0x1000, 50);
    assert_eq!(recorder.distance(), 50, "what is skipped");
    // One block is skipped; then stretches 0, 1, 2, 4 and 8, of two blocks each.
    play(&mut recorder, &mut thread, &[block; 1 + 2 * 9]);
    assert_eq!(begins(&recorder), [0, 100, 200, 400, 800]);
    assert_eq!(runs(&mut recorder), vec![(0x1000, 50, 0); 10]);
    assert_eq!(recorder.samples().map(Samples::every), Some(8));
    assert_eq!(recorder.distance(), 700, "from 900 to 1600");
}

#[test]
fn sample_begins_only_where_accesses_are_seen() {
    let mut recorder = Recorder::new(0, u64::MAX).sampling(Some(Samples::new(4, 1_000)));
    let mut thread = Thread::new(0);
    let block = turn(&mut recorder, 0x1000, 5);
    recorder.watch(false);
    play(&mut recorder, &mut thread, &[block; 20]);
    recorder.watch(true);
    // The first stretch would be a tenth too short; a system call between samples is left out.
    recorder.system_call(&thread, 1, [0; 6]);
    play(&mut recorder, &mut thread, &[block; 181]);
    assert_eq!(begins(&recorder), [1_000]);
    assert_eq!(runs(&mut recorder), [(0x1000, 5, 0)]);
    assert_eq!(recorder.counts.system_calls, 0);
}
