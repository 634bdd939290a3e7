//! Arbitrary text as a chip: told in one line what is wrong, or made.

use halfwink_chip::Machine;
use halfwink_engine::Input;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    match Machine::parse(&Input::new("x.toml", crate::text(bytes))) {
        Ok(machine) => drop(machine.facts()),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}
