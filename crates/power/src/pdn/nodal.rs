//! The same network the way circuit simulators solve it: nodes, companion models of the trapezoidal
//! rule, one factorisation for all steps. It checks [`Responses`](super::Responses), and tells
//! where the energy goes.

use super::case::Case;
use super::dense::{BandCholesky, Matrix};
use super::netlist::{Branch, Netlist};
use super::spec::Network;
use super::wave::Triangle;

/// Voltages of the rails and energy of a wake-up.
#[derive(Clone, Debug)]
pub struct Transient {
    /// Time between samples, in seconds.
    pub step_s: f64,
    /// Voltage below the steady state, in volts: of each core, of each sample from time 0.
    pub droop_v: Vec<Vec<f64>>,
    /// Heat in the resistors due to the wake-up alone, in joules.
    pub dissipated_j: f64,
    /// Energy in inductors and capacitors at the end due to the wake-up, in joules.
    pub stored_j: f64,
    /// Energy that the wake-up currents put into the deviation from the steady state, in joules.
    pub given_j: f64,
}

/// Plays a case for `span_ns` in steps of `step_ns`.
///
/// The unknowns are deviations from the steady state: the circuit is linear, so the constant
/// currents of active cores and the regulator's voltage cancel.
#[must_use]
pub fn transient(network: &Network, case: &Case, step_ns: f64, span_ns: f64) -> Transient {
    let mut circuit = Circuit::new(network, step_ns * 1e-9);
    let waves: Vec<(usize, Triangle)> = case
        .starts
        .iter()
        .map(|&(core, start_ns)| (core, Triangle::new(network, case.wake_ns, start_ns)))
        .collect();
    let steps = (span_ns / step_ns).ceil() as usize;
    let mut droop_v = vec![vec![0.0]; network.grid().cores()];
    for step in 1..=steps {
        let time_s = step as f64 * circuit.step_s;
        let mut currents = vec![0.0; network.grid().cores()];
        for (core, wave) in &waves {
            currents[*core] += wave.at(time_s);
        }
        circuit.advance(&currents);
        for (core, droop) in droop_v.iter_mut().enumerate() {
            droop.push(-circuit.volts[core]);
        }
    }
    Transient {
        step_s: circuit.step_s,
        droop_v,
        dissipated_j: circuit.dissipated_j,
        stored_j: circuit.stored_j(),
        given_j: circuit.given_j,
    }
}

/// The elements with what the trapezoidal rule keeps of each.
struct Circuit {
    step_s: f64,
    factors: BandCholesky,
    netlist: Netlist,
    /// Current of each branch.
    branch_amps: Vec<f64>,
    /// Current into the capacitance of each node.
    node_amps: Vec<f64>,
    volts: Vec<f64>,
    currents: Vec<f64>,
    dissipated_j: f64,
    given_j: f64,
}

impl Circuit {
    fn new(network: &Network, step_s: f64) -> Circuit {
        let netlist = Netlist::new(network);
        let count = netlist.farads.len();
        let mut nodes = Matrix::zero(count, count);
        let mut band = 0;
        for branch in &netlist.branches {
            let siemens = 1.0 / (2.0 * branch.henries / step_s + branch.ohms);
            nodes[(branch.from, branch.from)] += siemens;
            let Some(to) = branch.to else { continue };
            nodes[(to, to)] += siemens;
            nodes[(branch.from, to)] -= siemens;
            nodes[(to, branch.from)] -= siemens;
            band = band.max(to.abs_diff(branch.from));
        }
        for (node, farads) in netlist.farads.iter().enumerate() {
            nodes[(node, node)] += 2.0 * farads / step_s;
        }
        Circuit {
            step_s,
            factors: BandCholesky::new(&nodes, band).expect("diagonally dominant"),
            branch_amps: vec![0.0; netlist.branches.len()],
            node_amps: vec![0.0; count],
            volts: vec![0.0; count],
            currents: vec![0.0; network.grid().cores()],
            netlist,
            dissipated_j: 0.0,
            given_j: 0.0,
        }
    }

    /// One step, at whose end these currents leave the rails.
    fn advance(&mut self, currents: &[f64]) {
        let half = 0.5 * self.step_s;
        let across = |volts: &[f64], branch: &Branch| {
            volts[branch.from] - branch.to.map_or(0.0, |to| volts[to])
        };
        let mut side = vec![0.0; self.volts.len()];
        for (branch, &amps) in self.netlist.branches.iter().zip(&self.branch_amps) {
            // What the branch carries at the end of the step if its ends were at one voltage.
            let reactance = branch.henries / half;
            let history = if branch.henries > 0.0 {
                amps * (reactance - branch.ohms) + across(&self.volts, branch)
            } else {
                0.0
            };
            let history = history / (reactance + branch.ohms);
            side[branch.from] -= history;
            if let Some(to) = branch.to {
                side[to] += history;
            }
        }
        for (node, farads) in self.netlist.farads.iter().enumerate() {
            side[node] += farads / half * self.volts[node] + self.node_amps[node];
        }
        for (rail, &amps) in currents.iter().enumerate() {
            side[rail] -= amps;
        }
        self.factors.solve(&mut side);
        for (branch, amps) in self.netlist.branches.iter().zip(&mut self.branch_amps) {
            let reactance = branch.henries / half;
            let now = if branch.henries > 0.0 {
                let sum = across(&self.volts, branch) + across(&side, branch);
                (*amps * (reactance - branch.ohms) + sum) / (reactance + branch.ohms)
            } else {
                across(&side, branch) / branch.ohms
            };
            let mean = 0.5 * (*amps + now);
            self.dissipated_j += self.step_s * branch.ohms * mean * mean;
            *amps = now;
        }
        for (node, amps) in self.node_amps.iter_mut().enumerate() {
            let admittance = self.netlist.farads[node] / half;
            *amps = admittance * (side[node] - self.volts[node]) - *amps;
        }
        for (rail, &amps) in currents.iter().enumerate() {
            let mean = 0.5 * (self.currents[rail] + amps);
            self.given_j -= half * mean * (self.volts[rail] + side[rail]);
        }
        self.volts = side;
        self.currents = currents.to_vec();
    }

    fn stored_j(&self) -> f64 {
        let branches = self.netlist.branches.iter().zip(&self.branch_amps);
        let magnetic: f64 = branches.map(|(branch, amps)| branch.henries * amps * amps).sum();
        let nodes = self.netlist.farads.iter().zip(&self.volts);
        let electric: f64 = nodes.map(|(farads, volts)| farads * volts * volts).sum();
        0.5 * (magnetic + electric)
    }
}
