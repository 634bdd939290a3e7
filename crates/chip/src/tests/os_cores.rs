//! Threads that go to a core for the kernel and come back.

use super::exact::with_extras;
use super::losing::losing_somehow;
use super::*;
use crate::by::By;
use crate::front_end::WorkCounts;
use crate::private::{Access, Private};
use crate::uncore::Want;
use halfwink_policy::offload::{Fixed, LikeOs, LikeOsParameters, OffloadPolicy, PerCall, Place};
use halfwink_trace::Event;

const READ: Event = Event::Syscall { number: 0, args: [3, DATA, 4096, 0, 0, 0] };
const TICK: Event = Event::Interrupt { vector: 236 };

pub(super) type Make = fn() -> OffloadPolicy;

pub(super) fn never() -> OffloadPolicy {
    Box::new(Fixed::never())
}

pub(super) fn always() -> OffloadPolicy {
    Box::new(Fixed::always())
}

pub(super) fn try_offload(
    machine: &Machine,
    technique: &str,
    make: Make,
    tasks: Vec<Task>,
    how: How,
) -> Result<RunResult, ChipError> {
    let gating = |_| policy(machine, technique);
    let offload = |_| make();
    let options = Options { offload: Some(&offload), ..Options::new(&gating) };
    play(&adapted(machine, technique), tasks, &options, how)
}

pub(super) fn offload(machine: &Machine, make: Make, tasks: Vec<Task>) -> RunResult {
    try_offload(machine, "always-on", make, tasks, USUAL).unwrap()
}

const KERNEL: u64 = 0x8_0000;

/// A user block, a call of eight additions, the user block again; `user` and `kernel` may access
/// data, whose addresses are given.
pub(super) fn one_call(user: &[Step], kernel: &[Step], data: [u64; 3]) -> Task {
    let mut writer = Writer::new();
    let before = writer.block(user);
    let call = writer.block_at(KERNEL, true, kernel);
    let (mut script, lines) = writer.script();
    let address = |steps: &[Step], byte| {
        steps.iter().filter(|s| s.access.is_some()).map(|_| at(byte)).collect::<Vec<_>>()
    };
    script.run(before, address(user, data[0])).event(READ);
    script.run(call, address(kernel, data[1])).run(before, address(user, data[2]));
    let mut task = task(script, warm(&lines, &[DATA]));
    // The kernel's code is in its core's caches too.
    let mut set = (*task.warm).clone();
    for entry in &mut set.lines {
        entry.kernel = entry.line.0 == KERNEL >> 6;
    }
    task.warm = Arc::new(set);
    task
}

pub(super) fn additions() -> Vec<Step> {
    vec![alu(1, &[1]); 8]
}

#[test]
fn thread_that_never_moves_loses_no_time() {
    for kind in KINDS {
        let machine = simple(kind);
        let plain = run(&machine, "always-on", vec![random_calls(1, 60)]);
        let watched = offload(&machine, never, vec![random_calls(1, 60)]);
        assert_eq!(plain.duration, watched.duration, "{kind}");
        assert_eq!(plain.cores[0].caches, watched.cores[0].caches);
        assert_eq!(plain.memory, watched.memory);
        let energy = |r: &RunResult| r.books.energy_where(|name| name == "core0");
        assert_eq!(energy(&plain), energy(&watched));
        let calls: u64 = watched.cores[0].calls.values().map(|c| c.invocations[0]).sum();
        assert_eq!(calls, 60);
    }
}

#[test]
fn a_move_costs_half_a_switch_on_either_core() {
    for kind in KINDS {
        let machine = simple(kind);
        let task = || one_call(&additions(), &additions(), [0; 3]);
        let stay = offload(&machine, never, vec![task()]);
        let goes = offload(&machine, always, vec![task()]);
        // There and back, 200 cycles each. Both cores fetch their own lines again, from the first
        // level, which is part of the pipeline.
        let extra = ns(&goes) - ns(&stay);
        assert!((400..=404).contains(&extra), "{kind}: {extra}");
        let call = &goes.cores[0].calls[&(1 << 32)];
        assert_eq!((call.invocations, call.instructions), ([0, 1], [0, 8]));
        // Eight dependent additions, less what of them is in flight when the return is fetched.
        let running = call.running[1].0 / 1000;
        assert!((3..=14).contains(&running), "{kind}: {running}");
        // Taken: from the entry on, so with the way there and without the way back.
        let way = call.taken[1].0 / 1000 - running;
        assert!((200..=210).contains(&way), "{kind}: {way}");
        let reason = |result: &RunResult, component: &str, name: &str| -> u64 {
            let rows = result.books.named_rows();
            let rows = rows.filter(|(c, _, cause, _)| *c == component && cause.reason == name);
            rows.map(|(.., row)| row.time.0 / 1000).sum()
        };
        for core in ["core0", "os0"] {
            assert_eq!(reason(&goes, core, "core-switch"), 200, "{kind} {core}");
        }
        let away = reason(&goes, "core0", "away");
        assert!((200 + running..=210 + running).contains(&away), "{kind}: {away}");
    }
}

