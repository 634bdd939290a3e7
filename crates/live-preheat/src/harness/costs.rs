//! What preheating costs: times to the first load, and times of lines.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use halfwink_live::clock::{ticks_fenced, Rate};

use super::{Harness, Rates, FAILED, PATIENCE_NS, SILENT};
use crate::helper::{self, prefetch};
use crate::load::monotonic_ns;
use crate::place::Evictor;
use crate::shared::Operation;
use crate::statistics::Summary;

/// Memory to compare loads with.
const OWN_BYTES: usize = 64 << 20;
/// Runs of which the best counts.
const TRIES: usize = 20;

impl Harness {
    /// Measures the time from sending an announcement to its first load, with everything warm and
    /// the CPU awake.
    ///
    /// # Errors
    ///
    /// A line on what does not work.
    pub fn latency(&mut self, rounds: usize) -> Result<Summary, String> {
        self.first_us.clear();
        for _ in 0..rounds {
            let (begun, begun_ns) = (Instant::now(), monotonic_ns());
            self.preheat()?;
            while begun.elapsed() < self.lead + Duration::from_micros(100) {
                core::hint::spin_loop();
            }
            self.note_first(begun_ns);
        }
        Ok(Summary::of(&self.first_us))
    }

    /// Nanoseconds a line, each the best of several runs on the server's CPU.
    ///
    /// # Errors
    /// What does not work, in one line.
    pub fn rates(&mut self) -> Result<Rates, String> {
        let (cpu, evictor, bytes) = (self.place.cpu, self.evictor, 4 * self.second_bytes);
        let kernel = Arc::clone(&self.kernel.0);
        let (warm, cold) = self.place.run(move || -> Result<_, String> {
            let kernel = kernel.lock().map_err(|_| FAILED)?;
            let run = || {
                let ran = kernel.run(cpu, 0).map_err(|e| format!("preheating: {e}"))?;
                Ok::<_, String>((ran.ended_ns - ran.began_ns) as f64 / ran.lines.max(1) as f64)
            };
            let (mut warm, mut cold) = (f64::MAX, f64::MAX);
            for _ in 0..TRIES {
                evictor.stream(bytes);
                cold = cold.min(run()?);
                warm = warm.min(run()?);
            }
            Ok((warm, cold))
        })?;
        let Some(slot) = self.slot else {
            return Ok(Rates { kernel_warm: warm, kernel_cold: cold, ..Rates::default() });
        };
        let count = slot.count.load(Ordering::Relaxed) as usize;
        let words: Vec<u64> =
            slot.words[..count].iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let lines: u64 = words.iter().map(|word| (word & 63) + 1).sum();
        let rate = Rate::measure();
        let per_line = |ticks: u64| rate.ps(ticks) as f64 / 1e3 / lines.max(1) as f64;
        let (mut user, mut best) = (f64::MAX, f64::MAX);
        // As many pages, each a translation.
        let own = Evictor::in_small_pages(OWN_BYTES)?;
        for _ in 0..TRIES {
            self.flush_user_lines()?;
            let number = slot.post(Operation::Load, None, 0);
            if !slot.wait(number, PATIENCE_NS) {
                return Err(SILENT.to_owned());
            }
            let [first, last] =
                [&slot.first_ticks, &slot.last_ticks].map(|t| t.load(Ordering::Relaxed));
            user = user.min(per_line(last - first));
            // The same pattern in memory of our own.
            let room = (own.bytes() - (1 << 16)) as u64;
            let own: Vec<u64> = words.iter().map(|w| own.base() + w % room).collect();
            best = best.min(per_line(self.place.run(move || {
                // SAFETY: runs of at most 64 lines, that far from the end of our own memory.
                unsafe { helper::flush(&own) };
                let begun = ticks_fenced();
                prefetch(&own);
                ticks_fenced() - begun
            })));
        }
        let ratio = user / best;
        Ok(Rates { kernel_warm: warm, kernel_cold: cold, user, best_prefetch: best, ratio })
    }
}
