//! The kernel's associations as this router knows them, and which of them its tunnels use.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use halfwink_dataplane::{
    AeadKey, ClosedTunnel, Direction, IpsecSettings, Lifetime, Numbers, SecurityAssociation,
};

use super::message::{Association, Name, News};
use super::Tunnel;
use crate::pool::MTU;

/// SPIs below are reserved (RFC 4303, 2.1).
const LEAST_SPI: u32 = 256;

/// Source of sequence numbers, for a direction, an SPI with whether its numbers are extended, and
/// the key.
pub(crate) type Numbering<'a> =
    dyn FnMut(Direction, (u32, bool), &AeadKey) -> Result<Numbers, String> + 'a;

/// The kernel's table, in the order in which its entries came.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    /// Lines that were said of what is there now.
    said: BTreeSet<String>,
}

#[derive(Debug)]
struct Entry {
    association: Association,
    until: Option<Instant>,
    /// Account of the data carried, with the limits that it was made for.
    lifetime: Option<(u64, u64, Lifetime)>,
}

impl Table {
    /// Takes the place of all that is known: what the kernel has told on being asked, the newest
    /// first, as it tells them.
    pub(crate) fn replace(&mut self, told: Vec<Association>) {
        let mut before = std::mem::take(&mut self.entries);
        for association in told.into_iter().rev() {
            let same = |entry: &Entry| {
                let known = &entry.association;
                (known.name, &known.key) == (association.name, &association.key)
            };
            let known = before.iter().position(same).map(|place| before.swap_remove(place));
            let lifetime = known.and_then(|entry| entry.lifetime);
            let until = until(&association);
            self.entries.push(Entry { association, until, lifetime });
        }
    }

    /// Takes what has happened; whether anything here has changed.
    pub(crate) fn take(&mut self, news: News) -> bool {
        match news {
            News::There(association) => {
                let until = until(&association);
                let known =
                    self.entries.iter_mut().find(|e| e.association.name == association.name);
                match known {
                    // Its limits may have changed: it is no newer for that.
                    Some(entry) if entry.association.key == association.key => {
                        entry.association = *association;
                        entry.until = until;
                    }
                    _ => {
                        self.remove(association.name);
                        self.entries.push(Entry {
                            association: *association,
                            until,
                            lifetime: None,
                        });
                    }
                }
                true
            }
            News::Gone(name) => self.remove(name),
            News::Flushed => !std::mem::take(&mut self.entries).is_empty(),
            News::End | News::Refused(_) | News::Other => false,
        }
    }

    fn remove(&mut self, name: Name) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.association.name != name);
        self.entries.len() < before
    }

    /// Returns the time at which the next association expires.
    pub(crate) fn next_end(&self) -> Option<Instant> {
        let now = Instant::now();
        self.entries.iter().filter_map(|entry| entry.until).filter(|&until| until > now).min()
    }

    /// Returns the associations in use: for each outbound direction the newest, for each inbound
    /// one all of them; and new messages about them.
    pub(crate) fn settings(
        &mut self,
        tunnels: &[Tunnel],
        numbering: &mut Numbering<'_>,
    ) -> (IpsecSettings, Vec<String>) {
        let now = Instant::now();
        let mut lines = BTreeSet::new();
        let mut found: BTreeMap<(usize, usize), SecurityAssociation> = BTreeMap::new();
        let mut keys: Vec<AeadKey> = Vec::new();
        let (mut newest, mut inbound) = (vec![None; tunnels.len()], Vec::new());
        // The newest first: whoever else has its key is the one to go.
        for (place, entry) in self.entries.iter_mut().enumerate().rev() {
            let Some((tunnel, direction)) = find(tunnels, &entry.association) else { continue };
            if entry.until.is_some_and(|until| until <= now) {
                continue;
            }
            let outbound = direction == Direction::Outbound;
            if outbound && newest[tunnel].is_some() {
                continue;
            }
            match entry.ready(&tunnels[tunnel], direction, &mut keys, numbering) {
                Ok(association) => {
                    lines.insert(entry.line(direction, "is used"));
                    found.insert((tunnel, place), association);
                    match outbound {
                        true => newest[tunnel] = Some(place),
                        false => inbound.push((tunnel, place)),
                    }
                }
                Err(why) => {
                    lines.insert(entry.line(direction, &format!("is not used: {why}")));
                }
            }
        }
        let mut settings = IpsecSettings { kernel: true, ..IpsecSettings::default() };
        for (n, tunnel) in tunnels.iter().enumerate() {
            match newest[n].and_then(|place| found.remove(&(n, place))) {
                Some(association) => settings.outbound.push(association),
                None => settings.closed.push(ClosedTunnel {
                    before: settings.outbound.len(),
                    peer: tunnel.peer,
                    selectors: tunnel.selectors.clone(),
                }),
            }
        }
        settings.inbound = inbound.iter().rev().filter_map(|key| found.remove(key)).collect();
        let news = lines.difference(&self.said).cloned().collect();
        self.said = lines;
        (settings, news)
    }
}

