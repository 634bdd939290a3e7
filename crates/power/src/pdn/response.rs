//! How every rail answers a ramp of current at every core: exact at the sampled times, computed
//! once, and all that superposition needs.
//!
//! The network is linear and does not depend on which cores are active, so droop adds up:
//! a wake-up current is three ramps, and a set of waking cores is a sum of wake-up currents.

use super::dense::{solved, Matrix};
use super::grid::Grid;
use super::netlist::{Branch, Netlist};
use super::spec::{Network, PdnError};

/// Times at which responses are kept, in nanoseconds: divides every stagger of the thesis.
const STEP_NS: f64 = 0.05;
/// Step for networks that ring faster than 40 steps a period.
const FINE_STEP_NS: f64 = 0.01;

/// Droop of each rail for a ramp of 1 A/s that starts at time 0 at each core.
#[derive(Clone, Debug)]
pub struct Responses {
    pub(crate) step_s: f64,
    pub(crate) samples: usize,
    /// Zeros before time 0, so that shifted responses can be read without a branch.
    pub(crate) lead: usize,
    /// Time for which a rail is observed after the last current has ended, in seconds.
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
        let lc = network.path_l_ph() * 1e-12 * spec.core.c_decap_nf * 1e-9;
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
        responses.fill(network)?;
        if responses.ramps.iter().all(|v| v.is_finite()) {
            Ok(responses)
        } else {
            Err(PdnError::at(network.path_element(), "the response of the network is not finite"))
        }
    }

    /// Droop of `rail` for a ramp of 1 A/s at `source`, in volts, sample by sample.
    #[must_use]
    pub fn ramp(&self, rail: usize, source: usize) -> &[f64] {
        let at = (rail * self.grid.cores() + source) * self.samples;
        &self.ramps[at..at + self.samples]
    }

    fn fill(&mut self, network: &Network) -> Result<(), PdnError> {
        let (cores, samples) = (self.grid.cores(), self.samples);
        self.ramps = vec![0.0; cores * cores * samples];
        let symmetries = self.grid.symmetries(network.supplied());
        // The symmetry that takes each source to the first of its class.
        let first: Vec<&Vec<usize>> = (0..cores)
            .map(|core| symmetries.iter().min_by_key(|s| s[core]).expect("identity is one"))
            .collect();
        let sources: Vec<usize> = (0..cores).filter(|&core| first[core][core] == core).collect();
        let Some(step) = stepper(&Netlist::new(network), &sources, self.step_s) else {
            let message =
                "0, and mesh.plane.l_ph is 0: the voltage of the plane is not determined; \
                           expected one of them above 0";
            return Err(PdnError::at("mesh.plane.c_nf", message));
        };
        let step = step.transposed();
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
        Ok(())
    }
}

/// One step of the states (voltages of nodes with capacitance, rails first; currents of branches
/// with inductance; then current and slope of each source), exact for currents that are ramps.
/// `None` if some nodes are tied to the rest by inductances alone but to one another by resistors,
/// so that their voltage is not determined.
fn stepper(netlist: &Netlist, sources: &[usize], step_s: f64) -> Option<Matrix> {
    let states = States::new(netlist)?;
    let known = states.capacitors.len() + states.inductors.len();
    let size = known + 2 * sources.len();
    let mut rate = Matrix::zero(size, size);
    for (row, &node) in states.capacitors.iter().enumerate() {
        // C dv/dt = sum of currents into the node.
        for (number, branch) in netlist.branches.iter().enumerate() {
            let into = |end: Option<usize>| f64::from(u8::from(end == Some(node)));
            let sign = into(branch.to) - into(Some(branch.from));
            if sign != 0.0 {
                states.add_current(&mut rate, row, number, sign / netlist.farads[node]);
            }
        }
    }
    for (at, &number) in states.inductors.iter().enumerate() {
        // L di/dt = v_from - v_to - R i.
        let (row, branch) = (states.capacitors.len() + at, &netlist.branches[number]);
        states.add_volts(&mut rate, row, Some(branch.from), 1.0 / branch.henries);
        states.add_volts(&mut rate, row, branch.to, -1.0 / branch.henries);
        rate[(row, row)] -= branch.ohms / branch.henries;
    }
    for (number, &source) in sources.iter().enumerate() {
        rate[(source, known + number)] = -1.0 / netlist.farads[source];
        rate[(known + number, known + sources.len() + number)] = 1.0;
    }
    Some(rate.scaled(step_s).exponential())
}

