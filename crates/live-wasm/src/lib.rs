//! The interpreter of modules for programs that load it: C functions over `policy-wasm`.
//!
//! A live program opens this library when its description names a module, so that programs without
//! modules stay small. Program and library come from one build, but perhaps from two installations:
//! the program asks for [`halfwink_wasm_version`] first and calls nothing else of another version.
//!
//! No function panics across the boundary, and each pointer that one returns is given back to the
//! function that frees it. Problems are written as UTF-8 into room of the caller, and cut there.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use halfwink_policy_module::{Limits, BYTES};
use halfwink_policy_wasm::{Compiled, Instance};

/// Version of these functions.
pub const VERSION: u32 = 1;

/// A module that was checked and translated, with what it says of itself.
pub struct Module {
    compiled: Compiled,
    about: String,
}

/// Room for a problem, which its reader owns.
#[repr(C)]
pub struct Problem {
    /// Address of the room.
    pub text: *mut u8,
    /// Length of the room in bytes.
    pub room: usize,
    /// Length of the text in bytes.
    pub length: usize,
}

impl Problem {
    /// # Safety
    /// `text` can be written for `room` bytes.
    unsafe fn write(&mut self, problem: &str) {
        let mut length = problem.len().min(self.room);
        while !problem.is_char_boundary(length) {
            length -= 1;
        }
        // SAFETY: the caller's room, and no more of the text than there is.
        unsafe { self.text.copy_from(problem.as_ptr(), length) };
        self.length = length;
    }
}

/// Runs `work`, whose panics are problems as well.
///
/// # Safety
/// `problem` can be written, and so can its room.
unsafe fn guarded<T>(problem: *mut Problem, work: impl FnOnce() -> Result<T, String>) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    let why = match done {
        Ok(Ok(value)) => return Some(value),
        Ok(Err(why)) => why,
        Err(_) => "made the interpreter fail".to_owned(),
    };
    // SAFETY: as the caller promises.
    unsafe { (*problem).write(&why) };
    None
}

/// Returns the version of these functions.
#[no_mangle]
pub extern "C" fn halfwink_wasm_version() -> u32 {
    VERSION
}

/// Checks and translates a module; null with a problem.
///
/// # Safety
/// `bytes` can be read for `length` bytes, and `problem` can be written.
#[no_mangle]
pub unsafe extern "C" fn halfwink_wasm_translate(
    bytes: *const u8,
    length: usize,
    problem: *mut Problem,
) -> *mut Module {
    let translate = || {
        // SAFETY: as the caller promises.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, length) };
        let compiled = Compiled::new(bytes)?;
        let about = compiled.instance(Limits::SIMULATED, &Arc::default())?.about()?.to_owned();
        Ok(Box::new(Module { compiled, about }))
    };
    // SAFETY: as the caller promises.
    unsafe { guarded(problem, translate) }.map_or(std::ptr::null_mut(), Box::into_raw)
}

/// Returns what a module says of itself, as UTF-8 that lives as long as the module, and writes its
/// length.
///
/// # Safety
/// `module` comes from [`halfwink_wasm_translate`] and was not freed; `length` can be written.
#[no_mangle]
pub unsafe extern "C" fn halfwink_wasm_about(
    module: *const Module,
    length: *mut usize,
) -> *const u8 {
    // SAFETY: as the caller promises.
    let about = unsafe { &(*module).about };
    // SAFETY: as the caller promises.
    unsafe { *length = about.len() };
    about.as_ptr()
}

/// Starts a module with a memory of its own and this fuel; null with a problem.
///
/// # Safety
/// `module` comes from [`halfwink_wasm_translate`] and was not freed; `problem` can be written.
#[no_mangle]
pub unsafe extern "C" fn halfwink_wasm_start(
    module: *const Module,
    per_call: u64,
    saved: u64,
    problem: *mut Problem,
) -> *mut Instance {
    // SAFETY: as the caller promises.
    let compiled = unsafe { &(*module).compiled };
    let start = || compiled.instance(Limits { per_call, saved }, &Arc::default()).map(Box::new);
    // SAFETY: as the caller promises.
    unsafe { guarded(problem, start) }.map_or(std::ptr::null_mut(), Box::into_raw)
}

/// Calls a module through a block of 512 bytes; false with a problem.
///
/// # Safety
/// `instance` comes from [`halfwink_wasm_start`], was not freed and is not in use; `block` can be
/// read and written for as many bytes; `problem` can be written.
#[no_mangle]
pub unsafe extern "C" fn halfwink_wasm_call(
    instance: *mut Instance,
    block: *mut [u8; BYTES],
    problem: *mut Problem,
) -> bool {
    // SAFETY: as the caller promises, for both.
    let (instance, block) = unsafe { (&mut *instance, &mut *block) };
    // SAFETY: as the caller promises.
    unsafe { guarded(problem, || instance.play(block)) }.is_some()
}

/// Frees what was started.
///
/// # Safety
/// `instance` comes from [`halfwink_wasm_start`] and is not used again.
#[no_mangle]
pub unsafe extern "C" fn halfwink_wasm_end(instance: *mut Instance) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(instance) });
}

/// Frees a module.
///
/// # Safety
/// `module` comes from [`halfwink_wasm_translate`] and is not used again.
#[no_mangle]
pub unsafe extern "C" fn halfwink_wasm_free(module: *mut Module) {
    // SAFETY: as the caller promises.
    drop(unsafe { Box::from_raw(module) });
}
