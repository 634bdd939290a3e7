//! ESP in tunnel mode (RFC 4303) with AES-GCM (RFC 4106).
//!
//! ```text
//!  Ethernet | outer IP | SPI | sequence | IV (8) | inner packet, padding, its length, next | tag
//! (16)
//!                      |<--- authenticated -->|  |<--------------- encrypted ------------>|
//! ```

mod lifetime;
mod numbers;
mod record;
mod replay;

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use ring::aead::{Aad, LessSafeKey, Nonce, UnboundKey, AES_128_GCM, AES_256_GCM};

use crate::counters::DropReason;
use crate::frame::Frame;
use crate::settings::{AeadKey, ClosedTunnel, IpsecSettings, SecurityAssociation, SettingsError};
pub use lifetime::Lifetime;
pub use numbers::{Bell, Numbers};
pub use record::{AssociationId, Direction, NumberRecord, RecordError};

use crate::wire::{self, be32, put16, put32, ETHERNET, ETHERTYPE_V4, ETHERTYPE_V6, V4, V6};

/// SPI and sequence number, and the initialisation vector behind them.
const HEAD: usize = 8;
const IV: usize = 8;
const TAG: usize = 16;
/// Padding's length and the next header.
const TRAILER: usize = 2;
/// SPIs below are reserved (RFC 4303, 2.1).
const LEAST_SPI: u32 = 256;

/// All associations of a router.
#[derive(Debug, Default)]
pub(crate) struct Ipsec {
    pub(crate) outbound: Vec<Outbound>,
    closed: Vec<ClosedTunnel>,
    inbound: HashMap<u32, Inbound>,
    pub(crate) kernel: bool,
}

/// A direction that this router encrypts.
pub(crate) struct Outbound {
    association: SecurityAssociation,
    key: LessSafeKey,
}

/// A direction that this router decrypts.
struct Inbound {
    association: SecurityAssociation,
    key: LessSafeKey,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outbound({:#x}, {:?})", self.association.spi, self.association.numbers)
    }
}

impl fmt::Debug for Inbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Inbound({:#x}, {:?})", self.association.spi, self.association.numbers)
    }
}

impl Ipsec {
    /// Prepares the security associations.
    pub(crate) fn build(settings: &IpsecSettings, own: &[IpAddr]) -> Result<Ipsec, SettingsError> {
        let all: Vec<_> = settings.outbound.iter().chain(&settings.inbound).collect();
        for (n, association) in all.iter().enumerate() {
            check(association, own)?;
            // Two counters under one key would give out the same initialisation vectors, and GCM
            // is broken by the first that comes twice (RFC 4106, 3.1).
            if all[..n].iter().any(|other| other.key == association.key) {
                let what = "another association has the same key and salt";
                return Err(SettingsError::Association { spi: association.spi, what });
            }
        }
        let ready = |association: &SecurityAssociation| {
            Ok(Outbound { key: aead(association)?, association: association.clone() })
        };
        let outbound = settings.outbound.iter().map(ready).collect::<Result<_, _>>()?;
        let mut inbound = HashMap::new();
        for association in &settings.inbound {
            let ready = Inbound { key: aead(association)?, association: association.clone() };
            if inbound.insert(association.spi, ready).is_some() {
                let what = "two inbound associations have it";
                return Err(SettingsError::Association { spi: association.spi, what });
            }
        }
        Ok(Ipsec { outbound, closed: settings.closed.clone(), inbound, kernel: settings.kernel })
    }

    /// The association that packets to `to` leave by, as its place in the list.
    ///
    /// # Errors
    ///
    /// They are a tunnel's that has none now: they must not leave in the clear.
    #[inline]
    pub(crate) fn outbound_for(&self, to: IpAddr) -> Result<Option<usize>, DropReason> {
        let found = self.outbound.iter().position(|outbound| {
            enters(&outbound.association.selectors, outbound.association.peer, to)
        });
        let closed = self.closed.iter().any(|tunnel| {
            found.is_none_or(|place| tunnel.before <= place)
                && enters(&tunnel.selectors, tunnel.peer, to)
        });
        if closed {
            return Err(DropReason::EspNoKey);
        }
        Ok(found)
    }

