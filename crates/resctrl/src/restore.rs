use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::apply::NO_SUCH_TASK;
use crate::files::place;
use crate::journal::{Journal, Phase, Step};
use crate::state::file;
use crate::text::{self, show_cpus};
use crate::{names, Error, Files, Group, Mask, Schemata, State};

/// Result of `restore`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Whether there was no journal, so nothing to do.
    pub nothing: bool,
    /// Changes that were written, in order, for display.
    pub changes: Vec<String>,
}

/// Reverts the changes in a journal, then removes the journal. A run that was killed can be
/// repeated.
///
/// # Errors
///
/// Another program changed the tree since (unless forced: then only the changes in the journal are
/// reverted), or the tree rejects a write: the journal stays.
pub fn restore(files: &mut dyn Files, journal: &Path, force: bool) -> Result<Restored, Error> {
    let Some(written) = Journal::read(journal)? else {
        return Ok(Restored { nothing: true, changes: Vec::new() });
    };
    if !force {
        if written.root != files.root() {
            return Err(Error::Changed(format!(
                "{}: the journal is of {}, not of {}",
                journal.display(),
                written.root.display(),
                files.root().display()
            )));
        }
        unchanged(files, &written)?;
    }
    let changes = take_back(files, &written.steps)?;
    Journal::end(journal)?;
    Ok(Restored { nothing: false, changes })
}

fn masks_of(lines: &[String]) -> Result<Schemata, Error> {
    Schemata::parse(&lines.join("\n"), Path::new("journal"))
}

/// Checks that all values are as they were before or as they were written.
fn unchanged(files: &dyn Files, journal: &Journal) -> Result<(), Error> {
    let state = State::read(files)?;
    let changed = |path: &str, found: &str| {
        Err(Error::Changed(format!(
            "{}: {found} is neither what was there nor what was written: somebody changed it",
            place(files, path).display()
        )))
    };
    for step in &journal.steps {
        match step {
            Step::Schemata { group, before, after } => {
                let Some(now) = state.group(group) else { continue };
                // A group that was just made has whatever the kernel gives it.
                if before.is_none() && journal.phase == Phase::Applying {
                    continue;
                }
                let (after, before) = (masks_of(after)?, before.as_deref().unwrap_or_default());
                let before = masks_of(before)?;
                for (name, _) in &after.lines {
                    let here = now.schemata.masks(name);
                    if here != after.masks(name) && here != before.masks(name) {
                        let found = here.map(|masks| Schemata::text_of(name, masks));
                        let found = found.unwrap_or_else(|| format!("no line of {name}"));
                        return changed(&file(group, "schemata"), &found);
                    }
                }
            }
            Step::Cpus { group, after, before } => {
                if let Some((path, found)) = cpus_changed(&state, group, after, before)? {
                    return changed(&path, &found);
                }
            }
            Step::KernelMode { before, after, .. } => {
                let now = state.kernel_mode.as_ref().map(text::KernelMode::command);
                let now = now.unwrap_or_else(|| "no mode".to_owned());
                if now != *before && now != *after {
                    return changed(names::KERNEL_MODE, &now);
                }
            }
            // Tasks come and go: those that the class has bred go where all go.
            Step::MakeGroup { .. } | Step::Task { .. } => {}
        }
    }
    Ok(())
}

/// A group whose CPUs are neither as before nor as written.
fn cpus_changed(
    state: &State,
    group: &str,
    after: &str,
    before: &BTreeMap<String, String>,
) -> Result<Option<(String, String)>, Error> {
    let set = |list: &str| text::cpus(list, Path::new("journal"));
    let given = set(after)?;
    let odd = |group: &Group, allowed: [BTreeSet<u32>; 2]| {
        let path = file(&group.name, "cpus_list");
        (!allowed.contains(&group.cpus)).then(|| (path, show_cpus(&group.cpus)))
    };
    for (name, list) in before {
        let all = set(list)?;
        let left = all.difference(&given).copied().collect();
        if let Some(found) = state.group(name).and_then(|group| odd(group, [all, left])) {
            return Ok(Some(found));
        }
    }
    // While losers are given theirs back, the class has fewer.
    let kept: BTreeSet<u32> = before.values().try_fold(given.clone(), |left, list| {
        Ok::<_, Error>(left.difference(&set(list)?).copied().collect())
    })?;
    Ok(state
        .group(group)
        .filter(|group| !group.cpus.is_empty() && group.cpus != kept)
        .and_then(|group| odd(group, [BTreeSet::new(), given])))
}

