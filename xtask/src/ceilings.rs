//! Numbers that may only fall: `ceilings.toml` holds the last one of each check and folder.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Counts by folder and by the name of the counter.
pub(crate) type Counts = BTreeMap<String, BTreeMap<String, u64>>;

const FILE: &str = "xtask/ceilings.toml";
const HEADER: &str = "\
# The most that a check may count in each folder. A number may only fall:
# `cargo xtask CHECK --lower` writes the counts of today, for `circles`, `prose` and `why`.
";

/// Compares `found` with the ceilings of `check`, and names each count that is above its ceiling.
pub(crate) fn above(root: &Path, check: &str, found: &Counts) -> Result<(), Vec<String>> {
    let ceilings = read(root)?;
    let ceilings = ceilings.get(check);
    let mut problems = Vec::new();
    for (folder, counters) in found {
        for (counter, &n) in counters {
            let ceiling = ceilings.and_then(|c| c.get(folder)?.get(counter)).copied().unwrap_or(0);
            if n > ceiling {
                problems.push(format!("{folder}: {n} {counter}, the ceiling is {ceiling}"));
            }
        }
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems)
    }
}

/// Writes the counts of today as the ceilings of `check`. A ceiling that would rise stays, and is
/// returned as a problem.
pub(crate) fn lower(root: &Path, check: &str, found: &Counts) -> Result<String, Vec<String>> {
    let mut all = read(root).unwrap_or_default();
    let first = !all.contains_key(check);
    let (lowered, problems) = lowered(all.remove(check).unwrap_or_default(), found, first);
    all.insert(check.to_owned(), lowered);
    let path = root.join(FILE);
    std::fs::write(&path, written(&all)).map_err(|e| vec![format!("{}: {e}", path.display())])?;
    if problems.is_empty() {
        Ok(format!("wrote {FILE}"))
    } else {
        Err(problems)
    }
}

fn lowered(old: Counts, found: &Counts, first: bool) -> (Counts, Vec<String>) {
    let mut problems = Vec::new();
    let mut new = Counts::new();
    for (folder, counters) in found {
        for (counter, &n) in counters {
            let ceiling = old.get(folder).and_then(|c| c.get(counter)).copied().unwrap_or(0);
            if n > ceiling && !first {
                problems.push(format!("{folder}: {n} {counter}, the ceiling stays {ceiling}"));
            }
            let kept = if first { n } else { n.min(ceiling) };
            if kept > 0 {
                new.entry(folder.clone()).or_default().insert(counter.clone(), kept);
            }
        }
    }
    (new, problems)
}

fn read(root: &Path) -> Result<BTreeMap<String, Counts>, Vec<String>> {
    let path = root.join(FILE);
    let place = path.display();
    let text = std::fs::read_to_string(&path).map_err(|e| vec![format!("{place}: {e}")])?;
    parsed(&text).map_err(|e| vec![format!("{place}: {e}")])
}

fn parsed(text: &str) -> Result<BTreeMap<String, Counts>, String> {
    let table: toml::Table = text.parse().map_err(|e| format!("{e}"))?;
    let mut all = BTreeMap::new();
    for (check, folders) in &table {
        let folders = folders.as_table().ok_or(format!("{check}: expected a table"))?;
        let mut counts = Counts::new();
        for (folder, counters) in folders {
            let counters = counters.as_table().ok_or(format!("{folder}: expected a table"))?;
            for (counter, n) in counters {
                let n = n.as_integer().and_then(|n| u64::try_from(n).ok());
                let n = n.ok_or(format!("{folder}.{counter}: expected a count"))?;
                counts.entry(folder.clone()).or_default().insert(counter.clone(), n);
            }
        }
        all.insert(check.clone(), counts);
    }
    Ok(all)
}

fn written(all: &BTreeMap<String, Counts>) -> String {
    let mut text = HEADER.to_owned();
    for (check, folders) in all {
        let _ = write!(text, "\n[{check}]\n");
        for (folder, counters) in folders {
            let counters: Vec<String> =
                counters.iter().map(|(c, n)| format!("{c} = {n}")).collect();
            let _ = writeln!(text, "\"{folder}\" = {{ {} }}", counters.join(", "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(n: u64) -> Counts {
        BTreeMap::from([("crates/a".to_owned(), BTreeMap::from([("short".to_owned(), n)]))])
    }

    #[test]
    fn lower_count_becomes_ceiling() {
        assert_eq!(lowered(counts(5), &counts(3), false), (counts(3), vec![]));
    }

    #[test]
    fn higher_count_is_refused_and_ceiling_stays() {
        let (kept, problems) = lowered(counts(5), &counts(6), false);
        assert_eq!(kept, counts(5));
        assert_eq!(problems, ["crates/a: 6 short, the ceiling stays 5"]);
    }

    #[test]
    fn new_folder_starts_at_zero() {
        assert_eq!(lowered(Counts::new(), &counts(1), false).1.len(), 1);
        assert_eq!(lowered(Counts::new(), &counts(1), true), (counts(1), vec![]));
    }

    #[test]
    fn written_ceilings_parse_to_the_same() {
        let all = BTreeMap::from([("prose".to_owned(), counts(2))]);
        assert_eq!(parsed(&written(&all)), Ok(all));
    }
}
