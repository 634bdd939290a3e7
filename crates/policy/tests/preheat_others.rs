//! What those ask for that are compared with the preheater.

use crate::preheat as machine;

use halfwink_policy::preheat::{
    Event, Late, NextLine, NoPreheat, Replayer, ReplayerParameters, ShamRequest, Stash, Stride,
    StrideParameters, Trigger, WakeOnly,
};
use halfwink_units::LineAddr;
use machine::{us, Told};

#[test]
fn announcement_wakes_or_shams_without_sets() {
    let mut told = Told::new(WakeOnly::new(Some(us(40))));
    told.announce(80, 100).announce(80, 120).announce(81, 20).at(200).announce(80, 20_000).at(900);
    insta::assert_snapshot!(told.said(), @r"
         0 Wake
        60 Wake
    ");
    let mut told = Told::new(ShamRequest::new(None, Late::Wait));
    told.announce(80, 100).at(50).arrive(80).at(60).loaded(80).arrive(80);
    insta::assert_snapshot!(told.said(), @r"
         0 Wake
         0 Sham 80
        50 Hold 80
    ");
    let mut told = Told::new(ShamRequest::new(Some(us(30)), Late::Skip));
    told.announce(80, 100).at(80).arrive(80).loaded(80).at(200).announce(80, 10).closed(80);
    told.arrive(80);
    insta::assert_snapshot!(told.said(), @r"
        70 Wake
        70 Sham 80
        80 Stop 80
       200 Wake
       200 Sham 80
       200 Stop 80
    ");
    let mut told = Told::new(NoPreheat);
    told.announce(80, 100).at(100).arrive(80).idle().lost().dumped(80, 1).built(80);
    assert_eq!(told.said(), "", "it asks for nothing, whatever it hears");
}

#[test]
fn replayer_records_then_loads_what_it_recorded() {
    let mut told = Told::new(Replayer::new(ReplayerParameters::jukebox()));
    told.arrive(80).at(10).idle().built(80).at(20).arrive(80).at(25).loaded(80).at(30).idle();
    told.built(80).closed(80).at(40).arrive(80);
    insta::assert_snapshot!(told.said(), @r"
         0 Record CodeMisses of 80
        10 Build 80
        20 Load 80 on 0 by FirstUse
        20 Record CodeMisses of 80
        30 Build 80
        30 Forget 80
        40 Record CodeMisses of 80
    ");
    let announced =
        ReplayerParameters { trigger: Trigger::Announced, ..ReplayerParameters::reap() };
    let mut told = Told::new(Replayer::new(announced));
    told.announce(80, 10).at(10).arrive(80).at(20).idle().built(80);
    told.at(30).announce(80, 10).at(40).arrive(80).at(50).loaded(80).idle();
    // Not announced: it is loaded as it comes.
    told.at(60).arrive(80);
    insta::assert_snapshot!(told.said(), @r"
         0 Wake
        10 Record Pages of 80
        20 Build 80
        30 Wake
        30 Load 80 on 1 by FirstUse
        40 Hold 80
        60 Load 80 on 1 by FirstUse
        60 Hold 80
    ");
}

#[test]
fn prefetchers_fetch_behind_misses() {
    let miss = |site, line| Event::Missed { line: LineAddr(line), site, is_code: false };
    let mut told = Told::new(NextLine::new(2, 1));
    told.tell(miss(1, 100)).tell(miss(2, u64::MAX));
    insta::assert_snapshot!(told.said(), @"     0 Fetch 2 from 101");
    let parameters = StrideParameters { entries: 64, degree: 2, distance: 2 };
    let mut told = Told::new(Stride::new(parameters));
    // A stride of 3 is seen at the second miss, sure at the third, kept after one elsewhere.
    for line in [100, 103, 106, 109, 500, 503, 506] {
        told.tell(miss(7, line)).at(line);
    }
    told.tell(miss(8, 1)).tell(miss(8, 1)).tell(miss(8, 1));
    insta::assert_snapshot!(told.said(), @r"
       103 Fetch 1 from 112
       103 Fetch 1 from 115
       106 Fetch 1 from 115
       106 Fetch 1 from 118
       500 Fetch 1 from 509
       500 Fetch 1 from 512
       503 Fetch 1 from 512
       503 Fetch 1 from 515
    ");
    let mut told = Told::new(Stash::new(4));
    let received = |lines| Event::Received { first: LineAddr(64), lines };
    told.tell(received(24)).tell(received(2)).tell(received(0));
    insta::assert_snapshot!(told.said(), @r"
         0 Place 4 from 64
         0 Place 2 from 64
    ");
    assert_eq!(told.value("placed"), 6);
}
