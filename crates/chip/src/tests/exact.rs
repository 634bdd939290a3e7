//! What must not change a result: skipping, running ahead, the order in which cores are simulated.

use super::prefetch::prefetching;
use super::translation::translating;
use super::*;
use crate::WakeUpKind;
use halfwink_trace::{Event, Kernel, Synthetic};
use halfwink_units::Asid;
use proptest::prelude::*;

/// Everything about a result that is not how long the host took.
pub(super) fn fingerprint(result: &RunResult) -> String {
    let mut text = format!("{:?} {:?} {:?}\n", result.duration, result.l3, result.memory);
    text += &format!("{:?}\n", result.precision);
    for core in &result.cores {
        let branches = core.branches;
        text += &format!(
            "{:?} {:?} {:?} {:?} {branches:?} {:?} {:?} {:?} {} {} {:?} {:?}\n",
            core.work,
            core.caches,
            core.tlb,
            core.prefetch,
            core.residency,
            core.gated_units,
            core.stalls.total(),
            core.wakes,
            core.late_wakes,
            core.late,
            core.finished
        );
    }
    for (component, state, cause, row) in result.books.named_rows() {
        text += &format!("{component} {state:?} {cause:?} {row:?}\n");
    }
    text
}

pub(super) fn first_difference(a: &str, b: &str) -> Option<String> {
    let pair = a.lines().zip(b.lines()).find(|(a, b)| a != b);
    pair.map(|(a, b)| format!("\n{a}\n{b}\n")).or((a.len() != b.len()).then(String::new))
}

/// A random little program: what each step is, in a form that shrinks well.
pub(super) type Recipe = Vec<(u8, u8, u8, u16)>;

pub(super) fn script(recipe: &Recipe, seed: u64) -> (Script, Vec<u64>) {
    let mut writer = Writer::new();
    let mut plan: Vec<(TemplateId, Vec<Address>)> = Vec::new();
    for chunk in recipe.chunks(5) {
        let mut addresses = Vec::new();
        let mut steps: Vec<Step> = chunk
            .iter()
            .map(|&(what, to, from, place)| {
                let (to, from) = (u32::from(to % 8), u32::from(from % 8));
                // Few lines in few sets, some of them cold, a few across two lines.
                let byte =
                    DATA + u64::from(place % 97) * 64 * 17 + seed * 64 + u64::from(place) % 61;
                match what % 10 {
                    0..=2 => alu(to, &[from]),
                    3 => op(Kind::IntMul, to, &[from]),
                    4 => op(Kind::IntDiv, to, &[from]),
                    5 => op(Kind::FpAdd, 20 + to, &[20 + from]),
                    6..=8 => {
                        addresses.push(at(byte));
                        load(to, from)
                    }
                    _ => {
                        addresses.push(at(byte));
                        store(to, from)
                    }
                }
            })
            .collect();
        steps.push(jump_if(0));
        // Leave a gap now and then, so that the branch is taken.
        let gap = if chunk[0].3 % 3 == 0 { 64 } else { 0 };
        let pc = writer.pc + gap;
        plan.push((writer.block_at(pc, chunk[0].3 % 7 == 0, &steps), addresses));
    }
    let (mut script, lines) = writer.script();
    for round in 0..3u64 {
        for (n, (template, addresses)) in plan.iter().enumerate() {
            if n as u64 % 11 == round {
                script.event(Event::Interrupt { vector: 32 });
            }
            if n as u64 % 17 == 5 + round {
                let from_ns = 1_000_000 * round;
                script.event(Event::Idle { from_ns, to_ns: from_ns + 300 });
            }
            if n as u64 % 13 == 3 + round {
                script.event(Event::AddressSpace(Asid(round)));
            }
            script.run(*template, addresses.clone());
        }
    }
    (script, lines)
}

/// Machines with nothing more, with translation buffers that nearly all accesses miss, and with
/// prefetchers at all caches.
pub(super) const EXTRAS: usize = 5;

pub(super) fn with_extras(machine: Machine, extras: usize) -> Machine {
    match extras {
        0 => machine,
        1 => translating(machine, 1, 0),
        2 => translating(machine, 2, 2),
        3 => prefetching(machine),
        _ => prefetching(translating(machine, 1, 2)),
    }
}

