//! The record of one association: when it is written, and how far ahead of use.

use std::time::Duration;

use halfwink_dataplane::{Bell, Direction, NumberRecord, Numbers};

/// Numbers at a time: outbound always, inbound at most. Half of it must last for as long as a
/// record takes to reach the disk; 2^32 numbers last for 16,384 crashes.
pub(super) const MOST_BLOCK: u64 = 1 << 18;
/// Inbound at least: so many of the peer's packets can be lost after a crash when few came.
pub(super) const LEAST_BLOCK: u64 = 128;
/// An inbound block that is used up within this time is followed by a greater one.
pub(super) const LOOK: Duration = Duration::from_secs(1);
/// After a record could not be written.
pub(super) const RETRY: Duration = Duration::from_secs(1);

/// Storage of a record. After a crash it holds either the record that was written or the one
/// before.
pub(super) trait Disk: Send {
    /// Returns once it cannot be lost any more.
    ///
    /// # Errors
    /// The file and why. Either record may be there then.
    fn write(&mut self, record: &NumberRecord) -> Result<(), String>;
}

/// One association's numbers, and the record of them.
pub(super) struct Kept {
    pub(super) spi: u32,
    /// Record on the disk; or, if a record with fewer numbers could not be written, that one.
    pub(super) record: NumberRecord,
    pub(super) numbers: Numbers,
    disk: Box<dyn Disk>,
    /// The last number that there is.
    most: u64,
    block: u64,
    /// Time of the last check of the pace, and the number that was wanted then.
    looked: (Duration, u64),
    raised: Duration,
    retry: Option<Duration>,
    problem: Option<String>,
    /// Lines to say, once each.
    pub(super) news: Vec<String>,
    warned: bool,
    ended: bool,
}

impl Kept {
    /// Begins where the record ends. The first numbers are reserved before it returns.
    ///
    /// # Errors
    /// The record cannot be written.
    pub(super) fn begin(
        (spi, esn): (u32, bool),
        record: NumberRecord,
        bell: Bell,
        disk: Box<dyn Disk>,
        now: Duration,
    ) -> Result<Kept, String> {
        let block = match record.direction {
            Direction::Outbound => MOST_BLOCK,
            Direction::Inbound => LEAST_BLOCK,
        };
        let mut kept = Kept {
            spi,
            numbers: Numbers::after(record.reserved, record.iv_base, bell),
            disk,
            most: if esn { u64::MAX } else { u64::from(u32::MAX) },
            block,
            looked: (now, record.reserved),
            raised: now,
            record,
            retry: None,
            problem: None,
            news: Vec::new(),
            warned: false,
            ended: false,
        };
        kept.raise(now);
        kept.problem.take().map_or(Ok(kept), Err)
    }

    /// Does the work that is due at `now`, which is since any start and never goes back. Returns
    /// the time of the next call that is needed without a request, if any.
    pub(super) fn care(&mut self, now: Duration) -> Option<Duration> {
        if self.ended {
            return None;
        }
        if let Some(retry) = self.retry.filter(|&retry| now < retry) {
            return Some(retry);
        }
        // Before `wanted`. Not while a write is waited for: each packet would ring.
        self.numbers.heard();
        let wanted = self.numbers.wanted();
        if self.record.reserved.saturating_sub(wanted) <= self.low() {
            self.grow(now, wanted);
            self.raise(now);
        } else if self.may_shrink() && now >= self.looked.0 + LOOK {
            self.shrink(now, wanted);
        }
        let look = self.may_shrink().then_some(self.looked.0 + LOOK);
        self.retry.or(look)
    }

    /// Returns the last error in writing the record, if it persists.
    pub(super) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Closes the numbers, and records those used, so that none is lost.
    ///
    /// # Errors
    ///
    /// The record cannot be written: it then reserves more than were used.
    pub(super) fn end(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.ended, true) {
            return Ok(());
        }
        let used = self.numbers.close();
        self.disk.write(&NumberRecord { reserved: used, ..self.record })
    }

    /// Returns the number of unused ones at which more are reserved.
    fn low(&self) -> u64 {
        match self.record.direction {
            Direction::Outbound => self.block / 2,
            // The first packets after a silence may come faster than a disk is.
            Direction::Inbound => self.block / 4 * 3,
        }
    }

    fn may_shrink(&self) -> bool {
        self.block > LEAST_BLOCK && self.record.direction == Direction::Inbound
    }

    fn grow(&mut self, now: Duration, wanted: u64) {
        if !self.may_shrink() {
            self.looked = (now, wanted);
        }
        if now < self.raised + LOOK {
            self.block = (self.block * 8).min(MOST_BLOCK);
        }
    }

    /// Records more numbers, then lets them be used.
    fn raise(&mut self, now: Duration) {
        let reserved = self.numbers.wanted().saturating_add(self.block).min(self.most);
        if reserved <= self.record.reserved {
            return;
        }
        let record = NumberRecord { reserved, ..self.record };
        if self.write(now, record) {
            self.raised = now;
            // Near the end there is nothing to be asked for any more.
            let low = if reserved == self.most { 0 } else { self.low() };
            self.numbers.raise(reserved, low);
        }
        if self.most - reserved <= self.most / 16 && !self.warned {
            self.warned = true;
            let (way, spi) = (self.record.direction.name(), self.spi);
            self.news.push(format!(
                "SPI {spi:#x}, {way}: less than a sixteenth of its sequence numbers is left, and \
                 after the last it stops: give both ends a new key"
            ));
        }
    }

    /// Less came than was reserved for: a crash would cost as many of the peer's packets.
    fn shrink(&mut self, now: Duration, wanted: u64) {
        let moved = wanted - self.looked.1;
        self.looked = (now, wanted);
        let block = moved.saturating_mul(2).clamp(LEAST_BLOCK, MOST_BLOCK);
        if block > self.block / 2 {
            return;
        }
        self.block = block;
        let low = self.low();
        if let Some(reserved) = self.numbers.lower(wanted.saturating_add(block), low) {
            let record = NumberRecord { reserved, ..self.record };
            // What is there still is more than what is used: that is safe.
            self.write(now, record);
            self.record = record;
        }
    }

    fn write(&mut self, now: Duration, record: NumberRecord) -> bool {
        match self.disk.write(&record) {
            Ok(()) => {
                self.record = record;
                self.retry = None;
                if self.problem.take().is_some() {
                    self.news.push(format!("SPI {:#x}: its record is written again", self.spi));
                }
                true
            }
            Err(why) => {
                self.retry = Some(now + RETRY);
                if self.problem.as_ref() != Some(&why) {
                    let left = self.record.reserved.saturating_sub(self.numbers.used());
                    let (way, spi) = (self.record.direction.name(), self.spi);
                    self.news.push(format!(
                        "{why}: SPI {spi:#x}, {way}, has {left} recorded sequence numbers left, \
                         and stops after them"
                    ));
                }
                self.problem = Some(why);
                false
            }
        }
    }
}