#[test]
fn a_dirty_line_comes_from_the_other_core_and_must_be_won_back() {
    let machine = simple("in-order");
    let (write, read) = (vec![store(1, 2)], vec![load(1, 2), alu(3, &[1])]);
    // User writes, kernel reads, user writes: a transfer there, the right to write back here.
    let there = offload(&machine, always, vec![one_call(&write, &read, [DATA; 3])]);
    assert_eq!(there.l3.transfers, [0, 1]);
    assert_eq!(there.l3.upgrades, [1, 0]);
    // The transfer: 1 + 4 + 10 + 5 to use, instead of a hit.
    let elsewhere = offload(&machine, always, vec![one_call(&write, &read, [DATA, KERNEL, DATA])]);
    assert_eq!(elsewhere.l3.transfers, [0, 0]);
    // The other way round: the kernel writes what the user reads.
    let back = offload(&machine, always, vec![one_call(&read, &write, [DATA; 3])]);
    assert_eq!(back.l3.transfers, [1, 0], "the third level had the clean line, not the dirty one");
    // Without moving nothing is shared.
    let stay = offload(&machine, never, vec![one_call(&write, &read, [DATA; 3])]);
    assert_eq!((stay.l3.transfers, stay.l3.upgrades), ([0; 2], [0; 2]));
}

#[test]
fn threads_wait_for_the_os_core_in_turn() {
    let machine = simple("in-order");
    let task = || one_call(&additions(), &[vec![alu(1, &[1]); 400]].concat(), [0; 3]);
    let alone = offload(&machine, always, vec![task()]);
    let both = offload(&machine, always, vec![task(), task()]);
    let waits = |result: &RunResult, core: usize| {
        let call = &result.cores[core].calls[&(1 << 32)];
        (call.taken[1] - call.running[1]).0 / 1000
    };
    assert_eq!(waits(&alone, 0), 201, "the cycle of the last user instruction, and a switch");
    assert_eq!(waits(&both, 0), 201);
    // The second finds the first one's call of more than 400 cycles, and its way out.
    assert!(waits(&both, 1) > 200 + 400, "{}", waits(&both, 1));
    let two = Machine { os: crate::OsSpec { cores: 2, ..machine.os.clone() }, ..machine };
    let apart = offload(&two, always, vec![task(), task()]);
    assert_eq!(apart.os_cores.len(), 2);
    assert!(waits(&apart, 1) < 260, "{}", waits(&apart, 1));
}

#[test]
fn the_core_that_is_left_may_sleep() {
    let machine = simple("in-order");
    let task = || one_call(&additions(), &[vec![alu(1, &[1]); 2000]].concat(), [0; 3]);
    let awake = try_offload(&machine, "always-on", always, vec![task()], USUAL).unwrap();
    let sleeps = try_offload(&machine, "idle-gate", always, vec![task()], USUAL).unwrap();
    let core = |r: &RunResult| r.books.energy_where(|name| name == "core0").as_j();
    assert!(core(&sleeps) < core(&awake));
    // The OS core slept before, the user core meanwhile; each wakes once: 4 + 1 + 2 cycles.
    assert_eq!((sleeps.cores[0].wakes, sleeps.os_cores[0].wakes), (1, 1));
    assert_eq!(ns(&sleeps) - ns(&awake), 2 * 7);
}

