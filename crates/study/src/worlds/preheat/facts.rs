//! Values of a description, as facts.

use super::PreheatInfo;
use crate::table::{real, text, Table};

impl PreheatInfo {
    pub(super) fn facts(&self) -> Table {
        let mut table = Table::new(&[text("fact"), real("value")]);
        let spec = &self.spec;
        let budget = spec.network.lead_us - spec.sleep.wake_us;
        for (fact, value) in [
            ("network.lead_us", spec.network.lead_us),
            ("network.prototype_lead_us", spec.network.prototype_lead_us),
            ("sleep.wake_us", spec.sleep.wake_us),
            ("budget_us", budget),
            ("core.cores", f64::from(spec.core.cores)),
            ("loader.cores", f64::from(spec.loader.cores)),
            ("llc.kib", spec.llc.kib as f64),
        ] {
            table.push(vec![fact.into(), value.into()]);
        }
        table
    }
}
