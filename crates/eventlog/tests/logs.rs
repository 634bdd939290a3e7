//! Logs written, cut, forged, replayed and laid side by side.

use std::fmt::Debug;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};

use halfwink_eventlog::{
    beside, replay_log, replayer, Beside, Ended, Family, Footer, Header, Live, LogError, Place,
    Reader, Record, Report, Tap, Why, Writer,
};
use halfwink_policy::steering::{Action, Event, Side, SteeringPolicy};
use halfwink_policy::steering::{SleepTimer, SleepTimerParameters, Threshold, ThresholdParameters};
use halfwink_policy::{drive, gating, offload, scaling, switching, wake_up, Host, Input, Log};
use halfwink_units::{LineAddr, Time};
use proptest::prelude::*;
use serde::{de::DeserializeOwned, Serialize};

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Memory {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    fn boxed(&self) -> Box<dyn Write + Send> {
        Box::new(self.clone())
    }
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const SMALL: Side = Side::Small;
const STEERING: Place = Place { family: Family::Steering, stream: 0 };

fn threshold(of: u32) -> SteeringPolicy {
    let linger = Time::ns(5_000);
    Box::new(Threshold::new(ThresholdParameters { linger, ..ThresholdParameters::published(of) }))
}

fn header(technique: &str) -> Header {
    Header::new("server", Family::Steering, technique).on("pair", "exponential@30")
}

/// Three requests come, a microsecond apart; the second is done at `finish_ns`.
fn requests(finish_ns: u64) -> Vec<(Time, Event)> {
    let finish = Event::Finish { side: Side::Big, latency: Time::ns(finish_ns - 2_000) };
    vec![
        (Time::ns(1_000), Event::Arrive),
        (Time::ns(2_000), Event::Arrive),
        (Time::ns(finish_ns), finish),
        (Time::ns(60_000), Event::Arrive),
    ]
}

/// A log of that, and decisions in it.
fn written(policy: SteeringPolicy, technique: &str, events: &[(Time, Event)]) -> (String, usize) {
    let memory = Memory::default();
    let writer = Writer::to("a.log", memory.boxed(), &header(technique));
    let mut host = Host::logged(policy, writer.stream(STEERING));
    let decisions = drive(&mut host, events, Time::ns(100_000)).len();
    writer.end(Time::ns(100_000), 0).unwrap();
    (memory.text(), decisions)
}

fn replayed(log: &str, of: u32) -> Result<Report, LogError> {
    let reader = Reader::new("a.log", log.as_bytes());
    replay_log(reader, |_, _| Ok(replayer(threshold(of))))
}

fn compared(a: &str, b: &str) -> Beside {
    beside(Reader::new("a.log", a.as_bytes()), Reader::new("b.log", b.as_bytes())).unwrap()
}

#[test]
fn a_log_is_these_lines() {
    let (log, _) = written(threshold(1), "hybrid:threshold=1", &requests(9_000));
    let build = env!("CARGO_PKG_VERSION");
    let head = concat!(
        r#"{"schema":1,"log":"halfwink events","world":"server","technique":"hybrid:threshold=1","#,
        r#""machine":"pair","workload":"exponential@30","build":"BUILD","family":"steering"}"#,
    );
    let expected = r#"HEAD
{"now_ps":0,"event":"start","actions":[{"sleep":{"side":"big"}}]}
{"now_ps":1000000,"event":"arrive","actions":[{"send":{"side":"small"}}]}
{"now_ps":2000000,"event":"arrive","actions":[{"send":{"side":"big"}},{"wake":{"side":"big"}}]}
{"now_ps":9000000,"event":{"finish":{"side":"big","latency_ps":7000000}}}
{"now_ps":60000000,"event":"arrive","actions":[{"send":{"side":"big"}}]}
{"end_ps":100000000,"lines":5,"dropped":0}
"#;
    assert_eq!(log, expected.replace("HEAD", head).replace("BUILD", build));
}

#[test]
fn a_log_replays_to_the_same_actions() {
    let (log, decisions) = written(threshold(1), "hybrid", &requests(9_000));
    let report = replayed(&log, 1).unwrap();
    assert_eq!(report.first_difference, None);
    assert_eq!((report.policies, report.lines, report.events, report.timers), (1, 5, 4, 0));
    assert_eq!(report.actions, decisions as u64);
    assert!(matches!(report.ended, Ended::Whole(Footer { lines: 5, dropped: 0, .. })));
    // A policy with a timer: its rings are lines, too.
    let timer = || Box::new(SleepTimer::new(SleepTimerParameters::fixed(Time::ns(7_000))));
    let (log, _) = written(timer(), "sleep-timer", &requests(9_000)[..3]);
    let reader = Reader::new("a.log", log.as_bytes());
    let report = replay_log(reader, |_, _| Ok(replayer(timer()))).unwrap();
    assert_eq!(report.first_difference, None, "{log}");
}

#[test]
fn a_forged_line_is_found_with_its_line_and_time() {
    let (log, _) = written(threshold(1), "hybrid", &requests(9_000));
    let forged = log.replacen(r#"[{"send":{"side":"small"}}]"#, r#"[{"send":{"side":"big"}}]"#, 1);
    let found = replayed(&forged, 1).unwrap().first_difference.unwrap();
    assert_eq!((found.line, found.now_ps, found.place), (3, 1_000_000, STEERING));
    assert_eq!(found.event, serde_json::json!("arrive"));
    assert_eq!(found.expected, [serde_json::json!({"send": {"side": "big"}})]);
    assert_eq!(found.found, [serde_json::json!({"send": {"side": "small"}})]);
    // Another policy than the one that was logged.
    assert_eq!(replayed(&log, 2).unwrap().first_difference.unwrap().line, 4);
}

#[test]
fn a_log_that_was_cut_is_read_up_to_the_cut() {
    let (log, _) = written(threshold(1), "hybrid", &requests(9_000));
    let body = log.find('\n').unwrap() + 1;
    for end in body..log.len() {
        let cut = &log[..end];
        let report = replayed(cut, 1).unwrap();
        assert_eq!(report.first_difference, None, "{cut}");
        // A last line that only lacks its end of line is whole.
        let lines = cut[body..].split_inclusive('\n');
        let is_whole = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        let is_torn = lines.clone().next_back().is_some_and(|line| !is_whole(line));
        if end == log.len() - 1 {
            assert!(matches!(report.ended, Ended::Whole(_)));
        } else {
            assert_eq!(report.ended, Ended::Cut { torn: is_torn }, "{cut}");
            assert_eq!(report.lines, lines.count() as u64 - u64::from(is_torn), "{cut}");
        }
    }
}

fn error(log: &str) -> String {
    replayed(log, 1).unwrap_err().to_string()
}

#[test]
fn file_that_is_no_log_gives_one_line() {
    let (log, _) = written(threshold(1), "hybrid", &requests(9_000));
    let lines: Vec<&str> = log.lines().collect();
    let with = |at: usize, line: &str| {
        let mut lines = lines.clone();
        lines[at] = line;
        lines.join("\n")
    };
    assert_eq!(error(""), "a.log:1: expected the header of an event log");
    assert_eq!(error(&lines[1..].join("\n")), "a.log:1: expected the header of an event log");
    assert_eq!(
        error("{\"now_ps\":0,\"asked\":[{\"park\":{\"core\":1}}]}\n"),
        "a.log:1: a log of an older build (`told`, `asked`), which does not say what it is of; \
         record it again with --log"
    );
    assert_eq!(
        error(&with(0, &lines[0].replace("\"schema\":1", "\"schema\":2"))),
        format!(
            "a.log:1: format 2, of build {}; this build reads format 1",
            env!("CARGO_PKG_VERSION")
        )
    );
    let renamed = lines[0].replace("halfwink events", "events");
    assert_eq!(
        error(&with(0, &renamed)),
        "a.log:1: expected \"log\":\"halfwink events\", found \"events\""
    );
    let extra = lines[0].replace("\"schema\"", "\"colour\":1,\"schema\"");
    let said = error(&with(0, &extra));
    assert!(said.starts_with("a.log:1: unknown field `colour`, expected one of"), "{said}");
    assert!(error(&with(2, "nonsense")).starts_with("a.log:3: expected a line of JSON: expected"));
    assert_eq!(error(&with(2, "{}")), "a.log:3: expected `now_ps`, or a footer with `end_ps`");
    let unknown = "{\"now_ps\":1000000,\"event\":\"arive\"}";
    assert!(error(&with(2, unknown))
        .starts_with("a.log:3: unknown variant `arive`, expected one of `arrive`"));
    let other = "{\"now_ps\":1,\"event\":{\"finish\":{\"side\":\"left\",\"latency_ps\":1}}}";
    assert!(
        error(&with(2, other)).starts_with("a.log:3: unknown variant `left`"),
        "{}",
        error(&with(2, other))
    );
    let fewer = [&lines[..3], &lines[6..]].concat().join("\n");
    assert_eq!(error(&fewer), "a.log:4: says 5 lines, found 2");
    assert_eq!(
        error(&format!("{log}{}\n", lines[1])),
        "a.log:8: expected nothing after the footer"
    );
}

#[test]
fn several_policies_share_a_log() {
    let memory = Memory::default();
    let writer = Writer::to("a.log", memory.boxed(), &header("hybrid"));
    let place = |stream| Place { family: Family::Steering, stream };
    let mut hosts: Vec<_> =
        (0..3).map(|n| Host::logged(threshold(n + 1), writer.stream(place(n)))).collect();
    for (n, host) in hosts.iter_mut().enumerate() {
        host.start(|_, _| {});
        for at in 0..4 {
            host.deliver(Time(100 * at + n as u64), &Event::Arrive, |_, _| {});
        }
    }
    writer.end(Time(1_000), 0).unwrap();
    let log = memory.text();
    assert!(log.contains("{\"stream\":2,\"now_ps\":302,"), "{log}");
    let reader = Reader::new("a.log", log.as_bytes());
    let report = replay_log(reader, |_, at| Ok(replayer(threshold(at.stream + 1)))).unwrap();
    assert_eq!((report.policies, report.lines, report.first_difference), (3, 15, None));
    // A policy that cannot be made.
    let reader = Reader::new("a.log", log.as_bytes());
    let error = replay_log(reader, |h, _| Err(format!("no technique {}", h.technique)));
    assert_eq!(error.unwrap_err().to_string(), "a.log:1: no technique hybrid");
}

#[test]
fn a_live_log_follows_its_policy_and_the_next_one() {
    let memory = Memory::default();
    let (live, tap) = Live::to(memory.boxed(), &header("hybrid"), 64).unwrap();
    let mut host = Host::logged(threshold(1), Some(tap));
    host.start(|_, _| {});
    host.deliver(Time(5), &Event::Arrive, |_, _| {});
    let other = host.log().as_ref().map(|tap| tap.again(header("other")));
    host.replace(threshold(2), other);
    host.start(|_, _| {});
    host.deliver(Time(7), &Event::Arrive, |_, _| {});
    let footer = live.end().unwrap();
    assert_eq!(footer, Footer { end_ps: 7, lines: 4, dropped: 0 });
    let log = memory.text();
    let reader = Reader::new("a.log", log.as_bytes());
    let of = |header: &Header| if header.technique == "other" { 2 } else { 1 };
    let report = replay_log(reader, |header, _| Ok(replayer(threshold(of(header))))).unwrap();
    assert_eq!((report.policies, report.lines, report.first_difference), (2, 4, None), "{log}");
}

/// A disk that takes nothing until its `go` is dropped.
struct Stalled {
    /// Told that the disk is written to, and takes nothing.
    stalls: Sender<()>,
    go: Receiver<()>,
    memory: Memory,
}

impl Stalled {
    /// A log with a queue of 16 lines whose writer waits for the disk: what the queue has no room
    /// for is dropped from now on, however busy the machine is. The disk goes on once the sender is
    /// dropped.
    fn log() -> (Live, Tap<Event, Action>, Sender<()>, Memory) {
        let ((stalls, stalled), (start, go)) = (channel(), channel());
        let memory = Memory::default();
        let disk = Box::new(Stalled { stalls, go, memory: memory.clone() });
        let (live, tap) = Live::to(disk, &header("hybrid"), 16).unwrap();
        stalled.recv().unwrap();
        (live, tap, start, memory)
    }
}

impl Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Nobody listens after the first time.
        let _ = self.stalls.send(());
        let _ = self.go.recv();
        self.memory.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn slow_disk_drops_lines_without_blocking() {
    let (live, tap, go, memory) = Stalled::log();
    let mut host = Host::logged(threshold(1), tap);
    host.start(|_, _| {});
    for at in 0..5_000 {
        host.deliver(Time(at), &Event::Arrive, |_, _| {});
    }
    assert!(live.dropped() > 0);
    drop(go);
    let footer = live.end().unwrap();
    assert_eq!(footer.lines + footer.dropped, 5_001);
    let report = replayed(&memory.text(), 1).unwrap();
    assert_eq!(report.first_difference, None);
    assert_eq!(report.ended, Ended::Whole(footer));
}

#[test]
fn a_policy_takes_over_while_the_disk_stalls_and_its_header_is_kept() {
    let (live, tap, go, memory) = Stalled::log();
    let mut host = Host::logged(threshold(1), tap);
    host.start(|_, _| {});
    for at in 0..5_000 {
        host.deliver(Time(at), &Event::Arrive, |_, _| {});
    }
    let before = live.dropped();
    assert!(before > 0, "the queue is full");
    let other = host.log().again(header("other"));
    host.replace(threshold(2), other);
    host.start(|_, _| {});
    host.deliver(Time(6_000), &Event::Arrive, |_, _| {});
    assert_eq!(live.dropped(), before + 2);
    drop(go);
    while !memory.text().contains("other") {
        host.deliver(Time(6_001), &Event::Arrive, |_, _| {});
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    live.end().unwrap();
    let log = memory.text();
    let after = log.split_once("other").unwrap().1;
    let first = after.lines().nth(1).unwrap();
    assert!(first.starts_with("{\"dropped\":"), "{first}");
    assert!(first.contains("\"now_ps\":6001"), "{first}");
}

#[test]
fn lines_after_gap_reach_no_policy() {
    let (log, _) = written(threshold(1), "hybrid", &requests(9_000));
    let gap = log.replace("{\"now_ps\":9000000", "{\"dropped\":3,\"now_ps\":9000000");
    let report = replayed(&gap, 1).unwrap();
    // Three that are missing, one after them, and one more.
    assert_eq!((report.lines, report.unheard, report.first_difference), (3, 5, None));
}

#[test]
fn a_full_disk_is_one_line_at_the_end() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        eprintln!("skipped: /dev/full is missing; this is not Linux");
        return;
    }
    let expected = "/dev/full: No space left on device (os error 28); the log is not complete";
    let writer = Writer::create(full, &header("hybrid")).unwrap();
    let mut host = Host::logged(threshold(1), writer.stream(STEERING));
    let first = drive(&mut host, &requests(9_000), Time::ns(100_000));
    assert_eq!(first.len(), 5);
    assert_eq!(writer.end(Time(0), 0).unwrap_err().to_string(), expected);
    let (live, tap) = Live::create(full, &header("hybrid"), 8, |_| {}).unwrap();
    let mut host = Host::logged(threshold(1), tap);
    assert_eq!(drive(&mut host, &requests(9_000), Time::ns(100_000)), first);
    assert_eq!(live.end().unwrap_err().to_string(), expected);
    let nowhere = Writer::create(Path::new("/no/such/folder/log"), &header("hybrid"));
    assert_eq!(
        nowhere.err().unwrap().to_string(),
        "/no/such/folder/log: No such file or directory (os error 2)"
    );
}

#[test]
fn beside_finds_the_first_decision_and_why() {
    let (a, decisions) = written(threshold(1), "hybrid", &requests(9_000));
    let same = compared(&a, &a);
    assert_eq!((same.first, same.headers_differ.len()), (None, 0));
    assert_eq!((same.alike, decisions), (4, 5), "lines with actions; one has two");

    // Another technique: equal events, another action.
    let (b, _) = written(threshold(2), "hybrid:threshold=2", &requests(9_000));
    let other = compared(&a, &b);
    assert_eq!(other.headers_differ, ["technique"]);
    let first = other.first.unwrap();
    assert_eq!((first.why, other.alike), (Why::Action, 2));
    assert_eq!(first.decisions.each_ref().map(|d| d.as_ref().unwrap().line), [4, 4]);

    // A machine that answers later: its timer is late, and the big machine is still awake.
    let timer = || -> SteeringPolicy {
        Box::new(SleepTimer::new(SleepTimerParameters::fixed(Time::ns(7_000))))
    };
    let finish = |at| {
        [
            (Time::ns(1_000), Event::Arrive),
            (Time::ns(at), Event::Finish { side: Side::Big, latency: Time(9) }),
            (Time::ns(40_000), Event::Arrive),
        ]
    };
    let (c, _) = written(timer(), "sleep-timer", &finish(9_000));
    let (d, _) = written(timer(), "sleep-timer", &finish(35_000));
    let late = compared(&c, &d).first.unwrap();
    assert_eq!(late.why, Why::Event, "{c}{d}");
    let cause = late.cause.map(|line| line.unwrap());
    assert_eq!(
        cause.map(|line| line.event),
        [serde_json::json!("timer"), serde_json::json!("arrive")]
    );

    // One run is longer.
    let (e, _) = written(threshold(1), "hybrid", &requests(9_000)[..2]);
    let short = compared(&a, &e).first.unwrap();
    assert_eq!((short.why, short.decisions[1].clone()), (Why::End, None));
}

#[test]
fn beside_sees_time_where_events_are_equal() {
    // Decisions that depend on time alone, as they stand in two files.
    let log = |times: [u64; 3], action: &str| {
        let head = serde_json::to_string(&header("x")).unwrap();
        let [p, q, r] = times;
        let arrive = |at: u64| format!("{{\"now_ps\":{at},\"event\":\"arrive\"}}");
        let last = arrive(r).replace('}', &format!(",\"actions\":[\"{action}\"]}}"));
        format!("{head}\n{}\n{}\n{last}\n", arrive(p), arrive(q))
    };
    let first = |a: &str, b: &str| compared(a, b).first;
    let a = log([10, 20, 30], "p");
    // Begun later, the same from then on: that is no reason.
    assert_eq!(first(&a, &log([15, 25, 35], "q")).unwrap().why, Why::Action);
    let found = first(&a, &log([10, 21, 30], "q")).unwrap();
    assert_eq!(found.why, Why::Time);
    assert_eq!(found.cause.map(|line| line.unwrap().line), [3, 3]);
    assert_eq!(first(&a, &log([10, 21, 30], "p")), None);
}

fn survives<E, A>(input: &Input<E>, action: &A)
where
    E: Clone + Debug + PartialEq + Serialize + DeserializeOwned,
    A: Clone + Debug + PartialEq + Serialize + DeserializeOwned,
{
    let memory = Memory::default();
    let writer = Writer::to("log", memory.boxed(), &header("any"));
    let mut stream = writer.stream(STEERING);
    let by_reference = match input {
        Input::Start => Input::Start,
        Input::Timer => Input::Timer,
        Input::Event(event) => Input::Event(event),
    };
    Log::<E, A>::begin(&mut stream, Time(u64::MAX), by_reference);
    Log::<E, A>::action(&mut stream, Time(u64::MAX), action);
    Log::<E, A>::end(&mut stream);
    writer.end(Time(1), 0).unwrap();
    let text = memory.text();
    let mut reader = Reader::new("log", text.as_bytes());
    assert!(matches!(reader.next(), Ok(Some(Record::Header(_)))));
    let Ok(Some(Record::Line(raw))) = reader.next() else { panic!("{text}") };
    let line = raw.typed::<E, A>().unwrap();
    assert_eq!((&line.input, &line.actions[..]), (input, std::slice::from_ref(action)), "{text}");
    assert_eq!(reader.next(), Ok(None));
}

#[test]
fn every_family_survives_the_file() {
    let line = LineAddr(u64::MAX);
    for bound in
        [gating::Bound::NotBefore(Time(1)), gating::Bound::Unknown, gating::Bound::Eta(Time(2))]
    {
        let token = gating::Token { line, created: Time(3), bound };
        survives(&Input::Event(gating::Event::Token(token)), &gating::Action::Gate);
    }
    let hindsight = gating::Action::Hindsight { gate: Time(1), wake: Time(2) };
    survives(&Input::Event(gating::Event::StallBegin), &hindsight);
    survives(&Input::Event(gating::Event::StallEnd { began: Time(4) }), &gating::Action::Wake);
    survives(&Input::Event(gating::Event::Granted { wake_up: Time(4) }), &gating::Action::Wake);
    survives::<gating::Event, _>(&Input::Timer, &gating::Action::Wake);
    let grant = wake_up::Action::Grant { core: 3, wake_up: Time(9) };
    survives(&Input::Event(wake_up::Event::Gated(3)), &grant);
    let entry = offload::KernelEntry {
        cause: offload::Cause::SystemCall { number: 1 },
        args: [u64::MAX; 6],
        bytes_in_memory: Some(5),
        registers: offload::Registers::x86_64(1, 2, 3, u64::MAX),
    };
    let there = offload::Action { place: offload::Place::OsCore, decision_cycles: 16 };
    survives(&Input::Event(offload::Event::Enter(entry)), &there);
    survives(&Input::Event(offload::Event::Exit { instructions: 7 }), &there);
    survives(&Input::Event(offload::Event::Sample(offload::Sample::default())), &there);
    survives(&Input::Event(switching::IdleEvent::Left), &switching::IdleAction::PowerDown);
    let poll = scaling::Event::Poll { core: 1, taken: 2, waiting: 3 };
    let rest = scaling::Rest::Sleep { span: Time(7), depth: scaling::Depth::C6 };
    survives(&Input::Event(poll), &scaling::Action::Rest { core: 1, rest });
    survives::<scaling::Event, _>(&Input::Start, &scaling::Action::Wish { core: 1, step: 2 });
    survives(&Input::Event(Event::Lost { side: SMALL }), &Action::Send { side: SMALL });
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        after in any::<bool>(),
    ) {
        let mut log = if after { serde_json::to_vec(&header("x")).unwrap() } else { Vec::new() };
        log.push(b'\n');
        log.extend(bytes);
        let _ = replay_log(Reader::new("log", &log[..]), |_, _| Ok(replayer(threshold(1))));
        let _ = beside(Reader::new("log", &log[..]), Reader::new("log", &log[..]));
    }
}

#[test]
fn what_a_file_says_ends_no_line_of_an_error_and_commands_no_terminal() {
    let forged = "{\"family\":\"gating\\n\\u001b[2Jok\"}\n";
    let error = Reader::new("a\nb.jsonl", forged.as_bytes()).next().unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("a\\nb.jsonl:1: "), "{text}");
    assert!(text.contains("gating\\n\\u{1b}[2Jok"), "{text}");
    assert!(!text.contains(char::is_control), "{text}");
}
