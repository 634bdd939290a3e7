//! What caches hold before a run.

use std::sync::Arc;

use halfwink_trace::WarmSet;

use crate::cache::flag;
use crate::core::Core;
use crate::front_end::By;
use crate::lines::Memories;
use crate::os_cores::os_core_of;
use crate::private::{Private, Warm};
use crate::ruled::Reference;
use crate::segregated::SecondLevel;
use crate::uncore::Uncore;

/// Fills all caches as the programs left them, taking turns so that the shared cache is shared.
/// What the kernel used is in the caches of its cores too, and in none of them to be written; nor
/// is anything that several have in common.
pub(crate) fn warm_up(
    cores: &mut [Core],
    users: usize,
    memories: &Memories,
    uncore: &mut Uncore,
    warm: &[Arc<WarmSet>],
) {
    let longest = warm.iter().map(|set| set.lines.len()).max().unwrap_or(0);
    let (cores, os_cores) = cores.split_at_mut(users);
    // Sets are in the order of last use, and of different lengths: counted from the end, so that
    // each program's last lines are the shared cache's most recent ones.
    for back in (1..=longest).rev() {
        for (n, set) in warm.iter().enumerate() {
            let Some(index) = set.lines.len().checked_sub(back) else { continue };
            let entry = set.lines[index];
            let (line, in_common) = memories.line_of(n, entry.line.0);
            let helped = entry.kernel && !os_cores.is_empty();
            let shared = helped || in_common;
            let home = n % users;
            cores[home].warm(line, Warm { dirty: entry.dirty && !shared, shared, ..entry.into() });
            if helped {
                let os_core = &mut os_cores[os_core_of(home, os_cores.len())];
                os_core.warm(line, Warm { dirty: false, shared, ..entry.into() });
            }
            uncore.warm(line, entry.dirty, entry.kernel);
        }
    }
}

impl Private {
    /// Fills the caches as if the line had been used, without time or counts.
    pub(crate) fn warm(&mut self, line: u64, how: Warm) {
        let shared = if how.shared { flag::SHARED } else { 0 };
        let owner = flag::owner(how.kernel);
        let dirty = if how.dirty { flag::DIRTY } else { 0 } | shared | owner;
        let (l1, l1_flags) = if how.code { (&mut self.l1i, 0) } else { (&mut self.l1d, dirty) };
        let victim = match l1.touch(line, l1_flags) {
            Some(_) => None,
            None => l1.insert(line, l1_flags).filter(|v| v.dirty),
        };
        match &mut self.l2 {
            SecondLevel::Plain(l2) => {
                if let Some(victim) = victim {
                    l2.touch(victim.line, flag::DIRTY);
                }
                if l2.touch(line, owner | shared).is_none() {
                    l2.insert(line, owner | shared);
                }
            }
            SecondLevel::Ruled(ruled) => {
                let by = By::new(0, how.kernel);
                ruled.warm(victim, Reference::of(line, by, how.code), shared);
            }
        }
    }
}
