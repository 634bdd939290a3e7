//! Requests and machines without sockets.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use halfwink_engine::Input;
use halfwink_eventlog::{
    replay_log, replayer, Contradiction, Ended, Family, Footer, Header, Live, Reader, Report,
};
use halfwink_policy::steering::{
    Member, Progressive, ProgressiveParameters, Rest, Side, SleepTimer, SleepTimerParameters,
    SteeringPolicy, Threshold, ThresholdParameters,
};
use halfwink_units::Time;

use super::config::Config;
use super::dispatch::{Dispatch, Place, Ticket, Waiting};
use super::machine::{Machine, Refusal};
use super::meter::{State, Watts};
use super::power::Wanted;
use super::steps::Ring;

fn policy(threshold: u32) -> SteeringPolicy {
    Box::new(Threshold::new(ThresholdParameters::published(threshold)))
}

fn dispatch(threshold: u32, workers: usize, room: usize) -> Arc<Dispatch> {
    let machines = Side::BOTH.map(|side| Machine::new(side, workers, room, Watts::default()));
    Dispatch::new(policy(threshold), None, machines.into(), 2)
}

/// A log in memory.
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

/// A dispatch with its log.
struct Logged {
    dispatch: Arc<Dispatch>,
    live: Live,
    memory: Memory,
}

fn header(threshold: u32) -> Header {
    Header::new("live steer", Family::Steering, &threshold.to_string())
}

fn logged(threshold: u32, workers: usize, room: usize) -> Logged {
    let machines = Side::BOTH.map(|side| Machine::new(side, workers, room, Watts::default()));
    let memory = Memory::default();
    let (live, log) = Live::to(Box::new(memory.clone()), &header(threshold), 1000).unwrap();
    Logged {
        dispatch: Dispatch::new(policy(threshold), Some(log), machines.into(), 2),
        live,
        memory,
    }
}

impl Logged {
    /// Ends it; its text.
    fn text(self) -> String {
        let Footer { dropped, .. } = self.live.end().unwrap();
        assert_eq!(dropped, 0);
        String::from_utf8(self.memory.0.lock().unwrap().clone()).unwrap()
    }
}

/// Told to fresh policies, each with the threshold that its header names.
fn replayed(text: &str) -> Report {
    let make = |header: &Header, _| Ok(replayer(policy(header.technique.parse().unwrap())));
    replay_log(Reader::new("log", text.as_bytes()), make).unwrap()
}

/// The log leads to the same actions; how many policies it has, and lines.
fn replays(text: &str) -> (u64, u64) {
    let report = replayed(text);
    assert_eq!(report.first_difference, None, "{text}");
    assert!(matches!(report.ended, Ended::Whole(_)));
    (report.policies, report.lines)
}

fn now(place: Place) -> Ticket {
    match place {
        Place::Now(ticket) => ticket,
        Place::Later(_) => panic!("it waits"),
        Place::Refused(why) => panic!("{why:?}"),
    }
}

fn later(place: Place) -> Waiting {
    match place {
        Place::Later(waiting) => waiting,
        _ => panic!("it does not wait"),
    }
}

fn wait(waiting: Waiting) -> Result<Ticket, Refusal> {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(waiting.verdict())
}

fn load(dispatch: &Dispatch) -> Vec<i64> {
    dispatch
        .with(|inner, _| inner.policy.snapshot())
        .into_iter()
        .take(2)
        .map(|(_, value)| value)
        .collect()
}

/// The big machine goes to sleep, as the policy wants at the start.
fn asleep(dispatch: &Dispatch) {
    assert_eq!(dispatch.state(Side::Big), (State::GoingDown, Wanted::Asleep));
    dispatch.asleep(Side::Big, true);
    assert_eq!(dispatch.state(Side::Big), (State::Asleep, Wanted::Asleep));
}

#[test]
fn requests_wait_for_a_machine_that_wakes() {
    let log = logged(1, 1, 8);
    let dispatch = log.dispatch.clone();
    asleep(&dispatch);
    let first = now(dispatch.arrive());
    assert_eq!(first.side, Side::Small);
    let waiting = [later(dispatch.arrive()), later(dispatch.arrive())];
    assert_eq!(dispatch.state(Side::Big), (State::Waking, Wanted::Awake));
    dispatch.awake(Side::Big);
    let [second, third] = waiting;
    let second = wait(second).unwrap();
    assert_eq!((second.side, load(&dispatch)), (Side::Big, vec![1, 2]));
    second.finish(true);
    wait(third).unwrap().finish(true);
    // Nothing more to do: it goes down at once, and wakes after that if it must.
    assert_eq!(dispatch.state(Side::Big), (State::GoingDown, Wanted::Asleep));
    let fourth = later(dispatch.arrive());
    assert_eq!(dispatch.state(Side::Big), (State::GoingDown, Wanted::Awake));
    dispatch.asleep(Side::Big, true);
    assert_eq!(dispatch.state(Side::Big).0, State::Waking);
    dispatch.awake(Side::Big);
    wait(fourth).unwrap().finish(true);
    first.finish(true);
    assert_eq!(load(&dispatch), [0, 0]);
    let text = log.text();
    // The start, four requests that come and end, and three changes of power that it hears of.
    assert_eq!(replays(&text), (1, 12));
    let at = 1 + text.lines().position(|line| line.contains("\"wake\"")).unwrap();
    let forged = replayed(&text.replacen("\"wake\"", "\"sleep\"", 1)).first_difference;
    assert!(matches!(forged, Some(Contradiction { line, .. }) if line == at as u64), "{forged:?}");
}

