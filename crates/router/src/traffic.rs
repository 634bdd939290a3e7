//! Packets: when each arrives, and which flow it is of.

use halfwink_engine::draw::exponential;
use halfwink_engine::{stream, Stream};
use halfwink_techniques::router::Model;
use halfwink_techniques::router::{App, Evaluation};
use halfwink_units::Time;
use rand::RngExt;

use crate::ring::Packet;

/// Parts of a point of a profile, between which load changes in a line.
const PARTS: usize = 8;

/// Packets drawn at a time.
const AHEAD: usize = 256;

/// Packets that all ports receive.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Packets per second at load 1.
    pub full_pps: f64,
    /// Load over time.
    pub profile: Profile,
    /// Bytes of each frame.
    pub bytes: u32,
    /// Packets that follow each other on the wire of a port.
    pub train: u32,
    /// Distribution of gaps between trains.
    pub gap: Gap,
    /// Which flows packets are of.
    pub flows: Flows,
    /// Ports, each with a wire of its own.
    pub ports: u8,
    /// Time from one packet of a train to the next.
    pub spacing: Time,
    /// Flows at a time.
    pub flow_count: u32,
}

/// Silence between trains of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Evenly spread, from half to one and a half of the mean, so that ports drift past each other
    /// (assumption).
    Even,
    /// Random, as of many sources.
    Exponential,
}

/// Which flows packets are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flows {
    /// Each packet of any.
    Mixed,
    /// All packets of a train of one.
    Train,
}

/// Load against time: points of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Mean load of each point, 0 to 1.
    pub loads: Vec<f64>,
    /// Length of each point.
    pub point: Time,
    /// Loads at the beginning and the end of each point, with a straight line between them. If
    /// there are none, loads change between the middles of points.
    pub ends: Option<Vec<(f64, f64)>>,
}

impl Profile {
    /// One load for so long, in so many points.
    #[must_use]
    pub fn constant(load: f64, points: usize, point: Time) -> Profile {
        Profile::smooth(vec![load; points.max(1)], point)
    }

    /// Loads, with lines between them.
    #[must_use]
    pub fn smooth(loads: Vec<f64>, point: Time) -> Profile {
        Profile { loads, point, ends: None }
    }

    /// Loads that change at once.
    #[must_use]
    pub fn steps(loads: Vec<f64>, point: Time) -> Profile {
        let ends = loads.iter().map(|&load| (load, load)).collect();
        Profile { loads, point, ends: Some(ends) }
    }

    /// A straight line from one load to another in so much time, each held for `hold` before and
    /// after. Points are as long as `hold` or the line, whichever is shorter; what does not divide
    /// evenly becomes longer.
    #[must_use]
    pub fn ramp(from: f64, to: f64, span: Time, hold: Time) -> Profile {
        let point = span.min(hold).max(Time(1));
        let held = hold.0.div_ceil(point.0) as usize;
        let rising = span.0.div_ceil(point.0) as usize;
        let at = |n: usize| from + (to - from) * n as f64 / rising as f64;
        let mut ends = vec![(from, from); held];
        ends.extend((0..rising).map(|n| (at(n), at(n + 1))));
        ends.extend(vec![(to, to); held]);
        let loads = ends.iter().map(|(begin, end)| (begin + end) / 2.0).collect();
        Profile { loads, point, ends: Some(ends) }
    }

    /// The evaluation's: a sine, a random walk beside it, three spikes; scaled to the mean
    /// (assumption; Fig 4.15 prints no numbers).
    #[must_use]
    pub fn evaluation(e: &Evaluation, point: Time, seed: u64) -> Profile {
        let mut random = stream(seed, "profile");
        let (middle, swing) = ((e.low_load + e.high_load) / 2.0, (e.high_load - e.low_load) / 2.0);
        let count = e.points as usize;
        let mut walk = 0.0;
        let mut loads: Vec<f64> = Vec::with_capacity(count);
        for n in 0..count {
            walk = 0.7 * walk + e.walk * (random.random::<f64>() - 0.5);
            let turn = n as f64 / count as f64 * std::f64::consts::TAU;
            loads.push((middle - swing * turn.cos() + walk).clamp(0.02, e.spike_load));
        }
        let spikes: Vec<usize> = [5, 11, 17].iter().map(|n| n * count / 20).collect();
        let spike_sum = e.spike_load * spikes.len() as f64;
        for &n in &spikes {
            loads[n] = 0.0;
        }
        let rest = (e.mean_load * count as f64 - spike_sum) / loads.iter().sum::<f64>();
        for load in &mut loads {
            *load = (*load * rest.max(0.0)).min(e.spike_load);
        }
        for &n in &spikes {
            loads[n] = e.spike_load;
        }
        Profile::smooth(loads, point)
    }

