//! Arbitrary files of flows, coflows and connection matrices: what is read is possible between the
//! racks it is read for, and what is wrong is told with a line of the file.

use halfwink_fabric::flows::files::{needs, read_coflows, read_flows};
use halfwink_fabric::flows::htsim::read_matrix;

use crate::racks::racks;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let text = crate::text(bytes);
    let racks = racks(5, 3);
    let _ = needs(text);
    for read in [read_flows(text, &racks), read_coflows(text, &racks), read_matrix(text, &racks)] {
        match read {
            Ok(traffic) => {
                assert!(!traffic.flows().is_empty());
                for flow in traffic.flows() {
                    assert!(flow.from < 15 && flow.to < 15 && flow.from != flow.to);
                    assert!(flow.bytes >= 1.0 && flow.bytes <= 1e15);
                }
            }
            Err(error) => assert!((1..=text.lines().count().max(1)).contains(&error.line)),
        }
    }
}
