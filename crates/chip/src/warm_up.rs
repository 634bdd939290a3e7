//! What caches hold before a run.

use std::sync::Arc;

use halfwink_trace::WarmSet;

use crate::core::Core;
use crate::lines::Memories;
use crate::os_cores::os_core_of;
use crate::private::Warm;
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
