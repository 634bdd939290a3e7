//! Services that nobody can record any more: the programs of Nellans 2014 as mixtures of run
//! lengths and streams of addresses, user and kernel told apart.
//!
//! ```text
//!  deck of invocations ──▶ user run │ entry │ kernel run │ user run ...
//!                                    each a walk over blocks of code, and for every access
//!                                    a stack, a private set, a sweep, shared or popular lines
//! ```
//!
//! The original ran in Simics on images that were never published. What is published of each
//! program, its run lengths (Table 5.1), the kernel's share of misses (Table 5.2) and its memory
//! (Table 5.3), a [`ServiceModel`] is calibrated to; anything else that it gives is its own. It is
//! not the program: there is no computation in it, its branches depend on nothing, and a line's
//! popularity does not change with time.

mod calls;
mod code;
mod data;
mod model;
mod programs;
mod random;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

pub use model::{Cause, Class, Regions, ServiceModel, Side, WorkingSet};
pub use programs::SERVICES;

use crate::error::TraceError;
use crate::event::Event;
use crate::format::WarmSet;
use crate::program::{Program, TemplateId};
use crate::slice::History;
use crate::source::{Address, Item, Source};
use calls::{user_run, Call, Calls, LONG};
use code::{Code, COPY, TAIL};
use data::Data;
use random::Random;

/// Lines of the caches as they were before the stream, at most: 8 MB, as in the shipped slices.
const WARM_LINES: usize = 131_072;
/// One invocation in so many long ones is interrupted, for so many instructions (assumption).
const INTERRUPTED: u64 = 64;
const INTERRUPT: u32 = 200;
/// The timer's vector in Linux on x86-64.
const TIMER: u8 = 0xec;
/// One block in so many of a long invocation is a turn of the copying loop, while there is
/// something to copy.
const COPY_TURN: u64 = 2;

/// Parameters of a generated service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Service {
    /// Model of the program.
    pub model: ServiceModel,
    /// Instructions (the last kernel invocation is completed).
    pub instructions: u64,
    /// Makes its random choices.
    pub seed: u64,
    /// Instructions before the stream, whose lines are in the caches at first.
    pub warm_up: u64,
}

impl Service {
    /// Instructions of warm-up, if nothing is said (Nellans 2014, Sec 4.5.3 and 5.1.2).
    pub const WARM_UP: u64 = 25_000_000;

    /// The stream, from its beginning and with nothing in the caches: no warm-up.
    #[must_use]
    pub fn source(&self) -> ServiceSource {
        ServiceSource::new(self)
    }

    /// The stream behind the warm-up, and the lines that it left.
    #[must_use]
    pub fn warm_source(&self) -> (ServiceSource, WarmSet) {
        let mut source = self.source();
        if self.warm_up == 0 {
            return (source, WarmSet::default());
        }
        let mut history = History::default();
        let program = Arc::clone(&source.code.program);
        // To the end of an invocation: the stream begins in user code.
        while source.done < self.warm_up || source.left > 0 || source.kernel != Some(true) {
            if let Item::Run(id) = source.step() {
                history.run(&program, program.template(id), &source.addresses);
            }
        }
        source.done = 0;
        (source, history.warm_set(WARM_LINES))
    }
}

/// Code that the streams share.
#[derive(Debug)]
struct Shared {
    program: Arc<Program>,
    functions: Vec<Range<u32>>,
    routines: Vec<Range<u32>>,
    tails: [[TemplateId; TAIL + 1]; 4],
    copy: TemplateId,
}

/// A place in the code: the next block, within a function or a path.
#[derive(Clone, Debug)]
struct Walk {
    path: Range<u32>,
    at: u32,
}

impl Walk {
    fn new(path: &Range<u32>) -> Walk {
        Walk { path: path.clone(), at: path.start }
    }
}

/// Generates the trace of a [`Service`].
#[derive(Clone, Debug)]
pub struct ServiceSource {
    spec: Service,
    code: Arc<Shared>,
    random: Random,
    calls: Calls,
    data: Data,
    /// The invocation that comes, or is.
    call: Call,
    /// Privilege of the code that runs, none at the start; `left` counts its instructions.
    kernel: Option<bool>,
    left: u32,
    /// Happens before the next block.
    event: Option<Event>,
    user: Walk,
    routine: Walk,
    /// Instructions of the copying loop to come in this invocation.
    to_copy: u32,
    /// Instructions left when an interrupt comes.
    interrupt_at: u32,
    done: u64,
    addresses: Vec<Address>,
}

