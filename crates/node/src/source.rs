//! Work that comes: requests, and what the kernel wakes cores for beside them.

use std::collections::VecDeque;

use halfwink_arrivals::{Arrivals, Draw};
use halfwink_engine::draw::exponential_fast as exponential;
use halfwink_engine::{stream, Sampler, Stream};
use halfwink_techniques::node::machine::us;
use halfwink_techniques::node::Announce;
use halfwink_units::Time;
use rand::Rng;

/// A kind of work of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Request,
    Background,
    /// A request is announced.
    Announcement,
    /// A core gives up waiting for a request that was announced.
    GivesUp,
    /// Kernel code of a request comes to a core of the kernel.
    Visit,
    /// A request comes back from there.
    Return,
}

impl Kind {
    /// True for work that a request is made of.
    pub(crate) fn is_of_request(self) -> bool {
        matches!(self, Kind::Request | Kind::Visit | Kind::Return)
    }
}

/// A piece of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) at: Time,
    pub(crate) work: Time,
    /// Core that the network card's hash, or the kernel, names.
    pub(crate) core: u32,
    pub(crate) kind: Kind,
    /// True for a request that its core was told of.
    pub(crate) is_told: bool,
    /// Place of the request among those that its core has begun, for a part of one.
    pub(crate) place: u16,
    /// Number of the request, for draws that all compositions share.
    pub(crate) id: u64,
}

/// Draws all work in the order of time. Nothing here depends on a policy, so all compositions see
/// the same.
pub(crate) struct Source<'a> {
    draw: Draw,
    service: &'a Sampler,
    /// Picoseconds of a drawn microsecond.
    pace: f64,
    services: Stream,
    hashes: Stream,
    flows: u32,
    /// Cores that requests come to.
    serving: u32,
    /// All cores.
    cores: u32,
    number: u64,
    request: Option<Item>,
    background: Option<Background>,
    ahead: Option<Ahead>,
}

/// Requests that were drawn before their time, to be announced.
struct Ahead {
    lead: Time,
    /// Share of them that are not announced, since that is lost.
    lost: f64,
    drawn: VecDeque<Item>,
    /// The number of them that were announced, or will not be.
    told: usize,
    /// Announcements of requests that never come, for each request.
    stray: f64,
    patience: Time,
    /// Time of the announcement of the request that was drawn last.
    last: Time,
    /// Announcements of them that are due.
    strays: VecDeque<Item>,
    /// Ends of the waits for them.
    waits: VecDeque<Item>,
}

impl Ahead {
    fn new(announce: Announce) -> Ahead {
        Ahead {
            lead: us(announce.lead_us),
            lost: announce.lost,
            drawn: VecDeque::new(),
            told: 0,
            stray: announce.stray,
            patience: us(announce.patience_us),
            last: Time(1),
            strays: VecDeque::new(),
            waits: VecDeque::new(),
        }
    }

    fn draws(&mut self, request: Item, serving: u32) {
        // Not the draw of its wake-up, which has the same number.
        let of_its_own = mix(request.id + 1);
        let is_told = self.lost == 0.0 || rank(of_its_own) >= self.lost;
        self.drawn.push_back(Item { is_told, ..request });
        if self.stray > 0.0 {
            let announced = self.announcement(request);
            if rank(!of_its_own) < self.stray {
                // At any time since the last announcement: order is kept, and no request is near.
                let gap = announced.at.saturating_sub(self.last).0 as f64;
                let at = self.last + Time((gap * rank(mix(of_its_own))) as u64);
                let core = below(mix(!of_its_own), serving);
                self.strays.push_back(Item { at, core, ..announced });
            }
            self.last = self.last.max(announced.at);
        }
    }

    fn announcement(&self, of: Item) -> Item {
        // Cores begin to rest at 0, and are told nothing at once with that; a request of a log may
        // come then.
        let at = of.at.saturating_sub(self.lead).max(Time(1)).min(of.at);
        Item { at, work: Time::ZERO, kind: Kind::Announcement, ..of }
    }

