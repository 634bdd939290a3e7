//! Kernels of a model of core switching, and when their idle cores power down.

use super::availability::{kernel, silicon, today, usual};
use crate::{Make, Modifier, Technique};

const KERNEL: Technique = Technique {
    name: "",
    available: kernel("a patched kernel"),
    family: "switching",
    worlds: &["switching"],
    title: "",
    source: "Strong 2013, Sec 3.3",
    parameters: &[],
    make: Make::Kernel(|choice| choice.technique().name),
    unread: &[],
    module: None,
};

const fn power_down(mode: &'static str) -> Make {
    Make::Modifier(Modifier::PowerDown(mode))
}

pub(super) const TECHNIQUES: &[Technique] = &[
    Technique {
        name: "unmod",
        available: usual("Linux as it is"),
        title: "the kernel as it is: system calls run where they are made",
        ..KERNEL
    },
    Technique {
        name: "bound",
        available: today("/proc/irq/*/smp_affinity"),
        title: "interrupts on the OS core, system calls where they are made",
        ..KERNEL
    },
    Technique {
        name: "slow",
        title: "system calls move by Linux' migration thread",
        source: "Mogul 2007, Sec 5.5",
        ..KERNEL
    },
    Technique {
        name: "v1",
        title: "system calls move by Linux' own migration thread",
        source: "Strong 2013, Sec 3.2.2",
        ..KERNEL
    },
    Technique {
        name: "v2",
        title: "system calls move by a modified scheduler",
        source: "Strong 2013, Sec 3.2.3",
        ..KERNEL
    },
    Technique {
        name: "v3",
        title: "as v2, with fast paths on source and target",
        source: "Strong 2013, Sec 3.2.4",
        ..KERNEL
    },
    Technique {
        name: "v4",
        title: "as v3, and the target's idle loop polls: no interrupts",
        source: "Strong 2013, Sec 3.2.5",
        ..KERNEL
    },
    Technique {
        name: "v5",
        available: silicon("an instruction that wakes another core early"),
        title: "as v3, and an instruction wakes the target early",
        source: "Strong 2013, Sec 3.2.6",
        ..KERNEL
    },
    Technique {
        name: "power-down-always",
        available: today("disable every idle state but the deepest with cpupower idle-set"),
        family: "power-down",
        title: "idle cores power down at once",
        source: "Mogul 2007, Sec 5.6",
        make: power_down("always"),
        ..KERNEL
    },
    Technique {
        name: "power-down-never",
        available: today("cpupower idle-set -D 0"),
        family: "power-down",
        title: "idle cores stay up",
        source: "-",
        make: power_down("never"),
        ..KERNEL
    },
    Technique {
        name: "power-down-adaptive",
        available: kernel("a cpuidle governor of its own"),
        family: "power-down",
        title: "idle cores power down where it is expected to pay",
        source: "Mogul 2007, Sec 5.6",
        make: power_down("adaptive"),
        ..KERNEL
    },
];
