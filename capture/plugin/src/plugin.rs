// SPDX-License-Identifier: GPL-2.0-or-later
//! The callbacks that QEMU calls, and the state they share.

use std::cell::UnsafeCell;
use std::collections::{HashMap, HashSet};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::fs::File;
use std::io::{self, BufWriter};

use halfwink_trace::Event;
use halfwink_units::VirtAddr;

use crate::args::Args;
use crate::batch::Timed;
use crate::block::{hook_of, Hook, Last};
use crate::blocks::Blocks;
use crate::ffi::{self, Guest, InsnHandle, MemInfo, Plugin, PluginId, QemuInfo, Reg, Tb, TbHandle};
use crate::idt::{parse_idt, Entry, FRAME_BYTES, IDT_BYTES, LINUX_IDT};
use crate::marker::{Marker, WITH_STATUS};
use crate::recorder::{Arrival, Recorder};
use crate::report;
use crate::sink::{read_header, Sink};
use crate::translate::{define, RamBase};

/// QEMU checks this before it loads the plugin.
#[no_mangle]
#[used]
pub static qemu_plugin_version: c_int = ffi::PLUGIN_VERSION;

/// Recorded instructions between two progress lines.
const PROGRESS_STEP: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waiting for the start marker.
    Waiting,
    /// The marker was seen; QEMU is forgetting its translations.
    Arming,
    /// Every block is hooked.
    Recording,
    /// The file is complete.
    Over,
}

struct State {
    plugin: Plugin,
    args: Args,
    phase: Phase,
    guest: Option<Guest>,
    ram: RamBase,
    blocks: Blocks,
    /// Kernel entries by address.
    handlers: HashMap<u64, u8>,
    /// Addresses behind instructions that read the time.
    after_time: HashSet<u64>,
    recorder: Recorder,
    sink: Option<Sink>,
    next_progress: u64,
    /// Exit status of the program whose end was the recording's.
    exit_status: Option<u64>,
}

struct Shared(UnsafeCell<Option<State>>);

// SAFETY: all callbacks come from the one thread that runs all CPUs (`thread=single`, which
// `install` cannot check but the launcher sets), but for `at_exit`, which comes when that thread
// has been stopped. None of them calls QEMU in a way that would call back.
unsafe impl Sync for Shared {}

static STATE: Shared = Shared(UnsafeCell::new(None));

/// The state; only from callbacks, and only once in each.
fn state() -> &'static mut State {
    // SAFETY: see `Shared`: no two callbacks run at a time, and none asks twice.
    unsafe { (*STATE.0.get()).as_mut().expect("QEMU calls back only after the installation") }
}

fn fail(message: &str) -> ! {
    report::error(message);
    ffi::exit_now(1);
}

/// Entry point.
///
/// # Safety
/// QEMU calls it once, with what it tells of itself and `argc` strings in `argv`.
#[no_mangle]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const QemuInfo,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: by this function's contract.
    if let Err(error) = unsafe { ffi::check_version(info) } {
        report::error(&error);
        return 1;
    }
    let words: Vec<String> = (0..usize::try_from(argc).unwrap_or(0))
        // SAFETY: by this function's contract.
        .map(|i| unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy().into_owned())
        .collect();
    let args = match Args::parse(words.iter().map(String::as_str)) {
        Ok(args) => args,
        Err(error) => {
            report::error(&format!("plugin argument {error}"));
            return 1;
        }
    };
    let plugin = Plugin(id);
    let recorder = Recorder::new(args.cpu, args.cpus);
    let state = State {
        plugin,
        args,
        phase: Phase::Waiting,
        guest: None,
        ram: RamBase::default(),
        blocks: Blocks::default(),
        handlers: HashMap::new(),
        after_time: HashSet::new(),
        recorder,
        sink: None,
        next_progress: PROGRESS_STEP,
        exit_status: None,
    };
    // SAFETY: no callback is registered yet, so nothing else looks at it.
    unsafe { *STATE.0.get() = Some(state) };
    plugin.on_cpu(cpu_starts);
    plugin.on_translate(translate_waiting);
    plugin.on_exit(at_exit);
    0
}