    /// Takes what comes of requests that never do, if that is the next thing.
    fn take_stray(&mut self, next: Time) -> Option<Item> {
        let at = |items: &VecDeque<Item>| items.front().map_or(Time::NEVER, |item| item.at);
        let (stray, wait) = (at(&self.strays), at(&self.waits));
        if stray.min(wait) > next {
            return None;
        }
        if wait < stray {
            return self.waits.pop_front();
        }
        let taken = self.strays.pop_front()?;
        let at = taken.at + self.lead + self.patience;
        self.waits.push_back(Item { at, kind: Kind::GivesUp, ..taken });
        Some(taken)
    }

    /// Returns whether a request that is not drawn yet may be announced before the next one comes.
    fn may_be_next(&self) -> bool {
        let (Some(first), Some(last)) = (self.drawn.front(), self.drawn.back()) else {
            return true;
        };
        last.at.saturating_sub(self.lead) <= first.at
    }

    /// Returns the next announcement, leaving out requests that come without one.
    fn next(&mut self) -> Option<Item> {
        while self.drawn.get(self.told).is_some_and(|request| !request.is_told) {
            self.told += 1;
        }
        Some(self.announcement(*self.drawn.get(self.told)?))
    }
}

struct Background {
    random: Stream,
    gap_ps: f64,
    work_ps: f64,
    next: Item,
    number: u64,
}

/// Parts of a source that do not follow from the load.
pub(crate) struct Surroundings {
    /// Cores that requests come to: the first of all.
    pub(crate) serving: u32,
    pub(crate) cores: u32,
    pub(crate) flows: u32,
    pub(crate) background_per_s: f64,
    pub(crate) background_us: f64,
    /// Share of the drawn time that a request takes.
    pub(crate) pace: f64,
    /// How requests are announced, if they are.
    pub(crate) announce: Option<Announce>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(
        arrivals: &Arrivals,
        service: &'a Sampler,
        seed: u64,
        around: &Surroundings,
    ) -> Source<'a> {
        let rate = around.background_per_s * f64::from(around.cores);
        let background = (rate > 0.0)
            .then(|| Background::new(seed, 1e12 / rate, around.background_us * 1e6, around.cores));
        let mut source = Source {
            draw: arrivals.draw(seed, ""),
            service,
            pace: 1e6 * around.pace,
            services: stream(seed, "services"),
            hashes: stream(seed, "hashes"),
            flows: around.flows,
            serving: around.serving,
            cores: around.cores,
            number: 0,
            request: None,
            background,
            ahead: around.announce.map(Ahead::new),
        };
        source.request = source.draw_request();
        source
    }

    fn draw_request(&mut self) -> Option<Item> {
        let (at, _) = self.draw.next()?;
        let work = service_time(self.service, &mut self.services, self.pace);
        let drawn = self.hashes.next_u64();
        let flow = (self.flows > 0).then(|| below(drawn, self.flows));
        let (core, id) = (core_of(drawn, flow, self.serving), self.number);
        self.number += 1;
        Some(Item { at, work, core, kind: Kind::Request, is_told: false, place: 0, id })
    }

    /// Next piece of work; none once no request comes any more.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Item> {
        if self.ahead.is_some() {
            return self.next_announced();
        }
        let request = self.request?;
        if let Some(background) = &mut self.background {
            if background.next.at < request.at {
                return Some(background.take(self.cores));
            }
        }
        self.request = self.draw_request();
        Some(request)
    }

    /// Takes the next piece of work where requests are announced.
    fn next_announced(&mut self) -> Option<Item> {
        let mut announced = self.ahead.as_mut()?.next();
        while announced.is_none() && self.ahead.as_ref()?.may_be_next() {
            let Some(request) = self.request.take() else { break };
            self.ahead.as_mut()?.draws(request, self.serving);
            self.request = self.draw_request();
            announced = self.ahead.as_mut()?.next();
        }
        let ahead = self.ahead.as_mut()?;
        let request = *ahead.drawn.front()?;
        let next = announced.filter(|item| item.at <= request.at).unwrap_or(request);
        let until = self.background.as_ref().map_or(next.at, |one| one.next.at.min(next.at));
        if let Some(stray) = ahead.take_stray(until) {
            return Some(stray);
        }
        if let Some(background) = &mut self.background {
            if background.next.at < next.at {
                return Some(background.take(self.cores));
            }
        }
        if next.kind == Kind::Announcement {
            ahead.told += 1;
        } else {
            ahead.drawn.pop_front();
            debug_assert!(ahead.told > 0, "a request came before it was announced");
            ahead.told -= 1;
        }
        Some(next)
    }
}