pub(super) fn any_recipe() -> impl Strategy<Value = Recipe> {
    prop::collection::vec(any::<(u8, u8, u8, u16)>(), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn skipping_cycles_changes_nothing(
        recipe in any_recipe(),
        technique in 0..TECHNIQUES.len(),
        extras in 0..EXTRAS,
    ) {
        let machine = with_extras(simple("out-of-order"), extras);
        let go = |never_skip| {
            let (script, lines) = script(&recipe, 0);
            let tasks = vec![task(script, warm(&lines, &[]))];
            let how = How { never_skip, quantum: None };
            fingerprint(&try_run(&machine, TECHNIQUES[technique], tasks, how).unwrap())
        };
        prop_assert_eq!(first_difference(&go(false), &go(true)), None);
    }

    #[test]
    fn running_ahead_changes_nothing(
        recipes in prop::collection::vec(any_recipe(), 1..4),
        technique in 0..TECHNIQUES.len(),
        kind in 0..2usize,
        control in 0..3usize,
        quantum in 1u64..300,
        small in any::<bool>(),
        extras in 0..EXTRAS,
    ) {
        let mut machine = with_extras(simple(KINDS[kind]), extras);
        if small {
            // Code that is fetched from the third level while a division goes on for longer.
            machine.l1i.geometry = crate::Geometry { sets: 2, ways: 1 };
            machine.l2.geometry = crate::Geometry { sets: 4, ways: 2 };
        }
        let controllers = [WakeUpKind::Fixed, WakeUpKind::Distributed, WakeUpKind::Central];
        machine.wake_up.controller = controllers[control];
        let go = |quantum| {
            let tasks = recipes.iter().enumerate().map(|(n, recipe)| {
                let (script, lines) = script(recipe, n as u64);
                let mut task = task(script, warm(&lines, &[]));
                task.start = Time::ns(7 * n as u64);
                task
            });
            let how = How { never_skip: false, quantum };
            fingerprint(&try_run(&machine, TECHNIQUES[technique], tasks.collect(), how).unwrap())
        };
        prop_assert_eq!(first_difference(&go(None), &go(Some(Time::ns(quantum)))), None);
    }

    #[test]
    fn what_never_delays_never_delays(
        recipe in any_recipe(),
        kind in 0..2usize,
        extras in 0..EXTRAS,
    ) {
        let machine = with_extras(simple(KINDS[kind]), extras);
        let end = |technique| {
            let (script, lines) = script(&recipe, 0);
            let result = run(&machine, technique, vec![task(script, warm(&lines, &[]))]);
            (result.duration, result.cores[0].work, result.cores[0].caches, result.memory)
        };
        prop_assert_eq!(end("always-on"), end("oracle"));
    }
}

#[test]
fn the_same_run_twice_is_the_same_to_the_bit() {
    let machine = simple("out-of-order");
    let go = || {
        let spec = |seed| Synthetic {
            kernel: Kernel::Mixed,
            footprint: 1 << 18,
            instructions: 20_000,
            seed,
            duty: None,
        };
        let tasks = (1..4).map(|seed| task(spec(seed).source(), Arc::default())).collect();
        fingerprint(&run(&machine, "tap", tasks))
    };
    assert_eq!(go(), go());
}

/// Memory decides as far as cores have come, which differs with how far they run ahead: requests
/// that overtake each other, full write queues, refreshes and several channels included.
#[test]
fn running_ahead_changes_nothing_of_a_busy_memory() {
    let text = include_str!("../../../../machines/ev6.toml");
    for (device, channels) in [("ddr3-1333", 1), ("ddr4-3200", 2), ("ddr5-4800", 4)] {
        let text = text
            .replace("device = \"ddr3-1333\"", &format!("device = \"{device}\""))
            .replace("channels = 1", &format!("channels = {channels}"))
            .replace("size = \"8MB\"", "size = \"256KB\"");
        // No source has currents of DDR5.
        let power = "\n[power.memory]\nclosed_w = 0.2\nopen_w = 0.2\nactivate_pj = 5000\n\
                     read_pj = 3000\nwrite_pj = 3000\nrefresh_pj = 200000\n";
        let text = text + power;
        let machine = Machine::parse(&Input::new("ev6", text)).unwrap();
        let spec = |n: usize| Synthetic {
            kernel: [Kernel::Stream, Kernel::Chase, Kernel::Mixed][n % 3],
            footprint: 4 << 20,
            instructions: 15_000,
            seed: n as u64,
            duty: None,
        };
        for technique in ["tap", "mapg-counter"] {
            let go = |quantum: Option<u64>| {
                let tasks = (0..4).map(|n| task(spec(n).source(), Arc::default())).collect();
                let how = How { never_skip: false, quantum: quantum.map(Time) };
                fingerprint(&try_run(&machine, technique, tasks, how).unwrap())
            };
            let usual = go(None);
            for quantum in [300, 7_001, 100_000, 3_000_000] {
                let difference = first_difference(&usual, &go(Some(quantum)));
                assert_eq!(difference, None, "{device} {technique} {quantum} ps");
            }
        }
    }
}
