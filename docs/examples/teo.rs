//! teo: Linux' timer events oriented governor as a module, from the comments of
//! `drivers/cpuidle/governors/teo.c` (Linux 6.1).
//!
//! It is `src/lib.rs` of a folder that `halfwink new-policy my-teo --family gating` writes.
#![cfg_attr(not(test), no_std)]

mod block;
mod interface;

use block::Reply;
use interface::{Action, Event};

#[cfg_attr(test, allow(dead_code))]
const ABOUT: &str = r#"{
    "family": "gating",
    "title": "Linux' timer events oriented governor, written anew",
    "events": ["idle-begin", "idle-end", "awake", "idle-state"],
    "parameters": []
}"#;

/// Most idle states of a machine (`CPUIDLE_STATE_MAX`).
const MOST: usize = 10;
/// Weight of a new event (`PULSE`), and how fast old ones fade (`DECAY_SHIFT`).
const PULSE: u64 = 1024;
const DECAY_SHIFT: u32 = 3;
/// Events that count as recent (`NR_RECENT`).
const RECENT: usize = 9;
/// Kinds of idle states: the core polls, or is left by `wake`.
const POLLS: u64 = 0;
const DEEP: u64 = 2;

/// An idle state, and what happened to stays that ended in its bin: as long as the state's
/// residency, and shorter than the next one's.
#[derive(Clone, Copy)]
struct State {
    exit: u64,
    residency: u64,
    depth: u64,
    /// Stays that ended here although the timer was further away.
    intercepts: u64,
    /// Stays that the timer ended.
    hits: u64,
    /// Intercepts among the last events.
    recent: u64,
}

/// A stay in an idle state that has not ended.
#[derive(Clone, Copy)]
struct Stay {
    began: u64,
    state: usize,
    /// The tick goes on.
    ticks: bool,
}

struct Policy {
    tick: u64,
    /// Time until the next timer (`sleep_length_ns`).
    sleep_length: u64,
    states: [State; MOST],
    count: usize,
    total: u64,
    /// Bins of the last intercepts; `MOST` for a hit.
    last: [usize; RECENT],
    next: usize,
    stay: Option<Stay>,
}

impl Policy {
    const fn new() -> Policy {
        let state = State { exit: 0, residency: 0, depth: 0, intercepts: 0, hits: 0, recent: 0 };
        Policy {
            tick: 0,
            sleep_length: 0,
            states: [state; MOST],
            count: 0,
            total: 0,
            last: [MOST; RECENT],
            next: 0,
            stay: None,
        }
    }

    /// Decides on an event at `now`, in picoseconds.
    fn decide(&mut self, now: u64, event: Event, reply: &mut Reply) {
        match event {
            Event::Start(start) => (self.tick, self.sleep_length) = (start.tick, start.timer),
            Event::IdleState { exit, residency, depth, .. } if self.count < MOST => {
                let state = &mut self.states[self.count];
                (state.exit, state.residency, state.depth) = (exit, residency, depth);
                self.count += 1;
            }
            Event::IdleBegin => self.select(now, reply),
            // A core in a deep state does not feel the tick: its clock is off.
            Event::Timer => {
                self.update(now, true);
                self.select(now, reply);
            }
            Event::IdleEnd { .. } if self.is_deep() => reply.request(Action::Wake),
            Event::IdleEnd { .. } | Event::Awake => {
                reply.stop_timer();
                self.update(now, false);
            }
            _ => {}
        }
    }

    fn is_deep(&self) -> bool {
        self.stay.is_some_and(|stay| self.states[stay.state].depth == DEEP)
    }

    /// Learns from a stay (`teo_update`). The kernel measures a stay up to the first instruction
    /// after it; a halt ends here when the interrupt comes, so that the exit of a stopped clock
    /// is still to come.
    fn update(&mut self, now: u64, by_tick: bool) {
        let Some(stay) = self.stay.take() else { return };
        let stopped = self.states[..self.count].iter().find(|state| state.depth != POLLS);
        let span = now - stay.began + stopped.map_or(0, |state| state.exit);
        let exit = self.states[stay.state].exit;
        // The safety net of the tick, or the timer itself, ended it; it might have lasted. Else
        // half of the exit latency is taken off, as an average of what the exit really takes.
        let measured = match span {
            _ if stay.ticks && by_tick || span >= self.sleep_length => u64::MAX,
            _ if span >= exit => span - exit / 2,
            _ => span / 2,
        };
        self.total = 0;
        let (mut of_timer, mut of_stay) = (0, 0);
        for (n, state) in self.states[..self.count].iter_mut().enumerate() {
            state.hits -= state.hits >> DECAY_SHIFT;
            state.intercepts -= state.intercepts >> DECAY_SHIFT;
            self.total += state.hits + state.intercepts;
            if state.residency <= self.sleep_length {
                of_timer = n;
                if state.residency <= measured {
                    of_stay = n;
                }
            }
        }
        let forgotten = self.last[self.next];
        if forgotten < MOST {
            self.states[forgotten].recent -= 1;
        }
        if of_timer == of_stay {
            self.states[of_timer].hits += PULSE;
            self.last[self.next] = MOST;
        } else {
            self.states[of_stay].intercepts += PULSE;
            self.states[of_stay].recent += 1;
            self.last[self.next] = of_stay;
        }
        self.next = (self.next + 1) % RECENT;
        self.total += PULSE;
    }

    /// Chooses a state (`teo_select`).
    fn select(&mut self, now: u64, reply: &mut Reply) {
        reply.stop_timer();
        if self.count == 0 {
            return;
        }
        // The deepest state that is worth it until the next timer.
        let (mut chosen, mut expected) = (0, self.sleep_length);
        while chosen + 1 < self.count && self.states[chosen + 1].residency <= self.sleep_length {
            chosen += 1;
        }
        let shallower = &self.states[..chosen];
        let intercepts: u64 = shallower.iter().map(|state| state.intercepts).sum();
        let hits: u64 = shallower.iter().map(|state| state.hits).sum();
        let recent: u64 = shallower.iter().map(|state| state.recent).sum();
        // Stays were cut short more often than they reached it: of all, or of the last ones.
        let often = 2 * intercepts > self.total - hits;
        let lately = recent > RECENT as u64 / 2;
        if often || lately {
            // The deepest state that more than half of the stays which were cut short had reached.
            let (mut intercepts_from, mut recent_from) = (0, 0);
            for n in (0..chosen).rev() {
                intercepts_from += self.states[n].intercepts;
                recent_from += self.states[n].recent;
                if (!lately || 2 * recent_from > recent)
                    && (!often || 2 * intercepts_from > intercepts)
                {
                    expected = (self.states[n].residency + self.states[n + 1].residency) / 2;
                    chosen = n;
                    break;
                }
            }
        }
        // The tick is the safety net of a state that is expected to be short.
        let ticks = self.states[chosen].depth == POLLS || expected < self.tick;
        let until_tick = self.tick - now % self.tick;
        if ticks && self.states[chosen].residency > until_tick {
            while chosen > 0 && self.states[chosen].residency > until_tick {
                chosen -= 1;
            }
        }
        if ticks && self.states[chosen].depth != DEEP {
            reply.set_timer(now + until_tick);
        }
        self.stay = Some(Stay { began: now, state: chosen, ticks });
        reply.request(Action::Rest { state: chosen as u8 });
    }
}
