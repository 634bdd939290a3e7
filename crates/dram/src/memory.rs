//! All channels, in picoseconds.

use halfwink_units::Time;

use crate::address::AddressMap;
use crate::channel::{Channel, Counts, Payer, Request, Sink};
use crate::spec::Spec;
use crate::timing::SpecError;

/// Receives the completions of reads.
pub trait Heard {
    /// A read was accepted at `at`; its data is there at `bound` at the earliest, and at `counted`
    /// if its bank serves requests one by one as they come, and the channel is free.
    fn accepted(&mut self, id: u64, at: Time, bound: Time, counted: Time);
    /// The data of a read is there at `at`.
    fn done(&mut self, id: u64, at: Time);
}

/// Memory with its controllers.
#[derive(Clone, Debug)]
pub struct Memory {
    map: AddressMap,
    channels: Vec<Channel>,
    clock: u64,
    /// Time from a read command to the end of its data.
    data: u64,
    /// Earliest time at which something happens.
    wake: Time,
}

/// Turns a channel's clocks into time.
struct InTime<'a, H> {
    heard: &'a mut H,
    clock: u64,
}

impl<H: Heard> Sink for InTime<'_, H> {
    fn accepted(&mut self, id: u64, at: u64, bound: u64, counted: u64) {
        let [at, bound, counted] = [at, bound, counted].map(|clocks| Time(clocks * self.clock));
        self.heard.accepted(id, at, bound, counted);
    }

    fn done(&mut self, id: u64, at: u64) {
        self.heard.done(id, Time(at * self.clock));
    }
}

impl Memory {
    /// Memory without requests.
    ///
    /// # Errors
    /// What is impossible in its description.
    pub fn new(spec: &Spec) -> Result<Memory, SpecError> {
        spec.check()?;
        let timing = &spec.device.timing;
        Ok(Memory {
            map: AddressMap::new(spec)?,
            channels: vec![Channel::new(spec); spec.channels],
            clock: spec.device.clock_ps,
            data: timing.t_cl + timing.burst,
            wake: Time::NEVER,
        })
    }

    /// Brings a request that reaches the controller at `at`; it is seen at the next clock edge,
    /// which is returned.
    pub fn push(&mut self, at: Time, id: u64, line: u64, write: bool, payer: Payer) -> Time {
        let place = self.map.place(line);
        // Rounded up: a controller sees inputs at its next edge, never at the one before.
        let edge = at.0.div_ceil(self.clock);
        let request = Request { id, line, bank: place.bank, row: place.row, write, payer };
        self.channels[place.channel].push(edge, request);
        let seen = Time(edge * self.clock);
        self.wake = self.wake.min(seen);
        seen
    }

    /// Decides all that happens as far as all requests that arrive before `known` were brought.
    #[inline]
    pub fn run(&mut self, known: Time, heard: &mut impl Heard) {
        // The first edge at or after `known` is not decided yet, so an edge at `wake` waits for
        // `known` to be beyond.
        if known > self.wake {
            self.run_channels(known, heard);
        }
    }

    fn run_channels(&mut self, known: Time, heard: &mut impl Heard) {
        let edge = known.0.div_ceil(self.clock);
        let mut wake = u64::MAX;
        for channel in &mut self.channels {
            channel.run(edge, &mut InTime { heard, clock: self.clock });
            wake = wake.min(channel.wake());
        }
        // `NEVER` in clocks stays never in time.
        self.wake = Time(wake.saturating_mul(self.clock));
    }

    /// After [`Memory::run`] with the same `known`: data of a read that was accepted and is not
    /// done cannot be there before this.
    #[must_use]
    pub fn earliest_data(&self, known: Time) -> Time {
        known.saturating_add(Time(self.data * self.clock))
    }

    /// Returns the counters of all channels up to now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.channels.iter().for_each(|channel| sum.add(&channel.counts()));
        sum
    }

    /// Sum over ranks of the time with a row open; complete after [`Memory::finish`].
    #[must_use]
    pub fn open_time(&self) -> Time {
        Time(self.counts().open_clocks * self.clock)
    }

    /// Ends the run at `end`, and counts the refreshes that were due although no request waited for
    /// them.
    pub fn finish(&mut self, end: Time) {
        let edge = end.0.div_ceil(self.clock);
        self.channels.iter_mut().for_each(|channel| channel.finish(edge));
    }
}
