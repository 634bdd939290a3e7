//! How one thread hands a call to another: two cache lines and a bounded spin.
//!
//! ```text
//!  caller                                             worker
//!  request line: arguments, then ticket ────line────▶ spins on ticket, or sleeps
//!  spins on reply ticket, or sleeps     ◀───line───── reply line: answer, then ticket
//! ```
//!
//! Each line is written by one side alone, so a round trip moves two lines, as the cheapest
//! possible exchange between two caches does. Who has spun for long enough says so in a line of its
//! own, which the other side keeps in its cache, and sleeps on a futex.

// Those of the machine, or of the checker that plays all orders (`crates/interleavings`).
use super::words::{clock, fence, sys, AtomicI64, AtomicU32, AtomicU64, Ordering};
use super::words::{EAGER_LOOKS, SPIN_LOOKS};

/// Longest sleep of a caller without a look at whether its worker is still there, in nanoseconds.
/// It sleeps on the reply's ticket, which a worker that goes does not change: the wake-up of
/// [`Mailbox::work`]'s end can come just before the sleep begins, and is lost then.
const CALLER_NAP_NS: u64 = 20_000_000;

/// Sleep of a worker, in nanoseconds: without an end, as it sleeps on a word that both reasons to
/// wake, a call and [`Mailbox::stop`], change first.
const WORKER_NAP_NS: u64 = u64::MAX >> 1;

/// A call to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// System-call number, or one of the worker's own.
    pub number: u32,
    /// Check that the worker makes before the call; see `worker`.
    pub check: u32,
    /// Arguments of the call.
    pub args: [u64; 6],
}

/// The worker found that the call might block, and did not make it.
pub const DECLINED: i64 = i64::MIN;

/// Time for which either side spins before it sleeps, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The worker, for the next call.
    pub worker: u64,
    /// The caller, for the reply.
    pub caller: u64,
    /// After how long without success a spinner lets others have the CPU, again and again.
    pub yields: u64,
}

#[repr(C, align(128))]
#[derive(Debug, Default)]
struct RequestLine {
    ticket: AtomicU32,
    number: AtomicU32,
    check: AtomicU32,
    args: [AtomicU64; 6],
}

#[repr(C, align(128))]
#[derive(Debug, Default)]
struct ReplyLine {
    ticket: AtomicU32,
    answer: AtomicI64,
}

/// Duration of the last call, published after its answer, so that the caller does not wait for it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
struct WorkedLine {
    ticket: AtomicU32,
    ticks: AtomicU64,
}

#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Flag(AtomicU32);

/// States in the life of a worker.
pub mod life {
    /// There is none, or it has stopped answering.
    pub const GONE: u32 = 0;
    /// The worker is being started.
    pub const STARTING: u32 = 1;
    /// The worker serves calls.
    pub const ALIVE: u32 = 2;
}

/// Between one caller and one worker. All zeros is a mailbox that is empty.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Mailbox {
    request: RequestLine,
    reply: ReplyLine,
    worked: WorkedLine,
    worker_sleeps: Flag,
    caller_sleeps: Flag,
    stop: Flag,
    /// State of the worker, one of [`life`].
    pub life: AtomicU32,
    /// Wake-ups of the worker and sleeps of the caller, for the report.
    pub worker_wakes: AtomicU32,
    /// Sleeps of the caller; see `worker_wakes`.
    pub caller_naps: AtomicU32,
}

impl Mailbox {
    /// Posts a call; its ticket.
    #[inline]
    pub fn post(&self, request: &Request) -> u32 {
        let line = &self.request;
        // Only the caller writes this line, so that it reads its own value.
        let ticket = line.ticket.load(Ordering::Relaxed).wrapping_add(1);
        line.number.store(request.number, Ordering::Relaxed);
        line.check.store(request.check, Ordering::Relaxed);
        for (to, from) in line.args.iter().zip(request.args) {
            to.store(from, Ordering::Relaxed);
        }
        // Either the worker sees the ticket before it sleeps, or we see that it sleeps: an exchange
        // keeps the order of this store and the next load, for less than a fence costs.
        line.ticket.swap(ticket, Ordering::SeqCst);
        if self.worker_sleeps.0.load(Ordering::Relaxed) != 0 {
            self.wake_worker();
        }
        ticket
    }

    #[cold]
    fn wake_worker(&self) {
        self.worker_wakes.fetch_add(1, Ordering::Relaxed);
        self.rouse();
    }

