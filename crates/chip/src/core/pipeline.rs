//! What both kinds of pipelines have in common.
//!
//! A pipeline runs for as long as nothing from outside is needed, and then says why it stopped. It
//! never asks what time it is elsewhere: that is the core's business, which knows its inbox and its
//! power state. Two rules make a stop and a later start invisible in the results. A pipeline that
//! made a request stops before the cycle in which the answer could come. And whatever a cycle
//! changes is changed in that cycle, so that nothing depends on where a run was cut.

use halfwink_policy::offload::{Counts, Sample, Traits};
use halfwink_trace::Event;
use halfwink_units::{Asid, Cycle, Time};

use super::thread::{Thread, ThreadContext};
use crate::branch::{Guess, Predictor};
use crate::cpi_stack::{ActiveCycles, Reason};
use crate::front_end::FrontEnd;
use crate::machine::{CoreSpec, FetchSpec, Machine};
use crate::os_cores::{Crossed, Departure};
use crate::private::{Access, Private};
use crate::segregated::Segregated;
use crate::threads::{Turn, Turns};
use crate::uncore::{AnsweredBy, Level};
use crate::unit_gates::UnitGates;
use crate::uop::{Op, Uop, OPS};

/// Reason why a pipeline returns control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The pipeline has reached the cycle that it was to run to.
    Limit,
    /// The pipeline stands from this cycle on until the shared levels answer: only such waits can
    /// be slept through. Shorter ones, for the second level or a unit, stay inside the pipeline.
    Stalled(Stall),
    /// At this cycle the operating system halts the core, with nothing in flight.
    Halted { at: Cycle, from_ns: u64, to_ns: u64 },
    /// The thread leaves for another core, with nothing in flight.
    Left,
    /// At this cycle all work is done.
    Finished(Cycle),
}

/// A wait for the shared levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stall {
    pub(crate) since: Cycle,
    pub(crate) kernel: bool,
    pub(crate) on: StallOn,
}

/// Kind of access that the oldest work waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StallOn {
    Data,
    Fetch,
    Store,
    /// The translation of an address.
    Tlb,
}

impl StallOn {
    /// The reason to post, once it is known who answered.
    pub(crate) fn reason(self, by: AnsweredBy) -> Reason {
        match (self, by.level) {
            (StallOn::Data | StallOn::Fetch, _) if by.lost => Reason::Cold,
            (StallOn::Tlb, _) => Reason::Tlb,
            (StallOn::Fetch, _) => Reason::Fetch,
            (StallOn::Store, _) => Reason::Store,
            (StallOn::Data, Level::L3) => Reason::L3,
            (StallOn::Data, Level::Remote) => Reason::Remote,
            (StallOn::Data, Level::Memory) => Reason::Memory,
        }
    }
}

/// A request of the workload passed by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    pub(crate) at: Cycle,
    pub(crate) id: u64,
    /// Time in the recorded machine.
    pub(crate) recorded_ns: u64,
    pub(crate) begins: bool,
}

/// State of a core beside its kind of pipeline: the thread that it runs, caches, and accounts.
pub(crate) struct Common {
    pub(crate) spec: CoreSpec,
    pub(crate) fetch: FetchSpec,
    pub(crate) front_end: FrontEnd,
    /// Context of the thread whose front end this is.
    pub(crate) context: ThreadContext,
    pub(crate) private: Private,
    pub(crate) predictor: Predictor,
    pub(crate) active: ActiveCycles,
    /// Gates of its units, where these are gated by themselves.
    pub(crate) unit_gates: Option<Box<UnitGates>>,
    pub(super) latencies: [Cycle; OPS],
    /// Cycles until the front end turns at a branch that it did not know of.
    pub(crate) redirect: Cycle,
    pub(crate) marks: Vec<Mark>,
    /// Latencies of requests that were completed here since the last call.
    pub(crate) completed: Vec<Time>,
    /// Line that instructions are fetched from.
    pub(crate) fetch_line: u64,
    /// Writes and calls that other threads wait for, as they are done.
    pub(crate) posts: Vec<(Cycle, u32)>,
    /// Posts of stores whose line is on its way.
    owed_posts: Vec<(u64, u32)>,
    /// Counters at the last sample of a policy.
    sampled: Sampled,
}

