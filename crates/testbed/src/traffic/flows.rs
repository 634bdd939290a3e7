//! Flows: which sockets talk to which, and how long their frames are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use halfwink_engine::Stream;
use rand::RngExt;

use super::frame::{Template, FRAME_BYTES};
use super::Error;

/// The port that discards what it gets (RFC 863).
const DISCARD_PORT: u16 = 9;
/// Flows that a stamp can tell apart.
pub const MOST_FLOWS: usize = 1 << 16;

/// A range of addresses, as `198.18.0.0/15`, `fd01::/64` or one address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    base: IpAddr,
    host_bits: u32,
}

impl FromStr for Prefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Prefix, Error> {
        let wrong = || {
            Error::input(format!("`{text}`: expected an address or a prefix such as 198.18.0.0/15"))
        };
        let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
        let base: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if base.is_ipv4() { 32 } else { 128 };
        let length = match length {
            None => most,
            Some(text) => text.parse().ok().filter(|&n| n <= most).ok_or_else(wrong)?,
        };
        Ok(Prefix { base, host_bits: most - length })
    }
}

impl Prefix {
    /// Returns whether its addresses are of IPv6.
    #[must_use]
    pub fn is_v6(&self) -> bool {
        self.base.is_ipv6()
    }

    /// The `n`th address: the base itself if it has host bits set (then nothing below it is used),
    /// else the first behind the network's own; it begins again after the last.
    #[must_use]
    pub fn address(&self, n: u64) -> IpAddr {
        // No more than 2^48 are told apart: more than there can be flows.
        let bits = self.host_bits.min(48);
        let mask = (1u64 << bits) - 1;
        let low = match self.base {
            IpAddr::V4(a) => u64::from(u32::from(a)) & mask,
            IpAddr::V6(a) => (u128::from(a) as u64) & mask,
        };
        // Of a prefix with network and broadcast addresses, both are left out.
        let (first, count) =
            if bits < 2 { (low, 1 << bits) } else { (low.max(1), mask - low.max(1)) };
        let offset = if bits < 2 { n % count } else { first + n % count.max(1) };
        match self.base {
            IpAddr::V4(a) => {
                IpAddr::V4(Ipv4Addr::from(u32::from(a) & !(mask as u32) | offset as u32))
            }
            IpAddr::V6(a) => {
                IpAddr::V6(Ipv6Addr::from(u128::from(a) & !u128::from(mask) | u128::from(offset)))
            }
        }
    }
}

/// Sources and destinations of the flows.
#[derive(Clone, Debug)]
pub struct Flows {
    /// Number of flows, at most [`MOST_FLOWS`].
    pub count: usize,
    /// Source prefixes: at least one of each family that `to` has.
    pub from: Vec<Prefix>,
    /// Destination prefixes, used in turn.
    pub to: Vec<Prefix>,
}

impl Flows {
    /// The sockets of each flow. No two flows have the same.
    ///
    /// # Errors
    /// There are none, too many, or no source of a destination's family.
    pub fn sockets(&self) -> Result<Vec<(SocketAddr, SocketAddr)>, Error> {
        if self.to.is_empty() || !(1..=MOST_FLOWS).contains(&self.count) {
            return Err(Error::input(format!(
                "{} flows to {} prefixes: expected 1 to {MOST_FLOWS} flows and a destination",
                self.count,
                self.to.len()
            )));
        }
        let mut out = Vec::with_capacity(self.count);
        for n in 0..self.count as u64 {
            let to = &self.to[n as usize % self.to.len()];
            let round = n / self.to.len() as u64;
            let sources: Vec<&Prefix> =
                self.from.iter().filter(|p| p.is_v6() == to.is_v6()).collect();
            let Some(from) = sources.get(round as usize % sources.len().max(1)) else {
                let family = if to.is_v6() { "IPv6" } else { "IPv4" };
                return Err(Error::input(format!("no source address for {family} destinations")));
            };
            // Ports count up with flows, so that few addresses still make many flows.
            let port = 1024 + (n % 64_000) as u16;
            let extra = DISCARD_PORT + (n / 64_000) as u16;
            let from = from.address(round / sources.len() as u64);
            out.push((SocketAddr::new(from, port), SocketAddr::new(to.address(round), extra)));
        }
        Ok(out)
    }

