// SPDX-License-Identifier: GPL-2.0-or-later
//! The callbacks that QEMU calls, each on the thread of the program that it is about, and the state
//! they share.
//!
//! QEMU holds locks of its own when it calls back. So no callback waits for its turn but that at
//! the begin of a block, when QEMU holds none; and the lock on the state is not held while QEMU is
//! asked for something.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::io::{self, BufWriter};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use halfwink_capture_stream::block::Definition;
use halfwink_capture_stream::marker::Marker;
use halfwink_capture_stream::sink::{read_header, Sink};
use halfwink_trace::Event;

use crate::args::Args;
use crate::death;
use crate::exec;
use crate::ffi::{self, MemInfo, Plugin, PluginId, QemuInfo, Tb, TbHandle};
use crate::out::Out;
use crate::recorder::{Recorder, Thread};
use crate::report;
use crate::samples::Samples;
use crate::turns::{Turns, QUANTUM};

/// QEMU checks this before it loads the plugin.
#[no_mangle]
#[used]
pub static qemu_plugin_version: c_int = ffi::PLUGIN_VERSION;

/// Instructions of the window between two progress lines.
const PROGRESS_STEP: u64 = 16 << 20;
/// Accesses are hooked so many instructions before the window: it takes a turn or two until QEMU
/// has forgotten its translations.
const ARM_BEFORE: u64 = 10 * QUANTUM;
/// A turn is taken from a thread that makes no step in this time.
const STUCK: Duration = Duration::from_millis(10);
/// Items of a batch.
const BATCH_ITEMS: usize = 1 << 16;
/// Threads at a time.
const MOST_THREADS: usize = 4096;
const PAGE: u64 = 4096;
/// Largest mapping: QEMU 7.2 takes a hundred and fiftieth of it for notes on each page, which for
/// some terabytes is more memory than a machine has.
const LARGEST_MAP: u64 = 512 << 30;

/// System calls of Linux that the plugin acts upon.
mod call {
    pub const MMAP: i64 = 9;
    pub const CLONE: i64 = 56;
    pub const FORK: i64 = 57;
    pub const VFORK: i64 = 58;
    pub const EXECVE: i64 = 59;
    pub const EXIT_GROUP: i64 = 231;
    pub const EXECVEAT: i64 = 322;
    /// A new thread rather than a process.
    pub const CLONE_THREAD: u64 = 0x10000;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Only markers are hooked.
    Waiting,
    /// Blocks are hooked, for counting.
    Counting,
    /// QEMU is about to forget its translations.
    Arming,
    /// Blocks and accesses are hooked.
    Recording,
}

struct State {
    plugin: Plugin,
    args: Args,
    phase: Phase,
    recorder: Recorder,
    turns: Turns,
    sink: Option<Sink>,
    began: Instant,
    next_progress: u64,
    /// Position at which to look whether a sample is near.
    look: u64,
}

struct Shared {
    state: Mutex<State>,
    turn_ended: Condvar,
}

static SHARED: OnceLock<Shared> = OnceLock::new();
/// False once the trace is complete, and in processes that the program starts.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// False between samples, where accesses are not noted.
static WATCHING: AtomicBool = AtomicBool::new(true);
static THREADS_STARTED: AtomicU64 = AtomicU64::new(0);
/// Threads by QEMU's numbers; each is used on its own thread alone.
static THREADS: [AtomicPtr<Thread>; MOST_THREADS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST_THREADS];

fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

fn shared() -> &'static Shared {
    SHARED.get().expect("QEMU calls back only after the installation")
}

fn lock() -> MutexGuard<'static, State> {
    shared().state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that calls back.
#[inline]
fn thread(cpu: c_uint) -> &'static mut Thread {
    let Some(slot) = THREADS.get(cpu as usize) else {
        fail(&format!("more than {MOST_THREADS} threads at a time"));
    };
    let mut place = slot.load(Ordering::Relaxed);
    if place.is_null() {
        place = Box::into_raw(Box::new(Thread::new(cpu as u16)));
        slot.store(place, Ordering::Relaxed);
    }
    // SAFETY: QEMU gives the number to one thread at a time and calls back on that thread; each
    // callback asks once. The memory is never freed.
    unsafe { &mut *place }
}

