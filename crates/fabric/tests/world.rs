//! Days by hand, and what holds for every run.

use halfwink_engine::RunControl;
use halfwink_fabric::world::{play, Run, Setting, Transport, WorldError};
use halfwink_fabric::{CircuitSwitch, Fabric, Hosts, Spec};
use halfwink_policy::circuits::host::Scheme;
use halfwink_policy::circuits::{
    Action, Choose, Circuits, CircuitsPolicy, Event, Needed, Still, Turns,
};
use halfwink_policy::{Policy, Snapshot};
use halfwink_units::Time;

const SCHEMES: [Scheme; 3] = [Scheme::Naive, Scheme::Aging, Scheme::Pacing];

fn mordia() -> Spec {
    toml::from_str(include_str!("../../../machines/fabric/mordia.toml")).unwrap()
}

fn us(us: f64) -> Time {
    Time::from_ns(1e3 * us)
}

/// Hosts to which nothing unforeseen happens, and nothing is drawn.
fn calm() -> (CircuitSwitch, Hosts) {
    let Spec { switch, hosts, .. } = mordia();
    let mut hosts = hosts.unwrap();
    (hosts.sync_us, hosts.first_packet_us) = ([1.0; 2], [1.0; 2]);
    (hosts.late_share, hosts.card.batch_share) = (0.0, 0.0);
    (hosts.stalls.long_share, hosts.stalls.short_share) = (0.0, 0.0);
    (switch, hosts)
}

fn run(
    (switch, hosts): &(CircuitSwitch, Hosts),
    scheme: Scheme,
    day_us: f64,
    policy: CircuitsPolicy,
) -> Result<Run, WorldError> {
    let duration = Time::ns(30_000_000);
    let (day, transport) = (us(day_us), Transport::Udp);
    let setting = Setting { switch, hosts, scheme, transport, duration, day, seed: 1 };
    play(&setting, policy, &RunControl::new())
}

fn in_turns(machine: &(CircuitSwitch, Hosts), scheme: Scheme, day_us: f64) -> Run {
    let turns = Turns::round_robin(machine.1.count, us(day_us));
    run(machine, scheme, day_us, Box::new(turns)).unwrap()
}

fn loss_pct(run: &Run) -> f64 {
    100.0 * run.counts.lost as f64 / run.counts.sent as f64
}

#[test]
fn a_day_by_hand() {
    let machine = calm();
    let run = in_turns(&machine, Scheme::Naive, 61.0);
    // 1 us until a host has heard, 1 us until the first packet is with the card, 23 us in two
    // cards, 7.2 us on the wire.
    assert_eq!(run.counts.first_arrival.mean(), Some(us(32.2)));
    assert_eq!(run.counts.first_arrival.max(), Some(us(32.2)));
    // 46,875 B of tokens are 5.2 packets; the sixth overdraws, and is handed over 5 us later.
    assert_eq!(run.counts.handed_over.max(), Some(us(7.0)));
    assert_eq!((run.counts.lost, run.counts.missed_days), (0, 0));
    assert_eq!(run.slots, 30_000_000_u64.div_ceil(72_500));
    assert_eq!(run.duration, us(72.5) * run.slots);
    assert_eq!(run.up, us(61.0) * run.slots);
    // Queues are empty in the first week or so; after that a day has six packets.
    let most = 6 * run.slots * 23;
    assert!(run.counts.sent <= most && run.counts.sent > most * 9 / 10, "{}", run.counts.sent);
}

#[test]
fn packets_that_stop_early_enough_all_pass() {
    // The last of 14 packets is sent by 2 + 14.5 + 14 x 7.2 = 117.3 us; 15 would take 124.5 us. The
    // first goes a microsecond after the host has heard: aging takes that off, 1250 B.
    let mut machine = calm();
    for (margin_us, lossless) in
        [(23.5, [true; 3]), (22.7, [true; 3]), (22.4, [false, true, true]), (21.5, [false; 3])]
    {
        machine.1.margin_us = margin_us;
        let found = SCHEMES.map(|scheme| in_turns(&machine, scheme, 123.5).counts.lost == 0);
        assert_eq!(found, lossless, "{margin_us}");
    }
}

#[test]
fn tokens_help_against_what_they_are_made_for() {
    let mut late = calm();
    late.1.late_share = 0.1;
    let [naive, aging, pacing] = SCHEMES.map(|scheme| loss_pct(&in_turns(&late, scheme, 123.5)));
    assert!(naive > 1.0 && aging == 0.0 && pacing == 0.0, "{naive} {aging} {pacing}");
    let mut rush = calm();
    rush.1.card.batch_share = 0.05;
    let [naive, aging, pacing] = SCHEMES.map(|scheme| loss_pct(&in_turns(&rush, scheme, 200.0)));
    assert!(naive > 5.0 && aging > 5.0 && pacing == 0.0, "{naive} {aging} {pacing}");
    // Days too short for 80 KB never meet the card's batch mode.
    assert_eq!(loss_pct(&in_turns(&rush, Scheme::Naive, 61.0)), 0.0);
}

