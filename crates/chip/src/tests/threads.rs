//! Threads of one recording on cores of their own: cycles by hand, and waits in the recorded order.

use super::exact::{fingerprint, first_difference, with_extras};
use super::fetch::ahead;
use super::os_cores::{in_one_memory, never, try_offload};
use super::*;
use crate::Threads;
use halfwink_trace::{Event, InstrFlags};
use proptest::prelude::*;

/// A lock, and data that no other thread's lies beside.
const LOCK: u64 = DATA;
const FAR: u64 = DATA + 0x400;

/// Blocks of code that every thread has.
#[derive(Clone, Copy)]
struct Blocks {
    /// Adds to memory, atomically.
    atomic: TemplateId,
    load: TemplateId,
    store: TemplateId,
    /// Adds to memory by a load, an addition and a store.
    add: TemplateId,
    /// An addition to memory, an atomic one, and a branch.
    middle: TemplateId,
    /// 40 additions, one behind the other.
    work: TemplateId,
    /// 20 additions, one behind the other, and a load: an in-order core may come to it before it
    /// looks after its stores.
    late: TemplateId,
}

/// A recording of several threads in one sequence.
struct Recording {
    script: Script,
    blocks: Blocks,
    code: Vec<u64>,
}

impl Recording {
    fn new() -> Recording {
        let mut writer = Writer::new();
        let atomic = writer.atomic();
        let blocks = Blocks {
            atomic,
            load: writer.block(&[load(3, 2), alu(4, &[3])]),
            store: writer.block(&[store(1, 2)]),
            add: writer.block(&[load(1, 2), alu(1, &[1]), store(1, 2)]),
            middle: writer.middle(),
            work: writer.block(&[alu(1, &[1]); 40]),
            late: writer.block(&[vec![alu(6, &[6]); 20], vec![load(5, 2)]].concat()),
        };
        let (script, code) = writer.script();
        Recording { script, blocks, code }
    }

    fn thread(&mut self, number: u16) -> &mut Recording {
        self.script.event(Event::Cpu(number));
        self
    }

    fn call(&mut self, number: u32, args: [u64; 2]) -> &mut Recording {
        let args = [args[0], args[1], 0, 0, 0, 0];
        self.script.event(Event::Syscall { number, args });
        self
    }

    fn run(&mut self, of: fn(&Blocks) -> TemplateId, data: &[u64]) -> &mut Recording {
        let addresses = data.iter().map(|&byte| at(byte)).collect();
        self.script.run(of(&self.blocks), addresses);
        self
    }

    fn atomic(&mut self, byte: u64) -> &mut Recording {
        self.run(|b| b.atomic, &[byte; 2])
    }

    fn load(&mut self, byte: u64) -> &mut Recording {
        self.run(|b| b.load, &[byte])
    }

    fn store(&mut self, byte: u64) -> &mut Recording {
        self.run(|b| b.store, &[byte])
    }

    fn add(&mut self, byte: u64) -> &mut Recording {
        self.run(|b| b.add, &[byte; 2])
    }

    fn work(&mut self) -> &mut Recording {
        self.run(|b| b.work, &[])
    }

    /// One task for each thread, with the code in its caches and nothing else.
    fn tasks(&self) -> Vec<Task> {
        let threads = Arc::new(Threads::of(|| self.script.clone()).unwrap());
        let one = |n| {
            let (source, thread) = threads.thread(n, self.script.clone());
            Task { thread: Some(thread), ..task(source, warm(&self.code, &[])) }
        };
        (0..threads.count()).map(one).collect()
    }

    fn play(&self, kind: &str) -> RunResult {
        play_tasks(&simple(kind), self.tasks(), USUAL)
    }
}

fn play_tasks(machine: &Machine, tasks: Vec<Task>, how: How) -> RunResult {
    let machine = in_one_memory(machine.clone().without_os_cores());
    try_offload(&machine, "always-on", never, tasks, how).unwrap()
}

impl Writer {
    /// A block of one atomic instruction that reads and writes memory.
    fn atomic(&mut self) -> TemplateId {
        self.locked(&[Step { base: 1 << 2, ..alu(1, &[1]) }], 0, &[])
    }

