use std::sync::Arc;

use halfwink_units::Asid;
use proptest::prelude::*;

use super::*;

/// Steps of a random program: what, by whom, where.
fn script_of(steps: &[(u8, bool, u64)]) -> Script {
    let b = blocks();
    let mut script = Script::new(Arc::clone(&b.program));
    for &(what, kernel, place) in steps {
        let mode = usize::from(kernel);
        match what {
            0..=3 => {
                script.run(b.call[mode], vec![]);
            }
            4..=6 => {
                script.run(b.ret[mode], vec![]);
            }
            7 => {
                script.run(b.plain[mode], vec![]);
            }
            8..=10 => {
                script.run(b.loads, vec![at(place * PAGE), at(place * 3 * PAGE)]);
            }
            11 => {
                script.run(b.kernel_load, vec![at(place << 40)]);
            }
            12 => {
                script.run(b.iret, vec![]);
            }
            13 => {
                script.run(b.faults[0], vec![at(place * PAGE)]);
            }
            14 => {
                script.event(READ);
            }
            15 => {
                script.event(TICK);
            }
            16 => {
                script.event(Event::AddressSpace(Asid(place)));
            }
            17 => {
                script.event(Event::Cpu(place as u16 % 3));
            }
            _ => {
                script.run(b.middle, vec![]);
            }
        }
    }
    script
}

/// Items of a source, user instructions alone: address of each, and its data.
fn user_code(source: &mut dyn Source) -> (Vec<u64>, Vec<Address>, Vec<Event>) {
    let (mut code, mut data, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let program = Arc::clone(source.program());
    loop {
        match source.next_item().unwrap() {
            Item::End => return (code, data, events),
            Item::Event(event) if Trap::of(&event).is_none() => events.push(event),
            Item::Event(_) => {}
            Item::Run(id) => {
                let template = program.template(id);
                let block = program.block(template.block);
                data.extend_from_slice(source.addresses());
                if !block.kernel {
                    let executed = &program.instrs_of(block)[..usize::from(template.executed)];
                    code.extend(executed.iter().map(|instr| block.pc_of(instr)));
                }
            }
        }
    }
}

proptest! {
    /// Whatever comes - calls that never return, returns without a call, switches of threads,
    /// address spaces and CPUs - all that was recorded is there, in its order, and handlers are
    /// all that is there beside it.
    #[test]
    fn nothing_recorded_is_lost(
        steps in prop::collection::vec((0u8..20, any::<bool>(), 0u64..40), 0..300),
        leaf_calls_save: bool, clean_windows: bool, windows in 3u8..12,
    ) {
        let windows = WindowModel { windows, leaf_calls_save, clean_windows };
        let model = TrapModel { windows, ..MODEL };
        let mut traps = Traps::new(script_of(&steps), model);
        prop_assert_eq!(user_code(&mut script_of(&steps)), user_code(&mut traps));
        prop_assert_eq!(traps.next_item().unwrap(), Item::End);
        prop_assert!(traps.waiting.is_empty() && traps.cpus.len() <= 3);
        // Kernel instructions: those recorded, and the handlers'.
        let plain = KernelRuns::new(script_of(&steps));
        let count = |mut runs: KernelRuns<Script>| {
            while runs.next_run().unwrap().is_some() {}
            runs.instructions
        };
        let before = count(plain);
        let (_, counts, after) = runs(script_of(&steps), model);
        prop_assert_eq!(before[0], after[0]);
        prop_assert_eq!(after[1] - before[1], counts.window_instructions + counts.tlb_instructions);
        prop_assert_eq!(*traps.counts(), counts);
    }

    /// Every trap of user code is a kernel run of its own with its handler's length, as long as
    /// nothing else comes between.
    #[test]
    fn traps_of_user_code_are_runs(
        steps in prop::collection::vec((0u8..11, 0u64..40), 0..300),
    ) {
        let steps: Vec<_> = steps.into_iter().map(|(what, place)| (what, false, place)).collect();
        let mut script = script_of(&steps);
        script.run(blocks().plain[0], vec![]);
        let (all, counts, _) = runs(script, MODEL);
        for kind in Trap::ALL {
            let runs = all.iter().filter(|run| Trap::of(&run.0.unwrap()) == Some(kind));
            let cut = u64::from(kind == Trap::InstructionTlbMiss);
            prop_assert_eq!(runs.count() as u64 + cut, counts.of(kind)[0]);
        }
        let lengths = [101, 102, 108, 109, 110, 111];
        prop_assert!(all.iter().all(|run| lengths.contains(&run.1)));
    }
}
