use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::check::check;
use crate::text::{not_json, show_cpus, wrong};
use crate::{names, Advice, Cache, Error, Kind, Mask, Resource, Routing, Schemata, State};

/// The group of kernel work.
pub const KERNEL_GROUP: &str = "halfwink-kernel";
const SCHEMA: &str = "halfwink.resctrl.plan/1";

/// Means by which kernel work gets its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelBy {
    /// By the processor: all work at the kernel's privilege.
    Mode,
    /// As tasks: kernel threads only. Kernel work in a call or an interrupt stays in the class of
    /// the running task.
    Threads,
}

impl KernelBy {
    /// All, with the names that users type.
    pub const NAMES: [(&'static str, KernelBy); 2] =
        [("mode", KernelBy::Mode), ("threads", KernelBy::Threads)];

    fn covers(self) -> &'static str {
        match self {
            KernelBy::Mode => "all work at the kernel's privilege",
            KernelBy::Threads => {
                "kernel threads alone: system calls and interrupts stay in the class of who runs"
            }
        }
    }
}

/// A service that shall have ways of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Name of its group.
    pub name: String,
    /// Number of its ways.
    pub ways: u32,
    /// List of its CPUs, or empty.
    pub cpus: String,
    /// Tasks of the service.
    pub tasks: Vec<u32>,
}

/// Request for a division of a tree's cache.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The workload that this is for.
    pub workload: String,
    /// The caches that are divided; else the second level, where it can be.
    pub cache: Option<Cache>,
    /// Ways for the kernel; else as the advice says.
    pub kernel_ways: Option<u32>,
    /// Accesses that are separated; by default as the advice says, or all.
    pub routing: Option<Routing>,
    /// Means by which kernel work gets its class; by default the best that the processor has.
    pub kernel_by: Option<KernelBy>,
    /// Services with ways of their own.
    pub services: Vec<Service>,
}

/// Role of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Class of kernel work.
    Kernel,
    /// Class of a service.
    Service,
    /// All others: the default group.
    Rest,
}

/// A class of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Name of its group; empty for the default one.
    pub name: String,
    /// Role of the class.
    pub role: Role,
    /// Number of its ways.
    pub ways: u32,
    /// Lines of its `schemata`.
    pub schemata: Vec<String>,
    /// List of its CPUs, or empty.
    #[serde(default)]
    pub cpus: String,
    /// Tasks of the class; kernel threads are found when the plan is applied.
    #[serde(default)]
    pub tasks: Vec<u32>,
}

/// Means by which kernel work gets its class, and the work that this covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelClass {
    /// Means that is used.
    pub by: KernelBy,
    /// The policy that is written for it.
    pub mode: Option<String>,
    /// Description of the work that it covers.
    pub covers: String,
}

/// A division of a cache, as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The form of this document.
    pub schema: String,
    /// The workload that it is for.
    pub workload: String,
    /// The caches that are divided.
    pub cache: Cache,
    /// Number of ways of each.
    pub ways: u32,
    /// Accesses that are separated.
    pub routing: Routing,
    /// Class of the kernel.
    pub kernel: KernelClass,
    /// Classes: the kernel's, services', the rest. None if the cache is to be left as it is.
    pub classes: Vec<Class>,
    /// Advice of the analysis; none if the ways were given.
    #[serde(default)]
    pub advice: Option<Advice>,
    /// Whether the plan is to change nothing.
    pub leave_it: bool,
    /// Notes for the user, a line each.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Plan {
    /// Reads a plan; whether a tree takes it, [`check`] says.
    ///
    /// # Errors
    /// With file, line and what was expected.
    pub fn parse(text: &str, path: &Path) -> Result<Plan, Error> {
        let plan: Plan = serde_json::from_str(text)
            .map_err(|e| not_json(path, &e, "a plan that `halfwink live resctrl plan` wrote"))?;
        if plan.schema != SCHEMA {
            return Err(wrong(path, 1, &plan.schema, &format!("the schema {SCHEMA}")));
        }
        Ok(plan)
    }

    /// The plan as text.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// Plans the division of a cache: the ways that were asked for, else those of an advice.
