//! Snapshots of what the policies of others decide in short scenarios.

use halfwink_policy::scaling::{
    Action, Depth, Event, Grout, GroutParameters, GroutRss, GroutRssParameters, IdleParameters,
    IdleState, IdleStates, L3fwdPause, L3fwdPower, L3fwdPowerParameters, Menu, Metronome,
    MetronomeParameters, Nmap, NmapParameters, Rest, ScalingPolicy, Suricata, Teo,
};
use halfwink_policy::{drive, replay, Host, Lines, Policy};
use halfwink_units::Time;

/// A core and its queue, as simple as can be: what it is told, and what it does with the answers.
struct Core {
    policy: ScalingPolicy,
    now: Time,
    text: String,
    last: String,
    times: u32,
}

impl Core {
    fn new(mut policy: ScalingPolicy) -> Core {
        while policy.poll_action().is_some() {}
        Core { policy, now: Time::ZERO, text: String::new(), last: String::new(), times: 0 }
    }

    /// Tells, and writes down every answer with its time; the same ones again only count.
    fn tell(&mut self, event: Event) -> Option<Rest> {
        while let Some(at) = self.policy.next_timer().filter(|&at| at <= self.now) {
            self.policy.on_timer(at);
            self.take();
        }
        self.policy.on_event(self.now, &event);
        self.take()
    }

    fn take(&mut self) -> Option<Rest> {
        let mut rest = None;
        while let Some(action) = self.policy.poll_action() {
            if let Action::Rest { rest: asked, .. } = action {
                rest = Some(asked);
            }
            self.write(match action {
                Action::Rest { rest: Rest::HaltFor { span, depth }, .. } => {
                    format!("HaltFor {depth:?} until {:.1}", (self.now + span).as_ns() / 1e3)
                }
                Action::Rest { rest, .. } => format!("{rest:?}"),
                other => format!("{other:?}"),
            });
        }
        rest
    }

    fn write(&mut self, line: String) {
        let kind = line.split_once("entry").map_or(line.clone(), |(kind, _)| kind.to_owned());
        if kind == self.last {
            self.times += 1;
            return;
        }
        self.flush();
        self.last = kind;
        self.text += &format!("{:>8.1} {line}", self.now.as_ns() / 1e3);
        self.times = 1;
    }

    fn flush(&mut self) {
        if self.times > 1 {
            self.text += &format!(", {} times", self.times);
        }
        if self.times > 0 {
            self.text.push('\n');
        }
    }

    /// A pass that takes packets and leaves some, a microsecond long.
    fn packets(&mut self, taken: u32, waiting: u32) -> &mut Core {
        self.tell(Event::Poll { core: 0, taken, waiting });
        self.now += Time::ns(1_000);
        self
    }

    /// Passes that take none, until the policy has answered so often, as long as each answer says.
    fn nothing(&mut self, answers: u32) -> &mut Core {
        for _ in 0..answers {
            self.tell(Event::Poll { core: 0, taken: 0, waiting: 0 });
            let span = match self.tell(Event::Empty { core: 0 }).expect("an answer") {
                Rest::Again { polls } => Time::ns(50 * u64::from(polls)),
                Rest::Pause { span } | Rest::Sleep { span, .. } | Rest::HaltFor { span, .. } => {
                    span
                }
                Rest::Spin | Rest::Halt(_) | Rest::Nap(_) => Time::ns(1_000_000),
            };
            self.now += span;
        }
        self
    }

    /// A rest that a packet ends after so many microseconds, and its pass.
    fn after(&mut self, us: u64) -> &mut Core {
        self.tell(Event::Poll { core: 0, taken: 0, waiting: 0 });
        self.tell(Event::Empty { core: 0 });
        self.now += Time::ns(1_000 * us);
        self.packets(1, 0)
    }

    fn story(&mut self) -> String {
        self.flush();
        self.times = 0;
        std::mem::take(&mut self.text)
    }
}

fn grout() -> GroutParameters {
    GroutParameters {
        cores: 3,
        longest_us: GroutParameters::longest_us(64, 10_000),
        depth: Depth::C1,
    }
}

fn idle() -> IdleParameters {
    let state = |depth, exit, residency| IdleState {
        depth,
        exit: Time::ns(exit),
        residency: Time::ns(residency),
        polls: false,
    };
    IdleParameters {
        cores: 2,
        states: IdleStates::new(&[
            state(Depth::C1, 900, 1_800),
            state(Depth::C3, 60_000, 240_000),
            state(Depth::C6, 87_000, 348_000),
        ]),
        tick: Time::ns(4_000_000),
        timer: IdleParameters::NO_TIMER,
        wake: Time::ZERO,
    }
}

