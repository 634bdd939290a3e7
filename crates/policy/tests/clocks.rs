//! Live worlds' clocks that are set, there and back by up to an hour, against policies with timers:
//! each hears times in order, its timers ring and stop ringing, and each request is sent once.

use halfwink_policy::scaling::{
    Action as Move, Depth, Event as Look, Nmap, NmapParameters, PowerSave, PowerSaveParameters,
    Rest, ScalingPolicy,
};
use halfwink_policy::steering::{
    Action, DreamWeaver, DreamWeaverParameters, Event, Hal, HalParameters, KnightShift,
    KnightShiftParameters, OctopusMan, OctopusManParameters, Side, SleepTimer,
    SleepTimerParameters, SteeringPolicy,
};
use halfwink_policy::Host;
use halfwink_units::Time;

const SEEDS: u64 = 1000;
const HOUR: u64 = 3_600_000_000_000_000;

/// SplitMix64 (Steele 2014): enough for which step comes next.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }
}

/// A clock that somebody sets now and then; begins at two hours.
struct Clock {
    now: u64,
    latest: u64,
    back: u64,
}

impl Clock {
    fn new() -> Clock {
        Clock { now: 2 * HOUR, latest: 0, back: 0 }
    }

    fn read(&mut self, random: &mut Random) -> Time {
        self.now += random.below(3_000_000_000);
        if random.below(20) == 0 {
            self.now = self.now + random.below(2 * HOUR) - HOUR;
            // Not before it began: that is where a host's own time begins.
            self.now = self.now.max(HOUR);
        }
        self.back += u64::from(self.now < self.latest);
        self.latest = self.latest.max(self.now);
        Time(self.now)
    }
}

fn steerings() -> Vec<(&'static str, SteeringPolicy)> {
    let ms = |n: u64| Time::ns(1_000_000 * n);
    vec![
        ("sleep-timer", Box::new(SleepTimer::new(SleepTimerParameters::fixed(ms(1))))),
        ("dream-weaver", Box::new(DreamWeaver::new(DreamWeaverParameters::published(4, ms(5))))),
        ("hal", Box::new(Hal::new(HalParameters::published(1000, 4)))),
        ("knight-shift", Box::new(KnightShift::new(KnightShiftParameters::published(4, 4)))),
        ("octopus-man", Box::new(OctopusMan::new(OctopusManParameters::published(ms(100))))),
    ]
}

/// A proxy of two machines that do what they are asked to by the next event.
struct Proxy {
    run: String,
    heard: Time,
    next: Vec<Event>,
    at: [u64; 2],
    sent: u64,
}

impl Proxy {
    fn does(&mut self, time: Time, action: Action) {
        let (run, heard) = (&self.run, self.heard);
        assert!(time >= heard, "{run}: it heard {heard}, then {time}");
        self.heard = time;
        match action {
            Action::Send { side } => {
                self.sent += 1;
                self.at[side.index()] += 1;
            }
            Action::Wake { side } => self.next.push(Event::Awake { side }),
            Action::Sleep { side } => self.next.push(Event::Asleep { side }),
        }
    }
}

fn steer(name: &str, policy: SteeringPolicy, seed: u64) -> u64 {
    let (mut random, mut clock) = (Random(seed), Clock::new());
    let mut host = Host::new(policy);
    let run = format!("{name}, seed {seed}");
    let mut it = Proxy { run: run.clone(), heard: Time::ZERO, next: vec![], at: [0; 2], sent: 0 };
    host.start(|_, _| {});
    for _ in 0..60 {
        let now = clock.read(&mut random);
        it.sent = 0;
        let rang = host.ring(now, |time, action| it.does(time, action));
        let rang = rang.unwrap_or_else(|e| panic!("{run}: {e}"));
        assert!(rang < 1000, "{run}: {rang} rings at once");
        assert_eq!(it.sent, 0, "{run}: nobody had come");
        let side = [Side::Small, Side::Big][random.below(2) as usize];
        let event = match (it.next.pop(), random.below(2)) {
            (Some(done), _) => done,
            (None, 0) if it.at[side.index()] > 0 => {
                it.at[side.index()] -= 1;
                Event::Finish { side, latency: Time(random.below(HOUR)) }
            }
            _ => Event::Arrive,
        };
        host.deliver(now, &event, |time, action| it.does(time, action));
        assert_eq!(it.sent, u64::from(event == Event::Arrive), "{run}: {event:?}");
    }
    assert_eq!(host.steps_back() > 0, clock.back > 0, "{name}, seed {seed}");
    assert_eq!(host.now(), Time(clock.latest), "{name}, seed {seed}");
    clock.back
}

#[test]
fn a_clock_that_is_set_loses_no_request_and_no_timer() {
    let mut back = 0;
    for seed in 0..SEEDS {
        for (name, policy) in steerings() {
            back += steer(name, policy, seed);
        }
    }
    assert!(back > SEEDS, "{back} steps back: too few");
}

fn scalings() -> Vec<(&'static str, ScalingPolicy)> {
    let nmap = NmapParameters {
        cores: 4,
        steps: 14,
        network: 64,
        percent: 50,
        period: Time::ns(10_000_000),
        depth: Depth::C1,
    };
    vec![
        ("power-save", Box::new(PowerSave::new(PowerSaveParameters::published(4, 14)))),
        ("nmap", Box::new(Nmap::new(nmap))),
    ]
}

#[test]
fn cores_rest_when_they_ask_to_whatever_the_clock_does() {
    for seed in 0..SEEDS {
        for (name, policy) in scalings() {
            let (mut random, mut clock) = (Random(seed), Clock::new());
            let mut host = Host::new(policy);
            host.start(|_, _| {});
            for _ in 0..60 {
                let now = clock.read(&mut random);
                let rang = host.ring(now, |_, _| {});
                let rang = rang.unwrap_or_else(|e| panic!("{name}, seed {seed}: {e}"));
                assert!(rang < 1000, "{name}, seed {seed}: {rang} rings at once");
                let core = random.below(4) as u8;
                let waiting = random.below(100) as u32;
                host.deliver(now, &Look::Poll { core, taken: waiting.min(8), waiting }, |_, _| {});
                let mut rests = Vec::new();
                host.deliver(now, &Look::Empty { core }, |_, action| {
                    if let Move::Rest { core, rest } = action {
                        rests.push((core, rest));
                    }
                });
                let [(rests_core, rest)] = rests[..] else { panic!("{name}: {rests:?}") };
                assert_eq!(rests_core, core);
                if let Rest::HaltFor { span, .. } | Rest::Sleep { span, .. } = rest {
                    assert!(span <= Time(HOUR), "{name}, seed {seed}: rests for {span}");
                }
            }
            assert_eq!(host.now(), Time(clock.latest), "{name}, seed {seed}");
        }
    }
}
