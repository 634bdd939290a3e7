//! Threads, told by where they go on.

use std::collections::HashMap;

use halfwink_units::Asid;

/// Running and waiting threads of a CPU.
pub(super) struct Threads {
    all: Vec<Thread>,
    /// Number of an address space, from 1.
    spaces: HashMap<Asid, u64>,
    current: usize,
}

struct Thread {
    space: Asid,
    /// Address at which its user code resumes; none while that runs, or if it was never seen.
    left_at: Option<u64>,
    /// Sequence number of its last run.
    ran: u64,
}

impl Threads {
    pub(super) fn new() -> Threads {
        let first = Thread { space: Asid::default(), left_at: None, ran: 0 };
        Threads { all: vec![first], spaces: HashMap::from([(Asid::default(), 1)]), current: 0 }
    }

    /// Thread and process of what runs, from 1.
    pub(super) fn ids(&self) -> (u64, u64) {
        (self.current as u64 + 1, self.spaces[&self.all[self.current].space])
    }

    pub(super) fn count(&self) -> u64 {
        self.all.len() as u64
    }

    /// The kernel is entered from user code.
    pub(super) fn leave(&mut self, at: u64) {
        self.all[self.current].left_at = Some(at);
    }

    /// Page tables were switched: to the thread that last ran with them.
    pub(super) fn switch(&mut self, space: Asid) {
        // Before anything ran, the first one is told its own.
        if self.all.len() == 1 && self.all[0].ran == 0 && self.all[0].left_at.is_none() {
            self.all[0].space = space;
            self.spaces = HashMap::from([(space, 1)]);
        }
        if self.all[self.current].space != space {
            let of_space = (0..self.all.len()).filter(|n| self.all[*n].space == space);
            let last = of_space.max_by_key(|n| self.all[*n].ran);
            self.run(last, space);
        }
    }

    /// The kernel returns to user code at an address: of the thread that left there.
    pub(super) fn resume(&mut self, at: u64) {
        let thread = &self.all[self.current];
        let space = thread.space;
        if thread.left_at.is_some_and(|left| left != at) {
            let waiting = (0..self.all.len())
                .find(|n| self.all[*n].space == space && self.all[*n].left_at == Some(at));
            self.run(waiting, space);
        }
        let current = self.current;
        self.all[current].left_at = None;
        self.run(Some(current), space);
    }

    /// An existing thread or a new one.
    fn run(&mut self, thread: Option<usize>, space: Asid) {
        let number = self.spaces.len() as u64 + 1;
        self.spaces.entry(space).or_insert(number);
        self.current = thread.unwrap_or_else(|| {
            self.all.push(Thread { space, left_at: None, ran: 0 });
            self.all.len() - 1
        });
        let latest = self.all.iter().map(|t| t.ran).max().unwrap_or_default();
        self.all[self.current].ran = latest + 1;
    }
}