    /// A block of such an instruction between others.
    fn middle(&mut self) -> TemplateId {
        let atomic = Step { base: 1 << 2, ..alu(1, &[1]) };
        self.locked(&[load(5, 2), atomic, store(5, 2), jump_if(FLAGS)], 1, &[(0, false), (2, true)])
    }

    /// A block whose instruction `n` is atomic; `others` access memory, those before it to read.
    fn locked(&mut self, steps: &[Step], n: u16, others: &[(u16, bool)]) -> TemplateId {
        let mut block_of = Writer { pc: self.pc, ..Writer::new() };
        let plain: Vec<Step> = steps.iter().map(|step| Step { access: None, ..*step }).collect();
        block_of.block(&plain);
        let mut instrs = block_of.program.instrs;
        instrs[usize::from(n)].flags = InstrFlags::LOCKED;
        let block = block_of.program.blocks[0];
        let site = |instr, write| Site { instr, size: 4, write, group: 0 };
        let mut sites: Vec<Site> =
            others.iter().map(|&(instr, write)| site(instr, write)).collect();
        sites.extend([site(n, false), site(n, true)]);
        sites.sort_by_key(|site| (site.instr, site.write));
        self.pc = block_of.pc;
        self.lines.extend(block_of.lines);
        let block = self.program.push_block(block, &instrs);
        self.program.push_template(block, steps.len() as u16, &sites)
    }
}

/// When each core's thread ends, in cycles.
fn ends(result: &RunResult) -> Vec<u64> {
    result.cores.iter().map(|core| core.finished.0 / 1000).collect()
}

/// Clone, exit and futex (Linux, x86-64), and the operations of the latter.
const CLONE: u32 = 56;
const EXIT: u32 = 60;
const FUTEX: u32 = 202;
const WAIT: u64 = 0x80;
const WAKE: u64 = 0x81;

/// Load to use 20 (first level 1, second 4, third 10, transfer 5), the operation 6, and the store
/// a cycle later; out of order the store goes into its queue before.
const HAND_OVER: [u64; 2] = [20 + 6 + 1, 20 + 6 + 2];

#[test]
fn atomic_instructions_of_two_threads_go_in_turns_as_recorded() {
    for (kind, hand_over) in KINDS.into_iter().zip(HAND_OVER) {
        let turns = |count: u64| {
            let mut recording = Recording::new();
            for n in 0..count {
                recording.thread((n % 2) as u16).atomic(LOCK);
            }
            recording.play(kind)
        };
        let (few, many) = (turns(3), turns(13));
        assert_eq!(ns(&many) - ns(&few), 10 * hand_over, "{kind}");
        // The first line comes from memory, all others from the other core: for a write, so that
        // no right to write is asked for behind it.
        assert_eq!((many.l3.misses, many.l3.transfers), ([1, 0], [12, 0]), "{kind}");
        assert_eq!(many.l3.upgrades, [0, 0], "{kind}");
    }
}

/// A thread that was recorded behind another one waits for its last access to the word, and for
/// nothing else.
#[test]
fn thread_waits_for_what_was_recorded_before() {
    for (kind, hand_over) in KINDS.into_iter().zip(HAND_OVER) {
        let play = |own: u64| {
            let mut recording = Recording::new();
            recording.thread(0).atomic(LOCK).work().work().work().atomic(LOCK);
            recording.thread(1).atomic(own).work();
            ends(&recording.play(kind))
        };
        let (free, bound) = (play(FAR), play(LOCK));
        assert!(free[1] < free[0], "{kind}: {free:?}");
        assert_eq!(bound[0], free[0], "{kind}: who goes first is not held up");
        // 40 additions behind the atomic instruction, of which the first is in flight with it.
        let after = bound[1] - bound[0];
        assert!((hand_over + 30..=hand_over + 42).contains(&after), "{kind}: {after}");
    }
}

