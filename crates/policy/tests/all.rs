//! Every integration test of the crate in one program, so that its libraries are linked once.

mod common;
#[path = "common/preheat.rs"]
mod preheat;
#[path = "common/preheat_world.rs"]
mod preheat_world;

mod circuits_decisions;
mod clocks;
mod completion_decisions;
mod gating_cpu_idle;
mod gating_decisions;
mod gating_idle_menu;
mod host;
mod offload_decisions;
mod preheat_any_order;
mod preheat_decisions;
mod preheat_others;
mod scaling_decisions;
mod scaling_others;
mod scaling_vpp_adaptive;
mod segregation_decisions;
mod steering_decisions;
mod steering_others;
mod steering_progressive_backup;
mod steering_sets;
mod switching_decisions;