///
/// # Errors
/// The tree cannot have it: one line says why.
pub fn plan(state: &State, request: &Request, advice: Option<&Advice>) -> Result<Plan, Error> {
    let cache = choose_cache(state, request.cache)?;
    let resources: Vec<(&String, &Resource)> =
        state.resources.iter().filter(|(_, resource)| resource.cache == cache).collect();
    // `choose_cache` has found one at least, and code and data share the ways of their cache.
    let ways = resources[0].1.cbm_mask.ways();
    let routing = request.routing.or(advice.map(|a| a.routing)).unwrap_or_default();
    if routing != Routing::Both && resources.iter().any(|(_, r)| r.kind == Kind::Unified) {
        let option = if cache == Cache::L2 { "cdpl2" } else { "cdp" };
        return Err(Error::Input(format!(
            "{cache:?}: one mask for code and data, so only both can be kept apart; where the part \
             can, mount resctrl with -o {option}"
        )));
    }
    let kernel = kernel_class(state, request.kernel_by)?;
    let mut made = Plan {
        schema: SCHEMA.to_owned(),
        workload: request.workload.clone(),
        cache,
        ways,
        routing,
        kernel,
        classes: Vec::new(),
        advice: advice.cloned(),
        leave_it: false,
        notes: Vec::new(),
    };
    let Some(kernel_ways) = kernel_ways(ways, request, advice)? else {
        made.leave_it = true;
        return Ok(made);
    };
    made.classes = classes(&resources, routing, kernel_ways, request)?;
    // By the same rules as `apply`, so that a plan which is printed can be applied to this tree.
    check(&made, state)?;
    made.notes = notes(&made, state, &resources);
    Ok(made)
}

/// A cache that can be divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Divisible {
    /// Which: as wanted, or the first there is.
    pub cache: Cache,
    /// Number of ways in its masks.
    pub ways: u32,
    /// Whether code and data have masks of their own.
    pub apart: bool,
}

/// Returns the cache that can be divided, for an analysis of it.
///
/// # Errors
///
/// The tree has no such cache.
pub fn divisible(state: &State, wanted: Option<Cache>) -> Result<Divisible, Error> {
    let cache = choose_cache(state, wanted)?;
    let mut resources = state.resources.values().filter(|resource| resource.cache == cache);
    let apart = resources.clone().all(|resource| resource.kind != Kind::Unified);
    let ways = resources.next().map_or(0, |resource| resource.cbm_mask.ways());
    Ok(Divisible { cache, ways, apart })
}

fn choose_cache(state: &State, wanted: Option<Cache>) -> Result<Cache, Error> {
    let mut there: Vec<Cache> = state.resources.values().map(|r| r.cache).collect();
    // The second level comes first, and is taken unless the other is asked for.
    there.sort_unstable();
    let root = state.root.display();
    let first = *there.first().ok_or_else(|| {
        Error::Input(format!("{root}: expected L2 or L3 in info; no cache can be divided here"))
    })?;
    match wanted {
        Some(cache) if !there.contains(&cache) => Err(Error::Input(format!(
            "--cache: {root} has no masks of {cache:?}, only of {first:?}"
        ))),
        wanted => Ok(wanted.unwrap_or(first)),
    }
}

/// Returns the number of ways that was requested or advised; none if the advice is to change
/// nothing.
fn kernel_ways(
    ways: u32,
    request: &Request,
    advice: Option<&Advice>,
) -> Result<Option<u32>, Error> {
    if let Some(given) = request.kernel_ways {
        return Ok(Some(given));
    }
    let Some(advice) = advice else {
        return Err(Error::Input(format!(
            "--kernel-ways: expected how many of the {ways} ways are the kernel's, or the \
             cache's --size to find out"
        )));
    };
    match advice.kernel_ways {
        _ if advice.leave_it => Ok(None),
        None => Ok(None),
        Some(_) if u32::from(advice.ways_of_cache) != ways => Err(Error::Input(format!(
            "the advice is for a cache of {} ways, this one has {ways}; analyse one of {ways}, or \
             give --kernel-ways",
            advice.ways_of_cache
        ))),
        Some(advised) => Ok(Some(u32::from(advised))),
    }
}

