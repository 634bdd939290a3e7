//! Snapshots of where completion policies put I/Os, and of how they rest.

use halfwink_policy::completion::{
    Action, CacheAware, CacheAwareParameters, Completing, Completion, CompletionPolicy, Direct,
    Done, Dynamic, DynamicParameters, Event, Group, Hears, InterleavedTags, Issuer, Mapping,
    Queues, Rested, RoundRobin, Same, SingleThread, Topology,
};
use halfwink_policy::scaling::{Depth, Rest};
use halfwink_policy::scaling::{Metronome, MetronomeParameters, Suricata};
use halfwink_policy::{replay, Host, Lines, Policy};
use halfwink_units::Time;
use proptest::prelude::*;

/// Two sockets of three CPUs.
fn two_by_three() -> Topology {
    Topology::uniform(2, 3)
}

fn policy<M: Mapping + 'static>(mapping: M) -> CompletionPolicy {
    Box::new(Completing::new(mapping, 6))
}

fn aware() -> CacheAware {
    CacheAware::new(&two_by_three(), CacheAwareParameters::published(0))
}

fn done(io: u32, issuer: u16, waiting: u32) -> Event {
    Event::Done(Done { io, issuer, heard: 0, waiting, took: Time::ns(20_000) })
}

fn used(cpu: u16, busy: u32) -> Event {
    Event::Used { cpu, busy, of: 100 }
}

fn rest_of(rest: Rest) -> String {
    match rest {
        Rest::Spin => "spin".to_owned(),
        Rest::Again { polls } => format!("{polls}-more"),
        Rest::Sleep { span, .. } => format!("sleep-{}us", span.0 / 1_000_000),
        Rest::HaltFor { span, .. } => format!("halt-{}us", span.0 / 1_000_000),
        other => format!("{other:?}"),
    }
}

/// What it answers to each event, a microsecond apart.
fn answers(policy: &mut CompletionPolicy, events: &[Event]) -> String {
    let mut text = String::new();
    for (n, event) in events.iter().enumerate() {
        policy.on_event(Time::ns(1_000 * n as u64), event);
        let mut said = String::new();
        while let Some(action) = policy.poll_action() {
            said += &match action {
                Action::Here { .. } => "here".to_owned(),
                Action::Give { cpu, .. } => cpu.to_string(),
                Action::Rest { rest, .. } => rest_of(rest),
            };
        }
        text += if said.is_empty() { "-" } else { &said };
        text.push(' ');
    }
    text.trim_end().to_owned()
}

/// I/Os of issuers in both sockets.
fn of_both() -> Vec<Event> {
    [1, 4, 1, 4, 1, 4, 1].iter().zip(0..).map(|(&issuer, io)| done(io, issuer, 0)).collect()
}

#[test]
fn mappings_that_look_at_the_io_alone() {
    let to = |mapping: CompletionPolicy| answers(&mut { mapping }, &of_both());
    let spared = Some(0);
    insta::assert_snapshot!(to(policy(SingleThread)), @"here here here here here here here");
    insta::assert_snapshot!(to(policy(Same)), @"0 0 0 0 0 0 0");
    insta::assert_snapshot!(to(policy(Issuer)), @"1 4 1 4 1 4 1");
    let turns = |spared| policy(RoundRobin::new(&two_by_three(), Group::Socket, spared));
    insta::assert_snapshot!(to(turns(spared)), @"1 3 2 4 1 5 2");
    insta::assert_snapshot!(to(turns(None)), @"0 3 1 4 2 5 0");
    let tags = |threads| policy(InterleavedTags::new(&two_by_three(), threads, spared));
    insta::assert_snapshot!(to(tags(2)), @"1 2 1 2 1 2 1");
    insta::assert_snapshot!(to(tags(1)), @"1 1 1 1 1 1 1");
    insta::assert_snapshot!(to(policy(Direct::MULTI_QUEUE)), @"here here here here here here here");
}

#[test]
fn policies_declare_interrupted_cpu_and_queues() {
    let of = |policy: CompletionPolicy| (policy.hears(), policy.queues());
    assert_eq!(of(policy(Issuer)), (Hears::One, Queues::One));
    assert_eq!(of(policy(Direct::MSI_X)), (Hears::Issuer, Queues::One));
    assert_eq!(of(policy(Direct::MULTI_QUEUE)), (Hears::Issuer, Queues::EachCpu));
    assert_eq!(of(policy(Direct::POLLED)), (Hears::Polled, Queues::EachCpu));
    assert_eq!(policy(aware()).period(), Some(Time::ns(10_000_000)));
    assert_eq!(policy(Issuer).period(), None);
}