    /// Length of all points.
    #[must_use]
    pub fn length(&self) -> Time {
        self.point * self.loads.len() as u64
    }

    /// Mean of all points.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.loads.iter().sum::<f64>() / self.loads.len() as f64
    }

    /// Loads of the parts of each point: a quarter of the way to its neighbours at both ends, so
    /// that the mean of a point stays near what it says.
    fn parts(&self) -> Vec<f64> {
        let middle = |part: usize| (part as f64 + 0.5) / PARTS as f64;
        if let Some(ends) = &self.ends {
            let line = |&(begin, end): &(f64, f64)| {
                (0..PARTS).map(move |part| begin + (end - begin) * middle(part))
            };
            return ends.iter().flat_map(line).collect();
        }
        let at = |n: usize| self.loads[n.min(self.loads.len() - 1)];
        let mut out = Vec::with_capacity(self.loads.len() * PARTS);
        for n in 0..self.loads.len() {
            let (before, here, after) = (at(n.saturating_sub(1)), at(n), at(n + 1));
            for part in 0..PARTS {
                let x = middle(part);
                let toward =
                    |other: f64, far: f64| here + (other - here) * (0.25 - far).max(0.0) * 2.0;
                out.push(if x < 0.5 { toward(before, x) } else { toward(after, 1.0 - x) });
            }
        }
        out
    }
}

impl Traffic {
    /// Draws all packets and does nothing with them: how many there are.
    #[must_use]
    pub fn count(&self, seed: u64) -> u64 {
        let mut arrivals = Arrivals::new(self, seed);
        (0..).find(|_| arrivals.next().at == u64::MAX).unwrap_or(0)
    }

    /// Packets of an application one by one, at random, from all ports: a load of 1 is what all
    /// cores at full speed forward.
    #[must_use]
    pub fn random(model: &Model, app: &App, profile: Profile) -> Traffic {
        Traffic {
            full_pps: model.rate_mpps(app, model.fastest()) * 1e6,
            profile,
            bytes: app.bytes,
            train: 1,
            gap: Gap::Exponential,
            flows: Flows::Mixed,
            ports: model.spec().nic.ports,
            spacing: Time::from_ns(model.wire_ns(app.bytes)),
            flow_count: model.spec().nic.flows,
        }
    }
}

/// A port that sends.
#[derive(Clone, Copy, Debug)]
struct Port {
    next: u64,
    left: u32,
    flow: u32,
}

/// Traffic as it comes, in the order of time.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    ports: Vec<Port>,
    /// Mean picoseconds from the start of a train to that of the next, for each part.
    cycles: Vec<f64>,
    part: u64,
    end: u64,
    spacing: u64,
    train: u32,
    gap: Gap,
    mixed: bool,
    flow_mask: u32,
    count: u32,
    random: Stream,
    /// Packets drawn ahead: nothing that a router does changes them.
    ahead: Vec<Packet>,
    taken: usize,
}