fn kernel_class(state: &State, wanted: Option<KernelBy>) -> Result<KernelClass, Error> {
    if let (Some(why), None | Some(KernelBy::Mode)) = (&state.kernel_mode_unread, wanted) {
        return Err(Error::Input(format!("{why}; --kernel-by threads does without")));
    }
    // Counting for whoever called keeps monitoring as it is, so that is preferred.
    let offered = state.kernel_mode.as_ref().and_then(|policy| {
        let all = [names::ASSIGN_INHERIT_MON, names::ASSIGN_ASSIGN_MON];
        all.into_iter().find(|mode| policy.modes.iter().any(|known| known == mode))
    });
    let by = match wanted {
        Some(KernelBy::Mode) if offered.is_none() => {
            return Err(Error::Input(format!(
                "--kernel-by mode: {} offers no class for kernel work ({}); expected threads",
                state.root.display(),
                names::KERNEL_MODE
            )))
        }
        Some(by) => by,
        None if offered.is_some() => KernelBy::Mode,
        None => KernelBy::Threads,
    };
    let mode = offered.filter(|_| by == KernelBy::Mode).map(str::to_owned);
    Ok(KernelClass { by, mode, covers: by.covers().to_owned() })
}

/// Runs of ways, one for each class, on the side where they meet the fewest that devices use; the
/// rest is what is left.
fn classes(
    resources: &[(&String, &Resource)],
    routing: Routing,
    kernel_ways: u32,
    request: &Request,
) -> Result<Vec<Class>, Error> {
    let kernel = Service { name: KERNEL_GROUP.to_owned(), ways: kernel_ways, ..Service::default() };
    let wanted: Vec<&Service> = std::iter::once(&kernel).chain(&request.services).collect();
    let runs = sizes_that_fit(resources[0].1, &wanted)?;
    let mut made: Vec<Class> = wanted
        .iter()
        .zip([Role::Kernel].into_iter().chain(std::iter::repeat(Role::Service)))
        .map(|(service, role)| Class {
            name: service.name.clone(),
            role,
            ways: service.ways,
            schemata: Vec::new(),
            cpus: service.cpus.clone(),
            tasks: service.tasks.clone(),
        })
        .collect();
    made.push(Class {
        name: String::new(),
        role: Role::Rest,
        ways: runs[runs.len() - 1],
        schemata: Vec::new(),
        cpus: String::new(),
        tasks: Vec::new(),
    });
    for (name, resource) in resources {
        let apart = match resource.kind {
            Kind::Unified => true,
            Kind::Code => routing != Routing::Data,
            Kind::Data => routing != Routing::Instructions,
        };
        let masks = place(resource, &runs);
        for (class, mask) in made.iter_mut().zip(masks) {
            let mask = if apart { mask } else { resource.cbm_mask };
            // What is not kept apart stays as it is for the rest.
            if apart || class.role != Role::Rest {
                let masks: BTreeMap<u32, Mask> =
                    resource.ids.iter().map(|&id| (id, mask)).collect();
                class.schemata.push(Schemata::text_of(name, &masks));
            }
        }
    }
    Ok(made)
}

/// Ways of each class and of the rest.
fn sizes_that_fit(resource: &Resource, wanted: &[&Service]) -> Result<Vec<u32>, Error> {
    // Some parts take empty masks, but a class without ways caches nothing.
    let (all, least) = (resource.cbm_mask.ways(), resource.min_cbm_bits.max(1));
    let mut left = all;
    for service in wanted {
        let what = if service.name == KERNEL_GROUP {
            format!("--kernel-ways {}", service.ways)
        } else {
            format!("--class {}={}", service.name, service.ways)
        };
        if service.ways < least {
            return Err(Error::Input(format!("{what}: expected at least {least} of {all} ways")));
        }
        left = left.checked_sub(service.ways).filter(|&left| left >= least).ok_or_else(|| {
            Error::Input(format!(
                "{what}: expected at most {} of {all} ways, so that {least} stay for the rest",
                left.saturating_sub(least)
            ))
        })?;
    }
    Ok(wanted.iter().map(|service| service.ways).chain([left]).collect())
}

