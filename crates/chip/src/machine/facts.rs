//! What follows from a description in closed form.

use halfwink_policy::offload::{Organisation, Parameters, HARDWARE_CYCLES, STATIC_CHECK_CYCLES};

use super::Machine;

impl Machine {
    /// Named quantities that follow from the description, for targets in closed form.
    #[must_use]
    pub fn facts(&self) -> Vec<(&'static str, f64)> {
        let costs = self.gating_costs(0);
        let associative = Organisation::PUBLISHED_ASSOCIATIVE;
        let without_tags = match associative {
            Organisation::FullyAssociative { entries } => Organisation::DirectMapped { entries },
            other => other,
        };
        let mut facts = vec![
            ("gating.break_even_ns", costs.break_even.as_ns()),
            ("gating.wake_up_ns", costs.wake_up.as_ns()),
            ("gating.wake_up_energy_pj", self.gating.wake_up_energy_pj),
            ("gating.restore_ns", costs.restore.as_ns()),
            (
                "gating.restore_cycles",
                (self.gating.control_cycles + self.gating.refill_cycles) as f64,
            ),
            ("tap.entries", self.token_entries() as f64),
            // One valid bit, the physical address, and the bound in steps of 100 ps (Sec 2.3.4).
            ("tap.entry_bits", f64::from(1 + 64 + COUNTER_BITS)),
            ("mapg.bits", f64::from(2 * COUNTER_BITS)),
            // For each bank the open row (of 32768 in a 2 Gb device) and until when it is busy.
            (
                "memory.estimate_bits_per_rank",
                self.memory.banks_per_rank() as f64 * f64::from(ROW_BITS + COUNTER_BITS),
            ),
            ("fupg.core_share", self.fupg.core_share),
            ("wake_up.modes", self.wake_up.modes as f64),
            ("os.round_trip_cycles", 2.0 * self.os.switch as f64),
            // Of the offload policies, whatever the machine (Nellans 2014, Sec 4.6).
            ("os.check_cycles", f64::from(STATIC_CHECK_CYCLES)),
            ("os.decision_cycles", f64::from(HARDWARE_CYCLES)),
            ("os.predictor_bytes", predictor_bytes(associative)),
            (
                "os.predictor_tag_bytes",
                predictor_bytes(associative) - predictor_bytes(without_tags),
            ),
            ("os.predictor_direct_bytes", predictor_bytes(Organisation::PUBLISHED_DIRECT)),
        ];
        if let Some(socket) = self.socket() {
            facts.extend([
                ("socket.cores", socket.cores as f64),
                ("socket.busy_core_w", socket.busy_core_w),
                ("socket.busy_w", socket.busy_w),
                ("socket.halted_w", socket.halted_w),
                ("socket.idle_w", socket.idle_w),
            ]);
        }
        facts
    }
}

/// Width of the delay registers: 100 ps steps up to 3.28 us (Strong 2013, Sec 2.3.3).
const ROW_BITS: u32 = 15;
const COUNTER_BITS: u32 = 15;

/// Memory of the published run-length predictor; none of a table without bound.
fn predictor_bytes(organisation: Organisation) -> f64 {
    let bits = organisation.storage_bits(Parameters::published(organisation).length_bits);
    bits.unwrap_or(0) as f64 / 8.0
}
