//! Version 1 of the interface of halfwink, as all families share it: events in, actions out,
//! through a block of 64 words in this module's memory. Times are picoseconds.
#![allow(dead_code)]

use crate::interface::{Action, Event};

const EVENT: usize = 1;
const FIELDS: usize = 2;
const PARAMETERS: usize = 14;
const TIMER: usize = 30;
const COUNT: usize = 31;
const ACTIONS: usize = 32;
/// Actions that the block has room for; halfwink asks for more at the same time.
const ROOM: usize = 8;
/// Most actions of an event.
const MOST: usize = 512;
/// The number of the call that asks for more actions.
const MORE: u64 = u64::MAX;

/// The answer to an event.
#[repr(C)]
pub struct Reply {
    words: [u64; 64],
    actions: [Option<Action>; MOST],
    requested: usize,
    sent: usize,
}

impl Reply {
    /// Creates an empty reply, with the timer off.
    pub const fn new() -> Reply {
        let mut words = [0; 64];
        words[TIMER] = u64::MAX;
        Reply { words, actions: [None; MOST], requested: 0, sent: 0 }
    }

    /// Rings at this time, unless another time is set before. The timer stays until it is stopped.
    pub fn set_timer(&mut self, at: u64) {
        self.words[TIMER] = at;
    }

    /// Turns the timer off.
    pub fn stop_timer(&mut self) {
        self.words[TIMER] = u64::MAX;
    }

    /// Requests an action; at most 512 at one event.
    pub fn request(&mut self, action: Action) {
        self.actions[self.requested] = Some(action);
        self.requested += 1;
    }

    /// Returns the requested actions.
    pub fn requested(&self) -> impl Iterator<Item = Action> + '_ {
        self.actions[..self.requested].iter().flatten().copied()
    }

    /// Has the policy decide on the event in the block, and writes its actions there.
    fn answer(&mut self, decide: impl FnOnce(u64, Event, &mut Reply)) {
        if self.words[EVENT] != MORE {
            (self.requested, self.sent) = (0, 0);
            let fields: [u64; 12] = core::array::from_fn(|n| self.words[FIELDS + n]);
            let parameters = core::array::from_fn(|n| f64::from_bits(self.words[PARAMETERS + n]));
            decide(self.words[0], Event::read(self.words[EVENT], &fields, parameters), self);
        }
        self.words[COUNT] = (self.requested - self.sent) as u64;
        for place in 0..ROOM.min(self.requested - self.sent) {
            if let Some(action) = self.actions[self.sent] {
                let first = ACTIONS + 4 * place;
                self.words[first..first + 4].copy_from_slice(&action.words());
            }
            self.sent += 1;
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
    extern "C" fn halfwink_block() -> *const u64 {
        &raw const BLOCK as *const u64
    }

    #[no_mangle]
    extern "C" fn halfwink_decide() {
        // SAFETY: one thread, and nothing else refers to them during a call.
        let (policy, block) = unsafe { (&mut *(&raw mut POLICY), &mut *(&raw mut BLOCK)) };
        block.answer(|now, event, reply| policy.decide(now, event, reply));
    }

    #[panic_handler]
    fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
        core::arch::wasm32::unreachable()
    }
}