#[test]
fn interrupts_go_where_the_policy_says() {
    let machine = simple("in-order");
    let make: Make = || Box::new(PerCall::new(Vec::new(), 16, Place::OsCore));
    let result = offload(&machine, make, vec![random_calls(3, 40)]);
    for call in result.cores[0].calls.values() {
        let moved = matches!(call.cause, Some(halfwink_policy::offload::Cause::Interrupt { .. }));
        assert_eq!(call.invocations[usize::from(!moved)], 0, "{call:?}");
    }
    assert!(result.os_cores[0].work.instructions[1] > 0);
    assert_eq!(result.os_cores[0].work.instructions[0], 0, "user code stays at home");
}

fn like_os() -> OffloadPolicy {
    let parameters =
        LikeOsParameters { epoch: Time::ns(2_000), patience: 1_000, ..LikeOsParameters::usual() };
    Box::new(LikeOs::new(parameters, Box::new(Fixed::never())))
}

#[test]
fn a_thread_that_keeps_up_is_hosted_and_one_that_does_not_comes_home() {
    let machine = simple("in-order");
    // Its loads and stores miss: as fast on an equal core.
    let hosted = offload(&machine, like_os, vec![random_calls(5, 400)]);
    let user =
        |r: &RunResult| (r.cores[0].work.instructions[0], r.os_cores[0].work.instructions[0]);
    let (home, there) = user(&hosted);
    assert!(there > 3 * home, "{home} {there}");
    // A core at a twentieth of the clock does not keep up: one epoch there, and back.
    let slow = Machine {
        clock: halfwink_units::Clock::from_hz(50_000_000).unwrap(),
        ..simple("in-order")
    };
    let os = crate::OsSpec { kind: Some(Box::new(slow)), ..machine.os.clone() };
    let rejected = offload(&Machine { os, ..machine }, like_os, vec![random_calls(5, 400)]);
    let (home, there) = user(&rejected);
    assert!(there > 0 && home > 3 * there, "{home} {there}");
}

pub(super) fn beside() -> OffloadPolicy {
    Box::new(PerCall::new(Vec::new(), 16, Place::Beside))
}

#[test]
fn a_bound_interrupt_costs_its_thread_nothing_but_the_caches() {
    for kind in KINDS {
        let machine = simple(kind);
        let mut writer = Writer::new();
        let user = writer.block(&additions());
        let handler = writer.block_at(KERNEL, true, &additions());
        let (mut script, lines) = writer.script();
        script.run(user, vec![]).event(TICK);
        for _ in 0..50 {
            script.run(handler, vec![]);
        }
        script.run(user, vec![]);
        let with = || task(script.clone(), warm(&lines, &[]));
        let stay = offload(&machine, never, vec![with()]);
        let bound = offload(&machine, beside, vec![with()]);
        assert_eq!(bound.os_cores[0].work.instructions, [0, 400], "{kind}");
        assert_eq!(bound.cores[0].work.instructions, [16, 0]);
        // The thread does not wait for the 400 additions of the handler.
        assert!(bound.cores[0].finished + Time::ns(390) < stay.cores[0].finished, "{kind}");
        let call = &bound.cores[0].calls[&(2 << 32 | 236)];
        assert_eq!((call.invocations, call.instructions), ([0, 1], [0, 400]));
        assert_eq!(call.taken, [Time::ZERO; 2]);
        assert!(call.running[1] >= Time::ns(395), "{kind}");
    }
}

#[test]
fn interrupts_that_halt_or_switch_processes_stay_with_their_thread() {
    let machine = simple("in-order");
    let result = offload(&machine, beside, vec![random_calls(3, 42)]);
    let call = &result.cores[0].calls[&(2 << 32 | 236)];
    // Every third entry is a tick; of those, every seventh entry halts: 6, 27 of 0, 3, 6, ... 39.
    assert_eq!(call.invocations, [2, 12]);
}