/// Counters of two threads, in one line or apart: cycles of an addition, and its transfers.
#[test]
fn counters_in_one_line_travel_and_padded_ones_do_not() {
    for kind in KINDS {
        let play = |adds: u64, add: fn(&mut Recording, u64), second: u64| {
            let mut recording = Recording::new();
            for (number, byte) in [(0, LOCK), (1, second)] {
                recording.thread(number);
                (0..adds).for_each(|_| add(&mut recording, byte));
            }
            recording.play(kind)
        };
        let each = |add, second| {
            let (few, many) = (play(20, add, second), play(60, add, second));
            let transfers = many.l3.transfers[0] - few.l3.transfers[0];
            let cycles = (ns(&many) - ns(&few)) as f64 / 40.0;
            (cycles, transfers as f64 / 80.0)
        };
        let atomic = |r: &mut Recording, byte| {
            r.atomic(byte);
        };
        // Load 1, operation 6, and the store before the next load; or, for the load, 20.
        assert_eq!(each(atomic, FAR), (8.0, 0.0), "{kind}");
        assert_eq!(each(atomic, LOCK + 4), (27.0, 1.0), "{kind}");
        let plain = |r: &mut Recording, byte| {
            r.add(byte);
        };
        assert_eq!(each(plain, FAR), (3.0, 0.0), "{kind}");
        // In order, the load of 20, the addition, and the store before the next load. Out of order,
        // loads take the value from the store queue, and stores gather while the line is on its
        // way.
        match (kind, each(plain, LOCK + 8)) {
            ("in-order", each) => assert_eq!(each, (22.0, 1.0)),
            (_, (cycles, transfers)) => {
                assert!((2.5..4.0).contains(&cycles), "{cycles}");
                assert!((0.05..0.5).contains(&transfers), "{transfers}");
            }
        }
    }
}

/// A core passes a line on when it has it: among four, one transfer follows another.
#[test]
fn counters_of_four_threads_in_one_line_wait_for_each_other() {
    for kind in KINDS {
        let play = |adds: u64| {
            let mut recording = Recording::new();
            for number in 0..4u16 {
                recording.thread(number);
                for _ in 0..adds {
                    recording.atomic(LOCK + 4 * u64::from(number));
                }
            }
            let mut machine = simple(kind);
            machine.os.transfer = Time::ns(10);
            ns(&play_tasks(&machine, recording.tasks(), USUAL))
        };
        // Each alone takes 25 for the load and 7 more; four transfers take longer.
        assert_eq!(play(60) - play(20), 40 * 4 * 10, "{kind}");
    }
}

/// A lock that is taken by an atomic instruction and given back by a plain store.
#[test]
fn critical_sections_of_two_threads_follow_one_another() {
    for (kind, hand_over) in KINDS.into_iter().zip(HAND_OVER) {
        let play = |rounds: u64, second: u64| {
            let mut recording = Recording::new();
            for n in 0..rounds {
                recording.thread((n % 2) as u16);
                let lock = if n % 2 == 0 { LOCK } else { second };
                recording.atomic(lock).work().store(lock);
            }
            recording.play(kind)
        };
        let each = |second| ns(&play(12, second)) - ns(&play(2, second));
        // Ten times a hand-over and the 40 additions; with locks apart, five for each thread.
        assert_eq!(each(LOCK), 10 * (hand_over + 40), "{kind}");
        assert_eq!(each(FAR), 5 * (1 + 6 + 40 + 1), "{kind}");
    }
}

#[test]
fn blocked_thread_goes_on_after_the_call_that_woke_it() {
    for kind in KINDS {
        let play = |wakes: &dyn Fn(&mut Recording)| {
            let mut recording = Recording::new();
            recording.thread(1).work().call(FUTEX, [FAR, WAIT]);
            recording.thread(0).work().work().work();
            wakes(&mut recording);
            recording.work();
            recording.thread(1).work();
            ends(&recording.play(kind))
        };
        // The threads are numbered as they begin: 1 is on core 0.
        let timed_out = play(&|_| {});
        let another = play(&|r| {
            r.call(FUTEX, [LOCK, WAKE]);
        });
        let woken = play(&|r| {
            r.call(FUTEX, [FAR, WAKE]);
        });
        let joined = play(&|r| {
            r.call(EXIT, [0, 0]);
        });
        assert_eq!(timed_out, another, "{kind}");
        assert!(timed_out[0] < timed_out[1], "{kind}: {timed_out:?}");
        // Woken with 40 additions left on either side. (Out of order, a call is passed while what
        // stands before it is in flight: these calls have no instruction, which would serialize.)
        assert!(woken[0].abs_diff(woken[1]) <= 12 && woken[1] == timed_out[1], "{kind}: {woken:?}");
        assert_eq!(woken, joined, "{kind}");
    }
}

