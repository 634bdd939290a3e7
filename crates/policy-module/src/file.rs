//! From a file to a row of the list of techniques.

use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use halfwink_inputs::{read_plain, Budget};
use halfwink_techniques::{
    unescape_file_name, Availability, Available, Change, Error, Gating, Make, Technique,
};
use xxhash_rust::xxh3::xxh3_128;

use crate::about::{kept, About};
use crate::code::{self, Code, Found, Translated};
use crate::families::Playable;
use crate::played::Opened;

/// Most bytes of a module.
pub const MOST_BYTES: u64 = 1 << 20;

/// The end of names that are modules.
const MODULE: &str = ".wasm";

/// The families that this process plays. A live program names its own, so that the others are not
/// linked.
static FAMILIES: OnceLock<&'static [&'static Playable]> = OnceLock::new();

/// Lets techniques of these families be named by files, in the whole process.
pub(crate) fn install(families: &'static [&'static Playable]) {
    // A second library of the same process sets the same ones.
    let _ = FAMILIES.set(families);
    halfwink_techniques::set_loader(load);
}

/// Rows of the modules that were read, one for each path and content. They are never dropped, since
/// choices refer to them.
static ROWS: Mutex<Vec<&'static Technique>> = Mutex::new(Vec::new());

/// Reads the module of this path into a row, or what an interpreter finds under the name. It is
/// read each time, so that another content under the same name is another technique. With a
/// `digest` it must have that content.
///
/// # Errors
/// If it cannot be read, is of another content, or is no policy that can be played.
fn load(path: &str, digest: &str) -> Result<&'static Technique, Error> {
    let wrong = |problem: String| Error::Usage(format!("{path}: {problem}"));
    let file = unescape_file_name(path);
    if path.ends_with(MODULE) {
        let bytes = read_plain(Path::new(&*file), &Budget::new(MOST_BYTES))
            .map_err(|error| Error::Usage(error.to_string()))?;
        let found = format!("{:032x}", xxh3_128(&bytes));
        if !digest.is_empty() && digest != found {
            let problem = format!("its content has changed: expected {digest}, found {found}");
            return Err(wrong(problem));
        }
        return kept_or(path, found, || {
            let Translated { about, code } = code::translate(&bytes)?;
            Ok((about, code))
        })
        .map_err(wrong);
    }
    // An interpreter may have a lock of its own: nothing is locked here while it is asked.
    let Found { digest, about, code } = code::open(&file, digest).map_err(wrong)?;
    kept_or(path, digest, || Ok((about, code))).map_err(wrong)
}

/// Returns the row of this path and content, which is made if there is none yet.
fn kept_or(
    path: &str,
    digest: String,
    made: impl FnOnce() -> Result<(String, Box<dyn Code>), String>,
) -> Result<&'static Technique, String> {
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |row: &&&Technique| {
        row.name == path && row.module.is_some_and(|module| module.digest() == digest)
    };
    if let Some(row) = rows.iter().find(same) {
        return Ok(row);
    }
    let (about, code) = made()?;
    let families = FAMILIES.get().copied().unwrap_or_default();
    let about = About::read(&about, families.iter().map(|playable| &playable.family))?;
    let row = Box::leak(Box::new(row(families, Opened { path: kept(path), digest, code, about })));
    rows.push(row);
    Ok(row)
}

fn row(families: &[&Playable], opened: Opened) -> Technique {
    let module: &'static Opened = Box::leak(Box::new(opened));
    let about = &module.about;
    let playable = families.iter().find(|playable| playable.family.name == about.family.name);
    let playable = playable.expect("the description names one of them");
    let make = (playable.make)(about);
    Technique {
        name: module.path,
        family: match make {
            // As the listed governors, which need a machine that names its idle states, too.
            Make::Gating(Gating { change: Change::IdleStates, .. }) => "c-states",
            _ => about.family.name,
        },
        worlds: (playable.worlds)(about),
        title: about.title,
        source: "a policy of the user's own",
        available: Available { needs: Availability::Kernel, how: playable.needs, is_usual: false },
        parameters: about.parameters,
        make,
        unread: &[],
        module: Some(module),
    }
}
