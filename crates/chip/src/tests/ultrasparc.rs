//! The shipped machines of Nellans 2014, Ch. 4 and 5: what an access takes, in cycles of 3.5 GHz.

use halfwink_engine::Template;

use super::*;
use halfwink_policy::offload::{Fixed, OffloadPolicy};
use halfwink_trace::Event;

const ALONE: &str = include_str!("../../../../machines/ultrasparc.toml");
const WITH_OS_CORE: &str = include_str!("../../../../machines/ultrasparc-os.toml");
const SEGREGATED: &str = include_str!("../../../../machines/ultrasparc-ch5.toml");

fn machine(text: &str) -> Machine {
    Machine::parse(&Input::new("ultrasparc", text)).unwrap()
}

fn cycles(machine: &Machine, time: Time) -> u64 {
    machine.clock.cycle_at_or_after(time)
}

/// A load and the addition that needs it; `warm_data` was used before, in this order.
fn load_takes(machine: &Machine, address: u64, warm_data: &[u64]) -> u64 {
    let mut writer = Writer::new();
    let block = writer.block(&[load(1, 2), alu(3, &[1])]);
    let (mut script, lines) = writer.script();
    script.run(block, vec![at(address)]);
    let result = run(machine, "always-on", vec![task(script, warm(&lines, warm_data))]);
    cycles(machine, result.duration)
}

/// `DATA`, and what pushes it out of the first level: two ways, 256 sets.
const IN_SECOND_LEVEL: [u64; 3] = [DATA, DATA + 256 * 64, DATA + 2 * 256 * 64];

#[test]
fn levels_take_the_cycles_of_table_4_1_and_section_4_5_2() {
    let (alone, pair) = (machine(ALONE), machine(WITH_OS_CORE));
    let slow = machine(&WITH_OS_CORE.replace("latency_ns = 1.428 ", "latency_ns = 3.428 "));
    // First level: a cycle, and one for the addition.
    for machine in [&alone, &pair] {
        assert_eq!(load_takes(machine, DATA, &[DATA]), 2);
    }
    assert_eq!(load_takes(&alone, DATA, &IN_SECOND_LEVEL), 2 + 12);
    assert_eq!(load_takes(&pair, DATA, &IN_SECOND_LEVEL), 2 + 5);
    assert_eq!(load_takes(&slow, DATA, &IN_SECOND_LEVEL), 2 + 12, "the ablation");
    assert_eq!(load_takes(&alone, COLD, &[]), 2 + 12 + 350);
    assert_eq!(load_takes(&pair, COLD, &[]), 2 + 5 + 6 + 350);
    // The memory is uniform: another row of the same bank takes as long.
    let far = COLD + (1 << 22);
    assert_eq!(load_takes(&alone, far, &[]), 2 + 12 + 350);
}

#[test]
fn levels_take_the_cycles_of_table_5_4() {
    let machine = machine(SEGREGATED);
    let shape = |geometry: crate::Geometry| (geometry.bytes(), geometry.ways);
    assert_eq!(shape(machine.l1i.geometry), (16 << 10, 2));
    assert_eq!(shape(machine.l1d.geometry), (16 << 10, 2));
    assert_eq!(shape(machine.l2.geometry), (1 << 20, 16));
    assert_eq!((machine.cores, machine.os.cores), (1, 0));
    // Two ways, 128 sets: half of the distance that pushes a line out of 32 KB.
    let in_second_level = [DATA, DATA + 128 * 64, DATA + 2 * 128 * 64];
    assert_eq!(load_takes(&machine, DATA, &[DATA]), 2);
    assert_eq!(load_takes(&machine, DATA, &in_second_level), 2 + 12);
    assert_eq!(load_takes(&machine, COLD, &[]), 2 + 12 + 350);
}

#[test]
fn memory_of_500_cycles_is_a_value_to_set() {
    // Sec 5.1.1; 0.5 + 4.5 + 125.357 + 12.5 ns are 500 cycles of 3.5 GHz.
    let template = Template::parse(Input::new("ultrasparc-ch5", SEGREGATED)).unwrap();
    let slow = Machine::parse(&template.with([("memory.latency_ns", "125.357")]).unwrap()).unwrap();
    assert_eq!(load_takes(&slow, COLD, &[]), 2 + 12 + 500);
}

#[test]
fn capacities_are_equal_together() {
    let (alone, pair) = (machine(ALONE), machine(WITH_OS_CORE));
    assert_eq!(alone.l2.geometry.bytes(), 1 << 20);
    assert_eq!(pair.l2.geometry.bytes() + pair.os_core().l2.geometry.bytes(), 1 << 20);
    assert_eq!(pair.os_core().clock, pair.clock);
    assert_eq!((alone.os.cores, pair.os.cores), (0, 1));
    let leakage = |m: &Machine| m.power.core.leakage_w;
    // One more core, and the same second levels: 0.45 W of each core, 0.15 W a MB.
    assert!((2.0 * leakage(&pair) - leakage(&alone) - 0.45).abs() < 1e-9);
}

#[test]
fn a_line_of_the_other_core_takes_a_look_up_and_a_transfer() {
    let pair = machine(WITH_OS_CORE);
    // The user writes DATA; the kernel, on its core, loads from `address`.
    let kernel_runs = |address: u64| {
        let mut writer = Writer::new();
        let user = writer.block(&[store(1, 2)]);
        let call = writer.block_at(0x8_0000, true, &[load(1, 2), alu(3, &[1])]);
        let (mut script, lines) = writer.script();
        script.run(user, vec![at(DATA)]);
        script.event(Event::Syscall { number: 0, args: [0; 6] });
        script.run(call, vec![at(address)]).run(user, vec![at(DATA)]);
        let mut task = task(script, warm(&lines, &[DATA]));
        let mut set = (*task.warm).clone();
        for entry in &mut set.lines {
            entry.kernel = entry.line.0 == 0x8_0000 >> 6;
        }
        task.warm = Arc::new(set);
        let gating = |_| policy(&pair, "always-on");
        let offload = |_| -> OffloadPolicy { Box::new(Fixed::always()) };
        let options = Options { offload: Some(&offload), ..Options::new(&gating) };
        let mut chip = Chip::new(&pair, vec![task], &options, &[], &mut CodeCache::new()).unwrap();
        chip.play(&RunControl::new()).unwrap();
        let (result, _) = chip.finish().unwrap();
        cycles(&pair, result.cores[0].calls[&(1 << 32)].running[1])
    };
    // From memory and from the other core: 5 + 6 + 350 and 5 + 6 + 6, and what is common.
    assert_eq!(kernel_runs(COLD) - kernel_runs(DATA), 350 - 6);
}
