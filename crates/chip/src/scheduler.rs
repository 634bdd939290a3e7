//! Where threads run: those that are on their way from core to core, and those that wait for one.

use std::collections::VecDeque;

use halfwink_engine::{Class, EventQueue};
use halfwink_units::Time;

use crate::core::{Core, Message, Thread};
use crate::faults::{Broken, FaultCounts, Silence};
use crate::machine::Machine;
use crate::os_cores::{add_calls, os_core_of, Calls, Departure};
use crate::threads::{Board, Waiting};

/// An event of the scheduler.
enum Event {
    /// A core lost its thread.
    Free(usize),
    /// A thread arrives at a core.
    Arrives(usize, Box<Thread>),
}

impl Event {
    /// At equal times a core is free before a thread comes; then threads of lower cores are first.
    fn class(&self) -> Class {
        // Cores are 128 at most, 64 of users and 64 for the kernel (`machine/check.rs`).
        debug_assert!(!matches!(self, Event::Free(core) if *core >= 128), "a core too many");
        match self {
            Event::Free(core) => Class(*core as u8),
            Event::Arrives(_, thread) => Class(128 | thread.number() as u8),
        }
    }
}

/// The operating systems' part in running a chip whose threads move.
pub(crate) struct Scheduler {
    users: usize,
    /// Among how many of the first cores lines are divided: as many as there are, or one if
    /// threads share a memory, so that any core may hold any line.
    pub(crate) memories: usize,
    os_cores: usize,
    events: EventQueue<Event>,
    queues: Vec<VecDeque<Box<Thread>>>,
    is_free: Vec<bool>,
    ended: Vec<Option<Thread>>,
    /// Interrupts that ran beside the thread of each core.
    beside: Vec<(Calls, FaultCounts)>,
    /// Threads and interrupts beside them that began, and that ended.
    begun: [u64; 2],
    /// Kernel instructions that those have played which ended.
    played: u64,
    /// Times at which each OS core takes no threads, if any, and the timeout of a wait for it.
    silences: Vec<Option<Box<Silence>>>,
    timeout: Time,
    /// Waits of threads of one program for each other.
    board: Option<Board<Box<Thread>>>,
}

impl Scheduler {
    /// Creates a scheduler for the first threads on their cores, and those that `wait` for theirs.
    pub(crate) fn new(
        machine: &Machine,
        users: usize,
        memories: usize,
        wait: Vec<Thread>,
        board: Option<Board<Box<Thread>>>,
    ) -> Scheduler {
        let (os_cores, faults) = (machine.os.cores, &machine.faults);
        let cores = users + os_cores;
        let threads = users + wait.len();
        let mut scheduler = Scheduler {
            users,
            memories,
            os_cores,
            events: EventQueue::new(),
            queues: (0..cores).map(|_| VecDeque::new()).collect(),
            is_free: (0..cores).map(|core| core >= users).collect(),
            ended: (0..threads).map(|_| None).collect(),
            beside: vec![<(Calls, FaultCounts)>::default(); threads],
            begun: [threads as u64, 0],
            played: 0,
            silences: (0..os_cores).map(|core| Silence::of(faults, core)).collect(),
            timeout: faults.os_timeout,
            board,
        };
        for thread in wait {
            let (at, home) = (thread.left.0, thread.home(0));
            scheduler.send(at, Event::Arrives(home, Box::new(thread)));
        }
        scheduler
    }

    /// Returns the time at which the first event takes effect.
    pub(crate) fn next_time(&self) -> Time {
        self.events.next_time().unwrap_or(Time::NEVER)
    }

    fn send(&mut self, at: Time, event: Event) {
        self.events.push(at, event.class(), event);
    }

    /// A thread has left `core`.
    pub(crate) fn departs(&mut self, core: usize, thread: Thread) {
        let (at, why) = thread.left;
        self.send(at, Event::Free(core));
        let (home, number) = (thread.home(core), thread.number());
        match why {
            // A guest goes home, and home is the only place to go.
            Departure::Crosses if core != home => {
                self.send(at, Event::Arrives(home, Box::new(thread)));
            }
            Departure::Crosses => {
                let os_core = self.os_core_of(home);
                self.send(at, Event::Arrives(os_core, Box::new(thread)));
            }
            // It wakes where it fell asleep, in the kernel still: only its return to user mode is a
            // reason to move.
            Departure::Sleeps(until) => {
                self.send(until, Event::Arrives(core, Box::new(thread)));
            }
            Departure::Waits(post) => {
                let thread = Box::new(thread);
                let board = self.board.as_mut();
                let goes_on = board.and_then(|board| board.wait(post, (at, core), thread));
                if let Some((at, thread)) = goes_on {
                    self.send(at, Event::Arrives(core, thread));
                }
            }
            Departure::Yields => self.send(at, Event::Arrives(core, Box::new(thread))),
            Departure::Ends => {
                self.release(at, |board| board.ends(number, at));
                self.begun[1] += 1;
                self.played += thread.front_end.kernel_instructions;
                match thread.context.os {
                    Some(mut os) if os.is_detached => {
                        os.ends(at, thread.front_end.kernel_instructions);
                        let (calls, faults) = &mut self.beside[number];
                        add_calls(calls, &os.calls);
                        faults.add(&os.faults);
                    }
                    _ => self.ended[number] = Some(thread),
                }
            }
        }
    }

