// SPDX-License-Identifier: GPL-2.0-or-later
//! The order of threads: one at a time, as on a machine with one CPU.
//!
//! A thread keeps its turn until it makes a system call, or has executed so many instructions while
//! others wait: [`QUANTUM`], if nothing else is said. Otherwise the trace would have no order, and
//! a thread that spins until another has done its work would fill it.

use std::collections::VecDeque;

/// Instructions of a turn while other threads wait, if nothing is said.
pub const QUANTUM: u64 = 100_000;

/// The thread that has the turn, and the threads that wait for it.
#[derive(Debug)]
pub struct Turns {
    holder: Option<u32>,
    waiting: VecDeque<u32>,
    used: u64,
    /// Instructions of a turn while others wait.
    turn: u64,
    /// Changes whenever a thread goes on.
    pub steps: u64,
}

impl Turns {
    /// Creates turns of so many instructions, of which no thread has one yet.
    #[must_use]
    pub fn new(turn: u64) -> Turns {
        Turns { holder: None, waiting: VecDeque::new(), used: 0, turn, steps: 0 }
    }

    /// Returns whether the thread has the turn.
    #[inline]
    #[must_use]
    pub fn has(&self, thread: u32) -> bool {
        self.holder == Some(thread)
    }

    /// Asks for the turn; false if the thread has to wait.
    pub fn ask(&mut self, thread: u32) -> bool {
        if self.holder.is_none() && self.waiting.is_empty() {
            self.give(thread);
            return true;
        }
        self.waiting.push_back(thread);
        false
    }

    /// Asks again, while waiting.
    pub fn ask_again(&mut self, thread: u32) -> bool {
        let next = self.holder.is_none() && self.waiting.front() == Some(&thread);
        if next {
            self.take(thread);
        }
        next
    }

    /// Takes the turn of a thread that does not go on: it may wait for this one inside QEMU.
    pub fn take(&mut self, thread: u32) {
        self.waiting.retain(|&other| other != thread);
        self.give(thread);
    }

    fn give(&mut self, thread: u32) {
        self.holder = Some(thread);
        self.used = 0;
    }

    /// Ends the thread's turn; returns whether another waits.
    pub fn release(&mut self, thread: u32) -> bool {
        if self.holder == Some(thread) {
            self.holder = None;
        }
        !self.waiting.is_empty()
    }

    /// Counts instructions of the thread that has the turn; returns whether it ends.
    #[inline]
    pub fn spend(&mut self, instructions: u64) -> bool {
        self.steps += 1;
        self.used += instructions;
        self.used >= self.turn && !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_given_in_the_order_of_asking() {
        let mut turns = Turns::new(QUANTUM);
        assert!(turns.ask(1));
        assert!(!turns.ask(2) && !turns.ask(3));
        assert!(!turns.ask_again(2), "thread 1 has it");
        assert!(turns.release(1));
        assert!(!turns.ask_again(3), "thread 2 asked first");
        assert!(turns.ask_again(2) && turns.has(2));
        assert!(!turns.ask(1), "behind thread 3");
        turns.release(2);
        assert!(!turns.ask_again(1) && turns.ask_again(3));
    }

    #[test]
    fn quantum_ends_only_while_others_wait() {
        let mut turns = Turns::new(QUANTUM);
        turns.ask(1);
        assert!(!turns.spend(QUANTUM));
        turns.ask(2);
        assert!(turns.spend(1));
    }

    #[test]
    fn turn_of_a_thread_that_is_stuck_is_taken() {
        let mut turns = Turns::new(QUANTUM);
        turns.ask(1);
        turns.ask(2);
        turns.take(2);
        assert!(turns.has(2));
        assert!(!turns.release(1), "it has none, and nobody waits");
        assert!(turns.has(2));
    }
}
