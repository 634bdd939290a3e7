//! Builds a machine from the sections of its file, and refuses what is not possible.

use halfwink_engine::{Input, InputError};
use halfwink_power::{Gating, Lost};
use halfwink_units::{Clock, Cycle, Time, LINE_BYTES};
use toml::Spanned;

use super::file::{
    FupgSection, L1Section, L2Section, MachineFile, OsSection, PowerSection, TokenSection,
    WakeUpSection,
};
use super::memory::MemorySpec;
use super::value::{parse_size, Check, POWER};
use super::{
    DvfsSpec, FupgSpec, Geometry, L1Spec, L2Spec, L3Spec, Machine, MapgSpec, OsSpec, PowerSpec,
    SafeWakeUp, TokenSpec, WakeUpSpec, MAX_CORES,
};

pub(super) fn build(input: &Input, file: MachineFile) -> Result<Machine, InputError> {
    let check = Check { input };
    if *file.schema.get_ref() != 1 {
        return Err(check.fail(&file.schema, "this halfwink reads machine schema 1"));
    }
    // A decimal number of GHz is not exact in binary: rounded, the product is the whole number of
    // hertz that was written.
    let hz = check.positive(&file.chip.clock_ghz, "a clock")? * 1e9;
    let clock = Clock::from_hz(hz.round() as u64)
        .ok_or_else(|| check.fail(&file.chip.clock_ghz, "expected a clock below 1000 GHz"))?;
    // These come first: energies of memory follow from the device, and fetch must fit into the
    // core's refill.
    let (memory, core) = (check.memory(&file.memory)?, check.core(&file.core)?);
    let (gating, power) = (check.gating(&file.gating)?, check.power(&file.power, &memory)?);
    let machine = Machine {
        description: file.description,
        cores: check.within(&file.chip.cores, 1, MAX_CORES, "cores")?,
        clock,
        core,
        fetch: check.fetch(file.fetch.as_ref(), &core, *file.l1i.latency_cycles.get_ref())?,
        branch: check.branch(&file.branch)?,
        l1i: check.l1(&file.l1i, 1)?,
        // A load from two lines needs two at once.
        l1d: check.l1(&file.l1d, 2)?,
        l2: L2Spec {
            geometry: check.geometry(&file.l2.size, &file.l2.ways)?,
            latency: check.l2_latency(&file.l2.latency_ns, clock)?,
            bank_latency: check.bank_latency(&file.l2, clock)?,
        },
        prefetch: check.prefetch(file.prefetch.as_ref())?,
        tlb: file.tlb.as_ref().map(|tlb| check.tlb(tlb)).transpose()?,
        l3: L3Spec {
            geometry: match file.l3.size.get_ref().as_str() {
                "none" => None,
                _ => Some(check.geometry(&file.l3.size, &file.l3.ways)?),
            },
            latency: check.time(&file.l3.latency_ns)?,
            banks: check.power_of_two(&file.l3.banks, "banks")?,
            occupancy: check.time(&file.l3.occupancy_ns)?,
        },
        memory,
        tokens: check.tokens(&file.tokens)?,
        fupg: check.fupg(&file.fupg)?,
        dvfs: check.dvfs(&file.dvfs)?,
        wake_up: check.wake_up(&file.wake_up)?,
        os: check.os(&file.os)?,
        mapg: MapgSpec {
            t_llc: check.time(&file.mapg.t_llc_ns)?,
            t_mem: check.time(&file.mapg.t_mem_ns)?,
        },
        idle_states: check.idle_states(file.idle_states, &power)?,
        package: check.package(file.package)?,
        faults: check.faults(file.faults.as_ref())?,
        unused: gating.gated_power(power.core.leakage_w),
        gating,
        power,
    };
    if machine.l3.latency == Time::ZERO {
        return Err(check.fail(&file.l3.latency_ns, "a shared cache takes time; expected > 0 ns"));
    }
    if machine.tlb.is_none() && machine.gating.loses(Lost::Tlb) {
        let message = "gating.loses: \"tlb\", but the machine has no [tlb]";
        return Err(check.fail(&file.gating, message));
    }
    if machine.tokens.eta > machine.memory.response {
        let expected = "an estimate must not arrive after the data: expected at most response_ns";
        return Err(check.fail(&file.tokens.eta_ns, expected));
    }
    Ok(machine)
}

