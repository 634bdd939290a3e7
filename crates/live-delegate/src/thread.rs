//! One thread of the program: its policy, its counts, its way to its worker.

use core::sync::atomic::Ordering;

use halfwink_policy::offload::{
    Counts as CacheCounts, Delegation, DelegationKind, Event, Place, Sample, Traits,
};
use halfwink_policy::Host;
use halfwink_units::Time;

use super::calls::{Index, Refusal, Rule, CALLS};
use super::chooser;
use super::image::{self, Image};
use super::local::Local;
use super::log::Log;
use super::mailbox::{life, Request, DECLINED};
use super::process::Slot;
use super::shared::{add, Block, Shared};
use super::worker;
use halfwink_live::{clock, sys};

/// Timed calls of a thread at first, of which one in so many is.
const ROUTINE: u32 = 256;
const TIME_EVERY_AT_FIRST: u32 = 4;
/// Shortest time between two samples for the controller of N, in nanoseconds.
const SAMPLE_NS: u64 = 1_000_000;

/// Outcome of a call's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nowhere: the wrapper makes it, and then hands this to [`super::hub::stayed`] if it is not 0.
    Here(u64),
    /// The worker has made it; the kernel's answer.
    There(i64),
}

/// State of a thread of the program.
#[derive(Debug)]
pub struct Thread {
    host: Host<Delegation, Option<Log>>,
    wants_bytes: bool,
    pub(super) block: &'static Block,
    pub(super) slot: &'static Slot,
    /// Whether no call ever moves and no log is kept: the policy need not be asked.
    never_moves: bool,
    /// The last reading of the counter: what the policy takes for the present.
    now_ticks: u64,
    /// Last reading as time since the thread began.
    now: Time,
    begun_ticks: u64,
    until_timed: u32,
    /// Calls at first, of which more are timed, so that a short program learns too.
    until_routine: u32,
    /// Ticket and ticks of a moved call whose duration is not known yet.
    untold: Option<(u32, u64)>,
    sample: SampleTimes,
}

#[derive(Debug, Default)]
struct SampleTimes {
    begun_ticks: u64,
    call_ticks: u64,
    waited_ticks: u64,
}

impl Thread {
    /// Returns the state of the calling thread, or null. No other code sets that pointer.
    #[inline(always)]
    pub(super) fn of(local: &Local) -> *mut Thread {
        local.thread.get().cast()
    }

    /// Counts a call without asking the policy; returns false if it must be asked.
    #[inline(always)]
    pub(super) fn just_counts(&mut self, index: Index) -> bool {
        let just = self.never_moves && self.until_timed > 1;
        if just {
            self.until_timed -= 1;
            add(&self.block.calls[index as usize].calls, 1);
        }
        just
    }

    /// A thread's state, new or as the last owner of its place left it; null if there is no room.
    pub(super) fn new(image: &'static Image) -> *mut Thread {
        let (pid, tid) = (sys::getpid(), sys::gettid());
        let Some(slot) = image.process.take_slot(tid) else { return core::ptr::null_mut() };
        // The mapping is never undone, so what it holds lives for ever.
        let shared: &'static Shared = &image.shared;
        let mark = image.process.mark.load(Ordering::Relaxed);
        let Some(block) = shared.claim(pid, tid, mark) else {
            image.process.leave_slot(slot);
            return core::ptr::null_mut();
        };
        let before = slot.kept.load(Ordering::Acquire).cast::<Thread>();
        // SAFETY: null, or left by the last owner of the place, which is gone.
        if let Some(thread) = unsafe { before.as_mut() } {
            thread.block = block;
            thread.untold = None;
            return before;
        }
        let stream = shared.counts().streams.fetch_add(1, Ordering::Relaxed);
        let policy = Delegation::new(&image.options.policy);
        let has_log = image.options.log_records > 0;
        let log = has_log.then(|| Log::new(*shared, stream as u32));
        let now = clock::ticks();
        let thread = Box::into_raw(Box::new(Thread {
            wants_bytes: policy.wants_bytes(),
            host: Host::logged(policy, log),
            block,
            slot,
            never_moves: image.options.policy.kind == DelegationKind::Never && !has_log,
            now_ticks: now,
            now: Time::ZERO,
            begun_ticks: now,
            until_timed: 1,
            until_routine: ROUTINE,
            untold: None,
            sample: SampleTimes { begun_ticks: now, ..SampleTimes::default() },
        }));
        slot.kept.store(thread.cast(), Ordering::Release);
        thread
    }

