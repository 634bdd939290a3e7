//! A share of the processors for this process: a control group of its own, gone when it ends.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Error;

/// Length of a period, in microseconds: short, so that a request is held up in small pieces.
const PERIOD_US: u64 = 10_000;

/// The process is in a group of its own with a limit; dropping it puts it back.
#[derive(Debug)]
pub struct Quota {
    before: PathBuf,
    group: PathBuf,
}

impl Quota {
    /// Gives this process (all its threads) so many per cent of one processor.
    ///
    /// # Errors
    /// The share is out of range, or no group can be made here: says what was tried, in one line.
    pub fn begin(percent: f64) -> Result<Quota, Error> {
        if !(1.0..=100_000.0).contains(&percent) {
            return Err(Error::input(format!("quota {percent} %: expected 1 to 100000")));
        }
        let quota_us = (percent / 100.0 * PERIOD_US as f64).round().max(1000.0) as u64;
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mut refused = Vec::new();
        for place in places(&mounts, &groups) {
            match place.begin(quota_us) {
                Ok(quota) => return Ok(quota),
                Err(e) => refused.push(format!("{}: {e}", place.parent.display())),
            }
        }
        if refused.is_empty() {
            refused.push("no cgroup file system with the cpu controller".into());
        }
        Err(Error::input(format!(
            "quota: no control group can be made here ({}): run as root, or under `systemd-run \
             --user --scope -p CPUQuota={percent}%`",
            refused.join("; ")
        )))
    }

    /// Returns the path of the group.
    #[must_use]
    pub fn group(&self) -> &Path {
        &self.group
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // Nothing is left to do if the kernel refuses: the group is empty once we have ended.
        let _ = join(&self.before);
        let _ = fs::remove_dir(&self.group);
    }
}

/// Place at which a group may be made.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// The group that this process is in now.
    before: PathBuf,
    /// Below which the new one is made.
    parent: PathBuf,
    /// Whether it is of version 2, rather than of the version 1 that some systems still have.
    unified: bool,
}

impl Place {
    fn begin(&self, quota_us: u64) -> io::Result<Quota> {
        let group = self.parent.join(format!("halfwink-{}", std::process::id()));
        fs::create_dir(&group)?;
        let quota = Quota { before: self.before.clone(), group: group.clone() };
        // From here on the group goes when `quota` does.
        if self.unified {
            if !group.join("cpu.max").exists() {
                return Err(io::Error::other("the cpu controller is not handed down"));
            }
            fs::write(group.join("cpu.max"), format!("{quota_us} {PERIOD_US}"))?;
        } else {
            fs::write(group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
            fs::write(group.join("cpu.cfs_quota_us"), quota_us.to_string())?;
        }
        join(&group)?;
        Ok(quota)
    }
}

fn join(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// Groups to try, from the text of `/proc/self/mounts` and `/proc/self/cgroup`: below our own (as
/// version 2 allows it only in the root, or if processes are elsewhere), then beside it.
fn places(mounts: &str, groups: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(at), Some(kind), Some(options)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let unified = kind == "cgroup2";
        let older = kind == "cgroup" && options.split(',').any(|o| o == "cpu");
        if !(unified || older) {
            continue;
        }
        let own = groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let wanted = if unified { "" } else { "cpu" };
            controllers.split(',').any(|c| c == wanted).then_some(path)
        });
        let Some(own) = own else { continue };
        let before = Path::new(at).join(own.trim_start_matches('/'));
        let beside = before.parent().filter(|_| own != "/").map(Path::to_owned);
        let parents = [Some(before.clone()), beside];
        places.extend(parents.into_iter().flatten().map(|parent| Place {
            before: before.clone(),
            parent,
            unified,
        }));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_folders_follow_mounts_and_membership() {
        let mounts = "cg /sys/fs/cgroup cgroup2 rw,nosuid 0 0\nproc /proc proc rw 0 0\n\
                      x /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n\
                      x /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n";
        let found = places(mounts, "4:cpuset:/a\n3:cpu,cpuacct:/\n0::/user.slice/s\n");
        let wanted = [
            ("/sys/fs/cgroup/user.slice/s", true),
            ("/sys/fs/cgroup/user.slice", true),
            ("/sys/fs/cgroup/cpu/", false),
        ];
        let found: Vec<_> =
            found.iter().map(|p| (p.parent.display().to_string(), p.unified)).collect();
        let wanted: Vec<_> = wanted.map(|(path, unified)| (path.to_owned(), unified)).into();
        assert_eq!(found, wanted);
        assert!(places("", "0::/").is_empty());
    }

    #[test]
    fn a_share_must_be_one() {
        for wrong in [0.0, -5.0, f64::NAN, 1e9] {
            assert!(Quota::begin(wrong).unwrap_err().to_string().contains("expected 1 to"));
        }
    }
}