#[test]
fn the_cache_aware_mapping_takes_another_cpu_when_the_first_is_full() {
    let mut policy = policy(aware());
    let mut say = |events: &[Event]| answers(&mut policy, events);
    insta::assert_snapshot!(say(&of_both()), @"1 3 1 3 1 3 1");
    // The first of socket 1 is full; of socket 0, whose first handler is CPU 1, not.
    say(&[used(0, 100), used(1, 94), used(2, 0), used(3, 95), used(4, 0), used(5, 0)]);
    insta::assert_snapshot!(say(&of_both()), @"1 3 1 4 1 3 1");
    // One more, and no more than there are.
    for _ in 0..3 {
        say(&[used(1, 94), used(3, 99), used(4, 99), used(5, 10)]);
    }
    insta::assert_snapshot!(say(&of_both()), @"1 4 1 5 1 3 1");
    // As long as one of them has enough to do it stays.
    say(&[used(3, 40), used(4, 40), used(5, 50)]);
    insta::assert_snapshot!(say(&of_both()), @"1 4 1 5 1 3 1");
    say(&[used(3, 40), used(4, 40), used(5, 49)]);
    insta::assert_snapshot!(say(&of_both()), @"1 4 1 3 1 4 1");
    for _ in 0..3 {
        say(&[used(1, 0), used(3, 0), used(4, 0), used(5, 0)]);
    }
    insta::assert_snapshot!(say(&of_both()), @"1 3 1 3 1 3 1");
}

#[test]
fn dynamic_threading_gives_away_only_while_it_falls_behind() {
    let mut policy = policy(Dynamic::new(aware(), DynamicParameters { high: 4, low: 1 }));
    let waiting: Vec<Event> =
        [0, 3, 4, 3, 2, 1, 3, 5, 0].iter().zip(0..).map(|(&w, io)| done(io, 4, w)).collect();
    insta::assert_snapshot!(answers(&mut policy, &waiting), @"here here 3 3 3 here here 3 here");
}

#[test]
fn hybrid_polling_sleeps_once_per_completion() {
    let empty = Event::Empty { cpu: 0 };
    let mut hybrid = policy(Direct::HYBRID_POLL);
    let events = [empty, done(0, 0, 0), empty, empty, done(1, 0, 0), empty];
    let said = answers(&mut hybrid, &events);
    insta::assert_snapshot!(said, @"spin here sleep-10us spin here sleep-10us");
    insta::assert_snapshot!(answers(&mut policy(Direct::POLLED), &[empty, empty]), @"spin spin");
    insta::assert_snapshot!(answers(&mut policy(Issuer), &[empty]), @"Halt(C1)");
}

#[test]
fn any_scaling_policy_says_how_to_rest() {
    let empty = Event::Empty { cpu: 1 };
    let poll = |taken| Event::Poll { cpu: 1, taken, waiting: 0 };
    let resting =
        |rests| Box::new(Rested::new(Completing::new(Issuer, 6), rests)) as CompletionPolicy;
    let mut suricata = resting(Box::new(Suricata::new(6, Depth::C1)));
    assert!(suricata.hears_polls());
    let events = [empty, empty, poll(1), empty, done(3, 1, 0)];
    insta::assert_snapshot!(answers(&mut suricata, &events), @"10-more halt-500000us - 10-more 1");
    let parameters =
        MetronomeParameters { cores: 6, threads: 3, vacation: Time::ns(10_000), depth: Depth::C1 };
    let mut metronome = resting(Box::new(Metronome::new(parameters)));
    // A microsecond of one was served: rho is 1/4, and 30 us / (1 + 1/4 + 1/16) = 22.9 us.
    insta::assert_snapshot!(answers(&mut metronome, &[poll(0), empty]), @"- sleep-22us");
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0u32..64, 0u16..6, 0u32..9).prop_map(|(io, issuer, w)| done(io, issuer, w)),
        2 => (0u16..6, 0u32..=100).prop_map(|(cpu, busy)| used(cpu, busy)),
        1 => (0u16..6).prop_map(|cpu| Event::Empty { cpu }),
    ]
}

proptest! {
    /// Whatever is told: one answer to each I/O, by a CPU of the issuer's socket that is not the
    /// spared one; and what is logged is decided again.
    #[test]
    fn cache_aware_stays_in_the_socket(events in proptest::collection::vec(any_event(), 1..300)) {
        let fresh = || policy(Dynamic::new(aware(), DynamicParameters { high: 3, low: 1 }));
        let mut host = Host::logged(fresh(), Lines::unbounded());
        for (n, event) in events.iter().enumerate() {
            let mut said = Vec::new();
            host.deliver(Time::ns(100 * n as u64), event, |_, action| said.push(action));
            match (*event, &said[..]) {
                (Event::Done(d), [Action::Here { io }]) => prop_assert_eq!(*io, d.io),
                (Event::Done(d), &[Action::Give { io, cpu }]) => {
                    prop_assert_eq!(io, d.io);
                    prop_assert!(cpu != 0 && cpu / 3 == d.issuer / 3, "{} for {}", cpu, d.issuer);
                }
                (Event::Empty { cpu: asked }, &[Action::Rest { cpu, rest }]) => {
                    prop_assert_eq!((asked, rest), (cpu, Rest::Halt(Depth::C1)));
                }
                (Event::Used { .. }, []) => {}
                (event, said) => prop_assert!(false, "{:?}: {:?}", event, said),
            }
        }
        let lines: Vec<_> = (1..).zip(host.log_mut().take()).collect();
        prop_assert!(replay(&mut Host::new(fresh()), lines).is_ok());
    }
}
