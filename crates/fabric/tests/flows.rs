//! Flows over racks, against closed forms.

use halfwink_engine::{draw, stream, RunControl};
use halfwink_fabric::flows::collective::{add, Collective, Members};
use halfwink_fabric::flows::traffic::ALONE;
use halfwink_fabric::flows::workload::{Amount, Workload};
use halfwink_fabric::flows::{
    play, Flow, FlowsError, RackFaults, RackPower, Racks, Routes, Run, Setting, Traffic,
};
use halfwink_fabric::CircuitSwitch;
use halfwink_policy::circuits::{
    Action, Choose, Circuits, CircuitsPolicy, Event, Needed, Still, Turns,
};
use halfwink_units::Time;
use proptest::prelude::*;

/// 10 Gb/s are 1.25 bytes in a nanosecond.
const BYTES_PER_NS: f64 = 1.25;

fn racks(count: u16, servers: u16, planes: u8) -> Racks {
    Racks {
        count,
        servers,
        server_gbps: 10.0,
        planes,
        packet_gbps: 0.0,
        packet_below_bytes: 0.0,
        goodput: 1.0,
        hop_us: 0.0,
        frame_bytes: 0.0,
        packet_hops: 4,
        faults: RackFaults::default(),
        rank: None,
        power: RackPower {
            circuit_port_w: 0.25,
            packet_w_per_gbps: 1.5,
            transceiver_w: 1.0,
            server_w: 0.0,
        },
    }
}

fn switch(ports: u32) -> CircuitSwitch {
    CircuitSwitch {
        ports,
        usable_ports: ports,
        port_gbps: 10.0,
        reconfiguration_us: 10.0,
        shortest_day_us: 1.0,
        circuits_per_port: 1.0,
        propagation_us: 0.0,
    }
}

fn run(racks: &Racks, routes: Routes, policy: CircuitsPolicy, traffic: &mut Traffic) -> Run {
    traffic.close();
    let switch = switch(u32::from(racks.count));
    let setting = Setting { racks, switch: &switch, routes, at_most: Time::NEVER, seed: 1 };
    play(&setting, policy, traffic, &RunControl::new()).unwrap()
}

fn flow(from: u32, to: u32, bytes: f64, at_us: f64) -> Flow {
    Flow { from, to, bytes, after: Time::from_ns(1e3 * at_us), group: ALONE }
}

fn traffic(flows: &[Flow]) -> Traffic {
    let mut traffic = Traffic::default();
    for flow in flows {
        traffic.add(*flow, &[]);
    }
    traffic
}

fn us(time: Option<Time>) -> f64 {
    time.unwrap().as_ns() * 1e-3
}

fn turns(racks: u16, day_us: f64) -> CircuitsPolicy {
    Box::new(Turns::round_robin(racks, Time::from_ns(1e3 * day_us)))
}

fn packets(racks: u16) -> CircuitsPolicy {
    Box::new(Still::packets(racks))
}

#[test]
fn a_flow_alone_takes_its_bytes_and_its_hops() {
    let mut racks = racks(4, 2, 1);
    (racks.hop_us, racks.frame_bytes) = (1.5, 1250.0);
    let flows = [flow(0, 2, 125_000.0, 0.0), flow(4, 5, 125_000.0, 7.0), flow(6, 7, 625.0, 9.0)];
    let done = run(&racks, Routes::default(), packets(4), &mut traffic(&flows));
    // Four hops, and three switches that each have a whole frame first; then two and one.
    assert_eq!(us(done.times[0]), 100.0 + 6.0 + 3.0);
    assert_eq!(us(done.times[1]), 100.0 + 3.0 + 1.0);
    assert_eq!(us(done.times[2]), 0.5 + 3.0 + 0.5);
    assert_eq!(done.delivered, 250_625.0);
    assert_eq!(done.on_packets, 125_000.0);
}

