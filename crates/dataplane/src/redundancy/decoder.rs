//! Putting packets together again.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{name, Restored, Ring, ENCODED, HEAD, REFERENCE, REFUSED, WINDOW};
use crate::counters::DropReason;
use crate::wire::be16;

/// Parts of the store, each with a lock of its own: workers rarely meet.
const PARTS: usize = 16;

/// Packets that came over the link recently, by name. All workers share them: a reference may be to
/// a packet that another worker received.
#[derive(Debug)]
pub(super) struct Decoder {
    parts: Vec<Mutex<Part>>,
}

#[derive(Debug)]
pub(super) struct Part {
    ring: Ring,
    pub(super) places: HashMap<u64, (u64, u16), BuildHasherDefault<Name>>,
    /// Names in the order in which they came.
    pub(super) order: VecDeque<(u64, u64)>,
    pub(super) most: usize,
}

/// Names are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Name(u64);

impl Hasher for Name {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u64(&mut self, name: u64) {
        // The lowest bits chose the part, so all names of one part have them in common.
        self.0 = name.rotate_left(32);
    }
}

/// Reason why a packet could not be restored, and the names to refuse.
type Failure = (DropReason, Option<[u64; REFUSED]>);

impl Decoder {
    pub(super) fn new(bytes: usize) -> Decoder {
        let part = || {
            let bytes = bytes / PARTS;
            // As many as if payloads had 256 bytes on the mean; with shorter ones, names run out
            // before the ring does.
            let most = bytes / WINDOW / 4;
            // Room for all that can be kept, so that keeping a packet never allocates.
            Mutex::new(Part {
                ring: Ring::new(bytes),
                places: HashMap::with_capacity_and_hasher(most * 2, BuildHasherDefault::default()),
                order: VecDeque::with_capacity(most + 1),
                most,
            })
        };
        Decoder { parts: (0..PARTS).map(|_| part()).collect() }
    }

    pub(super) fn part(&self, name: u64) -> MutexGuard<'_, Part> {
        let part = &self.parts[name as usize % PARTS];
        // A worker that panicked may have left a name without its bytes: restored packets are
        // compared with their names.
        part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn keep(&self, name: u64, payload: &[u8]) {
        self.part(name).keep(name, payload);
    }

    /// Restores a payload to the beginning of `out`, and keeps it.
    pub(super) fn decode(
        &self,
        encoded: &[u8],
        key: u64,
        out: &mut [u8],
    ) -> Result<Restored, Failure> {
        let bad = (DropReason::RedundancyBad, None);
        let (head, mut rest) = encoded.split_first_chunk::<HEAD>().ok_or(bad)?;
        let (protocol, len) = (head[1], usize::from(be16(head, 2)));
        let expected = name_of(&head[4..]);
        if head[0] != ENCODED {
            return Err(bad);
        }
        // Never beyond the length that is stated: what a packet can grow to is bounded by it.
        let out = out.get_mut(..len).ok_or(bad)?;
        let mut done = 0;
        loop {
            let literal = usize::from(be16(rest.get(..2).ok_or(bad)?, 0));
            let bytes = rest.get(2..2 + literal).ok_or(bad)?;
            out.get_mut(done..done + literal).ok_or(bad)?.copy_from_slice(bytes);
            done += literal;
            rest = &rest[2 + literal..];
            if rest.is_empty() {
                break;
            }
            let (reference, after) = rest.split_first_chunk::<REFERENCE>().ok_or(bad)?;
            let lacking = name_of(reference);
            let [offset, len] = [8, 10].map(|at| usize::from(be16(reference, at)));
            let place = out.get_mut(done..done + len).ok_or(bad)?;
            // Copied under the lock: another worker's packet may overwrite it the moment after.
            if !self.part(lacking).copy(lacking, offset, place) {
                return Err((DropReason::RedundancyMissing, Some([lacking, expected])));
            }
            done += len;
            rest = after;
        }
        if done != len {
            return Err(bad);
        }
        // The one check of the whole: whatever was lost, mixed up or forged on the way, what goes
        // on is what the other end was given, or nothing.
        if name(out, key) != expected {
            return Err((DropReason::RedundancyMismatch, None));
        }
        self.keep(expected, out);
        Ok(Restored { len, protocol })
    }
}

fn name_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

impl Part {
    fn keep(&mut self, name: u64, payload: &[u8]) {
        let position = self.ring.push(payload);
        self.places.insert(name, (position, payload.len() as u16));
        self.order.push_back((name, position));
        // What has been overwritten is forgotten, and the oldest if there are too many.
        while let Some(&(oldest, at)) = self.order.front() {
            if self.order.len() <= self.most && self.ring.get(at, 0).is_some() {
                break;
            }
            self.order.pop_front();
            // Unless it has come again since.
            if self.places.get(&oldest).is_some_and(|place| place.0 == at) {
                self.places.remove(&oldest);
            }
        }
    }

    pub(super) fn copy(&self, name: u64, offset: usize, to: &mut [u8]) -> bool {
        let Some(&(position, len)) = self.places.get(&name) else { return false };
        let bytes = self.ring.get(position, len.into());
        let bytes = bytes.and_then(|bytes| bytes.get(offset..offset + to.len()));
        if let Some(bytes) = bytes {
            to.copy_from_slice(bytes);
        }
        bytes.is_some()
    }
}
