//! What threads of all front ends do between two looks at what there is: wake each other, tell the
//! policy how busy they are, and rest as it says.

use std::sync::atomic::{fence, Ordering};
use std::time::Duration;

use halfwink_live::clock::ticks;
use halfwink_live::sys::CpuSet;
use halfwink_policy::completion::Event;
use halfwink_policy::scaling::Rest;
use halfwink_units::Time;

use crate::control::Control;
use crate::worker::Post;

/// Way to wait for the next round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Ask at once; so many times before the policy is asked again.
    Poll(u32),
    /// Sleeps until an event, or for this number of nanoseconds.
    Sleep(Option<u64>),
}

/// Makes the calling thread a worker: on its CPU, and woken when it should be.
pub(crate) fn settle_in(post: &Post) {
    // Else the kernel may wake it 50 us late.
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
    if let Some(cpu) = post.cpu {
        // Where it may not, it runs where it may; the report says on which CPU it was to be.
        let _ = CpuSet::one(cpu).pin();
    }
}

/// Sleeps until `wait` is over, which is begun when others already know that they have to ring; it
/// says whether something came.
pub(crate) fn sleep(post: &Post, wait: impl FnOnce() -> bool) {
    post.asleep.store(true, Ordering::Relaxed);
    fence(Ordering::SeqCst);
    let times = &post.meter.times;
    times.book(|times| &times.polling, ticks(), true);
    let came = wait();
    post.asleep.store(false, Ordering::Relaxed);
    times.book(|times| &times.sleeping, ticks(), false);
    post.meter.wakes.add(u64::from(came));
}

/// Rounds of one worker.
pub(crate) struct Turn {
    number: u16,
    /// Workers that were assigned work in this round.
    gave: Vec<bool>,
    /// I/Os completed or given away in this round.
    pub(crate) done: u32,
    looked: u64,
    /// Working time of each worker at the last report to the policy.
    used: Vec<u64>,
}

impl Turn {
    pub(crate) fn new(number: u16, workers: usize) -> Turn {
        let (gave, used) = (vec![false; workers], vec![0; workers]);
        Turn { number, gave, done: 0, looked: ticks(), used }
    }

    /// Marks a worker as assigned work; it is woken when the round ends.
    pub(crate) fn give(&mut self, to: u16) {
        self.gave[usize::from(to)] = true;
    }

    /// Ends a round: reports it to the policy, and wakes the workers that were assigned work.
    pub(crate) fn end(&mut self, control: &Control, posts: &[Post]) {
        if control.ways.hears_polls {
            let event = Event::Poll { cpu: self.number, taken: self.done, waiting: self.done };
            control.note(&event);
        }
        self.done = 0;
        let begun = ticks();
        let mut any = false;
        for (number, gave) in self.gave.iter_mut().enumerate() {
            if std::mem::take(gave) && number != usize::from(self.number) {
                any = true;
                posts[number].wake();
            }
        }
        if any {
            posts[usize::from(self.number)].meter.stages.hand_off.add(ticks() - begun);
        }
        let Some(period) = control.ways.period else { return };
        let all = begun - self.looked;
        if self.number != 0 || control.clock.span(all) < period {
            return;
        }
        self.looked = begun;
        control.note_used(posts, &mut self.used, all);
    }

    /// Chooses how to wait next, from whether this round found work and how the last wait ended.
    /// `before` handles work that must not wait while this thread sleeps here.
    pub(crate) fn next(
        &self,
        control: &Control,
        post: &Post,
        (work, wait): (u32, Wait),
        before: impl FnOnce(),
    ) -> Wait {
        let times = &post.meter.times;
        if work > 0 {
            times.book(|times| &times.working, ticks(), false);
            return self.rest(control, post, before);
        }
        times.book(|times| &times.polling, ticks(), false);
        match wait {
            Wait::Poll(polls) if polls > 1 => Wait::Poll(polls - 1),
            _ => self.rest(control, post, before),
        }
    }

    /// Asks the policy how to rest.
    fn rest(&self, control: &Control, post: &Post, before: impl FnOnce()) -> Wait {
        let ns = |span: Time| (span.0 / 1_000).max(1);
        match control.rest(self.number) {
            Rest::Spin => Wait::Poll(64),
            Rest::Again { polls } => Wait::Poll(polls.max(1)),
            Rest::Pause { span } => {
                before();
                let until = ticks() + control.clock.rate.ticks(ns(span));
                while ticks() < until {
                    std::hint::spin_loop();
                }
                Wait::Poll(1)
            }
            Rest::Halt(_) | Rest::Nap(_) => Wait::Sleep(None),
            Rest::HaltFor { span, .. } => Wait::Sleep(Some(ns(span))),
            Rest::Sleep { span, .. } => {
                before();
                let times = &post.meter.times;
                times.book(|times| &times.polling, ticks(), true);
                std::thread::sleep(Duration::from_nanos(ns(span)));
                times.book(|times| &times.sleeping, ticks(), false);
                Wait::Poll(1)
            }
        }
    }
}
