//! Arbitrary text as a study, a file of targets, a value to set.

use halfwink_engine::{set_value, Input};
use halfwink_study::{PublishedWork, Study};

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let text = crate::text(bytes);
    let input = Input::new("x.toml", text);
    let errors = [
        Study::parse("x", &input)
            .map(|study| assert!(study.jobs().map_or(0, |jobs| jobs.len()) < 1 << 24))
            .err(),
        PublishedWork::parse(&input).map(drop).err(),
        set_value(&input, "chip.cores", text).map(drop).err(),
    ];
    for error in errors.into_iter().flatten() {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
