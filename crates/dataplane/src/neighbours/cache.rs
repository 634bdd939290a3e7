//! What a worker remembers of neighbours.

use halfwink_units::Time;

use super::Key;
use crate::wire::Mac;

/// Neighbours that one worker remembers.
const REMEMBERED: usize = 1024;

/// Cache of the neighbour table in one worker, which saves a lock for each packet.
#[derive(Debug)]
pub(crate) struct Cache {
    slots: Vec<(Key, Mac, Time)>,
    epoch: u64,
}

impl Default for Cache {
    fn default() -> Cache {
        let nobody = (Key { port: 0, address: 0 }, [0; 6], Time::ZERO);
        Cache { slots: vec![nobody; REMEMBERED], epoch: 0 }
    }
}

impl Cache {
    fn place(key: Key) -> usize {
        let folded = (key.address >> 64) as u64 ^ key.address as u64 ^ u64::from(key.port) << 48;
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % REMEMBERED
    }

    #[inline]
    pub(crate) fn get(&mut self, now: Time, key: Key, epoch: u64) -> Option<Mac> {
        if epoch != self.epoch {
            self.epoch = epoch;
            self.slots.iter_mut().for_each(|slot| slot.2 = Time::ZERO);
        }
        let &(held, mac, until) = &self.slots[Cache::place(key)];
        (held == key && now < until).then_some(mac)
    }

    pub(crate) fn put(&mut self, key: Key, mac: Mac, until: Time) {
        self.slots[Cache::place(key)] = (key, mac, until);
    }
}
