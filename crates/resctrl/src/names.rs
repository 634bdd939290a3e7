//! File names of resctrl. Those of the kernel-mode class may still change: all of them are here.

/// A name of the interface, with where it is from.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    /// The name, relative to the tree or to a group.
    pub name: &'static str,
    /// Name of the interface.
    pub what: &'static str,
    /// Source of the name, with its date.
    pub source: &'static str,
}

/// Path at which Linux mounts it.
pub const ROOT: &str = "/sys/fs/resctrl";
/// The policy for kernel work and the group it is bound to.
pub const KERNEL_MODE: &str = "info/kernel_mode";
/// CPUs on which the bound group is used for kernel work; only the bound group has it.
pub const KMODE_CPUS_LIST: &str = "kmode_cpus_list";
/// File of the mode's CPUs as a mask.
pub const KMODE_CPUS: &str = "kmode_cpus";
/// Mode in which kernel work stays in the class of the caller.
pub const INHERIT: &str = "inherit_ctrl_and_mon";
/// Mode in which kernel work has a class, and its use is counted for the caller.
pub const ASSIGN_INHERIT_MON: &str = "global_assign_ctrl_inherit_mon_per_cpu";
/// Kernel work has a class and is counted apart.
pub const ASSIGN_ASSIGN_MON: &str = "global_assign_ctrl_assign_mon_per_cpu";

const DOCUMENTATION: &str = "Linux, Documentation/filesystems/resctrl.rst (read Nov 2026)";
const V3: &str =
    "Babu Moger, \"x86/resctrl: Add kernel-mode (e.g., PLZA) support\", v3, 30 Apr 2026, \
                  patches 03, 07, 08, 12 of 12; under review in June 2026";

/// The table of docs/resctrl.md; a test compares them.
pub const TABLE: &[Name] = &[
    Name { name: "info/*/cbm_mask", what: "all ways of a cache", source: DOCUMENTATION },
    Name { name: "info/*/min_cbm_bits", what: "fewest ways of a mask", source: DOCUMENTATION },
    Name {
        name: "info/*/shareable_bits",
        what: "ways that devices use too",
        source: DOCUMENTATION,
    },
    Name {
        name: "info/*/num_closids",
        what: "classes, the default one too",
        source: DOCUMENTATION,
    },
    Name {
        name: "info/*/sparse_masks",
        what: "whether masks may have gaps",
        source: DOCUMENTATION,
    },
    Name { name: "info/last_cmd_status", what: "why a write failed", source: DOCUMENTATION },
    Name { name: "schemata", what: "masks of a group", source: DOCUMENTATION },
    Name { name: "mode", what: "whether a group shares its ways", source: DOCUMENTATION },
    Name { name: "cpus_list", what: "CPUs of a group", source: DOCUMENTATION },
    Name { name: "tasks", what: "tasks of a group", source: DOCUMENTATION },
    Name { name: KERNEL_MODE, what: "class of kernel work", source: V3 },
    Name { name: KMODE_CPUS_LIST, what: "CPUs where that holds", source: V3 },
    Name { name: KMODE_CPUS, what: "the same as a mask", source: V3 },
    Name { name: INHERIT, what: "kernel work in its caller's class", source: V3 },
    Name { name: ASSIGN_INHERIT_MON, what: "kernel work in one class", source: V3 },
    Name { name: ASSIGN_ASSIGN_MON, what: "the same, counted apart", source: V3 },
];
