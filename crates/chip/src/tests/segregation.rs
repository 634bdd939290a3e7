//! Second levels that are ruled: cycles by hand, what they count, and when their policy hears.

use std::sync::Mutex;

use halfwink_policy::segregation::{
    Action, Event, Fixed, LookUp, Replacement, Route, Rule, Sample, Segregation, SegregationPolicy,
    Span,
};
use halfwink_policy::{Policy, Snapshot};
use halfwink_trace::{Kernel, Synthetic};
use proptest::prelude::*;

use super::exact::{any_recipe, fingerprint, first_difference, script};
use super::*;
use crate::{Segregated, SegregationCounts};

const ULTRASPARC: &str = include_str!("../../../../machines/ultrasparc.toml");

/// The published accounting: a bank answers in 9 cycles, the whole in 12.
fn ultrasparc() -> Machine {
    let banks = ULTRASPARC.replace("bank_ns = 0.0", "bank_ns = 2.571");
    Machine::parse(&Input::new("ultrasparc", banks)).unwrap()
}

fn play_ruled(
    machine: &Machine,
    tasks: Vec<Task>,
    quantum: Option<u64>,
    make: &dyn Fn(usize) -> SegregationPolicy,
    replacement: Replacement,
) -> Result<RunResult, ChipError> {
    let gating = |_| policy(machine, "always-on");
    let segregated = Some(Segregated { policy: make, replacement, monitors: true });
    let options = Options { segregated, ..Options::new(&gating) };
    let how = How { never_skip: false, quantum: quantum.map(Time) };
    play(machine, tasks, &options, how)
}

fn ruled(machine: &Machine, tasks: Vec<Task>, rule: Rule) -> RunResult {
    let make = |_| -> SegregationPolicy { Box::new(Fixed::new(rule)) };
    play_ruled(machine, tasks, None, &make, Replacement::Lru).unwrap()
}

fn counts(result: &RunResult) -> SegregationCounts {
    result.cores[0].segregation.unwrap()
}