    /// Returns whether a packet that came in the clear should have come through a tunnel.
    #[inline]
    pub(crate) fn is_missing(&self, from: IpAddr, protocol: u8) -> bool {
        if !self.kernel || protocol == wire::ESP {
            return false;
        }
        let behind = |selectors: &[IpNet], peer: IpAddr| {
            selectors.iter().any(|prefix| prefix.contains(&from))
                // Neighbour discovery.
                && !(from == peer && protocol == wire::ICMP6)
        };
        let open = self.outbound.iter().map(|o| (&o.association.selectors, o.association.peer));
        let closed = self.closed.iter().map(|tunnel| (&tunnel.selectors, tunnel.peer));
        open.chain(closed).any(|(selectors, peer)| behind(selectors, peer))
    }

    /// Decrypts, in place, an ESP packet whose outer header has `outer` bytes: what is left is the
    /// Ethernet header and the inner packet.
    pub(crate) fn open(
        &self,
        frame: &mut Frame<'_>,
        outer: usize,
        from: IpAddr,
    ) -> Result<(), DropReason> {
        let len = frame.len() - ETHERNET;
        let esp = &mut frame.bytes_mut()[ETHERNET + outer..];
        // The shortest ciphertext is a trailer, padded to a word (RFC 4303, 2.4).
        if esp.len() < HEAD + IV + 4 + TAG || !esp.len().is_multiple_of(4) {
            return Err(DropReason::Short);
        }
        let (spi, low) = (be32(esp, 0), be32(esp, 4));
        let inbound = self.inbound.get(&spi).filter(|i| i.association.peer == from);
        let inbound = inbound.ok_or(DropReason::EspUnknown)?;
        // An old packet is not worth decrypting. Nothing is noted yet: anybody can write a high
        // number into a packet.
        let numbers = &inbound.association.numbers;
        let sequence = numbers.whole(low, inbound.association.esn);
        let sequence = sequence.ok_or(DropReason::EspReplay)?;
        let opened = inbound.decrypt(esp, sequence)?;
        // Only what is authentic moves the window, and between look and move another worker may
        // have taken the same number.
        numbers.accept(sequence)?;
        inbound.association.lifetime.carry(sequence, len)?;
        let (inner_len, ethertype) = inner(opened).ok_or(DropReason::EspInner)?;
        // Authentic is not yet allowed: the peer may speak for its own networks only (RFC 4301,
        // 5.2 step 4).
        if !inbound.is_for(&opened[..inner_len]) {
            return Err(DropReason::EspSelector);
        }
        let outer_ecn = ecn(&frame.bytes()[ETHERNET..]);
        frame.trim_front(outer + HEAD + IV);
        frame.truncate(ETHERNET + inner_len);
        put16(frame.bytes_mut(), 12, ethertype);
        congestion(&mut frame.bytes_mut()[ETHERNET..], outer_ecn)
    }
}

impl Inbound {
    /// The plaintext of an ESP packet, padding and trailer included.
    fn decrypt<'a>(&self, esp: &'a mut [u8], sequence: u64) -> Result<&'a mut [u8], DropReason> {
        let (aad, aad_len) = aad(self.association.spi, sequence, self.association.esn);
        let (head, sealed) = esp.split_at_mut(HEAD + IV);
        let nonce = nonce(&self.association.key, head[HEAD..].try_into().unwrap_or_default());
        let opened = self.key.open_in_place(nonce, Aad::from(&aad[..aad_len]), sealed);
        opened.map_err(|_| DropReason::EspAuthentication)
    }

    /// Returns whether the association covers the inner packet's source.
    fn is_for(&self, packet: &[u8]) -> bool {
        let source: IpAddr = match packet.len() {
            V4.. if packet[0] >> 4 == 4 => IpAddr::V4(be32(packet, 12).into()),
            V6.. => IpAddr::V6(wire::be128(packet, 8).into()),
            _ => return false,
        };
        let selectors: &[IpNet] = &self.association.selectors;
        selectors.is_empty() || selectors.iter().any(|prefix| prefix.contains(&source))
    }
}

impl Outbound {
    pub(crate) fn peer(&self) -> IpAddr {
        self.association.peer
    }

    fn outer(&self) -> usize {
        if self.association.peer.is_ipv4() {
            V4
        } else {
            V6
        }
    }

