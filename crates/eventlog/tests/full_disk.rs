//! Logs whose disk fills up, and has room again.

use std::fs;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use halfwink_eventlog::{
    replay_log, replayer, Ended, Family, Footer, Header, Live, Parts, Place, Reader, Report, Tap,
    Writer,
};
use halfwink_policy::steering::{Action, Event, SteeringPolicy, Threshold, ThresholdParameters};
use halfwink_policy::Host;
use halfwink_units::Time;
use proptest::prelude::*;

const STEERING: Place = Place { family: Family::Steering, stream: 0 };

/// A disk with room for so many bytes more; what no longer fits is cut in the middle of a line.
#[derive(Clone)]
struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

impl Disk {
    fn with(room: usize) -> Disk {
        Disk(Arc::new(Mutex::new((room, Vec::new()))))
    }

    fn make_room(&self, room: usize) {
        self.0.lock().unwrap().0 = room;
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().1.clone()).unwrap()
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (room, taken) = &mut *self.0.lock().unwrap();
        let count = bytes.len().min(*room);
        if count == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *room -= count;
        taken.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn threshold(of: u32) -> SteeringPolicy {
    Box::new(Threshold::new(ThresholdParameters::published(of)))
}

fn header(technique: &str) -> Header {
    Header::new("server", Family::Steering, technique).on("pair", "exponential@30")
}

fn replayed(log: &str) -> Report {
    let of = |header: &Header| if header.technique == "other" { 2 } else { 1 };
    replay_log(Reader::new("a.log", log.as_bytes()), |header, _| {
        Ok(replayer(threshold(of(header))))
    })
    .unwrap()
}

/// Sum of what lines say is missing before them.
fn marked(log: &str) -> u64 {
    let marks = log.lines().filter_map(|line| line.split_once("{\"dropped\":"));
    marks.map(|(_, rest)| rest.split(',').next().unwrap().parse::<u64>().unwrap()).sum()
}

fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("not within a minute");
}

/// A policy whose log is on a full disk, told so many events that lines were dropped.
fn full() -> (Live, Host<SteeringPolicy, Tap<Event, Action>>, Disk, u64) {
    let disk = Disk::with(1_000);
    let (live, tap) = Live::to(Box::new(disk.clone()), &header("one"), 1 << 16).unwrap();
    let mut host = Host::logged(threshold(1), tap);
    host.start(|_, _| {});
    let mut events = 0;
    // Lines that wait in the writer take 64 KiB; what comes then is dropped.
    while live.dropped() == 0 {
        host.deliver(Time(events), &Event::Arrive, |_, _| {});
        events += 1;
        assert!(events < 1 << 20, "no line was dropped");
        std::thread::sleep(Duration::from_micros(10));
    }
    (live, host, disk, events)
}

#[test]
fn a_log_goes_on_when_there_is_room_and_marks_what_it_lacks() {
    let (live, mut host, disk, events) = full();
    wait_until(|| live.error().is_some());
    assert!(live.error().unwrap().to_string().contains("no storage space"), "{:?}", live.error());
    let report = replayed(&disk.text());
    assert_eq!(report.first_difference, None);
    assert_eq!(report.ended, Ended::Cut { torn: true });
    disk.make_room(usize::MAX);
    wait_until(|| live.error().is_none());
    host.deliver(Time(events), &Event::Arrive, |_, _| {});
    let dropped = live.dropped();
    let footer = live.end().unwrap();
    assert_eq!(footer.dropped, dropped);
    // The start, all events of before, and one more.
    assert_eq!(footer.lines + footer.dropped, events + 2);
    let log = disk.text();
    assert_eq!(marked(&log), dropped);
    let report = replayed(&log);
    assert_eq!((report.first_difference, report.ended), (None, Ended::Whole(footer)));
}

#[test]
fn a_policy_that_takes_over_on_a_full_disk_has_its_header_before_its_first_line() {
    let disk = Disk::with(1_000);
    let writer = Writer::to("log", Box::new(disk.clone()), &header("one"));
    let mut host = Host::logged(threshold(1), writer.stream(STEERING));
    host.start(|_, _| {});
    // More lines than the disk and the writer have room for.
    let events = 4_000;
    (0..events).for_each(|at| host.deliver(Time(at), &Event::Arrive, |_, _| {}));
    writer.header(&header("other"));
    let mut other = Host::logged(threshold(2), writer.stream(STEERING));
    other.start(|_, _| {});
    disk.make_room(usize::MAX);
    other.deliver(Time(events), &Event::Arrive, |_, _| {});
    drop((host, other));
    writer.end(Time(events), 0).unwrap_err();
    let log = disk.text();
    let (_, after) = log.split_once("other").unwrap();
    let first = after.lines().nth(1).unwrap();
    // The start of the policy found no room either.
    assert!(first.starts_with("{\"dropped\":1,"), "{first}");
    assert!(first.contains(&format!("\"now_ps\":{events},")), "{first}");
    assert_eq!(replayed(&log).first_difference, None);
}

#[test]
fn a_log_whose_disk_stays_full_is_not_complete() {
    let (live, _host, _disk, _events) = full();
    let error = live.end().unwrap_err().to_string();
    assert_eq!(error, "log: no storage space; the log is not complete");
}

