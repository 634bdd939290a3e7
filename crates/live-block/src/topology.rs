//! Which CPUs of this machine share a last-level cache, and which a package: from sysfs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use halfwink_live::sys::CpuSet;
use halfwink_policy::completion::{Place, Topology};
use serde::Serialize;

/// Folder in which Linux shows CPUs.
pub const SYSFS: &str = "/sys/devices/system/cpu";
/// A number that no file says.
const NONE: i64 = -1;

/// A CPU that is online.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Number of its package; 0 if it is unknown.
    pub package: i64,
    /// The lowest CPU, of its package, with which it shares its last-level cache.
    pub cache: u32,
    /// Level of that cache; none if it is unknown, and then all CPUs of a package count as sharing
    /// one.
    pub level: Option<u32>,
    /// Bytes of that cache.
    pub cache_bytes: Option<u64>,
}

/// The CPUs of a machine that are online, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// CPUs of the machine.
    pub cpus: Vec<Cpu>,
}

/// A list as the kernel writes it: `0-3,8,10-11`.
///
/// # Errors
/// What was found instead.
pub fn list(text: &str) -> Result<Vec<u32>, String> {
    let wrong = || format!("found {text:?}, expected CPUs as 0-3,8");
    let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.trim().is_empty()) {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last || last >= 1 << 16 {
            return Err(wrong());
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

impl Machine {
    /// Reads what the kernel shows in `root`. What is missing there, as in many guests, is taken
    /// as one package, and as one cache for each package.
    ///
    /// # Errors
    /// No CPU is found, or a list is none: the file, and what was expected.
    pub fn read(root: &Path) -> Result<Machine, String> {
        let numbers = online(root)?;
        let mut cpus: Vec<Cpu> = numbers.iter().map(|&cpu| look(root, cpu)).collect();
        // A group is named after its first CPU that is online: the first that shares a cache may
        // be offline, or of another package by a broken table. CPUs of which no cache is known
        // are together with all such of their package.
        let key = |c: &Cpu| (c.package, c.level, c.level.map(|_| c.cache));
        let mut first = BTreeMap::new();
        for cpu in &cpus {
            first.entry(key(cpu)).or_insert(cpu.cpu);
        }
        cpus.iter_mut().for_each(|cpu| cpu.cache = first[&key(cpu)]);
        if cpus.is_empty() {
            return Err(format!("{}: no CPU is online", root.display()));
        }
        Ok(Machine { cpus })
    }

    /// Returns a machine of the CPUs in `chosen` only, in that order.
    ///
    /// # Errors
    /// One is not online.
    pub fn only(&self, chosen: &[u32]) -> Result<Machine, String> {
        let find = |&cpu: &u32| {
            let found = self.cpus.iter().find(|c| c.cpu == cpu);
            found.cloned().ok_or_else(|| format!("CPU {cpu} is not online"))
        };
        Ok(Machine { cpus: chosen.iter().map(find).collect::<Result<_, _>>()? })
    }

    /// Returns a machine of the CPUs that serve here: those of a list as the kernel writes it, or
    /// all on which this process may run.
    ///
    /// # Errors
    /// A CPU of the list is not allowed or not online, or there are more than 255.
    pub fn serving(cpus: Option<&str>) -> Result<Machine, String> {
        let all = Machine::read(Path::new(SYSFS))?;
        let allowed: Vec<u32> = CpuSet::allowed().iter().collect();
        let chosen = match cpus {
            Some(text) => list(text)?,
            None => all.cpus.iter().map(|c| c.cpu).filter(|cpu| allowed.contains(cpu)).collect(),
        };
        if let Some(cpu) = chosen.iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(format!("CPU {cpu} is not one where this may run"));
        }
        if chosen.is_empty() || chosen.len() > 255 {
            return Err("expected 1 to 255 CPUs".to_owned());
        }
        all.only(&chosen)
    }

    /// Converts to the topology of policies, in which CPUs are numbered from zero, in order.
    #[must_use]
    pub fn topology(&self) -> Topology {
        let mut packages: Vec<i64> = Vec::new();
        let mut caches: Vec<(i64, u32)> = Vec::new();
        let places = self.cpus.iter().map(|cpu| {
            let socket = place_of(&mut packages, cpu.package);
            let cache = place_of(&mut caches, (cpu.package, cpu.cache));
            Place { socket, cache }
        });
        Topology::new(places.collect())
    }
}

fn place_of<T: PartialEq>(all: &mut Vec<T>, one: T) -> u16 {
    let place = all.iter().position(|other| *other == one).unwrap_or_else(|| {
        all.push(one);
        all.len() - 1
    });
    place as u16
}

fn online(root: &Path) -> Result<Vec<u32>, String> {
    let path = root.join("online");
    if let Ok(text) = fs::read_to_string(&path) {
        return list(&text).map_err(|why| format!("{}: {why}", path.display()));
    }
    let entries = fs::read_dir(root).map_err(|e| format!("{}: {e}", root.display()))?;
    let mut found: Vec<u32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("cpu")?.parse().ok())
        .collect();
    found.sort_unstable();
    Ok(found)
}

fn number(path: &Path) -> i64 {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(NONE)
}

/// Bytes as sysfs says them: `32768K`.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(['K', 'M', 'G']);
    let shift = match &text[digits.len()..] {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => 0,
    };
    digits.parse::<u64>().ok()?.checked_shl(shift)
}

fn look(root: &Path, cpu: u32) -> Cpu {
    let own = root.join(format!("cpu{cpu}"));
    let package = number(&own.join("topology/physical_package_id")).max(0);
    let mut best = Cpu { cpu, package, cache: cpu, level: None, cache_bytes: None };
    let Ok(entries) = fs::read_dir(own.join("cache")) else { return best };
    for entry in entries.flatten() {
        let index = entry.path();
        let is_code =
            fs::read_to_string(index.join("type")).is_ok_and(|t| t.trim() == "Instruction");
        let level = u32::try_from(number(&index.join("level"))).ok();
        if is_code || level.is_none() || level <= best.level {
            continue;
        }
        let shared = fs::read_to_string(index.join("shared_cpu_list"));
        let Ok(shared) = shared.map_err(|e| e.to_string()).and_then(|text| list(&text)) else {
            continue;
        };
        best.level = level;
        best.cache = shared.first().copied().unwrap_or(cpu).min(cpu);
        best.cache_bytes = fs::read_to_string(index.join("size")).ok().and_then(|t| bytes(&t));
    }
    best
}