    /// The longest inner packet when outer ones may have `mtu` bytes.
    pub(crate) fn inner_mtu(&self, mtu: usize) -> usize {
        let ciphertext = mtu.saturating_sub(self.outer() + HEAD + IV + TAG) / 4 * 4;
        ciphertext.saturating_sub(TRAILER)
    }

    /// Encrypts, in place, the packet behind the Ethernet header.
    pub(crate) fn seal(&self, frame: &mut Frame<'_>) -> Result<(), DropReason> {
        let inner_len = frame.len() - ETHERNET;
        let padding = (inner_len + TRAILER).next_multiple_of(4) - inner_len - TRAILER;
        let front = self.outer() + HEAD + IV;
        let (before, after) = frame.headroom();
        let total = front + inner_len + padding + TRAILER + TAG;
        if before < front || after < padding + TRAILER + TAG || total > usize::from(u16::MAX) {
            return Err(DropReason::NoRoom);
        }
        // Last of what can fail: a number that is taken and not sent is a gap for the other end.
        let sequence = self.next_sequence()?;
        self.association.lifetime.carry(sequence, total)?;
        let is_v4 = frame.bytes()[ETHERNET] >> 4 == 4;
        let tos = match is_v4 {
            true => frame.bytes()[ETHERNET + 1],
            false => (wire::be16(frame.bytes(), ETHERNET) >> 4) as u8,
        };
        frame.prepend(front);
        frame.append(padding + TRAILER + TAG);
        let packet = &mut frame.bytes_mut()[ETHERNET..];
        self.outer_header(packet, tos, sequence);
        let esp = &mut packet[self.outer()..];
        put32(esp, 0, self.association.spi);
        put32(esp, 4, sequence as u32);
        // A counter, not a random number: of 2^32 random ones, two are equal with a chance of two
        // fifths, of a counter's none.
        let iv = self.association.numbers.iv(sequence);
        esp[HEAD..HEAD + IV].copy_from_slice(&iv);
        let (plain, tag) = esp[HEAD + IV..].split_at_mut(inner_len + padding + TRAILER);
        debug_assert!(plain.len().is_multiple_of(4) && tag.len() == TAG, "RFC 4303, 2.4");
        for (n, byte) in plain[inner_len..inner_len + padding].iter_mut().enumerate() {
            *byte = n as u8 + 1;
        }
        plain[inner_len + padding] = padding as u8;
        plain[inner_len + padding + 1] = if is_v4 { wire::IP_IN_IP } else { wire::IPV6 };
        let (aad, aad_len) = aad(self.association.spi, sequence, self.association.esn);
        let nonce = nonce(&self.association.key, iv);
        let aad = Aad::from(&aad[..aad_len]);
        let made = self.key.seal_in_place_separate_tag(nonce, aad, plain);
        tag.copy_from_slice(made.map_err(|_| DropReason::NoRoom)?.as_ref());
        let ethertype = if self.association.peer.is_ipv4() { ETHERTYPE_V4 } else { ETHERTYPE_V6 };
        put16(frame.bytes_mut(), 12, ethertype);
        Ok(())
    }

    fn next_sequence(&self) -> Result<u64, DropReason> {
        let most = if self.association.esn { u64::MAX } else { u64::from(u32::MAX) };
        self.association.numbers.take(most)
    }

    /// The outer header (RFC 4301, 5.1.2): traffic class and congestion bits of the inner one; to
    /// be fragmented on the way if need be, so that no path MTU has to be learnt.
    fn outer_header(&self, packet: &mut [u8], tos: u8, sequence: u64) {
        let total = packet.len();
        match (self.association.local, self.association.peer) {
            (IpAddr::V4(local), IpAddr::V4(peer)) => {
                packet[..2].copy_from_slice(&[0x45, tos]);
                put16(packet, 2, total as u16);
                put16(packet, 4, sequence as u16);
                put16(packet, 6, 0);
                packet[8..12].copy_from_slice(&[64, wire::ESP, 0, 0]);
                packet[12..16].copy_from_slice(&local.octets());
                packet[16..20].copy_from_slice(&peer.octets());
                let sum = crate::checksum::of(&packet[..V4]);
                put16(packet, 10, sum);
            }
            (local, peer) => {
                put32(packet, 0, 6 << 28 | u32::from(tos) << 20);
                put16(packet, 4, (total - V6) as u16);
                packet[6..8].copy_from_slice(&[wire::ESP, 64]);
                for (at, address) in [(8, local), (24, peer)] {
                    if let IpAddr::V6(address) = address {
                        packet[at..at + 16].copy_from_slice(&address.octets());
                    }
                }
            }
        }
    }
}

