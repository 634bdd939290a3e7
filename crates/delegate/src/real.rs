//! libc's own functions behind ours.

use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// One of libc's functions. Null until the library has begun, or if this libc has none.
pub(crate) struct Real {
    name: &'static CStr,
    address: AtomicPtr<()>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr) -> Real {
        Real { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address, if it is known.
    #[inline]
    pub(crate) fn get(&self) -> *mut () {
        self.address.load(Ordering::Relaxed)
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
        self.address.store(found.cast(), Ordering::Relaxed);
    }
}

/// Looks all of them up, while nothing else runs.
pub(crate) fn resolve() {
    for list in [crate::calls::REALS, crate::descriptors::REALS, crate::identity::REALS] {
        list.iter().for_each(|real| real.look_up());
    }
    crate::jumps::REALS.iter().for_each(|real| real.look_up());
}
