//! Who is behind which Ethernet address: the table that all workers share, and what each worker
//! remembers of it. How neighbours are asked and answered is in `discovery`.
//!
//! The states are those of RFC 4861, 7.3, without "delay": an entry is incomplete (asked for,
//! packets wait), reachable, or stale (still used, and asked again by unicast).
//!
//! How many there may be, and who has to go for a new one, is in `rooms` (RFC 6583).

mod cache;
mod rooms;

use std::collections::HashMap;
use std::net::IpAddr;

use halfwink_units::Time;

pub(crate) use self::cache::Cache;
use self::rooms::{Rooms, Standing};
use crate::settings::StaticNeighbour;
use crate::wire::Mac;

/// An answer is believed this long (RFC 4861, 10: REACHABLE_TIME).
const REACHABLE: Time = Time::ns(30_000_000_000);
/// Between two requests, and how many there are (RFC 4861, 10: RETRANS_TIMER,
/// MAX_MULTICAST_SOLICIT).
const RETRY: Time = Time::ns(1_000_000_000);
const TRIES: u32 = 3;
/// A stale entry is asked about again at most this often, and is then trusted this long.
const TRUST: Time = RETRY;
/// Time without use after which an entry expires.
const UNUSED: Time = Time::ns(300_000_000_000);
/// Between two looks at all entries.
const LOOK: Time = Time::ns(100_000_000);
/// Packets that may wait for one neighbour.
pub(crate) const HELD: usize = 16;

/// A neighbour: the port it is behind, and its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) port: u16,
    /// IPv4 addresses as ::ffff:a.b.c.d, which no IPv6 neighbour has.
    pub(crate) address: u128,
}

const MAPPED: u128 = 0xffff_0000_0000;

impl Key {
    pub(crate) fn new(port: u16, address: IpAddr) -> Key {
        match address {
            IpAddr::V4(address) => Key::v4(port, address.into()),
            IpAddr::V6(address) => Key { port, address: address.into() },
        }
    }

    pub(crate) fn v4(port: u16, address: u32) -> Key {
        Key { port, address: MAPPED | u128::from(address) }
    }

    /// The address, if it is an IPv4 one.
    pub(crate) fn as_v4(self) -> Option<u32> {
        self.is_v4().then_some(self.address as u32)
    }

    fn is_v4(self) -> bool {
        self.address >> 32 == MAPPED >> 32
    }

    /// Returns whether both keys share port and family.
    fn is_beside(self, other: Key) -> bool {
        self.port == other.port && self.is_v4() == other.is_v4()
    }
}

/// A packet that waits, with its Ethernet header still to be written.
#[derive(Debug)]
pub(crate) struct Held {
    /// The port that it came in on; none for the router's own.
    pub(crate) from: Option<u16>,
    pub(crate) frame: Vec<u8>,
}

#[derive(Debug, Default)]
struct Neighbour {
    mac: Option<Mac>,
    fixed: bool,
    /// Standing, which decides the limit that the entry counts against; a fixed one counts against
    /// none.
    standing: Standing,
    /// Tells it from an earlier entry of the same key.
    serial: u64,
    confirmed: Time,
    used: Time,
    /// Requests sent since the last answer, and when the next is due.
    asked: u32,
    next: Option<Time>,
    queue: Vec<Held>,
}

/// Result of a look-up in the neighbour table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The address, valid until this time. With `ask`, send a request to confirm it.
    Known { mac: Mac, until: Time, ask: bool },
    /// The packet waits; `ask`: send the first request.
    Held { ask: bool },
    /// There is no more room to wait.
    Full,
}

/// Consequences of a neighbour's answer.
#[derive(Debug)]
pub(crate) struct Learnt {
    /// Workers must forget what they remember.
    pub(crate) forget: bool,
    /// Packets that waited for the address.
    pub(crate) released: Vec<Held>,
}

/// Work that has become due.
#[derive(Debug, Default)]
pub(crate) struct Due {
    /// Requests to send: to all, or to the neighbour at this Ethernet address.
    pub(crate) ask: Vec<(Key, Option<Mac>)>,
    /// Packets whose neighbour has been given meanwhile.
    pub(crate) ready: Vec<(Key, Mac, Vec<Held>)>,
    /// Packets whose neighbour did not answer.
    pub(crate) dead: Vec<Held>,
    /// Packets whose neighbour had to go for another one's sake.
    pub(crate) pushed_out: u64,
    /// Whether a neighbour was removed that workers may have cached.
    pub(crate) gone: bool,
}

