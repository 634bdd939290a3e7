//! The interpreter of policies that are modules: a shared library, which is loaded when a
//! description names a module.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Version of the library's functions that are called here.
const VERSION: u32 = 1;
/// Bytes of the block through which a module is called.
pub const BLOCK: usize = 512;
/// Longest problem that is read, in bytes.
const ROOM: usize = 1024;

type Translate = unsafe extern "C" fn(*const u8, usize, *mut Problem) -> *mut libc::c_void;
type About = unsafe extern "C" fn(*const libc::c_void, *mut usize) -> *const u8;
type Start = unsafe extern "C" fn(*const libc::c_void, u64, u64, *mut Problem) -> *mut libc::c_void;
type Call = unsafe extern "C" fn(*mut libc::c_void, *mut [u8; BLOCK], *mut Problem) -> bool;
type Free = unsafe extern "C" fn(*mut libc::c_void);

/// The library's functions. It is never closed: a policy may be played until the process ends.
#[derive(Clone, Copy)]
pub struct Interpreter {
    translate: Translate,
    about: About,
    start: Start,
    call: Call,
    end: Free,
    free: Free,
}

/// Room for a problem, as the library writes it.
#[repr(C)]
struct Problem {
    text: *mut u8,
    room: usize,
    length: usize,
}

/// A module that was checked and translated.
pub struct Module {
    functions: Interpreter,
    module: *mut libc::c_void,
}

/// A module with a memory of its own.
pub struct Instance {
    /// Kept so that the module is freed last.
    module: Arc<Module>,
    instance: *mut libc::c_void,
    /// Room for the problem of a call, of which there are many a second.
    problem: Box<[u8; ROOM]>,
}

// SAFETY: the library keeps nothing for a thread, and a module does not change.
unsafe impl Send for Module {}
// SAFETY: as above.
unsafe impl Sync for Module {}
// SAFETY: the library keeps nothing for a thread, and each call needs it alone.
unsafe impl Send for Instance {}

impl Interpreter {
    /// Loads the library of this path.
    ///
    /// # Errors
    /// It cannot be loaded, or is of another version.
    pub fn open(path: &Path) -> Result<Interpreter, String> {
        let wrong = |why: &str| format!("{}: {why}", path.display());
        let name = CString::new(path.as_os_str().as_bytes()).map_err(|e| wrong(&e.to_string()))?;
        // SAFETY: a name that ends in zero. What runs at loading is that of our own library.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: after an error it returns a text that ends in zero.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) };
            return Err(why.to_string_lossy().into_owned());
        }
        let find = |name: &CStr| {
            // SAFETY: a library that was opened and a name that ends in zero.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            let missing = || wrong(&format!("has no function `{}`", name.to_string_lossy()));
            (!found.is_null()).then_some(found).ok_or_else(missing)
        };
        // SAFETY: version 1 of the library declares it so, and no version changes this one.
        let version: extern "C" fn() -> u32 =
            unsafe { std::mem::transmute(find(c"halfwink_wasm_version")?) };
        let found = version();
        if found != VERSION {
            return Err(wrong(&format!("is of version {found}, expected {VERSION}")));
        }
        // SAFETY: a library of this version declares them so.
        unsafe {
            Ok(Interpreter {
                translate: std::mem::transmute::<*mut libc::c_void, Translate>(find(
                    c"halfwink_wasm_translate",
                )?),
                about: std::mem::transmute::<*mut libc::c_void, About>(find(
                    c"halfwink_wasm_about",
                )?),
                start: std::mem::transmute::<*mut libc::c_void, Start>(find(
                    c"halfwink_wasm_start",
                )?),
                call: std::mem::transmute::<*mut libc::c_void, Call>(find(c"halfwink_wasm_call")?),
                end: std::mem::transmute::<*mut libc::c_void, Free>(find(c"halfwink_wasm_end")?),
                free: std::mem::transmute::<*mut libc::c_void, Free>(find(c"halfwink_wasm_free")?),
            })
        }
    }

    /// Checks and translates a module.
    ///
    /// # Errors
    /// The fault of the module, as the end of a sentence about it.
    pub fn translate(self, bytes: &[u8]) -> Result<Module, String> {
        let module = told(&mut [0; ROOM], |problem| {
            // SAFETY: bytes and a problem that live through the call.
            there(unsafe { (self.translate)(bytes.as_ptr(), bytes.len(), problem) })
        });
        Ok(Module { functions: self, module: module? })
    }
}

impl Module {
    /// Returns what it says of itself.
    #[must_use]
    pub fn about(&self) -> String {
        let mut length = 0;
        // SAFETY: the module lives, and so does its text.
        let text = unsafe {
            let text = (self.functions.about)(self.module, &raw mut length);
            std::slice::from_raw_parts(text, length)
        };
        String::from_utf8_lossy(text).into_owned()
    }

    /// Starts it with a memory of its own, and with fuel for each call and for what it can save up.
    ///
    /// # Errors
    /// The fault of the module, as the end of a sentence about it.
    pub fn start(self: &Arc<Module>, (per_call, saved): (u64, u64)) -> Result<Instance, String> {
        let instance = told(&mut [0; ROOM], |problem| {
            // SAFETY: the module lives.
            there(unsafe { (self.functions.start)(self.module, per_call, saved, problem) })
        });
        Ok(Instance { module: self.clone(), instance: instance?, problem: Box::new([0; ROOM]) })
    }
}

impl Instance {
    /// Calls it through a block, in which it leaves its answer.
    ///
    /// # Errors
    /// The fault of the module, as the end of a sentence about it.
    pub fn call(&mut self, block: &mut [u8; BLOCK]) -> Result<(), String> {
        let Instance { module, instance, problem } = self;
        told(problem, |problem| {
            // SAFETY: the instance lives and is borrowed alone, as are block and problem.
            unsafe { (module.functions.call)(*instance, block, problem) }.then_some(())
        })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: it came from `start`, and is not used again.
        unsafe { (self.module.functions.end)(self.instance) }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it came from `translate`, and no instance of it is left.
        unsafe { (self.functions.free)(self.module) }
    }
}

/// Calls a function that writes a problem into this room where it returns nothing.
fn told<T>(
    room: &mut [u8; ROOM],
    function: impl FnOnce(*mut Problem) -> Option<T>,
) -> Result<T, String> {
    let mut problem = Problem { text: room.as_mut_ptr(), room: ROOM, length: 0 };
    let done = function(&raw mut problem);
    let length = problem.length.min(ROOM);
    done.ok_or_else(|| String::from_utf8_lossy(&room[..length]).into_owned())
}

/// Returns a pointer that is not null.
fn there(pointer: *mut libc::c_void) -> Option<*mut libc::c_void> {
    (!pointer.is_null()).then_some(pointer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_interpreter_is_named() {
        let why = |path: &str| Interpreter::open(Path::new(path)).err().unwrap();
        assert!(why("/nowhere/libhalfwink_wasm.so").contains("/nowhere/libhalfwink_wasm.so"));
        assert!(why("a\0b").contains("nul byte"), "{}", why("a\0b"));
        let libc = why("libc.so.6");
        assert_eq!(libc, "libc.so.6: has no function `halfwink_wasm_version`");
    }
}