extern "C" fn cpu_starts(_id: PluginId, _cpu: c_uint) {
    let state = state();
    if state.guest.is_none() {
        match Guest::new() {
            Ok(guest) => state.guest = Some(guest),
            Err(name) => fail(&format!("this QEMU does not offer the register {name}")),
        }
    }
}

/// Before the recording: look for markers, and for kernel text.
extern "C" fn translate_waiting(_id: PluginId, tb: *mut Tb) {
    // SAFETY: this is the translation callback.
    let tb = unsafe { TbHandle::new(tb) };
    let state = state();
    let mut buf = [0; 16];
    for insn in tb.instructions() {
        state.ram.learn(insn.virt(), insn.host());
        let length = insn.bytes(&mut buf);
        if let Some(marker) = Marker::parse(&buf[..length]) {
            insn.on_execute(on_marker, ffi::CB_R_REGS, marker.code().into());
        }
    }
}

/// EFER.SVME, which the guest sets on its last CPU alone if it has several.
const SVME: u64 = 1 << 12;

/// Returns whether a block is being translated for a CPU that is not recorded, as far as that can
/// be known.
fn is_for_another_cpu(state: &State) -> bool {
    // Between blocks QEMU keeps no register anywhere but where this reads it.
    let efer = state.guest.as_ref().and_then(|guest| guest.try_register(Reg::EFER));
    let args = &state.args;
    args.cpus > 1 && efer.is_some_and(|efer| (efer & SVME != 0) != args.is_last(args.cpu))
}

/// While recording: hook everything.
extern "C" fn translate_recording(_id: PluginId, tb: *mut Tb) {
    // SAFETY: this is the translation callback.
    let tb = unsafe { TbHandle::new(tb) };
    let state = state();
    let definition = define(tb, state.ram);
    let pc = definition.pc;
    if definition.lengths.is_empty() {
        return;
    }
    let other = is_for_another_cpu(state);
    let block = state.blocks.intern(definition);
    for (i, insn) in tb.instructions().enumerate() {
        hook_instruction(insn, block, i as u16, other);
    }
    let info = state.blocks.info(block);
    if info.last == Last::ReadsTime {
        state.after_time.insert(info.end);
    }
    let starts = !other && !state.recorder.is_started();
    if starts || state.handlers.contains_key(&pc) || state.after_time.contains(&pc) {
        tb.on_execute(on_block_reading, ffi::CB_R_REGS, block as usize);
    } else if other || VirtAddr(pc).is_kernel_half() {
        tb.on_execute(on_block, ffi::CB_NO_REGS, block as usize);
    } else {
        tb.on_execute(on_user_block, ffi::CB_R_REGS, block as usize);
    }
}

/// Hooks an instruction of a block that is being translated, for the recorded CPU or for another,
/// of which only the time matters and the markers.
fn hook_instruction(insn: InsnHandle, block: u32, number: u16, other: bool) {
    let mut buf = [0; 16];
    let length = insn.bytes(&mut buf);
    let bytes = &buf[..length];
    if let Some(marker) = Marker::parse(bytes) {
        insn.on_execute(on_marker, ffi::CB_R_REGS, marker.code().into());
    }
    match hook_of(bytes) {
        Hook::Halt => insn.on_execute(on_halt, ffi::CB_NO_REGS, 0),
        Hook::Syscall if !other => insn.on_execute(on_syscall, ffi::CB_R_REGS, 0),
        Hook::AddressSpace(reg) if !other => {
            insn.on_execute(on_address_space, ffi::CB_R_REGS, reg.into());
        }
        _ => {}
    }
    if !other {
        insn.on_access(on_access, pack(block, number));
    }
}

