use std::collections::BTreeSet;
use std::path::Path;

use crate::names;
use crate::text;
use crate::{Class, Error, KernelBy, Mask, Plan, Resource, Role, Schemata, State};

/// Checks a plan against a tree completely, before any write.
///
/// # Errors
///
/// The first part of the plan that the tree rejects, in one line.
pub fn check(plan: &Plan, state: &State) -> Result<(), Error> {
    if plan.leave_it {
        return Ok(());
    }
    let kernels = plan.classes.iter().filter(|class| class.role == Role::Kernel).count();
    if kernels != 1 {
        return Err(Error::Input(format!("{kernels} classes for the kernel: expected one")));
    }
    let mut seen = BTreeSet::new();
    let (mut cpus, mut tasks) = (BTreeSet::new(), BTreeSet::new());
    for class in &plan.classes {
        check_name(class, state)?;
        if !seen.insert(class.name.as_str()) {
            return Err(Error::Input(format!("class {}: expected each name once", class.name)));
        }
        check_masks(class, plan, state)?;
        check_members(class, state, &mut cpus, &mut tasks)?;
    }
    if plan.new_groups() > state.free_classes {
        return Err(Error::Input(format!(
            "{} classes: {} has room for {} more (num_closids)",
            plan.new_groups(),
            state.root.display(),
            state.free_classes
        )));
    }
    check_kernel(plan, state)
}

fn check_name(class: &Class, state: &State) -> Result<(), Error> {
    if class.role == Role::Rest {
        return if class.name.is_empty() {
            Ok(())
        } else {
            Err(Error::Input(format!("class {:?}: expected no name for the rest", class.name)))
        };
    }
    let name = &class.name;
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let reserved = ["info", "mon_groups", "mon_data"].contains(&name.as_str());
    if name.is_empty() || name.len() > 32 || !name.bytes().all(is_word) || reserved {
        let expected = "up to 32 letters, digits, - and _, and no name that resctrl uses";
        return Err(Error::Input(format!("class {name:?}: expected {expected}")));
    }
    if state.group(name).is_some() {
        return Err(Error::Input(format!(
            "class {name}: {} has a group of that name; remove it, or choose another",
            state.root.display()
        )));
    }
    Ok(())
}

fn check_masks(class: &Class, plan: &Plan, state: &State) -> Result<(), Error> {
    let shown = if class.name.is_empty() { "(default)" } else { &class.name };
    let refuse = |what: String| Error::Input(format!("class {shown}: {what}"));
    let lines = Schemata::parse(&class.schemata.join("\n"), Path::new("schemata"))
        .map_err(|e| refuse(e.to_string()))?;
    let mut divided = 0;
    for (name, _) in &lines.lines {
        let resource = state.resources.get(name).filter(|r| r.cache == plan.cache);
        let masks = lines.masks(name);
        let (Some(resource), Some(masks)) = (resource, masks) else {
            return Err(refuse(format!("{name}: expected masks of {:?} here", plan.cache)));
        };
        if !masks.keys().eq(resource.ids.iter()) {
            let found = Schemata::text_of(name, masks);
            return Err(refuse(format!("{found}: expected the cache ids {:?}", resource.ids)));
        }
        for (&id, &mask) in masks {
            let why = refusal(resource, mask);
            if let Some(why) = why {
                return Err(refuse(format!("{name}:{id}={mask}: {why}")));
            }
            check_exclusive(name, id, mask, state).map_err(refuse)?;
        }
        divided += 1;
    }
    let needed = state.resources.values().filter(|r| r.cache == plan.cache).count();
    if divided == 0 || class.role != Role::Rest && divided != needed {
        return Err(refuse(format!("expected a line for each mask of {:?}", plan.cache)));
    }
    Ok(())
}

/// Returns the reason why a resource rejects a mask.
fn refusal(resource: &Resource, mask: Mask) -> Option<String> {
    let all = resource.cbm_mask;
    if mask.0 == 0 {
        // AMD's parts take it, but a class without ways caches nothing at all.
        return Some("no ways; expected at least one".to_owned());
    }
    if !mask.is_within(all) {
        return Some(format!("too wide; expected ways of {all}"));
    }
    if !resource.sparse_masks && !mask.is_contiguous() {
        return Some("gaps; expected ones that stand together on this part".to_owned());
    }
    (mask.ways() < resource.min_cbm_bits)
        .then(|| format!("expected at least {} ways", resource.min_cbm_bits))
}

/// Ways that another group has for itself.
fn check_exclusive(name: &str, id: u32, mask: Mask, state: &State) -> Result<(), String> {
    for group in &state.groups[1..] {
        let mode = group.mode.as_deref().unwrap_or("shareable");
        let theirs = group.schemata.masks(name).and_then(|masks| masks.get(&id));
        if mode != "shareable" && theirs.is_some_and(|theirs| theirs.overlaps(mask)) {
            return Err(format!("{name}:{id}={mask}: group {} is {mode} there", group.name));
        }
    }
    Ok(())
}

fn check_members(
    class: &Class,
    state: &State,
    cpus: &mut BTreeSet<u32>,
    tasks: &mut BTreeSet<u32>,
) -> Result<(), Error> {
    let refuse = |what: String| Error::Input(format!("class {}: {what}", class.name));
    let mine = text::cpus(&class.cpus, Path::new("cpus")).map_err(|e| refuse(e.to_string()))?;
    if class.role != Role::Service && !(mine.is_empty() && class.tasks.is_empty()) {
        return Err(refuse("expected CPUs and tasks for services only".to_owned()));
    }
    for cpu in mine {
        if !state.groups.iter().any(|group| group.cpus.contains(&cpu)) {
            return Err(refuse(format!("no CPU {cpu} in {}", state.root.display())));
        }
        if !cpus.insert(cpu) {
            return Err(refuse(format!("CPU {cpu}: expected it in one class")));
        }
    }
    for &task in &class.tasks {
        if state.group_of(task).is_none() {
            return Err(refuse(format!("no task {task} in {}", state.root.display())));
        }
        if !tasks.insert(task) {
            return Err(refuse(format!("task {task}: expected it once, in one class")));
        }
    }
    Ok(())
}

fn check_kernel(plan: &Plan, state: &State) -> Result<(), Error> {
    match (plan.kernel.by, &plan.kernel.mode) {
        (KernelBy::Threads, None) => Ok(()),
        (KernelBy::Threads, Some(mode)) => {
            Err(Error::Input(format!("kernel mode {mode:?}: expected none with threads")))
        }
        (KernelBy::Mode, mode) => {
            let wanted = mode.as_deref().unwrap_or("(none)");
            let offered = state.kernel_mode.as_ref().map(|policy| &policy.modes);
            if offered.is_some_and(|modes| {
                wanted != names::INHERIT && modes.iter().any(|known| known == wanted)
            }) {
                return Ok(());
            }
            Err(Error::Input(format!(
                "kernel mode {wanted:?}: {} does not offer it ({})",
                state.root.display(),
                names::KERNEL_MODE
            )))
        }
    }
}
