//! What goes wrong between racks, against closed forms.

use halfwink_engine::{draw, stream, RunControl};
use halfwink_fabric::flows::traffic::ALONE;
use halfwink_fabric::flows::{
    play, Flow, RackFaults, RackPower, Racks, Routes, Run, Setting, Traffic,
};
use halfwink_fabric::CircuitSwitch;
use halfwink_policy::circuits::{CircuitsPolicy, Still, Turns};
use halfwink_units::Time;

/// One server in each rack, ports of 10 Gb/s (1250 bytes in a microsecond).
fn racks(count: u16, planes: u8, server_gbps: f64, faults: RackFaults) -> Racks {
    Racks {
        count,
        servers: 1,
        server_gbps,
        planes,
        packet_gbps: 0.0,
        packet_below_bytes: 0.0,
        goodput: 1.0,
        hop_us: 0.0,
        frame_bytes: 0.0,
        packet_hops: 4,
        faults,
        rank: None,
        power: RackPower {
            circuit_port_w: 0.25,
            packet_w_per_gbps: 1.5,
            transceiver_w: 1.0,
            server_w: 0.0,
        },
    }
}

fn run(racks: &Racks, routes: Routes, policy: CircuitsPolicy, flows: &[Flow]) -> Run {
    let mut traffic = Traffic::default();
    for flow in flows {
        traffic.add(*flow, &[]);
    }
    traffic.close();
    let ports = u32::from(racks.count);
    let switch = CircuitSwitch {
        ports,
        usable_ports: ports,
        port_gbps: 10.0,
        reconfiguration_us: 10.0,
        shortest_day_us: 1.0,
        circuits_per_port: 1.0,
        propagation_us: 0.0,
    };
    let setting = Setting { racks, switch: &switch, routes, at_most: Time::NEVER, seed: 7 };
    play(&setting, policy, &traffic, &RunControl::new()).unwrap()
}

fn flow(from: u32, to: u32, bytes: f64, at_us: f64) -> Flow {
    Flow { from, to, bytes, after: Time::from_ns(1e3 * at_us), group: ALONE }
}

fn us(time: Option<Time>) -> f64 {
    time.unwrap().as_ns() * 1e-3
}

/// Flows between any two of eight racks, one after the other at random.
fn any_flows(count: u32, bytes: f64, apart_us: f64) -> Vec<Flow> {
    let (mut random, mut at) = (stream(3, "flows"), 0.0);
    let one = |n: u32| {
        at += apart_us * draw::exponential(&mut random);
        flow(n % 8, (n % 8 + 1 + n % 7) % 8, bytes, at)
    };
    (0..count).map(one).collect()
}

fn turns(racks: u16) -> CircuitsPolicy {
    Box::new(Turns::round_robin(racks, Time::ns(90_000)))
}

#[test]
fn faults_that_do_not_come_change_nothing() {
    let never = RackFaults { link_down_every_s: 1e9, ..RackFaults::default() };
    let relays = Routes { relays: true, ..Routes::default() };
    let flows = any_flows(2_000, 40_000.0, 20.0);
    let policies: [fn() -> CircuitsPolicy; 3] = [
        || turns(8),
        || Box::new(Turns::rotor(8, 2, Time::ns(90_000))),
        || Box::new(Still::packets(8)),
    ];
    for policy in policies {
        let plain = run(&racks(8, 2, 10.0, RackFaults::default()), relays, policy(), &flows);
        let found = run(&racks(8, 2, 10.0, never), relays, policy(), &flows);
        assert_eq!(plain.times, found.times);
        assert_eq!(plain.events, found.events);
        assert_eq!(found.faults.links, 0);
    }
}

/// A flow of next to nothing waits `(W - d)^2 / 2 W` for its day `d` in a week `W`; each day is
/// missed with probability `p`, so that `p / (1 - p)` weeks come on top, less what has passed of
/// the day in which it came, if that was missed: `d / 2`, of the flows that come in theirs.
#[test]
fn missed_days_cost_the_weeks_that_they_should() {
    for missed in [0.1, 0.5] {
        let faults = RackFaults { day_lost: missed, ..RackFaults::default() };
        let flows = any_flows(20_000, 1.0, 900.0);
        let done = run(&racks(8, 1, 10.0, faults), Routes::default(), turns(8), &flows);
        let mean = done.times.iter().map(|time| us(*time)).sum::<f64>() / flows.len() as f64;
        let (week, day) = (700.0_f64, 90.0);
        let expected = (week - day).powi(2) / (2.0 * week) + week * missed / (1.0 - missed)
            - missed * day * day / (2.0 * week);
        assert!((mean / expected - 1.0).abs() < 0.02, "{mean} instead of {expected}");
        assert!(done.faults.days > 0);
    }
}

/// Both ends of a circuit have to be up; a flow that is as long as many outages has that share.
#[test]
fn a_circuit_is_up_as_often_as_both_its_links() {
    let faults = RackFaults { link_down_every_s: 3e-3, link_down_ms: 1.0, ..RackFaults::default() };
    let ring: CircuitsPolicy = Box::new(Still::ring(2, 1));
    let bytes = 1250.0 * 20e6;
    let done = run(&racks(2, 1, 10.0, faults), Routes::default(), ring, &[flow(0, 1, bytes, 0.0)]);
    let share = 20e6 / us(done.times[0]);
    let both = 0.75_f64 * 0.75;
    assert!((share / both - 1.0).abs() < 0.03, "up {share} of the time instead of {both}");
    // Two links, each down once in 4 ms.
    let downs = 2.0 * done.duration.as_s() / 4e-3;
    assert!((done.faults.links as f64 / downs - 1.0).abs() < 0.05, "{}", done.faults.links);
}

/// Packets take the links that are left: the least of what both racks have of two each.
#[test]
fn packets_take_the_other_links() {
    let faults = RackFaults { link_down_every_s: 3e-3, link_down_ms: 1.0, ..RackFaults::default() };
    let packets: CircuitsPolicy = Box::new(Still::packets(2));
    let bytes = 2.0 * 1250.0 * 20e6;
    let done =
        run(&racks(2, 2, 40.0, faults), Routes::default(), packets, &[flow(0, 1, bytes, 0.0)]);
    let share = 20e6 / us(done.times[0]);
    let (one, two) = (1.0 - 0.25_f64.powi(2), 0.75_f64.powi(2));
    let expected = 0.5 * (one * one + two * two);
    assert!((share / expected - 1.0).abs() < 0.03, "{share} instead of {expected}");
}

/// What is on its way to a rack between stays where it is while its circuit is dark, and goes on.
#[test]
fn relays_lose_nothing_to_links_that_go_down() {
    let faults = RackFaults { link_down_every_s: 2e-3, link_down_ms: 1.0, day_lost: 0.1 };
    let relays = Routes { relays: true, ..Routes::default() };
    let flows = any_flows(2_000, 200_000.0, 100.0);
    let policy = || -> CircuitsPolicy { Box::new(Turns::rotor(8, 2, Time::ns(90_000))) };
    let done = run(&racks(8, 2, 10.0, faults), relays, policy(), &flows);
    assert!(done.times.iter().all(Option::is_some));
    assert!((done.delivered / 4e8 - 1.0).abs() < 1e-6, "{}", done.delivered);
    let plain = run(&racks(8, 2, 10.0, RackFaults::default()), relays, policy(), &flows);
    let mean = |run: &Run| run.times.iter().map(|time| us(*time)).sum::<f64>();
    assert!(mean(&done) > 1.2 * mean(&plain));
}
