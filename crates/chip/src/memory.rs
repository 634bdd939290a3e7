//! Memory behind the third level: DRAM with controllers that reorder, or one that always takes the
//! same.

use halfwink_dram::{Counts, Heard, Memory, Payer};
use halfwink_units::Time;

use crate::agent::Agent;
use crate::machine::{MemoryKind, MemorySpec};
use crate::uncore::Answer;

/// Message to a core about a read of memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadNews {
    /// The controller has accepted it at `at`, promises no data at the core before `bound`, and
    /// expects it at `counted` by its banks' counters. The answer lacks its time.
    Accepted { answer: Answer, at: Time, bound: Time, counted: Time },
    /// The data is at the core at the answer's time, which the controller knows from `known` on.
    Done { answer: Answer, known: Time },
}

impl ReadNews {
    pub(crate) fn agent(&self) -> Agent {
        match self {
            ReadNews::Accepted { answer, .. } | ReadNews::Done { answer, .. } => answer.agent,
        }
    }
}

/// Reads that wait for memory, and what is heard of them.
#[derive(Debug, Default)]
struct Waiting {
    /// Answers that only lack their time, by the number that memory knows them by.
    answers: Vec<Answer>,
    /// Time at which the controller accepted each.
    accepted: Vec<Time>,
    free: Vec<u64>,
    /// Time from the command that reads a line to the end of its data.
    data: Time,
    /// Time from the controller to the core.
    response: Time,
    news: Vec<ReadNews>,
}

impl Waiting {
    fn add(&mut self, answer: Answer) -> u64 {
        match self.free.pop() {
            Some(id) => {
                self.answers[id as usize] = answer;
                id
            }
            None => {
                self.answers.push(answer);
                self.accepted.push(Time::ZERO);
                self.answers.len() as u64 - 1
            }
        }
    }
}

impl Heard for Waiting {
    fn accepted(&mut self, id: u64, at: Time, bound: Time, counted: Time) {
        self.accepted[id as usize] = at;
        let [bound, counted] = [bound, counted].map(|at_controller| at_controller + self.response);
        self.news.push(ReadNews::Accepted {
            answer: self.answers[id as usize],
            at,
            bound,
            counted,
        });
    }

    fn done(&mut self, id: u64, at: Time) {
        let answer = self.answers[id as usize];
        self.free.push(id);
        // A write queue that answers sooner than banks do knows it at once.
        let known = at.saturating_sub(self.data).max(self.accepted[id as usize]);
        let answer = Answer { at: at + self.response, ..answer };
        self.news.push(ReadNews::Done { answer, known });
    }
}

#[derive(Debug)]
enum Model {
    Dram(Memory),
    Uniform { latency: Time, counts: Box<Counts> },
}

/// Memory, and the way to it and back.
#[derive(Debug)]
pub(crate) struct MainMemory {
    model: Model,
    waiting: Waiting,
    request: Time,
    undecided: Undecided,
}

/// Bounds on the memory's open decisions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undecided {
    /// No command of it is given before this.
    pub(crate) command: Time,
    /// Data of a read that was accepted is at no core before this.
    pub(crate) data: Time,
}

impl MainMemory {
    pub(crate) fn new(spec: &MemorySpec) -> MainMemory {
        let model = match &spec.kind {
            // A machine that exists was found possible.
            MemoryKind::Dram(spec) => Model::Dram(Memory::new(spec).expect("a checked machine")),
            MemoryKind::Uniform { latency, .. } => {
                Model::Uniform { latency: *latency, counts: Box::default() }
            }
        };
        let data = match &model {
            Model::Dram(memory) => memory.earliest_data(Time::ZERO),
            Model::Uniform { latency, .. } => *latency,
        };
        let waiting = Waiting { response: spec.response, data, ..Waiting::default() };
        MainMemory { model, waiting, request: spec.request, undecided: Undecided::default() }
    }

    /// A line is wanted, by a look-up of the third level that ended at `looked_up`: when the
    /// controller sees the request. The answer lacks only its time.
    pub(crate) fn read(&mut self, answer: Answer, payer: Payer, looked_up: Time) -> Time {
        let at = looked_up + self.request;
        let id = self.waiting.add(answer);
        match &mut self.model {
            Model::Dram(memory) => memory.push(at, id, answer.line, false, payer),
            Model::Uniform { latency, counts } => {
                let done = at + *latency;
                counts.add(&Counts::of_uniform(payer, false));
                self.waiting.accepted(id, at, done, done);
                self.waiting.done(id, done);
                at
            }
        }
    }

    /// Returns the time from a look-up of the third level until the controller receives its
    /// request.
    pub(crate) fn way(&self) -> Time {
        self.request
    }

    /// Writes a line back, without an answer.
    pub(crate) fn write(&mut self, line: u64, payer: Payer, looked_up: Time) {
        let at = looked_up + self.request;
        match &mut self.model {
            Model::Dram(memory) => {
                memory.push(at, u64::MAX, line, true, payer);
            }
            Model::Uniform { counts, .. } => {
                counts.add(&Counts::of_uniform(payer, true));
            }
        }
    }

    /// Decides all before `until` that no request can change whose look-up ends at `looked_up` or
    /// later.
    #[inline]
    pub(crate) fn run(&mut self, looked_up: Time, until: Time) {
        if let Model::Dram(memory) = &mut self.model {
            let known = looked_up.saturating_add(self.request).min(until);
            memory.run(known, &mut self.waiting);
            let data = memory.earliest_data(known).saturating_add(self.waiting.response);
            self.undecided = Undecided { command: known, data };
        }
    }

    /// Returns the bounds on its open decisions.
    #[inline]
    pub(crate) fn undecided(&self) -> Undecided {
        self.undecided
    }

    /// Tells what was heard since it was last asked.
    #[inline]
    pub(crate) fn tell(&mut self, mut hears: impl FnMut(ReadNews)) {
        for news in &self.waiting.news {
            hears(*news);
        }
        self.waiting.news.clear();
    }

    /// Returns the counters up to now.
    pub(crate) fn counts(&self) -> Counts {
        match &self.model {
            Model::Dram(memory) => memory.counts(),
            Model::Uniform { counts, .. } => **counts,
        }
    }

    /// Sum over ranks of the time with a row open; complete after [`MainMemory::finish`].
    pub(crate) fn open_time(&self) -> Time {
        match &self.model {
            Model::Dram(memory) => memory.open_time(),
            Model::Uniform { .. } => Time::ZERO,
        }
    }

    /// The run is over at `end`.
    pub(crate) fn finish(&mut self, end: Time) {
        // Writes that are due go on after the last core; the others are told as waiting.
        self.run(Time::NEVER, Time::NEVER);
        if let Model::Dram(memory) = &mut self.model {
            memory.finish(end);
        }
    }
}