fn l3fwd() -> L3fwdPowerParameters {
    let period = Time::ns(1_000_000);
    L3fwdPowerParameters { cores: 2, steps: 5, burst: 8, period, depth: Depth::C1 }
}

#[test]
fn l3fwd_power_pauses_then_waits_for_an_interrupt() {
    let mut core = Core::new(Box::new(L3fwdPower::new(l3fwd())));
    core.packets(8, 0).nothing(292).packets(8, 0).nothing(2);
    insta::assert_snapshot!(core.story(), @r"
        1.0 Again { polls: 10 }
        1.5 Pause { span: 1 us }, 289 times
      290.5 HaltFor C1 until 10290.5
    10290.5 Wish { core: 0, step: 3 }
    10290.5 HaltFor C1 until 20290.5
    20291.5 Again { polls: 10 }
    20292.0 Pause { span: 1 us }
    ");
}

#[test]
fn l3fwd_power_goes_slower_by_periods_and_faster_by_queues() {
    let mut core = Core::new(Box::new(L3fwdPower::new(l3fwd())));
    // Bursts that are full keep the P-state; others do not.
    for _ in 0..1_500 {
        core.packets(8, 1);
    }
    for _ in 0..2_600 {
        core.packets(7, 0);
    }
    // 101 times over 64, and one over 96.
    for _ in 0..101 {
        core.packets(8, 65);
    }
    core.packets(8, 97);
    insta::assert_snapshot!(core.story(), @r"
    2000.0 Wish { core: 0, step: 3 }
    3000.0 Wish { core: 0, step: 2 }
    4000.0 Wish { core: 0, step: 1 }
    4200.0 Wish { core: 0, step: 2 }
    4201.0 Wish { core: 0, step: 4 }
    ");
}

#[test]
fn l3fwd_pause_waits_512_polls() {
    let mut core = Core::new(Box::new(L3fwdPause::new(2)));
    core.packets(1, 0).nothing(4).packets(1, 0).nothing(1);
    insta::assert_snapshot!(core.story(), @r"
     1.0 Again { polls: 512 }
    26.6 Pause { span: 1 us }, 3 times
    30.6 Again { polls: 512 }
    ");
}

#[test]
fn suricata_waits_ten_polls() {
    let mut core = Core::new(Box::new(Suricata::new(2, Depth::C1)));
    core.packets(1, 0).nothing(3).packets(1, 0).nothing(1);
    insta::assert_snapshot!(core.story(), @r"
         1.0 Again { polls: 10 }
         1.5 HaltFor C1 until 500001.5
    500001.5 HaltFor C1 until 1000001.5
    1000002.5 Again { polls: 10 }
    ");
}

#[test]
fn metronome_sleeps_shorter_as_its_queue_is_busier() {
    let vacation = Time::ns(10_000);
    let parameters = MetronomeParameters { cores: 1, threads: 1, vacation, depth: Depth::C1 };
    let mut one = Core::new(Box::new(Metronome::new(parameters)));
    one.nothing(2);
    insta::assert_snapshot!(one.story(), @r"
         0.0 Sleep { span: 10 us, depth: C1 }, 2 times
    ");
    let mut three =
        Core::new(Box::new(Metronome::new(MetronomeParameters { threads: 3, ..parameters })));
    three.nothing(2);
    for _ in 0..30 {
        three.packets(8, 8);
    }
    three.nothing(3);
    insta::assert_snapshot!(three.story(), @r"
      0.0 Sleep { span: 30 us, depth: C1 }, 2 times
     90.0 Sleep { span: 26.301369 us, depth: C1 }
    116.3 Sleep { span: 27.20992 us, depth: C1 }
    143.5 Sleep { span: 27.900323 us, depth: C1 }
    ");
}

#[test]
fn grout_sleeps_longer_each_time_up_to_its_ring() {
    assert_eq!(GroutParameters::longest_us(1_024, 10_000), 73);
    assert_eq!(GroutParameters::longest_us(4_096, 100), 0);
    let mut core = Core::new(Box::new(Grout::new(grout())));
    core.packets(1, 0).nothing(11).packets(1, 0).nothing(2);
    insta::assert_snapshot!(core.story(), @r"
      1.0 Again { polls: 255 }
     13.8 Sleep { span: 1 us, depth: C1 }
     14.8 Again { polls: 255 }
     27.5 Sleep { span: 2 us, depth: C1 }
     29.5 Again { polls: 255 }
     42.2 Sleep { span: 3 us, depth: C1 }
     45.2 Again { polls: 255 }
     58.0 Sleep { span: 4 us, depth: C1 }
     62.0 Again { polls: 255 }
     74.8 Sleep { span: 4 us, depth: C1 }
     78.8 Again { polls: 255 }, 2 times
    105.2 Sleep { span: 1 us, depth: C1 }
    ");
}

#[test]
fn grout_rss_widens_at_once_and_narrows_by_periods() {
    let parameters = GroutRssParameters {
        workers: grout(),
        burst: 8,
        period: Time::ns(1_000_000),
        park_after: Time::ns(100_000),
    };
    let mut core = Core::new(Box::new(GroutRss::new(parameters)));
    for _ in 0..6 {
        core.packets(8, 3);
    }
    core.packets(7, 0);
    core.nothing(400);
    let rests = |line: &&str| !line.contains("Again") && !line.contains("Sleep");
    let story: Vec<String> = core.story().lines().filter(rests).map(str::to_owned).collect();
    insta::assert_snapshot!(story.join("\n"), @r"
       3.0 Wake { core: 1 }
       3.0 Move { entry: 1, to: 1, in_order: false }, 64 times
       4.0 Wake { core: 2 }
       4.0 Move { entry: 2, to: 2, in_order: false }, 84 times
    1006.0 Move { entry: 2, to: 0, in_order: false }, 84 times
    1106.5 Park { core: 2 }
    2007.0 Move { entry: 1, to: 0, in_order: false }, 64 times
    2107.5 Park { core: 1 }
    ");
}

#[test]
fn nmap_goes_fast_when_polling_begins_and_back_by_utilisation() {
    let parameters = NmapParameters {
        cores: 2,
        steps: 11,
        network: 64,
        percent: 100,
        period: Time::ns(100_000),
        depth: Depth::C1,
    };
    let mut core = Core::new(Box::new(Nmap::new(parameters)));
    core.nothing(1);
    for _ in 0..10 {
        core.packets(8, 8);
    }
    // By polling only, so network mode lasts; then by interrupt, 20 % busy, so it does not.
    for _ in 0..150 {
        core.packets(8, 8);
    }
    for _ in 0..40 {
        core.after(4);
    }
    insta::assert_snapshot!(core.story(), @r"
       0.0 Nap(C1)
    1009.0 Wish { core: 0, step: 10 }
    1160.0 Nap(C1), 28 times
    1300.0 Wish { core: 0, step: 2 }
    1300.0 Nap(C1), 12 times
    ");
}

#[test]
fn governors_go_deep_until_they_learn_that_rests_are_short() {
    let story = |policy: ScalingPolicy| {
        let mut core = Core::new(policy);
        for _ in 0..12 {
            core.after(30);
        }
        for _ in 0..12 {
            core.after(1_000);
        }
        core.nothing(2);
        core.story()
    };
    insta::assert_snapshot!(story(Box::new(Menu::new(idle()))), @r"
        0.0 Halt(C6)
       31.0 HaltFor C1 until 4000.0, 15 times
     4376.0 HaltFor C1 until 8000.0, 4 times
     8380.0 HaltFor C6 until 12000.0, 4 times
    12384.0 HaltFor C6 until 16000.0
    16000.0 HaltFor C6 until 20000.0
    ");
    insta::assert_snapshot!(story(Box::new(Teo::new(idle()))), @r"
       0.0 Halt(C6)
      31.0 HaltFor C1 until 4000.0, 15 times
    4376.0 HaltFor C1 until 8000.0
    5377.0 Halt(C6), 9 times
    ");
}

#[test]
fn a_replayed_log_gives_the_same_actions() {
    let noise = |n: u32| n.wrapping_mul(2_654_435_761) >> 27;
    let mut events = Vec::new();
    for n in 0..4_000_u32 {
        let at = Time::ns(u64::from(n) * 3_000);
        let (core, waiting) = ((noise(n) % 2) as u8, noise(n + 7));
        let taken = waiting.min(8);
        events.push((at, Event::Poll { core, taken, waiting: waiting - taken }));
        if waiting == 0 {
            events.push((at, Event::Empty { core }));
        }
    }
    let make: [fn() -> ScalingPolicy; 3] = [
        || Box::new(L3fwdPower::new(l3fwd())),
        || Box::new(Menu::new(idle())),
        || Box::new(Teo::new(idle())),
    ];
    for make in make {
        let mut logged = Host::logged(make(), Lines::unbounded());
        let decisions = drive(&mut logged, &events, Time::NEVER);
        let log: Vec<_> = (1..).zip(logged.log_mut().take()).collect();
        let summary = replay(make(), log).expect("the same policy");
        assert_eq!(summary.actions, decisions.len() as u64);
        assert!(decisions.len() > 50, "{}", decisions.len());
    }
}