/// All neighbours of a router.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    table: HashMap<Key, Neighbour>,
    rooms: Rooms,
    next_look: Time,
    serial: u64,
    /// Number of packets dropped by evictions, for the next [`Due`].
    pushed_out: u64,
    gone: bool,
}

impl Neighbours {
    /// Gives the fixed ones; what was learnt of others stays.
    pub(crate) fn set_static(&mut self, neighbours: &[StaticNeighbour]) {
        self.table.retain(|_, neighbour| !neighbour.fixed);
        for given in neighbours {
            let key = Key::new(given.port, given.address);
            let entry = self.table.entry(key).or_default();
            if !entry.fixed {
                self.rooms.leave(key, entry.standing);
            }
            entry.fixed = true;
            entry.standing = Standing::Nothing;
            // `due` hands over packets that have waited for it.
            entry.mac = Some(given.mac);
            entry.next = None;
        }
    }

    /// Forgets what was learnt of a port; packets that wait there go on waiting.
    pub(crate) fn forget(&mut self, port: u16) {
        let rooms = &mut self.rooms;
        self.table.retain(|&key, entry| {
            if key.port != port || entry.fixed {
                return true;
            }
            entry.mac = None;
            // Only an entry with a request under way has packets that wait: it goes if no answer
            // comes.
            let asked = entry.next.is_some();
            if asked {
                rooms.change(key, entry.serial, &mut entry.standing, Standing::Asked);
            } else {
                rooms.leave(key, entry.standing);
            }
            asked
        });
    }

    /// The neighbour's address, or a place for `packet`, which came in on the port `from`, to wait.
    pub(crate) fn resolve(
        &mut self,
        now: Time,
        from: Option<u16>,
        key: Key,
        packet: impl FnOnce() -> Held,
    ) -> Answer {
        if !self.table.contains_key(&key) {
            // Before room is made: a scan beyond the limit evicts no entry.
            if !self.rooms.may_ask(now, from) {
                return Answer::Full;
            }
            self.make_room(key);
            self.insert(now, key, Standing::Asked);
        }
        let entry = self.table.get_mut(&key).expect("there, or just made");
        entry.used = now;
        let Some(mac) = entry.mac else {
            if entry.queue.len() >= HELD {
                return Answer::Full;
            }
            entry.queue.push(packet());
            let ask = entry.next.is_none();
            if ask {
                entry.asked = 1;
                entry.next = Some(now.saturating_add(RETRY));
            }
            return Answer::Held { ask };
        };
        if entry.fixed {
            return Answer::Known { mac, until: Time::NEVER, ask: false };
        }
        // A packet goes to it: from now on no flood of strangers can evict it.
        self.rooms.change(key, entry.serial, &mut entry.standing, Standing::Known);
        let until = entry.confirmed.saturating_add(REACHABLE);
        if now < until {
            return Answer::Known { mac, until, ask: false };
        }
        // Stale: used all the same, and asked about meanwhile, so that traffic never waits for a
        // neighbour that it had (RFC 4861, 7.3.3).
        let ask = entry.next.is_none();
        if ask {
            entry.asked = 1;
            entry.next = Some(now.saturating_add(RETRY));
        }
        Answer::Known { mac, until: now.saturating_add(TRUST), ask }
    }

    fn insert(&mut self, now: Time, key: Key, standing: Standing) {
        self.serial += 1;
        let mut entry = Neighbour { used: now, serial: self.serial, ..Neighbour::default() };
        self.rooms.change(key, entry.serial, &mut entry.standing, standing);
        self.table.insert(key, entry);
    }

    /// Evicts an entry if there is no room for one more request.
    fn make_room(&mut self, key: Key) {
        let table = &self.table;
        let is_there = |key, serial, standing| is_there(table, key, serial, standing);
        let Some(goes) = self.rooms.who_goes(key, is_there) else { return };
        let goes = goes.or_else(|| {
            // Reached only if all entries are known. The serial number decides between equal times,
            // so that the order of the map does not.
            let there = table.iter().filter(|(at, n)| !n.fixed && at.is_beside(key));
            there.min_by_key(|(_, n)| (n.used, n.serial)).map(|(&at, _)| at)
        });
        let Some(goes) = goes else { return };
        self.push_out(goes);
    }

