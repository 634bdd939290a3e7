//! libc's own functions behind ours.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

/// One of libc's functions. Null until the library has begun, or if this libc has none.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicPtr<()>,
    replaced: AtomicBool,
}

/// Name prefixes of the files with libc's functions, by version and vendor.
const LIBC: [&[u8]; 5] = [b"libc.so", b"libc-", b"libpthread", b"libc.musl", b"ld-musl"];

impl Real {
    /// Creates the function of a name that ends with a zero, as `concat!(stringify!(name), "\0")`
    /// makes it.
    pub(crate) const fn named(name: &'static str) -> Real {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Real::new(name),
            Err(_) => panic!("the one zero of a name is at its end"),
        }
    }

    pub(crate) const fn new(name: &'static CStr) -> Real {
        let address = AtomicPtr::new(std::ptr::null_mut());
        Real { name, address, replaced: AtomicBool::new(false) }
    }

    /// Returns its address, if it is known.
    #[inline]
    pub(crate) fn get(&self) -> *mut () {
        self.address.load(Ordering::Relaxed)
    }

    /// Returns whether another preloaded library stands before libc here (as fakeroot does). Then
    /// every call belongs to that library, and none may move past it.
    #[inline]
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Returns its address, and looks it up if needed. For functions that no system call can
    /// replace.
    pub(crate) fn find(&self) -> *mut () {
        if self.get().is_null() {
            self.look_up();
        }
        self.get()
    }

    fn look_up(&self) {
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        // Relaxed: it is done before `main`, or by calls that are not delegated and do not ask
        // whether they are replaced; two at once store the same.
        self.replaced.store(!found.is_null() && !is_libc(found), Ordering::Relaxed);
        self.address.store(found.cast(), Ordering::Relaxed);
    }
}

fn is_libc(address: *mut libc::c_void) -> bool {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the loader fills the structure, or leaves it zeroed.
    let found = unsafe {
        libc::dladdr(address, found.as_mut_ptr());
        found.assume_init()
    };
    if found.dli_fname.is_null() {
        return false;
    }
    // SAFETY: the loader's names end with a zero and stay.
    let path = unsafe { CStr::from_ptr(found.dli_fname) }.to_bytes();
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    LIBC.iter().any(|libc| name.starts_with(libc))
}

/// libc's own word for whether the program has one thread; null if it has none, or if the program
/// cancels threads.
static ONE_THREAD: AtomicPtr<AtomicU8> = AtomicPtr::new(std::ptr::null_mut());
static CANCEL: Real = Real::new(c"pthread_cancel");

/// Returns whether the program has one thread, which is never cancelled.
#[inline]
pub(crate) fn has_one_thread() -> bool {
    // SAFETY: null, or a byte of libc's that stays.
    let word = unsafe { ONE_THREAD.load(Ordering::Relaxed).as_ref() };
    word.is_some_and(|one| one.load(Ordering::Relaxed) != 0)
}

/// A thread may cancel itself even if it is the only one.
#[no_mangle]
unsafe extern "C-unwind" fn pthread_cancel(thread: libc::pthread_t) -> libc::c_int {
    ONE_THREAD.store(std::ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: libc's function of this name has this type.
    let real = unsafe {
        std::mem::transmute::<*mut (), unsafe extern "C-unwind" fn(libc::pthread_t) -> libc::c_int>(
            CANCEL.find(),
        )
    };
    // SAFETY: the program makes this call.
    unsafe { real(thread) }
}

/// Looks all of them up, while nothing else runs.
pub(crate) fn resolve() {
    // SAFETY: the name ends with a zero.
    let one = unsafe { libc::dlsym(libc::RTLD_NEXT, c"__libc_single_threaded".as_ptr()) };
    ONE_THREAD.store(one.cast(), Ordering::Relaxed);
    for list in [crate::calls::REALS, crate::descriptors::REALS, crate::identity::REALS] {
        list.iter().for_each(|real| real.look_up());
    }
    crate::jumps::REALS.iter().for_each(|real| real.look_up());
}