    /// Lets threads go on whose wait is over at `at`.
    fn release(
        &mut self,
        at: Time,
        free: impl FnOnce(&mut Board<Box<Thread>>) -> Vec<Waiting<Box<Thread>>>,
    ) {
        for Waiting { left, core, thread, .. } in self.board.as_mut().map(free).unwrap_or_default()
        {
            self.send(at.max(left), Event::Arrives(core, thread));
        }
    }

    /// A thread has done what others wait for, at `at`.
    pub(crate) fn post(&mut self, post: u32, at: Time) {
        self.release(at, |board| board.post(post, at));
    }

    /// Decides whether the wait that a core's thread has come to is over: all have come as far.
    pub(crate) fn decide(&self, core: &mut Core) {
        let Some(board) = &self.board else { return };
        if let Some(turns) = core.common_mut().front_end.turns_mut() {
            if let Some((post, at)) = turns.asks() {
                turns.decide(board.is_done(post, at));
            }
        }
    }

    /// The first event takes effect.
    pub(crate) fn deliver(&mut self, cores: &mut [Core]) {
        let Some((at, event)) = self.events.pop() else { return };
        match event {
            Event::Free(core) => {
                if let Some(until) = self.silent_until(core, at) {
                    let queue = std::mem::take(&mut self.queues[core]);
                    queue.into_iter().for_each(|thread| self.wait(core, at, until, thread));
                }
                match self.queues[core].pop_front() {
                    Some(thread) => cores[core].receive(at, Message::Thread(thread)),
                    None => self.is_free[core] = true,
                }
            }
            Event::Arrives(core, thread) => {
                if let Some(until) = self.silent_until(core, at) {
                    self.wait(core, at, until, thread);
                } else if std::mem::take(&mut self.is_free[core]) {
                    cores[core].receive(at, Message::Thread(thread));
                } else {
                    self.queues[core].push_back(thread);
                }
            }
        }
    }

    /// Returns the time at which a core takes threads again, if it is one for the kernel that does
    /// not at `at`.
    fn silent_until(&mut self, core: usize, at: Time) -> Option<Time> {
        let os_core = core.checked_sub(self.users)?;
        self.silences[os_core].as_mut()?.until(at)
    }

    /// A thread that is not taken waits, and goes home if that takes too long.
    fn wait(&mut self, core: usize, at: Time, until: Time, mut thread: Box<Thread>) {
        let patience = at.saturating_add(self.timeout);
        let home = thread.home(core);
        let Some(os) = &mut thread.context.os else { return };
        os.faults.os_waits += 1;
        if until <= patience {
            self.send(until, Event::Arrives(core, thread));
        } else {
            os.times_out(until);
            self.send(patience, Event::Arrives(home, thread));
        }
    }

    /// An interrupt leaves its thread, which goes on at `home`, for an OS core.
    pub(crate) fn detaches(&mut self, home: usize, at: Time, interrupt: Thread) {
        self.begun[0] += 1;
        let os_core = self.os_core_of(home);
        self.send(at, Event::Arrives(os_core, Box::new(interrupt)));
    }

    /// The core that runs kernel code for the threads of `home`.
    fn os_core_of(&self, home: usize) -> usize {
        self.users + os_core_of(home, self.os_cores)
    }

    /// Checks that all threads that began have ended, and that `cores` retired all their kernel
    /// instructions.
    pub(crate) fn check(&self, cores: &[Core]) -> Result<(), Broken> {
        let retired = cores.iter().map(|core| core.common().front_end.work.instructions[1]).sum();
        match self.begun {
            [begun, ended] if begun != ended => Err(Broken::Unended(begun, ended)),
            _ if self.played != retired => Err(Broken::Unbalanced(self.played, retired)),
            _ => Ok(()),
        }
    }

    /// The threads that ended, in their order.
    pub(crate) fn end(self) -> Vec<Thread> {
        debug_assert!(
            self.board.as_ref().is_none_or(|board| board.is_empty()),
            "no thread waits when all that others do is done"
        );
        let mut ended: Vec<Thread> = self.ended.into_iter().flatten().collect();
        for (thread, (calls, faults)) in ended.iter_mut().zip(self.beside) {
            if let Some(os) = &mut thread.context.os {
                add_calls(&mut os.calls, &calls);
                os.faults.add(&faults);
            }
        }
        ended
    }
}