    #[inline]
    pub(super) unsafe fn choose(
        &mut self,
        image: &'static Image,
        local: &Local,
        index: Index,
        args: &[u64; 6],
    ) -> Way {
        add(&self.block.calls[index as usize].calls, 1);
        if self.untold.is_some() {
            self.hear(image);
        }
        self.until_timed -= 1;
        let timed = self.until_timed == 0;
        let place = if timed {
            self.set_now(image, clock::ticks());
            self.until_timed = self.next_timed(image);
            self.ask_timed(index, args)
        } else {
            self.ask(index, args)
        };
        if place == Place::OsCore {
            // SAFETY: by the caller.
            if let Some(answer) = unsafe { self.delegate(image, local, index, args) } {
                return Way::There(answer);
            }
            return Way::Here(0);
        }
        Way::Here(if timed { self.now_ticks } else { 0 })
    }

    #[cold]
    fn ask_timed(&mut self, index: Index, args: &[u64; 6]) -> Place {
        let begun = clock::ticks();
        let place = self.ask(index, args);
        add(&self.block.decision_ticks, clock::ticks() - begun);
        add(&self.block.timed_decisions, 1);
        place
    }

    #[inline(always)]
    fn ask(&mut self, index: Index, args: &[u64; 6]) -> Place {
        let number = CALLS[index as usize].number;
        let bytes = if self.wants_bytes && matches!(index, Index::Readv | Index::Writev) {
            bytes_of(args[1], args[2] as i32)
        } else {
            None
        };
        let entry = chooser::enter(number, *args, bytes);
        self.host.decide(self.now, &entry).map_or(Place::Here, |action| action.place)
    }

    /// After how many calls the next one is timed: `time_every` on average, and not in step with
    /// the program, whose calls come in patterns.
    fn next_timed(&mut self, image: &Image) -> u32 {
        let every = if self.until_routine > 0 {
            self.until_routine -= 1;
            image.options.time_every.min(TIME_EVERY_AT_FIRST)
        } else {
            image.options.time_every
        };
        1 + (self.now_ticks >> 2) as u32 % (2 * every - 1)
    }

    #[inline]
    fn set_now(&mut self, image: &Image, ticks: u64) {
        self.now_ticks = ticks;
        let now = Time(image.options.rate.ps(ticks.saturating_sub(self.begun_ticks)));
        if now < self.now {
            image.shared.counts().steps_back.fetch_add(1, Ordering::Relaxed);
        }
        self.now = now;
    }

    /// Moves a call; `None` if it could not move, and must be made in place.
    unsafe fn delegate(
        &mut self,
        image: &'static Image,
        local: &Local,
        index: Index,
        args: &[u64; 6],
    ) -> Option<i64> {
        let process = image.process;
        let call = &CALLS[index as usize];
        let device = process.proc_device.load(Ordering::Relaxed);
        // SAFETY: by the caller.
        let check = match unsafe { process.files.may_move(call.rule, args, device) } {
            Ok(check) => check,
            Err(refusal) => return self.refuse(index, refusal),
        };
        if image::is_confined() {
            return self.refuse(index, Refusal::NoWorker);
        }
        let started = self.slot.mailbox.life.load(Ordering::Acquire) != life::ALIVE;
        if !process.ensure_worker(self.slot, worker::run) {
            return self.refuse(index, Refusal::NoWorker);
        }
        if started {
            image.shared.counts().workers.fetch_add(1, Ordering::Relaxed);
        }
        let begun = clock::ticks();
        let mailbox = &self.slot.mailbox;
        let ticket = mailbox.post(&Request { number: call.number, check, args: *args });
        local.ticket.set(ticket);
        local.in_flight.set(true);
        let answer = mailbox.wait(ticket, image.patience);
        local.in_flight.set(false);
        let ended = clock::ticks();
        let Some(answer) = answer else { return self.refuse(index, Refusal::NoWorker) };
        if answer == DECLINED {
            // Whatever was known of its descriptors is not so any more.
            process.files.forget_those_of(call.rule, args);
            return self.refuse(index, Refusal::Declined);
        }
        // The signal that comes with these went to the worker, which takes none: again, here.
        if answer == -i64::from(libc::EPIPE) || answer == -i64::from(libc::EFBIG) {
            return self.refuse(index, Refusal::Signal);
        }
        self.delegated(image, index, ended, ended - begun);
        self.untold = Some((ticket, ended - begun));
        Some(answer)
    }

    fn refuse(&self, index: Index, why: Refusal) -> Option<i64> {
        add(&self.block.calls[index as usize].refused[why as usize], 1);
        None
    }

    fn delegated(&mut self, image: &Image, index: Index, ended: u64, round: u64) {
        let (block, rate) = (self.block, image.options.rate);
        let counts = &block.calls[index as usize];
        let round_ns = rate.ns(round);
        add(&counts.delegated, 1);
        add(&counts.there_ns, round_ns);
        counts.there.add(round_ns);
        add(&block.waited_ticks, round);
        let mailbox = &self.slot.mailbox;
        add(&block.worker_wakes, u64::from(mailbox.worker_wakes.swap(0, Ordering::Relaxed)));
        add(&block.caller_naps, u64::from(mailbox.caller_naps.swap(0, Ordering::Relaxed)));
        self.sample.call_ticks += round;
        self.set_now(image, ended);
    }