/// Returns whether packets to `to` enter a tunnel to `peer` with these selectors.
#[inline]
fn enters(selectors: &[IpNet], peer: IpAddr, to: IpAddr) -> bool {
    match selectors {
        [] => to != peer && !is_link_local(to),
        some => some.iter().any(|prefix| prefix.contains(&to)),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn check(association: &SecurityAssociation, own: &[IpAddr]) -> Result<(), SettingsError> {
    let wrong = |what| Err(SettingsError::Association { spi: association.spi, what });
    if association.spi < LEAST_SPI {
        return wrong("SPIs below 256 are reserved");
    }
    if association.local.is_ipv4() != association.peer.is_ipv4() {
        return wrong("its two ends have addresses of different families");
    }
    if !own.contains(&association.local) {
        return wrong("its local address is none of this router's");
    }
    if own.contains(&association.peer) {
        return wrong("its peer is this router");
    }
    Ok(())
}

fn aead(association: &SecurityAssociation) -> Result<LessSafeKey, SettingsError> {
    let key = association.key.key();
    let algorithm = if key.len() == 16 { &AES_128_GCM } else { &AES_256_GCM };
    let what = "its key has the wrong length";
    let wrong = |_| SettingsError::Association { spi: association.spi, what };
    UnboundKey::new(algorithm, key).map(LessSafeKey::new).map_err(wrong)
}

/// RFC 4106, 4: salt and initialisation vector.
fn nonce(key: &AeadKey, iv: [u8; IV]) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&key.salt());
    nonce[4..].copy_from_slice(&iv);
    Nonce::assume_unique_for_key(nonce)
}

/// RFC 4106, 5: SPI and sequence number, all of it if it is extended.
fn aad(spi: u32, sequence: u64, esn: bool) -> ([u8; 12], usize) {
    let mut aad = [0; 12];
    put32(&mut aad, 0, spi);
    if esn {
        aad[4..].copy_from_slice(&sequence.to_be_bytes());
        return (aad, 12);
    }
    put32(&mut aad, 4, sequence as u32);
    (aad, 8)
}

/// The length and EtherType of the packet in what was decrypted, if padding and header can be.
fn inner(opened: &[u8]) -> Option<(usize, u16)> {
    let (&[padding, next], rest) = opened.split_last_chunk::<TRAILER>().map(|(r, t)| (t, r))?;
    let len = rest.len().checked_sub(padding.into())?;
    // RFC 4303, 2.4: the padding counts from 1.
    let counts = rest[len..].iter().zip(1u8..=255).all(|(&byte, n)| byte == n);
    let version = rest.first()? >> 4;
    let ethertype = match (next, version) {
        (wire::IP_IN_IP, 4) if len >= V4 => ETHERTYPE_V4,
        (wire::IPV6, 6) if len >= V6 => ETHERTYPE_V6,
        _ => return None,
    };
    counts.then_some((len, ethertype))
}

fn ecn(packet: &[u8]) -> u8 {
    let class = if packet[0] >> 4 == 4 { packet[1] } else { (wire::be16(packet, 0) >> 4) as u8 };
    class & 3
}

/// "Congestion experienced" outside is so inside (RFC 6040, 4.2); if the inner packet cannot say
/// it, it is dropped, as congestion would have done.
fn congestion(packet: &mut [u8], outer: u8) -> Result<(), DropReason> {
    match (outer, ecn(packet)) {
        (3, 0) => return Err(DropReason::EspInner),
        (3, 1 | 2) => {}
        _ => return Ok(()),
    }
    if packet[0] >> 4 == 4 {
        let old = wire::be16(packet, 0);
        let sum = crate::checksum::update(wire::be16(packet, 10), old, old | 3);
        put16(packet, 0, old | 3);
        put16(packet, 10, sum);
    } else {
        packet[1] |= 0x30;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
