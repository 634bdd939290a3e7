//! The same network the way circuit simulators solve it: nodes, companion models of the trapezoidal
//! rule, one factorisation for all steps. It checks [`Responses`](super::Responses), and tells
//! where the energy goes.

use super::case::Case;
use super::dense::{BandCholesky, Matrix};
use super::spec::Network;
use super::wave::Triangle;

/// What happened to the rails, and to the energy of the wake-up.
#[derive(Clone, Debug)]
pub struct Transient {
    /// Time between samples, in seconds.
    pub step_s: f64,
    /// Voltage below the steady state, in volts: of each core, of each sample from time 0.
    pub droop_v: Vec<Vec<f64>>,
    /// What the resistors turned into heat because of the wake-up alone, in joules.
    pub dissipated_j: f64,
    /// What inductors and capacitors hold at the end because of it, in joules.
    pub stored_j: f64,
    /// What the wake-up currents put into the deviation from the steady state, in joules.
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
            droop.push(-circuit.volts[2 * core + 1]);
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

/// Nodes `2 n` (package) and `2 n + 1` (rail) of core `n`.
struct Circuit {
    step_s: f64,
    factors: BandCholesky,
    /// Resistors between nodes, in siemens.
    resistors: Vec<(usize, usize, f64)>,
    /// Paths to the regulator: package node, current into it.
    paths: Vec<(usize, f64)>,
    inductance: f64,
    resistance: f64,
    capacitance: f64,
    volts: Vec<f64>,
    decap_amps: Vec<f64>,
    currents: Vec<f64>,
    dissipated_j: f64,
    given_j: f64,
}

impl Circuit {
    fn new(network: &Network, step_s: f64) -> Circuit {
        let (spec, grid) = (network.spec(), network.grid());
        let cores = grid.cores();
        let mut resistors: Vec<(usize, usize, f64)> =
            (0..cores).map(|n| (2 * n, 2 * n + 1, 1e3 / spec.core.r_pdn_mohm)).collect();
        let shared = 1e3 / spec.package.r_shared_mohm;
        resistors.extend(grid.neighbours().map(|(a, b)| (2 * a, 2 * b, shared)));
        let inductance = spec.package.l_ph * 1e-12;
        let resistance = spec.package.r_mohm * 1e-3;
        let capacitance = spec.core.c_decap_nf * 1e-9;
        let mut nodes = Matrix::zero(2 * cores, 2 * cores);
        for &(a, b, siemens) in &resistors {
            nodes[(a, a)] += siemens;
            nodes[(b, b)] += siemens;
            nodes[(a, b)] -= siemens;
            nodes[(b, a)] -= siemens;
        }
        for core in network.supplied().iter() {
            nodes[(2 * core, 2 * core)] += 1.0 / (2.0 * inductance / step_s + resistance);
        }
        for core in 0..cores {
            nodes[(2 * core + 1, 2 * core + 1)] += 2.0 * capacitance / step_s;
        }
        let factors = BandCholesky::new(&nodes, 2 * grid.columns).expect("diagonally dominant");
        Circuit {
            step_s,
            factors,
            resistors,
            paths: network.supplied().iter().map(|core| (2 * core, 0.0)).collect(),
            inductance,
            resistance,
            capacitance,
            volts: vec![0.0; 2 * cores],
            decap_amps: vec![0.0; cores],
            currents: vec![0.0; cores],
            dissipated_j: 0.0,
            given_j: 0.0,
        }
    }

    /// One step, at whose end these currents leave the rails.
    fn advance(&mut self, currents: &[f64]) {
        let (reactance, admittance) =
            (2.0 * self.inductance / self.step_s, 2.0 * self.capacitance / self.step_s);
        let mut side = vec![0.0; self.volts.len()];
        for &(node, amps) in &self.paths {
            let history = amps * (reactance - self.resistance) - self.volts[node];
            side[node] += history / (reactance + self.resistance);
        }
        for (core, &amps) in currents.iter().enumerate() {
            let rail = 2 * core + 1;
            side[rail] += admittance * self.volts[rail] + self.decap_amps[core] - amps;
        }
        self.factors.solve(&mut side);
        let half = 0.5 * self.step_s;
        for (node, amps) in &mut self.paths {
            let history = *amps * (reactance - self.resistance) - self.volts[*node];
            let now = (history - side[*node]) / (reactance + self.resistance);
            self.dissipated_j += half * self.resistance * (*amps + now) * (*amps + now) * 0.5;
            *amps = now;
        }
        for (core, amps) in self.decap_amps.iter_mut().enumerate() {
            let rail = 2 * core + 1;
            *amps = admittance * (side[rail] - self.volts[rail]) - *amps;
            let mean = 0.5 * (self.currents[core] + currents[core]);
            self.given_j -= half * mean * (self.volts[rail] + side[rail]);
        }
        for &(a, b, siemens) in &self.resistors {
            let drop = 0.5 * (self.volts[a] - self.volts[b] + side[a] - side[b]);
            self.dissipated_j += self.step_s * siemens * drop * drop;
        }
        self.volts = side;
        self.currents = currents.to_vec();
    }

    fn stored_j(&self) -> f64 {
        let magnetic: f64 = self.paths.iter().map(|(_, amps)| amps * amps).sum();
        let rails = self.volts.iter().skip(1).step_by(2);
        let electric: f64 = rails.map(|volts| volts * volts).sum();
        0.5 * (self.inductance * magnetic + self.capacitance * electric)
    }
}
