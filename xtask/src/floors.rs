//! No import runs upwards: a crate may use only crates of lower floors.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The floor of each crate, as in docs/architecture.md.
const FLOORS: &[(&str, u32)] = &[
    ("units", 0),
    ("interleavings", 0),
    ("inputs", 0),
    ("policy", 1),
    ("power", 1),
    ("trace", 1),
    ("engine", 1),
    ("eventlog", 2),
    ("techniques", 2),
    ("dram", 2),
    ("dataplane", 2),
    ("arrivals", 2),
    ("chip", 3),
    ("server", 3),
    ("node", 3),
    ("router", 3),
    ("fabric", 3),
    ("storage", 3),
    ("live", 3),
    ("resctrl", 3),
    ("switching", 3),
    ("preheat", 3),
    ("policy-module", 3),
    ("policy-wasm", 4),
    ("live-block", 4),
    ("live-calibrate", 4),
    ("live-circuits", 4),
    ("live-delegate", 4),
    ("live-preheat", 4),
    ("live-router", 4),
    ("live-steer", 4),
    ("testbed", 4),
    ("study", 5),
    ("live-wasm", 5),
    ("delegate", 5),
    ("preheat-preload", 5),
    ("daemon", 5),
    ("fuzz", 6),
];
/// The native modules: everything but Python lies below them.
const TOP: [(&str, u32); 2] = [("py", 7), ("py-live", 7)];

pub(crate) fn check(root: &Path) -> Result<String, Vec<String>> {
    let floors: BTreeMap<&str, u32> = FLOORS.iter().copied().chain(TOP).collect();
    let mut problems = Vec::new();
    let mut imports = 0;
    let folder = root.join("crates");
    let crates = fs::read_dir(&folder).map_err(|e| vec![format!("{}: {e}", folder.display())])?;
    let mut names: Vec<String> =
        crates.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    let document = fs::read_to_string(root.join("docs/architecture.md")).unwrap_or_default();
    for name in &names {
        let Some(&floor) = floors.get(name.as_str()) else {
            problems.push(format!("crates/{name}: it has no floor; give it one in xtask"));
            continue;
        };
        if !document.contains(&format!("| {floor} | crates/{name} |")) {
            problems.push(format!(
                "docs/architecture.md: expected a row `| {floor} | crates/{name} |`"
            ));
        }
        let manifest = folder.join(name).join("Cargo.toml");
        for used in dependencies(&manifest, &mut problems) {
            imports += 1;
            match floors.get(used.as_str()) {
                Some(&below) if below < floor => {}
                Some(&other) => problems.push(format!(
                    "crates/{name} (floor {floor}) uses crates/{used} (floor {other}): imports \
                     may only go down"
                )),
                None => problems.push(format!("crates/{name} uses unknown crates/{used}")),
            }
        }
    }
    problems.extend(python_reaches_only_the_native_module(root));
    if problems.is_empty() {
        Ok(format!("{} crates, {imports} imports, all of them downwards", names.len()))
    } else {
        Err(problems)
    }
}

/// Crates of ours that a manifest names, tests included.
fn dependencies(manifest: &Path, problems: &mut Vec<String>) -> Vec<String> {
    let text = fs::read_to_string(manifest).unwrap_or_default();
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(e) => {
            problems.push(format!("{}: {e}", manifest.display()));
            return Vec::new();
        }
    };
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .into_iter()
        .filter_map(|section| table.get(section)?.as_table())
        .flat_map(|section| section.keys())
        .filter_map(|name| name.strip_prefix("halfwink-").map(str::to_owned))
        .collect()
}

/// Python may use the crates through `halfwink._core` and `halfwink._live` only.
fn python_reaches_only_the_native_module(root: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for path in crate::files(root, &["py"]) {
        let text = fs::read_to_string(&path).unwrap_or_default();
        for (n, line) in text.lines().enumerate() {
            let loads = line.contains("ctypes") || line.contains("cffi");
            if loads
                && line.trim_start().starts_with(['i', 'f'])
                && path.starts_with(root.join("python"))
            {
                let place = path.strip_prefix(root).unwrap_or(&path).display();
                problems.push(format!("{place}:{}: only _core and _live may be native", n + 1));
            }
        }
    }
    problems
}
