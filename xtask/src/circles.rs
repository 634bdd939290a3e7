//! The largest circle of imports among the files of each crate.
//!
//! An arrow runs from a file to each file of the same crate that defines what it imports by `use`;
//! re-exports are followed to the definition. Files that reach each other form a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::ceilings::{self, Counts};

/// A path of module names from the root of the crate.
type Names = Vec<String>;

#[derive(Default)]
struct Module {
    file: String,
    /// Imported paths as written, with the name under which each is known here; `*` for all.
    uses: Vec<(String, Names)>,
}

type Modules = BTreeMap<Names, Module>;

/// Follows re-exports at most so often; deeper ones would be a circle of their own.
const DEPTH: u32 = 8;

/// Leaves of a `use` tree: the name under which each is known, and its path.
fn leaves(tree: &str, prefix: &[String], out: &mut Vec<(String, Names)>) {
    let tree = tree.trim();
    if let Some((head, group)) = tree.split_once('{') {
        let mut prefix = prefix.to_vec();
        prefix.extend(head.split("::").map(str::trim).filter(|s| !s.is_empty()).map(str::to_owned));
        let group = group.trim_end().strip_suffix('}').unwrap_or(group);
        // Only commas of this group part its members: those of groups inside belong to their
        // members.
        let (mut depth, mut start) = (0_i32, 0);
        for (i, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    leaves(&group[start..i], &prefix, out);
                    start = i + 1;
                }
                _ => {}
            }
        }
        leaves(&group[start..], &prefix, out);
    } else if !tree.is_empty() {
        let (path, renamed) = match tree.split_once(" as ") {
            Some((path, name)) => (path, Some(name.trim().to_owned())),
            None => (tree, None),
        };
        let mut names = prefix.to_vec();
        names.extend(path.split("::").map(|s| s.trim().to_owned()));
        // `use a::b::{self, c}` imports `a::b` itself.
        if names.last().is_some_and(|n| n == "self") {
            names.pop();
        }
        if let Some(last) = names.last().cloned() {
            out.push((renamed.unwrap_or(last), names));
        }
    }
}

/// The imports of a file's production code: unit tests stand last, and are left out.
fn imports(text: &str) -> Vec<(String, Names)> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
    let mut out = Vec::new();
    let mut statement = String::new();
    for line in code.lines() {
        let line = line.split("//").next().unwrap_or("").trim();
        let start = line.strip_prefix("pub(crate) ").or_else(|| line.strip_prefix("pub(super) "));
        let start = start.or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
        if statement.is_empty() {
            let Some(tree) = start.strip_prefix("use ") else { continue };
            tree.clone_into(&mut statement);
        } else {
            statement.push(' ');
            statement.push_str(line);
        }
        if let Some(tree) = statement.strip_suffix(';') {
            leaves(tree, &[], &mut out);
            statement.clear();
        }
    }
    out
}

/// Absolute names of a path that stands in the module `at`; none for other crates.
fn absolute(at: &[String], path: &[String], modules: &Modules) -> Option<Names> {
    let mut names = at.to_vec();
    match path.first().map(String::as_str) {
        Some("crate") => names.clear(),
        Some("self") => {}
        Some("super") => {
            let ups = path.iter().take_while(|s| *s == "super").count();
            names.truncate(at.len().saturating_sub(ups));
            names.extend(path[ups..].iter().cloned());
            return Some(names);
        }
        Some(first) => {
            names.push(first.to_owned());
            if !modules.contains_key(&names) {
                return None;
            }
        }
        None => return None,
    }
    names.extend(path[1..].iter().cloned());
    Some(names)
}

/// The module that defines what a path names.
fn definition(names: &[String], modules: &Modules, depth: u32) -> Option<Names> {
    // The longest prefix that is a module: what follows is an item of it, or a name that it
    // imports.
    let known = (0..=names.len()).rev().find(|&n| modules.contains_key(&names[..n]))?;
    let (module, rest) = names.split_at(known);
    let Some(name) = rest.first().filter(|_| depth > 0) else { return Some(module.to_vec()) };
    let uses = &modules[module].uses;
    for (known_as, path) in uses {
        let glob = known_as == "*";
        if known_as != name && !glob {
            continue;
        }
        let Some(mut target) = absolute(module, path, modules) else { continue };
        if glob {
            target.pop();
        }
        target.extend(rest[usize::from(!glob)..].iter().cloned());
        // An import that names itself leads nowhere; through `*` only an item of another module
        // counts, since every module is reached by the last line.
        let found = (target != names).then(|| definition(&target, modules, depth - 1)).flatten();
        if let Some(found) = found.filter(|found| !glob || found != module) {
            return Some(found);
        }
    }
    Some(module.to_vec())
}

fn arrows(modules: &Modules) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (at, module) in modules {
        let from = arrows.entry(&module.file).or_default();
        for (_, path) in &module.uses {
            let found = absolute(at, path, modules)
                .and_then(|names| definition(&names, modules, DEPTH))
                .map(|found| modules[&found].file.as_str());
            from.extend(found.filter(|file| *file != module.file));
        }
    }
    arrows
}

