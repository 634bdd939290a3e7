//! The circuit of a network as its elements: nodes with capacitance to ground, and branches of
//! resistance and inductance between them. Both solvers and the SPICE deck read it.

use super::spec::{Mesh, Network, Package};

/// Resistance and inductance in series.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    /// Node at its start.
    pub(crate) from: usize,
    /// Node at its end; none is the regulator, whose voltage is steady.
    pub(crate) to: Option<usize>,
    pub(crate) ohms: f64,
    /// 0 is a resistor.
    pub(crate) henries: f64,
}

/// Nodes and branches. Nodes `0..cores` are the rails.
#[derive(Clone, Debug)]
pub(crate) struct Netlist {
    /// Name of each node.
    pub(crate) names: Vec<String>,
    /// Capacitance of each node to ground, in farads; 0 is none.
    pub(crate) farads: Vec<f64>,
    pub(crate) branches: Vec<Branch>,
}

/// Series resistance and inductance between two nodes, in the units of descriptions.
#[derive(Clone, Copy)]
struct Part {
    r_mohm: f64,
    l_ph: f64,
}

impl Netlist {
    pub(crate) fn new(network: &Network) -> Netlist {
        let spec = network.spec();
        let mut list = Netlist { names: vec![], farads: vec![], branches: vec![] };
        for core in 0..network.grid().cores() {
            list.node(format!("d{core}"), spec.core.c_decap_nf * 1e-9);
        }
        match (&spec.package, &spec.mesh) {
            (Some(package), _) => list.lumped(network, package),
            (_, Some(mesh)) => list.mesh(network, mesh),
            // Refused when the network was made.
            (None, None) => {}
        }
        list
    }

    fn node(&mut self, name: String, farads: f64) -> usize {
        self.names.push(name);
        self.farads.push(farads);
        self.names.len() - 1
    }

    fn branch(&mut self, from: usize, to: Option<usize>, part: Part) {
        let (ohms, henries) = (part.r_mohm * 1e-3, part.l_ph * 1e-12);
        self.branches.push(Branch { from, to, ohms, henries });
    }

    /// Strong 2013, Fig 2.4: a path to the regulator for each core, resistors between package
    /// nodes.
    fn lumped(&mut self, network: &Network, package: &Package) {
        let (grid, spec) = (network.grid(), network.spec());
        let nodes: Vec<usize> =
            (0..grid.cores()).map(|core| self.node(format!("p{core}"), 0.0)).collect();
        for core in network.supplied().iter() {
            let part = Part { r_mohm: package.r_mohm, l_ph: package.l_ph };
            self.branch(nodes[core], None, part);
        }
        for (a, b) in grid.neighbours() {
            let part = Part { r_mohm: package.r_shared_mohm, l_ph: 0.0 };
            self.branch(nodes[a], Some(nodes[b]), part);
        }
        for (core, &node) in nodes.iter().enumerate() {
            self.branch(node, Some(core), Part { r_mohm: spec.core.r_pdn_mohm, l_ph: 0.0 });
        }
    }

    /// Grid on the die, bumps, package plane, balls, and the board of each quadrant.
    fn mesh(&mut self, network: &Network, mesh: &Mesh) {
        let (grid, spec) = (network.grid(), network.spec());
        let plane: Vec<usize> = (0..grid.cores())
            .map(|core| self.node(format!("p{core}"), mesh.plane.c_nf * 1e-9))
            .collect();
        for (core, &node) in plane.iter().enumerate() {
            let r_mohm = spec.core.r_pdn_mohm + mesh.bump.r_mohm;
            self.branch(node, Some(core), Part { r_mohm, l_ph: mesh.bump.l_ph });
        }
        for (a, b) in grid.neighbours() {
            self.branch(a, Some(b), Part { r_mohm: mesh.die.r_mohm, l_ph: 0.0 });
            let part = Part { r_mohm: mesh.plane.r_mohm, l_ph: mesh.plane.l_ph };
            self.branch(plane[a], Some(plane[b]), part);
        }
        let boards: Vec<usize> = (0..4).map(|q| self.board(q, mesh)).collect();
        for core in network.supplied().iter() {
            for (quadrant, share) in grid.quadrants(core) {
                let part = Part { r_mohm: mesh.ball.r_mohm / share, l_ph: mesh.ball.l_ph / share };
                self.branch(plane[core], Some(boards[quadrant]), part);
            }
        }
    }

    /// The node on the board that feeds a quadrant, with its capacitors and its regulator path.
    fn board(&mut self, quadrant: usize, mesh: &Mesh) -> usize {
        let node = self.node(format!("b{quadrant}"), 0.0);
        let plate = self.node(format!("k{quadrant}"), mesh.board.c_uf * 1e-6);
        let esr = Part { r_mohm: mesh.board.esr_mohm, l_ph: mesh.board.esl_ph };
        self.branch(node, Some(plate), esr);
        let path = Part { r_mohm: mesh.regulator.r_mohm, l_ph: mesh.regulator.l_ph };
        self.branch(node, None, path);
        node
    }
}
