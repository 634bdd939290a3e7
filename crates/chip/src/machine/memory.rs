//! Memory of a machine: a device, how many of it, and the rules of its controllers; or, without a
//! device, banks that serve first come first served.

use halfwink_dram::{Device, Rules, Spec};
use halfwink_engine::{nearest, InputError};
use halfwink_units::{Time, LINE_BYTES};
use serde::Deserialize;
use toml::Spanned;

use super::check::Check;
use super::file::MemorySection;

/// Memory, and the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpec {
    /// What it is.
    pub kind: MemoryKind,
    /// Miss in the shared cache to the controller.
    pub request: Time,
    /// Data at the controller to the core.
    pub response: Time,
}

/// What memory is made of.
#[derive(Clone, Debug, PartialEq)]
pub enum MemoryKind {
    /// Channels of a device, each with a controller.
    Dram(Box<Spec>),
    /// Channels of banks that serve first come first served.
    FirstCome(FirstComeSpec),
    /// Every access takes the same, whatever others do.
    Uniform {
        /// From the controller to the data.
        latency: Time,
        /// Ranks of all channels, for their power alone.
        ranks: usize,
    },
}

/// Channels of ranks of banks with open rows, first come first served in each bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstComeSpec {
    /// Channels (a power of two).
    pub channels: usize,
    /// Ranks per channel (a power of two).
    pub ranks: usize,
    /// Banks per rank (a power of two).
    pub banks: usize,
    /// Lines per row (a power of two).
    pub row_lines: u64,
    /// Row to column delay.
    pub t_rcd: Time,
    /// Precharge.
    pub t_rp: Time,
    /// Column command to data.
    pub t_cl: Time,
    /// Activate to precharge.
    pub t_ras: Time,
    /// End of write data to precharge.
    pub t_wr: Time,
    /// Read command to precharge.
    pub t_rtp: Time,
    /// A line on the channel.
    pub burst: Time,
}

impl MemorySpec {
    /// Ranks of all channels.
    #[must_use]
    pub fn ranks(&self) -> usize {
        match &self.kind {
            MemoryKind::Dram(spec) => spec.channels * spec.ranks,
            MemoryKind::FirstCome(spec) => spec.channels * spec.ranks,
            MemoryKind::Uniform { ranks, .. } => *ranks,
        }
    }

    /// Banks of a rank; none if memory is uniform.
    #[must_use]
    pub fn banks_per_rank(&self) -> usize {
        match &self.kind {
            MemoryKind::Dram(spec) => spec.device.groups * spec.device.banks,
            MemoryKind::FirstCome(spec) => spec.banks,
            MemoryKind::Uniform { .. } => 0,
        }
    }

    /// From the controller to the data, for a lone access that finds another row open.
    #[must_use]
    pub fn conflict(&self) -> Time {
        match &self.kind {
            MemoryKind::Dram(spec) => {
                let t = &spec.device.timing;
                Time((t.t_rp + t.t_rcd + t.t_cl + t.burst) * spec.device.clock_ps)
            }
            MemoryKind::FirstCome(spec) => spec.t_rp + spec.t_rcd + spec.t_cl + spec.burst,
            MemoryKind::Uniform { latency, .. } => *latency,
        }
    }
}

/// Whose keys they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    FirstCome,
    Uniform,
    Device,
}

impl Owner {
    fn of(section: &MemorySection) -> Owner {
        match &section.device {
            None => Owner::FirstCome,
            Some(device) if device.get_ref().as_str() == Some("uniform") => Owner::Uniform,
            Some(_) => Owner::Device,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Owner::FirstCome => "memory without a `device`",
            Owner::Uniform => "uniform memory",
            Owner::Device => "memory of a `device`",
        }
    }

    /// Keys that are given of those that memory of one kind alone has.
    fn given(section: &MemorySection) -> impl Iterator<Item = (Owner, &'static str)> {
        let MemorySection { banks, row_bytes, t_rcd_ns, t_rp_ns, t_cl_ns, t_ras_ns, .. } = section;
        let MemorySection { t_wr_ns, t_rtp_ns, burst_ns, latency_ns, .. } = section;
        let MemorySection { map, hash, page, queue, drain_at, drain_to, .. } = section;
        let MemorySection { idle_drain, hit_cap, patience, forward, .. } = section;
        [
            (Owner::FirstCome, "banks", banks.is_some()),
            (Owner::FirstCome, "row_bytes", row_bytes.is_some()),
            (Owner::FirstCome, "t_rcd_ns", t_rcd_ns.is_some()),
            (Owner::FirstCome, "t_rp_ns", t_rp_ns.is_some()),
            (Owner::FirstCome, "t_cl_ns", t_cl_ns.is_some()),
            (Owner::FirstCome, "t_ras_ns", t_ras_ns.is_some()),
            (Owner::FirstCome, "t_wr_ns", t_wr_ns.is_some()),
            (Owner::FirstCome, "t_rtp_ns", t_rtp_ns.is_some()),
            (Owner::FirstCome, "burst_ns", burst_ns.is_some()),
            (Owner::Uniform, "latency_ns", latency_ns.is_some()),
            (Owner::Device, "map", map.is_some()),
            (Owner::Device, "hash", hash.is_some()),
            (Owner::Device, "page", page.is_some()),
            (Owner::Device, "queue", queue.is_some()),
            (Owner::Device, "drain_at", drain_at.is_some()),
            (Owner::Device, "drain_to", drain_to.is_some()),
            (Owner::Device, "idle_drain", idle_drain.is_some()),
            (Owner::Device, "hit_cap", hit_cap.is_some()),
            (Owner::Device, "patience", patience.is_some()),
            (Owner::Device, "forward", forward.is_some()),
        ]
        .into_iter()
        .filter_map(|(owner, key, given)| given.then_some((owner, key)))
    }
}

