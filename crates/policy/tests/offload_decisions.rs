//! Snapshots of what each offload policy decides in short scenarios. A changed decision shows up
//! here as a changed line.

use halfwink_policy::offload::{
    Action, CallProfile, Cause, Counts, Event, Feedback, FeedbackParameters, Fixed, KernelEntry,
    LikeOs, LikeOsParameters, OffloadPolicy, Organisation, Parameters, PerCall, Place, Predicted,
    PredictedParameters, Registers, Sample, Threshold, Traits, ENOUGH_WORK_BYTES,
};
use halfwink_policy::{drive, replay, Decision, Host, Lines, Policy};
use halfwink_units::Time;

const READ: u32 = 0;
const GETPID: u32 = 39;
const TIMER: u8 = 236;

fn call(number: u32, args: [u64; 3]) -> Event {
    let [a, b, c] = args;
    Event::Enter(KernelEntry {
        cause: Cause::SystemCall { number },
        args: [a, b, c, 0, 0, 0],
        bytes_in_memory: None,
        registers: Registers::x86_64(0, u64::from(number), a, b),
    })
}

fn interrupt(vector: u8) -> Event {
    Event::Enter(KernelEntry {
        cause: Cause::Interrupt { vector },
        args: [0; 6],
        bytes_in_memory: None,
        registers: Registers::x86_64(0, 0, 0xdead, 0xbeef),
    })
}

/// Entries with their lengths, a microsecond apart.
fn invocations(list: &[(Event, u64)]) -> Vec<(Time, Event)> {
    let both = |(n, &(enter, instructions)): (usize, &(Event, u64))| {
        let at = Time::ns(1_000 * n as u64);
        [(at, enter), (at + Time::ns(500), Event::Exit { instructions })]
    };
    list.iter().enumerate().flat_map(both).collect()
}

fn asked(policy: &mut OffloadPolicy, events: &[(Time, Event)]) -> Vec<Decision<Action>> {
    drive(policy, events, Time::ns(1_000_000_000))
}

fn decisions(mut policy: OffloadPolicy, events: &[(Time, Event)]) -> String {
    let line = |d: Decision<Action>| {
        format!("{:>7.1} {:?} {}\n", d.at.as_ns(), d.action.place, d.action.decision_cycles)
    };
    asked(&mut policy, events).into_iter().map(line).collect()
}

fn hardware(organisation: Organisation, n: u64) -> PredictedParameters {
    PredictedParameters::hardware(Parameters::published(organisation), Threshold::Fixed(n))
}

fn associative(n: u64) -> PredictedParameters {
    hardware(Organisation::PUBLISHED_ASSOCIATIVE, n)
}

/// Short and long reads by descriptor, a short call, a timer tick.
fn mixture() -> Vec<(Time, Event)> {
    invocations(&[
        (call(READ, [3, 0, 4096]), 9_000),
        (call(READ, [4, 0, 10]), 300),
        (call(READ, [3, 0, 4096]), 9_100),
        (call(GETPID, [0, 0, 0]), 40),
        (call(READ, [4, 0, 10]), 300),
        (interrupt(TIMER), 2_500),
        (call(GETPID, [0, 0, 0]), 40),
        (interrupt(TIMER), 2_600),
    ])
}

#[test]
fn never_and_always_decide_nothing() {
    let boxed: OffloadPolicy = Box::new(Fixed::never());
    let places: Vec<Action> = asked(&mut { boxed }, &mixture()).iter().map(|d| d.action).collect();
    assert_eq!(places, [Action { place: Place::Here, decision_cycles: 0 }; 8]);
    let mut always: OffloadPolicy = Box::new(Fixed::always());
    let places: Vec<Action> = asked(&mut always, &mixture()).iter().map(|d| d.action).collect();
    assert_eq!(places, [Action { place: Place::OsCore, decision_cycles: 0 }; 8]);
}

