//! What a description must be for a run to be possible.

use crate::model::{Configuration, ModelError, Spec};

/// The first value of a description that cannot be, but for its workloads.
pub(crate) fn spec(spec: &Spec) -> Result<(), ModelError> {
    if spec.schema != 1 {
        return Err(ModelError::at("schema", "this halfwink reads switching schema 1"));
    }
    positive("reference_ghz", spec.reference_ghz)?;
    positive("l2_ns", spec.l2_ns)?;
    check_cores(spec)?;
    check_configurations(spec)?;
    check_kernel_code(spec)?;
    check_kernel_code_of_workloads(spec)?;
    check_mechanism(spec)?;
    for (n, w) in spec.os_core_w.iter().enumerate() {
        not_negative(&format!("os_core_w.{n}"), *w)?;
    }
    not_negative("kernel.tick_hz", spec.kernel.tick_hz)?;
    if spec.kernel.tick_hz > 1e6 {
        return Err(ModelError::at("kernel.tick_hz", "expected at most 1e6"));
    }
    not_negative("kernel.tick_ns", spec.kernel.tick_ns)?;
    check_lists(spec)
}

pub(crate) fn positive(element: &str, value: f64) -> Result<(), ModelError> {
    if value.is_finite() && value > 0.0 {
        return Ok(());
    }
    Err(ModelError::at(element, format!("{value}, expected a number above 0")))
}

pub(crate) fn not_negative(element: &str, value: f64) -> Result<(), ModelError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(ModelError::at(element, format!("{value}, expected a number of 0 or more")))
}

pub(crate) fn share(element: &str, value: f64) -> Result<(), ModelError> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(ModelError::at(element, format!("{value}, expected 0 to 1")))
}

fn check_cores(spec: &Spec) -> Result<(), ModelError> {
    for (name, core) in &spec.cores {
        let at = |key: &str| format!("cores.{name}.{key}");
        positive(&at("clock_ghz"), core.clock_ghz)?;
        positive(&at("user_cycles"), core.user_cycles)?;
        positive(&at("kernel_cycles"), core.kernel_cycles)?;
        not_negative(&at("kernel_misses"), core.kernel_misses)?;
        not_negative(&at("empty_call_ns"), core.empty_call_ns)?;
        not_negative(&at("active_w"), core.active_w)?;
        not_negative(&at("idle_w"), core.idle_w)?;
        core.up_w.map_or(Ok(()), |w| not_negative(&at("up_w"), w))?;
    }
    for (name, shape) in &spec.l1 {
        positive(&format!("l1.{name}.instruction_misses"), shape.instruction_misses)?;
        positive(&format!("l1.{name}.data_misses"), shape.data_misses)?;
    }
    Ok(())
}

fn check_kernel_code(spec: &Spec) -> Result<(), ModelError> {
    for (name, code) in &spec.kernel_code {
        let at = |key: &str| format!("kernel_code.{name}.{key}");
        if !code.ns.contains_key(&code.reference) {
            let message = format!("`{}` has no time in ns", code.reference);
            return Err(ModelError::at(at("reference"), message));
        }
        for shape in code.l1.keys() {
            if !spec.l1.contains_key(shape) {
                let message = format!("`{shape}` is none of the caches");
                return Err(ModelError::at(at("l1"), message));
            }
        }
        for (kind, ns) in code.ns.iter().chain(code.l1.values().flatten()) {
            if !spec.cores.contains_key(kind) {
                return Err(ModelError::at(at("ns"), format!("`{kind}` is none of the cores")));
            }
            positive(&at(&format!("ns.{kind}")), *ns)?;
        }
    }
    Ok(())
}

/// A workload's kernel code needs a time on every core that the workload runs on.
fn check_kernel_code_of_workloads(spec: &Spec) -> Result<(), ModelError> {
    for (n, workload) in spec.workloads.iter().enumerate() {
        let Some(name) = &workload.kernel_code else { continue };
        let wrong =
            |message: String| Err(ModelError::at(format!("workloads.{n}.kernel_code"), message));
        let Some(code) = spec.kernel_code.get(name) else {
            return wrong(format!("`{name}` is none of the kernel code"));
        };
        let runs = |c: &&Configuration| workload.configurations.contains(&c.name);
        let configurations = spec.configurations.iter().filter(runs);
        let mut kinds = configurations.flat_map(|c| c.app.iter().chain(&c.os));
        if let Some(kind) = kinds.find(|kind| !code.ns.contains_key(*kind)) {
            return wrong(format!("`{name}` has no time on `{kind}`"));
        }
    }
    Ok(())
}

