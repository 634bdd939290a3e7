//! Cores that are set aside for the kernel: threads that go to them and come back (Mogul 2007, Sec
//! 3; Strong 2013, ch. 3; Nellans 2014, Sec 4.4).
//!
//! ```text
//!          enters the kernel: the offload policy decides
//!  core n ──── drains, switches ───▶ queue ──▶ OS core   kernel runs there, pulling lines over
//!    ▲                                            │      as it needs them (MESI)
//!    └──── queue ◀──── drains, switches ──────────┘ returns to user mode
//! ```
//!
//! A core without a thread is as one that the operating system has halted: a gating policy may
//! power it down. A thread that is halted leaves its core to others until it wakes.
//!
//! Assumptions: half of a switch is work of the core that is left, half of the core that is
//! entered, each at its own clock; queues are served in the order of arrival; a thread always goes
//! to the same OS core, and always comes back to the core that it began on.

mod entry;
mod thread;

use std::collections::VecDeque;

use halfwink_engine::{Class, EventQueue, RunControl};
use halfwink_units::Time;

pub use entry::kernel_entry;
pub use thread::{add_calls, Call, Calls};
pub(crate) use thread::{Crossed, OsThread};

use crate::chip::{Chip, ChipError, REPORT_EVERY};
use crate::core::{Core, Departure, Thread};
use crate::feed::memory_of;
use crate::uncore::{Held, Request, Want};

/// The OS core that a thread goes to.
pub(crate) fn os_core_of(home: usize, os_cores: usize) -> usize {
    home % os_cores
}

/// Something that happens to a core from outside.
enum Message {
    /// It lost its thread.
    Free(usize),
    /// A thread comes.
    Arrives(usize, Box<Thread>),
}

impl Message {
    /// At equal times a core is free before a thread comes; then threads of lower cores are first.
    fn class(&self) -> Class {
        match self {
            Message::Free(core) => Class(*core as u8),
            Message::Arrives(_, thread) => Class(128 | thread.number() as u8),
        }
    }
}

/// Threads on their way from core to core.
pub(crate) struct Traffic {
    pub(crate) users: usize,
    os_cores: usize,
    messages: EventQueue<Message>,
    queues: Vec<VecDeque<Thread>>,
    is_free: Vec<bool>,
    ended: Vec<Option<Thread>>,
    /// Interrupts that ran beside the thread of each core.
    beside: Vec<Calls>,
}

impl Traffic {
    /// For the first threads on their cores, and those that `wait` for theirs.
    pub(crate) fn new(users: usize, os_cores: usize, wait: Vec<Thread>) -> Traffic {
        let cores = users + os_cores;
        let threads = users + wait.len();
        let mut traffic = Traffic {
            users,
            os_cores,
            messages: EventQueue::new(),
            queues: (0..cores).map(|_| VecDeque::new()).collect(),
            is_free: (0..cores).map(|core| core >= users).collect(),
            ended: (0..threads).map(|_| None).collect(),
            beside: vec![Calls::new(); threads],
        };
        for thread in wait {
            let (at, home) = (thread.left.0, thread.home(0));
            traffic.send(at, Message::Arrives(home, Box::new(thread)));
        }
        traffic
    }

    fn next_time(&self) -> Time {
        self.messages.next_time().unwrap_or(Time::NEVER)
    }

    fn send(&mut self, at: Time, message: Message) {
        self.messages.push(at, message.class(), message);
    }

    /// A thread has left `core`.
    fn departs(&mut self, core: usize, thread: Thread) {
        let (at, why) = thread.left;
        self.send(at, Message::Free(core));
        let (home, number) = (thread.home(core), thread.number());
        match why {
            Departure::Crosses if core != home => {
                self.send(at, Message::Arrives(home, Box::new(thread)));
            }
            Departure::Crosses => {
                let os_core = self.os_core_of(home);
                self.send(at, Message::Arrives(os_core, Box::new(thread)));
            }
            Departure::Sleeps(until) => {
                self.send(until, Message::Arrives(core, Box::new(thread)));
            }
            Departure::Yields => self.send(at, Message::Arrives(core, Box::new(thread))),
            Departure::Ends => match thread.feed.os {
                Some(mut os) if os.is_detached => {
                    os.ends(at);
                    add_calls(&mut self.beside[number], &os.calls);
                }
                _ => self.ended[number] = Some(thread),
            },
        }
    }