    fn push_out(&mut self, goes: Key) {
        let entry = self.table.remove(&goes).expect("it is there");
        self.rooms.leave(goes, entry.standing);
        self.pushed_out += entry.queue.len() as u64;
        self.gone |= entry.standing == Standing::Known;
    }

    /// Learns the address of a neighbour. `create` allows unsolicited answers; `replace` allows a
    /// change of address. Returns `None` if the answer is rejected or brings nothing new.
    pub(crate) fn learn(
        &mut self,
        now: Time,
        key: Key,
        mac: Mac,
        create: bool,
        replace: bool,
    ) -> Option<Learnt> {
        if !self.table.contains_key(&key) {
            if !create {
                return None;
            }
            self.make_room_for_a_stranger(key)?;
            self.insert(now, key, Standing::Stranger);
        }
        let entry = self.table.get_mut(&key).expect("there, or just made");
        if entry.fixed {
            return None;
        }
        let other = entry.mac.is_some_and(|old| old != mac);
        if other && !replace {
            return None;
        }
        let same = entry.mac == Some(mac);
        if entry.standing == Standing::Asked {
            self.rooms.change(key, entry.serial, &mut entry.standing, Standing::Known);
        }
        entry.mac = Some(mac);
        entry.confirmed = now;
        entry.next = None;
        entry.asked = 0;
        (!same).then(|| Learnt { forget: other, released: std::mem::take(&mut entry.queue) })
    }

    /// Evicts the oldest stranger if the table is full. Returns `None` if there is none, and so no
    /// room.
    fn make_room_for_a_stranger(&mut self, key: Key) -> Option<()> {
        if self.rooms.has_room(key) {
            return Some(());
        }
        let table = &self.table;
        let is_there = |key, serial, standing| is_there(table, key, serial, standing);
        let goes = self.rooms.oldest(key, Standing::Stranger, is_there)?;
        self.push_out(goes);
        Some(())
    }

    /// Retries, failures and expiry.
    pub(crate) fn due(&mut self, now: Time) -> Due {
        let mut due = Due::default();
        if now < self.next_look {
            return due;
        }
        self.next_look = now.saturating_add(LOOK);
        due.pushed_out = std::mem::take(&mut self.pushed_out);
        due.gone = std::mem::take(&mut self.gone);
        let rooms = &mut self.rooms;
        self.table.retain(|&key, entry| {
            if let (true, Some(mac)) = (entry.fixed, entry.mac) {
                if !entry.queue.is_empty() {
                    due.ready.push((key, mac, std::mem::take(&mut entry.queue)));
                }
                return true;
            }
            let failed = match entry.next {
                Some(next) if next <= now => {
                    if entry.asked < TRIES {
                        entry.asked += 1;
                        entry.next = Some(now.saturating_add(RETRY));
                        due.ask.push((key, entry.mac));
                    }
                    entry.next == Some(next)
                }
                _ => false,
            };
            let gone = failed || (entry.next.is_none() && now.saturating_sub(entry.used) > UNUSED);
            if gone {
                rooms.leave(key, entry.standing);
                due.gone |= entry.mac.is_some();
                due.dead.append(&mut entry.queue);
            }
            !gone
        });
        let table = &self.table;
        // Queues keep entries that have gone since, and would grow with them.
        self.rooms.tidy(|key, serial, standing| is_there(table, key, serial, standing));
        due
    }
}

