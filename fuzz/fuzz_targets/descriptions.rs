//! Arbitrary text as a machine, a study, a file of targets.
#![no_main]

use halfwink_chip::Machine;
use halfwink_engine::{set_value, Input};
use halfwink_study::{Study, Work};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let input = Input::new("x.toml", text);
    let errors = [
        Machine::parse(&input).map(|machine| drop(machine.facts())).err(),
        Study::parse("x", &input)
            .map(|study| assert!(study.jobs().map_or(0, |jobs| jobs.len()) < 1 << 24))
            .err(),
        Work::parse(&input).map(drop).err(),
        set_value(&input, "chip.cores", text).map(drop).err(),
    ];
    for error in errors.into_iter().flatten() {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
});
