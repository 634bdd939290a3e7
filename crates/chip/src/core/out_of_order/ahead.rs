//! Fetch ahead of dispatch: a queue of lines that were looked up, and of branches that were
//! predicted, so that what a line takes to come is spent beside other lines' and other work
//! (decoupled front end: Reinman, Austin, Calder, ISCA 1999).
//!
//! Fetch goes on past what it predicts right and knows of. It stands still at a branch that is
//! predicted wrong until that is resolved, at one whose target it has not until that is decoded,
//! and at whatever lies between instructions until dispatch is there.
//!
//! Prediction happens here, in the order of the program, so it is the same that dispatch alone
//! would have had.

use std::collections::VecDeque;

use halfwink_units::Cycle;

use super::{Front, OutOfOrder};
use crate::branch::Guess;
use crate::cpi_stack::Reason;
use crate::front_end::Coming;
use crate::machine::FetchSpec;
use crate::miss::UNKNOWN;
use crate::private::Access;
use crate::uop::Uop;

/// Reason why fetch waits, beside a full queue and the end of the visible items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    No,
    /// No instruction miss register is free.
    Register,
    /// A branch has not been resolved.
    Branch,
    /// The next line's translation, which the shared levels have to bring.
    Walk,
    /// The next line's translation, which is ready at this cycle.
    Until(Cycle),
    /// A redirect, after which fetch begins at this cycle.
    Turns(Cycle),
}

