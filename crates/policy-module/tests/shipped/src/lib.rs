//! The side of a module that all families share, to play shipped policies as modules.

use std::cell::RefCell;
use std::collections::VecDeque;

use halfwink_policy::record::{Fields, Record, FIELDS};
use halfwink_policy::Policy;
use halfwink_units::Time;

/// The block of version 1 of the interface.
pub type Block = [u64; 64];

const PARAMETER: usize = 2 + FIELDS;
const TIMER: usize = PARAMETER + 16;
const COUNT: usize = TIMER + 1;
const ACTIONS: usize = 8;
const MORE: u64 = u64::MAX;

/// A policy, the actions that did not fit into the block, and what the start said.
pub struct Played<P: Policy>(RefCell<(Option<P>, VecDeque<P::Action>, Fields)>);

thread_local! {
    static STATES: RefCell<Vec<Fields>> = const { RefCell::new(Vec::new()) };
}

/// Returns the idle states of the machine that the module was told of.
#[must_use]
pub fn idle_states() -> Vec<Fields> {
    STATES.with_borrow(Vec::clone)
}

impl<P: Policy<Event: Record, Action: Record>> Played<P> {
    #[must_use]
    pub const fn new() -> Played<P> {
        Played(RefCell::new((None, VecDeque::new(), [0; FIELDS])))
    }

    /// Answers a call; `make` builds the policy of this number from what the start says.
    pub fn decide(&self, block: &mut Block, make: fn(u32, &Fields) -> P) {
        let (policy, pending, start) = &mut *self.0.borrow_mut();
        let (now, event) = (Time(block[0]), block[1]);
        let fields: Fields = block[2..PARAMETER].try_into().unwrap();
        if event == 0 {
            *start = fields;
            *policy = Some(make(f64::from_bits(block[PARAMETER]) as u32, start));
        }
        // Told behind the start, and no event of a world: the policy is made anew with it.
        if event != MORE && event >= 2 + P::Event::KINDS.len() as u64 {
            STATES.with_borrow_mut(|states| states.push(fields));
            *policy = Some(make(f64::from_bits(block[PARAMETER]) as u32, start));
            (block[TIMER], block[COUNT]) = (Time::NEVER.0, 0);
            return;
        }
        let policy = policy.as_mut().unwrap();
        match event {
            0 | MORE => {}
            1 => policy.on_timer(now),
            _ => policy.on_event(now, &P::Event::take(event as usize - 2, &fields).unwrap()),
        }
        pending.extend(std::iter::from_fn(|| policy.poll_action()));
        block[TIMER] = policy.next_timer().unwrap_or(Time::NEVER).0;
        block[COUNT] = pending.len() as u64;
        for n in 0..ACTIONS.min(pending.len()) {
            let mut fields = [0; FIELDS];
            let (kind, _) = pending.pop_front().unwrap().put(&mut fields);
            let first = COUNT + 1 + 4 * n;
            block[first] = kind as u64 + 1;
            block[first + 1..first + 4].copy_from_slice(&fields[..3]);
        }
    }
}

impl<P: Policy<Event: Record, Action: Record>> Default for Played<P> {
    fn default() -> Played<P> {
        Played::new()
    }
}

/// Exports what a module exports: of this family, with so many policies of this type.
#[macro_export]
macro_rules! exports {
    ($family:literal, $most:literal, $policy:ty, $make:path $(, $events:literal)?) => {
        const ABOUT: &str = concat!(
            r#"{"family": ""#,
            $family,
            r#"", "#,
            $(r#""events": "#, $events, ", ",)?
            r#""title": "a shipped policy, by its number", "parameters": [{"name": "policy", "#,
            r#""default": 0, "least": 0, "most": "#,
            $most,
            r#", "title": "its number"}]}"#,
            "\0"
        );

        static mut BLOCK: $crate::Block = [0; 64];

        thread_local! {
            static POLICY: $crate::Played<$policy> = const { $crate::Played::new() };
        }

        #[no_mangle]
        pub extern "C" fn halfwink_abi() -> i32 {
            1
        }

        #[no_mangle]
        pub extern "C" fn halfwink_about() -> *const u8 {
            ABOUT.as_ptr()
        }

        #[no_mangle]
        pub extern "C" fn halfwink_block() -> *const u64 {
            &raw const BLOCK as *const u64
        }

        #[no_mangle]
        pub extern "C" fn halfwink_decide() {
            // One thread, and the host waits.
            let block = unsafe { &mut *(&raw mut BLOCK) };
            POLICY.with(|policy| policy.decide(block, $make));
        }
    };
}