impl Background {
    fn new(seed: u64, gap_ps: f64, work_ps: f64, cores: u32) -> Background {
        let (at, work, kind) = (Time::ZERO, Time::ZERO, Kind::Background);
        let next = Item { at, work, core: 0, kind, is_told: false, place: 0, id: 0 };
        let random = stream(seed, "background");
        let mut background = Background { random, gap_ps, work_ps, next, number: 0 };
        // The first one comes behind a gap, as all others do, and not at 0.
        background.take(cores);
        background
    }

    fn take(&mut self, cores: u32) -> Item {
        let taken = self.next;
        let gap = exponential(&mut self.random) * self.gap_ps;
        self.number += 1;
        self.next = Item {
            at: taken.at + Time(gap as u64),
            work: Time((exponential(&mut self.random) * self.work_ps) as u64),
            core: below(self.random.next_u64(), cores),
            kind: Kind::Background,
            is_told: false,
            place: 0,
            // Far from the numbers of requests.
            id: self.number | 1 << 63,
        };
        taken
    }
}

/// Draws the busy time of a request; `pace` is in picoseconds of a drawn microsecond.
#[inline]
pub(crate) fn service_time(service: &Sampler, random: &mut Stream, pace: f64) -> Time {
    Time((service.draw(random) * pace + 0.5) as u64)
}

/// Core that the network card's hash names. The same flow always comes to the same core.
#[inline]
pub(crate) fn core_of(drawn: u64, flow: Option<u32>, serving: u32) -> u32 {
    below(flow.map_or(drawn, |flow| mix(u64::from(flow) + 1)), serving)
}

/// An even number below `limit`, of the 64 bits of `drawn`.
#[inline]
fn below(drawn: u64, limit: u32) -> u32 {
    ((u128::from(drawn) * u128::from(limit)) >> 64) as u32
}

/// Mixes a number (the finalizer of `SplitMix64`: Steele, Lea, Flood 2014).
#[inline]
pub(crate) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// An even number in [0, 1) that is the same for the same piece of work in every composition.
#[inline]
pub(crate) fn rank(id: u64) -> f64 {
    let mixed = mix(id.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x632b_e59b_d9b4_e019));
    (mixed >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// The time between two that has this rank; it is asked for only if they differ.
#[inline]
pub(crate) fn between([low, high]: [Time; 2], rank: impl FnOnce() -> f64) -> Time {
    let span = (high - low).0;
    if span == 0 {
        low
    } else {
        low + Time((span as f64 * rank()) as u64)
    }
}

/// Draws so many pieces of work and does nothing with them, to tell the cost of drawing apart.
pub(crate) fn exhaust(source: &mut Source, until: Time) -> u64 {
    let mut count = 0;
    while let Some(item) = source.next().filter(|item| item.at < until) {
        std::hint::black_box(item);
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_of_ranks_is_one_half() {
        let mean = (0..100_000).map(rank).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.004, "{mean}");
    }

    #[test]
    fn flow_stays_on_its_core() {
        let service = Sampler::fixed(1.0);
        let around = Surroundings {
            serving: 8,
            cores: 8,
            flows: 3,
            background_per_s: 0.0,
            background_us: 1.0,
            pace: 1.0,
            announce: None,
        };
        let arrivals = Arrivals::Constant { rate: 1e6 };
        let mut source = Source::new(&arrivals, &service, 1, &around);
        let seen: std::collections::BTreeSet<u32> =
            (0..1000).filter_map(|_| source.next()).map(|item| item.core).collect();
        assert!(seen.len() <= 3, "{seen:?}");
    }
}