impl Entry {
    fn line(&self, direction: Direction, what: &str) -> String {
        let Association { name, from, .. } = &self.association;
        let (way, spi) = (direction.name(), name.spi);
        format!("SPI {spi:#x}, {way}, from {from} to {}: the kernel's association {what}", name.to)
    }

    /// Returns the association for the data plane, or the reason why it cannot be used.
    fn ready(
        &mut self,
        tunnel: &Tunnel,
        direction: Direction,
        keys: &mut Vec<AeadKey>,
        numbering: &mut Numbering<'_>,
    ) -> Result<SecurityAssociation, String> {
        let association = &self.association;
        let spi = association.name.spi;
        let key = association.key.clone()?;
        if spi < LEAST_SPI {
            return Err("SPIs below 256 are reserved".to_owned());
        }
        if keys.contains(&key) {
            return Err("another association has the same key and salt".to_owned());
        }
        if direction == Direction::Outbound && association.sent > 0 {
            // Two counters under one key would give out the same nonces (RFC 4106, 9).
            return Err(format!(
                "the kernel itself has sent {} packets by it, found a policy, expected none \
                 (swanctl: policies = no)",
                association.sent
            ));
        }
        let numbers = numbering(direction, (spi, association.esn), &key)?;
        keys.push(key.clone());
        let limits = (association.packets, association.bytes);
        let lifetime = match &self.lifetime {
            Some((packets, bytes, lifetime)) if (*packets, *bytes) == limits => lifetime.clone(),
            known => {
                let carried = known.as_ref().map_or(0, |(.., lifetime)| lifetime.carried());
                // Nobody counted bytes in an earlier life: as many as there can have been.
                let carried = match carried {
                    0 => numbers.used().saturating_mul(u64::from(MTU)),
                    carried => carried,
                };
                Lifetime::new(limits.0, limits.1, carried)
            }
        };
        self.lifetime = Some((limits.0, limits.1, lifetime.clone()));
        Ok(SecurityAssociation {
            spi,
            local: tunnel.local,
            peer: tunnel.peer,
            key,
            esn: association.esn,
            selectors: tunnel.selectors.clone(),
            numbers,
            lifetime,
        })
    }
}

/// The tunnel that an association is for, and which way.
fn find(tunnels: &[Tunnel], association: &Association) -> Option<(usize, Direction)> {
    let (from, to) = (association.from, association.name.to);
    tunnels.iter().enumerate().find_map(|(n, tunnel)| {
        if tunnel.reqid.is_some_and(|reqid| reqid != association.reqid) {
            return None;
        }
        match (tunnel.local, tunnel.peer) {
            (local, peer) if (local, peer) == (from, to) => Some((n, Direction::Outbound)),
            (local, peer) if (local, peer) == (to, from) => Some((n, Direction::Inbound)),
            _ => None,
        }
    })
}

/// Returns the time at which it expires, if it does; the kernel gives the time of day at which it
/// began.
fn until(association: &Association) -> Option<Instant> {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let age_s = now_s.saturating_sub(association.added_s);
    // Longer than a machine is up is never.
    let left = Duration::from_secs(association.lasts_s?.saturating_sub(age_s));
    Instant::now().checked_add(left)
}
