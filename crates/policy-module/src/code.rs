//! Code of a user's file, and the policies that it is started as.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use halfwink_policy::record::Fields;

use crate::about::Family;

/// Bounds of the time that a policy takes, in fuel: an instruction of a module takes about one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fuel that a policy gets with each call. Without a mean that is far below the most, a module
    /// that always stays just below the most would make a run of hours of one of seconds.
    pub per_call: u64,
    /// Most fuel that a policy can save up.
    pub saved: u64,
}

impl Limits {
    /// Limits in simulated worlds, whose time stands still while a policy decides.
    pub const SIMULATED: Limits = Limits { per_call: 100_000, saved: 10_000_000 };
    /// Limits in live programs, whose frames and requests wait while a policy decides: about a
    /// millisecond.
    pub const LIVE: Limits = Limits { per_call: 20_000, saved: 200_000 };

    /// Returns the limits of a live program, or those of a simulated world.
    #[must_use]
    pub fn of(is_live: bool) -> Limits {
        if is_live {
            Limits::LIVE
        } else {
            Limits::SIMULATED
        }
    }
}

/// Code of a policy, read once for all who play it.
pub trait Code: Send + Sync {
    /// Starts a policy with a memory of its own, which counts in `together` with that of the other
    /// policies of a run. Code in a language without fuel ignores limits.
    ///
    /// # Errors
    /// The fault of the file, as the end of a sentence about it.
    fn start(
        &self,
        family: &Family,
        limits: Limits,
        together: &Arc<AtomicUsize>,
    ) -> Result<Box<dyn Started>, String>;
}

/// A module that was checked and translated.
pub struct Translated {
    /// Description that the module gives of itself.
    pub about: String,
    /// The code of the policy.
    pub code: Box<dyn Code>,
}

/// Checks and translates the bytes of a module. Its errors are the end of a sentence about it.
pub type Translator = fn(bytes: &[u8]) -> Result<Translated, String>;

static TRANSLATOR: OnceLock<Translator> = OnceLock::new();

/// Sets what translates modules, in the whole process.
pub fn set_translator(translator: Translator) {
    // A second library of the same process sets the same one.
    let _ = TRANSLATOR.set(translator);
}

/// Translates a module.
///
/// # Errors
/// If there is no interpreter, or it rejects the module.
pub(crate) fn translate(bytes: &[u8]) -> Result<Translated, String> {
    let translator = TRANSLATOR.get().ok_or("this program has no interpreter for modules")?;
    translator(bytes)
}

/// A policy that was started. It is called with an event, and keeps its timer and the actions that
/// it requests until the next call.
pub trait Started: Send {
    /// Sets the parameters, before the first call.
    fn begin(&mut self, parameters: &[f64]);

    /// Calls it with an event: `START`, `TIMER`, `MORE`, or a kind of its family behind them.
    ///
    /// # Errors
    /// The fault of the policy, as the end of a sentence about it.
    fn call(&mut self, now: u64, event: u64, fields: &[u64]) -> Result<(), String>;

    /// Returns the time of its timer in picoseconds; all ones if it is off.
    fn timer(&self) -> u64;

    /// Returns how many actions it has not handed over yet.
    fn count(&self) -> u64;

    /// Returns the number and the fields of one of the first `ACTIONS` of them.
    fn action(&self, n: usize) -> (u64, Fields);
}

/// Code that an interpreter of the embedding program found under a name.
pub struct Found {
    /// Digest of the content, in hexadecimal digits.
    pub digest: String,
    /// Description that the code gives of itself, as modules do.
    pub about: String,
    /// The code of the policy.
    pub code: Box<dyn Code>,
}

/// Finds the code of a name that is no module. `digest` is that which its content must have; empty
/// if any will do. Nothing of another content is run.
pub type Opener = fn(name: &str, digest: &str) -> Result<Found, String>;

static OPENER: OnceLock<Opener> = OnceLock::new();

/// Sets what opens names that are no modules: a program with an interpreter of its own has it.
pub fn set_opener(opener: Opener) {
    // A second library of the same process sets the same one.
    let _ = OPENER.set(opener);
}

/// Opens a name that is no module.
///
/// # Errors
/// If there is no interpreter, or nothing that can be played under the name.
pub(crate) fn open(name: &str, digest: &str) -> Result<Found, String> {
    let opener = OPENER.get().ok_or("policies in Python are played from Python only")?;
    opener(name, digest)
}