#[test]
fn what_goes_in_comes_out_or_is_lost() {
    let spec = mordia();
    let machine = (spec.switch, spec.hosts.unwrap());
    for scheme in SCHEMES {
        for day_us in [61.0, 123.5, 300.0] {
            let run = in_turns(&machine, scheme, day_us);
            let delivered: u64 = run.delivered.iter().sum();
            assert_eq!(run.counts.sent, delivered + run.counts.lost);
            assert!((0..23).all(|host| run.delivered[host * 24] == 0), "nobody sends to itself");
            let gbps = delivered as f64 * 72e3 / run.duration.as_s() / 23.0 * 1e-9;
            assert!(gbps <= 10.0 * run.up.as_s() / run.duration.as_s());
            assert_eq!(run.gaps.total(), 2 * 23 * run.slots - 23);
        }
    }
}

#[test]
fn one_seed_is_one_run() {
    let spec = mordia();
    let machine = (spec.switch, spec.hosts.unwrap());
    let [a, b] = [1, 2].map(|_| in_turns(&machine, Scheme::Naive, 123.5));
    assert_eq!((a.delivered, a.counts.lost, a.gaps), (b.delivered, b.counts.lost, b.gaps));
}

#[test]
fn what_carries_packets_draws_its_power() {
    let run = in_turns(&calm(), Scheme::Pacing, 61.0);
    let joules = run.books.energy_where(|_| true).as_j();
    assert!((joules - 23.0 * 1.24 * run.duration.as_s()).abs() < 1e-9, "{joules}");
    let nights = run.books.named_rows().filter(|(_, state, ..)| state.0 == "night");
    assert!(nights.map(|(.., row)| row.time).all(|time| time == us(11.5) * run.slots));
}

#[test]
fn circuits_may_stay_or_follow_what_waits() {
    let machine = calm();
    let ring = run(&machine, Scheme::Aging, 100.0, Box::new(Still::ring(23, 1))).unwrap();
    assert_eq!(ring.slots, 1);
    let needed = Needed::new(23, Choose::Heaviest, us(100.0));
    let needed = run(&machine, Scheme::Aging, 100.0, Box::new(needed)).unwrap();
    let turns = in_turns(&machine, Scheme::Aging, 100.0);
    // All queues fill alike, so that there is nothing better than turns.
    let ratio = needed.counts.sent as f64 / turns.counts.sent as f64;
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}

/// Two senders for one receiver, and a day of no length.
struct Wrong(Vec<Action>);

impl Circuits for Wrong {}

impl Policy for Wrong {
    type Event = Event;
    type Action = Action;

    fn on_event(&mut self, _now: Time, _event: &Event) {}

    fn poll_action(&mut self) -> Option<Action> {
        self.0.pop()
    }

    fn snapshot(&self) -> Snapshot {
        vec![]
    }
}

#[test]
fn schedules_that_cannot_be_are_named() {
    let day = |length| Action::Day { plane: 0, length };
    let join = |from, to| Action::Join { plane: 0, from, to };
    let cases = [
        (vec![day(us(9.0)), join(1, 2), join(0, 2)], "host 1 cannot send to 2 as well"),
        (vec![day(us(9.0)), join(0, 3), join(0, 2)], "host 0 cannot send to 3 as well"),
        (vec![day(us(9.0)), join(0, 23)], "host 0 cannot send to 23 as well"),
        (vec![day(Time::ZERO)], "no day"),
        (vec![join(0, 1)], "no day"),
    ];
    for (actions, message) in cases {
        let error = run(&calm(), Scheme::Naive, 9.0, Box::new(Wrong(actions))).unwrap_err();
        assert_eq!(error.to_string(), format!("slot 0: {message}"));
    }
}

#[test]
fn impossible_hosts_are_named() {
    let check = |change: fn(&mut Hosts)| {
        let mut spec = mordia();
        change(spec.hosts.as_mut().unwrap());
        Fabric::new(spec).map_err(|error| error.to_string())
    };
    assert!(check(|_| ()).is_ok());
    let error = check(|hosts| hosts.count = 24).unwrap_err();
    assert_eq!(error, "hosts.count: found 24, expected 2 to 23, the usable ports");
    let error = check(|hosts| hosts.late_share = 1.5).unwrap_err();
    assert_eq!(error, "hosts.late_share: found 1.5, expected 0 to 1");
    let error = check(|hosts| hosts.card.batch_us = [9.0, 3.0]).unwrap_err();
    assert_eq!(error, "hosts.card.batch_us: found 3, expected 9 or more");
}
