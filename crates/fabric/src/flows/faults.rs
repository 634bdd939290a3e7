//! What goes wrong between racks: circuits that miss a day, links that go down.
//!
//! ```text
//!   dawn ── a circuit finds its light, or misses this day
//!   link of a rack ── up ──▶ down: no circuit from it nor to it; packets take the other links
//! ```
//!
//! No schedule is told. Servers see at once which circuits are there (assumption: loss of light).

use halfwink_engine::{stream, Outages};
use halfwink_units::Time;
use rand::RngExt;

use super::error::RacksBroken;
use super::fault_spec::RackFaults;
use super::pieces::NOTHING;
use super::planes::Plane;
use super::world::World;

/// Number of faults injected, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RackFaultCounts {
    /// Days that circuits missed.
    pub days: u64,
    /// Links that went down.
    pub links: u64,
}

/// A link, and what is before it.
#[derive(Clone, Debug)]
struct Link {
    outages: Outages,
    is_up: bool,
    changes: Time,
}

/// Fates of all links of all racks: to each plane, then to the packet switch.
#[derive(Clone, Debug)]
pub(super) struct Fates {
    faults: RackFaults,
    seed: u64,
    racks: usize,
    links: Vec<Link>,
    /// Earliest time at which a link changes.
    pub(super) next: Time,
    pub(super) counts: RackFaultCounts,
}

impl Fates {
    /// Creates the fault state of `links` links of each rack, if any fault is enabled.
    pub(super) fn new(faults: &RackFaults, seed: u64, racks: usize, links: usize) -> Option<Fates> {
        let every = Time::from_ns(faults.link_down_every_s * 1e9);
        let lasts = Time::from_ns(faults.link_down_ms * 1e6);
        let link = |n: usize| {
            let random = stream(seed, &format!("link {} of rack {}", n / racks, n % racks));
            let mut outages = Outages::new(random, every, lasts);
            let changes = outages.change(Time::ZERO);
            Link { outages, is_up: true, changes }
        };
        faults.any().then(|| {
            let links: Vec<Link> = (0..links * racks).map(link).collect();
            let next = links.iter().map(|link| link.changes).min().unwrap_or(Time::NEVER);
            let counts = RackFaultCounts::default();
            Fates { faults: *faults, seed, racks, links, next, counts }
        })
    }

    /// Links that change up to `now`. Whether any did.
    pub(super) fn pass(&mut self, now: Time) -> bool {
        if self.next > now {
            return false;
        }
        for link in self.links.iter_mut().filter(|link| link.changes <= now) {
            // An outage may begin and end between two events; only what is down now counts as one.
            let was_up = link.is_up;
            link.is_up = link.outages.until(now).is_none();
            link.changes = link.outages.change(now);
            self.counts.links += u64::from(was_up && !link.is_up);
        }
        self.next = self.links.iter().map(|link| link.changes).min().unwrap_or(Time::NEVER);
        true
    }

    pub(super) fn all_up(&self) -> bool {
        self.links.iter().all(|link| link.is_up)
    }

    /// Draws which racks miss a day of a plane. The same day always draws the same racks, so that
    /// slots that a run skips change nothing.
    pub(super) fn misses(&mut self, plane: u8, slot: u32, missed: &mut [bool]) {
        if self.faults.day_lost <= 0.0 {
            return;
        }
        let mut random = stream(self.seed, &format!("day {slot} of plane {plane}"));
        for is_missed in missed {
            *is_missed = random.random::<f64>() < self.faults.day_lost;
        }
    }

    /// Circuits of a plane that are there.
    pub(super) fn darken(&self, plane: &mut Plane) {
        let first = usize::from(plane.number()) * self.racks;
        let links = &self.links[first..first + self.racks];
        plane.light(|from, to| links[from].is_up && links[to].is_up);
    }

    /// Returns the share of a rack's links to the packet switch that is up. They are `count` links
    /// from number `first` on.
    pub(super) fn share_up(&self, rack: usize, first: usize, count: usize) -> f64 {
        let up = (first..first + count).filter(|link| self.links[link * self.racks + rack].is_up);
        up.count() as f64 / count.max(1) as f64
    }
}

impl World<'_> {
    /// Links go down and come back.
    pub(super) fn links_change(&mut self) {
        let Some(fates) = &mut self.fates else { return };
        if !fates.pass(self.now) {
            return;
        }
        self.paths.forget();
        for plane in &mut self.planes {
            fates.darken(plane);
        }
        let packets = self.circuit_item(self.planes.len() as u8, 0) as usize;
        let Some(fates) = &self.fates else { return };
        // Gb/s are 1e-3 bit/ps.
        let rate = self.packet_gbps * 1e-3 / 8.0 * self.setting.racks.goodput;
        for rack in 0..self.racks {
            let share = fates.share_up(rack, self.planes.len(), self.packet_links);
            self.capacity[packets + rack] = rate * share;
            self.capacity[packets + self.racks + rack] = rate * share;
        }
    }

    /// Which circuits of a day are not there.
    pub(super) fn dawn_faults(&mut self, number: usize) {
        let Some(fates) = &mut self.fates else { return };
        let plane = &mut self.planes[number];
        fates.misses(plane.number(), plane.day_number(), &mut self.missed);
        let lost =
            self.missed.iter().zip(&plane.to).filter(|(missed, to)| **missed && to.is_some());
        fates.counts.days += lost.count() as u64;
        plane.misses(&self.missed);
        fates.darken(plane);
    }

    /// Checks that flows run only where a circuit is up.
    pub(super) fn check_circuits(&self) -> Result<(), RacksBroken> {
        let circuits = 2 * self.servers..self.circuit_item(self.planes.len() as u8, 0);
        for (&piece, needs) in self.running.iter().zip(&self.needs) {
            for item in needs.as_slice().iter().filter(|item| circuits.contains(item)) {
                let place = (item - circuits.start) as usize;
                let (plane, rack) = (place / self.racks, place % self.racks);
                if !self.planes[plane].is_up || self.planes[plane].to[rack].is_none() {
                    let flow = self.pieces[piece].flow;
                    return Err(RacksBroken::Dark(flow, plane as u8, rack as u16));
                }
            }
        }
        Ok(())
    }

    /// Checks that all bytes sent have arrived or are in flight.
    pub(super) fn check_bytes(&self) -> Result<(), RacksBroken> {
        let found = self.run.delivered + self.pieces.sizes();
        let few = (self.run.times.len() + 1) as f64 * NOTHING + 1e-9 * self.sent;
        if (found - self.sent).abs() > few {
            return Err(RacksBroken::Unbalanced(self.sent, found));
        }
        Ok(())
    }
}
