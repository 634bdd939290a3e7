//! TCP between hosts that take turns.

use halfwink_engine::RunControl;
use halfwink_fabric::tcp::Algorithm;
use halfwink_fabric::world::{packet_gbps, play, play_packets, Run, Setting, Transport};
use halfwink_fabric::{CircuitSwitch, Hosts, Spec};
use halfwink_policy::circuits::host::Scheme;
use halfwink_policy::circuits::{Choose, CircuitsPolicy, Needed, Still, Turns};
use halfwink_units::Time;

const CUBIC: Transport = Transport::Tcp { algorithm: Algorithm::Cubic, offload: false };
const DCTCP: Transport = Transport::Tcp { algorithm: Algorithm::Dctcp, offload: false };
const OFFLOAD: Transport = Transport::Tcp { algorithm: Algorithm::Cubic, offload: true };

type Machine = (CircuitSwitch, Hosts);

fn us(us: f64) -> Time {
    Time::from_ns(1e3 * us)
}

fn mordia() -> Machine {
    let text = include_str!("../../../machines/fabric/mordia.toml");
    let Spec { switch, hosts, .. } = toml::from_str(text).unwrap();
    (switch, hosts.unwrap())
}

/// Hosts to which nothing unforeseen happens, and nothing is drawn.
fn calm() -> Machine {
    let (switch, mut hosts) = mordia();
    (hosts.sync_us, hosts.first_packet_us) = ([1.0; 2], [1.0; 2]);
    (hosts.late_share, hosts.card.batch_share) = (0.0, 0.0);
    (hosts.stalls.long_share, hosts.stalls.short_share) = (0.0, 0.0);
    (switch, hosts)
}

fn setting((switch, hosts): &Machine, transport: Transport, day_us: f64, ms: u64) -> Setting<'_> {
    let (scheme, duration) = (Scheme::Pacing, Time::ns(1_000_000 * ms));
    Setting { switch, hosts, scheme, transport, duration, day: us(day_us), seed: 1 }
}

fn run(machine: &Machine, transport: Transport, day_us: f64, policy: CircuitsPolicy) -> Run {
    let setting = setting(machine, transport, day_us, 300);
    play(&setting, policy, &RunControl::new()).unwrap()
}

fn in_turns(machine: &Machine, transport: Transport, day_us: f64) -> Run {
    let turns = Turns::round_robin(machine.1.count, us(day_us));
    run(machine, transport, day_us, Box::new(turns))
}

fn gbps(run: &Run, hosts: &Hosts) -> f64 {
    let bits = run.delivered.iter().sum::<u64>() as f64 * f64::from(hosts.frame_bytes) * 8.0;
    bits / run.duration.as_s() / f64::from(hosts.count) * 1e-9
}

#[test]
fn a_round_trip_by_hand() {
    // Two hosts that are joined for ever, one segment on its way each.
    let mut machine = calm();
    (machine.1.count, machine.1.tcp.segments_per_ack) = (2, 1);
    machine.1.tcp.window_days = 0.06;
    let run = run(&machine, CUBIC, 123.5, Box::new(Still::ring(2, 1)));
    // 30.2 us until data is there, 10.687 us of processors for sending and receiving it, 1.161 us
    // in cards and 0.053 us on the wire for what acknowledges it.
    let round_trip = 30.2 + (7.2 + 0.1007 + 0.03879 + 3.3476) + 1.1613 + 0.0528;
    let expected = 300_000.0 / round_trip;
    for pair in [1, 2] {
        let found = run.delivered[pair] as f64;
        assert!((found - expected).abs() < 3.0, "{found} for {expected}");
    }
    let counts = run.tcp.unwrap();
    assert_eq!((counts.tally.again, counts.acks_lost, run.counts.lost), (0, 0, 0));
    let delivery = counts.delivery.mean().unwrap();
    assert!(delivery > us(30.2 + 5.3) && delivery < us(30.2 + 5.4), "{delivery:?}");
}

#[test]
fn hosts_are_limited_by_their_processors_or_by_circuits() {
    let machine = calm();
    let limit = packet_gbps(&machine.0, &machine.1, CUBIC);
    assert!((limit - 6.26).abs() < 1e-3, "{limit}");
    for (day_us, [least, most]) in [(300.0, [0.99, 1.0]), (123.5, [0.99, 1.0]), (61.0, [0.8, 0.9])]
    {
        let run = in_turns(&machine, CUBIC, day_us);
        let share = gbps(&run, &machine.1) / limit;
        assert!(least < share && share <= most, "{day_us}: {share}");
        assert_eq!(run.tcp.unwrap().tally.timeouts, 0);
    }
}

