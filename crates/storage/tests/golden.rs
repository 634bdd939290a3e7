//! Runs that stay as they are, to the picosecond, whatever is restructured.

use crate::common;

use common::{machine, play_with};
use halfwink_storage::world::{Path, Setting};

#[test]
fn golden_runs() {
    let machine = machine("westmere-ex", &[]);
    let mut found = Vec::new();
    for name in ["single-thread", "same", "issuer", "cache-aware", "msi-x", "multi-queue", "polled"]
    {
        for path in [Path::Driver, Path::Queue] {
            let run = play_with(&machine, name, |s: &mut Setting| {
                (s.issuers, s.path) = (13, path);
                (s.warm_up, s.ios) = (2_000, 5_000);
            })
            .unwrap();
            let energy = run.books.energy_where(|_| true).0;
            let grants = run.locks.map(|lock| lock.grants + lock.crossings);
            found.push(format!("{name} {path:?} {} {energy} {grants:?}", run.duration.0));
        }
    }
    let known = include_str!("golden.txt");
    let found = found.join("\n") + "\n";
    assert_eq!(found, known, "if the model was meant to change, these are the runs now:\n{found}");
}
