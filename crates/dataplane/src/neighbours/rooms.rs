//! How many neighbours there may be, by port and family, and who goes for a new one: neither a scan
//! of a network nor a flood of strangers may keep a router from new neighbours, or make it forget
//! those that it has (RFC 6583).
//!
//! ```text
//!                     resolve: a packet for it            an answer
//!   (nothing) ───────────────────────────────▶ Asked ─────────────────▶ Known
//!       │                                                                 ▲
//!       └──────────▶ Stranger ────────────────────────────────────────────┘
//!         it asked for us            resolve: a packet for it
//! ```
//!
//! For one more that a packet is for, the oldest stranger goes, or who has been asked for longest,
//! or at last who was not used for longest. For one more stranger only another stranger goes.

use std::collections::{HashMap, VecDeque};

use halfwink_units::Time;

use super::Key;
use crate::limiter::Limiter;

/// Neighbours of one port and family, beside those that are given.
pub(super) const MOST: usize = 2048;
/// Limit of unresolved neighbours among those.
pub(super) const ASKED: usize = 512;
/// New neighbours that packets of one port may ask for at once; then one each millisecond.
const BURST: u64 = 512;

/// Reason why a neighbour is in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Standing {
    /// The entry is not in the table, or is static.
    #[default]
    Nothing,
    /// A packet is for it; it has not answered.
    Asked,
    /// The neighbour has resolved the router's address; no packet was sent to it yet.
    Stranger,
    /// Packets have gone to it.
    Known,
}

/// Queue in the order of arrival; entries that have changed or gone since are skipped.
type Line = VecDeque<(Key, u64)>;

#[derive(Debug, Default)]
struct Room {
    asked: usize,
    strangers: usize,
    known: usize,
    asked_line: Line,
    strangers_line: Line,
}

impl Room {
    fn count(&mut self, standing: Standing) -> Option<&mut usize> {
        match standing {
            Standing::Nothing => None,
            Standing::Asked => Some(&mut self.asked),
            Standing::Stranger => Some(&mut self.strangers),
            Standing::Known => Some(&mut self.known),
        }
    }

    fn line(&mut self, standing: Standing) -> Option<&mut Line> {
        match standing {
            Standing::Asked => Some(&mut self.asked_line),
            Standing::Stranger => Some(&mut self.strangers_line),
            Standing::Nothing | Standing::Known => None,
        }
    }

    fn all(&self) -> usize {
        self.asked + self.strangers + self.known
    }
}

/// The rooms of all ports, and how fast each may ask.
#[derive(Debug, Default)]
pub(super) struct Rooms {
    rooms: HashMap<(u16, bool), Room>,
    /// Rate limiters of requests, by port; `None` is for the router's own packets.
    limiters: HashMap<Option<u16>, Limiter>,
}

impl Rooms {
    fn room(&mut self, key: Key) -> &mut Room {
        self.rooms.entry((key.port, key.is_v4())).or_default()
    }

    /// Returns whether a packet from this port may cause one more request, and counts it.
    pub(super) fn may_ask(&mut self, now: Time, from: Option<u16>) -> bool {
        self.limiters.entry(from).or_insert_with(|| Limiter::new(BURST)).take(now)
    }

    /// An entry has another standing than before.
    pub(super) fn change(&mut self, key: Key, serial: u64, was: &mut Standing, is: Standing) {
        if *was == is {
            return;
        }
        self.leave(key, *was);
        let room = self.room(key);
        room.count(is).into_iter().for_each(|n| *n += 1);
        if let Some(line) = room.line(is) {
            line.push_back((key, serial));
        }
        *was = is;
        debug_assert!(room.all() <= MOST + 1, "{room:?}");
    }

    /// An entry that stood so is gone.
    pub(super) fn leave(&mut self, key: Key, was: Standing) {
        self.room(key).count(was).into_iter().for_each(|n| *n -= 1);
    }

    /// Drops what lines have been passed over, where that is most of one.
    pub(super) fn tidy(&mut self, is_there: impl Fn(Key, u64, Standing) -> bool) {
        for room in self.rooms.values_mut() {
            for standing in [Standing::Asked, Standing::Stranger] {
                let there = room.count(standing).map_or(0, |n| *n);
                let Some(line) = room.line(standing) else { continue };
                if line.len() > 2 * there + ASKED {
                    line.retain(|&(key, serial)| is_there(key, serial, standing));
                }
            }
        }
    }

    pub(super) fn has_room(&mut self, key: Key) -> bool {
        self.room(key).all() < MOST
    }

    /// Chooses the entry to evict for one more request. `None` means that there is room;
    /// `Some(None)` means that a known neighbour has to be evicted.
    pub(super) fn who_goes(
        &mut self,
        key: Key,
        is_there: impl Fn(Key, u64, Standing) -> bool + Copy,
    ) -> Option<Option<Key>> {
        let room = self.room(key);
        if room.asked >= ASKED {
            return Some(self.oldest(key, Standing::Asked, is_there));
        }
        if room.all() < MOST {
            return None;
        }
        let stranger = self.oldest(key, Standing::Stranger, is_there);
        Some(stranger.or_else(|| self.oldest(key, Standing::Asked, is_there)))
    }

    /// Removes and returns the entry that has had this standing for longest.
    pub(super) fn oldest(
        &mut self,
        key: Key,
        standing: Standing,
        is_there: impl Fn(Key, u64, Standing) -> bool,
    ) -> Option<Key> {
        let line = self.room(key).line(standing)?;
        while let Some((key, serial)) = line.pop_front() {
            if is_there(key, serial, standing) {
                return Some(key);
            }
        }
        None
    }

    #[cfg(test)]
    pub(super) fn counts(&mut self, key: Key) -> [usize; 3] {
        let room = self.room(key);
        [room.asked, room.strangers, room.known]
    }

    #[cfg(test)]
    pub(super) fn longest_line(&self) -> usize {
        let lines = |room: &Room| room.asked_line.len().max(room.strangers_line.len());
        self.rooms.values().map(lines).max().unwrap_or(0)
    }
}
