//! What a core's section says, checked.

use halfwink_engine::InputError;
use halfwink_units::Cycle;
use toml::Spanned;

use super::file::{CoreSection, KindName, StringsSection};
use super::value::Check;
use super::{CoreKind, CoreSpec, Latencies, StringSpec, Units, Window, MAX_WINDOW};

impl Check<'_> {
    pub(super) fn core(&self, section: &CoreSection) -> Result<CoreSpec, InputError> {
        let kind = self.kind(section)?;
        Ok(CoreSpec {
            kind,
            width: self.within(&section.width, 1, 16, "micro-operations a cycle")?,
            store_queue: self.within(&section.store_queue, 1, MAX_WINDOW, "entries")?,
            refill: section.refill_cycles,
            syscall: section.syscall_cycles,
            atomic: section.atomic_cycles,
            units: self.units(section, kind)?,
            latency: self.latency(section)?,
            branches_in_order: match (&section.branches_in_order, kind) {
                (Some(value), CoreKind::InOrder) => {
                    let message = "all is in order on an in-order core: leave it out";
                    return Err(self.fail(value, message));
                }
                (value, _) => value.as_ref().is_some_and(|value| *value.get_ref()),
            },
            fusion: self.switch(section.fusion.as_ref(), kind, "fusion")?,
            move_elimination: {
                self.switch(section.move_elimination.as_ref(), kind, "move_elimination")?
            },
            index: self.index(section, kind)?,
            busy: self.busy(section, kind)?,
            strings: section.strings.as_ref().map(|strings| self.strings(strings)).transpose()?,
        })
    }

    fn strings(&self, section: &Spanned<StringsSection>) -> Result<StringSpec, InputError> {
        let StringsSection { bytes, start_cycles, short_bytes, short_start_cycles } =
            *section.get_ref();
        let message = if !(bytes.is_power_of_two() && (8..=64).contains(&bytes)) {
            format!("bytes {bytes}, expected 8, 16, 32 or 64")
        } else if start_cycles > 200 {
            format!("start_cycles {start_cycles}, expected 0 to 200")
        } else if short_start_cycles > start_cycles {
            format!("short_start_cycles {short_start_cycles}, expected 0 to {start_cycles}")
        } else if short_bytes > 4096 {
            format!("short_bytes {short_bytes}, expected 0 to 4096")
        } else {
            return Ok(StringSpec {
                bytes,
                start: start_cycles,
                short_bytes,
                short_start: short_start_cycles,
            });
        };
        Err(self.fail(section, message))
    }

    fn kind(&self, section: &CoreSection) -> Result<CoreKind, InputError> {
        let queues = [
            (&section.window, "window", MAX_WINDOW),
            (&section.integer_queue, "integer_queue", MAX_WINDOW),
            (&section.fp_queue, "fp_queue", MAX_WINDOW),
            (&section.load_queue, "load_queue", MAX_WINDOW),
        ];
        match section.kind.get_ref() {
            KindName::InOrder => {
                for (value, name, _) in queues {
                    self.not_in_order(value.as_ref(), CoreKind::InOrder, name)?;
                }
                Ok(CoreKind::InOrder)
            }
            KindName::OutOfOrder => {
                let mut sizes = [0; 4];
                for (size, (value, name, max)) in sizes.iter_mut().zip(queues) {
                    let Some(value) = value else {
                        let message = format!("an out-of-order core needs `{name}`");
                        return Err(self.fail(&section.kind, message));
                    };
                    *size = self.within(value, 1, max, "entries")?;
                }
                let [reorder, integer, fp, loads] = sizes;
                Ok(CoreKind::OutOfOrder(Window { reorder, integer, fp, loads }))
            }
        }
    }

    fn units(&self, section: &CoreSection, kind: CoreKind) -> Result<Units, InputError> {
        let units = *section.units.get_ref();
        if [units.alu, units.multiply, units.fp, units.memory].contains(&0) {
            return Err(self.fail(&section.units, "every unit must start at least 1 a cycle"));
        }
        for (of, name) in [(units.fp_add, "fp_add"), (units.fp_multiply, "fp_multiply")] {
            let Some(of) = of else { continue };
            self.not_in_order(Some(&section.units), kind, name)?;
            if !(1..=units.fp).contains(&of) {
                let message = format!("{name} {of}, expected 1 to fp, {}", units.fp);
                return Err(self.fail(&section.units, message));
            }
        }
        Ok(units)
    }

    fn latency(&self, section: &CoreSection) -> Result<Latencies, InputError> {
        let latency = *section.latency_cycles.get_ref();
        let Latencies { alu, multiply, divide, vector, fp_add, fp_multiply, fp_divide } = latency;
        let all = [alu, multiply, divide, vector, fp_add, fp_multiply, fp_divide];
        let all = all.into_iter().chain([section.atomic_cycles, section.syscall_cycles]);
        if all.chain([section.refill_cycles]).any(|n| !(1..=200).contains(&n)) {
            return Err(self.fail(&section.latency_cycles, "latencies must be 1 to 200 cycles"));
        }
        Ok(latency)
    }

    /// More cycles of a load with an index.
    fn index(&self, section: &CoreSection, kind: CoreKind) -> Result<Cycle, InputError> {
        let Some(value) = &section.index_cycles else { return Ok(0) };
        self.not_in_order(Some(value), kind, "index_cycles")?;
        let cycles = *value.get_ref();
        if cycles > 20 {
            return Err(self.fail(value, format!("{cycles} cycles, expected 0 to 20")));
        }
        Ok(cycles)
    }

    /// Reads a switch that only out-of-order cores have.
    fn switch(
        &self,
        value: Option<&Spanned<bool>>,
        kind: CoreKind,
        name: &str,
    ) -> Result<bool, InputError> {
        self.not_in_order(value, kind, name)?;
        Ok(value.is_some_and(|value| *value.get_ref()))
    }

    /// Refuses what only out-of-order cores have.
    fn not_in_order<T>(
        &self,
        value: Option<&Spanned<T>>,
        kind: CoreKind,
        name: &str,
    ) -> Result<(), InputError> {
        match (value, kind) {
            (Some(value), CoreKind::InOrder) => {
                Err(self.fail(value, format!("`{name}` is for out-of-order cores only")))
            }
            _ => Ok(()),
        }
    }

    /// Cycles that a division keeps its unit busy: until its result is there, unless it is said.
    fn busy(&self, section: &CoreSection, kind: CoreKind) -> Result<[Cycle; 2], InputError> {
        let value = section.busy_cycles.as_ref();
        self.not_in_order(value, kind, "busy_cycles")?;
        let latency = section.latency_cycles.get_ref();
        let latencies = [latency.divide, latency.fp_divide];
        let Some(value) = value else { return Ok(latencies) };
        let given = [value.get_ref().divide, value.get_ref().fp_divide];
        let mut busy = latencies;
        for ((busy, given), name) in busy.iter_mut().zip(given).zip(["divide", "fp_divide"]) {
            let Some(given) = given else { continue };
            if !(1..=*busy).contains(&given) {
                let message = format!("{name} {given}, expected 1 to its latency, {busy}");
                return Err(self.fail(value, message));
            }
            *busy = given;
        }
        Ok(busy)
    }
}
