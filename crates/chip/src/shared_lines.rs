//! Lines that copies of one recording share: text and what else none of them ever writes.
//!
//! A copy on a server is a process of its own on one kernel: kernel text, program and library text
//! and the page cache are there once; stacks, heaps and what a process changed are not. A recording
//! has the physical addresses of one such process and its kernel, and says who reads and writes
//! them. So a line is **shared** if no copy can have changed it:
//!
//! | page | private lines |
//! |---|---|
//! | that user code touches | all, if any line of it is ever written: its own, or a copy on write |
//! | that the kernel alone touches | those that are ever written |
//!
//! "Ever" is the whole recording, and what was dirty when it began. What that gets wrong: data that
//! a process wrote before the recording began, and only read since, counts as shared; the kernel's
//! written data, locks and counters, which are one on a server, count as private, so copies do not
//! contend for them.

use std::collections::HashMap;
use std::sync::Arc;

use halfwink_trace::{Item, Program, Source, TraceError, WarmSet};
use halfwink_units::{LINE_SHIFT, PAGE_SHIFT};

use crate::lines::{touches, Span, Touch};
use crate::number_set::NumberSet;

/// Lines of a page: as many as a group of the set has.
const LINES: u32 = PAGE_SHIFT - LINE_SHIFT;
const _: () = assert!(1 << LINES == u64::BITS);

/// Which lines of a recording its copies share.
#[derive(Clone, Debug)]
pub struct SharedLines {
    private: NumberSet,
}

/// No page: physical addresses are shorter.
const EMPTY: u64 = u64::MAX;

/// State of a page up to now.
#[derive(Clone, Copy, Debug, Default)]
struct Page {
    user: bool,
    written: u64,
}

impl SharedLines {
    /// Goes through a whole recording, that begins with these lines in its caches.
    ///
    /// # Errors
    /// If the recording is damaged.
    pub fn of(source: &mut dyn Source, warm: &WarmSet) -> Result<SharedLines, TraceError> {
        let program = Arc::clone(source.program());
        let mut pages = Pages { held: HashMap::new(), last: (EMPTY, Page::default()) };
        for line in &warm.lines {
            pages.touch(line.line.0, !line.kernel, line.dirty);
        }
        loop {
            let template = match source.next_item()? {
                Item::Run(id) => program.template(id),
                Item::Event(_) => continue,
                Item::End => break,
            };
            let block = program.block(template.block);
            touches(&program, template, source.addresses(), |touch| match touch {
                Touch::Fetch(_, instr) => {
                    let phys = Program::instr_phys(block, instr).0;
                    for line in Span::new(phys, instr.len).lines() {
                        pages.touch(line, !block.kernel, false);
                    }
                }
                Touch::Data(site, address) => {
                    for line in Span::new(address.phys.0, site.size).lines() {
                        pages.touch(line, !block.kernel, site.write);
                    }
                }
            });
        }
        pages.turn_to(EMPTY);
        Ok(SharedLines::new(&pages.held))
    }

    fn new(found: &HashMap<u64, Page>) -> SharedLines {
        let mut private = NumberSet::default();
        for (&page, &Page { user, written }) in found {
            private.add_all(page, if user && written != 0 { u64::MAX } else { written });
        }
        SharedLines { private }
    }

    /// True if copies have this line of the recording in common.
    #[inline]
    #[must_use]
    pub fn has(&self, line: u64) -> bool {
        !self.private.has(line)
    }
}

/// Pages of a recording, by number.
struct Pages {
    held: HashMap<u64, Page>,
    /// The page touched last, which is nearly always the next one too; not in `held` yet.
    last: (u64, Page),
}

impl Pages {
    #[inline]
    fn touch(&mut self, line: u64, user: bool, write: bool) {
        let number = line >> LINES;
        if self.last.0 != number {
            self.turn_to(number);
        }
        let page = &mut self.last.1;
        page.user |= user;
        page.written |= u64::from(write) << (line % u64::from(u64::BITS));
    }

    fn turn_to(&mut self, number: u64) {
        let (before, page) = self.last;
        self.held.insert(before, page);
        self.last = (number, self.held.get(&number).copied().unwrap_or_default());
    }
}
