//! Arbitrary text as the description of a router, a server, a machine with storage, a fabric, one
//! that preheats, one that switches, a supply network: told in one line what is wrong, or made.

use halfwink_engine::Input;
use halfwink_power::pdn::{Network, NetworkSpec};

fn told<T, E: ToString>(result: Result<T, E>) {
    if let Err(error) = result {
        let told = error.to_string();
        assert!(!told.is_empty() && !told.contains('\n'), "{told}");
    }
}

/// Reads it as a description, and makes something of it.
fn make<S: serde::de::DeserializeOwned, T, E: ToString>(
    input: &Input,
    make: impl FnOnce(S) -> Result<T, E>,
) {
    told(input.parse::<S>().map_err(|e| e.to_string()).and_then(|spec| {
        make(spec).map_err(|e| e.to_string())
    }));
}

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let input = Input::new("x.toml", crate::text(bytes));
    make(&input, halfwink_techniques::router::Model::new);
    make(&input, halfwink_techniques::server::Model::new);
    make(&input, halfwink_storage::Machine::new);
    make(&input, halfwink_fabric::Fabric::new);
    make(&input, |spec: halfwink_preheat::Spec| spec.check());
    make(&input, halfwink_switching::Model::new);
    make(&input, |spec: NetworkSpec| Network::new(spec));
}
