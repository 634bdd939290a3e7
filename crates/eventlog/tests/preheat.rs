//! Preheaters' logs: written, and replayed to the same decisions.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use halfwink_eventlog::{replay_log, replayer, Family, Header, Place, Reader, Writer};
use halfwink_policy::preheat::{
    Action, Event, Order, PreheatPolicy, Preheater, PreheaterParameters, Recorded, SetId,
};
use halfwink_policy::{drive, Host};
use halfwink_units::{LineAddr, Time};
use serde::de::DeserializeOwned;
use serde::Serialize;

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn one_dump() -> PreheatPolicy {
    let published = PreheaterParameters::published();
    Box::new(Preheater::new(PreheaterParameters { training: 1, ..published }))
}

/// A service is trained, loaded for while its packet waits, and restarts.
fn events() -> Vec<(Time, Event)> {
    let announced = |ns: u64| Event::Announced { service: 80, due: Time::ns(ns + 65_000) };
    [
        (0, announced(0)),
        (65_000, Event::Arrived { port: 80 }),
        (400_000, Event::Idle),
        (500_000, Event::Dumped { service: 80, set: SetId(1), lines: 9_000 }),
        (900_000, Event::Lost),
        (1_000_000, announced(1_000_000)),
        (1_100_000, Event::Built { service: 80, lines: 4_245 }),
        (2_000_000, announced(2_000_000)),
        (2_065_000, Event::Arrived { port: 80 }),
        (2_077_700, Event::Loaded { service: 80 }),
        (3_000_000, Event::Closed { port: 80 }),
        (4_000_000, announced(4_000_000)),
    ]
    .map(|(ns, event)| (Time::ns(ns), event))
    .to_vec()
}

fn log(events: &[(Time, Event)]) -> String {
    let memory = Memory::default();
    let header = Header::new("preheat", Family::Preheat, "preheat:n_tr=1").on("odroid", "nginx");
    let writer = Writer::to("a.log", Box::new(memory.clone()), &header);
    let place = Place { family: Family::Preheat, stream: 0 };
    let mut host = Host::logged(one_dump(), writer.stream(place));
    drive(&mut host, events, Time::ns(20_000_000));
    writer.end(Time::ns(20_000_000), 0).unwrap();
    let text = memory.0.lock().unwrap().clone();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_log_replays_to_the_same_actions() {
    let log = log(&events());
    let held = concat!(
        r#"{"now_ps":2065000000,"event":{"arrived":{"port":80}},"#,
        r#""actions":[{"hold":{"service":80}}]}"#,
    );
    assert!(log.contains(held), "{log}");
    let load = r#"{"load":{"service":80,"until_ps":null,"cores":2,"order":"address"}}"#;
    assert!(log.contains(load), "{log}");
    assert!(log.contains(r#""family":"preheat"}"#), "{log}");
    let report =
        replay_log(Reader::new("a.log", log.as_bytes()), |_, _| Ok(replayer(one_dump()))).unwrap();
    assert_eq!(report.first_difference, None, "{log}");
    // The window of the last announcement ends by its timer.
    assert_eq!((report.events, report.timers), (12, 1));
    // A load that nobody asked for is found.
    let forged = log.replacen(load, r#"{"forget":{"service":80}}"#, 1);
    let reader = Reader::new("a.log", forged.as_bytes());
    let report = replay_log(reader, |_, _| Ok(replayer(one_dump()))).unwrap();
    assert_eq!(report.first_difference.map(|found| found.now_ps), Some(2_000_000_000));
}

fn survives<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(all: &[T]) {
    for one in all {
        let text = serde_json::to_string(one).unwrap();
        assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), one, "{text}");
    }
}

#[test]
fn every_event_and_action_survives() {
    let (service, set, first) = (u16::MAX, SetId(u32::MAX), LineAddr(u64::MAX));
    survives(&[
        Event::Announced { service, due: Time::NEVER },
        Event::Arrived { port: 1 },
        Event::Idle,
        Event::Lost,
        Event::Dumped { service, set, lines: 3 },
        Event::Built { service, lines: 4 },
        Event::Loaded { service },
        Event::Closed { port: 5 },
        Event::Missed { line: first, site: u64::MAX, is_code: true },
        Event::Received { first, lines: 6 },
    ]);
    let loads = [Order::Address, Order::FirstUse, Order::Tags].into_iter().flat_map(|order| {
        [None, Some(Time(7))].map(|until| Action::Load { service, until, cores: 2, order })
    });
    let records = [Recorded::CodeMisses, Recorded::Misses, Recorded::Pages]
        .map(|what| Action::Record { service, what });
    let others = [
        Action::Wake,
        Action::Estimate { service },
        Action::Dump { service },
        Action::Abandon { service },
        Action::Intersect { service, set },
        Action::Unite { service, set },
        Action::Discard { set },
        Action::Subtract { service },
        Action::Build { service },
        Action::Stop { service },
        Action::Hold { service },
        Action::Forget { service },
        Action::Sham { service },
        Action::Fetch { first, lines: 8 },
        Action::Place { first, lines: 9 },
    ];
    survives(&loads.chain(records).chain(others).collect::<Vec<_>>());
}
