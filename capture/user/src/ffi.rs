// SPDX-License-Identifier: GPL-2.0-or-later
//! QEMU's plugin interface, version 1 (QEMU 6.0 to 8.2; Debian 12 has 7.2), as far as it is used
//! here.
//!
//! Version 2 took the CPUs' count out and renamed nothing, but version 3 changed what
//! `qemu_plugin_insn_data` does: later ones are refused. Debian's QEMU 10 has no plugins in user
//! mode at all, as it is linked statically.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Version of the interface that this plugin is written for.
pub const PLUGIN_VERSION: c_int = 1;

/// Information that QEMU passes to a plugin; further fields follow, which are not read.
#[repr(C)]
pub struct QemuInfo {
    target_name: *const c_char,
    /// The oldest version that a plugin may be written for, and QEMU's own.
    least: c_int,
    own: c_int,
    system_emulation: bool,
}

/// Refuses a QEMU whose interface is not known, or that emulates a whole machine.
///
/// # Errors
/// The version or kind of this QEMU, and the one that was expected.
///
/// # Safety
/// `info` is what QEMU passed to the installation.
pub unsafe fn check_version(info: *const QemuInfo) -> Result<(), String> {
    // SAFETY: by this function's contract.
    let (version, system) = unsafe { ((*info).own, (*info).system_emulation) };
    if system {
        return Err("this QEMU emulates a whole machine: expected its user mode".into());
    }
    if version == PLUGIN_VERSION {
        return Ok(());
    }
    Err(format!(
        "this QEMU's plugin interface is version {version}: expected {PLUGIN_VERSION} (QEMU 6.0 to \
         8.2)"
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
/// A callback for a system call: its number and arguments, of which Linux has six.
pub type SyscallCallback =
    extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);

/// The callback does not look at registers.
const CB_NO_REGS: c_int = 0;
/// Loads and stores alike.
const MEM_RW: c_int = 3;

/// A block while it is being translated.
#[repr(C)]
pub struct Tb {
    _private: [u8; 0],
}

/// An instruction of such a block.
#[repr(C)]
pub struct Insn {
    _private: [u8; 0],
}

extern "C" {
    fn qemu_plugin_reset(id: PluginId, cb: SimpleCallback);
    fn qemu_plugin_register_vcpu_init_cb(id: PluginId, cb: VcpuSimpleCallback);
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: TranslateCallback);
    fn qemu_plugin_register_vcpu_syscall_cb(id: PluginId, cb: SyscallCallback);
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
    fn qemu_plugin_insn_data(insn: *const Insn) -> *const u8;
    fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    fn qemu_plugin_mem_size_shift(info: MemInfo) -> c_uint;
    fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;
}

/// Ends the process at once, without QEMU's own clean-up: the trace is complete, and the clean-up
/// would call back.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` may be called at any time from any thread.
    unsafe { libc::_exit(status) }
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

    /// Calls back when a thread starts.
    pub fn on_thread(self, cb: VcpuSimpleCallback) {
        // SAFETY: as above.
        unsafe { qemu_plugin_register_vcpu_init_cb(self.0, cb) }
    }

    /// Calls back before each system call.
    pub fn on_syscall(self, cb: SyscallCallback) {
        // SAFETY: as above.
        unsafe { qemu_plugin_register_vcpu_syscall_cb(self.0, cb) }
    }

    /// Calls back when the program ends.
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
    pub fn on_execute(self, cb: VcpuCallback, data: usize) {
        // SAFETY: the handle is valid; the data is a number, never dereferenced.
        unsafe { qemu_plugin_register_vcpu_tb_exec_cb(self.0, cb, CB_NO_REGS, data as *mut c_void) }
    }
}

/// An instruction of a block that is being translated.
#[derive(Clone, Copy)]
pub struct InsnHandle(*mut Insn);

impl InsnHandle {
    /// Returns its bytes, which QEMU keeps for as long as the translation callback runs.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: QEMU returns the address of as many bytes as it says.
        unsafe {
            let size = qemu_plugin_insn_size(self.0);
            std::slice::from_raw_parts(qemu_plugin_insn_data(self.0), size)
        }
    }

    /// Returns the program's virtual address.
    pub fn virt(self) -> u64 {
        // SAFETY: the handle is valid during the translation callback.
        unsafe { qemu_plugin_insn_vaddr(self.0) }
    }

    /// Calls back before every execution.
    pub fn on_execute(self, cb: VcpuCallback, data: usize) {
        let data = data as *mut c_void;
        // SAFETY: as above; the data is a number.
        unsafe { qemu_plugin_register_vcpu_insn_exec_cb(self.0, cb, CB_NO_REGS, data) }
    }

    /// Calls back after every memory access.
    pub fn on_access(self, cb: MemCallback, data: usize) {
        let data = data as *mut c_void;
        // SAFETY: as above; the data is a number.
        unsafe { qemu_plugin_register_vcpu_mem_cb(self.0, cb, CB_NO_REGS, MEM_RW, data) }
    }
}

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Reads memory and does not write it.
    Load,
    /// Writes memory and does not read it.
    Store,
    /// An atomic operation: both, one after the other.
    Both,
}

/// Bytes and direction of an access. Only inside the access callback.
pub fn access(info: MemInfo) -> (u8, Direction) {
    // SAFETY: called from the access callback with that callback's own argument.
    let (shift, store) =
        unsafe { (qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
    // The interface has no question for this; the two bits are in the same place in all of
    // version 1.
    let direction = match (store, info >> 16 & 3) {
        (true, 3) => Direction::Both,
        (true, _) => Direction::Store,
        (false, _) => Direction::Load,
    };
    (1 << shift.min(7), direction)
}

/// Returns the distance from addresses of the program to those of QEMU.
pub fn guest_base() -> usize {
    // SAFETY: QEMU exports this variable; a QEMU that does not has no such offset to tell.
    unsafe {
        let place = libc::dlsym(libc::RTLD_DEFAULT, c"guest_base".as_ptr());
        if place.is_null() {
            0
        } else {
            *place.cast::<usize>()
        }
    }
}