/// Calls and interrupts over a few lines of data that user and kernel share, and some idle time.
pub(super) fn random_calls(seed: u64, calls: usize) -> Task {
    // A linear congruential generator (Knuth, TAOCP vol. 2, 3.3.4) is random enough.
    let mut state = seed;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut writer = Writer::new();
    let body = [load(1, 2), alu(3, &[1]), store(3, 2), alu(4, &[3]), load(5, 2)];
    let user: Vec<TemplateId> = (0..3).map(|_| writer.block(&body)).collect();
    let kernel: Vec<TemplateId> =
        (0..3).map(|n| writer.block_at(KERNEL + n * 0x400, true, &body)).collect();
    let (mut script, lines) = writer.script();
    let mut address = || at(DATA + random(192) * 64);
    let mut addresses = || vec![address(), address(), address()];
    let mut time = 0;
    for call in 0..calls {
        for block in &user {
            script.run(*block, addresses());
        }
        script.event(if call % 3 == 0 { TICK } else { READ });
        for block in &kernel {
            script.run(*block, addresses());
        }
        if call % 7 == 6 {
            time += 900;
            script.event(Event::Idle { from_ns: time, to_ns: time + 250 });
            script.event(TICK).run(kernel[0], addresses());
        }
    }
    script.run(user[0], addresses());
    task(script, warm(&lines, &[DATA]))
}

/// The same machine with so many cores, on which threads take turns of 500 ns.
fn in_turns(machine: Machine, cores: usize) -> Machine {
    let os = crate::OsSpec { time_slice: Time::ns(500), ..machine.os.clone() };
    Machine { os, ..machine }.with_cores(cores)
}

#[test]
fn threads_take_turns_on_a_core() {
    let machine = in_turns(simple("in-order"), 1).without_os_cores();
    let os = crate::OsSpec { switch: 0, ..machine.os.clone() };
    let machine = Machine { os, ..machine };
    let tasks = |threads: u64| (0..threads).map(|n| random_calls(n, 200)).collect();
    let one = offload(&machine, never, tasks(1));
    let three = offload(&machine, never, tasks(3));
    assert_eq!(three.cores.len(), 1);
    let work = |r: &RunResult| r.cores[0].work.instructions.iter().sum::<u64>();
    assert_eq!(work(&three), 3 * work(&one));
    // As long as one after the other, less the halts that others use, and what caches forget.
    let (one, three) = (one.duration.as_ns(), three.duration.as_ns());
    assert!(three > 2.0 * one && three < 4.5 * one, "{one} {three}");
    let refused = Machine { os: simple("in-order").os, ..machine };
    let error = try_offload(&refused, "always-on", never, tasks(3), USUAL).unwrap_err();
    assert_eq!(error.to_string(), "3 workloads for 1 cores");
}

#[test]
fn another_thread_uses_the_core_that_is_left() {
    // Much kernel code, and switches that cost little: two threads on one core and an OS core get
    // on nearly as if each had a core.
    let machine = in_turns(simple("in-order"), 1);
    let os = crate::OsSpec { switch: 10, ..machine.os.clone() };
    let machine = Machine { os, ..machine };
    let task = || {
        let mut writer = Writer::new();
        let user = writer.block(&[vec![alu(1, &[1]); 8]].concat());
        let kernel = writer.block_at(KERNEL, true, &additions());
        let (mut script, lines) = writer.script();
        for _ in 0..40 {
            (0..50).for_each(|_| {
                script.run(user, vec![]);
            });
            script.event(READ);
            (0..50).for_each(|_| {
                script.run(kernel, vec![]);
            });
        }
        script.run(user, vec![]);
        task(script, warm(&lines, &[]))
    };
    let shared = offload(&machine.clone().without_os_cores(), never, vec![task(), task()]);
    let helped = offload(&machine, always, vec![task(), task()]);
    let gain = shared.duration.as_ns() / helped.duration.as_ns();
    assert!((1.7..2.0).contains(&gain), "{gain}");
}

#[test]
fn how_far_cores_run_ahead_changes_nothing() {
    for kind in KINDS {
        let machine = simple(kind);
        for os_cores in [1, 2] {
            let os = crate::OsSpec { cores: os_cores, ..machine.os.clone() };
            for switch in [0, 30] {
                let machine =
                    Machine { os: crate::OsSpec { switch, ..os.clone() }, ..machine.clone() };
                // With one OS core, three threads share two cores.
                let machine = if os_cores == 1 { in_turns(machine, 2) } else { machine };
                for make in [always, beside, like_os] {
                    run_ahead(&machine, "idle-gate", make);
                    run_ahead(&with_extras(machine.clone(), 4), "idle-gate", make);
                    for how in [1, 2] {
                        // What the core that is left loses is written back while others run.
                        run_ahead(&losing_somehow(machine.clone(), how), "idle-adaptive", make);
                        run_ahead(&losing_somehow(machine.clone(), how), "idle-gate", make);
                    }
                    // A central controller hears of every gating, and grants in its turn.
                    run_ahead(&centrally(machine.clone(), 2.0, 8.0), "mapg-counter", make);
                }
            }
        }
    }
}