#[test]
fn thread_begins_after_the_call_that_began_it() {
    for kind in KINDS {
        let mut recording = Recording::new();
        recording.thread(0).work().work().call(CLONE, [0, 0]).work();
        recording.thread(1).work();
        let begun = ends(&recording.play(kind));
        assert!(begun[0].abs_diff(begun[1]) <= 12, "{kind}: {begun:?}");
    }
}

#[test]
fn thread_that_ends_at_its_limit_releases_all_that_wait() {
    for kind in KINDS {
        let mut recording = Recording::new();
        recording.thread(0).work().work().atomic(LOCK);
        recording.thread(1).atomic(LOCK).work();
        let mut tasks = recording.tasks();
        tasks[0].limit = 40;
        let cut = play_tasks(&simple(kind), tasks, USUAL);
        assert_eq!(cut.l3.transfers, [0, 0], "{kind}");
        let work = |n: usize| cut.cores[n].work.instructions[0];
        assert_eq!((work(0), work(1)), (40, 41), "{kind}");
        assert!(ends(&cut)[1] > ends(&cut)[0], "{kind}");
    }
}

/// Six threads on four cores: who waits leaves its core to others, so that none is stuck.
#[test]
fn more_threads_than_cores_take_turns() {
    for kind in KINDS {
        let mut recording = Recording::new();
        for round in 0..3u64 {
            // The last threads have no core at first, and the others wait for them.
            for n in (0..6).rev() {
                recording.thread(n).work().atomic(LOCK + 64 * (round % 2));
            }
        }
        let mut machine = simple(kind);
        machine.os.time_slice = Time::ns(1_000_000);
        let result = play_tasks(&machine, recording.tasks(), USUAL);
        let all: u64 = result.cores.iter().map(|core| core.work.instructions[0]).sum();
        assert_eq!((result.cores.len(), all), (4, 18 * 41), "{kind}");
    }
}

/// Steps of a random recording: the thread, the kind of action, and its place.
type Steps = Vec<(u8, u8, u8)>;

fn recorded(steps: &Steps) -> Recording {
    let mut recording = Recording::new();
    for n in 0..4 {
        recording.thread(n).work();
    }
    for &(thread, what, place) in steps {
        let thread = u16::from(thread % 4);
        recording.thread(thread);
        let word = LOCK + u64::from(place % 5) * 4 + u64::from(place % 3) * 64;
        let data = LOCK + u64::from(place % 37) * 8;
        match what % 14 {
            0 | 1 => recording.atomic(word),
            2 => recording.load(word),
            3 => recording.store(word),
            4 | 5 => recording.add(data),
            6 => recording.load(COLD + u64::from(place) * 64),
            7 => recording.call(FUTEX, [word, WAIT]),
            8 => recording.call(FUTEX, [word, WAKE]),
            9 => recording.call(if place % 2 == 0 { CLONE } else { EXIT }, [0, 0]),
            10 => recording.run(|b| b.middle, &[data, word, word, data]),
            11 => recording.store(word).run(|b| b.late, &[data]),
            12 => recording.atomic(word).run(|b| b.late, &[data]),
            _ => recording.work(),
        };
    }
    recording
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn running_ahead_changes_nothing_of_threads(
        steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..120),
        kind in 0..3usize,
        extras in 0..5usize,
        quantum in prop_oneof![1u64..4, 1u64..300],
        never_skip in any::<bool>(),
    ) {
        let recording = recorded(&steps);
        let machine = match kind {
            2 => ahead(64, 4, 0),
            _ => simple(KINDS[kind]),
        };
        let machine = with_extras(machine, extras);
        let go = |how| fingerprint(&play_tasks(&machine, recording.tasks(), how));
        let how = How { never_skip, quantum: Some(Time::ns(quantum)) };
        prop_assert_eq!(first_difference(&go(USUAL), &go(how)), None);
    }
}
