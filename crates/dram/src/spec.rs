//! Memory as a whole: channels of ranks of a device, and the rules of their controllers.

use serde::Deserialize;

use crate::address::{AddressMap, BankHash, MapOrder};
use crate::device::Device;
use crate::timing::SpecError;

/// Page policy: what the controller does to a row after its last known access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Page {
    /// Leaves the row open until another row of the bank is requested.
    Open,
    /// The column command closes it.
    Closed,
}

/// Rules by which a controller orders requests. Defaults are those of DRAMsim3, except `patience`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Reads and writes (each) that are looked at before they go to the queues of the banks.
    pub queue: usize,
    /// Number of waiting writes at which they go before reads.
    pub drain_at: usize,
    /// Then all go but so many.
    pub drain_to: usize,
    /// Number of waiting writes above which they go when there is no read to do.
    pub idle_drain: usize,
    /// Column commands of a row while an older request waits for another row of the bank.
    pub hit_cap: u32,
    /// A request that so many column commands of others have passed by goes first.
    pub patience: u32,
    /// Clocks until the write queue answers a read of a line that it holds (at least 1).
    pub forward: u64,
    /// Open or closed page.
    pub page: Page,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            queue: 32,
            drain_at: 32,
            drain_to: 0,
            idle_drain: 8,
            hit_cap: 4,
            patience: 256,
            forward: 1,
            page: Page::Open,
        }
    }
}

/// Specification of a memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Channels (a power of two).
    pub channels: usize,
    /// Ranks of a channel (a power of two).
    pub ranks: usize,
    /// Devices of each rank.
    pub device: Device,
    /// Order of the fields of an address.
    pub map: MapOrder,
    /// Bits that are mixed into the bank.
    pub hash: BankHash,
    /// Scheduling rules of the controllers.
    pub rules: Rules,
}

/// Banks of a channel that a controller can look at together.
pub const MAX_BANKS: usize = 64;

impl Spec {
    /// Banks of a channel.
    #[must_use]
    pub fn banks(&self) -> usize {
        self.ranks * self.device.groups * self.device.banks
    }

    /// Bytes per second of all channels together.
    #[must_use]
    pub fn peak_bandwidth(&self) -> f64 {
        let line_s = (self.device.timing.burst * self.device.clock_ps) as f64 * 1e-12;
        64.0 * self.channels as f64 / line_s
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// The first value that is impossible, by its name.
    pub fn check(&self) -> Result<(), SpecError> {
        self.device.check()?;
        for (key, n) in [("channels", self.channels), ("ranks", self.ranks)] {
            if !n.is_power_of_two() {
                return Err(SpecError::new(key, format!("{n} {key}, expected a power of two")));
            }
        }
        if self.banks() > MAX_BANKS {
            let message = format!(
                "{} ranks of {} banks, expected at most {MAX_BANKS} banks in a channel",
                self.ranks,
                self.device.groups * self.device.banks
            );
            return Err(SpecError::new("ranks", message));
        }
        let rules = &self.rules;
        if rules.queue == 0 || rules.queue > 1024 {
            let message = format!("{} entries, expected 1 to 1024", rules.queue);
            return Err(SpecError::new("queue", message));
        }
        if rules.drain_at == 0 || rules.drain_at > rules.queue {
            let message = format!(
                "writes go first from {} on, expected 1 to the queue's {}",
                rules.drain_at, rules.queue
            );
            return Err(SpecError::new("drain_at", message));
        }
        if !(1..=1 << 20).contains(&rules.forward) {
            let message = format!("{} clocks, expected 1 to 2^20", rules.forward);
            return Err(SpecError::new("forward", message));
        }
        for (key, n) in [("drain_to", rules.drain_to), ("idle_drain", rules.idle_drain)] {
            if n >= rules.drain_at {
                let message =
                    format!("{n} writes, expected fewer than drain_at, {}", rules.drain_at);
                return Err(SpecError::new(key, message));
            }
        }
        AddressMap::new(self).map(|_| ())
    }
}