#[test]
fn flows_wait_for_their_turn_and_go_on_in_the_next_week() {
    // Nights of 10 us, days of 90: rack 0 sends to 1 from 10 to 100 us, to 2 from 110 to 200.
    let flows = [
        flow(0, 1, 90.0 * 1250.0, 0.0),
        flow(0, 2, 90.0 * 1250.0, 0.0),
        flow(1, 2, 100.0 * 1250.0, 50.0),
    ];
    let done = run(&racks(3, 1, 1), Routes::default(), turns(3, 90.0), &mut traffic(&flows));
    assert_eq!(us(done.times[0]), 100.0);
    assert_eq!(us(done.times[1]), 200.0);
    // 50 us of the first day, the rest a week later: its day begins at 210 us.
    assert_eq!(us(done.times[2]), 210.0 + 50.0 - 50.0);
    assert_eq!(done.days, 3);
}

/// A flow of next to nothing that comes at any time waits `(W - d)^2 / 2 W` for its day `d` in a
/// week `W`; that nothing waits meanwhile lets the world leap, which must not show.
#[test]
fn the_mean_wait_is_the_closed_form() {
    let (mut random, mut at) = (stream(3, "waits"), 0.0);
    let flows: Vec<Flow> = (0..20_000)
        .map(|n| {
            at += 900.0 * draw::exponential(&mut random);
            flow(n % 8, (n % 8 + 1 + n % 7) % 8, 1.0, at)
        })
        .collect();
    let done = run(&racks(8, 1, 1), Routes::default(), turns(8, 90.0), &mut traffic(&flows));
    let mean = done.times.iter().map(|time| us(*time)).sum::<f64>() / 20_000.0;
    let (week, day) = (700.0_f64, 90.0);
    let expected = (week - day).powi(2) / (2.0 * week);
    assert!((mean / expected - 1.0).abs() < 0.02, "{mean} instead of {expected}");
    assert!((done.up - 0.9).abs() < 1e-3, "{}", done.up);
    let days = done.duration.as_s() * 1e6 / 100.0;
    assert!((done.days as f64 - days).abs() < 2.0, "{} of {days}", done.days);
}

/// M/G/1 with processor sharing: a flow of `x` bytes takes `x / C (1 - load)` on average, whatever
/// the sizes of others (Kleinrock 1976, Sec 4.4).
#[test]
fn sharing_is_processor_sharing_at_one_port() {
    let load = 0.6;
    let (mut random, mut at) = (stream(5, "sharing"), 0.0);
    let sizes = [12_500.0, 250_000.0];
    let mean_us = (sizes[0] + sizes[1]) / 2.0 / 1250.0;
    let flows: Vec<Flow> = (0..60_000_u32)
        .map(|n| {
            at += mean_us / load * draw::exponential(&mut random);
            let is_large = draw::above_zero(&mut random) > 0.5;
            flow(64 + n % 4096, 0, sizes[usize::from(is_large)], at)
        })
        .collect();
    let done = run(&racks(65, 64, 64), Routes::default(), packets(65), &mut traffic(&flows));
    for size in sizes {
        let of_size = || flows.iter().zip(&done.times).filter(|(flow, _)| flow.bytes == size);
        let mean = of_size().map(|(_, time)| us(*time)).sum::<f64>() / of_size().count() as f64;
        let expected = size / 1250.0 / (1.0 - load);
        assert!((mean / expected - 1.0).abs() < 0.04, "{size}: {mean} instead of {expected}");
    }
}