fn fail(message: &str) -> ! {
    if let Some(shared) = SHARED.get() {
        // Another thread may hold the lock and wait for this one.
        if let Ok(state) = shared.state.try_lock() {
            report::error(&state.args.report, message);
        } else if let Some(path) = REPORT.get() {
            report::error(path, message);
        }
    }
    ffi::exit_now(1);
}

/// The report's path, for the thread that writes.
static REPORT: OnceLock<std::path::PathBuf> = OnceLock::new();

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
    let words: Vec<String> = (0..usize::try_from(argc).unwrap_or(0))
        // SAFETY: by this function's contract.
        .map(|i| unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy().into_owned())
        .collect();
    let args = match Args::parse(words.iter().map(String::as_str)) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("halfwink: plugin argument {error}");
            return 1;
        }
    };
    // SAFETY: by this function's contract.
    if let Err(error) = unsafe { ffi::check_version(info) } {
        report::error(&args.report, &error);
        return 1;
    }
    let plugin = Plugin(id);
    let sink = match open_sink(&args) {
        Ok(sink) => sink,
        Err(error) => {
            report::error(&args.report, &format!("cannot create the trace: {error}"));
            return 1;
        }
    };
    let _ = REPORT.set(args.report.clone());
    let phase = match (args.marked, args.skip > ARM_BEFORE) {
        (true, _) => Phase::Waiting,
        (false, true) => Phase::Counting,
        (false, false) => Phase::Recording,
    };
    let state = State {
        plugin,
        phase,
        recorder: Recorder::new(args.skip, args.limit)
            .sampling(args.samples.map(|(count, size)| Samples::new(count, size))),
        turns: Turns::new(args.turn),
        sink: Some(sink),
        began: Instant::now(),
        next_progress: PROGRESS_STEP,
        look: if args.samples.is_some() { 0 } else { u64::MAX },
        args,
    };
    let _ = SHARED.set(Shared { state: Mutex::new(state), turn_ended: Condvar::new() });
    ACTIVE.store(true, Ordering::Relaxed);
    // SAFETY: the handler does nothing but store a value.
    unsafe { libc::pthread_atfork(None, None, Some(in_new_process)) };
    // SAFETY: the function does what `kill` does, and no program runs yet.
    unsafe { death::replace_kill(at_kill) };
    register(plugin);
    0
}

fn register(plugin: Plugin) {
    plugin.on_thread(thread_starts);
    plugin.on_translate(translate);
    plugin.on_syscall(on_syscall);
    plugin.on_exit(at_exit);
}

/// A process that the program started: it has no thread that writes.
extern "C" fn in_new_process() {
    ACTIVE.store(false, Ordering::Relaxed);
}

fn open_sink(args: &Args) -> io::Result<Sink> {
    let header = read_header(&args.header, env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))?;
    let out = BufWriter::with_capacity(1 << 20, Out::create(&args.out)?);
    // QEMU's handlers of signals must run on the program's threads: a new thread inherits the mask.
    // SAFETY: both sets are initialised before they are read.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let sink = Sink::start(out, &header, |error| fail(error));
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        sink
    }
}

extern "C" fn thread_starts(_id: PluginId, _cpu: c_uint) {
    if is_active() {
        THREADS_STARTED.fetch_add(1, Ordering::Relaxed);
    }
}

extern "C" fn translate(_id: PluginId, tb: *mut Tb) {
    if !is_active() {
        return;
    }
    // SAFETY: this is the translation callback.
    let tb = unsafe { TbHandle::new(tb) };
    let definition = define(tb);
    let (phase, block) = {
        let mut state = lock();
        let hooked = state.phase != Phase::Waiting && !definition.lengths.is_empty();
        (state.phase, hooked.then(|| state.recorder.intern(definition)))
    };
    for (i, insn) in tb.instructions().enumerate() {
        if let Some(marker) = Marker::parse(insn.bytes()) {
            insn.on_execute(on_marker, i << 8 | usize::from(marker.code()));
        }
        if let (Phase::Recording, Some(block)) = (phase, block) {
            insn.on_access(on_access, (block as usize) << 16 | i);
        }
    }
    if let Some(block) = block {
        tb.on_execute(on_block, block as usize);
    }
}

