//! Memory of a machine: a device, how many of it, and the rules of its controllers; or memory that
//! always takes the same.

use halfwink_dram::{CommandEnergy, Device, Rules, Spec};
use halfwink_engine::{nearest, InputError};
use halfwink_units::Time;
use serde::Deserialize;
use toml::Spanned;

use super::file::MemorySection;
use super::value::{Check, POWER};

/// Memory, and the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemorySpec {
    /// Kind of the memory.
    pub kind: MemoryKind,
    /// Miss in the shared cache to the controller.
    pub request: Time,
    /// Data at the controller to the core.
    pub response: Time,
}

/// Kinds of memory models.
#[derive(Clone, Debug, PartialEq)]
pub enum MemoryKind {
    /// Channels of a device, each with a controller.
    Dram(Box<Spec>),
    /// Every access takes the same, whatever others do.
    Uniform {
        /// Time from the controller to the data.
        latency: Time,
        /// Ranks of all channels, for their power alone.
        ranks: usize,
    },
}

impl MemorySpec {
    /// Ranks of all channels.
    #[must_use]
    pub fn ranks(&self) -> usize {
        match &self.kind {
            MemoryKind::Dram(spec) => spec.channels * spec.ranks,
            MemoryKind::Uniform { ranks, .. } => *ranks,
        }
    }

    /// Banks of a rank; none if memory is uniform.
    #[must_use]
    pub fn banks_per_rank(&self) -> usize {
        match &self.kind {
            MemoryKind::Dram(spec) => spec.device.groups * spec.device.banks,
            MemoryKind::Uniform { .. } => 0,
        }
    }

    /// Returns the time from one line to the next at the peak of all channels; zero if memory is
    /// uniform.
    #[must_use]
    pub fn line_time(&self) -> Time {
        match &self.kind {
            MemoryKind::Dram(spec) => {
                let device = &spec.device;
                Time(device.timing.burst * device.clock_ps / spec.channels as u64)
            }
            MemoryKind::Uniform { .. } => Time::ZERO,
        }
    }

    /// Returns the time from the controller to the data, for a lone access that finds another row
    /// open.
    #[must_use]
    pub fn conflict(&self) -> Time {
        match &self.kind {
            MemoryKind::Dram(spec) => {
                let t = &spec.device.timing;
                // The open row is closed, the wanted one is opened and read, and the last beat ends
                // the burst.
                Time((t.t_rp + t.t_rcd + t.t_cl + t.burst) * spec.device.clock_ps)
            }
            MemoryKind::Uniform { latency, .. } => *latency,
        }
    }
}

/// Model that the keys belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Uniform,
    Device,
}

impl Owner {
    fn of(section: &MemorySection) -> Owner {
        match section.device.get_ref().as_str() {
            Some("uniform") => Owner::Uniform,
            // A name that is no device, and anything that is no text, is reported by
            // `Check::device`.
            _ => Owner::Device,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Owner::Uniform => "uniform memory",
            Owner::Device => "memory of a `device`",
        }
    }

    /// Keys that are given of those that memory of one kind alone has.
    fn given(section: &MemorySection) -> impl Iterator<Item = (Owner, &'static str)> {
        let MemorySection { latency_ns, map, hash, page, queue, .. } = section;
        let MemorySection { drain_at, drain_to, idle_drain, hit_cap, patience, forward, .. } =
            section;
        [
            // A key of the other kind is refused and not ignored, or it would seem to have an
            // effect.
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
    /// Returns the energies of memory: from the file, or from the device's currents.
    pub(super) fn memory_power(
        &self,
        given: Option<&Spanned<CommandEnergy>>,
        memory: &MemorySpec,
    ) -> Result<CommandEnergy, InputError> {
        if let Some(section) = given {
            let CommandEnergy { activate_pj, read_pj, write_pj, refresh_pj, closed_w, open_w } =
                section.get_ref();
            let numbers = [activate_pj, read_pj, write_pj, refresh_pj, closed_w, open_w];
            if numbers.into_iter().any(|n| !POWER.contains(n)) {
                return Err(self.fail(section, "power and energies must be 0 to 1e9"));
            }
            return Ok(*section.get_ref());
        }
        let currents = match &memory.kind {
            MemoryKind::Dram(spec) => spec.device.command_energy(),
            MemoryKind::Uniform { .. } => None,
        };
        let message = "this memory has no currents of a data sheet, and the file has no \
                       [power.memory] that says what it takes";
        currents.ok_or_else(|| self.input.error_at_key("memory.device", message))
    }

    pub(super) fn memory(&self, section: &MemorySection) -> Result<MemorySpec, InputError> {
        let owner = Owner::of(section);
        if let Some((other, key)) = Owner::given(section).find(|&(other, _)| other != owner) {
            let message = format!("a key of {}; this is {}", other.name(), owner.name());
            return Err(self.input.error_at_key(&format!("memory.{key}"), &message));
        }
        let kind = match owner {
            Owner::Device => MemoryKind::Dram(Box::new(self.dram(section, &section.device)?)),
            Owner::Uniform => {
                let latency = self.needed(&section.latency_ns, owner, "latency_ns")?;
                let channels = self.power_of_two(&section.channels, "channels")?;
                let ranks = channels * self.power_of_two(&section.ranks, "ranks")?;
                MemoryKind::Uniform { latency: self.time(latency)?, ranks }
            }
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
        // There is no such key to point at: it is the line of the device.
        let message = format!("{} needs `{key}` in [memory]", owner.name());
        value.as_ref().ok_or_else(|| self.input.error_at_key("memory.device", &message))
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
            // A device that is only named has no keys in the file: the error then points at its
            // name.
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