    /// The first message takes effect.
    fn deliver(&mut self, cores: &mut [Core]) {
        let Some((at, message)) = self.messages.pop() else { return };
        match message {
            Message::Free(core) => match self.queues[core].pop_front() {
                Some(thread) => cores[core].take_over(thread, at),
                None => self.is_free[core] = true,
            },
            Message::Arrives(core, thread) => {
                if std::mem::take(&mut self.is_free[core]) {
                    cores[core].take_over(*thread, at);
                } else {
                    self.queues[core].push_back(*thread);
                }
            }
        }
    }

    fn os_core_of(&self, home: usize) -> usize {
        self.users + os_core_of(home, self.os_cores)
    }

    /// The threads that ended, in their order.
    pub(crate) fn end(self) -> Vec<Thread> {
        let mut ended: Vec<Thread> = self.ended.into_iter().flatten().collect();
        for (thread, beside) in ended.iter_mut().zip(self.beside) {
            if let Some(os) = &mut thread.feed.os {
                add_calls(&mut os.calls, &beside);
            }
        }
        ended
    }
}

/// How far the cores that run have come.
struct Front {
    /// The core that is furthest behind, and how far it has come.
    behind: Option<(usize, Time)>,
    /// How far the others have come at least.
    others: Time,
    /// The first access that any of the others could make.
    access: Time,
}

impl Front {
    fn of(cores: &[Core]) -> Front {
        let mut front = Front { behind: None, others: Time::NEVER, access: Time::NEVER };
        for (n, core) in cores.iter().enumerate() {
            let Some((local, access)) = core.progress() else { continue };
            let (passed, passed_access) = match front.behind {
                Some((_, least)) if least <= local => (local, access),
                Some((other, least)) => {
                    front.behind = Some((n, local));
                    (least, cores[other].progress().map_or(Time::NEVER, |(_, access)| access))
                }
                None => {
                    front.behind = Some((n, local));
                    continue;
                }
            };
            front.others = front.others.min(passed);
            front.access = front.access.min(passed_access);
        }
        front
    }

    /// How far all running cores have come that another core's request could surprise.
    fn without(&self, core: Option<usize>) -> Time {
        match self.behind {
            Some((n, local)) if Some(n) != core => local,
            _ => self.others,
        }
    }
}

impl Chip {
    /// As [`Chip::play`], with threads that move. What a core does can be noticed by another not
    /// only through the shared levels, but also through its caches: a request is served when all
    /// others have come as far, and none goes on beyond a request that could still be made.
    pub(crate) fn play_traffic(&mut self, control: &RunControl) -> Result<(), ChipError> {
        let mut turns = 0u32;
        loop {
            turns += 1;
            if turns.is_multiple_of(REPORT_EVERY) {
                control.report(self.instructions())?;
            }
            let traffic = self.traffic.as_mut().expect("there is traffic");
            let (message, request) = (traffic.next_time(), self.uncore.next_time());
            let front = Front::of(&self.cores);
            let reached = front.without(self.uncore.next_core());
            if request <= reached && request <= message && request != Time::NEVER {
                let (cores, users) = (&mut self.cores, traffic.users);
                if let Some(answer) = self.uncore.serve(|request| snoop(cores, users, request)) {
                    self.cores[answer.core].hear(answer);
                }
            } else if message < front.behind.map_or(Time::NEVER, |(_, local)| local) {
                traffic.deliver(&mut self.cores);
            } else if let Some((n, local)) = front.behind {
                let mut limit = message.saturating_add(self.shortest_access).min(front.access);
                if front.others != Time::NEVER {
                    limit = limit.min(request);
                }
                self.turn(n, limit.min(local.saturating_add(self.quantum)))?;
            } else {
                return Ok(());
            }
        }
    }

    /// Lets one core go on, and its thread leave.
    fn turn(&mut self, n: usize, limit: Time) -> Result<(), ChipError> {
        let core = &mut self.cores[n];
        core.advance(limit, &mut self.uncore)?;
        if let Some(error) = core.fail_of_source() {
            return Err(error.into());
        }
        let traffic = self.traffic.as_mut().expect("there is traffic");
        if let Some((at, thread)) = core.detached() {
            let os_core = traffic.os_core_of(n);
            traffic.send(at, Message::Arrives(os_core, Box::new(thread)));
        }
        if core.departure.is_some() {
            let thread = core.give_up();
            traffic.departs(n, thread);
        }
        Ok(())
    }
}

/// Looks for a line in the caches of the cores that its thread may have run on.
fn snoop(cores: &mut [Core], users: usize, request: &Request) -> Held {
    let read = request.want == Want::Read;
    let mut held = Held::No;
    for (n, core) in cores.iter_mut().enumerate() {
        let may_hold = n >= users || memory_of(request.line) % users == n;
        if may_hold && n != request.core {
            held = held.max(core.snoop(request.line, read));
        }
    }
    held
}
