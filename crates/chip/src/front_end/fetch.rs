//! What fetch sees, which may be ahead of dispatch.

use halfwink_trace::{Address, Branch, Item};

use super::fetched::Fetched;
use super::FrontEnd;
use crate::by::{By, Coming};

impl FrontEnd {
    /// Returns the next item for fetch, which may be ahead of dispatch. Fetch never goes beyond an
    /// event, a change of privilege, or an operation that holds back what follows.
    #[inline]
    pub(crate) fn coming(&mut self) -> Coming {
        if self.run.is_none() {
            // The first run is begun by dispatch.
            return Coming::Nothing;
        }
        loop {
            let at = self.fetched;
            let run = &self.code.playable[at.template.0 as usize];
            if !at.branch {
                // What lies behind a wait in this run is fetched when that is over.
                let visible = if at.runs == 0 { self.lines_before_wait(run) } else { None };
                if at.lines < visible.unwrap_or_else(|| run.lines()) {
                    let offset = run.offset_of_line(at.lines);
                    let virt = run.pc.wrapping_add(u64::from(offset));
                    let line = self.placed(run.line_at(offset));
                    return Coming::Line(line, By::new(virt, run.kernel), virt);
                }
                if visible.is_some() {
                    return Coming::Nothing;
                }
                if run.branch != Branch::None {
                    let (branch, fall_through, kernel) = (run.branch, run.fall_through, run.kernel);
                    let pc = run.pc.wrapping_add(u64::from(run.branch_offset));
                    let target = match self.item_ahead(at.runs + 1) {
                        Item::Run(next) => Some(self.code.playable[next.0 as usize].pc),
                        _ => None,
                    };
                    return Coming::Branch { branch, pc, fall_through, target, kernel };
                }
            }
            let (serializes, kernel, repeated) = (run.serializes, run.kernel, run.ends_repeat);
            // As dispatch will: a run begins if instructions are left to play.
            if serializes || at.instructions >= self.left {
                return Coming::Nothing;
            }
            let Item::Run(next) = self.item_ahead(at.runs + 1) else { return Coming::Nothing };
            let run = &self.code.playable[next.0 as usize];
            if run.kernel != kernel {
                return Coming::Nothing;
            }
            let Some(accesses) = self.accesses_without_wait(next, at.runs + 1, at.accesses) else {
                return Coming::Nothing;
            };
            let repeats = run.starts_repeat && repeated == run.pc;
            self.fetched = Fetched {
                runs: at.runs + 1,
                template: next,
                lines: if self.strings.goes_on(run, repeats) { run.lines() } else { 0 },
                branch: false,
                instructions: at.instructions + u64::from(run.instrs),
                accesses: at.accesses + accesses,
            };
        }
    }

    /// Fetch goes past what is coming.
    #[inline]
    pub(crate) fn pass_coming(&mut self) {
        let lines = self.code.playable[self.fetched.template.0 as usize].lines();
        if self.fetched.lines < lines {
            self.fetched.lines += 1;
        } else {
            self.fetched.branch = true;
        }
    }

    /// The item so many (1 and more) behind the run in front, read if it was not.
    #[inline]
    fn item_ahead(&mut self, n: usize) -> Item {
        if n == 1 {
            return self.next;
        }
        if let Some(&(item, _)) = self.ahead.get(n - 2) {
            return item;
        }
        self.read_ahead(n)
    }

    fn read_ahead(&mut self, n: usize) -> Item {
        while self.ahead.len() < n - 1 {
            let last = self.ahead.back().map_or(self.next, |&(item, _)| item);
            if matches!(last, Item::End) {
                return Item::End;
            }
            // Reading makes the source forget what it has of the last item.
            if self.ahead.is_empty() && self.held.is_none() {
                self.held = Some(self.copy_of_addresses());
            }
            let item = self.read();
            let addresses = self.copy_of_addresses();
            self.ahead.push_back((item, addresses));
        }
        self.ahead[n - 2].0
    }

    /// Addresses of the item so many (1 and more) behind the run in front, which was read.
    pub(super) fn addresses_ahead(&self, n: usize) -> &[Address] {
        match n {
            1 => self.held.as_deref().unwrap_or_else(|| self.source.addresses()),
            _ => self.ahead.get(n - 2).map_or(&[], |(_, addresses)| addresses),
        }
    }

    fn copy_of_addresses(&mut self) -> Vec<Address> {
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(self.source.addresses());
        copy
    }
}