/// Copies a block out of QEMU.
fn define(tb: TbHandle) -> Definition {
    let (mut pc, mut bytes, mut lengths) = (0, Vec::new(), Vec::new());
    for insn in tb.instructions() {
        if lengths.is_empty() {
            pc = insn.virt();
        }
        bytes.extend_from_slice(insn.bytes());
        lengths.push(insn.bytes().len() as u8);
    }
    Definition { pc, phys: pc, phys_next_page: (pc | (PAGE - 1)) + 1, bytes, lengths }
}

extern "C" fn on_block(cpu: c_uint, data: *mut c_void) {
    if !is_active() {
        return;
    }
    let thread = thread(cpu);
    let mut state = lock();
    if !state.turns.has(cpu) {
        state = wait(state, cpu);
    }
    let executed = state.recorder.block(thread, data as usize as u32);
    if state.turns.spend(executed) {
        state.turns.release(cpu);
        shared().turn_ended.notify_all();
        state = wait(state, cpu);
    }
    advance(state);
}

/// Waits for the thread's turn.
#[cold]
fn wait(mut state: MutexGuard<'static, State>, cpu: c_uint) -> MutexGuard<'static, State> {
    if state.turns.ask(cpu) {
        return state;
    }
    while is_active() && !state.turns.ask_again(cpu) {
        let steps = state.turns.steps;
        let (next, waited) =
            shared().turn_ended.wait_timeout(state, STUCK).unwrap_or_else(PoisonError::into_inner);
        state = next;
        // The thread that has the turn may wait inside QEMU until this one leaves its block.
        if waited.timed_out() && state.turns.steps == steps && is_active() {
            state.recorder.counts.taken += 1;
            state.turns.take(cpu);
            break;
        }
    }
    state
}

/// Hands a full batch over, begins the window, ends it.
#[inline]
fn advance(mut state: MutexGuard<'static, State>) {
    if state.phase == Phase::Counting && state.recorder.position() + ARM_BEFORE >= state.args.skip {
        return arm(state);
    }
    if state.recorder.position() >= state.look {
        look(&mut state);
    }
    if state.recorder.batch().items.len() >= BATCH_ITEMS {
        hand_over(&mut state);
    }
    if state.recorder.recorded() >= state.next_progress {
        tell(&mut state);
    }
    if state.recorder.is_over() {
        finish(&mut state, "limit");
        ffi::exit_now(0);
    }
}

#[cold]
fn hand_over(state: &mut State) {
    if let Some(sink) = &state.sink {
        sink.send(state.recorder.batch());
    }
}

#[cold]
fn tell(state: &mut State) {
    let recorded = state.recorder.recorded();
    state.next_progress = recorded + PROGRESS_STEP;
    report::progress(&state.args.report, recorded);
}

/// Looks whether accesses are to be noted until the next look. Their hooks stay: QEMU 7.2 may call
/// hooks that it has forgotten, once it has called any.
#[cold]
fn look(state: &mut State) {
    let distance = state.recorder.distance();
    let near = distance <= QUANTUM;
    WATCHING.store(near, Ordering::Relaxed);
    state.recorder.watch(near);
    let steps = if near { QUANTUM } else { distance - QUANTUM };
    state.look = state.recorder.position().saturating_add(steps);
}

/// Asks QEMU to translate everything afresh, with all hooks.
#[cold]
fn arm(mut state: MutexGuard<'static, State>) {
    state.phase = Phase::Arming;
    let plugin = state.plugin;
    drop(state);
    plugin.reset(armed);
}

extern "C" fn armed(_id: PluginId) {
    let plugin = {
        let mut state = lock();
        let counting = state.args.marked && state.args.skip > ARM_BEFORE;
        state.phase = match state.phase {
            Phase::Arming if counting && state.recorder.position() == 0 => Phase::Counting,
            _ => Phase::Recording,
        };
        state.plugin
    };
    register(plugin);
}

extern "C" fn on_access(cpu: c_uint, info: MemInfo, virt: u64, data: *mut c_void) {
    if is_active() && WATCHING.load(Ordering::Relaxed) {
        let (size, direction) = ffi::access(info);
        let (block, instr) = ((data as usize >> 16) as u32, data as usize as u16);
        thread(cpu).access(block, instr, virt, size, direction);
    }
}

#[allow(clippy::too_many_arguments, reason = "QEMU's interface")]
extern "C" fn on_syscall(
    _id: PluginId,
    cpu: c_uint,
    number: i64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    _: u64,
    _: u64,
) {
    if !is_active() {
        return;
    }
    let thread = thread(cpu);
    let mut state = lock();
    let executed = state.recorder.land(thread, None);
    state.turns.spend(executed);
    state.recorder.system_call(thread, number as u32, [a, b, c, d, e, f]);
    match number {
        call::EXIT_GROUP => finish(&mut state, "exit"),
        call::MMAP if b > LARGEST_MAP => {
            drop(state);
            fail(&format!(
                "it maps {} GiB at once: expected at most {}, for QEMU's memory",
                b >> 30,
                LARGEST_MAP >> 30
            ));
        }
        call::FORK | call::VFORK => state.recorder.counts.processes += 1,
        call::CLONE if a & call::CLONE_THREAD == 0 => state.recorder.counts.processes += 1,
        call::EXECVE => becomes(&mut state, a, b, c),
        // The file may be one without a name.
        call::EXECVEAT => finish(&mut state, "exec"),
        _ => {}
    }
    if state.turns.release(cpu) {
        shared().turn_ended.notify_all();
    }
    if number != call::EXIT_GROUP && is_active() {
        advance(state);
    }
}

/// The program calls `execve`: QEMU would run the new program natively.
#[cold]
fn becomes(state: &mut State, path: u64, words: u64, environment: u64) {
    let base = ffi::guest_base();
    let read = exec::string_at(path, base).zip(exec::strings(words, base));
    // The kernel will refuse addresses of nothing.
    let Some(((path, words), environment)) = read.zip(exec::strings(environment, base)) else {
        return;
    };
    if !exec::may_execute(&path) {
        return;
    }
    if let Some(target) = exec::resolve(&path, &words) {
        report::became(&state.args.report, &path.to_string_lossy());
        exec::become_qemu(&target, &environment);
    }
    finish(state, "exec");
}

extern "C" fn on_marker(cpu: c_uint, data: *mut c_void) {
    if !is_active() {
        return;
    }
    let (code, instr) = (data as usize as u8, data as usize >> 8);
    let Some(marker) = Marker::parse(&[0x0f, 0x1f, 0x80, code, b'H', b'W', b'T']) else { return };
    let thread = thread(cpu);
    let mut state = lock();
    match (state.phase, marker) {
        (Phase::Waiting, Marker::Start) => {
            state.began = Instant::now();
            arm(state);
        }
        (Phase::Recording, Marker::Stop) => {
            state.recorder.cut(thread, instr as u16);
            finish(&mut state, "marker");
            ffi::exit_now(0);
        }
        (Phase::Recording, Marker::User(code)) => {
            // Version 1 of the interface does not read registers: there is no argument.
            thread.event(Event::Mark { code: code.into(), arg: 0 });
        }
        _ => {}
    }
}

fn finish(state: &mut State, reason: &str) {
    let Some(sink) = state.sink.take() else { return };
    ACTIVE.store(false, Ordering::Relaxed);
    shared().turn_ended.notify_all();
    let nothing = state.recorder.recorded() == 0;
    sink.send(state.recorder.batch());
    let mut counts = state.recorder.counts;
    counts.executed = state.recorder.position();
    counts.threads = THREADS_STARTED.load(Ordering::Relaxed).max(1);
    let seconds = state.began.elapsed().as_secs_f64();
    let path = &state.args.report;
    match sink.finish() {
        Ok(summary) => {
            let every = state.recorder.samples().map_or(0, Samples::every);
            report::done(path, reason, seconds, &counts, every, (!nothing).then_some(&summary));
        }
        Err(error) => {
            report::error(path, &format!("cannot write the trace: {error}"));
            ffi::exit_now(1);
        }
    }
}

/// The program ends: by its last thread, or by a signal.
extern "C" fn at_exit(_id: PluginId, _data: *mut c_void) {
    if is_active() {
        finish(&mut lock(), "exit");
    }
}

/// QEMU dies of the signal that killed the program, without a callback: completes the trace first.
extern "C" fn at_kill(process: libc::pid_t, signal: c_int) -> c_int {
    // SAFETY: the call takes numbers alone.
    unsafe {
        if is_active() && process == libc::getpid() {
            finish(&mut lock(), "exit");
        }
        libc::kill(process, signal)
    }
}
