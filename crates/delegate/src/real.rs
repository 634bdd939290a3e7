//! libc's own functions behind ours.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// One of libc's functions. Null until the library has begun, or if this libc has none.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicPtr<()>,
    replaced: AtomicBool,
}

/// How the files are called that libc's functions come from, by version and maker.
const LIBC: [&[u8]; 5] = [b"libc.so", b"libc-", b"libpthread", b"libc.musl", b"ld-musl"];

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Real {
        let address = AtomicPtr::new(std::ptr::null_mut());
        Real { name, address, replaced: AtomicBool::new(false) }
    }

    /// Its address, if it is known.
    #[inline]
    pub(crate) fn get(&self) -> *mut () {
        self.address.load(Ordering::Relaxed)
    }

    /// Whether another preloaded library stands before libc here (as fakeroot does). Then every
    /// call belongs to that one, and none may move past it.
    #[inline]
    pub(crate) fn is_replaced(&self) -> bool {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Its address; looks it up if need be. For functions without a call of the kernel in their
    /// place.
    pub(crate) fn find(&self) -> *mut () {
        if self.get().is_null() {
            self.look_up();
        }
        self.get()
    }

    fn look_up(&self) {
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
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

/// Looks all of them up, while nothing else runs.
pub(crate) fn resolve() {
    for list in [crate::calls::REALS, crate::descriptors::REALS, crate::identity::REALS] {
        list.iter().for_each(|real| real.look_up());
    }
    crate::jumps::REALS.iter().for_each(|real| real.look_up());
}
