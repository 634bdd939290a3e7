//! From the window into the units.

use halfwink_units::Cycle;

use super::slots::SlotSet;
use super::{slot_of, OutOfOrder};
use crate::machine::Units;
use crate::uop::{Op, Unit};

impl<const W: usize, const N: usize> OutOfOrder<W, N> {
    /// Sets by unit, so that issuing looks at no operation whose unit is taken.
    #[inline]
    pub(super) fn make_ready(&mut self, op: Op, n: usize) {
        let set = match op {
            Op::Divide => &mut self.ready_divide[0],
            Op::FpDivide => &mut self.ready_divide[1],
            Op::FpAdd if self.common.spec.units.fp_add.is_some() => &mut self.ready_fp[0],
            Op::FpMultiply if self.common.spec.units.fp_multiply.is_some() => &mut self.ready_fp[1],
            _ => match op.unit() {
                // Occupies its place only.
                Unit::Nothing => &mut self.done,
                unit => &mut self.ready[unit as usize],
            },
        };
        set.insert(n);
    }

    /// Starts the oldest ready operations, as many as there are units.
    #[inline]
    pub(super) fn issue(&mut self, now: Cycle) -> bool {
        let units = self.units(now);
        // Oldest first within each unit; where the width is less than all units together, units
        // have their turn in this order, whatever the age of what they start.
        // Fused, operations are many more than what is dispatched: the units are what bounds them.
        let mut budget = self.starts;
        let start = budget;
        for _ in 0..units.memory.min(budget) {
            let Some(n) = self.oldest(&self.ready[Unit::Memory as usize]) else { break };
            self.ready[Unit::Memory as usize].remove(n);
            self.issue_memory(n, now);
            budget -= 1;
        }
        let mut fp = units.fp;
        if self.has_split_fp {
            for (which, count) in [units.fp_add, units.fp_multiply].into_iter().enumerate() {
                for _ in 0..count.unwrap_or(0).min(fp).min(budget) {
                    let Some(n) = self.oldest(&self.ready_fp[which]) else { break };
                    self.ready_fp[which].remove(n);
                    self.start(n, now);
                    (fp, budget) = (fp - 1, budget - 1);
                }
            }
        }
        for (unit, count) in
            [(Unit::Alu, units.alu), (Unit::Multiply, units.multiply), (Unit::Fp, fp)]
        {
            for _ in 0..count.min(budget) {
                let Some(n) = self.oldest(&self.ready[unit as usize]) else { break };
                self.ready[unit as usize].remove(n);
                self.start(n, now);
                budget -= 1;
            }
        }
        for (which, count) in [units.multiply, units.fp].into_iter().enumerate() {
            if self.divide_free[which] <= now && budget > 0 && count > 0 {
                let Some(n) = self.oldest(&self.ready_divide[which]) else { continue };
                self.ready_divide[which].remove(n);
                // Not pipelined: the divider is taken until the result is there, or nearly so.
                self.divide_free[which] = now + self.common.spec.busy[which];
                self.start(n, now);
                budget -= 1;
            }
        }
        budget < start
    }

    /// Units that have power, of those that an operation is ready for.
    #[inline]
    fn units(&mut self, now: Cycle) -> Units {
        match self.common.unit_gates {
            None => self.common.spec.units,
            Some(_) => self.powered(now),
        }
    }

    fn powered(&mut self, now: Cycle) -> Units {
        let mut units = self.common.spec.units;
        let [multiply, fp] = self.ready_divide.map(|set| !set.is_empty());
        let fp = fp || self.ready_fp.iter().any(|set| !set.is_empty());
        let Some(gates) = &mut self.common.unit_gates else { return units };
        for (unit, count, others) in [
            (Unit::Alu, &mut units.alu, false),
            (Unit::Multiply, &mut units.multiply, multiply),
            (Unit::Fp, &mut units.fp, fp),
        ] {
            let wanted = others || !self.ready[unit as usize].is_empty();
            if wanted && gates.needed(unit, now) > now {
                *count = 0;
            }
        }
        units
    }

    #[inline]
    fn use_unit(&mut self, unit: Unit, until: Cycle) {
        if let Some(gates) = &mut self.common.unit_gates {
            gates.used(unit, until);
        }
    }

    /// The oldest slot of a set.
    #[inline]
    fn oldest(&self, set: &SlotSet<W>) -> Option<usize> {
        set.first_from(slot_of::<N>(self.head))
    }

    /// Starts an operation in its unit.
    #[inline]
    pub(super) fn start(&mut self, n: usize, now: Cycle) {
        let op = self.slots[n].op;
        let done = now + self.common.latency(op);
        self.calendar.add(now, done, n);
        self.use_unit(op.unit(), done);
        match op.unit() {
            Unit::Fp => self.waiting_fp -= 1,
            _ => self.waiting_integer -= 1,
        }
    }
}
