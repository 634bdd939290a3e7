//! A machine and services that can be computed by hand.

use halfwink_arrivals::Arrivals;
use halfwink_engine::{Law, RunControl};
use halfwink_node::{simulate, Load, Options, Profile, ProfileSpec, Run};
use halfwink_policy::gating::{AlwaysOn, Costs, IdleGate, IdleMenu, IdleMenuParameters, Slots};
use halfwink_policy::scaling::{self, Depth, IdleParameters, IdleStates, Menu};
use halfwink_techniques::node::machine::{
    CorePower, IdleState, Kernel, KernelCores, Layout, PackageState, Scope, Shared, Spec,
};
use halfwink_techniques::node::{Idler, Machine, Plan};
use halfwink_units::{PowerBasis, Time};

/// A deep state of the test machine.
pub const C6: usize = 2;
/// A shallow state of the test machine.
pub const C1: usize = 1;

fn state(name: &str, [exit_us, residency_us]: [f64; 2], core_w: f64) -> IdleState {
    IdleState {
        name: name.to_owned(),
        exit_us,
        residency_us,
        wake_us: [exit_us; 2],
        core_w,
        loses: Vec::new(),
        proposed: false,
    }
}

/// Cores that wake at once from C1, and in 20 us from C6; no kernel beside requests.
pub fn spec(cores: u32) -> Spec {
    Spec {
        schema: 1,
        description: "test".to_owned(),
        core: "any".to_owned(),
        server: Layout { sockets: 1, dies: 1, cores },
        power: CorePower {
            active_w: 4.0,
            poll_w: 3.0,
            waking_w: 4.0,
            basis: PowerBasis::Published,
            factor: [1.0; 2],
        },
        idle_states: vec![state("c1", [0.0, 0.0], 1.5), state("c6", [20.0, 60.0], 0.1)],
        shared: vec![Shared { name: "mesh".to_owned(), scope: Scope::Socket, awake_w: 10.0 }],
        package_states: vec![PackageState {
            name: "pc1a".to_owned(),
            needs: "c1".to_owned(),
            enter_us: 0.0,
            exit_us: 0.0,
            shares: vec![0.5],
            proposed: true,
        }],
        kernel_cores: KernelCores::default(),
        kernel: Kernel {
            tick_us: 4000.0,
            tick_work_us: 1.0,
            next_timer_us: 1e6,
            background_per_s: 0.0,
            background_us: 5.0,
        },
        rest_w: 20.0,
    }
}

/// A service of this law, in microseconds.
pub fn service(law: Law) -> Profile {
    let spec = ProfileSpec {
        schema: 1,
        workload: "test".to_owned(),
        core: "any".to_owned(),
        made_by: "test".to_owned(),
        requests: 0,
        service_us: law,
        apart_us: 0.0,
        user_share: Some(0.5),
        cold: Vec::new(),
        watts: None,
        variants: Vec::new(),
    };
    Profile::new(spec).unwrap()
}

/// Exponential service of 10 us.
pub fn ten_us() -> Profile {
    service(Law::Exponential { mean: 10.0 })
}

/// Poisson arrivals that load each core so far with services of 10 us.
pub fn poisson(cores: u32, load: f64) -> Arrivals {
    Arrivals::Poisson { rate: load * f64::from(cores) / 10e-6 }
}

/// Always in C1.
pub fn in_c1(_: usize) -> Idler {
    Idler::gate(Box::new(AlwaysOn), C1, C6)
}

/// C6 at once.
pub fn in_c6(_: usize) -> Idler {
    Idler::gate(Box::new(IdleGate::new()), C1, C6)
}

fn costs() -> Costs {
    Costs {
        entry: Time::ZERO,
        break_even: Time::ns(40_000),
        wake_up: Time::ns(20_000),
        restore: Time::ZERO,
        slots: Slots::ANY,
    }
}

/// Menu between C1 and C6, as the chip has it.
pub fn gating_menu(_: usize) -> Idler {
    let parameters = IdleMenuParameters::linux(&costs());
    Idler::gate(Box::new(IdleMenu::new(costs(), parameters)), C1, C6)
}

/// Menu of Linux with its ticks.
pub fn menu(_: usize) -> Idler {
    let state = |depth, us: u64| scaling::IdleState {
        depth,
        exit: Time::ns(1000 * us / 3),
        residency: Time::ns(1000 * us),
        polls: false,
    };
    let states = [state(Depth::C1, 0), state(Depth::C3, 0), state(Depth::C6, 60)];
    let timer = IdleParameters::NO_TIMER;
    let tick = Time::ns(4_000_000);
    let states = IdleStates::new(&states);
    let parameters = IdleParameters { cores: 1, states, tick, timer, wake: Time::ZERO };
    Idler::Rest { policy: Box::new(Menu::new(parameters)), depths: [C1, C1, C6] }
}

/// Plays it.
pub fn run(
    spec: Spec,
    profile: &Profile,
    arrivals: &Arrivals,
    plan: &Plan,
    make: fn(usize) -> Idler,
    options: Options,
) -> Run {
    let machine = Machine::new(spec).unwrap();
    let load = Load::Open(arrivals.clone());
    simulate((&machine, profile), &load, plan, &make, options, &RunControl::new()).unwrap()
}