#[test]
fn the_predictor_moves_what_was_long_before() {
    let policy = Box::new(Predicted::new(associative(1_000))) as OffloadPolicy;
    // The first read stays: nothing is known. What is new after it is expected to be long: the
    // means are 9000, (9000 + 300 + 9100) / 3 and, for the timer, (9100 + 40 + 300) / 3.
    insta::assert_snapshot!(decisions(policy, &mixture()), @r"
        0.0 Here 1
     1000.0 OsCore 1
     2000.0 OsCore 1
     3000.0 OsCore 1
     4000.0 Here 1
     5000.0 OsCore 1
     6000.0 Here 1
     7000.0 OsCore 1
    ");
}

#[test]
fn the_same_in_software_decides_alike_and_costs_more() {
    let parameters = Parameters::published(Organisation::PUBLISHED_ASSOCIATIVE);
    let software = PredictedParameters::software(parameters, Threshold::Fixed(1_000));
    let mut software: OffloadPolicy = Box::new(Predicted::new(software));
    let mut hardware: OffloadPolicy = Box::new(Predicted::new(associative(1_000)));
    let (soft, hard) = (asked(&mut software, &mixture()), asked(&mut hardware, &mixture()));
    for (soft, hard) in soft.iter().zip(&hard) {
        assert_eq!(soft.action.place, hard.action.place);
        assert_eq!((soft.action.decision_cycles, hard.action.decision_cycles), (100, 1));
    }
    assert_eq!(soft.len(), 8);
}

#[test]
fn a_run_as_long_as_the_threshold_stays() {
    let twice = [(call(READ, [3, 0, 1]), 1_000), (call(READ, [3, 0, 1]), 1_000)];
    let second = |n| {
        let mut policy: OffloadPolicy = Box::new(Predicted::new(associative(n)));
        asked(&mut policy, &invocations(&twice))[1].action.place
    };
    assert_eq!(second(1_000), Place::Here);
    assert_eq!(second(999), Place::OsCore);
}

#[test]
fn interrupts_can_be_left_out() {
    let left_out = PredictedParameters { leaves_out_interrupts: true, ..associative(1_000) };
    let policy = Box::new(Predicted::new(left_out)) as OffloadPolicy;
    insta::assert_snapshot!(decisions(policy, &mixture()), @r"
        0.0 Here 1
     1000.0 OsCore 1
     2000.0 OsCore 1
     3000.0 OsCore 1
     4000.0 Here 1
     5000.0 Here 0
     6000.0 Here 1
     7000.0 Here 0
    ");
}

#[test]
fn the_cause_can_be_told_apart() {
    // A call and an interrupt with the same registers.
    let mut tick = interrupt(7);
    if let Event::Enter(entry) = &mut tick {
        entry.registers = Registers::x86_64(0, 7, 0, 0);
    }
    let list = invocations(&[(call(7, [0, 0, 0]), 5_000), (tick, 50), (call(7, [0, 0, 0]), 5_000)]);
    let expected = |hashes_cause| {
        let parameters = PredictedParameters { hashes_cause, ..associative(3_000) };
        let mut policy: OffloadPolicy = Box::new(Predicted::new(parameters));
        let last = asked(&mut policy, &list)[2].action.place;
        (last, policy.snapshot()[3])
    };
    // Together: 5000, then 50 takes the trust away; the mean is 2525.
    assert_eq!(expected(false), (Place::Here, ("entries", 1)));
    assert_eq!(expected(true), (Place::OsCore, ("entries", 2)));
}

#[test]
fn an_entry_without_its_exit_teaches_nothing() {
    let mut policy = Predicted::new(associative(0));
    policy.on_event(Time::ZERO, &Event::Exit { instructions: 70 });
    policy.on_event(Time::ZERO, &call(READ, [3, 0, 1]));
    policy.on_event(Time::ZERO, &call(READ, [4, 0, 1]));
    policy.on_event(Time::ZERO, &Event::Exit { instructions: 80 });
    policy.on_event(Time::ZERO, &Event::Exit { instructions: 90 });
    assert_eq!(policy.snapshot()[3], ("entries", 1));
    policy.on_event(Time::ZERO, &call(READ, [4, 0, 1]));
    assert_eq!(policy.snapshot()[1..3], [("expected", 80), ("local", 1)]);
}

#[test]
fn enough_work_is_judged_by_the_arguments() {
    let mut gathered = call(20, [1, 0x7000, 2]);
    if let Event::Enter(entry) = &mut gathered {
        entry.bytes_in_memory = Some(8_192);
    }
    let list = invocations(&[
        (call(READ, [3, 0, 10]), 1),
        (call(READ, [3, 0, 4_095]), 1),
        (call(READ, [3, 0, 4_096]), 1),
        (call(20, [1, 0x7000, 2]), 1),
        (gathered, 1),
        (call(7, [0x7000, 0, 0]), 1),
        (call(7, [0x7000, 2, 0]), 1),
        (call(257, [0, 0x7000, 0]), 1),
        (call(GETPID, [0, 0, 0]), 1),
        (interrupt(TIMER), 1),
    ]);
    let policy = Box::new(PerCall::enough_work(ENOUGH_WORK_BYTES)) as OffloadPolicy;
    insta::assert_snapshot!(decisions(policy, &list), @r"
        0.0 Here 16
     1000.0 Here 16
     2000.0 OsCore 16
     3000.0 Here 16
     4000.0 OsCore 16
     5000.0 Here 16
     6000.0 OsCore 16
     7000.0 OsCore 16
     8000.0 Here 0
     9000.0 Beside 0
    ");
}

#[test]
fn static_instrumentation_moves_calls_that_were_long_in_the_profile() {
    let profile = [
        CallProfile { number: READ, calls: 10, cycles: 40_000 },
        CallProfile { number: 1, calls: 10, cycles: 39_999 },
        CallProfile { number: GETPID, calls: 1_000, cycles: 100_000 },
        CallProfile { number: 57, calls: 0, cycles: 0 },
    ];
    // Twice a round trip of 2,000 cycles.
    let policy = PerCall::instrumented(&profile, 2_000, 2);
    assert_eq!(policy.numbers().collect::<Vec<_>>(), [READ]);
    let policy = Box::new(policy) as OffloadPolicy;
    insta::assert_snapshot!(decisions(policy, &mixture()), @r"
        0.0 OsCore 16
     1000.0 OsCore 16
     2000.0 OsCore 16
     3000.0 Here 0
     4000.0 OsCore 16
     5000.0 Here 0
     6000.0 Here 0
     7000.0 Here 0
    ");
}

/// A policy that adjusts its threshold by samples of `millions` instructions.
fn adjusting() -> OffloadPolicy {
    let feedback = Feedback::new(FeedbackParameters::published().shortened(25));
    let parameters = Parameters::published(Organisation::PUBLISHED_DIRECT);
    let threshold = Threshold::Feedback(Box::new(feedback));
    Box::new(Predicted::new(PredictedParameters::hardware(parameters, threshold)))
}

fn sampled(hits: &[u64]) -> Vec<(Time, Event)> {
    let mut events = invocations(&[(call(READ, [3, 0, 1]), 2_000)]);
    for (n, &hits) in hits.iter().enumerate() {
        let at = Time::ns(10_000 * (n as u64 + 1));
        let cache = Counts { accesses: 100, hits };
        let sample =
            Sample { instructions: [700_000, 300_000], l2: [cache, cache], ..Sample::default() };
        events.push((at, Event::Sample(sample)));
        events.push((at + Time::ns(1), call(READ, [3, 0, 1])));
        events.push((at + Time::ns(2), Event::Exit { instructions: 2_000 }));
    }
    events
}

#[test]
fn samples_move_the_threshold() {
    // A read of 2000 under N = 10000, then 1000, 500, 5000, which is best and stays for four more
    // samples, then 1000 again.
    let events = sampled(&[80, 80, 80, 90, 90, 90, 90, 90]);
    insta::assert_snapshot!(decisions(adjusting(), &events), @r"
        0.0 Here 1
    10001.0 OsCore 1
    20001.0 OsCore 1
    30001.0 Here 1
    40001.0 Here 1
    50001.0 Here 1
    60001.0 Here 1
    70001.0 Here 1
    80001.0 OsCore 1
    ");
}

fn every_policy() -> Vec<OffloadPolicy> {
    let organisations = [
        Organisation::PUBLISHED_ASSOCIATIVE,
        Organisation::PUBLISHED_DIRECT,
        Organisation::Unbounded,
    ];
    let mut all: Vec<OffloadPolicy> = vec![
        Box::new(Fixed::never()),
        Box::new(Fixed::always()),
        Box::new(PerCall::enough_work(ENOUGH_WORK_BYTES)),
        adjusting(),
    ];
    all.extend(organisations.map(|organisation| -> OffloadPolicy {
        Box::new(Predicted::new(hardware(organisation, 1_000)))
    }));
    all
}

proptest::proptest! {
    /// Every entry is answered once, and a recorded log, told again, gives the same answers.
    #[test]
    fn a_recorded_log_replays_to_the_same_actions(
        steps in proptest::collection::vec((0u8..4, 0u32..30, 0u64..20, 0u64..20_000), 0..200)
    ) {
        let event = |(n, &(kind, number, arg, length)): (usize, &(u8, u32, u64, u64))| {
            let cache = Counts { accesses: 100, hits: length % 101 };
            let event = match kind {
                0 => call(number, [arg, 0, length]),
                1 => interrupt(number as u8),
                2 => Event::Exit { instructions: length },
                _ => Event::Sample(Sample {
                    instructions: [length * 100; 2],
                    l2: [cache; 2],
                    ..Sample::default()
                }),
            };
            (Time::ns(n as u64), event)
        };
        let events: Vec<(Time, Event)> = steps.iter().enumerate().map(event).collect();
        let entries = events.iter().filter(|(_, e)| matches!(e, Event::Enter(_))).count();
        for (policy, mut fresh) in every_policy().into_iter().zip(every_policy()) {
            let mut logged = Host::logged(policy, Lines::unbounded());
            let first = drive(&mut logged, &events, Time::ns(1_000));
            proptest::prop_assert_eq!(first.len(), entries);
            let log: Vec<_> = (1..).zip(logged.log_mut().take()).collect();
            let summary = replay(&mut fresh, log).expect("the same policy");
            proptest::prop_assert_eq!(summary.lines, events.len() as u64);
            proptest::prop_assert_eq!(summary.actions, entries as u64);
            proptest::prop_assert_eq!(fresh.snapshot(), logged.snapshot());
        }
    }
}

/// Kernel entries a millisecond apart, each followed by a sample: instructions since the last one,
/// and what of the user's went wrong.
fn epochs(list: &[(u64, Traits)]) -> Vec<(Time, Event)> {
    let mut events = Vec::new();
    for (n, &(instructions, user)) in list.iter().enumerate() {
        let at = Time::ns(1_000_000 * (n as u64 + 1));
        let sample = Sample { instructions: [instructions, 0], user, ..Sample::default() };
        events.push((at, call(GETPID, [0; 3])));
        events.push((at, Event::Exit { instructions: 100 }));
        events.push((at, Event::Sample(sample)));
    }
    events
}

#[test]
fn a_thread_like_the_kernel_is_tried_and_kept_only_if_it_keeps_up() {
    let like = Traits { fp: 0, mispredicted: 8_000, l1d_misses: 4_000 };
    let numeric = Traits { fp: 50_000, ..like };
    let smooth = Traits { l1d_misses: 0, ..like };
    let parameters =
        LikeOsParameters { epoch: Time::ns(1_000_000), patience: 2, ..LikeOsParameters::usual() };
    let policy = Box::new(LikeOs::new(parameters, Box::new(Fixed::never()))) as OffloadPolicy;
    // Not like it twice; like it; 10 % slower there: kept; then 20 % slower: rejected for two
    // epochs, looked at in a third, tried again.
    let list = epochs(&[
        (1_000_000, numeric),
        (1_000_000, smooth),
        (1_000_000, like),
        (900_000, like),
        (800_000, like),
        (1_000_000, like),
        (1_000_000, like),
        (1_000_000, like),
    ]);
    insta::assert_snapshot!(decisions(policy, &list), @r"
    1000000.0 Here 0
    1000000.0 Here 100
    2000000.0 Here 0
    2000000.0 Here 100
    3000000.0 Here 0
    3000000.0 OsCore 100
    4000000.0 Here 0
    4000000.0 OsCore 0
    4000000.0 OsCore 100
    5000000.0 Here 0
    5000000.0 OsCore 0
    5000000.0 Here 100
    6000000.0 Here 0
    6000000.0 Here 100
    7000000.0 Here 0
    7000000.0 Here 100
    8000000.0 Here 0
    8000000.0 OsCore 100
    ");
}