fn pack(block: u32, instr: u16) -> usize {
    (block as usize) << 16 | usize::from(instr)
}

extern "C" fn on_block(cpu: c_uint, data: *mut c_void) {
    let block = data as usize as u32;
    begin_block(state(), cpu as usize, block, block, Arrival::default());
}

/// Handles a block as [`on_block`] does, for user code, which may be at different addresses in
/// different processes.
extern "C" fn on_user_block(cpu: c_uint, data: *mut c_void) {
    let state = state();
    let (cpu, home) = (cpu as usize, data as usize as u32);
    let block = place(state, cpu, home);
    begin_block(state, cpu, block, home, Arrival::default());
}

/// The block that a translation stands for, where it runs now.
#[inline]
fn place(state: &mut State, cpu: usize, home: u32) -> u32 {
    if !state.recorder.records(cpu) {
        return home;
    }
    let turn = state.recorder.turn();
    match (state.blocks.placed(home, turn), &state.guest) {
        (Some(block), _) => block,
        (None, Some(guest)) => state.blocks.place(home, turn, guest.register(Reg::RIP)),
        (None, None) => home,
    }
}

/// Handles a block as [`on_block`] does, after reading registers.
extern "C" fn on_block_reading(cpu: c_uint, data: *mut c_void) {
    let state = state();
    let (cpu, home) = (cpu as usize, data as usize as u32);
    let mut arrival = Arrival::default();
    if let Some(guest) = &state.guest {
        let pc = state.blocks.info(home).pc;
        if let Some(&vector) = state.handlers.get(&pc) {
            check_cpu(guest, &state.args, cpu);
            let mut frame = [0; FRAME_BYTES];
            if guest.memory(guest.register(Reg::RSP), &mut frame) {
                arrival.entry = Some(Entry::parse(vector, &frame));
            }
        }
        if state.after_time.contains(&pc) {
            let (low, high) = (guest.register(Reg::RAX), guest.register(Reg::RDX));
            arrival.time = Some(low & 0xffff_ffff | high << 32);
        }
        if state.recorder.records(cpu) && !state.recorder.is_started() {
            state.recorder.start(guest.register(Reg::CR3));
        }
    }
    let kernel = VirtAddr(state.blocks.info(home).pc).is_kernel_half();
    let block = if kernel { home } else { place(state, cpu, home) };
    begin_block(state, cpu, block, home, arrival);
}

/// Checks, with several CPUs, that the number from QEMU is that of the executing CPU.
fn check_cpu(guest: &Guest, args: &Args, cpu: usize) {
    if args.cpus > 1 && (guest.register(Reg::EFER) & SVME != 0) != args.is_last(cpu as u32) {
        fail("the CPUs share translations: instructions of one would be taken for the other's");
    }
}

#[inline]
fn begin_block(state: &mut State, cpu: usize, block: u32, home: u32, arrival: Arrival) {
    state.recorder.block(&mut state.blocks, cpu, block, home, arrival);
    if let Some(batch) = state.recorder.take_batch() {
        if let Some(sink) = &state.sink {
            sink.send(batch);
        }
        let recorded = state.recorder.recorded();
        if recorded >= state.next_progress {
            state.next_progress = recorded + PROGRESS_STEP;
            report::progress(recorded);
        }
    }
    if state.recorder.recorded() >= state.args.limit && state.recorder.may_stop() {
        finish(state, "limit");
        ffi::exit_now(0);
    }
}

extern "C" fn on_access(cpu: c_uint, info: MemInfo, virt: u64, data: *mut c_void) {
    let state = state();
    let (home, instr) = ((data as usize >> 16) as u32, data as usize as u16);
    if let Some(instr) = state.recorder.access(&state.blocks, cpu as usize, home, instr) {
        state.recorder.push_access(instr, virt, ffi::access(info, virt));
    }
}

