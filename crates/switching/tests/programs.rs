//! Programs on cores, by hand; and what must hold for all of them.

use crate::common;

use common::{model_of, MACHINE};
use halfwink_engine::{Input, Interrupted, RunControl};
use halfwink_switching::{policies, run, run_with, Kernel, Model, Run, RunError, Spec};
use proptest::prelude::*;

/// The machine with one program: 1 ms of units with these keys.
fn with_text(program: &str) -> String {
    let common = r#"
[[workloads]]
name = "program"
variant = "x"
configurations = ["one"]
kernels = ["unmod"]
seconds = 0.001
unit_amount = 1.0
amount_unit = "units"
per_seconds = 0.001
least_bytes = 4096
"#;
    format!("{MACHINE}{common}{program}")
}

fn with(program: &str) -> Model {
    model_of(&with_text(program))
}

fn times(user: u32, kernel: u32, interrupt: u32, wait: u32) -> String {
    format!(
        "demand = {{ from = \"times\", user_ns = {user}.0, kernel_ns = {kernel}.0, \
         interrupt_ns = {interrupt}.0, wait_ns = {wait}.0 }}\n"
    )
}

const ALONE: &str = "threads = 1\nunmod = { threads = \"app\", interrupts = \"app\" }\n";

fn play(model: &Model, configuration: &str, kernel: &str) -> Run {
    let workload = &model.spec().workloads[0];
    let run = run(model, workload, configuration, &Kernel::named(kernel), 1).unwrap();
    for core in &run.cores {
        let sum = [core.user_pct, core.call_pct, core.switch_pct, core.interrupt_pct];
        let sum = sum.iter().sum::<f64>() + core.waking_pct + core.idle_pct;
        assert!((sum - 100.0).abs() < 1e-6, "{core:?}");
    }
    // Slices are what the whole is made of, but for parts of nanoseconds.
    assert!((run.power_w.mean * run.seconds / run.energy_j() - 1.0).abs() < 1e-3);
    assert!(
        (run.units_per_s.mean * run.seconds - run.units as f64).abs()
            < 1.0 + 1e-3 * run.units as f64
    );
    run
}

fn write(asks: u32) -> String {
    let call = format!("name = \"write\", number = 1, count = 1, share = 1.0, asks = {asks}");
    format!("{ALONE}{}calls = [{{ {call} }}]\n", times(600, 400, 0, 0))
}

#[test]
fn a_call_that_stays_takes_what_it_asks_for() {
    let run = play(&with(&write(100)), "one", "unmod");
    assert_eq!(run.units, 1000);
    assert!((run.cores[0].user_pct - 60.0).abs() < 1e-9);
    assert!((run.cores[0].energy_j - 4.0e-3).abs() < 1e-12);
}

#[test]
fn a_call_below_the_threshold_pays_the_check_alone() {
    let run = play(&with(&write(4095)), "alike", "poll");
    // 16 cycles of the check in 1016 ns.
    assert_eq!((run.units, run.calls[0].moved), (984, 0));
}

#[test]
fn a_call_that_moves_pays_two_legs() {
    let run = play(&with(&write(4096)), "alike", "poll");
    // 600 + 16 + 405 + 400 + 405 = 1826 ns.
    assert_eq!((run.units, run.calls[0].moved), (547, 548));
    let [app, os] = &run.cores[..] else { panic!("two cores") };
    assert_eq!(app.call_pct, 0.0);
    assert!((os.call_pct - 100.0 * 400.0 / 1826.0).abs() < 0.1, "{os:?}");
    assert!((app.switch_pct - 100.0 * 416.0 / 1826.0).abs() < 0.1, "{app:?}");
}

/// Kernel code that takes 1.2 times as long on the small core, 1.1 times with a better first level.
const CODE: &str = r#"
[kernel_code.server]
reference = "big"
ns = { big = 0.5, small = 0.6 }
l1.better = { small = 0.55 }
"#;

#[test]
fn kernel_code_of_a_program_takes_its_own_time_and_switches_theirs() {
    let text = with_text(&format!("kernel_code = \"server\"\n{}{CODE}", write(4096)));
    let model = model_of(&text);
    for (configuration, factor) in [("alike", 1.0), ("unlike", 1.2), ("better", 1.1)] {
        let run = play(&model, configuration, "poll");
        let [_, os] = &run.cores[..] else { panic!("two cores") };
        let per_unit = os.call_pct / 100.0 * 1e6 / run.calls[0].moved as f64;
        assert!((per_unit / (400.0 * factor) - 1.0).abs() < 0.01, "{configuration}: {per_unit}");
        // Legs are those of the mechanism: the fitted loop, whatever the program's code does.
        let plain = play(&with(&write(4096)), configuration, "poll");
        let legs = |run: &Run| run.cores[0].switch_pct / run.units as f64;
        assert!((legs(&run) / legs(&plain) - 1.0).abs() < 0.01, "{configuration}");
    }
}