#[test]
fn a_part_grows_where_no_other_can_be_begun() {
    let folder = tempfile::tempdir().unwrap();
    let (path, next) = (folder.path().join("log"), folder.path().join("log.1"));
    // No file takes the place of a folder, not even for root.
    fs::create_dir_all(next.join("in the way")).unwrap();
    let parts = Parts::new(&path, 1_000, 2);
    let (live, tap) = Live::in_parts(parts, &header("one"), 1 << 16, |_| {}).unwrap();
    let mut host = Host::logged(threshold(1), tap);
    host.start(|_, _| {});
    (0..100).for_each(|at| host.deliver(Time(at), &Event::Arrive, |_, _| {}));
    wait_until(|| live.error().is_some());
    wait_until(|| fs::metadata(&path).unwrap().len() > 3_000);
    assert_eq!(replayed(&fs::read_to_string(&path).unwrap()).first_difference, None);
    fs::remove_dir_all(&next).unwrap();
    wait_until(|| live.error().is_none());
    host.deliver(Time(100), &Event::Arrive, |_, _| {});
    let footer = live.end().unwrap();
    assert_eq!((footer.lines, footer.dropped), (102, 0));
    let log = fs::read_to_string(&next).unwrap() + &fs::read_to_string(&path).unwrap();
    let report = replayed(&log);
    assert_eq!((report.first_difference, report.ended), (None, Ended::Whole(footer)));
    assert!(fs::read_to_string(&path).unwrap().contains("\"continues\":101"));
}

/// A FIFO, held open by a reader that has not read yet.
#[cfg(unix)]
fn fifo(path: &std::path::Path) -> fs::File {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    fs::OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
#[cfg(unix)]
fn no_fifo_holds_a_program_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    let reader = fifo(&path);
    let (live, tap) = Live::create(&path, &header("one"), 1 << 16, |_| {}).unwrap();
    let mut host = Host::logged(threshold(1), tap);
    host.start(|_, _| {});
    // More than the kernel holds of a pipe, and the writer in its memory.
    (0..10_000).for_each(|at| host.deliver(Time(at), &Event::Arrive, |_, _| {}));
    wait_until(|| live.dropped() > 0);
    let error = live.end().unwrap_err().to_string();
    assert!(error.ends_with("(os error 11); the log is not complete"), "{error}");
    drop(reader);
    let refused = Live::create::<Event, ()>(&path, &header("one"), 8, |_| {});
    assert!(refused.err().unwrap().to_string().ends_with("fifo: nobody reads this FIFO"));
}

#[test]
#[cfg(unix)]
fn a_slow_reader_of_a_fifo_gets_the_whole_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    let mut reader = fifo(&path);
    let (live, tap) = Live::create(&path, &header("one"), 1 << 16, |_| {}).unwrap();
    let mut host = Host::logged(threshold(1), tap);
    host.start(|_, _| {});
    (0..1_000).for_each(|at| host.deliver(Time(at), &Event::Arrive, |_, _| {}));
    wait_until(|| live.error().is_some());
    let read = std::thread::spawn(move || {
        // Until the writer has heard of the end.
        std::thread::sleep(Duration::from_millis(100));
        let (mut log, mut piece) = (Vec::new(), [0; 4096]);
        while !log.ends_with(b"}\n") || !log.windows(8).any(|word| word == b"\"end_ps\"") {
            let count = io::Read::read(&mut reader, &mut piece).unwrap();
            log.extend_from_slice(&piece[..count]);
            std::thread::sleep(Duration::from_millis(1));
        }
        String::from_utf8(log).unwrap()
    });
    let footer = live.end().unwrap();
    assert_eq!((footer.lines, footer.dropped), (1_001, 0));
    assert_eq!(replayed(&read.join().unwrap()).ended, Ended::Whole(footer));
}

proptest! {
    /// However much room comes and goes: lines are whole, those that are missing are counted where
    /// they are missing, and the run is told.
    #[test]
    fn no_line_is_torn_whatever_room_there_is(
        rooms in proptest::collection::vec(prop_oneof![0usize..200, 0usize..100_000], 1..12),
        each in 1u64..1_000,
    ) {
        let disk = Disk::with(rooms[0]);
        let writer = Writer::to("log", Box::new(disk.clone()), &header("one"));
        let mut host = Host::logged(threshold(1), writer.stream(STEERING));
        host.start(|_, _| {});
        let mut now = 0;
        for room in &rooms {
            disk.make_room(*room);
            for _ in 0..each {
                host.deliver(Time(now), &Event::Arrive, |_, _| {});
                now += 1;
            }
        }
        disk.make_room(usize::MAX);
        host.deliver(Time(now), &Event::Arrive, |_, _| {});
        drop(host);
        let ended = writer.end(Time(now), 0);
        let log = disk.text();
        let report = replayed(&log);
        prop_assert_eq!(report.first_difference, None);
        let Ended::Whole(Footer { lines, dropped, .. }) = report.ended else { panic!("{log}") };
        prop_assert_eq!(lines + dropped, now + 2);
        prop_assert_eq!(marked(&log), dropped);
        prop_assert_eq!(ended.is_err(), dropped > 0);
    }
}
