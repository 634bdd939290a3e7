//! Snapshots of what VPP's adaptive input decides in short scenarios.

use halfwink_policy::scaling::{
    Action, Event, Rest, Scaling, ScalingPolicy, VppAdaptive, VppAdaptiveParameters,
};
use halfwink_policy::{drive, replay, Host, Lines, Policy};
use halfwink_units::Time;

/// An empty poll takes 50 ns.
fn vpp() -> VppAdaptiveParameters {
    VppAdaptiveParameters::published(2, Time::ns(50))
}

/// A core and its queue, as simple as can be; a loop that takes packets lasts a microsecond.
struct Core {
    policy: ScalingPolicy,
    now: Time,
    /// How it rests, and since when.
    resting: Option<(Time, Rest)>,
    text: String,
}

impl Core {
    fn new(parameters: VppAdaptiveParameters) -> Core {
        let policy = Box::new(VppAdaptive::new(parameters));
        Core { policy, now: Time::ZERO, resting: None, text: String::new() }
    }

    /// So many loops in a row that take packets; then it finds none, and rests.
    fn burst(&mut self, loops: u32, taken: u32) -> &mut Core {
        for _ in 0..loops {
            self.policy.on_event(self.now, &Event::Poll { core: 0, taken, waiting: 0 });
            assert_eq!(self.policy.poll_action(), None);
            self.now += Time::ns(1_000);
        }
        self.rest()
    }

    fn rest(&mut self) -> &mut Core {
        self.policy.on_event(self.now, &Event::Poll { core: 0, taken: 0, waiting: 0 });
        self.policy.on_event(self.now, &Event::Empty { core: 0 });
        let Some(Action::Rest { rest, .. }) = self.policy.poll_action() else {
            panic!("no answer")
        };
        let how = match rest {
            Rest::Again { polls } => format!("polls {polls} times"),
            Rest::HaltFor { span, depth } => format!("{depth:?} for {} ms", span.as_ns() / 1e6),
            other => format!("{other:?}"),
        };
        self.text += &format!("{:>9.2} {how}\n", self.now.as_ns() / 1e3);
        self.resting = Some((self.now, rest));
        self
    }

    /// So many rests end without packets.
    fn quiet(&mut self, rests: u32) -> &mut Core {
        for _ in 0..rests {
            let (since, rest) = self.resting.expect("it rests");
            self.now = since + length(rest);
            self.rest();
        }
        self
    }

    /// So many nanoseconds pass, and rests end that end until then.
    fn after(&mut self, ns: u64) -> &mut Core {
        let until = self.now + Time::ns(ns);
        while self.resting.is_some_and(|(since, rest)| since + length(rest) <= until) {
            self.quiet(1);
        }
        self.now = until;
        self
    }
}

/// Until a rest ends by itself.
fn length(rest: Rest) -> Time {
    match rest {
        Rest::Again { polls } => Time::ns(50) * u64::from(polls),
        Rest::HaltFor { span, .. } => span,
        other => panic!("{other:?}"),
    }
}

#[test]
fn ten_packets_in_a_window_make_it_poll_and_five_make_it_wait() {
    // Windows of 4 loops: 0 to 3 take 12 packets, 4 finds none and waits, 5 takes one and knows of
    // the 12; 8 knows of the one, 9 lets the driver enable its interrupt.
    let mut core = Core::new(VppAdaptiveParameters { window: 4, ..vpp() });
    core.burst(4, 3).after(100).burst(1, 1).quiet(4);
    insta::assert_snapshot!(core.text, @r"
        4.00 C1 for 10 ms
        5.10 polls 2 times
        5.20 polls 1 times
        5.25 C1 for 10 ms
    10005.25 C1 for 10 ms
    20005.25 C1 for 10 ms
    ");
}

#[test]
fn by_published_thresholds_it_changes_every_128_loops() {
    // An interrupt is a loop that takes a packet and one that does not, so the 65th finds 64
    // packets in the window before it: enough to poll, until the next window begins.
    let mut core = Core::new(vpp());
    for _ in 0..66 {
        core.after(20_000).burst(1, 1);
    }
    core.quiet(4);
    let tail = core.text.lines().skip(62).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(tail, @r"
     1323.00 C1 for 10 ms
     1344.00 C1 for 10 ms
     1365.00 polls 127 times
     1371.35 polls 1 times
     1371.40 C1 for 10 ms
     1386.00 C1 for 10 ms
    11386.00 C1 for 10 ms
    21386.00 C1 for 10 ms
    31386.00 C1 for 10 ms
    41386.00 C1 for 10 ms
    ");
}

#[test]
fn polls_that_a_packet_cuts_short_are_counted_by_their_time() {
    // 20 polls in 1 us, one that takes the packet, one that finds no more: 126 - 22 are left.
    let mut core = Core::new(vpp());
    core.burst(128, 3).after(100).burst(1, 1).after(1_000).burst(1, 1);
    insta::assert_snapshot!(core.text, @r"
    128.00 C1 for 10 ms
    129.10 polls 126 times
    131.10 polls 104 times
    ");
}

#[test]
fn it_is_played_core_by_core_and_a_log_replays() {
    let noise = |n: u32| n.wrapping_mul(2_654_435_761) >> 27;
    let mut events = Vec::new();
    for n in 0..4_000_u32 {
        let at = Time::ns(u64::from(n) * 3_000);
        let (core, taken) = ((noise(n) % 2) as u8, noise(n + 7).saturating_sub(20));
        events.push((at, Event::Poll { core, taken, waiting: 0 }));
        if taken == 0 {
            events.push((at, Event::Empty { core }));
        }
    }
    let make = || VppAdaptive::new(vpp());
    assert!(make().is_apart() && make().hears_polls(0));
    let mut logged = Host::logged(make(), Lines::unbounded());
    let decisions = drive(&mut logged, &events, Time::NEVER);
    let log: Vec<_> = (1..).zip(logged.log_mut().take()).collect();
    assert_eq!(replay(&mut make(), log).expect("the same").actions, decisions.len() as u64);
    let polls = |d: &&halfwink_policy::Decision<Action>| {
        matches!(d.action, Action::Rest { rest: Rest::Again { .. }, .. })
    };
    let polling = decisions.iter().filter(polls).count();
    assert!(polling > 50 && polling + 50 < decisions.len(), "{polling} of {}", decisions.len());
}
