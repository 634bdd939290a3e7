use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::check::check;
use crate::files::{place, read_if};
use crate::journal::{Journal, Step};
use crate::kernel_threads::kernel_threads;
use crate::restore::take_back;
use crate::schemata::is_cache;
use crate::state::file;
use crate::text::{self, show_cpus};
use crate::{names, Class, Error, Files, KernelBy, Plan, Role, Schemata, State};

/// `ESRCH`: the task has ended.
pub(crate) const NO_SUCH_TASK: i32 = 3;

/// Sources of what a resctrl tree does not show.
#[derive(Clone, Debug)]
pub struct Assign {
    /// The `/proc` that tells kernel threads.
    pub proc: PathBuf,
}

impl Default for Assign {
    fn default() -> Assign {
        Assign { proc: PathBuf::from("/proc") }
    }
}

/// Result of `apply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Groups that were made.
    pub groups: Vec<String>,
    /// Tasks that were moved.
    pub tasks: u32,
    /// Kernel threads that ended before they could be, or that the kernel does not let go.
    pub not_moved: u32,
    /// Whether the plan was to leave the tree unchanged.
    pub left: bool,
}

/// Brings a plan into a tree. All that is needed to take it back is on the disk before the first
/// write.
///
/// # Errors
/// The tree does not take the plan: nothing was written. It refuses a write or is gone, or the
/// journal cannot be finished: what was written is taken back, as far as the tree allows; the
/// journal stays if it does not.
pub fn apply(
    files: &mut dyn Files,
    plan: &Plan,
    assign: &Assign,
    journal: &Path,
) -> Result<Applied, Error> {
    let state = State::read(files)?;
    check(plan, &state)?;
    if plan.leave_it {
        return Ok(Applied { groups: Vec::new(), tasks: 0, not_moved: 0, left: true });
    }
    let steps = steps(plan, &state, assign)?;
    let mut written = Journal::new(files.root(), steps);
    written.begin(journal)?;
    let mut done = Applied { groups: Vec::new(), tasks: 0, not_moved: 0, left: false };
    for (n, step) in written.steps.iter().enumerate() {
        if let Err((path, error)) = take(files, step, &mut done) {
            // A group that could not be made is not ours to remove.
            let failed = usize::from(!matches!(step, Step::MakeGroup { .. }));
            let what = refusal(files, &path, &error);
            return Err(undo(files, &written.steps[..n + failed], &what, journal));
        }
    }
    // A plan that is in force while its journal says otherwise would be half of each.
    let finished = written.finish(journal);
    finished.map_err(|e| undo(files, &written.steps, &e.to_string(), journal))?;
    Ok(done)
}

/// The steps in their order: groups with their masks, the rest's masks, members, kernel work last.
fn steps(plan: &Plan, state: &State, assign: &Assign) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    let (rest, new): (Vec<&Class>, Vec<&Class>) =
        plan.classes.iter().partition(|class| class.role == Role::Rest);
    for class in &new {
        let (group, after) = (class.name.clone(), class.schemata.clone());
        steps.push(Step::MakeGroup { group: group.clone() });
        steps.push(Step::Schemata { group, before: None, after });
    }
    for class in rest {
        let before = Some(lines_before(class, state));
        let after = class.schemata.clone();
        steps.push(Step::Schemata { group: String::new(), before, after });
    }
    for class in &new {
        steps.extend(members(class, state)?);
    }
    let kernel = new.iter().find(|class| class.role == Role::Kernel);
    if let (Some(kernel), KernelBy::Threads) = (kernel, plan.kernel.by) {
        let taken: BTreeSet<u32> = new.iter().flat_map(|class| class.tasks.clone()).collect();
        let rest: BTreeSet<u32> = state.rest().tasks.iter().copied().collect();
        // Those that somebody put elsewhere stay there.
        let threads = kernel_threads(&assign.proc)?.into_iter();
        steps.extend(threads.filter(|t| rest.contains(t) && !taken.contains(t)).map(|task| {
            let group = kernel.name.clone();
            Step::Task { group, task, before: String::new(), may_end: true }
        }));
    }
    if let (Some(kernel), Some(mode), Some(policy)) =
        (kernel, &plan.kernel.mode, &state.kernel_mode)
    {
        let bound = policy.group.as_deref().filter(|_| policy.active != names::INHERIT);
        let group = bound.and_then(|path| path.split('/').next()).and_then(|g| state.group(g));
        let cpus = group.and_then(|group| {
            let list = show_cpus(group.kmode_cpus.as_ref()?);
            Some((file(&group.name, names::KMODE_CPUS_LIST), list))
        });
        let after = format!("{mode}:group={}//", kernel.name);
        steps.push(Step::KernelMode { before: policy.command(), cpus, after });
    }
    Ok(steps)
}

