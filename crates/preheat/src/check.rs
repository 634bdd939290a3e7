//! Refuses descriptions that cannot be.

use halfwink_dram::{Device, Rules};

use crate::spec::{Spec, SpecError};

fn fail(element: impl Into<String>, message: impl Into<String>) -> SpecError {
    SpecError { element: element.into(), message: message.into() }
}

fn within(element: &str, value: f64, (low, high): (f64, f64)) -> Result<(), SpecError> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(fail(element, format!("{value}, expected {low} to {high}")))
}

impl Spec {
    /// Memory as `halfwink-dram` takes it.
    ///
    /// # Errors
    /// If there is no such device, or it cannot be.
    pub fn dram(&self) -> Result<halfwink_dram::Spec, SpecError> {
        let memory = &self.memory;
        let Some(device) = Device::named(&memory.device) else {
            let known: Vec<&str> = Device::names().collect();
            let message = format!("`{}`, expected one of {}", memory.device, known.join(", "));
            return Err(fail("memory.device", message));
        };
        let spec = halfwink_dram::Spec {
            channels: memory.channels,
            ranks: memory.ranks,
            device,
            map: memory.map,
            hash: memory.hash,
            rules: Rules::default(),
        };
        spec.check().map_err(|e| fail(format!("memory.{}", e.key), e.message))?;
        Ok(spec)
    }

    /// Refuses what cannot be.
    ///
    /// # Errors
    /// The first value that is impossible.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.schema != 1 {
            return Err(fail("schema", "this halfwink reads schema 1"));
        }
        let sets = self.sets();
        if !sets.is_power_of_two() || sets * self.llc.ways as u64 * 64 != self.llc.kib << 10 {
            let found = format!("{} KiB in {} ways", self.llc.kib, self.llc.ways);
            return Err(fail("llc.ways", format!("{found}, expected a power of two of sets")));
        }
        self.dram()?;
        self.check_numbers()?;
        self.check_services()
    }

    /// Sets of the last-level cache.
    #[must_use]
    pub fn sets(&self) -> u64 {
        (self.llc.kib << 10) / 64 / self.llc.ways.max(1) as u64
    }

    fn check_numbers(&self) -> Result<(), SpecError> {
        let (core, loader, power) = (&self.core, &self.loader, &self.power);
        let us = (0.0, 1e7);
        for (element, value, range) in [
            ("core.cores", f64::from(core.cores), (1.0, 64.0)),
            ("core.ghz", core.ghz, (0.01, 20.0)),
            ("core.line_fills", f64::from(core.line_fills), (1.0, 256.0)),
            ("core.cpi_factor", core.cpi_factor, (1e-3, 1e3)),
            ("core.exposed_factor", core.exposed_factor, (0.0, 1e3)),
            ("core.tlb_us", core.tlb_us, us),
            ("core.l1i_us", core.l1i_us, us),
            ("core.l1d_us", core.l1d_us, us),
            ("core.branch_us", core.branch_us, us),
            ("llc.hit_ns", self.llc.hit_ns, us),
            ("memory.path_ns", self.memory.path_ns, (0.0, 1e5)),
            ("memory.port_ns", self.memory.port_ns, (0.0, 1e5)),
            ("memory.gib", self.memory.gib as f64, (1.0, 65536.0)),
            ("loader.start_us", loader.start_us, us),
            ("loader.further_core_us", loader.further_core_us, us),
            ("loader.loop_cycles", loader.loop_cycles, us),
            ("loader.unrolled_cycles", loader.unrolled_cycles, us),
            ("loader.word_cycles", loader.word_cycles, us),
            ("loader.jump_cycles", loader.jump_cycles, us),
            ("loader.cores", f64::from(loader.cores), (1.0, f64::from(core.cores))),
            ("estimate.repetitions", f64::from(self.estimate.repetitions), (1.0, 1000.0)),
            ("estimate.tag_ns", self.estimate.tag_ns, us),
            ("sleep.wake_us", self.sleep.wake_us, us),
            ("sleep.after_us", self.sleep.after_us, us),
            ("sleep.write_back_ns", self.sleep.write_back_ns, us),
            ("network.lead_us", self.network.lead_us, us),
            ("network.prototype_lead_us", self.network.prototype_lead_us, us),
            ("network.epoch_ns", self.network.epoch_ns, (1.0, 1e9)),
            ("network.polled_us", self.network.polled_us, (1e-3, 1e7)),
            ("power.core_active_w", power.core_active_w, (0.0, 1e4)),
            ("power.core_stalled_w", power.core_stalled_w, (0.0, 1e4)),
            ("power.core_idle_w", power.core_idle_w, (0.0, 1e4)),
            ("power.core_asleep_w", power.core_asleep_w, (0.0, 1e4)),
            ("power.llc_on_w", power.llc_on_w, (0.0, 1e4)),
            ("power.llc_asleep_w", power.llc_asleep_w, (0.0, 1e4)),
            ("power.memory_w", power.memory_w, (0.0, 1e4)),
            ("power.line_pj", power.line_pj, (0.0, 1e9)),
            ("spread.sigma", self.spread.sigma, (0.0, 2.0)),
            ("spread.outliers", self.spread.outliers, (0.0, 0.5)),
            ("spread.outlier_excess", self.spread.outlier_excess, (0.0, 100.0)),
            ("spread.outlier_mean", self.spread.outlier_mean, (0.0, 100.0)),
        ] {
            within(element, value, range)?;
        }
        Ok(())
    }

    fn check_services(&self) -> Result<(), SpecError> {
        for (name, group) in &self.groups {
            let at = |key: &str| format!("groups.{name}.{key}");
            within(&at("lines"), group.lines as f64, (1.0, 1e6))?;
            within(&at("touched"), group.touched, (1e-6, 1.0))?;
            within(&at("written"), group.written, (0.0, 1.0))?;
            within(&at("moved"), group.moved, (0.0, 1.0))?;
            within(&at("run_lines"), group.run_lines, (1.0, 32.0))?;
            within(&at("density"), group.density, (0.01, 0.9))?;
        }
        for (name, service) in &self.services {
            let at = |key: &str| format!("services.{name}.{key}");
            if service.groups.is_empty() {
                return Err(fail(at("groups"), "none, expected at least one"));
            }
            for group in &service.groups {
                if !self.groups.contains_key(group) {
                    let known: Vec<&str> = self.groups.keys().map(String::as_str).collect();
                    let message = format!("`{group}`, expected one of {}", known.join(", "));
                    return Err(fail(at("groups"), message));
                }
            }
            within(&at("fresh_lines"), service.fresh_lines as f64, (0.0, 1e6))?;
            within(&at("packet_share"), service.packet_share, (0.0, 1.0))?;
            within(&at("instructions"), service.instructions, (1e-3, 1e7))?;
            within(&at("cpi"), service.cpi, (0.01, 100.0))?;
            within(&at("fixed_us"), service.fixed_us, (0.0, 1e7))?;
            within(&at("exposed_ns"), service.exposed_ns, (0.0, 1e5))?;
        }
        for (name, shares) in &self.mixes {
            for (service, share) in shares {
                let element = format!("mixes.{name}.{service}");
                if !self.services.contains_key(service) {
                    return Err(fail(element, "there is no such service"));
                }
                within(&element, *share, (1e-6, 1e6))?;
            }
        }
        Ok(())
    }
}
