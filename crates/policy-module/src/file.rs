//! From a file to a row of the list of techniques.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use halfwink_inputs::{read_input, Budget};
use halfwink_techniques::{Availability, Available, Error, Technique};
use xxhash_rust::xxh3::xxh3_128;

use crate::about::{kept, About};
use crate::engine::Compiled;
use crate::families::FAMILIES;
use crate::played::Opened;

/// Most bytes of a module.
pub const MOST_BYTES: u64 = 1 << 20;

/// Rows of the modules that were read, one for each path and content. They are never dropped, since
/// choices refer to them.
static ROWS: Mutex<Vec<&'static Technique>> = Mutex::new(Vec::new());

/// Reads the module of this path into a row. It is read each time, so that another content under
/// the same name is another technique.
///
/// # Errors
/// If it cannot be read, or is no policy that can be played.
pub(crate) fn load(path: &str) -> Result<&'static Technique, Error> {
    let bytes = read_input(Path::new(path), &Budget::new(MOST_BYTES))
        .map_err(|error| Error::Usage(error.to_string()))?;
    let digest = format!("{:032x}", xxh3_128(&bytes));
    let mut rows = ROWS.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |row: &&&Technique| {
        row.name == path && row.module.is_some_and(|module| module.digest() == digest)
    };
    if let Some(row) = rows.iter().find(same) {
        return Ok(row);
    }
    let wrong = |problem: String| Error::Usage(format!("{path}: {problem}"));
    let compiled = Compiled::new(&bytes).map_err(wrong)?;
    let about = compiled.instance().map_err(wrong)?;
    let families = FAMILIES.map(|playable| &playable.family);
    let about = About::read(about.about().map_err(wrong)?, families).map_err(wrong)?;
    let row = Box::leak(Box::new(row(Opened { path: kept(path), digest, compiled, about })));
    rows.push(row);
    Ok(row)
}

fn row(opened: Opened) -> Technique {
    let module: &'static Opened = Box::leak(Box::new(opened));
    let about = &module.about;
    let playable = FAMILIES.into_iter().find(|playable| playable.family.name == about.family.name);
    let playable = playable.expect("the description names one of them");
    Technique {
        name: module.path,
        family: about.family.name,
        worlds: (playable.worlds)(about),
        title: about.title,
        source: "a policy of the user's own",
        available: Available { needs: Availability::Kernel, how: playable.needs, is_usual: false },
        parameters: about.parameters,
        make: (playable.make)(about),
        unread: &[],
        module: Some(module),
    }
}
