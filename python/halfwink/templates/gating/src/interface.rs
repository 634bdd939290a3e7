//! Version 1 of the interface of halfwink: events of a core in, actions out, through a block of 64
//! words in this module's memory. Times are picoseconds.
#![allow(dead_code)]

const FIELDS: usize = 2;
const PARAMETERS: usize = 14;
const TIMER: usize = 30;
const COUNT: usize = 31;
const ACTIONS: usize = 32;

/// Properties of the core, which come with the start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Start {
    /// Time from the decision to gate until the supply is off.
    pub entry: u64,
    /// Time off that pays for waking up.
    pub break_even: u64,
    /// Time until the supply is stable again.
    pub wake_up: u64,
    /// Time from there until the core runs.
    pub restore: u64,
    /// Times at which waking may begin: from one to the next, and the first. 0: at any time.
    pub slots: [u64; 2],
    /// Loads that may wait for memory at once.
    pub token_entries: u64,
    /// Time until an access has missed the last cache, and time of memory from there.
    pub memory: [u64; 2],
    /// The module's parameters, in the order in which it lists them.
    pub parameters: [f64; 16],
}

/// Events of the core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The first event of every run.
    Start(Start),
    /// The time of the timer has come.
    Timer,
    /// The pipeline waits for memory.
    StallBegin,
    /// The pipeline moves again.
    StallEnd { began: u64 },
    /// An outstanding access of this line will be answered `span` after `created`: not before
    /// (`bound` 0), at an unknown time (1), or about then (2).
    Token { line: u64, created: u64, bound: u64, span: u64 },
    /// An outstanding access was answered.
    Response { line: u64 },
    /// The operating system halted the core.
    IdleBegin,
    /// An interrupt ends the halt.
    IdleEnd { began: u64 },
    /// The core is restored.
    Awake,
    /// A faster wake-up is granted, once.
    Granted { wake_up: u64 },
}

/// Actions that a policy can request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Cut the supply of a core that waits.
    Gate,
    /// Enter an idle state of the machine's table, by its place. Only in a halt.
    Rest { state: u8 },
    /// Wake a gated core.
    Wake,
}

/// The answer to an event.
pub struct Reply {
    words: [u64; 64],
}

impl Reply {
    /// Creates an empty reply, with the timer off.
    pub const fn new() -> Reply {
        let mut words = [0; 64];
        words[TIMER] = u64::MAX;
        Reply { words }
    }

    /// Rings at this time, unless another time is set before. The timer stays until it is stopped.
    pub fn set_timer(&mut self, at: u64) {
        self.words[TIMER] = at;
    }

    /// Turns the timer off.
    pub fn stop_timer(&mut self) {
        self.words[TIMER] = u64::MAX;
    }

    /// Requests an action; at most eight in one call.
    pub fn request(&mut self, action: Action) {
        let (number, field) = match action {
            Action::Gate => (1, 0),
            Action::Rest { state } => (2, state.into()),
            Action::Wake => (3, 0),
        };
        let first = ACTIONS + 4 * self.words[COUNT] as usize;
        self.words[first] = number;
        self.words[first + 1] = field;
        self.words[COUNT] += 1;
    }

    /// Returns the requested actions.
    pub fn requested(&self) -> impl Iterator<Item = Action> + '_ {
        (0..self.words[COUNT] as usize).map(|n| match self.words[ACTIONS + 4 * n] {
            1 => Action::Gate,
            2 => Action::Rest { state: self.words[ACTIONS + 4 * n + 1] as u8 },
            _ => Action::Wake,
        })
    }

    fn event(&self) -> Event {
        let field = |n: usize| self.words[FIELDS + n];
        match self.words[1] {
            0 => {
                let mut parameters = [0.0; 16];
                for (n, parameter) in parameters.iter_mut().enumerate() {
                    *parameter = f64::from_bits(self.words[PARAMETERS + n]);
                }
                Event::Start(Start {
                    entry: field(0),
                    break_even: field(1),
                    wake_up: field(2),
                    restore: field(3),
                    slots: [field(4), field(5)],
                    token_entries: field(6),
                    memory: [field(7), field(8)],
                    parameters,
                })
            }
            1 => Event::Timer,
            2 => Event::StallBegin,
            3 => Event::StallEnd { began: field(0) },
            4 => Event::Token {
                line: field(0),
                created: field(1),
                bound: field(2),
                span: field(3),
            },
            5 => Event::Response { line: field(0) },
            6 => Event::IdleBegin,
            7 => Event::IdleEnd { began: field(0) },
            8 => Event::Awake,
            _ => Event::Granted { wake_up: field(0) },
        }
    }
}

/// The module's side of the interface. Only one thread is here, and halfwink waits for it.
#[cfg(not(test))]
mod exports {
    use super::Reply;
    use crate::{Policy, ABOUT};

    static mut POLICY: Policy = Policy::new();
    static mut BLOCK: Reply = Reply::new();
    static mut TEXT: [u8; ABOUT.len() + 1] = [0; ABOUT.len() + 1];

    #[no_mangle]
    extern "C" fn halfwink_abi() -> i32 {
        1
    }

    #[no_mangle]
    extern "C" fn halfwink_about() -> *const u8 {
        // SAFETY: nothing else refers to the text, whose last byte stays zero.
        let text = unsafe { &mut *(&raw mut TEXT) };
        text[..ABOUT.len()].copy_from_slice(ABOUT.as_bytes());
        text.as_ptr()
    }

    #[no_mangle]
    extern "C" fn halfwink_block() -> *const Reply {
        &raw const BLOCK
    }

    #[no_mangle]
    extern "C" fn halfwink_decide() {
        // SAFETY: one thread, and nothing else refers to them during a call.
        let (policy, block) = unsafe { (&mut *(&raw mut POLICY), &mut *(&raw mut BLOCK)) };
        let event = block.event();
        policy.decide(block.words[0], event, block);
    }

    #[panic_handler]
    fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
        core::arch::wasm32::unreachable()
    }
}
