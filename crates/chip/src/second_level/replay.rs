//! One second level, under one policy, over a recorded stream.

use halfwink_policy::segregation::{Action, Event, Replacement, Rule, SegregationPolicy};
use halfwink_units::{Cycle, Time, LINE_SHIFT, PAGE_SHIFT};

use super::SecondLevelStream;
use crate::cache::flag;
use crate::machine::Geometry;
use crate::ruled::{Counters, Found, Reference, RuledCache, Sampler};

/// Cycles that a reference stalls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// A look-up of the whole cache: 12 (Nellans 2014, Table 5.4).
    pub whole: Cycle,
    /// A look-up that is over with one bank, or with two at once: 9.
    pub bank: Cycle,
    /// Memory, beyond the look-up: 350, or 500.
    pub memory: Cycle,
}

/// Property by which references are divided into sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sides {
    /// Divides by their privilege.
    #[default]
    Privilege,
    /// The wrong way round.
    Swapped,
    /// Divides by a bit of the page number, regardless of privilege: the control that separates the
    /// effect of privilege from that of splitting.
    Page,
}

impl Sides {
    /// Returns the reference as the cache would see it.
    #[inline]
    fn of(self, reference: Reference) -> Reference {
        let kernel = match self {
            Sides::Privilege => reference.kernel,
            Sides::Swapped => !reference.kernel,
            Sides::Page => {
                let page = reference.line >> (PAGE_SHIFT - LINE_SHIFT);
                // The topmost bit of a product by 2^64 over the golden ratio depends on all of the
                // page number: neighbours do not simply alternate.
                page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1
            }
        };
        Reference { kernel, ..reference }
    }
}

/// Cache that a stream is played through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaySetup {
    /// Shape of the second level.
    pub geometry: Geometry,
    /// Which line of a set leaves.
    pub replacement: Replacement,
    /// Division of references into sides.
    pub sides: Sides,
    /// Whether monitors estimate each side's use of more ways.
    pub monitors: bool,
    /// Latencies that samples and epochs in cycles go by.
    pub latencies: Latencies,
    /// Write-backs of the first level are accesses, and bring lines in.
    pub write_backs: bool,
    /// Stores wait for their line, as loads do.
    pub stores_stall: bool,
}

/// A policy asked for what the cache cannot do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("segregation: {rule:?} in a cache of {ways} ways: {why}")]
pub struct ReplayError {
    /// Rule that was requested.
    pub rule: Rule,
    /// Number of ways of the cache.
    pub ways: usize,
    /// Reason why it is impossible.
    pub why: &'static str,
}

/// Parts of a run that are told apart: as many as an interval of a mean needs.
pub const PARTS: u64 = 32;

/// Cost of references that wait: look-ups by latency, and misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Instructions, each a cycle.
    pub instructions: u64,
    /// Look-ups with the latency of a bank.
    pub fast: u64,
    /// Look-ups with that of the whole cache.
    pub slow: u64,
    /// Misses that were waited for.
    pub misses: u64,
}

impl Cost {
    /// Returns the cost added since `before`.
    #[must_use]
    pub fn since(&self, before: &Cost) -> Cost {
        Cost {
            instructions: self.instructions - before.instructions,
            fast: self.fast - before.fast,
            slow: self.slow - before.slow,
            misses: self.misses - before.misses,
        }
    }

    /// Time with these latencies.
    #[must_use]
    pub fn cycles(&self, latencies: Latencies) -> Cycle {
        self.instructions
            + self.fast * latencies.bank
            + self.slow * latencies.whole
            + self.misses * latencies.memory
    }
}

/// Counters of a second level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Reads by privilege (user, kernel); write-backs are none.
    pub accesses: [u64; 2],
    /// Number of misses among these.
    pub misses: [u64; 2],
    /// Banks read, write-backs included if they count.
    pub bank_reads: u64,
    /// Hits in the bank that was asked first, and in the other.
    pub predicted: [u64; 2],
    /// Cost of the references in time.
    pub cost: Cost,
    /// Rules in the order of their time, from the beginning.
    pub rules: Vec<(Cycle, Rule)>,
    /// Cost up to the end of each of [`PARTS`] equal parts of the instructions, for intervals.
    pub parts: Vec<Cost>,
    /// Misses of each set, as the interleaved cache numbers them.
    pub misses_of_set: Vec<u32>,
}

struct Player<'a> {
    policy: SegregationPolicy,
    setup: &'a ReplaySetup,
    cache: RuledCache,
    found: Replayed,
    sampler: Sampler,
    /// Retired so far (user, kernel), and cycles.
    instructions: [u64; 2],
    cycles: Cycle,
    /// Instructions of a part.
    part: u64,
}

