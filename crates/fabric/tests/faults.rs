//! Frames and news that are lost, links that go down, hosts that fall silent, against closed forms.
//! What holds whatever goes wrong, each run looks at itself: every packet arrives or is counted as
//! lost, connections deliver what was sent, and none waits for ever.

use halfwink_engine::RunControl;
use halfwink_fabric::tcp::Algorithm;
use halfwink_fabric::world::{play, play_packets, Run, Setting, Transport, WorldError};
use halfwink_fabric::{CircuitSwitch, Fabric, Faults, Hosts, Spec};
use halfwink_policy::circuits::host::Scheme;
use halfwink_policy::circuits::Turns;
use halfwink_units::Time;

const UDP: Transport = Transport::Udp;
const TCP: Transport = Transport::Tcp { algorithm: Algorithm::Cubic, offload: false };
const DAY_US: f64 = 106.0;

fn spec() -> Spec {
    toml::from_str(include_str!("../../../machines/fabric/mordia.toml")).unwrap()
}

/// Seven hosts to which nothing else unforeseen happens.
fn calm(faults: Faults) -> (CircuitSwitch, Hosts) {
    let Spec { switch, hosts, .. } = spec();
    let mut hosts = hosts.unwrap();
    hosts.count = 7;
    (hosts.sync_us, hosts.first_packet_us) = ([1.0; 2], [1.0; 2]);
    (hosts.late_share, hosts.card.batch_share) = (0.0, 0.0);
    (hosts.stalls.long_share, hosts.stalls.short_share) = (0.0, 0.0);
    hosts.faults = faults;
    (switch, hosts)
}

fn run(faults: Faults, scheme: Scheme, transport: Transport, ms: u64) -> Run {
    let (switch, hosts) = &calm(faults);
    let day = Time::from_ns(1e3 * DAY_US);
    let duration = Time::ns(1_000_000 * ms);
    let setting = Setting { switch, hosts, scheme, transport, duration, day, seed: 1 };
    play(&setting, Box::new(Turns::round_robin(hosts.count, day)), &RunControl::new()).unwrap()
}

fn near(found: f64, expected: f64, within: f64) {
    assert!((found / expected - 1.0).abs() < within, "{found}, expected {expected}");
}

fn delivered(run: &Run) -> f64 {
    run.delivered.iter().sum::<u64>() as f64
}

#[test]
fn a_link_loses_its_share_of_frames() {
    let run = run(Faults { frame_lost: 0.05, ..Faults::default() }, Scheme::Aging, UDP, 500);
    near(run.faults.frames as f64 / run.counts.sent as f64, 0.05, 0.05);
    assert_eq!(run.counts.lost, run.faults.frames, "nothing else is lost");
    assert_eq!(run.faults.link_down, 0);
}

#[test]
fn a_link_that_is_down_loses_all_that_is_sent_meanwhile() {
    let faults = Faults { link_down_every_s: 0.006, link_down_ms: 2.0, ..Faults::default() };
    let run = run(faults, Scheme::Aging, UDP, 2_000);
    near(run.faults.link_down as f64 / run.counts.sent as f64, 0.25, 0.05);
    assert_eq!(run.faults.frames, run.faults.link_down);
}

#[test]
fn days_of_which_no_news_come_are_missed_and_lost_dusks_cost_little() {
    let sound = run(Faults::default(), Scheme::Aging, UDP, 1_000);
    let run = run(Faults { sync_lost: 0.1, ..Faults::default() }, Scheme::Aging, UDP, 1_000);
    let days = run.slots as f64 * 7.0;
    near(run.counts.missed_days as f64 / days, 0.1, 0.05);
    near(run.faults.sync as f64 / days, 0.2, 0.05);
    // Whoever has not heard of the night stops by what it knows of the day's length. So no more
    // is lost; and queues that missed their day have more to send on the next.
    assert_eq!(run.counts.lost, 0);
    assert!(delivered(&run) < delivered(&sound) && delivered(&run) > 0.85 * delivered(&sound));
}

#[test]
fn a_silent_host_misses_the_days_in_which_it_is() {
    let faults = Faults { silent_every_s: 0.030, silent_ms: 10.0, ..Faults::default() };
    let run = run(faults, Scheme::Aging, UDP, 4_000);
    near(run.counts.missed_days as f64 / (run.slots as f64 * 7.0), 0.25, 0.1);
    assert!(run.faults.silent > 0 && run.faults.sync == 0);
}

#[test]
fn tcp_sends_again_what_links_lose() {
    let sound = run(Faults::default(), Scheme::Pacing, TCP, 300);
    let faults = Faults { frame_lost: 0.001, ..Faults::default() };
    let lossy = run(faults, Scheme::Pacing, TCP, 300);
    let again = |run: &Run| run.tcp.as_ref().unwrap().tally.again;
    assert!(again(&lossy) > again(&sound));
    let share = delivered(&lossy) / delivered(&sound);
    assert!((0.05..1.0).contains(&share), "{share}");
    // Nothing at all arrives: all timers double, and no connection is forgotten.
    let dead = run(Faults { frame_lost: 1.0, ..Faults::default() }, Scheme::Pacing, TCP, 3_000);
    assert_eq!(delivered(&dead), 0.0);
    assert!(dead.tcp.unwrap().tally.timeouts > 6 * 7, "each pair's");
}

#[test]
fn faults_that_do_not_come_change_nothing() {
    // Slots in which nothing happens are noted where nothing goes wrong, and played where it may.
    let never = Faults { sync_lost: 1e-300, ..Faults::default() };
    for transport in [UDP, TCP] {
        let of = |faults| {
            let Spec { switch, hosts, .. } = spec();
            let mut hosts = hosts.unwrap();
            hosts.processor.packet_us = 100.0;
            hosts.faults = faults;
            let (day, duration) = (Time::from_ns(1e3 * DAY_US), Time::ns(100_000_000));
            let (switch, hosts, scheme) = (&switch, &hosts, Scheme::Pacing);
            let setting = Setting { switch, hosts, scheme, transport, duration, day, seed: 1 };
            let policy = Box::new(Turns::round_robin(hosts.count, day));
            let run = play(&setting, policy, &RunControl::new()).unwrap();
            format!("{:?} {:?} {:?} {:?}", run.counts, run.gaps, run.delivered, run.tcp)
        };
        assert_eq!(of(never), of(Faults::default()));
    }
}

#[test]
fn a_closed_form_has_no_faults() {
    let (switch, hosts) = &calm(Faults { frame_lost: 0.1, ..Faults::default() });
    let (day, duration) = (Time::from_ns(1e3 * DAY_US), Time::ns(1_000_000));
    let (scheme, transport) = (Scheme::Naive, UDP);
    let setting = Setting { switch, hosts, scheme, transport, duration, day, seed: 1 };
    assert!(matches!(play_packets(&setting), Err(WorldError::NoFaults)));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |faults: Faults| {
        let mut spec = spec();
        spec.hosts.as_mut().unwrap().faults = faults;
        Fabric::new(spec).unwrap_err().to_string()
    };
    let none = Faults::default();
    assert_eq!(
        refused(Faults { frame_lost: 1.5, ..none }),
        "hosts.faults.frame_lost: found 1.5, expected 0 to 1"
    );
    assert!(refused(Faults { sync_lost: f64::NAN, ..none }).contains("hosts.faults.sync_lost"));
    assert!(refused(Faults { link_down_ms: 0.0, ..none }).contains("hosts.faults.link_down_ms"));
    assert!(refused(Faults { silent_every_s: -1.0, ..none }).contains("silent_every_s"));
}
