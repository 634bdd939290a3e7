//! Finding repeated bytes.

use super::{name, Ring, ENCODED, HEAD, REFERENCE, WINDOW};
use crate::fib::SplitMix;
use crate::settings::RedundancySettings;

/// Windows that are remembered are at least this far apart, so that a run of equal bytes does not
/// fill the index.
const APART: usize = 16;
/// Windows of one packet that are remembered: one every 16 bytes of the longest Ethernet packet.
const MOST_SAMPLES: usize = 96;
/// References in one packet.
const MOST_MATCHES: usize = 32;
/// Names that are marked as lacking at the other end. One that pushes another out of its place
/// costs a packet: the other is referred to, refused and marked again.
const MARKS: usize = 4096;

/// Number of refused names within [`OF_PACKETS`] packets from which the other end counts as having
/// lost its store: no older packet is referred to.
pub(super) const MOST_MARKED: u32 = 64;
const OF_PACKETS: u32 = 1024;

/// Gear hashing (Xia et al. 2014, "Ddelta"; 2016, "FastCDC"): each byte shifts the others up by
/// one bit, so that 64 bits hold a fingerprint of exactly the last 64 bytes.
static GEAR: [u64; 256] = gear();

const fn gear() -> [u64; 256] {
    let mut table = [0; 256];
    let mut random = SplitMix(0x6861_6c66_7769_6e6b);
    let mut n = 0;
    while n < 256 {
        table[n] = random.next();
        n += 1;
    }
    table
}

/// Location of a remembered window: the packet's number, and the offset in it.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    fingerprint: u64,
    packet: u32,
    offset: u16,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    /// Counted from 1; wraps with the window's.
    number: u32,
    len: u16,
    name: u64,
    position: u64,
}

/// Bytes of this packet that stand in an older one.
#[derive(Clone, Copy, Debug, Default)]
struct Match {
    start: usize,
    len: usize,
    name: u64,
    offset: usize,
}

/// One worker's memory of what it sent.
#[derive(Debug)]
pub(crate) struct Encoder {
    settings: RedundancySettings,
    ring: Ring,
    /// Packets by number, modulo the size.
    kept: Vec<Kept>,
    /// Windows by fingerprint; a newer one replaces an older.
    index: Vec<Window>,
    number: u32,
    marks: Vec<u64>,
    /// Marks since which packet, and the last packet that is not referred to.
    marked: u32,
    since: u32,
    floor: u32,
    pub(crate) refusals_seen: u64,
    encoded: Vec<u8>,
}

impl Encoder {
    pub(crate) fn new(settings: RedundancySettings) -> Encoder {
        let bytes = settings.encoder_bytes;
        let windows = (bytes >> settings.sample_bits.min(12)).next_power_of_two().max(1024);
        Encoder {
            ring: Ring::new(bytes),
            kept: vec![Kept::default(); (bytes / WINDOW / 4).next_power_of_two()],
            index: vec![Window::default(); windows],
            number: 0,
            marks: vec![0; MARKS],
            marked: 0,
            since: 0,
            floor: 0,
            refusals_seen: 0,
            encoded: Vec::with_capacity(1 << 16),
            settings,
        }
    }

    pub(crate) fn settings(&self) -> &RedundancySettings {
        &self.settings
    }

    /// The other end lacks this packet.
    pub(crate) fn mark(&mut self, name: u64) {
        self.marks[name as usize % MARKS] = name;
        if self.number.wrapping_sub(self.since) > OF_PACKETS {
            self.since = self.number;
            self.marked = 0;
        }
        self.marked += 1;
        if self.marked >= MOST_MARKED {
            self.floor = self.number;
            self.marked = 0;
        }
    }

    /// Keeps a payload, and returns it encoded if that is shorter.
    pub(crate) fn encode(&mut self, payload: &[u8], protocol: u8) -> Option<&[u8]> {
        self.number = self.number.wrapping_add(1).max(1);
        // Numbers are compared modulo 2^32. So the floor must follow, at the distance at which
        // packets are forgotten anyway: else, 2^31 packets on, all of them seem to lie below it.
        let oldest = self.number.wrapping_sub(self.kept.len() as u32);
        if oldest.wrapping_sub(self.floor) as i32 > 0 {
            self.floor = oldest;
        }
        // Looked up before it is kept: keeping it may overwrite what it refers to here, but the
        // other end keeps it after restoring it, when that has been read.
        let (matches, count) = self.matches(payload);
        let name = name(payload, self.settings.key);
        // If it is sent again, the other end has it again.
        if self.marks[name as usize % MARKS] == name {
            self.marks[name as usize % MARKS] = 0;
        }
        let position = self.ring.push(payload);
        let place = self.number as usize % self.kept.len();
        let len = payload.len() as u16;
        self.kept[place] = Kept { number: self.number, len, name, position };
        if count == 0 {
            return None;
        }
        self.write(payload, protocol, name, &matches[..count]);
        (self.encoded.len() < payload.len()).then_some(&self.encoded)
    }