/// Counters that [`halfwink_policy::offload::Sample`] is made of.
#[derive(Clone, Copy, Debug, Default)]
struct Sampled {
    instructions: [u64; 2],
    l2_accesses: u64,
    l2_misses: u64,
    user: Traits,
}

impl Common {
    pub(crate) fn new(
        machine: &Machine,
        core: usize,
        thread: Thread,
        hears_tokens: bool,
        segregated: Option<&Segregated<'_>>,
    ) -> Common {
        let mut private = Private::new(machine, core, hears_tokens, segregated);
        private.contends = thread.front_end.turns().is_some();
        Common {
            spec: machine.core,
            fetch: machine.fetch,
            front_end: thread.front_end,
            context: thread.context,
            private,
            predictor: Predictor::new(machine.branch),
            active: ActiveCycles::default(),
            unit_gates: None,
            latencies: latencies(&machine.core),
            redirect: machine.branch.btb.map_or(0, |btb| btb.redirect),
            marks: Vec::new(),
            completed: Vec::new(),
            fetch_line: u64::MAX,
            posts: Vec::new(),
            owed_posts: Vec::new(),
            sampled: Sampled::default(),
        }
    }

    /// The thread changes its privilege at cycle `now`: it stays or leaves, after so many cycles of
    /// deciding.
    pub(crate) fn cross(&mut self, now: Cycle) -> Crossed {
        let at = self.private.time_of(now);
        match self.front_end.turns_mut().and_then(|turns| turns.turn(at)) {
            None => {}
            Some(Turn::Asks) => {
                // Decided when all others have come as far.
                self.private.must_pause = true;
                return Crossed::Asks;
            }
            Some(Turn::GoesOn) => return Crossed::Stays(0),
            Some(Turn::Leaves) => return Crossed::Leaves,
        }
        // What happened in user mode is told with what the kernel did after it: a policy judges an
        // invocation by what it did to the user code around it, so one sample is one round trip.
        let sample = if self.front_end.enters_kernel() { Sample::default() } else { self.sample() };
        self.context.cross(&mut self.front_end, at, self.private.core, sample)
    }

    /// Returns the reason for which the thread leaves its core.
    pub(crate) fn reason_to_leave(&mut self) -> Departure {
        if let Some(post) = self.front_end.turns_mut().and_then(Turns::leaves) {
            return Departure::Waits(post);
        }
        self.context.os.as_mut().map_or(Departure::Crosses, |os| os.leaves())
    }

    /// Returns the counters of this core since the last sample.
    fn sample(&mut self) -> Sample {
        let (work, caches) = (&self.front_end.work, &self.private.counts);
        let new = Sampled {
            instructions: work.instructions,
            l2_accesses: caches.l2_accesses.iter().sum(),
            l2_misses: caches.l2_misses.iter().sum(),
            user: Traits {
                fp: self.front_end.units.fp[0],
                mispredicted: self.predictor.counts.mispredicted[0],
                l1d_misses: caches.l1d_misses[0],
            },
        };
        let old = std::mem::replace(&mut self.sampled, new);
        let accesses = new.l2_accesses - old.l2_accesses;
        let counts = Counts { accesses, hits: accesses - (new.l2_misses - old.l2_misses) };
        let instructions = [0, 1].map(|mode| new.instructions[mode] - old.instructions[mode]);
        // The other core's second level is told by a sample of that core, when the thread is there.
        let here = usize::from(!self.context.is_home(self.private.core));
        let mut l2 = [Counts::default(); 2];
        l2[here] = counts;
        let user = Traits {
            fp: new.user.fp - old.user.fp,
            mispredicted: new.user.mispredicted - old.user.mispredicted,
            l1d_misses: new.user.l1d_misses - old.user.l1d_misses,
        };
        Sample { instructions, l2, user }
    }