/// Takes steps back, the last one first; all of them, even if one is refused.
///
/// # Errors
/// The first refusal.
pub(crate) fn take_back(files: &mut dyn Files, steps: &[Step]) -> Result<Vec<String>, Error> {
    let mut changes = Vec::new();
    let mut first: Option<Error> = None;
    for step in steps.iter().rev() {
        if let Err(error) = take_step_back(files, step, &mut changes) {
            first.get_or_insert(error);
        }
    }
    match first {
        None => Ok(changes),
        Some(error) => Err(Error::Failed(error.to_string())),
    }
}

fn take_step_back(
    files: &mut dyn Files,
    step: &Step,
    changes: &mut Vec<String>,
) -> Result<(), Error> {
    match step {
        Step::KernelMode { before, cpus, after } => {
            back_to_mode(files, before, cpus.as_ref(), after, changes)
        }
        // When its group is removed, the task is back in the default group.
        Step::Task { before, .. } if before.is_empty() => Ok(()),
        Step::Task { group, task, before, .. } => {
            let state = State::read(files)?;
            let is_ours = state.group(group).is_some_and(|group| group.tasks.contains(task));
            if is_ours && state.group(before).is_some() {
                return put(files, &file(before, "tasks"), &task.to_string(), true, changes);
            }
            Ok(())
        }
        Step::Cpus { before, .. } => {
            for (name, list) in before {
                // Read anew for each group: CPUs that one gets back are taken from another.
                let state = State::read(files)?;
                let now = state.group(name).map(|group| show_cpus(&group.cpus));
                if now.is_some_and(|now| now != *list) {
                    put(files, &file(name, "cpus_list"), list, false, changes)?;
                }
            }
            Ok(())
        }
        // The masks of a new group go with it.
        Step::Schemata { before: None, .. } => Ok(()),
        Step::Schemata { group, before: Some(lines), .. } => {
            let (old, state) = (masks_of(lines)?, State::read(files)?);
            let Some(now) = state.group(group) else { return Ok(()) };
            let differs = |name: &String| -> bool { now.schemata.masks(name) != old.masks(name) };
            let text: Vec<String> = old
                .lines
                .iter()
                .filter(|(name, _)| differs(name))
                .filter_map(|(name, _)| {
                    let masks: &BTreeMap<u32, Mask> = old.masks(name)?;
                    Some(Schemata::text_of(name, masks))
                })
                .collect();
            if text.is_empty() {
                return Ok(());
            }
            put(files, &file(group, "schemata"), &text.join("\n"), false, changes)
        }
        Step::MakeGroup { group } => {
            if State::read(files)?.group(group).is_none() {
                return Ok(());
            }
            let path = place(files, group);
            files.remove_group(group).map_err(|e| Error::io(&path, e))?;
            changes.push(format!("group {group} removed"));
            Ok(())
        }
    }
}

fn back_to_mode(
    files: &mut dyn Files,
    before: &str,
    cpus: Option<&(String, String)>,
    after: &str,
    changes: &mut Vec<String>,
) -> Result<(), Error> {
    let now = State::read(files)?.kernel_mode.map(|policy| policy.command());
    // Once more, too, where kernel work had a class before: the CPUs of that may be missing still.
    if now.as_deref() == Some(before) && (cpus.is_none() || before == after) {
        return Ok(());
    }
    put(files, names::KERNEL_MODE, before, false, changes)?;
    match cpus {
        Some((path, list)) if !list.is_empty() => put(files, path, list, false, changes),
        _ => Ok(()),
    }
}

fn put(
    files: &mut dyn Files,
    path: &str,
    text: &str,
    may_end: bool,
    changes: &mut Vec<String>,
) -> Result<(), Error> {
    match files.write(path, text) {
        Err(e) if may_end && is_gone(&e) => Ok(()),
        Err(e) => Err(Error::io(&place(files, path), e)),
        Ok(()) => {
            let shown = if text.is_empty() { "(none)" } else { text };
            changes.push(format!("{path}: {}", shown.replace('\n', " ")));
            Ok(())
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(NO_SUCH_TASK)
}
