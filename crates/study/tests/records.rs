//! Records of events and actions: the names and fields of logs, and nothing lost.

use halfwink_policy::circuits;
use halfwink_policy::gating::{self, Bound, Token};
use halfwink_policy::preheat::{self, Order, Recorded, SetId};
use halfwink_policy::record::{Record, FIELDS};
use halfwink_policy::scaling::{self, Depth, Rest};
use halfwink_policy::steering::{self, Side};
use halfwink_units::{LineAddr, Time};

/// Checks one record of each kind, in the order of their numbers.
fn check<R: Record + serde::Serialize + PartialEq + std::fmt::Debug>(all: &[R]) {
    for (number, one) in all.iter().enumerate() {
        let mut fields = [0; FIELDS];
        let (kind, count) = one.put(&mut fields);
        assert!(fields[count..].iter().all(|&field| field == 0), "{one:?}");
        let json = serde_json::to_value(one).unwrap();
        let name = json.as_object().and_then(|o| o.keys().next().cloned());
        let name = name.or_else(|| json.as_str().map(str::to_owned)).unwrap();
        assert_eq!((R::KINDS[kind], number), (name.as_str(), kind), "{one:?}");
        assert_eq!(R::take(kind, &fields).as_ref(), Some(one));
    }
    assert_eq!(all.len(), R::KINDS.len());
    assert_eq!(R::take(all.len(), &[0; FIELDS]), None);
}

/// Checks that a record comes back as it was written.
fn check_return<R: Record + PartialEq + std::fmt::Debug>(one: &R) {
    let mut fields = [0; FIELDS];
    let (kind, _) = one.put(&mut fields);
    assert_eq!(R::take(kind, &fields).as_ref(), Some(one));
}

#[test]
fn gating_record_has_name_and_fields_of_log() {
    let (line, created) = (LineAddr(7), Time(8));
    check(&[
        gating::Event::StallBegin,
        gating::Event::StallEnd { began: Time(1) },
        gating::Event::Token(Token { line, created, bound: Bound::Eta(Time(9)) }),
        gating::Event::Response { line },
        gating::Event::IdleBegin,
        gating::Event::IdleEnd { began: Time(2) },
        gating::Event::Awake,
        gating::Event::Granted { wake_up: Time(3) },
    ]);
    check(&[
        gating::Action::Gate,
        gating::Action::Rest { state: 3 },
        gating::Action::Wake,
        gating::Action::Hindsight { gate: Time(4), wake: Time(5) },
    ]);
}

#[test]
fn circuits_record_has_name_and_fields_of_log() {
    use circuits::{Action, Event};
    let (from, to, plane, host) = (1, 65535, 2, 3);
    check(&[
        Event::Demand { from, to, bytes: 1 << 40 },
        Event::Next { plane, slot: 9 },
        Event::Lost { host },
        Event::Back { host },
    ]);
    check(&[Action::Join { plane, from, to }, Action::Day { plane, length: Time(7) }]);
    check_return(&Action::Day { plane, length: Time::NEVER });
    assert_eq!(Action::take(0, &[256; FIELDS]), None);
}

#[test]
fn preheat_record_has_name_and_fields_of_log() {
    use preheat::{Action, Event};
    let (service, port, lines) = (80, 443, 9);
    let (line, set) = (LineAddr(7), SetId(3));
    check(&[
        Event::Announced { service, due: Time(5) },
        Event::Arrived { port },
        Event::Idle,
        Event::Lost,
        Event::Dumped { service, set, lines },
        Event::Built { service, lines },
        Event::Loaded { service },
        Event::Closed { port },
        Event::Missed { line, site: 2, is_code: true },
        Event::Received { first: line, lines: 24 },
    ]);
    let load = |until, cores, order| Action::Load { service, until, cores, order };
    check(&[
        Action::Wake,
        Action::Estimate { service },
        Action::Dump { service },
        Action::Abandon { service },
        Action::Intersect { service, set },
        Action::Unite { service, set },
        Action::Discard { set },
        Action::Subtract { service },
        Action::Build { service },
        load(Some(Time(6)), 4, Order::FirstUse),
        Action::Stop { service },
        Action::Hold { service },
        Action::Forget { service },
        Action::Sham { service },
        Action::Record { service, what: Recorded::Misses },
        Action::Fetch { first: line, lines: 1 },
        Action::Place { first: line, lines: 2 },
    ]);
    check_return(&load(None, 255, Order::Tags));
    check_return(&load(Some(Time::ZERO), 0, Order::Address));
    for what in [Recorded::CodeMisses, Recorded::Pages] {
        check_return(&Action::Record { service, what });
    }
    // What a module writes: two cores, in the order of first use; then an order that is none.
    let mut fields = [0; FIELDS];
    fields[..3].copy_from_slice(&[80, u64::MAX, 2 + 256]);
    assert_eq!(Action::take(9, &fields), Some(load(None, 2, Order::FirstUse)));
    fields[2] = 3 * 256;
    assert_eq!(Action::take(9, &fields), None);
}

#[test]
fn scaling_record_has_name_and_fields_of_log() {
    use scaling::{Action, Event};
    check(&[Event::Poll { core: 1, taken: 2, waiting: 3 }, Event::Empty { core: 255 }]);
    let rest = |rest| Action::Rest { core: 7, rest };
    let span = Time(11);
    check(&[
        Action::Wake { core: 1 },
        Action::Park { core: 2 },
        Action::SetStep { step: 3 },
        Action::Wish { core: 4, step: 5 },
        Action::Move { entry: 6, to: 7, in_order: true },
        rest(Rest::Spin),
    ]);
    check_return(&rest(Rest::Again { polls: 9 }));
    check_return(&rest(Rest::Pause { span }));
    for depth in [Depth::C1, Depth::C3, Depth::C6] {
        check_return(&rest(Rest::Halt(depth)));
        check_return(&rest(Rest::HaltFor { span, depth }));
        check_return(&rest(Rest::Nap(depth)));
        check_return(&rest(Rest::Sleep { span, depth }));
    }
    let words = |words: &[u64]| {
        let mut fields = [0; FIELDS];
        fields[..words.len()].copy_from_slice(words);
        fields
    };
    // A core beyond a byte, no polls, a kind of rest that does not exist, a truth value of two.
    assert_eq!(Action::take(0, &words(&[256])), None);
    assert_eq!(Action::take(5, &words(&[0, 1, 0])), None);
    assert_eq!(Action::take(5, &words(&[0, 15, 0])), None);
    assert_eq!(Action::take(5, &words(&[0, u64::MAX, 0])), None);
    assert_eq!(Action::take(4, &words(&[0, 0, 2])), None);
}

#[test]
fn steering_record_has_name_and_fields_of_log() {
    use steering::{Action, Event};
    let side = Side::Big;
    check(&[
        Event::Arrive,
        Event::Finish { side, latency: Time(3) },
        Event::Awake { side },
        Event::Asleep { side: Side::Small },
        Event::Lost { side },
        Event::Back { side },
    ]);
    check(&[Action::Send { side: Side::Small }, Action::Wake { side }, Action::Sleep { side }]);
    check_return(&Action::Send { side: Side::Place(255) });
    // The first places of a set have the numbers of a pair.
    let mut fields = [0; FIELDS];
    let (kind, _) = Action::Wake { side: Side::Place(1) }.put(&mut fields);
    assert_eq!(Action::take(kind, &fields), Some(Action::Wake { side: Side::Big }));
    assert_eq!(Action::take(0, &[256; FIELDS]), None);
}
