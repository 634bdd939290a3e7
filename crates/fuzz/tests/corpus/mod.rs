//! Files as people have them (`tests/corpus`): each loads with the facts that were counted by hand,
//! within 1 %, or is refused by a line that names a step that works.

mod advice;
mod read;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use self::read::{read, Found};

/// The list of files.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Corpus {
    file: Vec<Entry>,
}

/// A file, and what is known of it.
#[derive(Deserialize)]
struct Entry {
    name: String,
    family: String,
    format: String,
    source: String,
    refused: Option<String>,
    next: Option<String>,
    left_out: Option<String>,
    /// Column of times, and value of a variable, for advice that asks for one.
    column: Option<String>,
    value: Option<String>,
    /// Facts; those with `then_` hold once the advice is followed.
    #[serde(flatten)]
    facts: BTreeMap<String, f64>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus")
}

fn corpus() -> Vec<Entry> {
    let text = std::fs::read_to_string(folder().join("corpus.toml")).unwrap();
    toml::from_str::<Corpus>(&text).unwrap().file
}

/// Outcome of a file that does as it should.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Loads,
    /// Once the step that its refusal names is taken.
    LoadsThen,
    Refused,
}

/// Compares facts with those of an entry.
fn compared(found: &Found, facts: impl Iterator<Item = (String, f64)>) -> Result<(), String> {
    for (name, expected) in facts {
        let known = found.facts.get(name.as_str()).ok_or_else(|| format!("no fact {name}"))?;
        if (known - expected).abs() > 0.01 * expected.abs() {
            return Err(format!("{name} {known}, expected {expected}"));
        }
    }
    Ok(())
}

/// Compares a result with an entry of the list, and follows the advice of a refusal.
fn judged(entry: &Entry) -> Result<Outcome, String> {
    let path = folder().join(&entry.name);
    let facts = entry.facts.iter().map(|(name, value)| (name.clone(), *value));
    let (then, now): (Vec<_>, Vec<_>) = facts.partition(|(name, _)| name.starts_with("then_"));
    match (read(&entry.family, &path), &entry.refused) {
        (Ok(found), None) => {
            if found.format != entry.format {
                return Err(format!("read as {}, expected {}", found.format, entry.format));
            }
            compared(&found, now.into_iter())?;
            match &entry.left_out {
                Some(word) if !found.left_out.contains(word) => Err(format!("{word} is not told")),
                _ => Ok(Outcome::Loads),
            }
        }
        (Ok(_), Some(_)) => Err("loads, expected a refusal".to_owned()),
        (Err(said), None) => Err(said),
        (Err(said), Some(why)) => {
            let next = entry.next.as_deref().unwrap_or_default();
            let is_told = said.contains(why.as_str()) && said.contains(next);
            if !is_told || said.contains('\n') {
                return Err(format!("said `{said}`, expected `{why}` and `{next}`"));
            }
            let Some(found) = advice::follow(entry, &path, &said) else {
                return Ok(Outcome::Refused);
            };
            if found.as_ref().err().is_some_and(|error| error == advice::NO_PROGRAM) {
                // The table must be the same on every machine. The step is taken where its program
                // is.
                return Ok(Outcome::LoadsThen);
            }
            let found = found.map_err(|error| format!("said `{said}`, which ends in `{error}`"))?;
            let bare = |(name, value): (String, f64)| (name["then_".len()..].to_owned(), value);
            compared(&found, then.into_iter().map(bare))?;
            Ok(Outcome::LoadsThen)
        }
    }
}

#[test]
fn files_as_people_have_them_load_or_are_refused_with_a_next_step() {
    let entries = corpus();
    let mut wrong = Vec::new();
    for entry in &entries {
        assert!(!entry.source.is_empty(), "{}", entry.name);
        if let Err(why) = judged(entry) {
            wrong.push(format!("{}: {why}", entry.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), entries.len(), wrong.join("\n"));
    assert!(entries.len() >= 150);
}

/// Each file of the folder is in the list, and none is named that is not there.
#[test]
fn the_list_of_files_is_whole() {
    let mut listed: Vec<String> = corpus().into_iter().map(|entry| entry.name).collect();
    listed.push("corpus.toml".to_owned());
    listed.sort_unstable();
    listed.dedup();
    let names = std::fs::read_dir(folder()).unwrap();
    let mut there: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    there.sort_unstable();
    assert_eq!(there, listed);
}

/// The table of docs/inputs.md: of each format how many files load as they should.
#[test]
fn docs_say_which_formats_load() {
    let mut formats: BTreeMap<(String, String), [u32; 4]> = BTreeMap::new();
    for entry in corpus() {
        let outcome = judged(&entry).ok();
        let family = entry.family.split('-').next().unwrap_or_default().to_owned();
        let count = formats.entry((family, entry.format)).or_default();
        count[0] += 1;
        if let Some(outcome) = outcome {
            count[1 + outcome as usize] += 1;
        }
    }
    let row = |((family, format), [all, loads, then, refused]): (&(String, String), &[u32; 4])| {
        format!("| {family} | {format} | {loads} of {all} | {then} | {refused} |\n")
    };
    let sum = |at: usize| formats.values().map(|count| count[at]).sum::<u32>();
    let table = format!(
        "| family | format | load with their facts | load after the step that is named | refused \
         |\n|---|---|---|---|---|\n{}\n{} of {} files load, {} more after the step that the \
         refusal names.\n",
        formats.iter().map(row).collect::<String>(),
        sum(1),
        sum(0),
        sum(2)
    );
    let path = folder().join("../../docs/inputs.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- corpus -->\n", "<!-- end of corpus -->");
    let (before, rest) = page.split_once(begin).expect("a place for the table");
    let (now, after) = rest.split_once(end).expect("its end");
    if std::env::var_os("HALFWINK_WRITE_TABLES").is_some() {
        std::fs::write(&path, format!("{before}{begin}{table}{end}{after}")).unwrap();
        return;
    }
    assert_eq!(now, table, "HALFWINK_WRITE_TABLES=1 cargo test -p halfwink-fuzz-targets writes it");
}