    /// Headers of each flow, with MAC addresses (from, to) and a tag.
    ///
    /// # Errors
    /// As [`Flows::sockets`].
    pub fn templates(&self, macs: ([u8; 6], [u8; 6]), tag: u16) -> Result<Vec<Template>, Error> {
        self.sockets()?.into_iter().map(|(from, to)| Template::new(macs, from, to, tag)).collect()
    }
}

/// Frame sizes and their shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// One entry per part: `60:7,590:4` has eleven.
    table: Vec<u16>,
}

/// Frames of the simple Internet mix without their check sequence: 64, 594 and 1518 on the wire.
const IMIX: &str = "60:7,590:4,1514:1";

impl FromStr for Sizes {
    type Err = Error;

    /// A size, `SIZE:PARTS,SIZE:PARTS,...` or `imix`; bytes without check sequence.
    fn from_str(text: &str) -> Result<Sizes, Error> {
        let mut table = Vec::new();
        for part in if text == "imix" { IMIX } else { text }.split(',') {
            let (size, parts) = part.split_once(':').unwrap_or((part, "1"));
            let size: usize = size.parse().unwrap_or(0);
            let parts: usize = parts.parse().unwrap_or(0);
            if !FRAME_BYTES.contains(&size) || !(1..=1000).contains(&parts) {
                return Err(Error::input(format!(
                    "`{text}`: expected a frame size of {} to {} bytes, `SIZE:PARTS,...` or `imix`",
                    FRAME_BYTES.start(),
                    FRAME_BYTES.end()
                )));
            }
            table.extend(std::iter::repeat_n(size as u16, parts));
        }
        Ok(Sizes { table })
    }
}

impl Sizes {
    /// The size of the next frame.
    pub fn draw(&self, random: &mut Stream) -> usize {
        let at = if self.table.len() == 1 { 0 } else { random.random_range(0..self.table.len()) };
        usize::from(self.table[at])
    }

    /// Returns the largest size.
    #[must_use]
    pub fn most_bytes(&self) -> usize {
        self.table.iter().copied().max().map_or(0, usize::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_of_a_prefix() {
        let of = |text: &str, n| prefix(text).address(n).to_string();
        assert_eq!(of("198.18.0.0/15", 0), "198.18.0.1");
        assert_eq!(of("198.18.0.0/15", 255), "198.18.1.0");
        assert_eq!(of("10.0.0.0/30", 0), "10.0.0.1");
        assert_eq!(of("10.0.0.0/30", 2), "10.0.0.1");
        assert_eq!(of("10.1.0.2/24", 0), "10.1.0.2");
        assert_eq!(of("10.1.0.2", 77), "10.1.0.2");
        assert_eq!(of("10.1.0.2/31", 1), "10.1.0.3");
        assert_eq!(of("0.0.0.0/0", 5), "0.0.0.6");
        assert_eq!(of("fd01::/64", 65_535), "fd01::1:0");
        for wrong in ["", "10.0.0.1/33", "10.0.0/8", "fd01::/129", "10.0.0.1/x"] {
            assert!(wrong.parse::<Prefix>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn all_flows_have_different_sockets() {
        let to = vec![prefix("198.18.0.0/24"), prefix("2001:2::/64"), prefix("198.19.0.1")];
        let flows = Flows {
            count: MOST_FLOWS,
            from: vec![prefix("10.1.0.2"), prefix("fd01::2"), prefix("10.1.0.8/24")],
            to,
        };
        let sockets = flows.sockets().unwrap();
        assert_eq!(sockets.iter().collect::<HashSet<_>>().len(), MOST_FLOWS);
        assert!(sockets.iter().all(|(a, b)| a.is_ipv4() == b.is_ipv4()));
        let only_v6 = Flows { from: vec![prefix("fd01::2")], ..flows.clone() };
        assert!(only_v6.sockets().unwrap_err().to_string().contains("IPv4"));
        assert!(Flows { count: MOST_FLOWS + 1, ..flows }.sockets().is_err());
    }

    #[test]
    fn a_mix_has_its_shares() {
        let mut random = halfwink_engine::stream(1, "sizes");
        let mix: Sizes = "imix".parse().unwrap();
        let drawn: Vec<usize> = (0..12_000).map(|_| mix.draw(&mut random)).collect();
        let small = drawn.iter().filter(|&&n| n == 60).count();
        assert!((6_700..7_300).contains(&small), "{small}");
        assert_eq!(mix.most_bytes(), 1514);
        for wrong in ["59", "60:0", "9015", "", "60:1,", "x"] {
            assert!(wrong.parse::<Sizes>().is_err(), "{wrong}");
        }
    }
}
