//! Redundancy elimination on one link (Spring and Wetherall 2000; Anand et al. 2008): bytes that
//! went over it lately are replaced by references to the packets that carried them.
//!
//! Both ends keep the payloads of the packets on the link. A packet's name is a hash of its
//! payload, which either end computes for itself, so that packets without repetition go over the
//! link as they are, and the ends cannot fall out of step: a packet that was lost, or came out of
//! order, is only a name that the decoder does not know. It then drops what it cannot restore and
//! tells the encoder the names that it lacks, which refers to them no more (informed marking:
//! Lumezanu et al. 2010).
//!
//! ```text
//!  IPv4 header (protocol: that of the link) | kind 1, protocol, length, name | pieces
//!  piece: length, bytes | name, offset, length     the last piece has no reference
//! ```

mod decoder;
mod encoder;
mod link;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::settings::{RedundancySettings, SettingsError};
use decoder::Decoder;
pub(crate) use encoder::Encoder;

/// Bytes that a fingerprint covers: shorter payloads are let alone.
const WINDOW: usize = 64;
/// Kind, protocol, length, name. The kind is in the payload and not in the IP protocol, of which
/// the link has one only.
const HEAD: usize = 12;
/// Size of a reference: name, offset and length.
const REFERENCE: usize = 12;
const ENCODED: u8 = 1;
const REFUSAL: u8 = 2;
/// Names in one refusal: the one that is lacking, and that of the packet that is therefore lost.
const REFUSED: usize = 2;
/// Refusals that workers may be late for.
const KEPT: usize = 1024;

/// The name of a payload. Keyed: who does not know the key cannot choose packets that have one
/// name, and have the decoder restore one for the other. (Who knows it can: XXH3 is no more than a
/// fast hash.)
fn name(payload: &[u8], key: u64) -> u64 {
    xxh3_64_with_seed(payload, key)
}

/// State that all workers of a router share.
#[derive(Debug)]
pub(crate) struct Redundancy {
    settings: RedundancySettings,
    decoder: Arc<Decoder>,
    refusals: Arc<Refusals>,
}

/// Names that the other end lacks, for all encoders to see.
#[derive(Debug, Default)]
struct Refusals {
    count: AtomicU64,
    names: Mutex<Vec<u64>>,
}

impl Refusals {
    fn add(&self, name: u64) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.count.load(Ordering::Relaxed);
        if names.len() < KEPT {
            names.push(name);
        } else {
            names[count as usize % KEPT] = name;
        }
        self.count.store(count + 1, Ordering::Release);
    }

    /// Visits the refusals since `seen`; names older than the last [`KEPT`] will be refused again.
    fn since(&self, seen: &mut u64, mut each: impl FnMut(u64)) {
        // Asked for each packet, while refusals are rare: no lock for nothing. Under the lock the
        // count is looked at again, so what comes in between is not lost.
        if self.count.load(Ordering::Acquire) == *seen {
            return;
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let count = self.count.load(Ordering::Relaxed);
        for n in (*seen).max(count.saturating_sub(KEPT as u64))..count {
            each(names[n as usize % KEPT]);
        }
        *seen = count;
    }
}

impl Redundancy {
    pub(crate) fn build(
        settings: &RedundancySettings,
        ports: usize,
        old: Option<&Redundancy>,
    ) -> Result<Redundancy, SettingsError> {
        crate::tables::port_exists("redundancy elimination", settings.link, ports)?;
        let value = |what, found, expected| Err(SettingsError::Value { what, found, expected });
        for (what, bytes) in
            [("encoder_bytes", settings.encoder_bytes), ("decoder_bytes", settings.decoder_bytes)]
        {
            if !(1 << 20..=1 << 34).contains(&bytes) {
                return value(what, bytes as u64, "1 MiB to 16 GiB");
            }
        }
        if !(1..=16).contains(&settings.sample_bits) {
            return value("sample_bits", settings.sample_bits.into(), "1 to 16");
        }
        let old = old.filter(|old| old.settings == *settings);
        let decoder = match old {
            Some(old) => old.decoder.clone(),
            None => Arc::new(Decoder::new(settings.decoder_bytes)),
        };
        let refusals = old.map(|old| old.refusals.clone()).unwrap_or_default();
        Ok(Redundancy { settings: settings.clone(), decoder, refusals })
    }

    pub(crate) fn settings(&self) -> &RedundancySettings {
        &self.settings
    }
}

/// Length of a restored payload in the scratch buffer, and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Restored {
    len: usize,
    protocol: u8,
}

/// A FIFO of payloads: what is new overwrites what is oldest.
#[derive(Debug)]
struct Ring {
    bytes: Box<[u8]>,
    /// Position of the next payload since the start; modulo the size it is an offset.
    head: u64,
}

impl Ring {
    fn new(bytes: usize) -> Ring {
        Ring { bytes: vec![0; bytes].into_boxed_slice(), head: 0 }
    }

    /// Keeps a payload and returns its position.
    fn push(&mut self, payload: &[u8]) -> u64 {
        // A part of the smallest store has 64 KiB, and no IP payload is as long.
        debug_assert!(payload.len() <= self.bytes.len(), "the ring is shorter than a payload");
        let size = self.bytes.len() as u64;
        let mut place = (self.head % size) as usize;
        if place + payload.len() > self.bytes.len() {
            // Payloads lie in one piece.
            self.head += size - place as u64;
            place = 0;
        }
        self.bytes[place..place + payload.len()].copy_from_slice(payload);
        let position = self.head;
        self.head += payload.len() as u64;
        position
    }

    /// The payload at a position, unless it has been overwritten.
    fn get(&self, position: u64, len: usize) -> Option<&[u8]> {
        // Positions never come round, so no byte has to say whose it is: what lies a ring's length
        // behind the head has been written over.
        let kept = position + self.bytes.len() as u64 >= self.head && position < self.head;
        let place = (position % self.bytes.len() as u64) as usize;
        self.bytes.get(place..place + len).filter(|_| kept)
    }
}

#[cfg(test)]
mod tests;
