// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's plugin interface, versions 4 to 6 (QEMU 9.1 to 11.0), as far as it is used here.
//!
//! QEMU loads what was written for an older version than its own, even where the meaning of a
//! function has changed since: which versions these declarations hold for is checked here. Version
//! 6 made the result of a register's read a boolean, so only the array's length says how much was
//! read. Version 7 takes the plugin's number out of all callbacks.
//!
//! Everything unsafe about talking to QEMU is in this file; the rest of the crate uses the
//! wrappers at its end.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

/// Version of the interface that this plugin is written for.
pub const PLUGIN_VERSION: c_int = 4;
/// The last version in which everything that is declared here means the same.
const LAST_VERSION: c_int = 6;

/// Information that QEMU passes to a plugin; further fields follow, which are not read.
#[repr(C)]
pub struct QemuInfo {
    target_name: *const c_char,
    /// The oldest version that a plugin may be written for, and QEMU's own.
    least: c_int,
    own: c_int,
}

/// Refuses a QEMU whose interface is not known.
///
/// # Errors
/// What it has, and what is known.
///
/// # Safety
/// `info` is what QEMU passed to the installation.
pub unsafe fn check_version(info: *const QemuInfo) -> Result<(), String> {
    // SAFETY: by this function's contract.
    let version = unsafe { (*info).own };
    if (PLUGIN_VERSION..=LAST_VERSION).contains(&version) {
        return Ok(());
    }
    Err(format!(
        "this QEMU's plugin interface is version {version}: expected {PLUGIN_VERSION} to \
         {LAST_VERSION} (QEMU 9.1 to 11.0)"
    ))
}

/// Identifies the plugin to QEMU.
pub type PluginId = u64;
/// Describes a memory access.
pub type MemInfo = u32;
/// A callback that QEMU gives a CPU number and the value registered with it.
pub type VcpuCallback = extern "C" fn(c_uint, *mut c_void);
/// A callback for memory accesses.
pub type MemCallback = extern "C" fn(c_uint, MemInfo, u64, *mut c_void);
/// A callback with nothing but the plugin's number.
pub type SimpleCallback = extern "C" fn(PluginId);
/// A callback with the plugin's number and a CPU's.
pub type VcpuSimpleCallback = extern "C" fn(PluginId, c_uint);
/// A callback for a translated block.
pub type TranslateCallback = extern "C" fn(PluginId, *mut Tb);

/// The callback does not look at registers.
pub const CB_NO_REGS: c_int = 0;
/// The callback reads registers.
pub const CB_R_REGS: c_int = 1;
/// Loads and stores alike.
pub const MEM_RW: c_int = 3;

