//! How every rail answers a ramp of current at every core: exact at the sampled times, computed
//! once, and all that superposition needs.
//!
//! The network is linear and does not depend on which cores are active, so droop adds up:
//! a wake-up current is three ramps, and a set of waking cores is a sum of wake-up currents.

use super::dense::{BandCholesky, Matrix};
use super::grid::Grid;
use super::spec::{Network, PdnError};

/// Times at which responses are kept, in nanoseconds: divides every stagger of the thesis.
const STEP_NS: f64 = 0.05;
/// For networks that ring faster than 40 steps a period.
const FINE_STEP_NS: f64 = 0.01;

/// Droop of each rail for a ramp of 1 A/s that starts at time 0 at each core.
#[derive(Clone, Debug)]
pub struct Responses {
    pub(crate) step_s: f64,
    pub(crate) samples: usize,
    /// Zeros before time 0, so that shifted responses can be read without a branch.
    pub(crate) lead: usize,
    /// How long to look at a rail after the last current has ended, in seconds.
    pub(crate) settle_s: f64,
    grid: Grid,
    ramps: Vec<f64>,
}

impl Responses {
    /// Solves a network.
    ///
    /// # Errors
    /// If the network's values are so far apart that doubles cannot hold the answer.
    pub fn new(network: &Network) -> Result<Responses, PdnError> {
        let spec = network.spec();
        let lc = spec.package.l_ph * 1e-12 * spec.core.c_decap_nf * 1e-9;
        let period_ns = std::f64::consts::TAU * lc.sqrt() * 1e9;
        let step_ns = if period_ns < 40.0 * STEP_NS { FINE_STEP_NS } else { STEP_NS };
        let settle_ns = (2.0 * period_ns).clamp(1.0, 40.0);
        let stagger_ns = spec.slots.stagger_ns * network.grid().cores().max(5) as f64;
        let span_ns = spec.wake_up.longest_ns + settle_ns + stagger_ns;
        let samples = (span_ns / step_ns).ceil() as usize + 2;
        let mut responses = Responses {
            step_s: step_ns * 1e-9,
            samples,
            lead: (spec.wake_up.longest_ns / step_ns).ceil() as usize + 4,
            settle_s: settle_ns * 1e-9,
            grid: network.grid(),
            ramps: Vec::new(),
        };
        responses.fill(network);
        if responses.ramps.iter().all(|v| v.is_finite()) {
            Ok(responses)
        } else {
            Err(PdnError::at("package.l_ph", "the response of the network is not finite"))
        }
    }

    /// Droop of `rail` for a ramp of 1 A/s at `source`, in volts, sample by sample.
    #[must_use]
    pub fn ramp(&self, rail: usize, source: usize) -> &[f64] {
        let at = (rail * self.grid.cores() + source) * self.samples;
        &self.ramps[at..at + self.samples]
    }

    fn fill(&mut self, network: &Network) {
        let (cores, samples) = (self.grid.cores(), self.samples);
        self.ramps = vec![0.0; cores * cores * samples];
        let symmetries = self.grid.symmetries(network.supplied());
        // The symmetry that takes each source to the first of its class.
        let first: Vec<&Vec<usize>> = (0..cores)
            .map(|core| symmetries.iter().min_by_key(|s| s[core]).expect("identity is one"))
            .collect();
        let sources: Vec<usize> = (0..cores).filter(|&core| first[core][core] == core).collect();
        let step = stepper(network, &sources, self.step_s).transposed();
        for (number, &source) in sources.iter().enumerate() {
            let mut state = vec![0.0; step.rows];
            let mut next = state.clone();
            // The slope of this source's current.
            let slope = step.rows - sources.len() + number;
            state[slope] = 1.0;
            for sample in 0..samples {
                for (rail, volts) in state[..cores].iter().enumerate() {
                    self.ramps[(rail * cores + source) * samples + sample] = -volts;
                }
                step.apply_transposed(&state, &mut next);
                std::mem::swap(&mut state, &mut next);
            }
        }
        for source in (0..cores).filter(|core| !sources.contains(core)) {
            let image = first[source];
            for rail in 0..cores {
                let from = (image[rail] * cores + image[source]) * samples;
                let to = (rail * cores + source) * samples;
                self.ramps.copy_within(from..from + samples, to);
            }
        }
    }
}

/// One step of the states (rails, inductor currents, then current and slope of each source), exact
/// for currents that are ramps.
fn stepper(network: &Network, sources: &[usize], step_s: f64) -> Matrix {
    let spec = network.spec();
    let cores = network.grid().cores();
    let paths: Vec<usize> = network.supplied().iter().collect();
    let states = cores + paths.len();
    let size = states + 2 * sources.len();
    let conductance = 1e3 / spec.core.r_pdn_mohm;
    let capacitance = spec.core.c_decap_nf * 1e-9;
    let inductance = spec.package.l_ph * 1e-12;
    let package = package_resistances(network);
    let mut rate = Matrix::zero(size, size);
    for rail in 0..cores {
        // C dv/dt = g (p - v) - i, with p = K^-1 (i_L + g v).
        for other in 0..cores {
            rate[(rail, other)] = conductance * conductance * package[(rail, other)] / capacitance;
        }
        rate[(rail, rail)] -= conductance / capacitance;
        for (path, &node) in paths.iter().enumerate() {
            rate[(rail, cores + path)] = conductance * package[(rail, node)] / capacitance;
        }
    }
    for (path, &node) in paths.iter().enumerate() {
        // L di/dt = -p - R i: the regulator's own voltage is steady.
        for rail in 0..cores {
            rate[(cores + path, rail)] = -conductance * package[(node, rail)] / inductance;
        }
        for (other, &end) in paths.iter().enumerate() {
            rate[(cores + path, cores + other)] = -package[(node, end)] / inductance;
        }
        rate[(cores + path, cores + path)] -= spec.package.r_mohm * 1e-3 / inductance;
    }
    for (number, &source) in sources.iter().enumerate() {
        rate[(source, states + number)] = -1.0 / capacitance;
        rate[(states + number, states + sources.len() + number)] = 1.0;
    }
    rate.scaled(step_s).exponential()
}

/// `K^-1`: voltage of each package node for a current into each, with the rails held.
fn package_resistances(network: &Network) -> Matrix {
    let grid = network.grid();
    let cores = grid.cores();
    let mut nodes = Matrix::zero(cores, cores);
    for core in 0..cores {
        nodes[(core, core)] = 1e3 / network.spec().core.r_pdn_mohm;
    }
    let shared = 1e3 / network.spec().package.r_shared_mohm;
    for (a, b) in grid.neighbours() {
        nodes[(a, a)] += shared;
        nodes[(b, b)] += shared;
        nodes[(a, b)] -= shared;
        nodes[(b, a)] -= shared;
    }
    let factors = BandCholesky::new(&nodes, grid.columns).expect("diagonally dominant");
    let mut inverse = Matrix::zero(cores, cores);
    for column in 0..cores {
        let mut side = vec![0.0; cores];
        side[column] = 1.0;
        factors.solve(&mut side);
        for (row, value) in side.iter().enumerate() {
            inverse[(row, column)] = *value;
        }
    }
    inverse
}
