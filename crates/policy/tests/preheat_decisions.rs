//! What preheaters ask for, event by event.

use crate::preheat as machine;

use halfwink_policy::preheat::{
    Begin, Event, Late, Ports, Preheater, PreheaterParameters, SetId, Sets,
};
use halfwink_policy::Policy;
use machine::{us, Told};

const TWO: PreheaterParameters =
    PreheaterParameters { training: 2, ..PreheaterParameters::published() };

fn told(parameters: PreheaterParameters) -> Told<Preheater> {
    Told::new(Preheater::new(parameters))
}

/// With a set for port 80, at 1000 us.
fn ready(parameters: PreheaterParameters) -> Told<Preheater> {
    let mut told = told(parameters);
    told.built(80).at(1_000);
    told
}

/// One window of training, from its announcement to its dump.
fn train(told: &mut Told<Preheater>, at: u64, service: u16, set: u32) {
    told.at(at).announce(service, 100).at(at + 100).arrive(service);
    told.at(at + 200).idle().dumped(service, set);
}

#[test]
fn two_dumps_then_the_filter_then_loads() {
    let mut told = told(TWO);
    train(&mut told, 0, 80, 1);
    train(&mut told, 1_000, 80, 2);
    told.at(2_000)
        .lost()
        .announce(80, 100)
        .at(2_010)
        .built(80)
        .at(2_100)
        .arrive(80)
        .at(2_200)
        .idle();
    told.at(3_000).announce(80, 100).at(3_050).loaded(80).at(3_100).arrive(80).at(3_200).idle();
    told.at(4_000).announce(80, 100);
    insta::assert_snapshot!(told.said(), @r"
         0 Wake
         0 Estimate 80
       200 Dump 80
       200 Intersect 80 with 1
      1000 Wake
      1000 Estimate 80
      1200 Dump 80
      1200 Intersect 80 with 2
      2000 Wake
      2000 Subtract 80
      3000 Wake
      3000 Load 80 on 2 by Address
      4000 Wake
      4000 Load 80 on 2 by Address
    ");
    assert_eq!((told.value("ready"), told.value("dumps"), told.value("loads")), (1, 2, 2));
}

#[test]
fn the_filter_waits_for_cold_caches_that_nobody_used() {
    let filter = |isolated| {
        let mut told = told(PreheaterParameters { training: 1, isolated, ..TWO });
        told.at(500).built(81);
        train(&mut told, 1_000, 80, 1);
        // Caches are warm from training; then another service ran since they were lost.
        told.at(2_000).announce(80, 100).at(2_100).arrive(80).idle();
        told.lost().at(3_000).arrive(81).idle().announce(80, 100).at(3_100).arrive(80).idle();
        told.lost().at(4_000).announce(80, 100);
        told.said()
    };
    insta::assert_snapshot!(filter(false), @r"
      1000 Wake
      1000 Estimate 80
      1200 Dump 80
      1200 Intersect 80 with 1
      2000 Wake
      3000 Wake
      4000 Wake
      4000 Subtract 80
    ");
    assert!(filter(true).contains("3000 Subtract 80"), "its caches are its own");
}

#[test]
fn without_the_filter_the_estimate_is_the_set() {
    let mut told = told(PreheaterParameters { training: 1, filter: false, ..TWO });
    train(&mut told, 0, 80, 7);
    told.built(80).at(1_000).announce(80, 10);
    insta::assert_snapshot!(told.said(), @r"
         0 Wake
         0 Estimate 80
       200 Dump 80
       200 Intersect 80 with 7
       200 Build 80
      1000 Wake
      1000 Load 80 on 2 by Address
    ");
}

#[test]
fn a_request_that_is_early_waits_or_not() {
    let early = |parameters| {
        let mut told = ready(parameters);
        told.announce(80, 100).at(1_050).arrive(80).at(1_090).loaded(80);
        told.said()
    };
    insta::assert_snapshot!(early(TWO), @r"
      1000 Wake
      1000 Load 80 on 2 by Address
      1050 Hold 80
    ");
    insta::assert_snapshot!(early(PreheaterParameters { late: Late::Skip, ..TWO }), @r"
      1000 Wake
      1000 Load 80 on 2 by Address until 1100
      1050 Stop 80
    ");
    insta::assert_snapshot!(early(TWO.concurrent()), @r"
      1000 Wake
      1000 Load 80 on 2 by FirstUse
    ");
}

#[test]
fn an_announcement_that_is_too_late_loads_nothing_that_could_be_cut_at_once() {
    let late = |late| {
        let mut told = ready(PreheaterParameters { late, ..TWO });
        told.announce(80, 0).arrive(80);
        told.said()
    };
    insta::assert_snapshot!(late(Late::Skip), @"  1000 Wake");
    insta::assert_snapshot!(late(Late::Wait), @r"
      1000 Wake
      1000 Load 80 on 2 by Address
      1000 Hold 80
    ");
}

#[test]
fn just_in_time_learns_how_long_a_load_takes() {
    let begin = Begin::JustInTime { wake: us(35), margin: us(5) };
    let mut told = ready(PreheaterParameters { begin, ..TWO });
    told.announce(80, 1_000).at(1_960).at(2_040).loaded(80).arrive(80).idle();
    // The load took 80 us: the next begins 35 + 5 + 80 us before.
    told.at(3_000).announce(80, 1_000).at(4_000);
    // The packet is ahead of what was announced: nothing waits any longer.
    told.loaded(80).arrive(80).idle().at(5_000).announce(80, 1_000).at(5_500).arrive(80);
    insta::assert_snapshot!(told.said(), @r"
      1960 Wake
      1960 Load 80 on 2 by Address
      3880 Wake
      3880 Load 80 on 2 by Address
      5500 Wake
      5500 Load 80 on 2 by Address
      5500 Hold 80
    ");
    assert_eq!(told.policy.next_timer(), None, "and no timer is left");
}

#[test]
fn a_restart_ends_what_was_known() {
    let mut told = ready(TWO);
    told.closed(22).announce(80, 100).at(1_010).closed(80);
    told.at(2_000).announce(80, 100).at(2_100).arrive(80).closed(80).idle();
    told.at(3_000).announce(80, 100).at(3_100).arrive(80).idle().closed(80).dumped(80, 5);
    insta::assert_snapshot!(told.said(), @r"
      1000 Wake
      1000 Load 80 on 2 by Address
      1010 Forget 80
      2000 Wake
      2000 Estimate 80
      2100 Abandon 80
      2100 Forget 80
      3000 Wake
      3000 Estimate 80
      3100 Dump 80
      3100 Forget 80
      3100 Discard 5
    ");
    assert_eq!((told.value("restarts"), told.value("ready")), (3, 0));
}

#[test]
fn sets_come_from_training_or_from_earlier_runs() {
    let mut told = told(TWO);
    told.announce(80, 100).built(80);
    assert_eq!(told.value("ready"), 0, "nobody asked for it");
    told.built(81);
    assert_eq!(told.value("ready"), 1, "of a service that nobody has heard of");
    told.tell(Event::Built { service: 82, lines: 0 });
    assert_eq!(told.value("ready"), 1, "an empty set is none");
}

#[test]
fn a_port_is_learned_when_it_was_seen_twice() {
    let parameters = PreheaterParameters { ports: Ports::Learned, training: 4, ..TWO };
    let mut told = told(parameters);
    let window = |told: &mut Told<Preheater>, at, port| {
        told.at(at).announce(3, 100).at(at + 110).arrive(port).at(at + 200).idle().dumped(3, 1);
    };
    // Its first packet is a stray one: what that uses is dumped, but its port is not the service's.
    window(&mut told, 0, 22);
    told.at(900).closed(22);
    assert_eq!((told.value("restarts"), told.value("training")), (0, 1));
    window(&mut told, 1_000, 80);
    told.at(1_900).closed(80);
    assert_eq!(told.value("restarts"), 0, "seen once");
    window(&mut told, 2_000, 80);
    told.at(2_900).closed(22);
    assert_eq!((told.value("restarts"), told.value("training")), (0, 1));
    told.closed(80);
    assert_eq!((told.value("restarts"), told.value("training")), (1, 0));
}

#[test]
fn packets_before_the_predicted_time_teach_no_port() {
    let mut told = told(PreheaterParameters { ports: Ports::Learned, ..TWO });
    for at in [0, 20_000, 40_000] {
        // The one that is early, twice; the window ends without a dump.
        told.at(at).announce(3, 100).at(at + 50).arrive(22).at(at + 19_000);
    }
    told.closed(22);
    assert_eq!((told.value("restarts"), told.value("dropped")), (0, 3));
}

#[test]
fn a_window_with_others_in_it_is_of_no_use() {
    let window = |parameters| {
        let mut told = told(parameters);
        told.built(81).announce(80, 100).at(50).arrive(81).at(100).arrive(80).at(200).idle();
        told.said()
    };
    insta::assert_snapshot!(window(TWO), @r"
         0 Wake
         0 Estimate 80
       200 Abandon 80
    ");
    // A cluster of its own has caches of its own.
    insta::assert_snapshot!(window(PreheaterParameters { isolated: true, ..TWO }), @r"
         0 Wake
         0 Estimate 80
       200 Dump 80
    ");
    // Others are loaded for, whatever becomes of the window: estimation delays nobody.
    let mut told = told(TWO);
    told.built(81).announce(80, 100).at(20).announce(81, 50).at(100).arrive(80).at(200).idle();
    insta::assert_snapshot!(told.said(), @r"
         0 Wake
         0 Estimate 80
        20 Wake
        20 Load 81 on 2 by Address
       200 Abandon 80
    ");
}

#[test]
fn several_requests_of_a_service_share_a_window_and_there_is_one_window() {
    let mut told = told(TWO);
    told.announce(80, 100).at(10).announce(81, 100).announce(80, 120);
    told.at(100).arrive(80).at(120).arrive(80).at(200).idle();
    insta::assert_snapshot!(told.said(), @r"
         0 Wake
         0 Estimate 80
        10 Wake
       200 Dump 80
    ");
}

#[test]
fn a_busy_machine_dumps_after_a_while_and_a_request_that_does_not_come_is_given_up() {
    let mut told = told(PreheaterParameters { patience: us(8_000), ..TWO });
    told.announce(80, 100).at(100).arrive(80).at(9_000).dumped(80, 1);
    told.at(20_000).announce(80, 100).at(30_000);
    insta::assert_snapshot!(told.said(), @r"
         0 Wake
         0 Estimate 80
      8100 Dump 80
      9000 Intersect 80 with 1
     20000 Wake
     20000 Estimate 80
     28100 Abandon 80
    ");
    assert_eq!((told.value("did_not_come"), told.policy.next_timer()), (1, None));
}

#[test]
fn an_empty_dump_is_none() {
    let mut told = told(TWO);
    told.announce(80, 100).at(100).arrive(80).at(200).idle();
    told.tell(Event::Dumped { service: 80, set: SetId(4), lines: 0 });
    assert!(told.said().ends_with("200 Discard 4\n"), "what is in all dumps would be nothing");
    assert_eq!((told.value("dumps"), told.value("training")), (0, 1));
}

#[test]
fn sets_are_estimated_anew() {
    let mut told = ready(PreheaterParameters { refresh: Some(us(5_000)), ..TWO });
    told.at(4_999).announce(80, 0).loaded(80).arrive(80).idle().at(5_000).announce(80, 50);
    insta::assert_snapshot!(told.said(), @r"
      4999 Wake
      4999 Load 80 on 2 by Address
      5000 Wake
      5000 Forget 80
      5000 Estimate 80
    ");
    let mut told = ready(PreheaterParameters { refresh_requests: Some(2), ..TWO });
    for _ in 0..3 {
        told.announce(80, 0).loaded(80).arrive(80).idle();
    }
    insta::assert_snapshot!(told.said(), @r"
      1000 Wake
      1000 Load 80 on 2 by Address
      1000 Wake
      1000 Load 80 on 2 by Address
      1000 Wake
      1000 Forget 80
      1000 Estimate 80
      1000 Dump 80
    ");
}

#[test]
fn one_set_for_all() {
    let shared = |sets| {
        let mut told = told(PreheaterParameters { sets, ..TWO });
        for (at, port, set) in [(0, 80, 1), (1_000, 3306, 2)] {
            told.at(at).announce(port, 100).at(at + 100).arrive(port).at(at + 200).idle();
            told.dumped(0, set);
        }
        told.at(2_000).lost().announce(80, 100).built(0).at(3_000).announce(3306, 100).closed(80);
        told.said()
    };
    insta::assert_snapshot!(shared(Sets::Intersection), @r"
         0 Wake
         0 Estimate 0
       200 Dump 0
       200 Intersect 0 with 1
      1000 Wake
      1000 Estimate 0
      1200 Dump 0
      1200 Intersect 0 with 2
      2000 Wake
      2000 Subtract 0
      3000 Wake
      3000 Load 0 on 2 by Address
      3000 Forget 0
    ");
    assert!(shared(Sets::Union).contains("Unite 0 with 2"));
}

#[test]
fn only_what_was_lost_is_loaded() {
    let mut told = ready(PreheaterParameters { only_cold: true, ..TWO });
    let request = |told: &mut Told<Preheater>, at| {
        told.at(at).announce(80, 100).at(at + 50).loaded(80).at(at + 100).arrive(80).idle();
    };
    request(&mut told, 2_000);
    request(&mut told, 3_000);
    told.lost();
    request(&mut told, 4_000);
    insta::assert_snapshot!(told.said(), @r"
      2000 Wake
      2000 Load 80 on 2 by Address
      3000 Wake
      4000 Wake
      4000 Load 80 on 2 by Address
    ");
}

#[test]
fn what_cannot_be_is_counted() {
    let mut told = ready(PreheaterParameters { services: 2, ..TWO });
    told.announce(80, 10_001).announce(81, 100).announce(82, 100);
    told.announce(80, 100).announce(80, 50).dumped(99, 1).loaded(99);
    assert_eq!((told.value("refused"), told.value("no_room"), told.value("again")), (1, 1, 1));
    assert_eq!(told.value("dropped"), 1);
    told.tell(Event::Announced { service: 80, due: us(999) });
    assert_eq!(told.value("late"), 1);
}
