use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::files::{place, read, read_if};
use crate::schemata::is_cache;
use crate::text::{self, wrong, KernelMode};
use crate::{names, Error, Files, Mask, Schemata};

/// A level of caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Cache {
    /// Second-level cache.
    L2,
    /// Third-level cache.
    L3,
}

impl Cache {
    /// All, with the names that users type.
    pub const NAMES: [(&'static str, Cache); 2] = [("l2", Cache::L2), ("l3", Cache::L3)];
}

/// Accesses that a cache's masks apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Applies to all accesses.
    Unified,
    /// Applies to instruction fetches.
    Code,
    /// Applies to data accesses.
    Data,
}

/// A cache as `info/NAME` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resource {
    /// Level of the cache.
    pub cache: Cache,
    /// Accesses that its masks apply to.
    pub kind: Kind,
    /// Mask of all ways.
    pub cbm_mask: Mask,
    /// Fewest ways of a mask; 0 where empty ones are allowed.
    pub min_cbm_bits: u32,
    /// Ways that devices use too.
    pub shareable_bits: Mask,
    /// Classes, the default one too.
    pub num_closids: u32,
    /// Whether masks may have gaps.
    pub sparse_masks: bool,
    /// Ids of the caches.
    pub ids: Vec<u32>,
}

/// State of a control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Name of its folder; empty for the default group.
    pub name: String,
    /// Masks of the group.
    pub schemata: Schemata,
    /// Sharing mode (`shareable`, `exclusive`, `pseudo-locked`, `pseudo-locksetup`).
    pub mode: Option<String>,
    /// CPUs of the group.
    pub cpus: BTreeSet<u32>,
    /// Tasks of the group.
    pub tasks: Vec<u32>,
    /// CPUs on which it is the kernel's class, where it is one.
    pub kmode_cpus: Option<BTreeSet<u32>>,
}

/// A tree as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Root of the tree.
    pub root: PathBuf,
    /// Whether the kernel is behind it.
    pub mounted: bool,
    /// Caches by name (`L2`, `L3CODE`).
    pub resources: BTreeMap<String, Resource>,
    /// Classes that are left.
    pub free_classes: u32,
    /// Groups, the default one first.
    pub groups: Vec<Group>,
    /// The policy for kernel work, where this kernel has one.
    pub kernel_mode: Option<KernelMode>,
    /// Reason why that could not be parsed, if so: its form is still under review.
    pub kernel_mode_unread: Option<String>,
}

/// The path of a group's file.
pub(crate) fn file(group: &str, name: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{group}/{name}")
    }
}

impl State {
    /// Reads a tree.
    ///
    /// # Errors
    /// A file is missing, cannot be read or says what it may not.
    pub fn read(files: &dyn Files) -> Result<State, Error> {
        let mut names = files.folders("").map_err(|e| Error::io(files.root(), e))?;
        // These folders of the root are no groups.
        names.retain(|name| !matches!(name.as_str(), "info" | "mon_groups" | "mon_data"));
        names.insert(0, String::new());
        let groups: Vec<Group> =
            names.iter().map(|name| read_group(files, name)).collect::<Result<_, Error>>()?;
        let (resources, classes) = read_resources(files, &groups[0].schemata)?;
        for group in &groups {
            check_ids(files, group, &resources)?;
        }
        let policy = read_if(files, names::KERNEL_MODE)?
            .map(|text| text::kernel_mode(&text, &place(files, names::KERNEL_MODE)));
        let (kernel_mode, kernel_mode_unread) = match policy.transpose() {
            Ok(policy) => (policy, None),
            Err(error) => (None, Some(error.to_string())),
        };
        let used = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        Ok(State {
            root: files.root().to_owned(),
            mounted: files.is_mounted(),
            resources,
            free_classes: classes.saturating_sub(used),
            groups,
            kernel_mode,
            kernel_mode_unread,
        })
    }

    /// A group by name.
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// Returns the default group.
    pub fn rest(&self) -> &Group {
        &self.groups[0]
    }

    /// The group a task is in.
    pub(crate) fn group_of(&self, task: u32) -> Option<&Group> {
        self.groups.iter().find(|group| group.tasks.contains(&task))
    }
}

fn read_group(files: &dyn Files, name: &str) -> Result<Group, Error> {
    let of = |f: &str| place(files, &file(name, f));
    let schemata = Schemata::parse(&read(files, &file(name, "schemata"))?, &of("schemata"))?;
    let cpus = text::cpus(&read(files, &file(name, "cpus_list"))?, &of("cpus_list"))?;
    let tasks = text::tasks(&read(files, &file(name, "tasks"))?, &of("tasks"))?;
    let mode = match read_if(files, &file(name, "mode"))? {
        None => None,
        Some(text) => {
            let known = ["shareable", "exclusive", "pseudo-locked", "pseudo-locksetup"];
            let found = text.strip_suffix('\n').unwrap_or(&text);
            if !known.contains(&found) {
                return Err(wrong(&of("mode"), 1, found, &format!("one of {}", known.join(", "))));
            }
            Some(found.to_owned())
        }
    };
    let kmode_cpus = match read_if(files, &file(name, names::KMODE_CPUS_LIST))? {
        Some(text) => Some(text::cpus(&text, &of(names::KMODE_CPUS_LIST))?),
        None => None,
    };
    Ok(Group { name: name.to_owned(), schemata, mode, cpus, tasks, kmode_cpus })
}