/// The largest set of files that all reach each other.
fn largest<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<&'a str> {
    let reach: BTreeMap<&str, BTreeSet<&str>> = arrows
        .keys()
        .map(|&file| {
            let mut seen = BTreeSet::new();
            // A search from each file, not Tarjan's algorithm: crates have at most some hundred
            // files.
            let mut open = vec![file];
            while let Some(next) = open.pop() {
                for &other in arrows.get(next).into_iter().flatten() {
                    if seen.insert(other) {
                        open.push(other);
                    }
                }
            }
            (file, seen)
        })
        .collect();
    let circle = |file: &str| -> Vec<&'a str> {
        let back = |other: &&&'a str| reach.get(**other).is_some_and(|r| r.contains(file));
        reach[file].iter().filter(back).copied().collect()
    };
    arrows.keys().map(|file| circle(file)).max_by_key(Vec::len).unwrap_or_default()
}

/// Files of each crate, as modules by their names.
fn crates(root: &Path) -> BTreeMap<String, Modules> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for path in crate::files(root, &["rs"]) {
        let place = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        let Some((folder, file)) = place.split_once("/src/") else { continue };
        let test = file.ends_with("tests.rs") || file.contains("tests/");
        if !folder.starts_with("crates/") || test || file.starts_with("bin/") {
            continue;
        }
        let mut names: Names = file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if names.last().is_some_and(|n| n == "mod" || n == "lib") {
            names.pop();
        }
        let uses = imports(&fs::read_to_string(&path).unwrap_or_default());
        let module = Module { file: place.clone(), uses };
        crates.entry(folder.to_owned()).or_default().insert(names, module);
    }
    crates
}

fn count(crates: &BTreeMap<String, Modules>) -> Counts {
    let mut counts = Counts::new();
    for (folder, modules) in crates {
        let n = largest(&arrows(modules)).len() as u64;
        // Alone, a file is no circle.
        if n > 1 {
            counts.insert(folder.clone(), BTreeMap::from([("files".to_owned(), n)]));
        }
    }
    counts
}

pub(crate) fn check(root: &Path) -> Result<String, Vec<String>> {
    let crates = crates(root);
    let counts = count(&crates);
    ceilings::above(root, "circles", &counts).map_err(|mut problems| {
        problems.push("`cargo xtask circles --list CRATE` shows the files".to_owned());
        problems
    })?;
    let files = |(folder, c): (&String, &BTreeMap<String, u64>)| (c["files"], folder.clone());
    let (n, folder) = counts.iter().map(files).max().unwrap_or_default();
    Ok(format!("{} crates; the largest circle has {n} files ({folder})", crates.len()))
}

pub(crate) fn lower(root: &Path) -> Result<String, Vec<String>> {
    ceilings::lower(root, "circles", &count(&crates(root)))
}

/// Shows the files of the largest circle of a crate, and the files of the circle that each imports.
pub(crate) fn list(root: &Path, folder: &str) -> String {
    let mut lines = Vec::new();
    for (name, modules) in crates(root) {
        if !folder.is_empty() && name != folder.trim_end_matches('/') {
            continue;
        }
        let arrows = arrows(&modules);
        let circle = largest(&arrows);
        lines.push(format!("{name}: {} files", circle.len()));
        for file in circle.iter().filter(|_| !folder.is_empty()) {
            let inside: Vec<&str> =
                arrows[file].iter().filter(|other| circle.contains(other)).copied().collect();
            lines.push(format!("  {file} -> {}", inside.join(" ")));
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let module = |(name, text): &(&str, &str)| {
            let names: Names =
                name.split('/').filter(|s| !s.is_empty()).map(str::to_owned).collect();
            (names, Module { file: (*name).to_owned(), uses: imports(text) })
        };
        files.iter().map(module).collect()
    }

    #[test]
    fn files_that_import_each_other_form_a_circle() {
        let modules = modules(&[
            ("", ""),
            ("a", "use crate::b::B;"),
            ("b", "use super::c::{self, C};"),
            ("c", "use crate::{a::A};"),
            ("d", "use crate::a::A;"),
        ]);
        assert_eq!(largest(&arrows(&modules)), ["a", "b", "c"]);
    }

    #[test]
    fn reexport_leads_to_the_definition() {
        let modules = modules(&[
            ("", "pub use a::A;\npub use b::*;"),
            ("a", ""),
            ("b", "use crate::A;"),
            ("b/inner", "use crate::{\n    A,\n    B as Other,\n};"),
        ]);
        let arrows = arrows(&modules);
        assert_eq!(arrows["b"], BTreeSet::from(["a"]));
        assert_eq!(arrows["b/inner"], BTreeSet::from(["a", "b"]));
        assert!(largest(&arrows).is_empty());
    }

    #[test]
    fn imports_of_unit_tests_do_not_count() {
        assert!(
            imports("// use crate::x;\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}").is_empty()
        );
    }
}