fn check_lists(spec: &Spec) -> Result<(), ModelError> {
    for (n, row) in spec.printed.iter().enumerate() {
        let at = |e: ModelError| ModelError::at(format!("printed.{n}.{}", e.element), e.message);
        row.check().map_err(at)?;
    }
    for (n, system) in spec.systems.iter().enumerate() {
        positive(&format!("systems.{n}.total_w"), system.total_w)?;
        not_negative(&format!("systems.{n}.cpu_w"), system.cpu_w)?;
    }
    for (n, core) in spec.catalogue.iter().enumerate() {
        positive(&format!("catalogue.{n}.average_w"), core.average_w)?;
        positive(&format!("catalogue.{n}.area"), core.area)?;
    }
    Ok(())
}

/// Most cores of a configuration on one side.
const MAX_CORES: usize = 64;

fn check_configurations(spec: &Spec) -> Result<(), ModelError> {
    for (n, configuration) in spec.configurations.iter().enumerate() {
        let at = |key: &str| format!("configurations.{n}.{key}");
        if !(1..=MAX_CORES).contains(&configuration.app.len()) {
            return Err(ModelError::at(at("app"), "expected 1 to 64 application cores"));
        }
        if configuration.os.len() > MAX_CORES {
            return Err(ModelError::at(at("os"), "expected at most 64 OS cores"));
        }
        for kind in configuration.app.iter().chain(&configuration.os) {
            if !spec.cores.contains_key(kind) {
                let message = format!("`{kind}` is none of the cores");
                return Err(ModelError::at(at("app"), message));
            }
        }
        if let Some(l1) = &configuration.l1 {
            if !spec.l1.contains_key(l1) {
                return Err(ModelError::at(at("l1"), format!("`{l1}` is none of the caches")));
            }
        }
        if spec.configurations[..n].iter().any(|c| c.name == configuration.name) {
            let message = format!("`{}` is there twice", configuration.name);
            return Err(ModelError::at(at("name"), message));
        }
    }
    Ok(())
}

fn check_mechanism(spec: &Spec) -> Result<(), ModelError> {
    let m = &spec.mechanism;
    for (key, value) in [
        ("ipi_handler_ns", m.ipi_handler_ns),
        ("ipi_send_cycles", m.ipi_send_cycles),
        ("line_ns", m.line_ns),
        ("wake_cycles", m.wake_cycles),
        ("resume_cycles", m.resume_cycles),
        ("data_line_ns", m.data_line_ns),
        ("power_up_cycles", m.power_up_cycles),
    ] {
        not_negative(&format!("mechanism.{key}"), value)?;
    }
    share("mechanism.source_share", m.source_share)?;
    for (name, version) in &m.versions {
        positive(&format!("mechanism.versions.{name}.leg_cycles"), version.leg_cycles)?;
        if let Some(other) = &version.when_busy {
            if !m.versions.contains_key(other) {
                let at = format!("mechanism.versions.{name}.when_busy");
                return Err(ModelError::at(at, format!("`{other}` is none of the versions")));
            }
        }
    }
    for (n, observed) in m.observed.iter().enumerate() {
        let at = |key: &str| format!("mechanism.observed.{n}.{key}");
        if !spec.configurations.iter().any(|c| c.name == observed.configuration) {
            let message = format!("`{}` is none of the configurations", observed.configuration);
            return Err(ModelError::at(at("configuration"), message));
        }
        positive(&at("none_ns"), observed.none_ns)?;
        for (version, &ns) in &observed.switched_ns {
            if !m.versions.contains_key(version) {
                let message = format!("`{version}` is none of the versions");
                return Err(ModelError::at(at("switched_ns"), message));
            }
            positive(&at("switched_ns"), ns)?;
        }
    }
    Ok(())
}