#[test]
fn lost_segment_is_sent_again() {
    let machine = mordia();
    let run = in_turns(&machine, CUBIC, 123.5);
    let tally = run.tcp.as_ref().unwrap().tally;
    let delivered: u64 = run.delivered.iter().sum();
    assert!(run.counts.lost > 100 && tally.recoveries > 50, "{tally:?}");
    assert!(tally.again >= run.counts.lost * 9 / 10, "{tally:?}");
    assert!(delivered + run.counts.lost <= run.counts.sent);
    assert!((0..23).all(|host| run.delivered[host * 24] == 0), "nobody sends to itself");
    // All connections get on. One whose timer fires is silent for 200 of these 300 ms.
    let pairs = (0..23 * 23).filter(|n| n % 24 != 0).map(|n| run.delivered[n]);
    let (least, most) = (pairs.clone().min().unwrap(), pairs.max().unwrap());
    assert!(least > 100 && most * 506 < 2 * delivered, "{least} to {most} of {delivered}");
}

#[test]
fn without_a_way_back_only_windows_are_sent() {
    let machine = calm();
    let run = run(&machine, CUBIC, 123.5, Box::new(Still::ring(23, 1)));
    // Two days are 34 segments.
    let sent = run.delivered.iter().filter(|&&n| n == 34).count();
    let silent = run.delivered.iter().filter(|&&n| n == 0).count();
    assert_eq!((sent, silent), (23, 23 * 22), "{:?}", run.delivered);
}

#[test]
fn one_seed_is_one_run() {
    let machine = mordia();
    let [a, b] = [1, 2].map(|_| in_turns(&machine, CUBIC, 61.0));
    assert_eq!((a.delivered, a.counts.lost, a.gaps), (b.delivered, b.counts.lost, b.gaps));
}

#[test]
fn news_that_waits_for_the_processor_costs_days() {
    let mut machine = mordia();
    let before = in_turns(&machine, CUBIC, 61.0);
    machine.1.processor.sync_waits = true;
    let after = in_turns(&machine, CUBIC, 61.0);
    assert!(after.counts.missed_days > 2 * before.counts.missed_days);
    assert!(gbps(&after, &machine.1) < 0.7 * gbps(&before, &machine.1));
}

#[test]
fn cards_that_cut_segments_save_work_and_overrun_nights() {
    let machine = calm();
    let [without, with] = [CUBIC, OFFLOAD].map(|kind| packet_gbps(&machine.0, &machine.1, kind));
    assert!(with > 1.3 * without, "{with} {without}");
    let [without, with] = [CUBIC, OFFLOAD].map(|kind| in_turns(&machine, kind, 123.5));
    let share = |run: &Run| run.counts.lost as f64 / run.counts.sent as f64;
    assert!(share(&with) > 0.01 && share(&with) > 5.0 * share(&without), "{}", share(&with));
}

#[test]
fn marks_keep_queues_short() {
    // Circuits are the bottleneck, so that queues grow.
    let machine = calm();
    let [cubic, dctcp] = [CUBIC, DCTCP].map(|kind| in_turns(&machine, kind, 61.0));
    let delay = |run: &Run| run.tcp.as_ref().unwrap().delivery.mean().unwrap();
    assert!(delay(&dctcp) < delay(&cubic), "{:?} {:?}", delay(&dctcp), delay(&cubic));
    assert!(gbps(&dctcp, &machine.1) > 0.7 * gbps(&cubic, &machine.1));
}

#[test]
fn a_queue_without_room_refuses() {
    let mut machine = calm();
    machine.1.queue_days = 0.5;
    let tally = in_turns(&machine, CUBIC, 123.5).tcp.unwrap().tally;
    assert!(tally.refused > 1000 && tally.recoveries == 0, "{tally:?}");
}

#[test]
fn circuits_may_follow_what_waits() {
    let machine = calm();
    let needed = Needed::new(23, Choose::Greedy, us(100.0));
    let run = run(&machine, CUBIC, 100.0, Box::new(needed));
    let share = gbps(&run, &machine.1) / gbps(&in_turns(&machine, CUBIC, 100.0), &machine.1);
    assert!(share > 0.5, "{share}");
}

#[test]
fn a_packet_switch_gives_what_processors_have_time_for() {
    let machine = mordia();
    for (transport, expected) in [(Transport::Udp, 8.83), (CUBIC, 6.26)] {
        let run = play_packets(&setting(&machine, transport, 123.5, 300)).unwrap();
        assert!((gbps(&run, &machine.1) - expected).abs() < 0.01);
    }
    let mut two = mordia();
    two.1.count = 2;
    assert!((packet_gbps(&two.0, &two.1, Transport::Udp) - 9.81).abs() < 0.001);
}
