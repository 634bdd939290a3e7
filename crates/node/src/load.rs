//! How requests come: at times of their own, or from clients that wait for their answers.

use std::sync::Arc;

use halfwink_arrivals::Arrivals;
use halfwink_engine::{stream, Law, Sampler, Stream};
use halfwink_units::Time;
use rand::Rng;

use crate::source::{core_of, service_time, Item, Kind};

/// Share of a run that is played before anything is counted.
const WARM_UP: f64 = 0.1;
/// Time that is played before, at least, where arrivals have no end: 25 ticks of a kernel. Menu
/// needs some ten to forget that it began with nothing; its p99 is four times too long until then.
const LEAST_WARM_UP_S: f64 = 0.1;
/// Most clients of a closed loop: each has a random stream of its own.
const MOST_CLIENTS: u32 = 1 << 20;

/// A load: requests at times of their own, or from clients that wait.
#[derive(Clone, Debug)]
pub enum Load {
    /// At times of their own, whether the server is ready or not.
    Open(Arrivals),
    /// Clients wait for each answer, so that a slow server is asked less.
    Closed(Clients),
}

/// Clients of a closed loop: each sends a request, waits for its answer, thinks, and repeats.
#[derive(Clone, Debug)]
pub struct Clients {
    /// Number of clients, each with one request under way at most.
    pub count: u32,
    /// Law of the time from an answer to the client's next request, in microseconds.
    pub think_us: Law,
}

impl Clients {
    fn check(&self) -> Result<Sampler, String> {
        if !(1..=MOST_CLIENTS).contains(&self.count) {
            return Err(format!("{} clients, expected 1 to {MOST_CLIENTS}", self.count));
        }
        Sampler::new(&self.think_us).map_err(|e| format!("think time: {e}"))
    }

    /// Requests a second that they would send to a server that takes `answer_s` for each: the most
    /// that any server is asked for (asymptotic bound: Denning and Buzen 1978).
    #[must_use]
    pub fn most_per_s(&self, answer_s: f64) -> f64 {
        let think_s = Sampler::new(&self.think_us).map_or(0.0, |law| law.mean() * 1e-6);
        f64::from(self.count) / (think_s + answer_s)
    }
}

impl Load {
    /// Checks it.
    ///
    /// # Errors
    /// The value found and the values allowed.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Load::Open(arrivals) => arrivals.check(),
            Load::Closed(clients) => clients.check().map(|_| ()),
        }
    }

    /// Requests a second that are asked for, if each is answered in `answer_s`.
    #[must_use]
    pub fn rate(&self, answer_s: f64) -> f64 {
        match self {
            Load::Open(arrivals) => arrivals.rate(),
            Load::Closed(clients) => clients.most_per_s(answer_s),
        }
    }

    /// Returns the time before anything is counted, and the time that is counted, in seconds. They
    /// are known before anything is played, so that they are the same for all policies.
    /// `most_per_s` is what a closed loop does at most.
    pub(crate) fn spans_s(
        &self,
        requests: u64,
        (most_per_s, shortest_s): (f64, f64),
    ) -> Result<(f64, f64), String> {
        let endless = |rate: f64| (requests as f64 / rate, LEAST_WARM_UP_S);
        let (length_s, least_s) = match self {
            Load::Open(Arrivals::Recorded { times, .. }) => {
                (times.last().map_or(0.0, |last| last.as_s()), 0.0)
            }
            Load::Open(Arrivals::Rates { step, per_s }) => (step.as_s() * per_s.len() as f64, 0.0),
            Load::Open(arrivals) => endless(arrivals.rate()),
            Load::Closed(_) => endless(most_per_s),
        };
        if !(shortest_s..1e6).contains(&length_s) {
            return Err(format!("a run of {length_s:.3} s, expected 1e-7 s to less than 1e6 s"));
        }
        if let Load::Open(Arrivals::Mmpp { stays_s: [first, second], .. }) = self {
            let both_s = first + second;
            let least = (both_s * self.rate(0.0)).ceil() + 1.0;
            if length_s < both_s {
                return Err(format!(
                    "a run of {length_s:.3} s, expected {both_s} s or more, so that both loads \
                     come: --set requests={least:.0}"
                ));
            }
        }
        Ok(((WARM_UP * length_s).max(least_s), (1.0 - WARM_UP) * length_s))
    }
}

/// Arrivals of one request that is never due: all that a source then draws is the kernel's work.
pub(crate) fn never() -> Arrivals {
    Arrivals::Recorded { times: Arc::new([Time::NEVER]), sizes: Arc::default() }
}

/// Clients that are being played.
pub(crate) struct Asking<'a> {
    think: Sampler,
    service: &'a Sampler,
    pace: f64,
    flows: u32,
    serving: u32,
    clients: Vec<Asker>,
    /// Time from a core's last work for a request to the answer.
    apart: Time,
}

/// A client, whose draws come from a stream of its own: its n-th request is the same under all
/// policies.
struct Asker {
    random: Stream,
    asked: u32,
}

impl<'a> Asking<'a> {
    pub(crate) fn new(
        clients: &Clients,
        (service, pace): (&'a Sampler, f64),
        (serving, apart): (u32, Time),
        (seed, flows): (u64, u32),
    ) -> Result<Asking<'a>, String> {
        let think = clients.check()?;
        let asker = |n| Asker { random: stream(seed, &format!("client{n}")), asked: 0 };
        let clients = (0..clients.count).map(asker).collect();
        Ok(Asking { think, service, pace, flows, serving, clients, apart })
    }

    /// The first request of each client. They begin somewhere in a think time, so that equal ones
    /// do not come all at once.
    pub(crate) fn first(&mut self) -> Vec<Item> {
        let count = self.clients.len();
        let begins = |n: usize| {
            let random = &mut self.clients[n].random;
            let into = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
            let think = self.think.draw(random);
            self.asks(n, Time::from_ns(1e3 * think * into))
        };
        (0..count).map(begins).collect()
    }

    /// The next request of a client whose request `id` is done.
    pub(crate) fn next(&mut self, id: u64, done: Time) -> Item {
        let n = (id % self.clients.len() as u64) as usize;
        let think = self.think.draw(&mut self.clients[n].random);
        self.asks(n, done + self.apart + Time::from_ns(1e3 * think))
    }

    fn asks(&mut self, n: usize, at: Time) -> Item {
        let count = self.clients.len() as u64;
        let client = &mut self.clients[n];
        let work = service_time(self.service, &mut client.random, self.pace);
        let drawn = client.random.next_u64();
        // With flows, a client keeps its connection.
        let flow = (self.flows > 0).then(|| n as u32 % self.flows);
        let core = core_of(drawn, flow, self.serving);
        let id = u64::from(client.asked) * count + n as u64;
        client.asked += 1;
        Item { at, work, core, kind: Kind::Request, is_told: false, place: 0, id }
    }
}
