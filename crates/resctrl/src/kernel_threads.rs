use std::fs;
use std::path::Path;

use crate::Error;

/// `PF_KTHREAD` of Linux' include/linux/sched.h.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// Tasks of a `/proc` that are kernel threads, sorted.
pub(crate) fn kernel_threads(proc: &Path) -> Result<Vec<u32>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(proc).map_err(|e| Error::io(proc, e))? {
        let entry = entry.map_err(|e| Error::io(proc, e))?;
        let task = entry.file_name().to_str().and_then(crate::text::number);
        let Some(task) = task else { continue };
        // Who has ended since is no kernel thread any more.
        let Ok(stat) = fs::read(entry.path().join("stat")) else { continue };
        if is_kernel_thread(&String::from_utf8_lossy(&stat)) {
            found.push(task);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Returns whether field 9 of `stat` marks a kernel thread; the name, in parentheses, may hold any
/// character.
fn is_kernel_thread(stat: &str) -> bool {
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6));
    flags.and_then(|text| text.parse::<u32>().ok()).is_some_and(|f| f & KERNEL_THREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_thread_is_told_by_its_flags_whatever_its_name() {
        assert!(is_kernel_thread("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0"));
        assert!(is_kernel_thread("9 (a) 1 (b)) S 2 0 0 0 -1 2129984 0 0"));
        assert!(!is_kernel_thread("1 (init 2129984) S 0 1 1 0 -1 4194560 0 0"));
        assert!(!is_kernel_thread("1 (init"));
    }
}
