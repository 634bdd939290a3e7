//! The shipped gating policies as a module: parameter `policy` chooses one.

use std::cell::RefCell;

use halfwink_policy::gating::{
    Action, AdaptiveIdle, AlwaysOn, Costs, Event, Expectation, GatingPolicy, IdleGate, IdleMenu,
    IdleMenuParameters, MapgCounter, MapgParameters, Oracle, Slots, Switching, SwitchingParameters,
    Tap, WakeFor,
};
use halfwink_policy::record::{Fields, Record, FIELDS};
use halfwink_units::Time;

const ABOUT: &str = concat!(
    r#"{"family": "gating", "title": "a shipped policy, by its number", "parameters": ["#,
    r#"{"name": "policy", "default": 0, "least": 0, "most": 8, "title": "its number"}]}"#,
    "\0"
);
const PARAMETER: usize = 2 + FIELDS;
const TIMER: usize = PARAMETER + 16;

static mut BLOCK: [u64; 64] = [0; 64];

thread_local! {
    static POLICY: RefCell<Option<GatingPolicy>> = const { RefCell::new(None) };
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
    let (now, event) = (Time(block[0]), block[1]);
    let fields: Fields = block[2..PARAMETER].try_into().unwrap();
    POLICY.with_borrow_mut(|policy| {
        if event == 0 {
            *policy = Some(policy_of(f64::from_bits(block[PARAMETER]) as u32, &fields));
        }
        let policy = policy.as_mut().unwrap();
        match event {
            0 => {}
            1 => policy.on_timer(now),
            _ => policy.on_event(now, &Event::take(event as usize - 2, &fields).unwrap()),
        }
        let mut count = 0;
        while let Some(action) = policy.poll_action() {
            let mut fields = [0; FIELDS];
            let (kind, _) = Action::put(&action, &mut fields);
            let first = TIMER + 2 + 4 * count;
            block[first] = kind as u64 + 1;
            block[first + 1..first + 4].copy_from_slice(&fields[..3]);
            count += 1;
        }
        block[TIMER] = policy.next_timer().unwrap_or(Time::NEVER).0;
        block[TIMER + 1] = count as u64;
    });
}

fn policy_of(number: u32, start: &Fields) -> GatingPolicy {
    let time = |n: usize| Time(start[n]);
    let slots = Slots { period: time(4), offset: time(5) };
    let costs = Costs {
        entry: time(0),
        break_even: time(1),
        wake_up: time(2),
        restore: time(3),
        slots,
    };
    let entries = start[6] as usize;
    let tap = Tap::new(costs, entries);
    let parameters =
        MapgParameters { t_llc: time(7), t_mem: time(8), expectation: Expectation::Memory };
    let mapg = MapgCounter::new(costs, parameters);
    match number {
        0 => Box::new(tap),
        1 => Box::new(tap.waking_for(WakeFor::LastResponse)),
        2 => Box::new(mapg),
        3 => {
            let trials = SwitchingParameters { window: Time::ns(20_000), round: 50 };
            Box::new(Switching::new(costs, trials, tap, mapg))
        }
        4 => Box::new(IdleGate::new()),
        5 => Box::new(AdaptiveIdle::new(costs)),
        6 => Box::new(IdleMenu::new(costs, IdleMenuParameters::linux(&costs))),
        7 => Box::new(Oracle::new(costs)),
        _ => Box::new(AlwaysOn),
    }
}
