//! What each thread of a recording waits for, from the order in which it was recorded.

use std::collections::HashMap;
use std::sync::Arc;

use halfwink_trace::{Event, Item, Program, Source, TemplateId, TraceError};

use super::order::{Thread, Threads};
use super::words::Words;

/// Numbers of system calls (Linux, x86-64: arch/x86/entry/syscalls/syscall_64.tbl).
mod call {
    pub(super) const CLONE: u32 = 56;
    pub(super) const EXIT: u32 = 60;
    pub(super) const FUTEX: u32 = 202;
    pub(super) const CLONE3: u32 = 435;
}

/// Operations of a futex (include/uapi/linux/futex.h), without their flags.
mod futex {
    pub(super) const COMMAND: u64 = 0x7f;
    /// Wait, and its forms with a bit set, for a lock with priorities, and for a requeue.
    pub(super) const WAITS: [u64; 4] = [0, 9, 6, 11];
    /// Wake, requeue, compare and requeue, wake with an operation, unlock, and wake a bit set.
    pub(super) const WAKES: [u64; 6] = [1, 3, 4, 5, 7, 10];
    /// Operations among them that name a second futex in their fifth argument.
    pub(super) const OF_TWO: [u64; 3] = [3, 4, 5];
}

/// A write or a call of a thread, at its place in the recorded order.
#[derive(Clone, Copy, Debug)]
struct Did {
    thread: usize,
    /// Number among the thread's writes, or among its calls.
    number: u64,
    position: u64,
}

/// Progress of one thread through the recording.
#[derive(Debug, Default)]
struct At {
    accesses: u64,
    writes: u64,
    calls: u64,
    /// Writes of each other thread that it has waited for.
    seen: Vec<u64>,
    /// The futex that its last call waits on, and where it was recorded.
    blocked: Option<(u64, u64)>,
    /// Set once the thread has executed an instruction.
    began: bool,
}

struct Scan {
    words: Words,
    threads: Vec<Thread>,
    at: Vec<At>,
    /// Last write to each synchronisation word.
    last: HashMap<u64, Did>,
    /// Last call that woke waiters of each futex.
    woken: HashMap<u64, Did>,
    last_exit: Option<Did>,
    last_clone: Option<Did>,
    position: u64,
    posts: u32,
}

/// Goes through a recording with these synchronisation words.
pub(super) fn scan(source: &mut dyn Source, words: Words) -> Result<Threads, TraceError> {
    let program = Arc::clone(source.program());
    let mut scan = Scan {
        words,
        threads: Vec::new(),
        at: Vec::new(),
        last: HashMap::new(),
        woken: HashMap::new(),
        last_exit: None,
        last_clone: None,
        position: 0,
        posts: 0,
    };
    let mut recorded = 0;
    // A number without an instruction or a call is no thread: its core would have no work.
    let mut thread = None;
    loop {
        scan.position += 1;
        match source.next_item()? {
            Item::Event(Event::Cpu(number)) => {
                (recorded, thread) = (number, scan.find(number));
            }
            Item::Event(Event::Syscall { number, args }) => {
                // A recording may begin between the instruction and its event.
                let thread = *thread.get_or_insert_with(|| scan.begin(recorded));
                scan.call(thread, number, &args);
            }
            Item::Event(_) => {}
            Item::Run(id) => {
                let thread = *thread.get_or_insert_with(|| scan.begin(recorded));
                scan.resume(thread);
                scan.run(thread, &program, id, source);
            }
            Item::End => {
                let Scan { words, threads, posts, .. } = scan;
                return Ok(Threads { words, threads, posts });
            }
        }
    }
}

impl Scan {
    fn find(&self, recorded: u16) -> Option<usize> {
        self.threads.iter().position(|thread| thread.recorded == recorded)
    }

    fn begin(&mut self, recorded: u16) -> usize {
        self.threads.push(Thread { recorded, ..Thread::default() });
        self.at.push(At::default());
        self.threads.len() - 1
    }

    /// The next run of a thread comes: what made it go on, if it was blocked or is new.
    fn resume(&mut self, thread: usize) {
        let at = &mut self.at[thread];
        let cause = match (std::mem::replace(&mut at.began, true), at.blocked.take()) {
            (false, _) => self.last_clone,
            (true, None) => None,
            (true, Some((futex, since))) => {
                let later = |did: &Did| did.position > since && did.thread != thread;
                // The kernel wakes who waits for a thread's end, without a call of its own.
                let woken = self.woken.get(&futex).copied().filter(later);
                woken.or(self.last_exit.filter(later))
            }
        };
        if let Some(did) = cause.filter(|did| did.thread != thread) {
            let calls = self.at[thread].calls;
            let post = self.post(did, |thread| &mut thread.calls);
            self.threads[thread].at_calls.push((calls, post));
        }
    }

    fn call(&mut self, thread: usize, number: u32, args: &[u64; 6]) {
        let at = &mut self.at[thread];
        let did = Did { thread, number: at.calls, position: self.position };
        at.calls += 1;
        match number {
            call::CLONE | call::CLONE3 => self.last_clone = Some(did),
            call::EXIT => self.last_exit = Some(did),
            call::FUTEX => {
                let command = args[1] & futex::COMMAND;
                if futex::WAITS.contains(&command) {
                    at.blocked = Some((args[0], self.position));
                }
                if futex::WAKES.contains(&command) {
                    self.woken.insert(args[0], did);
                }
                if futex::OF_TWO.contains(&command) {
                    self.woken.insert(args[4], did);
                }
            }
            _ => {}
        }
    }

    fn run(&mut self, thread: usize, program: &Program, id: TemplateId, source: &dyn Source) {
        let sites = program.sites_of(program.template(id)).iter();
        for (site, address) in sites.zip(source.addresses()) {
            let byte = address.phys.0;
            let touched: Vec<u64> = self.words.touched(byte, site.size).collect();
            if touched.is_empty() {
                continue;
            }
            let (access, write) = (self.at[thread].accesses, self.at[thread].writes);
            self.at[thread].accesses += 1;
            for word in touched {
                if let Some(&did) = self.last.get(&word).filter(|did| did.thread != thread) {
                    self.wait(thread, access, did);
                }
                if site.write {
                    let did = Did { thread, number: write, position: self.position };
                    self.last.insert(word, did);
                }
            }
            self.at[thread].writes += u64::from(site.write);
        }
    }

    /// An access waits for a write of another thread, unless an earlier one did.
    fn wait(&mut self, thread: usize, access: u64, did: Did) {
        let seen = &mut self.at[thread].seen;
        if seen.len() <= did.thread {
            seen.resize(did.thread + 1, 0);
        }
        if seen[did.thread] > did.number {
            return;
        }
        seen[did.thread] = did.number + 1;
        let post = self.post(did, |thread| &mut thread.writes);
        self.threads[thread].at_accesses.push((access, post));
    }

    /// Returns the number of a post, a new one if nothing waits for it yet.
    fn post(&mut self, did: Did, of: fn(&mut Thread) -> &mut Vec<(u64, u32)>) -> u32 {
        debug_assert!(
            did.position < self.position,
            "a thread waits only for what was recorded before, so that waits form no circle"
        );
        let list = of(&mut self.threads[did.thread]);
        match list.binary_search_by_key(&did.number, |&(number, _)| number) {
            Ok(place) => list[place].1,
            Err(place) => {
                list.insert(place, (did.number, self.posts));
                self.posts += 1;
                self.posts - 1
            }
        }
    }
}