/// Caches, and how many classes all resources (bandwidths too) have in common.
fn read_resources(
    files: &dyn Files,
    rest: &Schemata,
) -> Result<(BTreeMap<String, Resource>, u32), Error> {
    let mut found = BTreeMap::new();
    let mut classes = u32::MAX;
    for name in files.folders("info").map_err(|e| Error::io(&place(files, "info"), e))? {
        let closids = format!("info/{name}/num_closids");
        // What only monitors has none.
        let Some(text) = read_if(files, &closids)? else { continue };
        let num_closids = text::count(&text, &place(files, &closids))?;
        // A group takes a class of every resource, so that the scarcest one decides.
        classes = classes.min(num_closids);
        if is_cache(&name) {
            let masks = rest.masks(&name).ok_or_else(|| {
                wrong(&place(files, "schemata"), 1, "", &format!("a line of {name}, as in info"))
            })?;
            // `info` does not say which caches there are; the masks of the default group do.
            let ids = masks.keys().copied().collect();
            let resource = read_resource(files, &name, num_closids, ids)?;
            found.insert(name, resource);
        }
    }
    Ok((found, if classes == u32::MAX { 0 } else { classes }))
}

fn read_resource(
    files: &dyn Files,
    name: &str,
    num_closids: u32,
    ids: Vec<u32>,
) -> Result<Resource, Error> {
    let path = |file: &str| format!("info/{name}/{file}");
    let mask = |file: &str| text::mask(&read(files, &path(file))?, &place(files, &path(file)));
    let cbm_mask = mask("cbm_mask")?;
    if cbm_mask.0 & 1 == 0 || !cbm_mask.is_contiguous() {
        let expected = "ones from bit 0 on, without gaps";
        return Err(wrong(&place(files, &path("cbm_mask")), 1, &cbm_mask.to_string(), expected));
    }
    let shareable_bits = mask("shareable_bits")?;
    if !shareable_bits.is_within(cbm_mask) {
        let expected = format!("bits of cbm_mask, {cbm_mask}");
        let at = place(files, &path("shareable_bits"));
        return Err(wrong(&at, 1, &shareable_bits.to_string(), &expected));
    }
    let at = place(files, &path("min_cbm_bits"));
    let min_cbm_bits = text::count(&read(files, &path("min_cbm_bits"))?, &at)?;
    if min_cbm_bits > cbm_mask.ways() {
        let expected = format!("at most the {} ways of cbm_mask", cbm_mask.ways());
        return Err(wrong(&at, 1, &min_cbm_bits.to_string(), &expected));
    }
    // Kernels before 6.7 do not say: no gaps suit every part.
    let sparse_masks = match read_if(files, &path("sparse_masks"))? {
        Some(text) => text::flag(&text, &place(files, &path("sparse_masks")))?,
        None => false,
    };
    let cache = if name.starts_with("L2") { Cache::L2 } else { Cache::L3 };
    let kind = match () {
        () if name.ends_with("CODE") => Kind::Code,
        () if name.ends_with("DATA") => Kind::Data,
        () => Kind::Unified,
    };
    Ok(Resource {
        cache,
        kind,
        cbm_mask,
        min_cbm_bits,
        shareable_bits,
        num_closids,
        sparse_masks,
        ids,
    })
}

/// Every group has the same caches, with masks of their ways.
fn check_ids(
    files: &dyn Files,
    group: &Group,
    resources: &BTreeMap<String, Resource>,
) -> Result<(), Error> {
    let locked = matches!(group.mode.as_deref(), Some("pseudo-locked" | "pseudo-locksetup"));
    for (name, resource) in resources {
        let at = place(files, &file(&group.name, "schemata"));
        let Some(masks) = group.schemata.masks(name) else {
            // A pseudo-locked region shows only what it locks.
            if locked {
                continue;
            }
            return Err(wrong(&at, 1, "", &format!("a line of {name}, as in info")));
        };
        let row = group.schemata.lines.iter().position(|(n, _)| n == name).unwrap_or(0) + 1;
        let found = Schemata::text_of(name, masks);
        if !locked && !masks.keys().eq(resource.ids.iter()) {
            let expected = format!("the cache ids of the default group, {:?}", resource.ids);
            return Err(wrong(&at, row, &found, &expected));
        }
        if masks.values().any(|mask| !mask.is_within(resource.cbm_mask)) {
            let expected = format!("masks within info/{name}/cbm_mask, {}", resource.cbm_mask);
            return Err(wrong(&at, row, &found, &expected));
        }
    }
    Ok(())
}