/// A user's load and the addition that needs it, in cycles, and where it was found.
fn load_takes(rule: Rule, address: u64, kernels: bool) -> (u64, SegregationCounts) {
    let machine = ultrasparc();
    let mut writer = Writer::new();
    let block = writer.block(&[load(1, 2), alu(3, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(block, vec![at(address)]);
    // Two ways and 256 sets of the first level: the first of three is in the second level alone.
    let data = [DATA, DATA + 256 * 64, DATA + 2 * 256 * 64];
    let mut warm = (*warm(&lines, &data)).clone();
    for line in &mut warm.lines {
        line.kernel = kernels && !line.code;
    }
    let result = ruled(&machine, vec![task(script, Arc::new(warm))], rule);
    (machine.clock.cycle_at_or_after(result.duration), counts(&result))
}

#[test]
fn a_bank_takes_9_cycles_and_the_whole_12() {
    let parallel = Rule::banks(Route::Both, LookUp::Parallel);
    let serial = Rule::banks(Route::Both, LookUp::Serial);
    // First level 1, addition 1; memory 350.
    for (rule, here, there, nowhere) in
        [(Rule::LRU, 12, 12, 12), (parallel, 9, 9, 9), (serial, 9, 12, 12)]
    {
        assert_eq!(load_takes(rule, DATA, false).0, 2 + here, "{rule:?}");
        assert_eq!(load_takes(rule, DATA, true).0, 2 + there, "{rule:?}");
        assert_eq!(load_takes(rule, COLD, false).0, 2 + nowhere + 350, "{rule:?}");
    }
    let (_, found) = load_takes(serial, DATA, true);
    assert_eq!((found.predicted, found.mispredicted, found.banks), ([0; 2], [1, 0], [2, 0]));
    let (_, found) = load_takes(serial, DATA, false);
    assert_eq!((found.predicted, found.mispredicted, found.banks), ([1, 0], [0; 2], [1, 0]));
    let (_, found) = load_takes(parallel, DATA, false);
    assert_eq!((found.banks, found.whole), ([2, 0], [0; 2]));
}

/// Without a line of its own the latency of a bank is that of the whole, and a bank may not take
/// longer.
#[test]
fn banks_are_as_fast_as_the_whole_unless_it_is_said() {
    let plain = Machine::parse(&Input::new("ultrasparc", ULTRASPARC)).unwrap();
    assert_eq!((plain.l2.latency, plain.l2.bank_latency), (12, 12));
    assert_eq!(ultrasparc().l2.bank_latency, 9);
    let slow = ULTRASPARC.replace("bank_ns = 0.0", "bank_ns = 4.0");
    let error = Machine::parse(&Input::new("ultrasparc", slow)).unwrap_err().to_string();
    assert!(error.contains("14 cycles for half of the cache, expected at most 12"), "{error}");
}

/// A line that the kernel wrote, which the user's load displaces: it goes to the kernel's bank, and
/// the user pays.
#[test]
fn a_line_that_is_written_back_belongs_to_who_brought_it() {
    let machine = ultrasparc();
    let mut writer = Writer::new();
    let call = writer.block_at(0x8_0000, true, &[store(1, 2)]);
    let user = writer.block_at(CODE, false, &[load(1, 2), load(1, 2), alu(3, &[1])]);
    let (mut script, lines) = writer.script();
    let conflicting = [1, 2].map(|n| at(DATA + n * 256 * 64));
    script.run(call, vec![at(DATA)]).run(user, conflicting.to_vec());
    let rule = Rule::banks(Route::Both, LookUp::Parallel);
    let result = ruled(&machine, vec![task(script, warm(&lines, &[]))], rule);
    let found = counts(&result);
    assert_eq!(found.write_backs, [0, 1]);
    assert_eq!(found.reads, [2, 1]);
    assert_eq!(result.cores[0].caches.l2_accesses, [3, 1], "the user's load causes it");
    // With data apart, and with instructions apart.
    let side = |route| {
        let mut writer = Writer::new();
        let call = writer.block_at(0x8_0000, true, &[store(1, 2)]);
        let user = writer.block_at(CODE, false, &[load(1, 2), load(1, 2), alu(3, &[1])]);
        let (mut script, lines) = writer.script();
        script.run(call, vec![at(DATA)]).run(user, conflicting.to_vec());
        let rule = Rule::ways(route, 4);
        counts(&ruled(&machine, vec![task(script, warm(&lines, &[]))], rule)).write_backs
    };
    assert_eq!((side(Route::Data), side(Route::Instructions)), ([0, 1], [1, 0]));
}

fn synthetic(n: u64) -> Task {
    let kernel = [Kernel::Mixed, Kernel::Stream, Kernel::Chase][n as usize % 3];
    let spec = Synthetic { kernel, footprint: 1 << 18, instructions: 20_000, seed: n, duty: None };
    task(spec.source(), Arc::default())
}

/// One stack for all is the plain cache, to the bit: times, counts, energy.
#[test]
fn without_a_rule_a_run_is_that_of_the_plain_chip() {
    for kind in KINDS {
        let machine = simple(kind);
        let tasks = || (0..3).map(synthetic).collect::<Vec<_>>();
        let plain = run(&machine, "always-on", tasks());
        let lru = ruled(&machine, tasks(), Rule::LRU);
        assert_eq!(first_difference(&fingerprint(&plain), &fingerprint(&lru)), None);
        assert!(plain.cores[0].segregation.is_none());
        assert!(lru.cores.iter().any(|core| core.segregation.unwrap().write_backs[0] > 100));
        for core in &lru.cores {
            let found = core.segregation.unwrap();
            let sum = |counts: [u64; 2]| counts[0] + counts[1];
            assert_eq!(sum(found.reads) + sum(found.write_backs), sum(core.caches.l2_accesses));
            assert_eq!(sum(found.misses), sum(core.caches.l2_misses));
            assert_eq!(found.whole, core.caches.l2_accesses);
        }
    }
}

/// What a policy heard, by the time.
type Heard = Arc<Mutex<Vec<(Time, Event)>>>;

/// Goes through all kinds of rules by what it counts.
struct Restless {
    after: Vec<Span>,
    pending: Vec<Action>,
    heard: Heard,
}

impl Restless {
    fn new(after: &[Span]) -> Restless {
        Restless { after: after.to_vec(), pending: Vec::new(), heard: Heard::default() }
    }
}

impl Policy for Restless {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, now: Time, event: &Event) {
        let mut heard = self.heard.lock().unwrap();
        let n = heard.len();
        heard.push((now, event.clone()));
        let misses = match event {
            Event::Begin { .. } => 0,
            Event::Sample(sample) => sample.misses[0] + 3 * sample.misses[1] + sample.cycles % 2,
        };
        let route = Route::ALL[n % 3];
        let rule = match (n as u64 + misses) % 5 {
            0 => Rule::LRU,
            1 => Rule::ways(route, 1 + (misses % 3) as u8),
            2 => Rule::banks(route, LookUp::Serial),
            3 => Rule::banks(route, LookUp::Parallel),
            _ => Rule::insertion(3, (misses % 4) as u8),
        };
        let after = self.after[n % self.after.len()];
        self.pending = vec![Action::SampleAfter(after), Action::Set(rule)];
    }

    fn poll_action(&mut self) -> Option<Action> {
        self.pending.pop()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::default()
    }
}

impl Segregation for Restless {}

const SPANS: [Span; 4] =
    [Span::Cycles(37), Span::Instructions(11), Span::Cycles(200), Span::Instructions(1)];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 100,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the policy hears and when, it does not depend on how far cores run ahead, nor on
    /// cycles that are skipped.
    #[test]
    fn running_ahead_changes_nothing_that_a_policy_hears(
        recipes in prop::collection::vec(any_recipe(), 1..4),
        kind in 0..2usize,
        quantum in 1u64..300,
        replacement in 0..3usize,
    ) {
        let mut machine = simple(KINDS[kind]);
        machine.l2.bank_latency = 3;
        machine.l2.geometry.sets = 4;
        let replacement = [Replacement::Lru, Replacement::Drrip, Replacement::Ship][replacement];
        let go = |quantum: Option<u64>, never_skip| {
            let tasks = recipes.iter().enumerate().map(|(n, recipe)| {
                let (script, lines) = script(recipe, n as u64);
                let mut task = task(script, warm(&lines, &[]));
                task.start = Time::ns(7 * n as u64);
                task
            }).collect();
            let heard: Vec<Heard> = recipes.iter().map(|_| Heard::default()).collect();
            let make = |core: usize| -> SegregationPolicy {
                Box::new(Restless { heard: Arc::clone(&heard[core]), ..Restless::new(&SPANS) })
            };
            let gating = |_| policy(&machine, "always-on");
            let segregated = Some(Segregated { policy: &make, replacement, monitors: true });
            let options = Options { segregated, ..Options::new(&gating) };
            let how = How { never_skip, quantum: quantum.map(Time::ns) };
            let result = play(&machine, tasks, &options, how).unwrap();
            let found = result.cores.iter().map(|core| core.segregation.unwrap());
            let found: Vec<_> = found.collect();
            fingerprint(&result) + &format!("{found:?}\n{heard:?}\n")
        };
        let usual = go(None, false);
        prop_assert_eq!(first_difference(&usual, &go(Some(quantum), false)), None);
        prop_assert_eq!(first_difference(&usual, &go(None, true)), None);
    }
}

/// Samples come when they are asked for, or at the first read after, and their counts sum up to the
/// run's.
#[test]
fn a_policy_hears_at_the_times_that_it_asked_for() {
    for (kind, after) in
        [("in-order", Span::Cycles(1000)), ("out-of-order", Span::Instructions(500))]
    {
        let machine = simple(kind);
        let heard = Heard::default();
        let make = |_| -> SegregationPolicy {
            Box::new(Restless { heard: Arc::clone(&heard), ..Restless::new(&[after]) })
        };
        let result =
            play_ruled(&machine, vec![synthetic(0)], None, &make, Replacement::Lru).unwrap();
        let heard = heard.lock().unwrap();
        assert_eq!(heard[0], (Time::ZERO, Event::Begin { ways: 4 }));
        assert!(heard.len() > 10, "{}", heard.len());
        let mut sum = Sample::default();
        let mut last = Time::ZERO;
        for (at, event) in &heard[1..] {
            let Event::Sample(sample) = event else { panic!("{event:?}") };
            let waited = match after {
                Span::Cycles(cycles) => sample.cycles.checked_sub(cycles).unwrap(),
                Span::Instructions(count) => sample.instructions[0].checked_sub(count).unwrap(),
            };
            assert!(waited < 400, "{waited} late");
            assert_eq!(*at, last + Time::ns(sample.cycles));
            assert!(sample.utility.is_some());
            last = *at;
            sum.accesses[0] += sample.accesses[0];
            sum.misses[0] += sample.misses[0];
        }
        let found = counts(&result);
        assert!(sum.accesses[0] <= found.reads[0] && 2 * sum.accesses[0] > found.reads[0]);
        assert!(sum.misses[0] <= found.misses[0]);
        assert_eq!((found.samples, found.rules), (heard.len() as u64 - 1, heard.len() as u64));
    }
}

#[test]
fn a_rule_that_cannot_be_ends_the_run_with_a_line() {
    for (rule, why) in [
        (Rule::ways(Route::Both, 4), "no way for the user"),
        (Rule::insertion(0, 9), "a rank that no way has"),
    ] {
        let make = |_| -> SegregationPolicy { Box::new(Fixed::new(rule)) };
        let tasks = vec![synthetic(0)];
        let error = play_ruled(&simple("in-order"), tasks, None, &make, Replacement::Lru);
        let error = error.unwrap_err().to_string();
        assert_eq!(error, format!("core 0: the segregation policy asked for {why}"));
    }
}

/// Look-ups of banks are charged by the banks that they read.
#[test]
fn energy_is_that_of_the_banks_that_were_read() {
    let machine = simple("in-order");
    let energy = |rule| {
        let result = ruled(&machine, vec![synthetic(0)], rule);
        let rows: Vec<_> = result.books.named_rows().collect();
        let of = |reason: &str| -> f64 {
            let rows = rows.iter().filter(|(_, _, cause, _)| cause.reason == reason);
            rows.map(|(_, _, _, row)| row.energy.as_j() * 1e12).sum()
        };
        (of("l2-access"), of("l2-bank"), counts(&result))
    };
    let (whole, banks, found) = energy(Rule::ways(Route::Both, 1));
    assert!(banks == 0.0 && (whole - 100.0 * found.whole[0] as f64).abs() < 1e-3, "{whole}");
    let (whole, banks, found) = energy(Rule::banks(Route::Both, LookUp::Parallel));
    assert!(whole == 0.0 && (banks / (70.71 * found.banks[0] as f64) - 1.0).abs() < 1e-4);
    let (_, serial, _) = energy(Rule::banks(Route::Both, LookUp::Serial));
    assert!(serial < banks, "{serial} {banks}");
}