    /// A store that other threads may wait for has written the cache at cycle `now`: it is done
    /// when it has its line.
    #[cold]
    pub(crate) fn post(&mut self, post: u32, line: u64, access: Access, now: Cycle) {
        match access {
            Access::Hit => self.posts.push((now, post)),
            Access::At(cycle) => self.posts.push((cycle, post)),
            Access::Outstanding(_) => self.owed_posts.push((line, post)),
            Access::NoRegister => debug_assert!(false, "a store that has written has its register"),
        }
        // The thread that waits must find this core no further.
        self.private.must_pause = true;
    }

    /// A line has come at cycle `at`.
    #[inline]
    pub(crate) fn line_comes(&mut self, line: u64, at: Cycle) {
        if !self.owed_posts.is_empty() {
            let owed = self.owed_posts.extract_if(.., |(owed, _)| *owed == line);
            self.posts.extend(owed.map(|(_, post)| (at, post)));
            self.private.must_pause = true;
        }
    }

    /// Cycles from issue to result.
    #[inline]
    pub(crate) fn latency(&self, op: Op) -> Cycle {
        self.latencies[op as usize]
    }

    /// Returns the prediction of the branch in front, and whether it is taken. A branch that an
    /// interrupt hides counts as right: where it goes is not in the trace.
    #[inline(never)]
    pub(crate) fn branch(&mut self, uop: &Uop) -> (Guess, bool) {
        let Some(target) = self.front_end.next_pc() else { return (Guess::Right, true) };
        let run = self.front_end.run();
        let (pc, fall_through, kernel) =
            (run.pc.wrapping_add(u64::from(uop.offset)), run.fall_through, run.kernel);
        let guess = self.predictor.guess(uop.branch, pc, fall_through, target, kernel);
        (guess, target != fall_through)
    }

    /// Counts the requests that passed by.
    #[cold]
    pub(crate) fn count_requests(&mut self) {
        for mark in self.marks.drain(..) {
            // By the cycle of the mark, not of this call: how far the core ran since is its own.
            let now = self.private.time_of(mark.at);
            if mark.begins {
                self.context.begin_request(mark.id, mark.recorded_ns, now);
            } else {
                let latency = self.context.end_request(mark.id, mark.recorded_ns, now);
                self.completed.extend(latency);
            }
        }
    }

    /// The thread goes on with other page tables.
    fn switch_space(&mut self, asid: Asid) {
        let space = self.front_end.space.switched(asid);
        let is_other = std::mem::replace(&mut self.front_end.space, space) != space;
        if let (true, Some(translation)) = (is_other, &mut self.private.translation) {
            translation.switch_space();
        }
    }

    /// Notes a request or another address space that passes by; true for a request.
    pub(crate) fn mark(&mut self, event: &Event, at: Cycle) -> bool {
        let (id, recorded_ns, begins) = match *event {
            Event::RequestBegin { id, at_ns } => (id, at_ns, true),
            Event::RequestEnd { id, at_ns } => (id, at_ns, false),
            Event::AddressSpace(asid) => {
                self.switch_space(asid);
                return false;
            }
            Event::Syscall { .. } => {
                if let Some(post) = self.front_end.turns_mut().and_then(Turns::calls) {
                    self.posts.push((at, post));
                    self.private.must_pause = true;
                }
                return false;
            }
            _ => return false,
        };
        self.marks.push(Mark { at, id, recorded_ns, begins });
        true
    }
}

/// Cycles from issue to result, by [`Op`].
fn latencies(spec: &CoreSpec) -> [Cycle; OPS] {
    let latency = &spec.latency;
    let mut table = [latency.alu; OPS];
    for (op, cycles) in [
        (Op::Multiply, latency.multiply),
        (Op::Divide, latency.divide),
        (Op::Vector, latency.vector),
        (Op::FpAdd, latency.fp_add),
        (Op::FpMultiply, latency.fp_multiply),
        (Op::FpDivide, latency.fp_divide),
        (Op::Atomic, spec.atomic),
        (Op::System, spec.syscall),
        // Into the store queue, and out of it to a load: what the data cache takes is its own.
        (Op::Load, 1),
        (Op::Store, 1),
    ] {
        table[op as usize] = cycles;
    }
    table
}