/// Places runs from the lowest way on or from the highest down.
fn place(resource: &Resource, runs: &[u32]) -> Vec<Mask> {
    let all = resource.cbm_mask.ways();
    let mut low = 0;
    let upwards: Vec<Mask> = runs
        .iter()
        .map(|&ways| {
            low += ways;
            Mask::run(low - ways, ways).unwrap_or_default()
        })
        .collect();
    let mut high = all;
    let downwards: Vec<Mask> = runs
        .iter()
        .map(|&ways| {
            high -= ways;
            Mask::run(high, ways).unwrap_or_default()
        })
        .collect();
    let shared = |masks: &[Mask]| -> u32 {
        let classes = &masks[..masks.len() - 1];
        classes.iter().map(|mask| (mask.0 & resource.shareable_bits.0).count_ones()).sum()
    };
    // The rest is not counted: whatever the side, it has what is left.
    if shared(&downwards) < shared(&upwards) {
        downwards
    } else {
        upwards
    }
}

fn notes(made: &Plan, state: &State, resources: &[(&String, &Resource)]) -> Vec<String> {
    let mut notes = Vec::new();
    if made.kernel.by == KernelBy::Threads {
        notes.push(format!("no class for kernel work here; in it are {}", made.kernel.covers));
    } else if let Some(policy) = &state.kernel_mode {
        if policy.active != names::INHERIT {
            let now = policy.command();
            notes.push(format!("kernel work has a class already ({now}); restore binds it back"));
        }
        notes.push("the kernel's interface for this is under review: names may change".to_owned());
    }
    for class in made.classes.iter().filter(|class| class.role != Role::Rest) {
        if class.role == Role::Service && class.tasks.is_empty() && class.cpus.is_empty() {
            notes.push(format!("class {}: no tasks and no CPUs yet", class.name));
        }
        // `check` has read the same lines.
        let Ok(masks) = Schemata::parse(&class.schemata.join("\n"), &state.root) else { continue };
        for (name, resource) in resources {
            let mine = masks.masks(name).and_then(|m| m.values().next().copied());
            let mine = mine.unwrap_or_default();
            if mine != resource.cbm_mask && mine.overlaps(resource.shareable_bits) {
                let shareable = resource.shareable_bits;
                notes.push(format!(
                    "class {}: {name} mask {mine} has ways that devices use ({shareable})",
                    class.name
                ));
            }
            // The default group gives its ways up by the plan itself.
            for group in &state.groups[1..] {
                let theirs = group.schemata.masks(name).into_iter().flat_map(BTreeMap::values);
                if mine != resource.cbm_mask && theirs.copied().any(|mask| mask.overlaps(mine)) {
                    notes.push(format!(
                        "class {}: group {} keeps {name} ways of it",
                        class.name, group.name
                    ));
                }
            }
        }
    }
    let left = state.free_classes.saturating_sub(made.new_groups());
    notes.push(format!("classes left after this: {left}"));
    let kernel_cpus = state.groups.iter().filter_map(|group| group.kmode_cpus.as_ref());
    for cpus in kernel_cpus.filter(|cpus| !cpus.is_empty()) {
        notes.push(format!("kernel work has its class on CPUs {} only", show_cpus(cpus)));
    }
    notes
}

impl Plan {
    /// Groups that it makes.
    pub(crate) fn new_groups(&self) -> u32 {
        let new = self.classes.iter().filter(|class| class.role != Role::Rest).count();
        u32::try_from(new).unwrap_or(u32::MAX)
    }
}
