//! Ways out of a function that are not returns: jumps out of signal handlers, ends of threads, and
//! `vfork`, which returns twice on one stack.

use std::ffi::{c_int, c_void};

use halfwink_live_delegate::hub;

use crate::real::Real;

macro_rules! jumps {
    ($($real:ident $name:ident;)*) => {
        $(
            static $real: Real = Real::named(concat!(stringify!($name), "\0"));

            #[no_mangle]
            unsafe extern "C-unwind" fn $name(to: *mut c_void, value: c_int) -> ! {
                hub::settle();
                // SAFETY: libc's function of this name has this type.
                let real = unsafe {
                    std::mem::transmute::<
                        *mut (),
                        unsafe extern "C-unwind" fn(*mut c_void, c_int) -> !,
                    >($real.find())
                };
                // SAFETY: the program makes this jump.
                unsafe { real(to, value) }
            }
        )*
        pub(crate) const REALS: &[&Real] = &[&EXIT, &CANCEL_TYPE, $(&$real),*];
    };
}

jumps! {
    LONGJMP longjmp;
    LONGJMP_ _longjmp;
    SIGLONGJMP siglongjmp;
    LONGJMP_CHK __longjmp_chk;
}

static EXIT: Real = Real::new(c"pthread_exit");
static CANCEL_TYPE: Real = Real::new(c"pthread_setcanceltype");

/// Settles calls under way first. In a signal handler this is a jump, too, and clean-up code may
/// free memory that a call still writes to.
#[no_mangle]
unsafe extern "C-unwind" fn pthread_exit(value: *mut c_void) -> ! {
    hub::settle();
    // SAFETY: libc's function of this name has this type.
    let real = unsafe {
        std::mem::transmute::<*mut (), unsafe extern "C-unwind" fn(*mut c_void) -> !>(EXIT.find())
    };
    // SAFETY: the program ends this thread.
    unsafe { real(value) }
}

/// Returns whether the calling thread is the first of its process.
fn is_first() -> bool {
    // SAFETY: neither touches memory.
    unsafe { libc::gettid() == libc::getpid() }
}

/// Keeps calls in place in a thread that may be cancelled at any instruction, since it could not
/// wait for a call under way. The first thread is excepted: programs set this in all their threads
/// to end them after a crash (Redis does), and never cancel the thread that does all the work.
#[no_mangle]
unsafe extern "C-unwind" fn pthread_setcanceltype(kind: c_int, before: *mut c_int) -> c_int {
    // PTHREAD_CANCEL_ASYNCHRONOUS, of glibc as of musl.
    const AT_ANY_TIME: c_int = 1;
    // Before the change, since a cancellation may come with it; after a change back.
    if kind == AT_ANY_TIME && !is_first() {
        hub::stand_aside(true);
    }
    // SAFETY: libc's function of this name has this type.
    let real = unsafe {
        std::mem::transmute::<*mut (), unsafe extern "C-unwind" fn(c_int, *mut c_int) -> c_int>(
            CANCEL_TYPE.find(),
        )
    };
    // SAFETY: the program makes this call.
    let result = unsafe { real(kind, before) };
    if kind != AT_ANY_TIME && result == 0 {
        hub::stand_aside(false);
    }
    result
}

extern "C" fn apart_word() -> *mut u64 {
    hub::apart_word()
}

extern "C" fn fail(error: c_int) -> c_int {
    // SAFETY: libc gives each thread a valid place.
    unsafe { *libc::__errno_location() = error };
    -1
}

/// `vfork`, with a word set in the child: it runs in this very memory, with this thread's
/// variables, but in a process without workers and with files of its own.
///
/// The return address waits in a register, since the child overwrites the stack; registers other
/// than rax, rcx and r11 are the same after either return.
#[unsafe(naked)]
#[no_mangle]
unsafe extern "C" fn vfork() -> c_int {
    core::arch::naked_asm!(
        "sub rsp, 8",
        "call {apart}",
        "add rsp, 8",
        "mov rsi, rax",
        "mov rdx, [rsi]",
        "mov qword ptr [rsi], 1",
        "pop rdi",
        "mov eax, 58",
        "syscall",
        "push rdi",
        "test rax, rax",
        "jz 2f",
        // The parent, or nobody's: as it was.
        "mov [rsi], rdx",
        "cmp rax, -4095",
        "jae 3f",
        "2:",
        "ret",
        "3:",
        "mov edi, eax",
        "neg edi",
        "sub rsp, 8",
        "call {fail}",
        "add rsp, 8",
        "ret",
        apart = sym apart_word,
        fail = sym fail,
    )
}