/// Of a permutation a round robin carries one part in `n - 1` directly, and the rest twice: in all
/// it takes `T = 2 - T / (n - 1)` times as long as wires alone (Valiant 1982).
#[test]
fn relays_carry_half_of_any_permutation() {
    let bytes = 40e6;
    let shifted: Vec<Flow> = (0..16).map(|n| flow(n, (n + 5) % 16, bytes, 0.0)).collect();
    let time = |relays| {
        let routes = Routes { relays, ..Routes::default() };
        let done = run(&racks(16, 1, 1), routes, turns(16, 90.0), &mut traffic(&shifted));
        assert!((done.delivered - 16.0 * bytes).abs() < 1.0, "{}", done.delivered);
        (done.duration.as_s() * 1e9, done.on_circuits / done.delivered)
    };
    let alone = bytes / BYTES_PER_NS / 0.9;
    let (direct, relayed) = (time(false), time(true));
    assert!((direct.0 / alone / 15.0 - 1.0).abs() < 0.02, "{} times", direct.0 / alone);
    assert!((relayed.0 / alone / 1.875 - 1.0).abs() < 0.02, "{} times", relayed.0 / alone);
    assert_eq!(direct.1, 1.0);
    assert!((relayed.1 / 1.875 - 1.0).abs() < 0.02, "{} circuits", relayed.1);
}

/// Opera-sim's RotorLB: a server has a quarter of its rack's circuit though the other three have
/// nothing to send, also to receive, and a rack between takes two quarters of a day for it.
#[test]
fn even_parts_of_a_circuit_are_not_for_the_others() {
    let bytes = 1e6;
    let time = |flows: &[Flow], relays, even_parts| {
        let routes = Routes { relays, even_parts, ..Routes::default() };
        let done = run(&racks(4, 4, 1), routes, turns(4, 90.0), &mut traffic(flows));
        assert!((done.delivered - bytes * flows.len() as f64).abs() < 1.0);
        (done.duration.as_s() * 1e9, done.on_circuits / done.delivered)
    };
    // From one server to one: the days that it takes, three slots of 100 us from one to the next.
    let alone = [flow(0, 4, bytes, 0.0)];
    let days = |part: f64| 300e3 * (bytes / (part * 90e3 * BYTES_PER_NS)).floor();
    let (fair, even) = (time(&alone, false, false).0, time(&alone, false, true).0);
    assert!((fair - days(1.0)).abs() < 300e3, "{fair}");
    assert!((even - days(0.25)).abs() < 300e3, "{even}");
    // Four to one: what it may receive is the limit. Four to four: nothing is.
    let to_one: Vec<Flow> = (0..4).map(|n| flow(n, 4, bytes, 0.0)).collect();
    let to_four: Vec<Flow> = (0..4).map(|n| flow(n, 4 + n, bytes, 0.0)).collect();
    let (one, four) = (time(&to_one, false, true).0, time(&to_four, false, true).0);
    assert!(one > 3.9 * four, "{one} {four}");
    assert!((four / time(&to_four, false, false).0 - 1.0).abs() < 0.01, "{four}");
    // By racks between too: they take some, and less than where parts are fair.
    let (slow, fast) = (time(&alone, true, true), time(&alone, true, false));
    assert!(slow.0 < even && slow.0 > fast.0, "{slow:?} {fast:?} {even}");
    assert!(slow.1 > 1.2, "{slow:?}");
}

#[test]
fn short_flows_do_not_wait_where_planes_are_up_in_turns() {
    let mut racks = racks(24, 1, 4);
    racks.hop_us = 1.0;
    let flows: Vec<Flow> = (1..24).map(|n| flow(0, n, 1250.0, 1000.0 * f64::from(n))).collect();
    let policy = || Box::new(Turns::opera(24, 4, Time::from_ns(390e3)));
    let routes = Routes { hops_below_bytes: 1e6, ..Routes::default() };
    let short = run(&racks, routes, policy(), &mut traffic(&flows));
    let most = short.times.iter().map(|time| us(*time)).fold(0.0, f64::max);
    assert!(most < 20.0, "{most}");
    assert!(short.on_circuits > short.delivered);
    let waits = run(&racks, Routes::default(), policy(), &mut traffic(&flows));
    assert!(waits.times.iter().map(|time| us(*time)).fold(0.0, f64::max) > 300.0);
}