    /// Waits for the kernel's answer, or [`DECLINED`]. `None` if the worker has gone without making
    /// the call.
    #[inline]
    pub fn wait(&self, ticket: u32, patience: Patience) -> Option<i64> {
        for _ in 0..EAGER_LOOKS {
            if self.reply.ticket.load(Ordering::Acquire) == ticket {
                return Some(self.answer());
            }
        }
        let begun = clock::ticks();
        let mut yielded = begun;
        loop {
            for _ in 0..SPIN_LOOKS {
                if self.reply.ticket.load(Ordering::Acquire) == ticket {
                    return Some(self.answer());
                }
                core::hint::spin_loop();
            }
            let now = clock::ticks();
            if now - begun > patience.caller {
                return self.wait_asleep(ticket);
            }
            if now - yielded > patience.yields {
                sys::yield_now();
                yielded = clock::ticks();
            }
        }
    }

    #[cold]
    fn wait_asleep(&self, ticket: u32) -> Option<i64> {
        self.caller_naps.fetch_add(1, Ordering::Relaxed);
        loop {
            // Before the reply is looked at: a worker answers before it goes, so that without a
            // reply the call was not made.
            let gone = self.life.load(Ordering::SeqCst) == life::GONE;
            self.caller_sleeps.0.store(1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            let seen = self.reply.ticket.load(Ordering::Acquire);
            if seen == ticket || gone {
                self.caller_sleeps.0.store(0, Ordering::Relaxed);
                return (seen == ticket).then(|| self.answer());
            }
            sys::futex_wait(&self.reply.ticket, seen, CALLER_NAP_NS, false);
        }
    }

    fn answer(&self) -> i64 {
        self.reply.answer.load(Ordering::Relaxed)
    }

    /// Ticks that the call with this ticket took, once its worker has told.
    #[inline]
    pub fn worked(&self, ticket: u32) -> Option<u64> {
        let told = self.worked.ticket.load(Ordering::Acquire) == ticket;
        told.then(|| self.worked.ticks.load(Ordering::Relaxed))
    }

    /// Serves calls with `serve` until it is told to stop. Only one thread may.
    pub fn work(&self, patience: Patience, serve: impl Fn(&Request) -> i64) {
        let mut served = self.reply.ticket.load(Ordering::Relaxed);
        self.life.store(life::ALIVE, Ordering::SeqCst);
        let mut idle_since = clock::ticks();
        while let Some(ticket) = self.next(served, idle_since, patience) {
            let line = &self.request;
            let mut request = Request {
                number: line.number.load(Ordering::Relaxed),
                check: line.check.load(Ordering::Relaxed),
                args: [0; 6],
            };
            for (to, from) in request.args.iter_mut().zip(&line.args) {
                *to = from.load(Ordering::Relaxed);
            }
            let begun = clock::ticks();
            let answer = serve(&request);
            // The exchange of the ticket below publishes it.
            self.reply.answer.store(answer, Ordering::Relaxed);
            served = ticket;
            // Either the caller sees the reply before it sleeps, or we see that it sleeps.
            self.reply.ticket.swap(ticket, Ordering::SeqCst);
            idle_since = clock::ticks();
            self.worked.ticks.store(idle_since - begun, Ordering::Relaxed);
            self.worked.ticket.store(ticket, Ordering::Release);
            if self.caller_sleeps.0.load(Ordering::Relaxed) != 0 {
                self.caller_sleeps.0.store(0, Ordering::Relaxed);
                sys::futex_wake(&self.reply.ticket, 1);
            }
        }
        // A call posted from here on is the caller's again.
        self.life.store(life::GONE, Ordering::SeqCst);
        sys::futex_wake(&self.reply.ticket, 1);
    }

    /// The next ticket, or `None` when it is time to stop.
    #[inline]
    fn next(&self, served: u32, idle_since: u64, patience: Patience) -> Option<u32> {
        let mut begun = idle_since;
        let mut yielded = begun;
        loop {
            for _ in 0..SPIN_LOOKS {
                let ticket = self.request.ticket.load(Ordering::Acquire);
                if ticket != served {
                    return Some(ticket);
                }
                core::hint::spin_loop();
            }
            if self.stop.0.load(Ordering::Relaxed) != 0 {
                return None;
            }
            let now = clock::ticks();
            if now - begun > patience.worker {
                self.worker_sleeps.0.store(1, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                if self.request.ticket.load(Ordering::Acquire) == served
                    && self.stop.0.load(Ordering::Relaxed) == 0
                {
                    sys::futex_wait(&self.worker_sleeps.0, 1, WORKER_NAP_NS, false);
                }
                self.worker_sleeps.0.store(0, Ordering::Relaxed);
                begun = clock::ticks();
                yielded = begun;
            } else if now - yielded > patience.yields {
                sys::yield_now();
                yielded = clock::ticks();
            }
        }
    }

    /// Tells the worker to go when it is done with what it does. Use with a join.
    pub fn stop(&self) {
        self.stop.0.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.rouse();
    }

    /// The word changes, so that a worker which is about to sleep on it does not.
    fn rouse(&self) {
        self.worker_sleeps.0.store(0, Ordering::SeqCst);
        sys::futex_wake(&self.worker_sleeps.0, 1);
    }

    /// Undoes [`Mailbox::stop`], for the next worker.
    pub fn reopen(&self) {
        self.stop.0.store(0, Ordering::SeqCst);
        // A call that the last worker left is the caller's again: the next one must not make it,
        // too.
        self.reply.ticket.store(self.request.ticket.load(Ordering::Relaxed), Ordering::SeqCst);
    }
}

#[cfg(all(test, not(feature = "interleavings")))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::thread;

    fn request(n: u64) -> Request {
        Request { number: n as u32, check: 0, args: [n, n + 1, n + 2, n + 3, n + 4, n + 5] }
    }

    fn sum(request: &Request) -> i64 {
        request.args.iter().map(|&a| a as i64).sum::<i64>() + i64::from(request.number)
    }

    /// Every reply belongs to its request, however patient either side is.
    fn stress(patience: Patience, calls: u64) {
        let mailbox = Arc::new(Mailbox::default());
        let theirs = Arc::clone(&mailbox);
        let worker = thread::spawn(move || theirs.work(patience, sum));
        while mailbox.life.load(Ordering::SeqCst) != life::ALIVE {
            thread::yield_now();
        }
        for n in 0..calls {
            let asked = request(n * 7);
            let ticket = mailbox.post(&asked);
            let reply = mailbox.wait(ticket, patience).expect("the worker stays");
            assert_eq!(reply, sum(&asked), "call {n}");
        }
        mailbox.stop();
        worker.join().unwrap();
        assert_eq!(mailbox.life.load(Ordering::SeqCst), life::GONE);
    }

    #[test]
    fn both_sides_spin_and_lose_no_call() {
        stress(Patience { worker: 1 << 24, caller: 1 << 24, yields: 4_000 }, 20_000);
    }

    #[test]
    fn both_sides_sleep_at_once_and_lose_no_call() {
        stress(Patience { worker: 0, caller: 0, yields: u64::MAX }, 5_000);
    }

    #[test]
    fn one_side_sleeps_and_no_call_is_lost() {
        stress(Patience { worker: 0, caller: 1 << 22, yields: 4_000 }, 3_000);
        stress(Patience { worker: 1 << 22, caller: 0, yields: 4_000 }, 3_000);
    }

    #[test]
    fn a_worker_about_to_sleep_hears_the_stop() {
        let patience = Patience { worker: 0, caller: 0, yields: u64::MAX };
        for n in 0..2_000u32 {
            let mailbox = Arc::new(Mailbox::default());
            let theirs = Arc::clone(&mailbox);
            let worker = thread::spawn(move || theirs.work(patience, sum));
            (0..n % 64 * 20).for_each(|_| core::hint::spin_loop());
            mailbox.stop();
            worker.join().unwrap();
        }
    }

    #[test]
    fn a_worker_that_went_gives_the_call_back() {
        let patience = Patience { worker: 1_000, caller: 1_000, yields: u64::MAX };
        let mailbox = Arc::new(Mailbox::default());
        for _ in 0..200 {
            mailbox.reopen();
            let theirs = Arc::clone(&mailbox);
            let worker = thread::spawn(move || theirs.work(patience, sum));
            while mailbox.life.load(Ordering::SeqCst) != life::ALIVE {
                thread::yield_now();
            }
            let ours = Arc::clone(&mailbox);
            let stopper = thread::spawn(move || ours.stop());
            // Made once or not at all, never lost.
            let asked = request(11);
            let ticket = mailbox.post(&asked);
            if let Some(reply) = mailbox.wait(ticket, patience) {
                assert_eq!(reply, sum(&asked));
            }
            stopper.join().unwrap();
            worker.join().unwrap();
        }
    }
}