#[test]
fn a_machine_that_does_not_wake_gives_its_requests_away() {
    let log = logged(1, 2, 1);
    let dispatch = log.dispatch.clone();
    asleep(&dispatch);
    let first = now(dispatch.arrive());
    let second = later(dispatch.arrive());
    assert!(matches!(dispatch.arrive(), Place::Refused(Refusal::Full)));
    dispatch.lost(Side::Big);
    let second = wait(second).unwrap();
    assert_eq!((second.side, load(&dispatch)), (Side::Small, vec![2, 0]));
    // Both are lost: nobody is left to wait for.
    let third = later(dispatch.arrive());
    dispatch.lost(Side::Small);
    assert_eq!(wait(third).err(), Some(Refusal::Nowhere));
    assert!(matches!(dispatch.arrive(), Place::Refused(Refusal::Nowhere)));
    drop((first, second));
    dispatch.back(Side::Small);
    now(dispatch.arrive()).finish(true);
    assert_eq!(load(&dispatch), [0, 0]);
    replays(&log.text());
}

#[test]
fn who_goes_away_is_forgotten() {
    let dispatch = dispatch(9, 1, 8);
    let first = now(dispatch.arrive());
    let waiting = [later(dispatch.arrive()), later(dispatch.arrive()), later(dispatch.arrive())];
    let [second, third, fourth] = waiting;
    drop(third);
    assert_eq!(load(&dispatch), [3, 0]);
    drop(first);
    // The second has been served in its absence, the fourth after it.
    drop(second);
    wait(fourth).unwrap().finish(true);
    assert_eq!(load(&dispatch), [0, 0]);
}

#[test]
fn failed_connections_make_a_machine_lost() {
    let dispatch = dispatch(9, 4, 8);
    let ticket = now(dispatch.arrive());
    assert!(!dispatch.connected(Side::Small, false));
    assert!(!dispatch.connected(Side::Small, true), "one after the other");
    assert!(!dispatch.connected(Side::Small, false));
    assert!(dispatch.connected(Side::Small, false));
    let Place::Later(waiting) = ticket.resteer() else { panic!("the big machine sleeps") };
    assert_eq!(load(&dispatch), [0, 1]);
    dispatch.asleep(Side::Big, true);
    dispatch.awake(Side::Big);
    assert_eq!(wait(waiting).unwrap().side, Side::Big);
}

#[test]
fn another_policy_takes_over() {
    let log = logged(1, 1, 8);
    let dispatch = log.dispatch.clone();
    asleep(&dispatch);
    let first = now(dispatch.arrive());
    let second = later(dispatch.arrive());
    dispatch.awake(Side::Big);
    let (second, third) = (wait(second).unwrap(), later(dispatch.arrive()));
    let text =
        "schema = 1\nlisten = \"127.0.0.1:0\"\n[small]\naddress = \"127.0.0.1:1\"\nworkers = 1\n\
                [big]\naddress = \"127.0.0.1:2\"\nworkers = 1\n";
    let config = Config::parse(&Input::new("s.toml", text), Path::new("")).unwrap();
    dispatch.change(&config, &[Watts::default(); 2], Some((policy(5).into(), header(5))));
    // It wants the big machine asleep, which still serves somebody it does not know.
    assert_eq!((second.side, load(&dispatch)), (Side::Big, vec![1, 0]));
    assert_eq!(dispatch.state(Side::Big), (State::Asleep, Wanted::Asleep), "held");
    second.finish(true);
    assert_eq!(dispatch.state(Side::Big), (State::GoingDown, Wanted::Asleep));
    first.finish(true);
    let third = wait(third).unwrap();
    assert_eq!(third.side, Side::Small);
    third.finish(true);
    assert_eq!(load(&dispatch), [0, 0]);
    let text = log.text();
    assert_eq!(replays(&text).0, 2, "{text}");
}

