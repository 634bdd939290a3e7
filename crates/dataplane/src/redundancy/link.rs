//! The link's element on a packet's way: encodes what leaves by it, restores what comes over it.

use std::net::Ipv4Addr;

use super::{name, Redundancy, Restored, REFUSAL, REFUSED, WINDOW};
use crate::checksum;
use crate::counters::DropReason;
use crate::frame::Frame;
use crate::settings::RedundancySettings;
use crate::tables::App;
use crate::verdict::Verdict;
use crate::wire::{put16, V4Header, ETHERNET, ETHERTYPE_V4, V4};
use crate::worker::{Cx, Worker};

/// Returns whether both ends keep this packet: then, and only then, it may be referred to.
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
        // It is shorter, so it fits where the payload was: no room is asked for.
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
        // What came as it is must be kept as well: the other end may refer to it from now on.
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
        // From the peer alone, and to this router: a stranger's refusals would switch the encoder
        // off, name by name.
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

    /// Returns whether the link's other end would take the packet for an encoded one.
    pub(crate) fn is_ambiguous(app: &App, port: u16, protocol: u8) -> bool {
        match app {
            App::Redundancy(redundancy) => {
                port == redundancy.settings.link && protocol == redundancy.settings.protocol
            }
            _ => false,
        }
    }
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