impl Check<'_> {
    fn tokens(&self, section: &TokenSection) -> Result<TokenSpec, InputError> {
        Ok(TokenSpec {
            l1: self.time(&section.l1_ns)?,
            l2: self.time(&section.l2_ns)?,
            l3: self.time(&section.l3_ns)?,
            eta: self.time(&section.eta_ns)?,
        })
    }

    fn geometry(
        &self,
        size: &Spanned<String>,
        ways: &Spanned<usize>,
    ) -> Result<Geometry, InputError> {
        let text = size.get_ref();
        let Some(bytes) = parse_size(text) else {
            let expected = "expected a size such as \"32KB\" or \"8MB\"";
            return Err(self.fail(size, format!("\"{text}\" is no size; {expected}")));
        };
        let ways_count = self.within(ways, 1, 64, "ways")?;
        // Both divisions round down; multiplying back finds a size that is not a whole number of
        // sets.
        let way_bytes = bytes / ways_count as u64;
        let sets = way_bytes / LINE_BYTES;
        let whole = sets * LINE_BYTES * ways_count as u64 == bytes;
        if !whole || !sets.is_power_of_two() || sets > 1 << 24 {
            return Err(self.fail(
                size,
                format!(
                    "an impossible cache: {text} in {ways_count} ways of {LINE_BYTES}-byte lines \
                     is {} sets, expected a power of two",
                    bytes as f64 / (LINE_BYTES as f64 * ways_count as f64)
                ),
            ));
        }
        Ok(Geometry { sets: sets as usize, ways: ways_count })
    }

    fn l1(&self, section: &L1Section, least_mshrs: usize) -> Result<L1Spec, InputError> {
        let latency = *section.latency_cycles.get_ref();
        if !(1..=64).contains(&latency) {
            let message = format!("a latency of {latency} cycles, expected 1 to 64");
            return Err(self.fail(&section.latency_cycles, message));
        }
        Ok(L1Spec {
            geometry: self.geometry(&section.size, &section.ways)?,
            latency,
            mshrs: self.within(&section.mshrs, least_mshrs, 64, "miss registers")?,
        })
    }

    fn l2_latency(&self, value: &Spanned<f64>, clock: Clock) -> Result<Cycle, InputError> {
        let cycles = clock.cycles_covering(self.time(value)?);
        if (1..=100).contains(&cycles) {
            Ok(cycles)
        } else {
            Err(self.fail(value, format!("{cycles} cycles, expected 1 to 100")))
        }
    }

    fn bank_latency(&self, section: &L2Section, clock: Clock) -> Result<Cycle, InputError> {
        let whole = self.l2_latency(&section.latency_ns, clock)?;
        // A file may write 0 for a bank that takes as long as the whole
        // (machines/ultrasparc-os.toml).
        let given = section.bank_ns.as_ref().filter(|bank| *bank.get_ref() != 0.0);
        let Some(bank) = given else { return Ok(whole) };
        let cycles = self.l2_latency(bank, clock)?;
        if cycles > whole {
            let message =
                format!("{cycles} cycles for half of the cache, expected at most {whole}");
            return Err(self.fail(bank, message));
        }
        Ok(cycles)
    }

    fn gating(&self, section: &Spanned<Gating>) -> Result<Gating, InputError> {
        let gating = section.get_ref();
        let shares = [gating.leakage_reduction, gating.retention_overhead];
        // A reduction of 0 would have no break-even time: `Gating::break_even` divides by it.
        if shares.iter().any(|share| !(0.0..=1.0).contains(share)) || shares[0] == 0.0 {
            return Err(self.fail(section, "gating shares must be 0 to 1, the reduction above 0"));
        }
        let ranges = [gating.wake_up_ns, gating.wake_up_energy_pj];
        if ranges.iter().any(|n| !(0.0..=1e12).contains(n)) {
            return Err(self.fail(section, "gating times and energies must not be negative"));
        }
        if gating.entry_cycles + gating.control_cycles + gating.refill_cycles > 100_000 {
            return Err(self.fail(section, "gating sequences must stay below 100000 cycles"));
        }
        if !(0.0..=1e9).contains(&gating.loses_after_us) {
            return Err(self.fail(section, "gating.loses_after_us must be 0 to 1e9"));
        }
        Ok(gating.clone())
    }

    fn fupg(&self, section: &Spanned<FupgSection>) -> Result<FupgSpec, InputError> {
        let file = section.get_ref();
        let sizes = [file.wake_up_ns, file.wake_up_energy_pj];
        let is_share = file.core_share > 0.0 && file.core_share <= 1.0;
        if !is_share || sizes.iter().any(|n| !(0.0..=1e9).contains(n)) {
            let message =
                "fupg shares must be 0 to 1, the core's above 0; time and energy 0 to 1e9";
            return Err(self.fail(section, message));
        }
        Ok(FupgSpec {
            core_share: file.core_share,
            wake_up_ns: file.wake_up_ns,
            wake_up_energy_pj: file.wake_up_energy_pj,
            domains: file.domains,
            gated: false,
        })
    }

    fn dvfs(&self, section: &Spanned<DvfsSpec>) -> Result<DvfsSpec, InputError> {
        let dvfs = section.get_ref();
        let voltages = dvfs.frequencies.iter().map(|&f| dvfs.voltage(f));
        // Points are shares of the full frequency, so the first is 1. A steep slope could leave no
        // voltage at the last one.
        let sound = dvfs.frequencies.first() == Some(&1.0)
            && dvfs.frequencies.windows(2).all(|pair| pair[1] < pair[0])
            && dvfs.frequencies.iter().all(|&f| f >= 0.01)
            && voltages.into_iter().all(|v| v > 0.0 && v <= 1.0);
        if !sound {
            let message =
                "dvfs needs frequencies that fall from 1, and voltages between 0 and 1 at each";
            return Err(self.fail(section, message));
        }
        Ok(dvfs.clone())
    }

    fn wake_up(&self, section: &Spanned<WakeUpSection>) -> Result<WakeUpSpec, InputError> {
        let file = section.get_ref();
        if !(1..=64).contains(&file.slots) || !(0.001..=1e3).contains(&file.stagger_ns) {
            return Err(self.fail(section, "wake_up needs 1 to 64 slots of 0.001 to 1000 ns"));
        }
        let [delay, fastest, slowest] = [file.delay_ns, file.fastest_ns, file.slowest_ns];
        let times = [delay, fastest, slowest];
        if times.iter().any(|t| !(0.1..=1e3).contains(t)) || fastest >= slowest {
            let message = "wake_up times must be 0.1 to 1000 ns, the fastest below the slowest";
            return Err(self.fail(section, message));
        }
        if !(2..=4096).contains(&file.modes) {
            return Err(self.fail(section, "wake_up needs 2 to 4096 modes"));
        }
        let sound = |e: &SafeWakeUp| {
            let weights = [e.beta, e.gamma, e.delta];
            (0.1..=1e3).contains(&e.t0_ns)
                && (0.05..=2.0).contains(&e.alpha)
                && weights.iter().all(|w| (0.0..=2.0).contains(w))
        };
        let rising = file.equation.windows(2).all(|pair| pair[0].cores < pair[1].cores);
        if file.equation.is_empty() || !rising || !file.equation.iter().all(sound) {
            let message = "wake_up needs equations by rising numbers of cores, with t0_ns 0.1 to \
                           1000, alpha 0.05 to 2, weights 0 to 2";
            return Err(self.fail(section, message));
        }
        Ok(WakeUpSpec {
            controller: file.controller,
            slots: file.slots,
            stagger: Time::from_ns(file.stagger_ns),
            delay: Time::from_ns(delay),
            fastest: Time::from_ns(fastest),
            slowest: Time::from_ns(slowest),
            modes: file.modes,
            equations: file.equation.clone(),
        })
    }

    fn os(&self, section: &Spanned<OsSection>) -> Result<OsSpec, InputError> {
        let file = section.get_ref();
        if file.cores > MAX_CORES || file.switch_cycles > 1_000_000 {
            let message = format!("os: 0 to {MAX_CORES} cores, a switch of 0 to 1000000 cycles");
            return Err(self.fail(section, message));
        }
        if !(0.0..=1e6).contains(&file.time_slice_us) {
            return Err(self.fail(section, "os: a time slice of 0 to 1e6 us"));
        }
        if !(0.0..=1e6).contains(&file.transfer_ns) {
            return Err(self.fail(section, "os: a transfer of 0 to 1e6 ns"));
        }
        Ok(OsSpec {
            cores: file.cores,
            // The key is required and TOML has no null: an empty name stands for none.
            like: Some(file.like.clone()).filter(|name| !name.is_empty()),
            kind: None,
            switch: file.switch_cycles,
            transfer: Time::from_ns(file.transfer_ns),
            power_down: file.power_down,
            time_slice: Time::from_ns(file.time_slice_us * 1e3),
            one_memory: false,
        })
    }

    fn power(&self, section: &PowerSection, memory: &MemorySpec) -> Result<PowerSpec, InputError> {
        let core = self.core_power(&section.core)?;
        let l3 = section.l3.get_ref();
        if [l3.leakage_w, l3.access_pj].iter().any(|n| !POWER.contains(n)) {
            return Err(self.fail(&section.l3, "power and energies must be 0 to 1e9"));
        }
        let memory = self.memory_power(section.memory.as_ref(), memory)?;
        let factor = section.factor.as_ref().map_or([1.0, 1.0], |factor| *factor.get_ref());
        if let Some(written) = &section.factor {
            if !(0.0..=1.0).contains(&factor[0]) || !(1.0..=100.0).contains(&factor[1]) {
                let message = "power.factor: expected two multiples, the first 0 to 1, the second \
                               1 to 100";
                return Err(self.fail(written, message));
            }
        }
        Ok(PowerSpec { core, l3: l3.clone(), memory, basis: section.basis, factor })
    }
}
