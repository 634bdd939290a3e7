//! Family `segregation` of halfwink, version 1 of the interface: a second level that user and
//! kernel share, and its registers. A fill reads them; the policy hears counters when it asks for
//! them. The timer never rings.
#![allow(dead_code)]

/// Properties of the cache, which come with the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// Number of ways of each set.
    pub ways: u64,
    /// The module's parameters, in the order in which it lists them.
    pub parameters: [f64; 16],
}

/// Counters since the last sample; pairs are of user and kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Instructions that were retired.
    pub instructions: [u64; 2],
    /// Reads of the cache.
    pub accesses: [u64; 2],
    /// Reads of it that missed.
    pub misses: [u64; 2],
    /// Cycles of the core's clock.
    pub cycles: u64,
}

/// Events of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The first event of every run.
    Start(Start),
    /// The time of the timer has come; never here.
    Timer,
    /// The run begins, before all samples.
    Begin { ways: u64 },
    /// The time asked for with `Action::SampleAfter` is over.
    Sample(Sample),
    /// Comes before a sample, to policies that list `utility`: hits that each side, user and
    /// kernel, would have had at a rank of recency in a cache of its own. 0 is the most recent
    /// line of a set. Ranks without hits are left out.
    Utility { rank: u64, hits: [u64; 2] },
}

/// Kinds of fills of the kernel that go to its side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Route {
    #[default]
    Both,
    Data,
    Instructions,
}

/// The part of the cache that belongs to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Split {
    /// Both sides compete for the whole cache.
    #[default]
    None,
    /// The kernel has this many ways of each set, from 1 to all but one.
    Ways(u64),
    /// One of two banks is the kernel's.
    Banks,
}

/// The registers of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rule {
    pub route: Route,
    pub split: Split,
    /// Rank of recency at which fills come in (user, kernel): 0 as the most recent.
    pub insertion: [u64; 2],
    /// Looks up the bank of a reference's side first, then the other; else both at once.
    pub serial: bool,
}

/// Times until the next sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span {
    Instructions(u64),
    Cycles(u64),
}

/// Actions that a policy can request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Sets the registers of the cache.
    Set(Rule),
    /// Wants a sample after so long, counted from the last one.
    SampleAfter(Span),
}

impl Event {
    /// Reads the event of this number.
    pub fn read(number: u64, field: &[u64; 12], parameters: [f64; 16]) -> Event {
        match number {
            0 => Event::Start(Start { ways: field[0], parameters }),
            1 => Event::Timer,
            2 => Event::Begin { ways: field[0] },
            3 => Event::Sample(Sample {
                instructions: [field[0], field[1]],
                accesses: [field[2], field[3]],
                misses: [field[4], field[5]],
                cycles: field[6],
            }),
            _ => Event::Utility { rank: field[0], hits: [field[1], field[2]] },
        }
    }
}

impl Action {
    /// Returns its number and its fields.
    pub fn words(self) -> [u64; 4] {
        match self {
            Action::Set(Rule { route, split, insertion: [user, kernel], serial }) => {
                let split = match split {
                    Split::None => 0,
                    Split::Ways(kernel) => kernel,
                    Split::Banks => 255,
                };
                [1, route as u64 + 256 * u64::from(serial), split, user + 256 * kernel]
            }
            Action::SampleAfter(Span::Instructions(count)) => [2, count, 0, 0],
            Action::SampleAfter(Span::Cycles(count)) => [2, count, 1, 0],
        }
    }
}