extern "C" fn on_syscall(cpu: c_uint, _data: *mut c_void) {
    let state = state();
    if !state.recorder.records(cpu as usize) {
        return;
    }
    if let Some(guest) = &state.guest {
        let number = guest.register(Reg::RAX) as u32;
        let args = Reg::SYSCALL_ARGS.map(|reg| guest.register(reg));
        state.recorder.event(Timed::Plain(Event::Syscall { number, args }));
    }
}

extern "C" fn on_address_space(cpu: c_uint, data: *mut c_void) {
    let state = state();
    if !state.recorder.records(cpu as usize) {
        return;
    }
    if let Some(guest) = &state.guest {
        let value = guest.register(Reg(data as usize as u8));
        state.recorder.switch(value);
    }
}

extern "C" fn on_halt(cpu: c_uint, _data: *mut c_void) {
    let state = state();
    state.recorder.halt(&mut state.blocks, cpu as usize);
}

extern "C" fn on_marker(cpu: c_uint, data: *mut c_void) {
    let state = state();
    let Some(marker) = Marker::parse(&[0x0f, 0x1f, 0x80, data as usize as u8, b'H', b'W', b'T'])
    else {
        return;
    };
    let Some(guest) = &state.guest else { return };
    let (rdi, rsi) = (guest.register(Reg::RDI), guest.register(Reg::RSI));
    match (state.phase, marker) {
        (Phase::Waiting, Marker::Start) => arm(state),
        (Phase::Recording, Marker::Stop) => {
            state.exit_status = (rsi == WITH_STATUS).then_some(rdi);
            finish(state, "marker");
            ffi::exit_now(0);
        }
        (Phase::Recording, Marker::RequestBegin) => state.recorder.request_begins(rdi, rsi),
        (Phase::Recording, Marker::RequestEnd) => state.recorder.request_ends(rdi),
        (Phase::Recording, Marker::User(code)) if state.recorder.records(cpu as usize) => {
            let event = Event::Mark { code: code.into(), arg: rdi };
            state.recorder.event(Timed::Plain(event));
        }
        _ => {}
    }
}

/// The start marker: reads what recording needs, then asks QEMU to translate everything afresh.
fn arm(state: &mut State) {
    let mut table = [0; IDT_BYTES];
    let known = state.guest.as_ref().is_some_and(|guest| guest.memory(LINUX_IDT, &mut table));
    state.handlers = parse_idt(&table);
    if !known || state.handlers.is_empty() {
        fail("the guest's interrupt table is not where Linux keeps it");
    }
    if state.ram == RamBase::default() {
        fail("no kernel text was executed before the start marker");
    }
    match open_sink(&state.args) {
        Ok(sink) => state.sink = Some(sink),
        Err(error) => fail(&format!("cannot create the trace: {error}")),
    }
    state.phase = Phase::Arming;
    state.plugin.reset(armed);
}

fn open_sink(args: &Args) -> io::Result<Sink> {
    let header = read_header(&args.header, env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))?;
    let out = BufWriter::with_capacity(1 << 20, File::create(&args.out)?);
    Sink::start(out, &header, |error| fail(error))
}

extern "C" fn armed(_id: PluginId) {
    let state = state();
    state.phase = Phase::Recording;
    state.plugin.on_translate(translate_recording);
    state.plugin.on_exit(at_exit);
    report::started();
}

fn finish(state: &mut State, reason: &'static str) {
    let Some(sink) = state.sink.take() else { return };
    let (mut batch, report, clock) = state.recorder.finish(reason);
    let clock = clock.report();
    sink.send(&mut batch);
    match sink.finish() {
        Ok(summary) => report::done(&summary, &report, &clock, state.exit_status),
        Err(error) => fail(&format!("cannot write the trace: {error}")),
    }
    state.phase = Phase::Over;
}

/// QEMU exits by itself: the guest powered off.
extern "C" fn at_exit(_id: PluginId, _data: *mut c_void) {
    let state = state();
    if state.phase == Phase::Recording {
        finish(state, "exit");
    }
}