impl ServiceSource {
    fn new(spec: &Service) -> ServiceSource {
        let code = Code::new(&spec.model);
        let mut random = Random::new(spec.seed);
        let mut calls = Calls::new(&spec.model);
        let data = Data::new(&spec.model, &code);
        let call = calls.draw(&mut random);
        let Code { program, functions, routines, tails, copy, .. } = code;
        let (user, routine) = (Walk::new(&functions[0]), Walk::new(&routines[0]));
        let code = Shared { program: Arc::new(program), functions, routines, tails, copy };
        ServiceSource {
            spec: *spec,
            code: Arc::new(code),
            random,
            calls,
            data,
            call,
            kernel: None,
            left: 0,
            event: None,
            user,
            routine,
            to_copy: 0,
            interrupt_at: 0,
            done: 0,
            addresses: Vec::new(),
        }
    }

    /// Switches from user code into the kernel, or back.
    fn turn(&mut self) {
        if self.kernel != Some(false) {
            if self.kernel.is_some() {
                self.call = self.calls.draw(&mut self.random);
            }
            self.kernel = Some(false);
            self.left = user_run(&self.spec.model, &mut self.random);
            return;
        }
        self.kernel = Some(true);
        let call = self.call;
        self.left = call.instructions;
        self.event = Some(call.cause.event(call.variant));
        self.routine = Walk::new(&self.code.routines[call.routine]);
        self.data.enter(call.routine, &mut self.random);
        let beyond = self.left.saturating_sub(LONG);
        self.to_copy = (f64::from(beyond) * self.spec.model.copy) as u32;
        let interrupted = beyond > 0 && self.random.below(INTERRUPTED) == 0;
        self.interrupt_at = if interrupted { self.left / 2 } else { 0 };
    }

    /// The next block of the run, or its end.
    fn block(&mut self, kernel: bool) -> TemplateId {
        if self.left as usize <= TAIL {
            let sysret = matches!(self.call.cause, Cause::Syscall(_));
            let ends = 2 * usize::from(kernel) + usize::from(sysret);
            return self.code.tails[ends][self.left as usize];
        }
        let side = if kernel { &self.spec.model.kernel } else { &self.spec.model.user };
        let walk = if kernel { &mut self.routine } else { &mut self.user };
        let block = TemplateId(walk.at);
        // Each execution is the block's last with probability 1/reuse.
        let ticket = (self.random.bits() >> 11) as f64 / (1u64 << 53) as f64;
        if ticket * side.reuse < 1.0 {
            walk.at += 1;
            if walk.at == walk.path.end {
                if kernel {
                    walk.at = walk.path.start;
                } else {
                    let functions = &self.code.functions;
                    let skew = self.spec.model.user_code_skew;
                    let n = self.random.skewed(functions.len() as u64, skew);
                    self.user = Walk::new(&functions[n as usize]);
                }
            }
        }
        block
    }

    /// The next item; there is always one.
    fn step(&mut self) -> Item {
        if self.left == 0 {
            self.turn();
        }
        if let Some(event) = self.event.take() {
            return Item::Event(event);
        }
        let kernel = self.kernel == Some(true);
        if self.left < self.interrupt_at {
            self.interrupt_at = 0;
            self.left += INTERRUPT;
            return Item::Event(Event::Interrupt { vector: TIMER });
        }
        self.addresses.clear();
        let copies = kernel
            && self.to_copy >= COPY
            && self.left > COPY + TAIL as u32
            && self.random.below(COPY_TURN) == 0;
        let template = if copies {
            self.to_copy -= COPY;
            self.data.copy(&mut self.addresses);
            self.code.copy
        } else {
            let template = self.block(kernel);
            for _ in 0..self.code.program.template(template).sites {
                self.addresses.push(self.data.access(kernel, &mut self.random));
            }
            template
        };
        let executed = u32::from(self.code.program.template(template).executed);
        self.left -= executed;
        self.done += u64::from(executed);
        Item::Run(template)
    }
}

impl Source for ServiceSource {
    fn program(&self) -> &Arc<Program> {
        &self.code.program
    }

    fn next_item(&mut self) -> Result<Item, TraceError> {
        let between = self.left == 0 && self.kernel != Some(false);
        if between && self.done >= self.spec.instructions {
            return Ok(Item::End);
        }
        Ok(self.step())
    }

    fn addresses(&self) -> &[Address] {
        &self.addresses
    }
}