    /// Takes the duration of the last moved call, which the worker publishes after its answer.
    #[cold]
    fn hear(&mut self, image: &Image) {
        let Some((ticket, round)) = self.untold.take() else { return };
        let Some(work) = self.slot.mailbox.worked(ticket) else { return };
        let (block, rate) = (self.block, image.options.rate);
        add(&block.worked_ticks, work);
        let hand_off = round.saturating_sub(work);
        add(&block.hand_off_ticks, hand_off);
        block.hand_off.add(rate.ns(hand_off));
        self.learn(image, rate.ns(work));
    }

    pub(super) fn stayed(
        &mut self,
        image: &Image,
        index: Index,
        args: &[u64; 6],
        begun: u64,
        ended: u64,
    ) {
        let ticks = ended.saturating_sub(begun);
        let (block, rate) = (self.block, image.options.rate);
        let counts = &block.calls[index as usize];
        let ns = rate.ns(ticks);
        add(&counts.here_ns, ns);
        counts.here.add(ns);
        self.set_now(image, ended);
        let estimate = ticks.saturating_mul(u64::from(image.options.time_every));
        let device = image.process.proc_device.load(Ordering::Relaxed);
        let rule = CALLS[index as usize].rule;
        // What waits for others is no run length, and teaches nothing.
        let waits = match rule {
            // The time that `select` was given has been overwritten by now.
            Rule::TimeoutBehind { .. } => true,
            // SAFETY: the other rules look behind no pointer.
            _ => unsafe { image.process.files.may_move(rule, args, device) }.is_err(),
        };
        if waits {
            self.sample.waited_ticks += estimate;
        } else {
            self.sample.call_ticks += estimate;
            add(&block.stayed_ticks, estimate);
            self.learn(image, ns);
        }
    }

    /// Tells the policy how long the call was that it decided last.
    fn learn(&mut self, image: &Image, ns: u64) {
        let block = self.block;
        block.seen_ticks.store(self.now_ticks, Ordering::Relaxed);
        if let Some((expected, n)) = self.host.policy().expectation() {
            add(&block.predictions, 1);
            add(&block.within_5_percent, u64::from(expected.abs_diff(ns) * 20 <= ns));
            add(&block.right_side, u64::from((expected > n) == (ns > n)));
            block.n_ns.store(n, Ordering::Relaxed);
        }
        self.host.decide(self.now, &Event::Exit { instructions: ns });
        self.sample_if_due(image);
    }

    /// Delivers the sample that the controller of N maximises: the share of the thread's time that
    /// is left to the program itself, while it does not wait for others.
    fn sample_if_due(&mut self, image: &Image) {
        let rate = image.options.rate;
        let times = &self.sample;
        let span = self.now_ticks.saturating_sub(times.begun_ticks);
        if rate.ns(span) < SAMPLE_NS {
            return;
        }
        let active = span.saturating_sub(times.waited_ticks);
        let call = rate.ns(times.call_ticks.min(active));
        let user = rate.ns(active) - call;
        let sample = Sample {
            user: Traits::default(),
            instructions: [user, call],
            l2: [CacheCounts { accesses: user + call, hits: user }, CacheCounts::default()],
        };
        self.sample = SampleTimes { begun_ticks: self.now_ticks, ..SampleTimes::default() };
        self.host.decide(self.now, &Event::Sample(sample));
    }
}

/// Pieces that are read at once: of most calls, all.
const PIECES: usize = 16;
/// The kernel takes no more (`UIO_MAXIOV`, include/uapi/linux/uio.h).
const MOST_PIECES: usize = 1024;

/// Bytes that an array of `count` pieces asks for; `None` if the kernel will refuse it, which then
/// does so where the call was made.
fn bytes_of(pieces: u64, count: i32) -> Option<u64> {
    let count = usize::try_from(count).ok().filter(|n| *n <= MOST_PIECES)?;
    let mut sum = 0u64;
    for first in (0..count).step_by(PIECES) {
        let mut words = [0u64; 2 * PIECES];
        let read = &mut words[..2 * PIECES.min(count - first)];
        let at = pieces.checked_add((first * size_of::<libc::iovec>()) as u64)?;
        sys::copy_memory(at, read).ok()?;
        // An address and a length each.
        sum = read.chunks_exact(2).fold(sum, |sum, piece| sum.saturating_add(piece[1]));
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_iovec_sum_pieces_and_reject_bad_counts() {
        let mut place = [0u8; 8];
        let piece = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: 3 };
        let pieces = [piece; 40];
        let of = |count| bytes_of(pieces.as_ptr() as u64, count);
        assert_eq!([of(0), of(1), of(16), of(40)], [Some(0), Some(3), Some(48), Some(120)]);
        assert_eq!([of(-1), of(1025)], [None, None]);
        assert_eq!([bytes_of(64, 2), bytes_of(u64::MAX - 7, 20)], [None, None]);
    }
}
