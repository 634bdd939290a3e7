//! Arbitrary job files and block traces: what is read can be played, and what is wrong is told with
//! its file.

use halfwink_storage::load::{File, Host, Issues, Load};

/// Checks what is said above of two files made of these bytes.
pub fn run(bytes: &[u8]) {
    let Some((first, second)) = crate::any::<(Vec<u8>, Vec<u8>)>(bytes) else { return };
    let file = |name: &str, bytes| File { name: name.to_owned(), bytes };
    match Load::read(&[file("a", first), file("b", second)], &Host::default()) {
        Ok(load) => {
            assert!(load.account().matters.is_empty());
            for (cpus, part) in [(1, 0.0), (8, 1.0)] {
                let issues = load.issues(cpus, part);
                assert!(!issues.is_empty() && issues.len() <= usize::from(cpus));
                for of_cpu in &issues {
                    assert!((1..=4096).contains(&of_cpu.depth()));
                    if let Issues::Open { requests, span_ps } = of_cpu {
                        assert!(requests.windows(2).all(|two| two[0].at_ps <= two[1].at_ps));
                        assert!(requests.iter().all(|it| it.at_ps < *span_ps));
                    }
                }
            }
        }
        Err(error) => assert!(error.file == "a" || error.file == "b"),
    }
}