macro_rules! opaque {
    ($($(#[$meta:meta])* $name:ident;)*) => {$(
        $(#[$meta])*
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! {
    /// A block while it is being translated.
    Tb;
    /// An instruction of such a block.
    Insn;
    /// Physical address of an access.
    HwAddr;
    /// A register of the guest.
    Register;
}

#[repr(C)]
struct ByteArray {
    data: *mut u8,
    len: c_uint,
}

#[repr(C)]
struct Array {
    data: *mut c_char,
    len: c_uint,
}

#[repr(C)]
struct RegisterDescriptor {
    handle: *mut Register,
    name: *const c_char,
    feature: *const c_char,
}

extern "C" {
    fn g_byte_array_new() -> *mut ByteArray;
    fn g_byte_array_set_size(array: *mut ByteArray, length: c_uint) -> *mut ByteArray;

    fn qemu_plugin_reset(id: PluginId, cb: SimpleCallback);
    fn qemu_plugin_register_vcpu_init_cb(id: PluginId, cb: VcpuSimpleCallback);
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: TranslateCallback);
    fn qemu_plugin_register_atexit_cb(
        id: PluginId,
        cb: extern "C" fn(PluginId, *mut c_void),
        userdata: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        cb: VcpuCallback,
        flags: c_int,
        userdata: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        cb: VcpuCallback,
        flags: c_int,
        userdata: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        cb: MemCallback,
        flags: c_int,
        rw: c_int,
        userdata: *mut c_void,
    );
    fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    fn qemu_plugin_insn_data(insn: *const Insn, dest: *mut c_void, length: usize) -> usize;
    fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    fn qemu_plugin_insn_haddr(insn: *const Insn) -> *const c_void;
    fn qemu_plugin_mem_size_shift(info: MemInfo) -> c_uint;
    fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;
    fn qemu_plugin_get_hwaddr(info: MemInfo, vaddr: u64) -> *mut HwAddr;
    fn qemu_plugin_hwaddr_phys_addr(addr: *const HwAddr) -> u64;
    fn qemu_plugin_get_registers() -> *mut Array;
    // Returns a size up to version 5, a boolean since: neither is looked at.
    fn qemu_plugin_read_register(handle: *mut Register, buf: *mut ByteArray);
    fn qemu_plugin_read_memory_vaddr(addr: u64, data: *mut ByteArray, length: usize) -> bool;
    fn _exit(status: c_int) -> !;
}

/// Ends the process at once, without QEMU's own clean-up: the trace is complete, and the clean-up
/// would wait for the very thread that calls this.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` may be called at any time from any thread.
    unsafe { _exit(status) }
}

/// The plugin as QEMU knows it.
#[derive(Clone, Copy, Debug)]
pub struct Plugin(pub PluginId);

impl Plugin {
    /// Calls back for every block that is translated from now on.
    pub fn on_translate(self, cb: TranslateCallback) {
        // SAFETY: the id is the one QEMU gave us; the callback is a static function.
        unsafe { qemu_plugin_register_vcpu_tb_trans_cb(self.0, cb) }
    }

    /// Calls back when a CPU comes up.
    pub fn on_cpu(self, cb: VcpuSimpleCallback) {
        // SAFETY: as above.
        unsafe { qemu_plugin_register_vcpu_init_cb(self.0, cb) }
    }

    /// Calls back when QEMU exits.
    pub fn on_exit(self, cb: extern "C" fn(PluginId, *mut c_void)) {
        // SAFETY: as above; the callback does not use its data.
        unsafe { qemu_plugin_register_atexit_cb(self.0, cb, std::ptr::null_mut()) }
    }

    /// Forgets all callbacks and all translations, then calls back.
    pub fn reset(self, cb: SimpleCallback) {
        // SAFETY: as above.
        unsafe { qemu_plugin_reset(self.0, cb) }
    }
}

/// A block while it is being translated; valid during the translation callback.
#[derive(Clone, Copy)]
pub struct TbHandle(*mut Tb);

impl TbHandle {
    /// Wraps what QEMU passed to the translation callback.
    ///
    /// # Safety
    /// `tb` must be that pointer, and the handle must not outlive the callback.
    pub unsafe fn new(tb: *mut Tb) -> TbHandle {
        TbHandle(tb)
    }

    /// Returns the instructions of the block.
    pub fn instructions(self) -> impl Iterator<Item = InsnHandle> {
        // SAFETY: the handle is valid by the contract of `new`, and indices are below the count.
        let count = unsafe { qemu_plugin_tb_n_insns(self.0) };
        // SAFETY: as above.
        (0..count).map(move |i| InsnHandle(unsafe { qemu_plugin_tb_get_insn(self.0, i) }))
    }

    /// Calls back whenever the block begins to execute.
    pub fn on_execute(self, cb: VcpuCallback, flags: c_int, data: usize) {
        // SAFETY: the handle is valid; the data is a number, never dereferenced.
        unsafe { qemu_plugin_register_vcpu_tb_exec_cb(self.0, cb, flags, data as *mut c_void) }
    }
}

/// An instruction of a block that is being translated.
#[derive(Clone, Copy)]
pub struct InsnHandle(*mut Insn);

impl InsnHandle {
    /// Copies its bytes; returns how many there are.
    pub fn bytes(self, buf: &mut [u8; 16]) -> usize {
        // SAFETY: the buffer is as long as we say.
        unsafe { qemu_plugin_insn_data(self.0, buf.as_mut_ptr().cast(), buf.len()) }
    }

    /// Returns the guest's virtual address.
    pub fn virt(self) -> u64 {
        // SAFETY: the handle is valid during the translation callback.
        unsafe { qemu_plugin_insn_vaddr(self.0) }
    }

    /// Address in QEMU's own memory; 0 if it has none.
    pub fn host(self) -> u64 {
        // SAFETY: as above.
        unsafe { qemu_plugin_insn_haddr(self.0) as u64 }
    }

    /// Calls back before every execution.
    pub fn on_execute(self, cb: VcpuCallback, flags: c_int, data: usize) {
        // SAFETY: as above; the data is a number.
        unsafe { qemu_plugin_register_vcpu_insn_exec_cb(self.0, cb, flags, data as *mut c_void) }
    }

    /// Calls back after every memory access.
    pub fn on_access(self, cb: MemCallback, data: usize) {
        // SAFETY: as above; the data is a number.
        unsafe {
            qemu_plugin_register_vcpu_mem_cb(self.0, cb, CB_NO_REGS, MEM_RW, data as *mut c_void);
        }
    }
}

/// Bytes, direction and physical address of an access. Only inside the access callback.
pub fn access(info: MemInfo, virt: u64) -> (u8, bool, u64) {
    // SAFETY: called from the access callback with that callback's own arguments.
    unsafe {
        let size = 1u8 << qemu_plugin_mem_size_shift(info).min(7);
        let write = qemu_plugin_mem_is_store(info);
        let place = qemu_plugin_get_hwaddr(info, virt);
        let phys = if place.is_null() { 0 } else { qemu_plugin_hwaddr_phys_addr(place) };
        (size, write, phys)
    }
}

/// The registers that the recorder reads, in the order of [`Reg`].
const NAMES: [&CStr; Reg::COUNT] = [
    c"rax", c"rcx", c"rdx", c"rbx", c"rsp", c"rbp", c"rsi", c"rdi", c"r8", c"r9", c"r10", c"r11",
    c"r12", c"r13", c"r14", c"r15", c"cr3", c"efer", c"rip",
];

/// A register. General-purpose registers have their encoding's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reg(pub u8);

impl Reg {
    /// Number of registers.
    pub const COUNT: usize = 19;
    /// Number and result of a system call; low half of the time.
    pub const RAX: Reg = Reg(0);
    /// High half of the time.
    pub const RDX: Reg = Reg(2);
    /// Register of the stack pointer.
    pub const RSP: Reg = Reg(4);
    /// Register of the second argument.
    pub const RSI: Reg = Reg(6);
    /// Register of the first argument.
    pub const RDI: Reg = Reg(7);
    /// Register of the page tables.
    pub const CR3: Reg = Reg(16);
    /// Register of extended features.
    pub const EFER: Reg = Reg(17);
    /// Register of the program counter.
    pub const RIP: Reg = Reg(18);
    /// Arguments of a system call, in order.
    pub const SYSCALL_ARGS: [Reg; 6] = [Reg::RDI, Reg::RSI, Reg::RDX, Reg(10), Reg(8), Reg(9)];
}

/// Reads registers and memory of the CPU whose callback is running.
pub struct Guest {
    handles: [*mut Register; Reg::COUNT],
    buf: *mut ByteArray,
}

impl Guest {
    /// Looks the registers up. Only inside a callback of a CPU.
    ///
    /// # Errors
    /// The name of a register that QEMU does not offer.
    pub fn new() -> Result<Guest, String> {
        let mut handles = [std::ptr::null_mut(); Reg::COUNT];
        // SAFETY: QEMU returns an array of `len` descriptors whose strings live for ever.
        let known = unsafe {
            let array = qemu_plugin_get_registers();
            let first = (*array).data.cast::<RegisterDescriptor>();
            std::slice::from_raw_parts(first, (*array).len as usize)
        };
        for descriptor in known {
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(descriptor.name) };
            if let Some(i) = NAMES.iter().position(|&n| n == name) {
                handles[i] = descriptor.handle;
            }
        }
        if let Some(i) = handles.iter().position(|h| h.is_null()) {
            return Err(NAMES[i].to_string_lossy().into_owned());
        }
        // SAFETY: GLib returns a new array.
        Ok(Guest { handles, buf: unsafe { g_byte_array_new() } })
    }

    /// The value of a register. Only inside a callback that was registered with [`CB_R_REGS`].
    pub fn register(&self, reg: Reg) -> u64 {
        self.try_register(reg).unwrap_or(0)
    }

    /// The value of a register, inside any callback of a CPU, if QEMU lets us.
    pub fn try_register(&self, reg: Reg) -> Option<u64> {
        // SAFETY: the handle comes from QEMU, the array from GLib; QEMU appends what it reads, and
        // nothing if it fails.
        unsafe {
            g_byte_array_set_size(self.buf, 0);
            qemu_plugin_read_register(self.handles[usize::from(reg.0)], self.buf);
            let size = usize::try_from((*self.buf).len).ok().filter(|&size| size > 0)?.min(8);
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(std::slice::from_raw_parts((*self.buf).data, size));
            Some(u64::from_le_bytes(bytes))
        }
    }

    /// Fills `out` from guest virtual memory; false if it is not mapped. Only inside a callback
    /// of a CPU.
    pub fn memory(&self, addr: u64, out: &mut [u8]) -> bool {
        // SAFETY: QEMU resizes the array to the length asked for, or fails.
        unsafe {
            g_byte_array_set_size(self.buf, out.len() as c_uint);
            if !qemu_plugin_read_memory_vaddr(addr, self.buf, out.len()) {
                return false;
            }
            out.copy_from_slice(std::slice::from_raw_parts((*self.buf).data, out.len()));
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GLib's array and QEMU's register, as far as [`Guest`] calls them: what is appended, and what
    /// would be returned.
    mod qemu {
        use super::{c_int, c_uint, ByteArray, Register};

        /// Value of every register whose handle is not null.
        pub const VALUE: u64 = 0xffff_8880_1234_5678;
        static mut BYTES: u64 = 0;

        #[no_mangle]
        extern "C" fn g_byte_array_set_size(
            array: *mut ByteArray,
            length: c_uint,
        ) -> *mut ByteArray {
            // SAFETY: the test's own array.
            unsafe { (*array).len = length };
            array
        }

        /// Reads a register as version 6 does: the result 1 means true, and is not a size.
        #[no_mangle]
        extern "C" fn qemu_plugin_read_register(
            handle: *mut Register,
            buf: *mut ByteArray,
        ) -> c_int {
            if handle.is_null() {
                return 0;
            }
            // SAFETY: one test calls this, on one thread, with an array of its own.
            unsafe {
                BYTES = VALUE.to_le();
                (*buf) = ByteArray { data: (&raw mut BYTES).cast(), len: 8 };
            }
            1
        }
    }

    #[test]
    fn a_register_is_as_long_as_the_array_says() {
        let mut buf = ByteArray { data: std::ptr::null_mut(), len: 0 };
        let mut handles = [std::ptr::null_mut(); Reg::COUNT];
        handles[0] = std::ptr::dangling_mut();
        let guest = Guest { handles, buf: &raw mut buf };
        assert_eq!(guest.try_register(Reg::RAX), Some(qemu::VALUE));
        assert_eq!(guest.try_register(Reg::RSP), None);
        assert_eq!(guest.register(Reg::RSP), 0);
    }

    #[test]
    fn interfaces_that_are_not_known_are_refused() {
        let check = |own| {
            let info = QemuInfo { target_name: c"x86_64".as_ptr(), least: 2, own };
            // SAFETY: as QEMU would fill it in.
            unsafe { check_version(&info) }
        };
        for known in 4..=6 {
            assert_eq!(check(known), Ok(()));
        }
        for unknown in [3, 7] {
            let said = check(unknown).unwrap_err();
            assert!(said.contains(&format!("version {unknown}: expected 4 to 6")), "{said}");
        }
    }
}