#[test]
fn running_ahead_changes_nothing_in_shared_memory() {
    for kind in KINDS {
        for extras in [0, 4] {
            let machine = in_one_memory(with_extras(simple(kind), extras));
            run_ahead(&machine.clone().without_os_cores(), "idle-gate", never);
            run_ahead(&machine, "idle-gate", always);
        }
    }
}

/// The same machine, all threads of which see the same memory.
pub(super) fn in_one_memory(machine: Machine) -> Machine {
    Machine { os: crate::OsSpec { one_memory: true, ..machine.os.clone() }, ..machine }
}

#[test]
fn in_one_memory_a_line_that_one_writes_comes_from_there() {
    for kind in KINDS {
        let machine = simple(kind).without_os_cores();
        let writes = || one_call(&additions(), &[store(1, 2)], [0, DATA, 0]);
        let mut later = writes();
        later.start = Time::ns(5_000);
        let apart = offload(&machine, never, vec![writes(), later]);
        assert_eq!((apart.l3.transfers, apart.l3.upgrades), ([0; 2], [0; 2]), "{kind}");
        let mut later = writes();
        later.start = Time::ns(5_000);
        let one = offload(&in_one_memory(machine), never, vec![writes(), later]);
        // Both have it, clean, from the beginning: the first takes the second's copy away, which
        // then fetches what the first has written.
        assert_eq!((one.l3.transfers, one.l3.upgrades), ([0, 1], [0, 1]), "{kind}");
    }
}

#[test]
fn store_that_joined_a_read_takes_the_right_to_write_for_its_own_privilege() {
    let machine = simple("in-order");
    for kernel in [false, true] {
        let mut private = Private::new(&machine, 0, false, None);
        let (line, by, work) = (DATA / 64, By::new(0, kernel), WorkCounts::default());
        assert!(matches!(private.load(line, by, 0, &work), Access::Outstanding(_)));
        assert!(matches!(private.store(line, by, 1), Access::Outstanding(_)));
        let _ = private.answer(line, true, 40);
        let (_, last) = private.requests.last().unwrap();
        assert_eq!((last.want, last.kernel), (Want::Invalidate, kernel));
    }
}

#[test]
fn one_memory_without_offload_policy_is_refused() {
    let machine = in_one_memory(simple("in-order"));
    let gating = |_| policy(&machine, "always-on");
    let options = Options::new(&gating);
    let found = play(&machine, vec![random_calls(1, 1)], &options, USUAL);
    assert!(matches!(found, Err(ChipError::Unwatched)));
}

/// Plays calls on three threads, cores running ahead of each other by more or less.
fn run_ahead(machine: &Machine, technique: &str, make: Make) {
    let play = |how| {
        let tasks = (0..3).map(|n| random_calls(n, 50)).collect();
        let result = try_offload(machine, technique, make, tasks, how).unwrap();
        format!("{:?} {:?} {:?} {:?}", result.cores, result.os_cores, result.l3, result.memory)
    };
    let usual = play(USUAL);
    for quantum in [Time::ns(1), Time::ns(37), Time::ns(1_000)] {
        let how = How { quantum: Some(quantum), ..USUAL };
        assert!(play(how) == usual, "{technique} {quantum:?} {:?}", machine.gating);
    }
    assert!(play(How { never_skip: true, ..USUAL }) == usual, "{technique}");
}

/// The same machine whose wake-ups are granted by a central controller, within these nanoseconds.
fn centrally(mut machine: Machine, fastest_ns: f64, slowest_ns: f64) -> Machine {
    machine.wake_up.controller = crate::WakeUpKind::Central;
    machine.wake_up.fastest = Time::from_ns(fastest_ns);
    machine.wake_up.slowest = Time::from_ns(slowest_ns);
    machine
}

