//! A machine with round numbers: a reference core of 1 GHz (a cycle is a nanosecond), a simple core
//! that takes twice as long, and a slow one at a quarter of the clock.

use halfwink_engine::Input;
use halfwink_switching::{Model, Spec};

pub const MACHINE: &str = r#"
schema = 1
description = "round numbers"
reference_ghz = 1.0
l2_ns = 10.0

[cores.big]
clock_ghz = 1.0
user_cycles = 1.0
kernel_cycles = 1.0
kernel_misses = 0.0
empty_call_ns = 100.0
active_w = 4.0
idle_w = 1.0

[cores.small]
clock_ghz = 1.0
user_cycles = 3.0
kernel_cycles = 1.5
kernel_misses = 0.05
empty_call_ns = 100.0
active_w = 1.0
idle_w = 0.0

[cores.small-slow]
clock_ghz = 0.25
user_cycles = 3.0
kernel_cycles = 1.5
kernel_misses = 0.05
empty_call_ns = 100.0
active_w = 0.25
idle_w = 0.0

[l1.direct]
instruction_misses = 0.06
data_misses = 0.04

[l1.better]
instruction_misses = 0.03
data_misses = 0.02

[[configurations]]
name = "one"
app = ["big"]

[[configurations]]
name = "alike"
app = ["big"]
os = ["big"]

[[configurations]]
name = "unlike"
app = ["big"]
os = ["small"]

[[configurations]]
name = "slow"
app = ["big"]
os = ["small-slow"]

[[configurations]]
name = "better"
app = ["big"]
os = ["small"]
l1 = "better"

[mechanism]
ipi_handler_ns = 50.0
ipi_send_cycles = 20.0
line_ns = 5.0
wake_cycles = 10.0
resume_cycles = 30.0
source_share = 0.5

[mechanism.versions.ipi]
leg_cycles = 400.0
signal = "interrupt"

[mechanism.versions.poll]
leg_cycles = 400.0
signal = "poll"

[mechanism.versions.wake]
leg_cycles = 400.0
signal = "early-wake"

[kernel]
tick_hz = 0.0
tick_ns = 0.0
stamps = "exact"

[offload]
rule = "listed"
calls = [{ number = 1, bytes_argument = 2 }, { number = 75 }]
"#;

pub fn model_of(text: &str) -> Model {
    let spec: Spec = Input::new("x.toml", text).parse().expect("it can be read");
    Model::new(spec).expect("it is possible")
}
