//! The shipped hybrid server.

use halfwink_engine::Law;
use halfwink_techniques::server::Spec;

/// Without the workloads whose sizes are files: the library reads those.
pub fn niccolini() -> Spec {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/server/niccolini.toml");
    let mut spec: Spec = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    spec.workloads.retain(|_, workload| !matches!(workload.size, Law::Cdf { .. }));
    spec
}
