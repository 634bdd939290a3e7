//! Idle periods as a thread of the lowest priority on each CPU sees them: while it runs, nothing
//! else wants to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::Periods;
use crate::clock::{self, Rate};
use crate::sys::{self, CpuSet};

/// A longer pause between two looks at the clock means that something else ran, in nanoseconds.
const GAP_NS: u64 = 2_000;

#[derive(Debug)]
pub(super) struct Watch {
    stop: Arc<AtomicBool>,
    spinners: Vec<JoinHandle<Periods>>,
}

impl Watch {
    pub(super) fn begin(cpus: &[u32]) -> Result<Watch, String> {
        let stop = Arc::new(AtomicBool::new(false));
        let rate = Rate::measure();
        let spinners = cpus
            .iter()
            .map(|&cpu| {
                let told = Arc::clone(&stop);
                thread::spawn(move || spin(cpu, rate, &told))
            })
            .collect();
        Ok(Watch { stop, spinners })
    }

    pub(super) fn end(self) -> Vec<(Periods, u64)> {
        self.stop.store(true, Ordering::Release);
        let found = self.spinners.into_iter().map(|s| s.join().unwrap_or_default());
        found.map(|periods| (periods, 0)).collect()
    }
}

fn spin(cpu: u32, rate: Rate, stop: &AtomicBool) -> Periods {
    let mut periods = Periods::default();
    let parameters = libc::sched_param { sched_priority: 0 };
    let (idle, at) = (libc::SCHED_IDLE as u64, &raw const parameters as u64);
    // SAFETY: the kernel reads one `sched_param`. Any thread may lower itself.
    let lowered = unsafe { sys::call3(libc::SYS_sched_setscheduler, 0, idle, at) };
    if sys::is_error(lowered) || CpuSet::one(cpu).pin().is_err() {
        return periods;
    }
    let gap = rate.ticks(GAP_NS);
    let mut begun = clock::ticks();
    let mut last = begun;
    while !stop.load(Ordering::Relaxed) {
        let now = clock::ticks();
        if now - last > gap {
            periods.add(rate.ns(last - begun));
            begun = now;
        }
        last = now;
        core::hint::spin_loop();
    }
    periods.add(rate.ns(last - begun));
    periods
}
