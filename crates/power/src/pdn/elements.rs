//! The numbers of a description by name: what range they may have, and how to change one.

use super::spec::{Mesh, NetworkSpec, Package, PdnError, MAX_CORES};

/// A number of a description; none where the description has no such part.
type Element = fn(&mut NetworkSpec) -> Option<&mut f64>;

/// Zero would divide; the far ends are beyond any chip, and keep products finite.
const ELEMENTS: [(&str, f64, f64, Element); 27] = [
    ("core.supply_v", 0.1, 100.0, |s| Some(&mut s.core.supply_v)),
    ("core.c_core_nf", 1e-4, 1e6, |s| Some(&mut s.core.c_core_nf)),
    ("core.c_decap_nf", 1e-4, 1e6, |s| Some(&mut s.core.c_decap_nf)),
    ("core.r_pdn_mohm", 1e-4, 1e7, |s| Some(&mut s.core.r_pdn_mohm)),
    ("core.i_active_a", 0.0, 1e4, |s| Some(&mut s.core.i_active_a)),
    ("package.l_ph", 1e-3, 1e6, |s| lumped(s, |p| &mut p.l_ph)),
    ("package.r_mohm", 0.0, 1e7, |s| lumped(s, |p| &mut p.r_mohm)),
    ("package.r_shared_mohm", 1e-4, 1e9, |s| lumped(s, |p| &mut p.r_shared_mohm)),
    ("mesh.die.r_mohm", 1e-4, 1e9, |s| mesh(s, |m| &mut m.die.r_mohm)),
    ("mesh.bump.l_ph", 0.0, 1e6, |s| mesh(s, |m| &mut m.bump.l_ph)),
    ("mesh.bump.r_mohm", 0.0, 1e7, |s| mesh(s, |m| &mut m.bump.r_mohm)),
    ("mesh.plane.l_ph", 0.0, 1e6, |s| mesh(s, |m| &mut m.plane.l_ph)),
    ("mesh.plane.r_mohm", 1e-4, 1e9, |s| mesh(s, |m| &mut m.plane.r_mohm)),
    ("mesh.plane.c_nf", 0.0, 1e6, |s| mesh(s, |m| &mut m.plane.c_nf)),
    ("mesh.ball.l_ph", 1e-3, 1e6, |s| mesh(s, |m| &mut m.ball.l_ph)),
    ("mesh.ball.r_mohm", 0.0, 1e7, |s| mesh(s, |m| &mut m.ball.r_mohm)),
    ("mesh.board.c_uf", 1e-3, 1e6, |s| mesh(s, |m| &mut m.board.c_uf)),
    ("mesh.board.esr_mohm", 1e-4, 1e7, |s| mesh(s, |m| &mut m.board.esr_mohm)),
    ("mesh.board.esl_ph", 0.0, 1e6, |s| mesh(s, |m| &mut m.board.esl_ph)),
    ("mesh.regulator.l_ph", 1e-3, 1e6, |s| mesh(s, |m| &mut m.regulator.l_ph)),
    ("mesh.regulator.r_mohm", 0.0, 1e7, |s| mesh(s, |m| &mut m.regulator.r_mohm)),
    ("wake_up.rise_share", 0.01, 0.99, |s| Some(&mut s.wake_up.rise_share)),
    ("wake_up.fastest_ns", 0.5, 1e3, |s| Some(&mut s.wake_up.fastest_ns)),
    ("wake_up.longest_ns", 0.5, 200.0, |s| Some(&mut s.wake_up.longest_ns)),
    ("limits.active_droop", 1e-6, 1.0, |s| Some(&mut s.limits.active_droop)),
    ("limits.standby_droop", 1e-6, 1.0, |s| Some(&mut s.limits.standby_droop)),
    ("slots.stagger_ns", 0.0, 10.0, |s| Some(&mut s.slots.stagger_ns)),
];

fn lumped(spec: &mut NetworkSpec, of: fn(&mut Package) -> &mut f64) -> Option<&mut f64> {
    spec.package.as_mut().map(of)
}

fn mesh(spec: &mut NetworkSpec, of: fn(&mut Mesh) -> &mut f64) -> Option<&mut f64> {
    spec.mesh.as_mut().map(of)
}

/// The number of this name, if the description has it, with its range.
pub(crate) fn element<'a>(
    spec: &'a mut NetworkSpec,
    name: &str,
) -> Option<(&'a mut f64, (f64, f64))> {
    let &(_, min, max, of) = ELEMENTS.iter().find(|(known, ..)| *known == name)?;
    Some((of(spec)?, (min, max)))
}

/// Every number lies where the solver is exact, and every calibrated one is there.
pub(crate) fn check(spec: &NetworkSpec) -> Result<(), PdnError> {
    let mut spec = spec.clone();
    if spec.package.is_some() == spec.mesh.is_some() {
        return Err(PdnError::at("package", "expected either [package] or [mesh]"));
    }
    let fastest_ns = spec.wake_up.fastest_ns;
    for (name, min, max, of) in ELEMENTS {
        let Some(&mut value) = of(&mut spec) else { continue };
        let min = if name == "wake_up.longest_ns" { fastest_ns } else { min };
        if !(value >= min && value <= max) {
            let message = format!("{value}, expected {min} to {max}");
            return Err(PdnError::at(name, message));
        }
    }
    if spec.slots.count == 0 || spec.slots.count > MAX_CORES {
        let message = format!("{}, expected 1 to {MAX_CORES}", spec.slots.count);
        return Err(PdnError::at("slots.count", message));
    }
    let names = spec.calibrated.clone();
    match names.iter().find(|name| element(&mut spec, name).is_none()) {
        None => Ok(()),
        Some(name) => {
            let known = ELEMENTS.iter().filter(|(.., of)| of(&mut spec).is_some());
            let known: Vec<&str> = known.map(|(known, ..)| *known).collect();
            let message = format!("no element `{name}`; there are: {}", known.join(", "));
            Err(PdnError::at("calibrated", message))
        }
    }
}