    /// Regions that older packets hold, in order and apart.
    fn matches(&mut self, payload: &[u8]) -> ([Match; MOST_MATCHES], usize) {
        let mut matches = [Match::default(); MOST_MATCHES];
        let (mut count, mut covered) = (0, 0);
        let (samples, sampled) = sample(payload, self.settings.sample_bits);
        // All places are looked up before any is used: the misses overlap.
        let mut found = samples;
        for (window, sample) in found.iter_mut().zip(&samples[..sampled]) {
            let place = self.place(sample.fingerprint);
            *window = std::mem::replace(
                &mut self.index[place],
                Window { packet: self.number, ..*sample },
            );
        }
        for (window, sample) in found.iter().zip(&samples[..sampled]) {
            let start = usize::from(sample.offset);
            let same = window.fingerprint == sample.fingerprint;
            if !same || start < covered || count == MOST_MATCHES {
                continue;
            }
            if let Some(region) = self.expand(payload, start, covered, window) {
                covered = region.start + region.len;
                matches[count] = region;
                count += 1;
            }
        }
        (matches, count)
    }

    fn place(&self, fingerprint: u64) -> usize {
        let mixed = fingerprint.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 20) as usize & (self.index.len() - 1)
    }

    /// The longest region around a window that the older packet holds too, not before `from`.
    fn expand(&self, payload: &[u8], start: usize, from: usize, window: &Window) -> Option<Match> {
        // The index forgets nothing by itself: whether the packet is still there, the same one and
        // not refused is asked when it is used.
        let kept = &self.kept[window.packet as usize % self.kept.len()];
        let usable = kept.number == window.packet
            && window.packet != self.number
            // Numbers wrap.
            && window.packet.wrapping_sub(self.floor) as i32 > 0
            && self.marks[kept.name as usize % MARKS] != kept.name;
        let old = self.ring.get(kept.position, kept.len.into()).filter(|_| usable)?;
        // Fingerprints are no proof: the bytes are.
        let offset = usize::from(window.offset);
        if old.get(offset..offset + WINDOW) != Some(&payload[start..start + WINDOW]) {
            return None;
        }
        let before = old[..offset].iter().rev().zip(payload[from..start].iter().rev());
        let before = before.take_while(|(a, b)| a == b).count();
        let after = old[offset + WINDOW..].iter().zip(&payload[start + WINDOW..]);
        let after = after.take_while(|(a, b)| a == b).count();
        Some(Match {
            start: start - before,
            len: before + WINDOW + after,
            name: kept.name,
            offset: offset - before,
        })
    }

    fn write(&mut self, payload: &[u8], protocol: u8, name: u64, matches: &[Match]) {
        let out = &mut self.encoded;
        out.clear();
        out.extend_from_slice(&[ENCODED, protocol]);
        out.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        out.extend_from_slice(&name.to_be_bytes());
        debug_assert_eq!(out.len(), HEAD);
        let mut done = 0;
        let literal = |out: &mut Vec<u8>, bytes: &[u8]| {
            out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
            out.extend_from_slice(bytes);
        };
        for found in matches {
            debug_assert!(done <= found.start, "regions overlap");
            literal(out, &payload[done..found.start]);
            let before = out.len();
            out.extend_from_slice(&found.name.to_be_bytes());
            out.extend_from_slice(&(found.offset as u16).to_be_bytes());
            out.extend_from_slice(&(found.len as u16).to_be_bytes());
            debug_assert_eq!(out.len() - before, REFERENCE);
            done = found.start + found.len;
        }
        literal(out, &payload[done..]);
    }
}

/// The windows of a payload that are remembered, with their offsets, and how many there are.
fn sample(payload: &[u8], bits: u8) -> ([Window; MOST_SAMPLES], usize) {
    let mut samples = [Window::default(); MOST_SAMPLES];
    let mut count = 0;
    let apart = APART.max(payload.len().div_ceil(MOST_SAMPLES));
    let shift = 64 - u32::from(bits);
    let mut fingerprint = 0u64;
    let mut next = WINDOW - 1;
    for (at, &byte) in payload.iter().enumerate() {
        fingerprint = (fingerprint << 1).wrapping_add(GEAR[usize::from(byte)]);
        // The highest bits depend on all of the window.
        if fingerprint >> shift == 0 && at >= next {
            if let Some(sample) = samples.get_mut(count) {
                *sample = Window { fingerprint, packet: 0, offset: (at + 1 - WINDOW) as u16 };
                count += 1;
            }
            next = at + apart;
        }
    }
    (samples, count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_referred_to_whatever_their_number() {
        let settings =
            RedundancySettings { encoder_bytes: 1 << 20, sample_bits: 3, ..Default::default() };
        let mut random = SplitMix(7);
        // The floor is where that many packets, and no refusals, have left it.
        let most = i32::MAX as u32;
        for (number, floor) in
            [(0, 0), (most - 1, 0), (most, 0), (u32::MAX - 1, u32::MAX - 9000), (u32::MAX, most)]
        {
            let mut encoder = Encoder::new(settings.clone());
            (encoder.number, encoder.floor) = (number, floor);
            let payload: Vec<u8> = (0..1000).map(|_| random.next() as u8).collect();
            assert!(encoder.encode(&payload, 6).is_none(), "{number}: it is new");
            assert!(encoder.encode(&payload, 6).is_some(), "{number}: it went before");
        }
    }
}
