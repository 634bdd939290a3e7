//! What the wake-up latency owes to each element, and the values of the two that no source gives.

use serde::Serialize;

use super::fit::Equation;
use super::grid::Cores;
use super::search::Search;
use super::spec::{Network, NetworkSpec, PdnError};

/// Rows and columns of the smallest chip with two inner cores side by side.
const REFERENCE: (usize, usize) = (4, 4);
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

/// How to scale one element.
type Scaled = fn(&mut NetworkSpec, f64);

/// Elements of Fig 2.6.
const SCALED: [(&str, Scaled); 6] = [
    ("bumps", |spec, by| {
        spec.package.l_ph /= by;
        spec.package.r_mohm /= by;
    }),
    ("package.l_ph", |spec, by| spec.package.l_ph *= by),
    ("package.r_mohm", |spec, by| spec.package.r_mohm *= by),
    ("package.r_shared_mohm", |spec, by| spec.package.r_shared_mohm *= by),
    ("core.supply_v", |spec, by| spec.core.supply_v *= by),
    ("core.c_core_nf", |spec, by| {
        // The decoupling capacitance is a share of it (Sec 2.2.2).
        spec.core.c_core_nf *= by;
        spec.core.c_decap_nf *= by;
    }),
];

/// `T0` with one element scaled (Strong 2013, Fig 2.6).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity {
    /// The element; `bumps` divides inductance and resistance of the package.
    pub element: &'static str,
    /// Its scale.
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
    let mut rows = Vec::new();
    for (element, scaled) in SCALED {
        for scale in SCALES {
            let mut spec = network.spec().clone();
            scaled(&mut spec, scale);
            let t0_ns = Network::new(spec).and_then(|n| beside_inner_ns(&n, 1));
            if scale == 1.0 {
                t0_ns.clone()?;
            }
            rows.push(Sensitivity { element, scale, t0_ns: t0_ns.ok() });
        }
    }
    Ok(rows)
}

/// Critical core and waking cores of a chip of 16 in a calibration, in the manner of Fig 2.5: from
/// one to four beside an inner core, one diagonally, all eight around it, all others; one beside a
/// corner, and all others seen from it.
const ANCHORS: [(usize, &[usize]); 9] = [
    (5, &[6]),
    (5, &[6, 9]),
    (5, &[6, 9, 1]),
    (5, &[6, 9, 1, 4]),
    (5, &[10]),
    (5, &[6, 9, 1, 4, 0, 2, 8, 10]),
    (5, &[0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
    (0, &[1]),
    (0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]),
];
/// Where the knobs are looked for: inductance in picohenries, resistance in milliohms. Above half
/// an ohm, 50 times the printed `R_shared`, the package hardly joins the cores any more; another
/// minimum lies there, near 1.4 ohm.
const KNOBS: [(f64, f64); 2] = [(5.0, 500.0), (4.0, 500.0)];

/// The two calibration knobs, `package.l_ph` and `package.r_shared_mohm`: the pair that comes
/// nearest (least squares of relative errors) to what `published` says of a chip of 16, on nine
/// patterns. A search on ever finer grids, the same in every run.
///
/// # Errors
/// If the network is not one.
pub fn calibrate(network: &Network, published: &Equation) -> Result<(f64, f64), PdnError> {
    const LINES: usize = 9;
    let network = network.with_grid(REFERENCE.0, REFERENCE.1)?;
    let mut middle = KNOBS.map(|(low, high)| (low * high).sqrt().ln());
    let mut half = KNOBS.map(|(low, high)| 0.5 * (high / low).ln());
    for _ in 0..8 {
        let line = |axis: usize, n: usize| {
            let (low, high) = KNOBS[axis];
            let at = middle[axis] + half[axis] * (2.0 * n as f64 / (LINES - 1) as f64 - 1.0);
            at.clamp(low.ln(), high.ln())
        };
        let mut best = (f64::INFINITY, middle);
        for n in 0..LINES * LINES {
            let at = [line(0, n / LINES), line(1, n % LINES)];
            let cost = anchor_cost(&network, at[0].exp(), at[1].exp(), published);
            if cost < best.0 {
                best = (cost, at);
            }
        }
        middle = best.1;
        half = half.map(|h| 0.4 * h);
    }
    Ok((middle[0].exp(), middle[1].exp()))
}

/// Sum of squared logarithmic errors on the anchors; infinite where a limit cannot be kept.
fn anchor_cost(network: &Network, l_ph: f64, r_shared_mohm: f64, published: &Equation) -> f64 {
    let mut spec = network.spec().clone();
    spec.package.l_ph = l_ph;
    spec.package.r_shared_mohm = r_shared_mohm;
    let Ok(search) = Network::new(spec).and_then(|n| Search::new(&n)) else { return f64::INFINITY };
    let mut cost = 0.0;
    for (critical, waking) in ANCHORS {
        let starts: Vec<(usize, f64)> = waking.iter().map(|&core| (core, 0.0)).collect();
        let limit = search.active_limit();
        let Ok(ours) = search.shortest_ns(critical, &starts, &limit, FLOOR_NS) else {
            return f64::INFINITY;
        };
        let at = search.grid().surroundings(critical, Cores::of(waking.iter().copied()));
        cost += (ours / published.wake_ns(at)).ln().powi(2);
    }
    cost
}