#[test]
fn kernel_code_that_is_not_whole_is_refused() {
    let named = format!("kernel_code = \"server\"\n{}", write(4096));
    let refused = |text: &str| {
        let spec: Spec = Input::new("x.toml", text).parse().expect("it can be read");
        Model::new(spec).unwrap_err().to_string()
    };
    let none = "workloads.0.kernel_code: `server` is none of the kernel code";
    assert_eq!(refused(&with_text(&named)), none);
    for (before, after, said) in [
        ("big = 0.5, ", "", "kernel_code.server.reference: `big` has no time in ns"),
        ("l1.better", "l1.none", "kernel_code.server.l1: `none` is none of the caches"),
        ("0.6", "-1.0", "kernel_code.server.ns.small: -1, expected a number above 0"),
        ("small =", "tiny =", "kernel_code.server.ns: `tiny` is none of the cores"),
    ] {
        assert!(CODE.contains(before), "{before}");
        assert_eq!(refused(&with_text(&format!("{named}{}", CODE.replace(before, after)))), said);
    }
    let unlike = CODE.replace("small = 0.6", "small-slow = 0.6");
    let on_unlike = with_text(&format!("{named}{unlike}")).replace("[\"one\"]", "[\"unlike\"]");
    assert_eq!(refused(&on_unlike), "workloads.0.kernel_code: `server` has no time on `small`");
}

#[test]
fn a_simple_core_runs_kernel_code_at_its_own_pace() {
    let run = play(&with(&write(4096)), "unlike", "ipi");
    // 600 + 16; out: 220, handler 50, 400; body 800; back: 440, handler 50, 200.
    let unit_ns = 616.0 + 670.0 + 800.0 + 690.0;
    assert_eq!(run.units, (1e6 / unit_ns) as u64);
}

#[test]
fn a_device_interrupts_the_core_that_interrupts_are_bound_to() {
    let call = "name = \"fdatasync\", number = 75, count = 1, share = 1.0, asks = 0";
    let program =
        format!("{ALONE}{}calls = [{{ {call}, device_ns = 300.0 }}]\n", times(500, 100, 100, 0));
    let model = with(&program);
    let stock = play(&model, "one", "unmod");
    assert_eq!(stock.units, 1000);
    assert!((stock.cores[0].interrupt_pct - 10.0).abs() < 1e-9);
    assert!((stock.cores[0].idle_pct - 30.0).abs() < 1e-9);
    let bound = play(&model, "alike", "bound");
    assert_eq!(bound.units, 1000);
    assert!((bound.cores[1].interrupt_pct - 10.0).abs() < 1e-9);
    // 500 + 16, 405, 100, 300, 100, 405.
    assert_eq!(play(&model, "alike", "poll").units, (1e6 / 1826.0) as u64);
}

#[test]
fn a_client_of_batches_waits_once_for_all() {
    let program = format!(
        "threads = 4\nbatch = 10\n\
         unmod = {{ threads = \"any\", interrupts = \"any\" }}\n{}calls = []\n",
        times(900, 0, 100, 1000)
    );
    let model = with(&program);
    // A core: 10 x (900 + 100), then 10 us of pause. Two cores share the work, not the pause.
    let one = play(&model, "one", "unmod");
    assert!((one.cores[0].idle_pct - 50.0).abs() < 0.1);
    let two = play(&model, "alike", "unmod");
    assert!((two.units as f64 / one.units as f64 - 20.0 / 15.0).abs() < 0.02);
}

#[test]
fn a_full_network_sets_the_pace() {
    let program = format!("{ALONE}{}calls = []\nwire_per_s = 500000.0\n", times(500, 0, 0, 0));
    let run = play(&with(&program), "one", "unmod");
    // 2 us a unit, and the two that may be under way.
    assert!((500..=502).contains(&run.units), "{}", run.units);
}

#[test]
fn other_threads_run_while_a_call_is_away() {
    let two = write(4096).replace("threads = 1\n", "threads = 2\n");
    let model = with(&two);
    let alone = play(&with(&write(4096)), "alike", "poll");
    let both = play(&model, "alike", "poll");
    assert!(both.units > alone.units * 5 / 4, "{} beside {}", both.units, alone.units);
}

