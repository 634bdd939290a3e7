//! Logs in parts: bounded, and one log again when they are put together.

use std::fs;
use std::path::{Path, PathBuf};

use halfwink_eventlog::{
    replay_log, replayer, Ended, Family, Footer, Header, Live, LogError, Parts, Reader, Report,
};
use halfwink_policy::steering::{Event, Side, SteeringPolicy, Threshold, ThresholdParameters};
use halfwink_policy::Host;
use halfwink_units::Time;

const PART: u64 = 2_000;
/// Pairs of events: a request comes and is done.
const PAIRS: u64 = 200;

fn threshold(of: u32) -> SteeringPolicy {
    let linger = Time::ns(5_000);
    Box::new(Threshold::new(ThresholdParameters { linger, ..ThresholdParameters::published(of) }))
}

fn header(technique: &str) -> Header {
    Header::new("live server", Family::Steering, technique).on("pair", "live")
}

/// A live program logs `PAIRS` pairs of events, the second half under another policy; its footer.
fn run(path: &Path, count: u32) -> Footer {
    let parts = Parts::new(path, PART, count);
    let (live, tap) = Live::in_parts(parts, &header("first"), 1 << 16, |_| {}).unwrap();
    let mut host = Host::logged(threshold(1), Some(tap));
    host.start(|_, _| {});
    for n in 0..PAIRS {
        if n == PAIRS / 2 {
            let other = host.log().as_ref().map(|tap| tap.again(header("second")));
            host.replace(threshold(2), other);
            host.start(|_, _| {});
        }
        host.deliver(Time::ns(n * 1_000), &Event::Arrive, |_, _| {});
        let done = Event::Finish { side: Side::Big, latency: Time::ns(500) };
        host.deliver(Time::ns(n * 1_000 + 500), &done, |_, _| {});
    }
    live.end().unwrap()
}

/// The parts that there are, oldest first.
fn parts(path: &Path) -> Vec<PathBuf> {
    let numbered = (1..100).map(|n| PathBuf::from(format!("{}.{n}", path.display())));
    let mut found: Vec<_> =
        [path.to_owned()].into_iter().chain(numbered).filter(|part| part.exists()).collect();
    found.reverse();
    found
}

fn together(parts: &[PathBuf]) -> String {
    parts.iter().map(|part| fs::read_to_string(part).unwrap()).collect()
}

fn replayed(log: &str) -> Result<Report, LogError> {
    let of = |header: &Header| if header.technique == "first" { 1 } else { 2 };
    let make = |header: &Header, _| Ok(replayer(threshold(of(header))));
    replay_log(Reader::new("a.log", log.as_bytes()), make)
}

#[test]
fn parts_are_one_log_again_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    let footer = run(&path, 99);
    assert_eq!(footer.lines, 2 * PAIRS + 2);
    let all = parts(&path);
    assert!(all.len() > 5, "{all:?}");
    let report = replayed(&together(&all)).unwrap();
    assert_eq!((report.policies, report.lines, report.unheard), (2, footer.lines, 0));
    assert_eq!((report.ended, report.first_difference), (Ended::Whole(footer), None));
    // In another order they are no log.
    let mut wrong = all.clone();
    wrong.swap(1, 2);
    let said = replayed(&together(&wrong)).unwrap_err().to_string();
    assert!(said.contains("goes on after line "), "{said}");
}

#[test]
fn a_log_is_bounded_and_what_is_left_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    let footer = run(&path, 3);
    let left = parts(&path);
    assert_eq!(left.len(), 3, "{left:?}");
    // A line of a header and one more than fits.
    assert!(left.iter().all(|part| fs::metadata(part).unwrap().len() < PART + 1_000));
    let report = replayed(&together(&left)).unwrap();
    // What came before is said to be missing, and nobody judges what came after it.
    assert_eq!(report.ended, Ended::Whole(footer));
    assert_eq!((report.lines + report.unheard, report.lines), (footer.lines, 0));
    assert_eq!((report.first_difference, report.header.technique.as_str()), (None, "second"));
    // A part in the middle, on its own.
    let report = replayed(&together(&left[1..2])).unwrap();
    assert_eq!(report.ended, Ended::Cut { torn: false });
}

#[test]
fn a_start_keeps_what_the_last_run_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    let of_another = "notes\n";
    fs::write(&path, of_another).unwrap();
    let refused = Live::create::<Event, ()>(&path, &header("first"), 8, |_| {}).map(drop);
    assert!(refused.unwrap_err().to_string().contains("no event log"));
    assert_eq!((fs::read_to_string(&path).unwrap().as_str(), parts(&path).len()), (of_another, 1));
    let killed = "{\"schema\":1,\"log\":\"halfwi";
    fs::write(&path, killed).unwrap();
    let (live, _tap) =
        Live::in_parts::<Event, ()>(Parts::new(&path, PART, 4), &header("first"), 8, |_| {})
            .unwrap();
    live.end().unwrap();
    let [before, now] = &parts(&path)[..] else { panic!("{:?}", parts(&path)) };
    assert_eq!(fs::read_to_string(before).unwrap(), killed);
    assert!(fs::read_to_string(now).unwrap().starts_with("{\"schema\":1"));
    // One that is empty is none, and what is no file is written as it is.
    fs::write(&path, "").unwrap();
    let (live, _tap) =
        Live::in_parts::<Event, ()>(Parts::new(&path, PART, 4), &header("first"), 8, |_| {})
            .unwrap();
    live.end().unwrap();
    assert_eq!(parts(&path).len(), 2);
    // So it is with every live program's.
    let (live, _tap) = Live::create::<Event, ()>(&path, &header("first"), 8, |_| {}).unwrap();
    live.end().unwrap();
    assert_eq!(parts(&path).len(), 3);
    let null = Path::new("/dev/null");
    let (live, _tap) =
        Live::in_parts::<Event, ()>(Parts::new(null, 1, 4), &header("first"), 8, |_| {}).unwrap();
    live.end().unwrap();
}

#[test]
fn policy_that_takes_over_at_the_start_of_a_part_lacks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events");
    run(&path, 99);
    // A part in which the second policy takes over before any line: the header of the part, and all
    // that the second policy was told.
    let text = together(&parts(&path));
    let mut lines = text.lines().filter(|line| !line.contains("end_ps"));
    let part = lines.find(|line| line.contains("\"continues\"")).unwrap();
    let is_second = |line: &&str| line.contains("\"second\"") && !line.contains("\"continues\"");
    let second = lines.skip_while(|line| !is_second(line));
    let told = second.filter(|line| !line.contains("\"continues\""));
    let log: Vec<&str> = [part].into_iter().chain(told).collect();
    let report = replayed(&(log.join("\n") + "\n")).unwrap();
    assert_eq!((report.unheard, report.lines), (0, PAIRS + 1));
    assert_eq!((report.policies, report.first_difference), (1, None));
}