/// The text book's time of a ring: `2 (n - 1) / n` of all bytes, and a latency for each step.
#[test]
fn a_ring_takes_what_its_closed_form_says() {
    let mut racks = racks(6, 1, 1);
    racks.hop_us = 1.0;
    let (mut traffic, servers) = (Traffic::default(), [0, 1, 2, 3, 4, 5]);
    let group = traffic.group();
    let members = Members { servers: &servers, bytes: 6e6, uneven: &[], group, after: &[] };
    add(&mut traffic, Collective::RingAllReduce, &members);
    let done = run(&racks, Routes::default(), packets(6), &mut traffic);
    let expected = 10.0 / 6.0 * 6e6 / 1250.0 + 10.0 * 4.0;
    assert!((us(done.groups[0]) - expected).abs() < 1e-3, "{:?}", done.groups);
}

#[test]
fn flows_begin_when_those_before_have_ended() {
    let mut traffic = traffic(&[flow(0, 1, 1250.0, 5.0), flow(3, 3, 0.0, 20.0)]);
    traffic.add(flow(1, 0, 1250.0, 3.0), &[0, 1]);
    let done = run(&racks(4, 1, 1), Routes::default(), packets(4), &mut traffic);
    assert_eq!(done.times.map_or_us(), [1.0, 20.0, 1.0]);
    assert_eq!(done.duration, Time::ns(24_000));
}

trait Times {
    fn map_or_us(&self) -> Vec<f64>;
}

impl Times for Vec<Option<Time>> {
    fn map_or_us(&self) -> Vec<f64> {
        self.iter().map(|time| us(*time)).collect()
    }
}

#[test]
fn one_policy_of_one_plane_joins_all_planes_alike() {
    let flows = [flow(0, 3, 2.5e6, 0.0), flow(1, 3, 2.5e6, 0.0)];
    let time = |planes| {
        let mut racks = racks(2, 2, planes);
        racks.server_gbps = 40.0;
        let policy = Box::new(Needed::new(2, Choose::Greedy, Time::ns(1_000_000)));
        us(Some(run(&racks, Routes::default(), policy, &mut traffic(&flows)).duration))
    };
    // 5 MB at 10 Gb/s are 4 ms, in five days; at 40 Gb/s one.
    assert!((time(1) - 4040.0).abs() < 10.5, "{}", time(1));
    assert!((time(4) - 1010.0).abs() < 10.5, "{}", time(4));
}

#[test]
fn what_has_not_ended_has_no_time() {
    let (racks, switch) = (racks(2, 1, 1), switch(2));
    let mut flows = traffic(&[flow(0, 1, 1e9, 0.0), flow(1, 0, 1250.0, 0.0)]);
    flows.close();
    let at_most = Time::ns(1_000_000);
    let setting =
        Setting { racks: &racks, switch: &switch, routes: Routes::default(), at_most, seed: 1 };
    let done = play(&setting, packets(2), &flows, &RunControl::new()).unwrap();
    assert_eq!(done.times, [None, Some(Time::ns(1000))]);
    assert_eq!(done.duration, at_most);
    // 20 Gb/s of packet switch and two transceivers.
    assert!((done.books.energy_where(|_| true).as_j() - 1e-3 * (20.0 * 1.5 + 2.0)).abs() < 1e-9);
}

#[test]
fn the_end_comes_before_a_flow_that_would_begin_later() {
    let (racks, switch) = (racks(6, 1, 2), switch(6));
    let mut flows = traffic(&[flow(0, 1, 1.0, 0.0), flow(0, 1, 1.0, 1e6)]);
    flows.close();
    let at_most = Time::ns(10_000_000);
    let setting =
        Setting { racks: &racks, switch: &switch, routes: Routes::default(), at_most, seed: 1 };
    let policy = Box::new(Turns::opera(6, 2, Time::ns(90_000)));
    let done = play(&setting, policy, &flows, &RunControl::new()).unwrap();
    assert_eq!((done.duration, done.times[1]), (at_most, None));
    assert!((done.up - 0.9).abs() < 0.01, "{}", done.up);
    let days = 2.0 * 10_000.0 / 100.0;
    assert!((done.days as f64 - days).abs() < 3.0, "{}", done.days);
}

