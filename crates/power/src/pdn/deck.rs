//! A case as a SPICE deck, so that any circuit simulator can judge it.

use std::fmt::Write;

use super::case::Case;
use super::netlist::Netlist;
use super::spec::Network;
use super::wave::Triangle;

/// The deck of a case, for `ngspice -b`: prints `droop<n>`, the largest droop of each core, in
/// volts.
///
/// The whole circuit is in it: regulator, steady currents of active cores, and the operating point
/// from which the transient starts.
#[must_use]
pub fn deck(network: &Network, case: &Case, step_ns: f64, span_ns: f64) -> String {
    let (spec, grid) = (network.spec(), network.grid());
    let mut text = format!(
        "* {}: {} in {} ns\n* written by halfwink; circuit: Strong 2013, Sec 2.2.2, Fig 2.4\n",
        spec.description,
        case.drawing(grid),
        case.wake_ns
    );
    let mut line = |words: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{words}");
    };
    line(format_args!("vreg reg 0 dc {}", spec.core.supply_v));
    let netlist = Netlist::new(network);
    let names = &netlist.names;
    for (n, branch) in netlist.branches.iter().enumerate() {
        let (from, to) = (&names[branch.from], branch.to.map_or("reg", |to| &names[to]));
        // A resistor of nothing is no element.
        let resistance = branch.ohms.max(1e-12);
        if branch.henries > 0.0 {
            line(format_args!("l{n} {to} m{n} {:e}", branch.henries));
            line(format_args!("r{n} m{n} {from} {resistance:e}"));
        } else {
            line(format_args!("r{n} {from} {to} {resistance:e}"));
        }
    }
    for (name, farads) in names.iter().zip(&netlist.farads).filter(|(_, &farads)| farads > 0.0) {
        line(format_args!("c{name} {name} 0 {farads:e}"));
    }
    for core in case.active.iter() {
        line(format_args!("ia{core} d{core} 0 dc {}", spec.core.i_active_a));
    }
    for &(core, start_ns) in &case.starts {
        let wave = Triangle::new(network, case.wake_ns, start_ns);
        let (start, top) = (wave.start_s, wave.start_s + wave.rise_s);
        let end = wave.start_s + wave.wake_s;
        let lead = if start > 0.0 { format!("0 0 {start:e} 0") } else { "0 0".to_owned() };
        line(format_args!("iw{core} d{core} 0 pwl({lead} {top:e} {:e} {end:e} 0)", wave.peak_a));
    }
    line(format_args!(".options method=trap reltol=1e-5"));
    line(format_args!(".control\nset numdgt=9"));
    line(format_args!("tran {step_ns}n {span_ns}n 0 {step_ns}n"));
    for core in 0..grid.cores() {
        line(format_args!("let droop{core} = d{core}[0] - vecmin(d{core})\nprint droop{core}"));
    }
    line(format_args!("quit\n.endc\n.end"));
    text
}
