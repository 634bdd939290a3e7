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

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::checksum;
use crate::counters::DropReason;
use crate::forwarder::{Cx, Verdict, Worker};
use crate::frame::Frame;
use crate::settings::{RedundancySettings, SettingsError};
use crate::tables::App;
use crate::wire::{put16, V4Header, ETHERNET, ETHERTYPE_V4, V4};
use decoder::Decoder;
pub(crate) use encoder::Encoder;

/// Bytes that a fingerprint covers: shorter payloads are let alone.
const WINDOW: usize = 64;
/// Kind, protocol, length, name.
const HEAD: usize = 12;
/// Name, offset, length.
const REFERENCE: usize = 12;
const ENCODED: u8 = 1;
const REFUSAL: u8 = 2;
/// Names in one refusal: the one that is lacking, and that of the packet that is therefore lost.
const REFUSED: usize = 2;
/// Refusals that workers may be late for.
const KEPT: usize = 1024;

/// The name of a payload.
fn name(payload: &[u8], key: u64) -> u64 {
    xxh3_64_with_seed(payload, key)
}

/// What all workers of a router share.
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

    /// Those since `seen`; what is older than the last [`KEPT`] will be refused again.
    fn since(&self, seen: &mut u64, mut each: impl FnMut(u64)) {
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

/// Whether both ends keep this packet: then, and only then, it may be referred to.
fn is_kept(header: &V4Header) -> bool {
    !header.is_fragment() && header.total - header.len >= WINDOW
}

impl Worker {
    /// Encodes a packet that is to leave, if it goes over the link.
    pub(crate) fn encode(&mut self, redundancy: &Redundancy, port: u16, frame: &mut Frame<'_>) {
        let settings = &redundancy.settings;
        let Some(encoder) = self.encoder.as_mut().filter(|_| port == settings.link) else { return };
        let packet = &frame.bytes()[ETHERNET..];
        let Some(header) = V4Header::check(packet).ok().filter(is_kept) else { return };
        let mut seen = encoder.refusals_seen;
        redundancy.refusals.since(&mut seen, |name| encoder.mark(name));
        encoder.refusals_seen = seen;
        let payload = &packet[header.len..header.total];
        let Some(encoded) = encoder.encode(payload, header.protocol) else { return };
        let (len, saved) = (encoded.len(), payload.len() - encoded.len());
        let packet = &mut frame.bytes_mut()[ETHERNET..];
        packet[header.len..header.len + len].copy_from_slice(encoded);
        frame.truncate(ETHERNET + header.len + len);
        rewrite(&mut frame.bytes_mut()[ETHERNET..], header.len, settings.protocol);
        self.counters.redundancy_encoded += 1;
        self.counters.redundancy_saved_bytes += saved as u64;
    }

    /// Keeps a packet that came over the link, restoring it first if it is encoded. Returns its new
    /// header if it has one.
    pub(crate) fn restore(
        &mut self,
        cx: &mut Cx<'_>,
        port: u16,
        header: &V4Header,
        frame: &mut Frame<'_>,
    ) -> Result<Option<V4Header>, Verdict> {
        let App::Redundancy(redundancy) = &cx.tables.app else { return Ok(None) };
        let settings = &redundancy.settings;
        if port != settings.link {
            return Ok(None);
        }
        let payload = &frame.bytes()[ETHERNET + header.len..];
        if header.protocol != settings.protocol {
            if is_kept(header) {
                redundancy.decoder.keep(name(payload, settings.key), payload);
            }
            return Ok(None);
        }
        if payload.first() == Some(&REFUSAL) {
            return Err(self.refusal(cx, redundancy, header, payload));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let restored = redundancy.decoder.decode(payload, settings.key, &mut scratch);
        let done = match restored {
            Ok(restored) => put_back(frame, header.len, restored, &scratch),
            Err((reason, names)) => {
                self.scratch = scratch;
                if let Some(names) = names {
                    self.refuse_names(cx, settings, names);
                }
                return Err(Verdict::Drop(reason));
            }
        };
        self.scratch = scratch;
        self.counters.redundancy_decoded += u64::from(done.is_ok());
        done.map(Some).map_err(Verdict::Drop)
    }

    /// The other end lacks packets that this one refers to.
    fn refusal(
        &mut self,
        cx: &Cx<'_>,
        redundancy: &Redundancy,
        header: &V4Header,
        payload: &[u8],
    ) -> Verdict {
        let for_us = cx.tables.own_v4.contains(&header.dst);
        let from_peer = redundancy.settings.peer == Ipv4Addr::from(header.src);
        let Some(names) = payload.get(4..4 + 8 * REFUSED).filter(|_| for_us && from_peer) else {
            return Verdict::Drop(DropReason::RedundancyBad);
        };
        for name in names.chunks_exact(8) {
            redundancy.refusals.add(u64::from_be_bytes(name.try_into().unwrap_or_default()));
        }
        self.counters.redundancy_refused += 1;
        Verdict::Consumed
    }

    fn refuse_names(
        &mut self,
        cx: &mut Cx<'_>,
        settings: &RedundancySettings,
        names: [u64; REFUSED],
    ) {
        let Some(source) = cx.tables.v4_source(settings.link, settings.peer) else { return };
        self.with_scratch(ETHERNET + V4 + 4 + 8 * REFUSED, |worker, frame| {
            let bytes = frame.bytes_mut();
            put16(bytes, 12, ETHERTYPE_V4);
            let packet = &mut bytes[ETHERNET..];
            packet[V4..V4 + 4].copy_from_slice(&[REFUSAL, REFUSED as u8, 0, 0]);
            for (place, name) in packet[V4 + 4..].chunks_exact_mut(8).zip(names) {
                place.copy_from_slice(&name.to_be_bytes());
            }
            worker.v4_header(packet, settings.protocol, 0, (source, settings.peer));
            worker.originate(cx, settings.link, frame);
        });
    }

    /// Whether the packet would be taken for an encoded one at the link's other end.
    pub(crate) fn is_ambiguous(app: &App, port: u16, protocol: u8) -> bool {
        match app {
            App::Redundancy(redundancy) => {
                port == redundancy.settings.link && protocol == redundancy.settings.protocol
            }
            _ => false,
        }
    }
}

/// Where a restored payload lies in the scratch, and its protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Restored {
    len: usize,
    protocol: u8,
}

fn put_back(
    frame: &mut Frame<'_>,
    header_len: usize,
    restored: Restored,
    scratch: &[u8],
) -> Result<V4Header, DropReason> {
    let total = ETHERNET + header_len + restored.len;
    if let Some(more) = total.checked_sub(frame.len()) {
        frame.append(more).ok_or(DropReason::NoRoom)?;
    }
    frame.truncate(total);
    let packet = &mut frame.bytes_mut()[ETHERNET..];
    packet[header_len..].copy_from_slice(&scratch[..restored.len]);
    rewrite(packet, header_len, restored.protocol);
    V4Header::check(packet)
}

/// Length, protocol and checksum of a packet whose payload has changed.
fn rewrite(packet: &mut [u8], header_len: usize, protocol: u8) {
    let total = packet.len() as u16;
    put16(packet, 2, total);
    packet[9] = protocol;
    put16(packet, 10, 0);
    let sum = checksum::of(&packet[..header_len]);
    put16(packet, 10, sum);
}

/// The other end of the link must be on it.
pub(crate) fn check_peer(
    settings: &RedundancySettings,
    port: &crate::tables::Port,
) -> Result<(), SettingsError> {
    if port.has_v4_link(settings.peer) {
        return Ok(());
    }
    let what = "the other end of the link is on no network of its port";
    Err(SettingsError::Address { address: IpAddr::V4(settings.peer), what })
}

/// A FIFO of payloads: what is new overwrites what is oldest.
#[derive(Debug)]
struct Ring {
    bytes: Box<[u8]>,
    /// Where the next payload goes, counted from the beginning of time; modulo the size it is a
    /// place.
    head: u64,
}

impl Ring {
    fn new(bytes: usize) -> Ring {
        Ring { bytes: vec![0; bytes].into_boxed_slice(), head: 0 }
    }

    /// Keeps a payload and returns its position.
    fn push(&mut self, payload: &[u8]) -> u64 {
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
        let kept = position + self.bytes.len() as u64 >= self.head && position < self.head;
        let place = (position % self.bytes.len() as u64) as usize;
        self.bytes.get(place..place + len).filter(|_| kept)
    }
}

#[cfg(test)]
mod tests;