impl Block {
    /// Returns the wait for a translation: until `at`, or for the shared levels if that is unknown.
    fn walked(at: Cycle) -> Block {
        if at == UNKNOWN {
            Block::Walk
        } else {
            Block::Until(at)
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Line {
    line: u64,
    /// Cycle at which it is present, or [`UNKNOWN`].
    ready: Cycle,
}

#[derive(Debug)]
pub(super) struct Ahead {
    lines: VecDeque<Line>,
    /// Predictions of the branches ahead of dispatch, and whether each is taken.
    guesses: VecDeque<(Guess, bool)>,
    queue: usize,
    lines_per_cycle: usize,
    /// Lines looked up in this cycle.
    cycle: Cycle,
    looked_up: usize,
    moved: bool,
    /// Cycles from a line's arrival to its dispatch, and from the look-up of one that is there.
    depth: Cycle,
    there: Cycle,
    pub(super) block: Block,
}

impl Ahead {
    /// Returns none if fetch does not run ahead; the instruction cache takes this `latency`.
    pub(super) fn new(spec: FetchSpec, latency: Cycle) -> Option<Box<Ahead>> {
        (spec.queue > 0).then(|| {
            Box::new(Ahead {
                lines: VecDeque::with_capacity(spec.queue),
                guesses: VecDeque::with_capacity(spec.queue),
                queue: spec.queue,
                lines_per_cycle: spec.lines_per_cycle,
                cycle: 0,
                looked_up: 0,
                moved: false,
                depth: spec.depth.unwrap_or(0),
                there: spec.depth.map_or(0, |depth| latency + depth),
                block: Block::No,
            })
        })
    }

    /// Another thread begins: nothing is in flight.
    pub(super) fn begin(&mut self) {
        debug_assert!(self.lines.is_empty() && self.guesses.is_empty(), "the last one's are left");
        self.block = Block::No;
    }

    /// The front end turns: what comes next is dispatched at `at` if its line is there.
    pub(super) fn turn(&mut self, now: Cycle, at: Cycle) {
        let begins = at.saturating_sub(self.there);
        let is_later = self.there > 0 && begins > now;
        self.block = if is_later { Block::Turns(begins) } else { Block::No };
    }

    /// Short branches in one line add no lines: both are bounded.
    fn has_room(&self) -> bool {
        self.lines.len() < self.queue && self.guesses.len() < self.queue
    }
}

impl<const W: usize, const N: usize> OutOfOrder<W, N> {
    /// Looks up lines, as many as a cycle allows; true if fetch has moved in this cycle.
    #[inline]
    pub(super) fn fetch_ahead(&mut self, now: Cycle) -> bool {
        let Some(ahead) = &mut self.ahead else { return false };
        if ahead.cycle != now {
            (ahead.cycle, ahead.looked_up, ahead.moved) = (now, 0, false);
        }
        let waits = match ahead.block {
            Block::Branch => true,
            Block::Turns(cycle) => now < cycle,
            Block::No | Block::Register | Block::Walk | Block::Until(_) => false,
        };
        if waits || !ahead.has_room() {
            return ahead.moved;
        }
        ahead.block = Block::No;
        let (common, sizes) = (&mut self.common, self.sizes);
        while ahead.block == Block::No && ahead.has_room() {
            match common.front_end.coming() {
                Coming::Line(line, by, virt) => {
                    let last = ahead.lines.back().map_or(common.fetch_line, |last| last.line);
                    if line != last {
                        if ahead.looked_up == ahead.lines_per_cycle {
                            break;
                        }
                        let page = sizes.map(|sizes| common.front_end.code_page(virt, line, sizes));
                        let missing =
                            page.and_then(|p| common.private.translate([p; 2], true, by, now));
                        if let Some(at) = missing {
                            ahead.block = Block::walked(at);
                            break;
                        }
                        let work = &common.front_end.work;
                        let ready = match common.private.fetch(line, by, now, work) {
                            Access::Hit => now + ahead.there,
                            Access::At(cycle) => cycle + ahead.depth,
                            Access::Outstanding(_) => UNKNOWN,
                            Access::NoRegister => {
                                ahead.block = Block::Register;
                                break;
                            }
                        };
                        if let Some(page) = page {
                            common.private.translated([page; 2], true, by.kernel());
                        }
                        ahead.lines.push_back(Line { line, ready });
                        ahead.looked_up += 1;
                    }
                }
                Coming::Branch { branch, pc, fall_through, target, kernel } => {
                    let (guess, taken) = match target {
                        None => (Guess::Right, true),
                        Some(to) => {
                            let guess =
                                common.predictor.guess(branch, pc, fall_through, to, kernel);
                            (guess, to != fall_through)
                        }
                    };
                    ahead.guesses.push_back((guess, taken));
                    if guess != Guess::Right {
                        ahead.block = Block::Branch;
                    }
                }
                Coming::Nothing => break,
            }
            ahead.moved = true;
            common.front_end.pass_coming();
        }
        ahead.moved
    }

    /// Goes to the next line, which dispatch has come to; false if it is not there.
    pub(super) fn take_line(&mut self, line: u64, now: Cycle) -> bool {
        if self.ahead.as_ref().is_some_and(|ahead| ahead.lines.is_empty()) {
            self.fetch_ahead(now);
        }
        let Some(ahead) = &mut self.ahead else { return true };
        let Some(first) = ahead.lines.pop_front() else {
            match ahead.block {
                Block::Register => self.front = Front::FetchRegister,
                Block::Walk => (self.front, self.front_reason) = (Front::Translating, Reason::Tlb),
                Block::Until(at) => {
                    (self.front, self.front_reason) = (Front::Until(at), Reason::Tlb);
                }
                Block::No | Block::Branch | Block::Turns(_) => {}
            }
            return false;
        };
        debug_assert_eq!(first.line, line, "fetch goes where dispatch follows");
        self.common.fetch_line = line;
        self.front = match first.ready {
            ready if ready <= now => return true,
            UNKNOWN => Front::Fetch,
            ready => Front::Until(ready),
        };
        self.front_reason = Reason::Fetch;
        false
    }

    /// Returns the prediction of the branch in front, and whether it is taken.
    #[inline]
    pub(super) fn guess(&mut self, uop: &Uop, now: Cycle) -> (Guess, bool) {
        if self.ahead.as_ref().is_some_and(|ahead| ahead.guesses.is_empty()) {
            self.fetch_ahead(now);
        }
        let Some(ahead) = &mut self.ahead else { return self.common.branch(uop) };
        let guess = ahead.guesses.pop_front();
        debug_assert!(guess.is_some(), "fetch is never behind dispatch");
        let (guess, taken) = guess.unwrap_or((Guess::Right, true));
        if guess == Guess::Redirected {
            // It is decoded now.
            ahead.turn(now, now + self.common.redirect);
        }
        (guess, taken)
    }

    /// A line of instructions is there; true if fetch can move.
    pub(super) fn line_arrived(&mut self, line: u64, at: Cycle) -> bool {
        let Some(ahead) = &mut self.ahead else { return false };
        for waiting in ahead.lines.iter_mut().filter(|waiting| waiting.ready == UNKNOWN) {
            if waiting.line == line {
                waiting.ready = at + ahead.depth;
            }
        }
        let asks = ahead.block == Block::Register;
        if asks {
            ahead.block = Block::No;
        }
        asks
    }
}