/// Returns the default group's lines of the resources that a class changes.
fn lines_before(class: &Class, state: &State) -> Vec<String> {
    let names = class.schemata.iter().filter_map(|line| line.split(':').next());
    let old = &state.rest().schemata;
    names
        .filter(|name| is_cache(name))
        .filter_map(|name| Some(Schemata::text_of(name, old.masks(name)?)))
        .collect()
}

/// Tasks and CPUs of a service.
fn members(class: &Class, state: &State) -> Result<Vec<Step>, Error> {
    let mut steps = Vec::new();
    let cpus = text::cpus(&class.cpus, Path::new("cpus"))?;
    if !cpus.is_empty() {
        let losers = state.groups[1..].iter().filter(|group| !group.cpus.is_disjoint(&cpus));
        let before: BTreeMap<String, String> =
            losers.map(|group| (group.name.clone(), show_cpus(&group.cpus))).collect();
        let (group, after) = (class.name.clone(), show_cpus(&cpus));
        steps.push(Step::Cpus { group, after, before });
    }
    for &task in &class.tasks {
        let before = state.group_of(task).map(|group| group.name.clone()).unwrap_or_default();
        let group = class.name.clone();
        steps.push(Step::Task { group, task, before, may_end: false });
    }
    Ok(steps)
}

/// Takes a step; else what could not be written, and why.
fn take(files: &mut dyn Files, step: &Step, done: &mut Applied) -> Result<(), (String, io::Error)> {
    let (path, text) = match step {
        Step::MakeGroup { group } => {
            files.make_group(group).map_err(|e| (group.clone(), e))?;
            done.groups.push(group.clone());
            return Ok(());
        }
        Step::Schemata { group, after, .. } => (file(group, "schemata"), after.join("\n")),
        Step::Cpus { group, after, .. } => (file(group, "cpus_list"), after.clone()),
        Step::Task { group, task, .. } => (file(group, "tasks"), task.to_string()),
        Step::KernelMode { after, .. } => (names::KERNEL_MODE.to_owned(), after.clone()),
    };
    let result = files.write(&path, &text);
    if let Step::Task { may_end, .. } = step {
        match &result {
            Err(e) if *may_end && e.raw_os_error() == Some(NO_SUCH_TASK) => {
                done.not_moved += 1;
                return Ok(());
            }
            Ok(()) => done.tasks += 1,
            Err(_) => {}
        }
    }
    result.map_err(|e| (path, e))
}

/// Says what the tree refused, and why. To be called before anything else is written: that resets
/// the reason.
fn refusal(files: &dyn Files, path: &str, error: &io::Error) -> String {
    let status = read_if(files, "info/last_cmd_status").ok().flatten().unwrap_or_default();
    let why = match status.trim() {
        "" | "ok" => String::new(),
        status => format!(" ({})", status.replace('\n', "; ")),
    };
    format!("{}: {error}{why}", place(files, path).display())
}

/// Takes back what was done before `what` failed, and says what came of it.
fn undo(files: &mut dyn Files, taken: &[Step], what: &str, journal: &Path) -> Error {
    let back = take_back(files, taken).and_then(|_| Journal::end(journal));
    match back {
        Ok(()) => Error::Failed(format!("{what}; the old masks are back")),
        Err(e) => Error::Failed(format!(
            "{what}; not all could be taken back ({e}); the journal {} stays for `restore`",
            journal.display()
        )),
    }
}
