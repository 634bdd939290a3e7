//! What a description must be for a run to be possible.

use super::{ModelError, Spec};

type Checked = Result<(), ModelError>;

/// The first value of a description that cannot be.
pub(crate) fn spec(s: &Spec) -> Checked {
    within("schema", f64::from(s.schema), 1.0, 1.0)?;
    cores(s)?;
    times(s)?;
    watts(s)?;
    nic(s)?;
    evaluation(s)?;
    for (element, value, low, high) in s.faults.limits() {
        within(element, value, low, high)?;
    }
    if s.apps.is_empty() {
        return Err(ModelError::at("apps", "expected one application or more"));
    }
    for (name, app) in &s.apps {
        let at = |key: &str| format!("apps.{name}.{key}");
        within(&at("cycles_us"), app.cycles_us, 0.001, 1e4)?;
        within(&at("memory_one_us"), app.memory_one_us, 0.0, 1e4)?;
        within(&at("memory_all_us"), app.memory_all_us, app.memory_one_us, 1e4)?;
        within(&at("bytes"), f64::from(app.bytes), 64.0, 9_216.0)?;
    }
    Ok(())
}

fn within(element: &str, value: f64, low: f64, high: f64) -> Checked {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    let expected =
        if low.to_bits() == high.to_bits() { format!("{low}") } else { format!("{low} to {high}") };
    Err(ModelError::at(element, format!("{value}, expected {expected}")))
}

fn cores(s: &Spec) -> Checked {
    let c = &s.cores;
    within("cores.count", f64::from(c.count), 1.0, 64.0)?;
    within("cores.packages", f64::from(c.packages), 1.0, f64::from(c.count))?;
    within("cores.clock_step_mhz", c.clock_step_mhz, 1.0, 10_000.0)?;
    within("cores.slowest", f64::from(c.slowest), 1.0, 1_000.0)?;
    let slowest = f64::from(c.slowest);
    within("cores.fastest", f64::from(c.fastest), slowest, slowest + 63.0)?;
    within("cores.p_switch_us", c.p_switch_us, 0.0, 1e6)
}

fn times(s: &Spec) -> Checked {
    for (element, us) in [
        ("sleep.c1_exit_us", s.sleep.c1_exit_us),
        ("sleep.c3_exit_us", s.sleep.c3_exit_us),
        ("sleep.c6_exit_us", s.sleep.c6_exit_us),
        ("sleep.c3_cold_us", s.sleep.c3_cold_us),
        ("sleep.c6_cold_us", s.sleep.c6_cold_us),
        ("sleep.c3_after_us", s.sleep.c3_after_us),
        ("sleep.c6_after_us", s.sleep.c6_after_us),
        ("sleep.c1_residency_us", s.sleep.c1_residency_us),
        ("sleep.c3_residency_us", s.sleep.c3_residency_us),
        ("sleep.c6_residency_us", s.sleep.c6_residency_us),
        ("wake.delivery_us", s.wake.delivery_us),
        ("wake.handler_us", s.wake.handler_us),
        ("wake.timer_us", s.wake.timer_us),
        ("path.unloaded_us", s.path.unloaded_us),
        ("path.batching_us", s.path.batching_us),
    ] {
        within(element, us, 0.0, 1e6)?;
    }
    within("sleep.entry_share", s.sleep.entry_share, 0.0, 10.0)?;
    within("sleep.background_hz", s.sleep.background_hz, 0.0, 1e6)?;
    within("loop.batch", f64::from(s.poll.batch), 1.0, 65_536.0)?;
    within("loop.empty_poll_us", s.poll.empty_poll_us, 0.001, 1e3)
}

fn watts(s: &Spec) -> Checked {
    let p = &s.power;
    for (element, value) in [
        ("power.package_w", p.package_w),
        ("power.board_w", p.board_w),
        ("power.memory_idle_w", p.memory_idle_w),
        ("power.memory_w", p.memory_w),
        ("power.nic_idle_w", p.nic_idle_w),
        ("power.nic_w", p.nic_w),
        ("power.fans_w", p.fans_w),
        ("power.fans_per_core_w", p.fans_per_core_w),
        ("power.busy_w", p.busy_w),
        ("power.spin_w", p.spin_w),
        ("power.spin_after_us", p.spin_after_us),
        ("power.c1_w", p.c1_w),
        ("power.c3_w", p.c3_w),
        ("power.activity_packet_ns", p.activity_packet_ns),
        ("power.activity_byte_ns", p.activity_byte_ns),
    ] {
        within(element, value, 0.0, 1e5)?;
    }
    within("power.pause_share", p.pause_share, 0.0, 1.0)?;
    within("power.busy_exponent", p.busy_exponent, -4.0, 4.0)?;
    within("power.spin_exponent", p.spin_exponent, -4.0, 4.0)
}

fn nic(s: &Spec) -> Checked {
    within("nic.ports", f64::from(s.nic.ports), 1.0, 64.0)?;
    within("nic.port_gbps", s.nic.port_gbps, 0.001, 1e4)?;
    within("nic.frame_overhead_bytes", f64::from(s.nic.frame_overhead_bytes), 0.0, 1e3)?;
    within("nic.entries", f64::from(s.nic.entries), 128.0, 128.0)?;
    within("nic.flows", f64::from(s.nic.flows), 128.0, 16_777_216.0)?;
    within("nic.ring", f64::from(s.nic.ring), 2.0, 1_048_576.0)?;
    if !s.nic.ring.is_power_of_two() {
        let message = format!("{}, expected a power of two", s.nic.ring);
        return Err(ModelError::at("nic.ring", message));
    }
    within("burst.port_gbps", s.burst.port_gbps, 0.001, s.nic.port_gbps)?;
    within("burst.longest", f64::from(s.burst.longest), 1.0, 65_536.0)
}

fn evaluation(s: &Spec) -> Checked {
    let e = &s.evaluation;
    for (element, value) in [
        ("evaluation.mean_load", e.mean_load),
        ("evaluation.low_load", e.low_load),
        ("evaluation.high_load", e.high_load),
        ("evaluation.walk", e.walk),
        ("evaluation.spike_load", e.spike_load),
    ] {
        within(element, value, 0.0, 1.0)?;
    }
    within("evaluation.mean_load", e.mean_load, 0.001, e.spike_load)?;
    within("evaluation.train", f64::from(e.train), 1.0, 65_536.0)?;
    within("evaluation.points", f64::from(e.points), 1.0, 100_000.0)?;
    within("evaluation.point_ms", e.point_ms, 0.01, 1e5)
}