#[test]
fn machines_of_a_set_are_activated_in_their_order_and_released_from_its_end() {
    let member = |place| Member { side: Side::Place(place), holds: 2 };
    let policy: SteeringPolicy = Box::new(Progressive::new(ProgressiveParameters {
        members: (0..3).map(member).collect(),
        least_on: 1,
        spare: 0,
        linger: Time::ZERO,
        rest: Rest::default(),
    }));
    let machine = |place| Machine::new(Side::Place(place), 2, 8, Watts::default());
    let dispatch = Dispatch::new(policy, None, (0..3).map(machine).collect(), 2);
    let states = || (0..3).map(|place| dispatch.state(Side::Place(place)).0).collect::<Vec<_>>();
    assert_eq!(states(), [State::On, State::GoingDown, State::GoingDown]);
    (1..3).for_each(|place| dispatch.asleep(Side::Place(place), true));
    assert_eq!(states(), [State::On, State::Asleep, State::Asleep]);
    // Two are held by the first; the third one waits there while the second machine wakes.
    let first = [now(dispatch.arrive()), now(dispatch.arrive())];
    let third = later(dispatch.arrive());
    assert_eq!(states(), [State::On, State::Waking, State::Asleep]);
    dispatch.awake(Side::Place(1));
    let fourth = now(dispatch.arrive());
    assert_eq!(fourth.side, Side::Place(1));
    // Its machine is lost: it comes anew, and the last machine is woken for it.
    dispatch.lost(Side::Place(1));
    let fourth = later(fourth.resteer());
    assert_eq!(states(), [State::On, State::Lost, State::Waking]);
    dispatch.awake(Side::Place(2));
    first.into_iter().for_each(|ticket| ticket.finish(true));
    let third = wait(third).unwrap();
    let fourth = wait(fourth).unwrap();
    assert_eq!([third.side, fourth.side], [Side::Place(0); 2], "they waited there");
    assert!(dispatch.tick().is_ok());
    assert_eq!(states(), [State::On, State::Lost, State::GoingDown], "its linger is over");
    third.finish(true);
    fourth.finish(true);
}

#[test]
fn keepers_are_woken_by_their_place() {
    let mut ring = Ring::default();
    assert_eq!(ring.places().count(), 0);
    [63, 0, 5, 5].into_iter().for_each(|place| ring.keeper_of(Side::Place(place)));
    assert_eq!(ring.places().collect::<Vec<_>>(), [0, 5, 63]);
    assert!(!ring.timer);
}

/// A big machine with two levels of sleep, to the deeper of which it is sent at once.
fn two_levels() -> Arc<Dispatch> {
    let mut timer = SleepTimerParameters::fixed(Time::ZERO);
    timer.deeper[0] = Time::ZERO;
    let machine = |side| Machine::new(side, 1, 8, Watts::default());
    let [small, big] = Side::BOTH.map(machine);
    let policy: SteeringPolicy = Box::new(SleepTimer::new(timer));
    let dispatch = Dispatch::new(policy, None, vec![small, Machine { levels: 2, ..big }], 2);
    let ring = || while dispatch.tick().unwrap().is_some_and(|left| left == Time::ZERO) {};
    ring();
    assert_eq!((dispatch.state(Side::Big).0, dispatch.level(Side::Big)), (State::GoingDown, 0));
    dispatch.asleep(Side::Big, true);
    ring();
    assert_eq!((dispatch.state(Side::Big).0, dispatch.level(Side::Big)), (State::GoingDown, 1));
    dispatch
}

#[test]
fn a_machine_goes_deeper_and_wakes_from_where_it_is() {
    let dispatch = two_levels();
    dispatch.asleep(Side::Big, true);
    assert_eq!((dispatch.state(Side::Big).0, dispatch.level(Side::Big)), (State::Asleep, 1));
    let request = later(dispatch.arrive());
    assert_eq!((dispatch.state(Side::Big).0, dispatch.level(Side::Big)), (State::Waking, 1));
    dispatch.awake(Side::Big);
    assert_eq!(dispatch.level(Side::Big), 0);
    assert_eq!(wait(request).unwrap().side, Side::Big);
}

#[test]
fn a_level_that_is_not_reached_leaves_a_machine_where_it_was() {
    let dispatch = two_levels();
    dispatch.asleep(Side::Big, false);
    assert_eq!((dispatch.state(Side::Big).0, dispatch.level(Side::Big)), (State::Asleep, 0));
    dispatch.with(|inner, _| {
        let machine = inner.of(Side::Big);
        assert_eq!((machine.counts.power_failures, machine.insomniac), (1, false));
    });
}

#[test]
fn a_request_on_the_way_to_a_deeper_level_wakes_the_machine_from_there() {
    let dispatch = two_levels();
    let request = later(dispatch.arrive());
    // It is on its way, and cannot serve at once as one that is still on.
    assert_eq!(dispatch.state(Side::Big), (State::GoingDown, Wanted::Awake));
    assert!(!dispatch.stay(Side::Big, std::time::Duration::ZERO), "it is not asked any more");
    dispatch.asleep(Side::Big, true);
    assert_eq!((dispatch.state(Side::Big).0, dispatch.level(Side::Big)), (State::Waking, 1));
    dispatch.awake(Side::Big);
    assert_eq!(wait(request).unwrap().side, Side::Big);
}

#[test]
fn a_policy_that_has_just_begun_sends_no_sleeping_machine_deeper() {
    let dispatch = two_levels();
    dispatch.asleep(Side::Big, false);
    assert_eq!((dispatch.state(Side::Big).0, dispatch.level(Side::Big)), (State::Asleep, 0));
    dispatch.with(|inner, now| inner.replace(policy(1), header(1), now));
    assert_eq!((dispatch.state(Side::Big).0, dispatch.level(Side::Big)), (State::Asleep, 0));
}
