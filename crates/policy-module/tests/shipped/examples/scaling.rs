//! The shipped scaling policies as a module: those that take no times of the load profile, with
//! their usual parameters.

use halfwink_policy::record::Fields;
use halfwink_policy::scaling::{
    Depth, IdleParameters, IdleState, IdleStates, L3fwdPause, Menu, Metronome, MetronomeParameters,
    Napi, Polling, PowerSave, PowerSaveParameters, ScalingPolicy, Suricata, Teo, VppAdaptive,
    VppAdaptiveParameters,
};
use halfwink_units::Time;

shipped::exports!("scaling", 10, ScalingPolicy, policy_of);

fn power_save(start: &Fields, in_order: bool) -> ScalingPolicy {
    let published = PowerSaveParameters::published(start[0] as u8, start[1] as u8);
    Box::new(PowerSave::new(PowerSaveParameters {
        q_high: 32,
        q_low: 4,
        c_up: 5,
        c_down: 50,
        in_order,
        ..published
    }))
}

fn idle(start: &Fields) -> IdleParameters {
    let state = |depth, n: usize| IdleState {
        depth,
        exit: Time(start[6 + n]),
        residency: Time(start[9 + n]),
        polls: false,
    };
    IdleParameters {
        cores: start[0] as u8,
        states: IdleStates::new(&[state(Depth::C1, 0), state(Depth::C3, 1), state(Depth::C6, 2)]),
        tick: Time::ns(4_000_000),
        timer: IdleParameters::NO_TIMER,
        wake: Time(start[5]),
    }
}

fn policy_of(number: u32, start: &Fields) -> ScalingPolicy {
    let cores = start[0] as u8;
    match number {
        0 => power_save(start, false),
        1 => power_save(start, true),
        2 => Box::new(Polling::new()),
        3 => Box::new(Napi::new(Depth::C1)),
        4 => Box::new(Napi::new(Depth::C6)),
        5 => Box::new(Menu::new(idle(start))),
        6 => Box::new(Teo::new(idle(start))),
        7 => Box::new(L3fwdPause::new(cores)),
        8 => Box::new(Metronome::new(MetronomeParameters {
            cores,
            threads: 3,
            vacation: Time::ns(10_000),
            depth: Depth::C1,
        })),
        9 => Box::new(Suricata::new(cores, Depth::C1)),
        _ => Box::new(VppAdaptive::new(VppAdaptiveParameters {
            window: 128,
            to_polling: 10,
            to_interrupt: 5,
            ..VppAdaptiveParameters::published(cores, Time(start[4]))
        })),
    }
}