impl Arrivals {
    pub(crate) fn new(traffic: &Traffic, seed: u64) -> Arrivals {
        let per_port = traffic.full_pps / f64::from(traffic.ports) / f64::from(traffic.train);
        let cycle = |load: &f64| 1e12 / (per_port * load).max(1e-9);
        let mut arrivals = Arrivals {
            ports: Vec::new(),
            cycles: traffic.profile.parts().iter().map(cycle).collect(),
            part: (traffic.profile.point.0 / PARTS as u64).max(1),
            end: traffic.profile.length().0,
            spacing: traffic.spacing.0,
            train: traffic.train,
            gap: traffic.gap,
            mixed: traffic.flows == Flows::Mixed,
            flow_mask: traffic.flow_count.next_power_of_two() - 1,
            count: 0,
            random: stream(seed, "traffic"),
            ahead: Vec::with_capacity(AHEAD),
            taken: 0,
        };
        for n in 0..traffic.ports {
            // Ports are out of step with each other.
            let phase = (f64::from(n) + 0.5) / f64::from(traffic.ports);
            let first = (arrivals.cycles[0] * phase).min(1e18) as u64;
            let flow = arrivals.random.random::<u32>() & arrivals.flow_mask;
            arrivals.ports.push(Port { next: first, left: traffic.train, flow });
        }
        arrivals
    }

    /// The next packet; after the end of the profile, never.
    #[inline]
    pub(crate) fn next(&mut self) -> Packet {
        if self.taken == self.ahead.len() {
            self.draw();
        }
        let packet = self.ahead[self.taken];
        self.taken += 1;
        packet
    }

    /// Draws packets until there are enough, or none come any more.
    fn draw(&mut self) {
        self.ahead.clear();
        self.taken = 0;
        while self.ahead.len() < AHEAD {
            let (front, until) = self.front();
            let mut port = self.ports[front];
            // It sends on as long as no other port comes before it.
            loop {
                // The front port is at the end, so all are. Not a `None`: a run compares times, and
                // a packet that never comes needs no case of its own.
                if port.next >= self.end {
                    self.ports[front] = port;
                    self.ahead.push(Packet { at: u64::MAX, ..Packet::default() });
                    return;
                }
                let (at, flow, number) = (port.next, port.flow, self.count);
                self.ahead.push(Packet { at, flow, number });
                self.count = number.wrapping_add(1);
                if port.left > 1 {
                    port.left -= 1;
                    port.next = at + self.spacing;
                    if self.mixed {
                        port.flow = self.draw_flow();
                    }
                } else {
                    port.left = self.train;
                    port.next = at + self.spacing + self.silence(at);
                    port.flow = self.draw_flow();
                }
                if port.next >= until || self.ahead.len() == AHEAD {
                    break;
                }
            }
            self.ports[front] = port;
        }
    }

    /// The port that sends next, the first of those that would at the same time; and until when.
    fn front(&self) -> (usize, u64) {
        let (mut front, mut first, mut second) = (0, self.ports[0].next, u64::MAX);
        for (n, port) in self.ports.iter().enumerate().skip(1) {
            if port.next < first {
                (second, first, front) = (first, port.next, n);
            } else if port.next < second {
                second = port.next;
            }
        }
        (front, second)
    }

    fn draw_flow(&mut self) -> u32 {
        self.random.random::<u32>() & self.flow_mask
    }

