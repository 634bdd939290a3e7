//! What the wake-up latency owes to each element.

use serde::Serialize;

use super::elements::element;
use super::search::Search;
use super::spec::{Network, PdnError};

/// Rows and columns of the smallest chip with two inner cores side by side.
pub(super) const REFERENCE: (usize, usize) = (4, 4);
/// Below this a latency is not looked for where the fastest mode does not matter, in nanoseconds.
const FLOOR_NS: f64 = 0.5;

/// Shortest safe wake-up for an inner core of a chip of 16 while the first `count` cores beside it
/// wake, in nanoseconds: patterns of Strong 2013, Fig 2.5.
///
/// # Errors
/// If the network cannot be solved as a chip of 16, or the limit cannot be kept.
pub fn beside_inner_ns(network: &Network, count: usize) -> Result<f64, PdnError> {
    let search = Search::new(&network.with_grid(REFERENCE.0, REFERENCE.1)?)?;
    // Core 5 has inner neighbours 6 and 9, and 1 and 4 on the edge.
    let starts: Vec<(usize, f64)> =
        [6, 9, 1, 4].iter().take(count).map(|&core| (core, 0.0)).collect();
    search.shortest_ns(5, &starts, &search.active_limit(), FLOOR_NS)
}

/// Scales of Strong 2013, Fig 2.6.
pub const SCALES: [f64; 6] = [0.1, 0.25, 0.5, 1.0, 1.5, 2.0];

/// Elements that are scaled: those of Strong 2013, Fig 2.6, and those of a mesh that it lumps. Each
/// has a name, the scaled elements, and whether they grow with the scale or shrink.
const SCALED: [(&str, &[&str], bool); 13] = [
    // The thesis divides a bump's inductance and resistance by the number of bumps.
    ("bumps", &["package.l_ph", "package.r_mohm"], false),
    ("bumps", &["mesh.bump.l_ph", "mesh.bump.r_mohm"], false),
    ("package.l_ph", &["package.l_ph"], true),
    ("package.r_mohm", &["package.r_mohm"], true),
    ("package.r_shared_mohm", &["package.r_shared_mohm"], true),
    ("mesh.die.r_mohm", &["mesh.die.r_mohm"], true),
    ("mesh.bump.l_ph", &["mesh.bump.l_ph"], true),
    ("mesh.plane.r_mohm", &["mesh.plane.r_mohm"], true),
    ("mesh.ball.l_ph", &["mesh.ball.l_ph"], true),
    ("mesh.ball.r_mohm", &["mesh.ball.r_mohm"], true),
    ("mesh.board.esl_ph", &["mesh.board.esl_ph"], true),
    ("core.supply_v", &["core.supply_v"], true),
    // The decoupling capacitance is a share of the core's (Sec 2.2.2).
    ("core.c_core_nf", &["core.c_core_nf", "core.c_decap_nf"], true),
];

/// `T0` with one element scaled (Strong 2013, Fig 2.6).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// The element; `bumps` divides inductance and resistance of the package.
    pub element: &'static str,
    /// Factor on the element.
    pub scale: f64,
    /// One core waking beside an inner one, in nanoseconds; none where no wake-up up to the longest
    /// is safe.
    pub t0_ns: Option<f64>,
}

/// `T0` with each element scaled.
///
/// # Errors
/// If the network itself cannot be solved.
pub fn sensitivity(network: &Network) -> Result<Vec<Sensitivity>, PdnError> {
    let unscaled_ns = beside_inner_ns(network, 1)?;
    let mut rows = Vec::new();
    for (name, elements, grows) in SCALED {
        let has = |e: &&str| element(&mut network.spec().clone(), e).is_some();
        if !elements.iter().all(has) {
            continue;
        }
        for scale in SCALES {
            let scaled = || {
                let mut spec = network.spec().clone();
                for name in elements {
                    if let Some((value, _)) = element(&mut spec, name) {
                        *value *= if grows { scale } else { 1.0 / scale };
                    }
                }
                Network::new(spec).and_then(|n| beside_inner_ns(&n, 1)).ok()
            };
            let t0_ns = if scale == 1.0 { Some(unscaled_ns) } else { scaled() };
            rows.push(Sensitivity { element: name, scale, t0_ns });
        }
    }
    Ok(rows)
}