/// Ports of several planes that are joined alike draw as all of them.
#[test]
fn every_plane_draws_power() {
    let one = |planes| {
        let policy: CircuitsPolicy = Box::new(Needed::new(3, Choose::Greedy, Time::ns(90_000)));
        let flows = &mut traffic(&[flow(0, 1, 1e6, 0.0)]);
        let done = run(&racks(3, 1, planes), Routes::default(), policy, flows);
        done.books.energy_where(|_| true).as_j() / done.duration.as_s()
    };
    assert!((one(1) - 3.0 * 1.25).abs() < 1e-9, "{}", one(1));
    assert!((one(4) - 4.0 * 3.0 * 1.25).abs() < 1e-9, "{}", one(4));
}

#[test]
fn impossible_flows_are_named() {
    let (racks, switch) = (racks(2, 1, 1), switch(2));
    let at_most = Time::NEVER;
    let setting =
        Setting { racks: &racks, switch: &switch, routes: Routes::default(), at_most, seed: 1 };
    for (wrong, said) in [
        (flow(0, 2, 1.0, 0.0), "flow 0: server 2, expected 0 to 1"),
        (flow(0, 1, 0.0, 0.0), "flow 0: 0 bytes, expected 1 or more"),
        (flow(0, 1, f64::NAN, 0.0), "flow 0: NaN bytes, expected 1 or more"),
    ] {
        let error = play(&setting, packets(2), &traffic(&[wrong]), &RunControl::new());
        assert_eq!(error.unwrap_err().to_string(), said);
    }
    let stopped = RunControl::new();
    stopped.stop();
    let found = play(&setting, packets(2), &traffic(&[flow(0, 1, 1.0, 0.0)]), &stopped);
    assert!(matches!(found, Err(FlowsError::Interrupted(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every byte arrives, once, whatever ways there are.
    #[test]
    fn bytes_of_all_flows_arrive(
        flows in prop::collection::vec((0_u32..12, 0_u32..12, 1.0..3e6, 0.0..3000.0), 1..60),
        planes in 1_u8..4,
        relays: bool,
        even_parts: bool,
        hops in prop::sample::select(vec![0.0, 1e5]),
        packet_gbps in prop::sample::select(vec![0.0, 2.0]),
        seed in 0_usize..5,
    ) {
        let flows: Vec<Flow> = flows
            .into_iter()
            .filter(|(from, to, ..)| from != to)
            .map(|(from, to, bytes, at)| flow(from, to, bytes, at))
            .collect();
        let racks = Racks { packet_gbps, packet_below_bytes: 2e5, ..racks(6, 2, planes) };
        let day = Time::from_ns(60e3);
        let policy: CircuitsPolicy = match seed {
            0 => turns(6, 60.0),
            1 => Box::new(Turns::rotor(6, planes, day)),
            2 => Box::new(Turns::opera(6, planes, day)),
            3 => Box::new(Needed::new(6, Choose::Greedy, day)),
            _ => Box::new(Needed::new(6, Choose::Heaviest, day)),
        };
        let routes = Routes { hops_below_bytes: hops, relays, even_parts };
        let done = run(&racks, routes, policy, &mut traffic(&flows));
        let bytes: f64 = flows.iter().map(|flow| flow.bytes).sum();
        prop_assert!((done.delivered - bytes).abs() < 1.0, "{} of {bytes}", done.delivered);
        for (flow, time) in flows.iter().zip(&done.times) {
            // Nobody is faster than a server's port.
            prop_assert!(us(*time) >= flow.bytes / 1250.0 - 1e-3);
        }
        let all = f64::from(planes) * 10.0 / 8.0 * 1e9 * 6.0;
        prop_assert!(done.on_circuits <= all * done.duration.as_s() + 1.0);
    }
}

#[test]
fn relays_leave_room_for_what_is_there_already() {
    let routes = Routes { relays: true, ..Routes::default() };
    let relayed = |flows: &[Flow]| {
        let done = run(&racks(3, 1, 1), routes, turns(3, 90.0), &mut traffic(flows));
        done.on_circuits - done.delivered
    };
    let day = 90.0 * 1250.0;
    // Racks 0 and 1 have more for 2 than their days carry, so that neither can go by the other but
    // with what is left in the end.
    let both = [flow(0, 2, 2e6, 0.0), flow(1, 2, 2e6, 0.0)];
    assert!(relayed(&both) <= 2.0 * day, "{}", relayed(&both));
    // One alone goes both ways, by the other in every second week: there what came in the last one
    // is still to go when the next could come.
    assert!(relayed(&both[..1]) > 0.6e6, "{}", relayed(&both[..1]));
    // Not where its own day to the rack between is full.
    let own = [flow(0, 2, 2e6, 0.0), flow(0, 1, 2e6, 0.0)];
    assert!(relayed(&own) <= 2.0 * day, "{}", relayed(&own));
}

#[test]
fn short_flows_go_before_those_that_wait_for_circuits() {
    let flows = [flow(0, 2, 1e7, 0.0), flow(1, 3, 125_000.0, 1000.0), flow(1, 3, 125e3, 1000.0)];
    let routes = Routes { hops_below_bytes: 1e6, ..Routes::default() };
    let ring = || Box::new(Still::ring(3, 1));
    let done = run(&racks(3, 2, 1), routes, ring(), &mut traffic(&flows[..2]));
    assert_eq!(us(done.times[1]), 100.0);
    // What waits gets what is left, and nothing while that is nothing.
    assert!((us(done.times[0]) - 10.0 - 8000.0 - 100.0).abs() < 1e-3, "{:?}", done.times);
    let done = run(&racks(3, 2, 1), routes, ring(), &mut traffic(&flows));
    assert_eq!(us(done.times[1]), 200.0);
    let flows = &flows[..2];
    let fair = run(&racks(3, 2, 1), Routes::default(), ring(), &mut traffic(flows));
    assert_eq!(us(fair.times[1]), 200.0);
}

#[test]
fn small_flows_take_the_packet_switch_beside() {
    let mut racks = racks(3, 1, 1);
    (racks.packet_gbps, racks.packet_below_bytes) = (5.0, 1e5);
    let flows = [flow(0, 2, 62_500.0, 0.0), flow(0, 2, 125_000.0, 500.0)];
    let done = run(&racks, Routes::default(), turns(3, 190.0), &mut traffic(&flows));
    assert_eq!(us(done.times[0]), 100.0);
    // Its day begins at 610 us.
    assert_eq!(us(done.times[1]), 210.0);
    assert_eq!(done.on_packets, 62_500.0);
}

/// Asks for circuits that cannot be.
struct Wrong(u8);

impl halfwink_policy::Policy for Wrong {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, _event: &Event) {
        self.0 = 3;
    }

    fn poll_action(&mut self) -> Option<Action> {
        let plane = 0;
        self.0 = self.0.checked_sub(1)?;
        Some(match self.0 {
            2 => Action::Join { plane, from: 0, to: 2 },
            1 => Action::Join { plane, from: 1, to: 2 },
            _ => Action::Day { plane, length: Time::ns(1000) },
        })
    }

    fn snapshot(&self) -> halfwink_policy::Snapshot {
        vec![]
    }
}

impl Circuits for Wrong {}

#[test]
fn schedule_with_two_senders_to_one_rack_is_refused() {
    let (racks, switch) = (racks(3, 1, 1), switch(3));
    let at_most = Time::NEVER;
    let setting =
        Setting { racks: &racks, switch: &switch, routes: Routes::default(), at_most, seed: 1 };
    let mut flows = traffic(&[flow(0, 1, 1.0, 0.0)]);
    flows.close();
    let error = play(&setting, Box::new(Wrong(0)), &flows, &RunControl::new()).unwrap_err();
    assert_eq!(error.to_string(), "plane 0, slot 0: rack 1 cannot send to 2 as well");
}

fn described(text: &str, racks: &Racks) -> Result<Traffic, String> {
    let workload: Workload = toml::from_str(text).map_err(|error| error.to_string())?;
    let duration = Time::ns(2_000_000_000);
    workload.traffic(racks, Amount { load: 0.2, duration, seed: 1 })
}

#[test]
fn open_arrivals_ask_for_their_load() {
    let racks = racks(10, 4, 1);
    let text = "kind = 'open'\nschema = 1\ntitle = ''\n[bytes]\nlaw = 'fixed'\nvalue = 20000.0";
    let made = described(text, &racks).unwrap();
    let asked = made.bytes() / (2e9 * BYTES_PER_NS * 40.0);
    assert!((asked / 0.2 - 1.0).abs() < 0.01, "{asked}");
    assert!(made.flows().iter().all(|flow| flow.from / 4 != flow.to / 4));
    let to_last = made.flows().iter().filter(|flow| flow.to == 39).count();
    let mean = made.flows().len() / 40;
    assert!(to_last.abs_diff(mean) < mean / 10, "{to_last} of {mean}");
}

#[test]
fn steps_of_a_job_follow_each_other() {
    let racks = racks(4, 1, 1);
    let text = "kind = 'job'\nschema = 1\ntitle = ''\niterations = 2\n\
        [[step]]\nwhat = 'all-gather'\nmb = 4.0\ntimes = 2\ncompute_ms = 1.0\n\
        [[step]]\nwhat = 'pipeline'\namong = 2\nmb = 0.125\n";
    let mut made = described(text, &racks).unwrap();
    let done = run(&racks, Routes::default(), packets(4), &mut made);
    // Three steps of 1 MB and a millisecond, twice; then 0.125 MB in 0.1 ms.
    let iteration = 2.0 * (3.0 * 800.0 + 1000.0) + 100.0;
    assert!((us(done.groups[0]) - iteration).abs() < 1e-3, "{:?}", done.groups);
    assert!((us(Some(done.duration)) - 2.0 * iteration).abs() < 1e-3, "{:?}", done.duration);
}

#[test]
fn impossible_descriptions_are_named() {
    let racks = racks(4, 2, 1);
    for (text, said) in [
        ("kind = 'pairs'\nschema = 2\ntitle = ''\nbytes = 1.0", "schema: found 2, expected 1"),
        ("kind = 'pairs'\nschema = 1\ntitle = ''\nbytes = 0.0", "bytes: found 0, expected 1 to"),
        (
            "kind = 'permutation'\nschema = 1\ntitle = ''\nbytes = 1.0\nshift = 8",
            "shift: found 8, a multiple of 4 racks",
        ),
        (
            "kind = 'job'\nschema = 1\ntitle = ''\niterations = 1\n[[step]]\nmb = 1.0",
            "step 1: mb without `what`",
        ),
        (
            "kind = 'job'\nschema = 1\ntitle = ''\niterations = 1\n\
             [[step]]\nwhat = 'pipeline'\nmb = 1.0\namong = 3",
            "step 1: among: found 3, expected a divisor of 8",
        ),
        ("kind = 'job'\nschema = 1\ntitle = ''\niterations = 0\nstep = []", "nothing to do"),
        ("kind = 'coflows'\nschema = 1", "unknown variant `coflows`"),
    ] {
        let error = described(text, &racks).unwrap_err();
        assert!(error.contains(said), "{error}");
    }
}
