//! Power of a core, from what is written to what is possible.

use halfwink_engine::InputError;
use halfwink_power::CorePower;
use toml::Spanned;

use super::file::CorePowerSection;
use super::value::{Check, POWER};

impl Check<'_> {
    /// Power of a core in every state, and energy of every event.
    pub(super) fn core_power(
        &self,
        section: &Spanned<CorePowerSection>,
    ) -> Result<CorePower, InputError> {
        let watts = |value: Option<f64>, key: &str, state: &str| match value {
            Some(w) if POWER.contains(&w) => Ok(w),
            Some(w) => Err(self.fail(section, format!("{key} = {w}, expected 0 to 1e9 W"))),
            None => {
                let message = format!("missing field `{key}`: nothing says what {state}");
                Err(self.fail(section, message))
            }
        };
        let file = section.get_ref();
        let core = CorePower {
            leakage_w: watts(file.leakage_w, "leakage_w", "a core takes while its supply is on")?,
            clock_w: watts(file.clock_w, "clock_w", "the clock takes in the state `active`")?,
            stalled_clock_w: watts(
                file.stalled_clock_w,
                "stalled_clock_w",
                "the clock takes in the state `stalled`",
            )?,
            event_pj: file.event_pj.get_ref().clone(),
        };
        if core.leakage_w == 0.0 {
            return Err(self.fail(section, "a core that does not leak cannot gain by gating"));
        }
        let e = &core.event_pj;
        let energies =
            [e.uop, e.alu, e.multiply, e.fp, e.l1i_access, e.l1d_access, e.l2_access, e.mispredict];
        if energies.iter().any(|pj| !POWER.contains(pj)) {
            return Err(self.fail(&file.event_pj, "an energy out of 0 to 1e9 pJ"));
        }
        Ok(core)
    }
}
