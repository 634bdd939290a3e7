use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::Files;
use crate::schemata::Line;
use crate::state::{file, State};
use crate::text::{self, show_cpus, KernelMode};
use crate::{names, Error, Mask, Resource, Schemata};

/// Folder of files until they are complete. Hidden, so no group.
const SCRATCH: &str = ".halfwink-rehearsal";

/// Numbers of errors as Linux has them.
const NO_SUCH_TASK: i32 = 3;
const INVALID: i32 = 22;
const NO_SPACE: i32 = 28;

/// A folder laid out like a resctrl tree, without a kernel behind it. What the kernel would do by
/// itself is done here: tasks and CPUs are in one group each, a new group has its files, the bound
/// kernel mode stands in brackets, and masks that the part does not allow are refused.
///
/// Each file changes at once or not at all, and nothing is taken away before it is elsewhere: who
/// is killed in between leaves a tree that the same call completes.
#[derive(Debug)]
pub struct Rehearsal {
    root: PathBuf,
}

fn refused(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

fn as_io(error: Error) -> io::Error {
    match error {
        Error::Io { source, .. } => source,
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    }
}

impl Rehearsal {
    pub(crate) fn new(root: PathBuf) -> Rehearsal {
        // Of somebody who was killed.
        let _ = fs::remove_dir_all(root.join(SCRATCH));
        Rehearsal { root }
    }

    fn put(&self, path: &str, text: &str) -> io::Result<()> {
        let scratch = self.root.join(SCRATCH);
        // Not `create_dir_all`: a tree that is gone stays gone.
        match fs::create_dir(&scratch) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
        fs::write(scratch.join("file"), text)?;
        let done = fs::rename(scratch.join("file"), self.root.join(path));
        let _ = fs::remove_dir_all(scratch);
        done
    }

    fn state(&self) -> io::Result<State> {
        State::read(self).map_err(as_io)
    }

    fn set_tasks(&self, group: &str, tasks: &BTreeSet<u32>) -> io::Result<()> {
        let text: String = tasks.iter().map(|task| format!("{task}\n")).collect();
        self.put(&file(group, "tasks"), &text)
    }

    fn set_cpus(&self, group: &str, cpus: &BTreeSet<u32>) -> io::Result<()> {
        self.put(&file(group, "cpus_list"), &format!("{}\n", show_cpus(cpus)))
    }

    fn move_tasks(&self, to: &str, moved: &BTreeSet<u32>) -> io::Result<()> {
        let state = self.state()?;
        let of = |name: &str| -> BTreeSet<u32> {
            state.group(name).map(|g| g.tasks.iter().copied().collect()).unwrap_or_default()
        };
        if moved.iter().any(|&task| state.group_of(task).is_none()) {
            return Err(refused(NO_SUCH_TASK));
        }
        let mut all = of(to);
        all.extend(moved);
        // First into the new group: a kill in between leaves a task in two groups, and never in
        // none.
        self.set_tasks(to, &all)?;
        for group in state.groups.iter().filter(|group| group.name != to) {
            let had = of(&group.name);
            let left: BTreeSet<u32> = had.difference(moved).copied().collect();
            if left != had {
                self.set_tasks(&group.name, &left)?;
            }
        }
        Ok(())
    }

    fn write_cpus(&self, to: &str, cpus: &BTreeSet<u32>) -> io::Result<()> {
        let state = self.state()?;
        let online: BTreeSet<u32> = state.groups.iter().flat_map(|g| g.cpus.clone()).collect();
        let had = state.group(to).map(|g| g.cpus.clone()).unwrap_or_default();
        // "Can't drop CPUs from default group", as the kernel says.
        if !cpus.is_subset(&online) || to.is_empty() && !had.is_subset(cpus) {
            return Err(refused(INVALID));
        }
        if !to.is_empty() {
            // As in the kernel, CPUs that a group gives up go to the default group.
            let dropped: BTreeSet<u32> = had.difference(cpus).copied().collect();
            let rest: BTreeSet<u32> = state.rest().cpus.union(&dropped).copied().collect();
            self.set_cpus("", &rest)?;
        }
        self.set_cpus(to, cpus)?;
        for group in self.state()?.groups.iter().filter(|group| group.name != to) {
            let left: BTreeSet<u32> = group.cpus.difference(cpus).copied().collect();
            if left != group.cpus {
                self.set_cpus(&group.name, &left)?;
            }
        }
        Ok(())
    }

    fn write_schemata(&self, group: &str, text: &str) -> io::Result<()> {
        let state = self.state()?;
        let asked = Schemata::parse(text, Path::new("schemata")).map_err(as_io)?;
        let mut new = state.group(group).ok_or_else(|| refused(INVALID))?.schemata.clone();
        for (name, line) in asked.lines {
            let resource = state.resources.get(&name);
            let (Line::Masks(asked), Some(resource)) = (line, resource) else {
                return Err(refused(INVALID));
            };
            let masks = new.lines.iter_mut().find_map(|(known, line)| match line {
                Line::Masks(masks) if *known == name => Some(masks),
                _ => None,
            });
            let masks = masks.ok_or_else(|| refused(INVALID))?;
            for (id, mask) in asked {
                if !takes(resource, id, mask) {
                    return Err(refused(INVALID));
                }
                masks.insert(id, mask);
            }
        }
        let old = self.read(&file(group, "schemata"))?;
        self.put(&file(group, "schemata"), &render(&old, &new, &state))
    }

    fn write_kernel_mode(&self, text: &str) -> io::Result<()> {
        let state = self.state()?;
        let Some(old) = state.kernel_mode else { return Err(refused(INVALID)) };
        let (mode, path) = match text.split_once(":group=") {
            Some((mode, path)) => (mode, path),
            None => (text, "//"),
        };
        let group = path.split('/').next().unwrap_or_default();
        let is_there = state.groups.iter().any(|known| known.name == group);
        if !old.modes.iter().any(|known| known == mode) || !is_there {
            return Err(refused(INVALID));
        }
        let path = if mode == names::INHERIT { "//" } else { path };
        let bound =
            KernelMode { modes: old.modes, active: mode.to_owned(), group: Some(path.to_owned()) };
        self.put(names::KERNEL_MODE, &bound.show())?;
        self.bind(&state.groups.iter().map(|g| g.name.clone()).collect::<Vec<_>>(), &bound)
    }

    /// Only the bound group has files of the kernel's CPUs; empty means all of them.
    fn bind(&self, groups: &[String], mode: &KernelMode) -> io::Result<()> {
        let bound = mode.group.as_deref().filter(|_| mode.active != names::INHERIT);
        let bound = bound.and_then(|path| path.split('/').next());
        for group in groups {
            for name in [names::KMODE_CPUS, names::KMODE_CPUS_LIST] {
                let path = file(group, name);
                let is_there = self.root.join(&path).exists();
                match (Some(group.as_str()) == bound, is_there) {
                    (true, false) => self.put(&path, "\n")?,
                    (false, true) => fs::remove_file(self.root.join(&path))?,
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

/// Masks as the kernel shows them: names stay padded, digits are as many as those of all ways.
fn render(old: &str, new: &Schemata, state: &State) -> String {
    let line = |line: &str| {
        let (name, _) = line.split_once(':')?;
        let masks = new.masks(name.trim_start())?;
        let digits = state.resources.get(name.trim_start())?.cbm_mask.to_string().len();
        let parts = masks.iter().map(|(id, mask)| format!("{id}={:0digits$x}", mask.0));
        Some(format!("{name}:{}", parts.collect::<Vec<_>>().join(";")))
    };
    old.lines().map(|old| line(old).unwrap_or_else(|| old.to_owned()) + "\n").collect()
}

/// Returns whether a resource accepts a mask.
fn takes(resource: &Resource, id: u32, mask: Mask) -> bool {
    resource.ids.contains(&id)
        && mask.is_within(resource.cbm_mask)
        && mask.ways() >= resource.min_cbm_bits
        && (mask.is_contiguous() || resource.sparse_masks)
}

impl Files for Rehearsal {
    fn root(&self) -> &Path {
        &self.root
    }

    fn is_mounted(&self) -> bool {
        false
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        if path == names::KERNEL_MODE {
            return self.write_kernel_mode(text);
        }
        let (group, name) = path.rsplit_once('/').unwrap_or(("", path));
        let cpus = || text::cpus(text, Path::new(path)).map_err(as_io);
        match name {
            "tasks" => {
                let tasks = text::tasks(text, Path::new(path)).map_err(as_io)?;
                self.move_tasks(group, &tasks.into_iter().collect())
            }
            "cpus_list" => self.write_cpus(group, &cpus()?),
            "schemata" => self.write_schemata(group, text),
            names::KMODE_CPUS_LIST if self.root.join(path).exists() => {
                self.put(path, &format!("{}\n", show_cpus(&cpus()?)))
            }
            _ => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
        }
    }

    fn make_group(&mut self, name: &str) -> io::Result<()> {
        let state = self.state()?;
        if self.root.join(name).exists() {
            return Err(io::Error::from(io::ErrorKind::AlreadyExists));
        }
        if state.free_classes == 0 {
            return Err(refused(NO_SPACE));
        }
        // A new class may use all of each cache.
        let mut schemata = state.rest().schemata.clone();
        for (name, line) in &mut schemata.lines {
            if let (Line::Masks(masks), Some(resource)) = (line, state.resources.get(name)) {
                masks.values_mut().for_each(|mask| *mask = resource.cbm_mask);
            }
        }
        let scratch = self.root.join(SCRATCH);
        fs::create_dir(&scratch)?;
        let old = self.read("schemata")?;
        fs::write(scratch.join("schemata"), render(&old, &schemata, &state))?;
        fs::write(scratch.join("mode"), "shareable\n")?;
        fs::write(scratch.join("cpus_list"), "\n")?;
        fs::write(scratch.join("tasks"), "")?;
        // As in the kernel, a group appears with all of its files.
        fs::rename(scratch, self.root.join(name))
    }

    fn remove_group(&mut self, name: &str) -> io::Result<()> {
        let state = self.state()?;
        let group = state.group(name).filter(|group| !group.name.is_empty());
        let group = group.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        self.move_tasks("", &group.tasks.iter().copied().collect())?;
        self.write_cpus(name, &BTreeSet::new())?;
        let scratch = self.root.join(SCRATCH);
        fs::rename(self.root.join(name), &scratch)?;
        fs::remove_dir_all(scratch)
    }
}