/// Returns whether an entry is still the one that was queued.
fn is_there(table: &HashMap<Key, Neighbour>, key: Key, serial: u64, standing: Standing) -> bool {
    table.get(&key).is_some_and(|n| (n.serial, n.standing) == (serial, standing))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { port: 1, address: MAPPED | 0x0a00_0001 };
    const MAC: Mac = [2, 0, 0, 0, 0, 9];

    fn seconds(s: u64) -> Time {
        Time::ns(s * 1_000_000_000)
    }

    fn held() -> Held {
        Held { from: None, frame: Vec::new() }
    }

    #[test]
    fn an_unanswered_neighbour_is_asked_three_times_and_given_up() {
        let mut table = Neighbours::default();
        assert_eq!(table.resolve(Time::ZERO, None, KEY, held), Answer::Held { ask: true });
        for _ in 1..HELD {
            assert_eq!(table.resolve(Time::ZERO, None, KEY, held), Answer::Held { ask: false });
        }
        assert_eq!(table.resolve(Time::ZERO, None, KEY, held), Answer::Full);
        for s in [1, 2] {
            assert_eq!(table.due(seconds(s)).ask, [(KEY, None)]);
            assert!(table.due(seconds(s)).ask.is_empty());
        }
        let due = table.due(seconds(3));
        assert_eq!((due.ask.len(), due.dead.len(), due.gone), (0, HELD, false));
        assert_eq!(table.resolve(seconds(3), None, KEY, held), Answer::Held { ask: true });
    }

    #[test]
    fn an_answer_is_believed_for_a_while_then_confirmed_then_forgotten() {
        let mut table = Neighbours::default();
        assert!(table.learn(Time::ZERO, KEY, MAC, false, true).is_none(), "nobody asked");
        table.resolve(Time::ZERO, None, KEY, held);
        let learnt = table.learn(seconds(1), KEY, MAC, false, true).expect("asked");
        assert_eq!((learnt.forget, learnt.released.len()), (false, 1));
        let known = |until, ask| Answer::Known { mac: MAC, until: seconds(until), ask };
        assert_eq!(table.resolve(seconds(2), None, KEY, held), known(31, false));
        assert_eq!(table.resolve(seconds(31), None, KEY, held), known(32, true));
        assert_eq!(table.resolve(seconds(31), None, KEY, held), known(32, false));
        assert_eq!(table.due(seconds(32)).ask, [(KEY, Some(MAC))]);
        assert!(table.learn(seconds(32), KEY, MAC, false, true).is_none(), "nothing new");
        assert_eq!(table.resolve(seconds(33), None, KEY, held), known(62, false));
        // Another address: only if it may replace.
        assert!(table.learn(seconds(34), KEY, [4; 6], false, false).is_none());
        assert!(table.learn(seconds(34), KEY, [4; 6], false, true).expect("it may").forget);
        assert!(!table.due(seconds(300)).gone);
        assert!(table.due(seconds(334)).gone);
    }

    #[test]
    fn what_was_given_is_never_asked_for_nor_replaced() {
        let mut table = Neighbours::default();
        let given = StaticNeighbour { port: 1, address: [10, 0, 0, 1].into(), mac: MAC };
        table.set_static(&[given]);
        let forever = Answer::Known { mac: MAC, until: Time::NEVER, ask: false };
        assert_eq!(table.resolve(seconds(9999), None, KEY, held), forever);
        assert!(table.learn(Time::ZERO, KEY, [4; 6], true, true).is_none());
        table.set_static(&[]);
        assert_eq!(table.resolve(seconds(9999), None, KEY, held), Answer::Held { ask: true });
        table.set_static(&[given]);
        let due = table.due(seconds(9999));
        assert_eq!((due.ready.len(), due.dead.len()), (1, 0));
    }

    /// Entries of a room by standing, counted.
    fn counted(table: &Neighbours, of: Key) -> [usize; 3] {
        [Standing::Asked, Standing::Stranger, Standing::Known].map(|standing| {
            let all = table.table.iter().filter(|(key, _)| key.is_beside(of));
            all.filter(|(_, n)| n.standing == standing).count()
        })
    }

    #[test]
    fn rooms_know_who_is_in_them_whatever_happens() {
        let mut table = Neighbours::default();
        let mut state = 1_u64;
        for step in 0..60_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (what, who) = ((state >> 60) as u8, (state >> 40) as u32 % 6_000);
            let key = match who & 1 {
                0 => Key::v4(1, who),
                _ => Key { port: 1, address: u128::from(who) },
            };
            let now = Time::ns(step * 500_000);
            match what {
                0..=5 => drop(table.resolve(now, Some(0), key, held)),
                6..=10 => drop(table.learn(now, key, MAC, true, true)),
                11..=14 => drop(table.learn(now, key, [4; 6], false, true)),
                _ if step % 97 == 0 => table.forget(1),
                _ if step % 89 == 0 => {
                    let address = std::net::Ipv4Addr::from(who).into();
                    table.set_static(&[StaticNeighbour { port: 1, address, mac: MAC }]);
                }
                _ => drop(table.due(now)),
            }
            if step % 500 == 0 {
                for of in [Key::v4(1, 0), Key { port: 1, address: 0 }] {
                    let found = counted(&table, of);
                    assert_eq!(table.rooms.counts(of), found, "step {step}");
                    assert!(found[0] <= rooms::ASKED && found.iter().sum::<usize>() <= rooms::MOST);
                }
            }
        }
        assert!(table.rooms.longest_line() < 4 * rooms::MOST);
    }
}