/// State variables of the integration, and the relation of the other voltages to them.
struct States<'a> {
    netlist: &'a Netlist,
    /// Indices of nodes with capacitance.
    capacitors: Vec<usize>,
    /// Indices of branches with inductance.
    inductors: Vec<usize>,
    /// Voltage of each node from the states.
    volts: Matrix,
    /// State of each branch with inductance.
    state_of: Vec<usize>,
}

impl<'a> States<'a> {
    fn new(netlist: &'a Netlist) -> Option<States<'a>> {
        let nodes = netlist.farads.len();
        let capacitors: Vec<usize> = (0..nodes).filter(|&n| netlist.farads[n] > 0.0).collect();
        let others: Vec<usize> = (0..nodes).filter(|&n| netlist.farads[n] == 0.0).collect();
        let branches = &netlist.branches;
        let inductors: Vec<usize> =
            (0..branches.len()).filter(|&n| branches[n].henries > 0.0).collect();
        let known = capacitors.len() + inductors.len();
        let mut state_of = vec![usize::MAX; branches.len()];
        for (at, &number) in inductors.iter().enumerate() {
            state_of[number] = capacitors.len() + at;
        }
        let mut volts = Matrix::zero(nodes, known);
        for (at, &node) in capacitors.iter().enumerate() {
            volts[(node, at)] = 1.0;
        }
        let mut states = States { netlist, capacitors, inductors, volts, state_of };
        let follow = states.following(&others)?;
        for (at, &node) in others.iter().enumerate() {
            for state in 0..known {
                states.volts[(node, state)] = follow[(at, state)];
            }
        }
        Some(states)
    }

    /// Voltages of the nodes without capacitance. Currents out of such a node add up to nothing:
    /// if a resistor ends there that gives its voltage; if only inductances do, the same holds of
    /// the slopes of their currents.
    fn following(&self, others: &[usize]) -> Option<Matrix> {
        let known = self.capacitors.len() + self.inductors.len();
        let unknown = |node: usize| others.iter().position(|&other| other == node);
        let mut matrix = Matrix::zero(others.len(), others.len());
        let mut side = Matrix::zero(others.len(), known);
        for (row, &node) in others.iter().enumerate() {
            let ends = |b: &Branch| b.from == node || b.to == Some(node);
            let here: Vec<usize> = (0..self.netlist.branches.len())
                .filter(|&n| ends(&self.netlist.branches[n]))
                .collect();
            let resistive = here.iter().any(|&n| self.netlist.branches[n].henries == 0.0);
            for number in here {
                let branch = &self.netlist.branches[number];
                let outward = branch.from == node;
                let sign = if outward { 1.0 } else { -1.0 };
                let far = if outward { branch.to } else { Some(branch.from) };
                let weight = match (resistive, branch.henries > 0.0) {
                    (true, true) => {
                        side[(row, self.state_of[number])] -= sign;
                        continue;
                    }
                    (true, false) => 1.0 / branch.ohms,
                    (false, _) => {
                        let drop = sign * branch.ohms / branch.henries;
                        side[(row, self.state_of[number])] += drop;
                        1.0 / branch.henries
                    }
                };
                matrix[(row, row)] += weight;
                match far.map(|node| (node, unknown(node))) {
                    None => {}
                    Some((_, Some(other))) => matrix[(row, other)] -= weight,
                    Some((node, None)) => {
                        let at = self.capacitors.iter().position(|&c| c == node)?;
                        side[(row, at)] += weight;
                    }
                }
            }
        }
        solved(matrix, side)
    }

    /// Adds `factor` times the current of a branch to a row of rates.
    fn add_current(&self, rate: &mut Matrix, row: usize, number: usize, factor: f64) {
        let branch = &self.netlist.branches[number];
        if branch.henries > 0.0 {
            rate[(row, self.state_of[number])] += factor;
        } else {
            self.add_volts(rate, row, Some(branch.from), factor / branch.ohms);
            self.add_volts(rate, row, branch.to, -factor / branch.ohms);
        }
    }

    /// Adds `factor` times the voltage of a node to a row of rates; the regulator's is steady.
    fn add_volts(&self, rate: &mut Matrix, row: usize, node: Option<usize>, factor: f64) {
        let Some(node) = node else { return };
        for (state, &share) in self.volts.row(node).iter().enumerate() {
            rate[(row, state)] += factor * share;
        }
    }
}