#[test]
fn grants_that_change_nothing_change_nothing_beside_os_cores_either() {
    for kind in KINDS {
        let machine = simple(kind);
        let everything = |machine: &Machine, make| {
            let tasks = (0..2).map(|n| random_calls(n, 100)).collect();
            let result = try_offload(machine, "mapg-counter", make, tasks, USUAL).unwrap();
            format!("{result:?}")
        };
        for make in [never, always, beside] {
            // Every mode is as slow as waking is without a controller: 4 ns.
            let equal = centrally(machine.clone(), 4.0, 4.0);
            assert!(everything(&machine, make) == everything(&equal, make), "{kind}");
        }
    }
}

#[test]
fn a_central_controller_wakes_cores_that_share_their_work_faster() {
    let machine = simple("in-order");
    let run = |machine: &Machine| {
        let tasks = (0..2).map(|n| random_calls(n, 200)).collect();
        try_offload(machine, "mapg-counter", always, tasks, USUAL).unwrap()
    };
    let charging = |result: &RunResult| {
        let cores = result.cores.iter();
        let wakes: u64 = cores.clone().map(|core| core.wakes).sum();
        let times = cores.map(|core| core.residency[halfwink_power::CoreState::Charging as usize]);
        let time = times.fold(Time::ZERO, |sum, time| sum + time);
        time.as_ns() / wakes as f64
    };
    let granted = run(&centrally(machine.clone(), 2.0, 8.0));
    let never_granted = run(&centrally(machine, 8.0, 8.0));
    assert_eq!(charging(&never_granted), 8.0);
    // A grant comes 6 ns after the supply is off: early enough for some stalls.
    let mean = charging(&granted);
    assert!((2.0..7.9).contains(&mean), "{mean}");
    // The controller learns when to wake with either, so that the lengths of the runs say little.
}

/// Notes when a controller was told something, and whether it granted.
struct Notes(Arc<std::sync::Mutex<Vec<(Time, bool)>>>);

impl<E, A> halfwink_policy::Log<E, A> for Notes {
    fn begin(&mut self, now: Time, _: halfwink_policy::Input<&E>) {
        self.0.lock().unwrap().push((now, false));
    }

    fn action(&mut self, _: Time, _: &A) {
        self.0.lock().unwrap().last_mut().unwrap().1 = true;
    }

    fn end(&mut self) {}
}

#[test]
fn host_of_wake_up_controller_logs_its_events() {
    let machine = centrally(simple("in-order"), 2.0, 8.0);
    let gating = |_| policy(&machine, "mapg-counter");
    let offload = |_| always();
    let notes = Arc::default();
    let host = |central| -> halfwink_policy::wake_up::WakeUpPolicy {
        Box::new(halfwink_policy::Host::logged(central, Notes(Arc::clone(&notes))))
    };
    let options =
        Options { offload: Some(&offload), wake_up: Some(&host), ..Options::new(&gating) };
    let result = play(&machine, vec![random_calls(1, 100)], &options, USUAL).unwrap();
    let notes = notes.lock().unwrap();
    // Each gating is told, then that the core is awake; what is known in hindsight is not.
    let grants = notes.iter().filter(|(_, granted)| *granted).count();
    assert_eq!(2 * grants, notes.len());
    assert!(grants > 0 && grants as u64 <= result.cores[0].wakes);
    assert!(notes.windows(2).all(|pair| pair[0].0 <= pair[1].0));
}

#[test]
fn no_work_is_lost_on_the_way() {
    for kind in KINDS {
        let machine = simple(kind);
        let sums = |r: &RunResult| {
            let all = r.cores.iter().chain(&r.os_cores);
            let mut sum = [0; 2];
            for core in all {
                sum[0] += core.work.instructions[0];
                sum[1] += core.work.instructions[1];
            }
            sum
        };
        let tasks = || (0..3).map(|n| random_calls(10 + n, 80)).collect();
        let stay = offload(&machine, never, tasks());
        let goes = offload(&machine, always, tasks());
        assert_eq!(sums(&stay), sums(&goes));
        assert_eq!(goes.os_cores[0].work.instructions[1], sums(&stay)[1], "all of the kernel");
        let calls = |r: &RunResult| -> u64 {
            let all = r.cores.iter().flat_map(|c| c.calls.values());
            all.map(|c| c.invocations.iter().sum::<u64>()).sum()
        };
        assert_eq!(calls(&stay), calls(&goes));
        assert!(goes.duration > stay.duration, "{kind}: switches take time");
    }
}
