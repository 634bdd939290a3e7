//! Policies that are modules, in live programs: the interpreter is a shared library of its own,
//! which is loaded when a description names a module.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use halfwink_eventlog::Header;
use halfwink_live::program::interpreter::{Instance, Interpreter, Module, BLOCK};
use halfwink_live::program::stand_in::StandIn;
use halfwink_policy::record::Fields;
use halfwink_policy_module::{
    set_translator, Block, Code, Family, Limits, Playable, Started, Translated, BYTES,
};
use halfwink_techniques::{escape_file_name, Choice, Error as Unmade};

use crate::run::packages;

const _: () = assert!(BLOCK == BYTES, "one block");

/// Name of the library.
pub const LIBRARY: &str = "libhalfwink_wasm.so";

/// Path of the library, where a program knows it.
static PLACE: OnceLock<PathBuf> = OnceLock::new();

/// Lets policies of these families be named by the file of a module, in the whole process.
/// `library`: path of the interpreter; without one, the folders near the program are searched.
pub fn install(families: &'static [&'static Playable], library: Option<PathBuf>) {
    halfwink_policy_module::install(families);
    if let Some(library) = library {
        // Another program of the same process has the same package.
        let _ = PLACE.set(library);
    }
    set_translator(translate);
}

/// The policy that a description has put in charge, so that a reload can tell whether it still is.
pub struct InCharge {
    identity: String,
    /// Faults of policies up to then: after one more, another policy decides.
    faults: u64,
}

impl InCharge {
    /// Puts the policy of this header in charge, after so many faults.
    #[must_use]
    pub fn new(header: &Header, faults: u64) -> InCharge {
        InCharge { identity: header.technique.clone(), faults }
    }

    /// Returns whether the policy of this header is in charge after so many faults. The file of a
    /// module may have other content under the same name.
    #[must_use]
    pub fn is_still(&self, header: &Header, faults: u64) -> bool {
        self.identity == header.technique && self.faults == faults
    }
}

/// Checks that a policy has not failed at its start.
///
/// # Errors
/// If it is a module that did.
pub fn begun(chosen: &Choice) -> Result<(), Unmade> {
    chosen.fault().map_or(Ok(()), |fault| Err(Unmade::Usage(fault.to_owned())))
}

/// Returns the policy of this name, which `made` makes and which takes over if the chosen one is a
/// module and fails; none for a policy that is no module.
///
/// # Errors
/// If `made` fails.
pub fn stand_in<N, E>(
    chosen: &Choice,
    name: &str,
    made: impl FnOnce() -> Result<N, E>,
) -> Result<Option<StandIn<N>>, E> {
    if !chosen.has_module() {
        return Ok(None);
    }
    let chosen = chosen.clone();
    Ok(Some(StandIn::new(move || chosen.fault().map(str::to_owned), name, made()?)))
}

/// Returns a policy as a description names it, with the path of a module from here: files that a
/// description names are relative to it.
#[must_use]
pub fn from_here(policy: &str, description: &Path) -> String {
    let folder = description.parent().unwrap_or(Path::new(""));
    match Choice::names_file(policy) {
        // A path that is absolute replaces the folder.
        true => {
            let folder = escape_file_name(&folder.display().to_string());
            Path::new(&folder).join(policy).display().to_string()
        }
        false => policy.to_owned(),
    }
}

fn translate(bytes: &[u8]) -> Result<Translated, String> {
    let module = Arc::new(interpreter()?.translate(bytes)?);
    Ok(Translated { about: module.about(), code: Box::new(Loaded(module)) })
}

/// Returns the interpreter, which is loaded once.
fn interpreter() -> Result<Interpreter, String> {
    static LOADED: Mutex<Option<Interpreter>> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(interpreter) = *loaded {
        return Ok(interpreter);
    }
    let program = std::env::current_exe().unwrap_or_default();
    let place = PLACE.get().cloned().or_else(|| found(&program, LIBRARY));
    let place = place.ok_or_else(|| {
        let from = program.display();
        format!("needs the interpreter {LIBRARY}, which is not installed beside {from}")
    })?;
    let interpreter = Interpreter::open(&place)?;
    *loaded = Some(interpreter);
    Ok(interpreter)
}

/// Finds a library of this name near this program.
pub(crate) fn beside(library: &str) -> Option<PathBuf> {
    found(&std::env::current_exe().ok()?, library)
}

/// Finds a library: beside a program, in the Python package that it was installed with, or in the
/// clone above it.
fn found(program: &Path, library: &str) -> Option<PathBuf> {
    let packages = packages(program)?.map(|package| package.join("_native"));
    let beside = [program.parent()?.to_owned(), program.ancestors().nth(2)?.join("lib/halfwink")];
    let clones = program.ancestors().skip(1).map(|folder| folder.join("python/halfwink/_native"));
    let folders = beside.into_iter().chain(packages).chain(clones);
    folders.map(|folder| folder.join(library)).find(|path| path.is_file())
}

/// A module that the library has translated.
struct Loaded(Arc<Module>);

impl Code for Loaded {
    fn start(
        &self,
        _family: &Family,
        limits: Limits,
        _together: &Arc<AtomicUsize>,
    ) -> Result<Box<dyn Started>, String> {
        // A live program has one policy, whose own memory is bounded.
        let instance = self.0.start((limits.per_call, limits.saved))?;
        Ok(Box::new(Running { instance, block: [0; BYTES] }))
    }
}

/// A module with a memory of its own, and the block through which it is called.
struct Running {
    instance: Instance,
    block: [u8; BYTES],
}

impl Started for Running {
    fn begin(&mut self, parameters: &[f64]) {
        Block(&mut self.block[..]).begin(parameters);
    }

    fn call(&mut self, now: u64, event: u64, fields: &[u64]) -> Result<(), String> {
        Block(&mut self.block[..]).event(now, event, fields);
        self.instance.call(&mut self.block)
    }

    fn timer(&self) -> u64 {
        Block(&self.block[..]).timer()
    }

    fn count(&self) -> u64 {
        Block(&self.block[..]).count()
    }

    fn action(&self, n: usize) -> (u64, Fields) {
        Block(&self.block[..]).action(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_named_from_its_description() {
        let named = |policy| from_here(policy, Path::new("/etc/halfwink/router.toml"));
        assert_eq!(named("own.wasm:polls=3"), "/etc/halfwink/own.wasm:polls=3");
        assert_eq!(named("/lib/own.wasm"), "/lib/own.wasm");
        assert_eq!(named("napi:polls=3"), "napi:polls=3");
        assert_eq!(from_here("own.wasm", Path::new("router.toml")), "own.wasm");
        assert_eq!(from_here("own.wasm", Path::new("/a+b:c/router.toml")), "/a%2Bb%3Ac/own.wasm");
    }

    #[test]
    fn the_library_is_beside_the_program_or_in_its_package_or_clone() {
        let clone = tempfile::tempdir().unwrap();
        let program = clone.path().join(".venv/bin/halfwink-steer");
        assert_eq!(found(&program, LIBRARY), None);
        let folders =
            ["python/halfwink/_native", ".venv/lib/python3.11/site-packages/halfwink/_native"];
        for folder in folders.map(|folder| clone.path().join(folder)) {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(LIBRARY), "").unwrap();
            assert_eq!(found(&program, LIBRARY), Some(folder.join(LIBRARY)));
        }
    }
}