    /// Draws the gap from the end of a train until the next.
    fn silence(&mut self, at: u64) -> u64 {
        let part = ((at / self.part) as usize).min(self.cycles.len() - 1);
        let mean = self.cycles[part] - self.spacing as f64 * f64::from(self.train);
        // More than the wire carries: trains follow each other, and the rest was never sent.
        if mean <= 0.0 {
            return 0;
        }
        let gap = match self.gap {
            Gap::Even => mean * (0.5 + self.random.random::<f64>()),
            Gap::Exponential => mean * exponential(&mut self.random),
        };
        gap.min(1e18) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(train: u32, load: f64) -> Traffic {
        Traffic {
            full_pps: 20e6,
            profile: Profile::constant(load, 10, Time::ns(1_000_000)),
            bytes: 64,
            train,
            gap: Gap::Exponential,
            flows: Flows::Train,
            ports: 4,
            spacing: Time(67_200),
            flow_count: 256,
        }
    }

    /// Fowler-Noll-Vo of these bits: golden values, so that no change of code changes a draw.
    fn digest(bits: impl Iterator<Item = u64>) -> u64 {
        bits.fold(0xcbf2_9ce4_8422_2325, |hash, bits| (hash ^ bits).wrapping_mul(0x100_0000_01b3))
    }

    #[test]
    fn packets_are_the_same_in_every_version() {
        let of = |gap| {
            let mut arrivals = Arrivals::new(&Traffic { gap, ..traffic(3, 0.4) }, 3);
            digest((0..2000).map(|_| arrivals.next()).map(|p| p.at ^ u64::from(p.flow) << 48))
        };
        assert_eq!(
            [of(Gap::Exponential), of(Gap::Even)],
            [17_781_723_431_605_278_762, 505_700_863_104_935_328]
        );
    }

    #[test]
    fn packets_come_in_order_at_the_rate() {
        for (train, load) in [(1, 0.3), (8, 0.3), (1, 1.0), (32, 0.7)] {
            let mut arrivals = Arrivals::new(&traffic(train, load), 3);
            let packets: Vec<Packet> =
                std::iter::from_fn(|| Some(arrivals.next()).filter(|p| p.at < u64::MAX)).collect();
            assert!(packets.windows(2).all(|w| w[0].at <= w[1].at));
            let expected = 20e6 * load * 10e-3;
            let off = packets.len() as f64 / expected - 1.0;
            assert!(off.abs() < 0.05, "{train} {load}: {off}");
        }
    }

    #[test]
    fn a_wire_carries_no_more_than_it_can() {
        let fast = Traffic { full_pps: 1e9, ..traffic(4, 1.0) };
        let mut arrivals = Arrivals::new(&fast, 1);
        let count =
            std::iter::from_fn(|| Some(arrivals.next()).filter(|p| p.at < u64::MAX)).count();
        let line = 4.0 * 10e-3 / 67.2e-9;
        assert!((count as f64 / line - 1.0).abs() < 0.001, "{count} {line}");
    }

    #[test]
    fn steps_and_ramps_are_where_they_should_be() {
        let ms = |ms: u64| Time::ns(1_000_000 * ms);
        let per_ms = |profile: Profile| -> Vec<usize> {
            let length = profile.length().0 / 1_000_000_000;
            let mut arrivals = Arrivals::new(&Traffic { profile, ..traffic(1, 1.0) }, 3);
            let mut counts = vec![0; length as usize];
            while let Some(at) = Some(arrivals.next().at).filter(|&at| at < u64::MAX) {
                counts[(at / 1_000_000_000) as usize] += 1;
            }
            counts
        };
        let near = |count: usize, load: f64| (count as f64 / 20e3 / load - 1.0).abs() < 0.04;
        let steps = per_ms(Profile::steps(vec![0.1, 0.9], ms(2)));
        let expected = [0.1, 0.1, 0.9, 0.9];
        assert!(steps.iter().zip(expected).all(|(&n, load)| near(n, load)), "{steps:?}");
        let ramp = per_ms(Profile::ramp(0.2, 0.8, ms(3), ms(1)));
        let expected = [0.2, 0.3, 0.5, 0.7, 0.8];
        assert!(ramp.iter().zip(expected).all(|(&n, load)| near(n, load)), "{ramp:?}");
        let short = Profile::ramp(0.0, 1.0, ms(2), ms(10));
        assert_eq!((short.point, short.loads.len(), short.loads[5]), (ms(2), 11, 0.5));
    }

    #[test]
    fn the_profile_has_the_mean_and_the_spikes() {
        let e = Evaluation {
            mean_load: 0.35,
            low_load: 0.1,
            high_load: 0.6,
            walk: 0.1,
            spike_load: 0.8,
            train: 1,
            points: 60,
            point_ms: 1.0,
            sample_ms: 1.0,
            statistics_s: 1.0,
        };
        let profile = Profile::evaluation(&e, Time::ns(1_000_000), 1);
        assert!((profile.mean() - 0.35).abs() < 1e-3, "{}", profile.mean());
        assert_eq!(profile.loads.iter().filter(|&&l| l == 0.8).count(), 3);
        assert!(profile.loads.iter().all(|&l| (0.0..=0.8).contains(&l)));
    }
}