/// Plays a stream.
///
/// # Errors
/// If the policy asks for what the cache cannot do.
pub fn replay(
    stream: &SecondLevelStream,
    setup: &ReplaySetup,
    policy: SegregationPolicy,
) -> Result<Replayed, ReplayError> {
    let mut player = Player {
        policy,
        setup,
        cache: RuledCache::with_replacement(setup.geometry, setup.monitors, setup.replacement),
        found: Replayed {
            accesses: [0; 2],
            misses: [0; 2],
            bank_reads: 0,
            predicted: [0; 2],
            cost: Cost::default(),
            rules: Vec::new(),
            parts: Vec::with_capacity(PARTS as usize),
            misses_of_set: vec![0; setup.geometry.sets],
        },
        sampler: Sampler::new(0),
        instructions: [0; 2],
        cycles: 0,
        // With parts of no instruction, `retire` would add parts for ever.
        part: (stream.instructions[0] + stream.instructions[1]).div_ceil(PARTS).max(1),
    };
    // The policy begins first: its first rule decides where the warm lines go.
    player.tell(&Event::Begin { ways: setup.geometry.ways as u8 })?;
    for &reference in &stream.warm {
        let reference = setup.sides.of(reference);
        if player.cache.touch(reference, 0).flags.is_none() {
            player.cache.insert(reference, 0);
        }
    }
    // What monitors saw of the time before is no sample.
    player.cache.take_utility();
    for record in &stream.records {
        player.retire(record.retired)?;
        // Counts go by true privilege, however the references are divided: variants stay
        // comparable.
        let mode = usize::from(record.reference().kernel);
        let reference = setup.sides.of(record.reference());
        if record.is_write_back() {
            if setup.write_backs {
                let found = player.cache.touch(reference, flag::DIRTY);
                player.found.bank_reads += u64::from(found.banks);
                if found.flags.is_none() {
                    player.cache.insert(reference, flag::DIRTY);
                }
            }
            continue;
        }
        let found = player.cache.touch(reference, 0);
        if found.flags.is_none() {
            player.cache.insert(reference, 0);
            let set = reference.line as usize & (setup.geometry.sets - 1);
            player.found.misses_of_set[set] += 1;
        }
        player.count(mode, record.is_write(), found);
    }
    player.retire(stream.rest)?;
    // Parts are rounded up, so the last ones may end only with the stream, or behind it.
    player.found.parts.resize(PARTS as usize, player.found.cost);
    Ok(player.found)
}

impl Player<'_> {
    fn count(&mut self, mode: usize, write: bool, looked: Found) {
        let missed = u64::from(looked.flags.is_none());
        self.found.accesses[mode] += 1;
        self.found.misses[mode] += missed;
        self.found.bank_reads += u64::from(looked.banks);
        if let Some(right) = looked.predicted {
            self.found.predicted[usize::from(!right)] += 1;
        }
        if write && !self.setup.stores_stall {
            return;
        }
        let Latencies { whole, bank, memory } = self.setup.latencies;
        let cost = &mut self.found.cost;
        *(if looked.fast { &mut cost.fast } else { &mut cost.slow }) += 1;
        cost.misses += missed;
        self.cycles += if looked.fast { bank } else { whole } + missed * memory;
    }

    fn retire(&mut self, retired: [u32; 2]) -> Result<(), ReplayError> {
        for (sum, retired) in self.instructions.iter_mut().zip(retired) {
            *sum += u64::from(retired);
        }
        let retired = u64::from(retired[0]) + u64::from(retired[1]);
        // A part ends with the first reference behind its last instruction.
        while self.found.cost.instructions >= (self.found.parts.len() as u64 + 1) * self.part {
            self.found.parts.push(self.found.cost);
        }
        self.found.cost.instructions += retired;
        self.cycles += retired;
        if self.sampler.is_due(self.cycles, self.found.cost.instructions) {
            let counters = Counters {
                cycle: self.cycles,
                instructions: self.instructions,
                reads: self.found.accesses,
                misses: self.found.misses,
            };
            let sample = self.sampler.sample(counters, self.cache.take_utility());
            self.tell(&Event::Sample(sample))?;
        }
        Ok(())
    }

    fn tell(&mut self, event: &Event) -> Result<(), ReplayError> {
        // Policies of this family measure by samples alone: the clock is the core's.
        self.policy.on_event(Time(self.cycles), event);
        while let Some(action) = self.policy.poll_action() {
            match action {
                Action::Set(rule) => {
                    let ways = self.setup.geometry.ways;
                    self.cache.possible(&rule).map_err(|why| ReplayError { rule, ways, why })?;
                    self.cache.set(rule);
                    self.found.rules.push((self.cycles, rule));
                }
                Action::SampleAfter(span) => self.sampler.after(span),
            }
        }
        Ok(())
    }
}