impl Check<'_> {
    pub(super) fn memory(&self, section: &MemorySection) -> Result<MemorySpec, InputError> {
        let owner = Owner::of(section);
        if let Some((other, key)) = Owner::given(section).find(|&(other, _)| other != owner) {
            let message = format!("a key of {}; this is {}", other.name(), owner.name());
            return Err(self.input.error_at_key(&format!("memory.{key}"), &message));
        }
        let kind = match (owner, &section.device) {
            (Owner::Device, Some(device)) => {
                MemoryKind::Dram(Box::new(self.dram(section, device)?))
            }
            (Owner::Uniform, _) => {
                let latency = self.needed(&section.latency_ns, owner, "latency_ns")?;
                let channels = self.power_of_two(&section.channels, "channels")?;
                let ranks = channels * self.power_of_two(&section.ranks, "ranks")?;
                MemoryKind::Uniform { latency: self.time(latency)?, ranks }
            }
            _ => MemoryKind::FirstCome(self.first_come(section)?),
        };
        let request = self.time(&section.request_ns)?;
        Ok(MemorySpec { kind, request, response: self.time(&section.response_ns)? })
    }

    /// The value of a key that this kind of memory cannot do without.
    fn needed<'s, T>(
        &self,
        value: &'s Option<T>,
        owner: Owner,
        key: &str,
    ) -> Result<&'s T, InputError> {
        // There is no such key to point at: it is the line of the device, or of the section.
        let path = if owner == Owner::FirstCome { "memory" } else { "memory.device" };
        let message = format!("{} needs `{key}` in [memory]", owner.name());
        value.as_ref().ok_or_else(|| self.input.error_at_key(path, &message))
    }

    fn first_come(&self, section: &MemorySection) -> Result<FirstComeSpec, InputError> {
        let owner = Owner::FirstCome;
        let row_bytes = self.needed(&section.row_bytes, owner, "row_bytes")?;
        let row = *row_bytes.get_ref();
        if !row.is_power_of_two() || row < LINE_BYTES {
            let message = format!("a row of {row} bytes, expected a power of two from 64");
            return Err(self.fail(row_bytes, message));
        }
        let time = |value, key| self.time(self.needed(value, owner, key)?);
        let banks = self.needed(&section.banks, owner, "banks")?;
        Ok(FirstComeSpec {
            channels: self.power_of_two(&section.channels, "channels")?,
            ranks: self.power_of_two(&section.ranks, "ranks")?,
            banks: self.power_of_two(banks, "banks")?,
            row_lines: row / LINE_BYTES,
            t_rcd: time(&section.t_rcd_ns, "t_rcd_ns")?,
            t_rp: time(&section.t_rp_ns, "t_rp_ns")?,
            t_cl: time(&section.t_cl_ns, "t_cl_ns")?,
            t_ras: time(&section.t_ras_ns, "t_ras_ns")?,
            t_wr: time(&section.t_wr_ns, "t_wr_ns")?,
            t_rtp: time(&section.t_rtp_ns, "t_rtp_ns")?,
            burst: time(&section.burst_ns, "burst_ns")?,
        })
    }

    fn dram(
        &self,
        section: &MemorySection,
        device: &Spanned<toml::Value>,
    ) -> Result<Spec, InputError> {
        let owner = Owner::Device;
        let rules = Rules {
            queue: *self.needed(&section.queue, owner, "queue")?,
            drain_at: *self.needed(&section.drain_at, owner, "drain_at")?,
            drain_to: *self.needed(&section.drain_to, owner, "drain_to")?,
            idle_drain: *self.needed(&section.idle_drain, owner, "idle_drain")?,
            hit_cap: *self.needed(&section.hit_cap, owner, "hit_cap")?,
            patience: *self.needed(&section.patience, owner, "patience")?,
            forward: *self.needed(&section.forward, owner, "forward")?,
            page: *self.needed(&section.page, owner, "page")?,
        };
        let spec = Spec {
            channels: *section.channels.get_ref(),
            ranks: *section.ranks.get_ref(),
            device: self.device(device)?,
            map: *self.needed(&section.map, owner, "map")?,
            hash: *self.needed(&section.hash, owner, "hash")?,
            rules,
        };
        spec.check().map_err(|error| {
            let own = device.get_ref().is_table();
            let path = match error.key {
                key if key.starts_with("t_") || key == "burst" => match own {
                    true => format!("memory.device.timing.{key}"),
                    false => "memory.device".to_owned(),
                },
                key @ ("clock_ps" | "groups" | "banks" | "row_bytes") if own => {
                    format!("memory.device.{key}")
                }
                key => format!("memory.{key}"),
            };
            self.input.error_at_key(&path, &error.message)
        })?;
        Ok(spec)
    }

    fn device(&self, device: &Spanned<toml::Value>) -> Result<Device, InputError> {
        let value = device.get_ref();
        if let Some(name) = value.as_str() {
            return Device::named(name).ok_or_else(|| {
                let known = || Device::names().chain(["uniform"]);
                let hint = nearest(name, known()).map(|n| format!("; did you mean `{n}`?"));
                let list: Vec<&str> = known().collect();
                let message = format!("no memory device `{name}`, there are {}", list.join(", "));
                self.fail(device, message + &hint.unwrap_or_default())
            });
        }
        Device::deserialize(value.clone()).map_err(|error| {
            let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
            self.fail(device, format!("memory.device: {message}"))
        })
    }
}