/// The same program, cores powering down as `mode` says, in so many cycles.
fn sleeping(program: &str, mode: &str, cycles: u32) -> Model {
    let text = with_text(program)
        .replace("stamps = \"exact\"", &format!("stamps = \"exact\"\npower_down = \"{mode}\""))
        .replace(
            "source_share = 0.5",
            &format!("source_share = 0.5\npower_up_cycles = {cycles}.0"),
        );
    model_of(&text)
}

#[test]
fn powering_up_costs_time_and_powering_down_saves_energy() {
    let program = format!("{ALONE}{}calls = []\n", times(500, 0, 0, 400));
    let play = |mode, cycles| play(&sleeping(&program, mode, cycles), "one", "unmod");
    let (always, never) = (play("always", 100), play("never", 100));
    // 100 to power up, 500, 400 off; else 900 a unit, always up.
    assert!(always.units.abs_diff(1000) <= 1 && never.units.abs_diff(1111) <= 1);
    let core = &always.cores[0];
    assert!((core.waking_pct - 10.0).abs() < 0.1 && (core.off_pct - 40.0).abs() < 0.1);
    assert!((core.energy_j - (0.6 * 4.0 + 0.4 * 1.0) * 1e-3).abs() < 1e-5, "{core:?}");
    assert!((never.cores[0].energy_j - 4.0e-3).abs() < 1e-9);
    // Off saves 3 of 4 W: 133 ns repay 100 ns at 4 W, and 400 are more. With 400 ns they are not.
    assert_eq!(play("adaptive", 100).cores[0].off_pct.round(), 40.0);
    assert!(play("adaptive", 400).cores[0].off_pct < 1.0);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let program = format!("{}spread = 1.0\n", write(4096));
    let model = with(&program);
    assert_eq!(play(&model, "slow", "wake").cores, play(&model, "slow", "wake").cores);
}

#[test]
fn a_program_ends_when_it_is_asked_to() {
    let model = with(&write(4096));
    let (workload, kernel) = (&model.spec().workloads[0], Kernel::named("wake"));
    let policies = policies(&model, workload, "slow", &kernel).unwrap();
    let control = RunControl::new();
    control.stop();
    let ended = run_with(&model, workload, "slow", &kernel, 1, policies, &control);
    assert_eq!(ended.err(), Some(RunError::Interrupted(Interrupted)));
}

#[test]
fn a_kernel_that_switches_needs_an_os_core() {
    let model = with(&write(4096));
    let kernel = Kernel::named("poll");
    let error = run(&model, &model.spec().workloads[0], "one", &kernel, 1).unwrap_err();
    assert!(error.to_string().contains("no OS core"), "{error}");
}

proptest! {
    // Each run closes its books and sums to the whole time, or `play` fails.
    #[test]
    fn time_is_conserved_on_every_core(
        user in 1u32..3000, kernel in 1u32..3000, interrupt in 0u32..3000, wait in 0u32..3000,
        threads in 1usize..5, batch in prop_oneof![Just(0usize), 1usize..20], asks in 0u32..9000,
        late in any::<bool>(),
    ) {
        let call = format!("name = \"write\", number = 1, count = 2, share = 0.7, asks = {asks}");
        let during = if late { ", interrupted = true" } else { "" };
        let program = format!(
            "threads = {threads}\nbatch = {batch}\nspread = 0.7\n\
             unmod = {{ threads = \"any\", interrupts = \"os\" }}\n\
             {}calls = [{{ {call}{during} }}]\n",
            times(user + 10, kernel, interrupt, wait)
        );
        let model = with(&program);
        for kernel in ["unmod", "bound", "ipi", "poll", "wake"] {
            for configuration in ["alike", "unlike", "slow"] {
                play(&model, configuration, kernel);
            }
        }
        play(&model, "one", "unmod");
    }
}

#[test]
fn intervals_say_how_much_a_run_varies() {
    let even = play(&with(&write(100)), "one", "unmod");
    let (low, high) = even.units_per_s.interval().expect("64 slices are enough");
    assert!(low <= 1e6 && 1e6 <= high && even.units_per_s.relative() < 0.01, "{even:?}");
    assert!(even.power_w.relative() < 1e-6, "a core that always works draws the same");
    let random = play(&with(&format!("{}spread = 1.0\n", write(100))), "one", "unmod");
    assert!(random.units_per_s.relative() > 3.0 * even.units_per_s.relative());
}
