//! Where threads run: those that are on their way from core to core, and those that wait for one.

use std::collections::VecDeque;

use halfwink_engine::{Class, EventQueue};
use halfwink_units::Time;

use crate::core::{Core, Message, Thread};
use crate::os_cores::{add_calls, os_core_of, Calls, Departure};

/// Something that the scheduler does with a core.
enum Event {
    /// It lost its thread.
    Free(usize),
    /// A thread comes.
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
    beside: Vec<Calls>,
}

impl Scheduler {
    /// For the first threads on their cores, and those that `wait` for theirs.
    pub(crate) fn new(
        users: usize,
        os_cores: usize,
        memories: usize,
        wait: Vec<Thread>,
    ) -> Scheduler {
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
            beside: vec![Calls::new(); threads],
        };
        for thread in wait {
            let (at, home) = (thread.left.0, thread.home(0));
            scheduler.send(at, Event::Arrives(home, Box::new(thread)));
        }
        scheduler
    }

    /// When the first event takes effect.
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
            Departure::Yields => self.send(at, Event::Arrives(core, Box::new(thread))),
            Departure::Ends => match thread.context.os {
                Some(mut os) if os.is_detached => {
                    os.ends(at, thread.front_end.kernel_instructions);
                    add_calls(&mut self.beside[number], &os.calls);
                }
                _ => self.ended[number] = Some(thread),
            },
        }
    }

    /// The first event takes effect.
    pub(crate) fn deliver(&mut self, cores: &mut [Core]) {
        let Some((at, event)) = self.events.pop() else { return };
        match event {
            Event::Free(core) => match self.queues[core].pop_front() {
                Some(thread) => cores[core].receive(at, Message::Thread(thread)),
                None => self.is_free[core] = true,
            },
            Event::Arrives(core, thread) => {
                if std::mem::take(&mut self.is_free[core]) {
                    cores[core].receive(at, Message::Thread(thread));
                } else {
                    self.queues[core].push_back(thread);
                }
            }
        }
    }

    /// An interrupt leaves its thread, which goes on at `home`, for an OS core.
    pub(crate) fn detaches(&mut self, home: usize, at: Time, interrupt: Thread) {
        let os_core = self.os_core_of(home);
        self.send(at, Event::Arrives(os_core, Box::new(interrupt)));
    }

    /// The core that runs kernel code for the threads of `home`.
    fn os_core_of(&self, home: usize) -> usize {
        self.users + os_core_of(home, self.os_cores)
    }

    /// The threads that ended, in their order.
    pub(crate) fn end(self) -> Vec<Thread> {
        let mut ended: Vec<Thread> = self.ended.into_iter().flatten().collect();
        for (thread, beside) in ended.iter_mut().zip(self.beside) {
            if let Some(os) = &mut thread.context.os {
                add_calls(&mut os.calls, &beside);
            }
        }
        ended
    }
}
