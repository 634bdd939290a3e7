//! Timing of a channel, in clocks of its command bus, and what it must obey to be possible.

use serde::Deserialize;

/// Delays between commands of a channel, in clocks. Names are those of the JEDEC standards; `_l`
/// holds within a bank group, `_s` across groups. A device without groups has both alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// A line on the data bus.
    pub burst: u64,
    /// Read command to data.
    pub t_cl: u64,
    /// Write command to data.
    pub t_cwl: u64,
    /// Activate to column command of the bank.
    pub t_rcd: u64,
    /// Precharge to activate of the bank.
    pub t_rp: u64,
    /// Activate to precharge of the bank.
    pub t_ras: u64,
    /// End of write data to precharge of the bank.
    pub t_wr: u64,
    /// Read command to precharge of the bank.
    pub t_rtp: u64,
    /// Column command to the next of its kind in the group.
    pub t_ccd_l: u64,
    /// Column command to the next of its kind in another group of the rank.
    pub t_ccd_s: u64,
    /// Activate to activate in the group.
    pub t_rrd_l: u64,
    /// Activate to activate in another group of the rank.
    pub t_rrd_s: u64,
    /// The rank opens at most four rows within this.
    pub t_faw: u64,
    /// End of write data to read command in the group.
    pub t_wtr_l: u64,
    /// End of write data to read command in another group of the rank.
    pub t_wtr_s: u64,
    /// Idle clocks on the data bus where it changes its driver.
    pub t_rtrs: u64,
    /// Refresh to activate in the rank.
    pub t_rfc: u64,
    /// Interval between refreshes of a rank; 0 means no refresh.
    pub t_refi: u64,
}

/// A description of memory that contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {message}")]
pub struct SpecError {
    /// The value at fault, as the description names it.
    pub key: &'static str,
    /// Message with the value found and the values allowed.
    pub message: String,
}

impl SpecError {
    pub(crate) fn new(key: &'static str, message: impl Into<String>) -> SpecError {
        SpecError { key, message: message.into() }
    }
}

/// Longer delays than any device has; sums of a few stay far from the end of `u64`.
const LONGEST: u64 = 1 << 20;

impl Timing {
    /// Values with their names.
    fn named(&self) -> [(&'static str, u64); 18] {
        [
            ("burst", self.burst),
            ("t_cl", self.t_cl),
            ("t_cwl", self.t_cwl),
            ("t_rcd", self.t_rcd),
            ("t_rp", self.t_rp),
            ("t_ras", self.t_ras),
            ("t_wr", self.t_wr),
            ("t_rtp", self.t_rtp),
            ("t_ccd_l", self.t_ccd_l),
            ("t_ccd_s", self.t_ccd_s),
            ("t_rrd_l", self.t_rrd_l),
            ("t_rrd_s", self.t_rrd_s),
            ("t_faw", self.t_faw),
            ("t_wtr_l", self.t_wtr_l),
            ("t_wtr_s", self.t_wtr_s),
            ("t_rtrs", self.t_rtrs),
            ("t_rfc", self.t_rfc),
            ("t_refi", self.t_refi),
        ]
    }

    /// Refuses values that no device can have together.
    ///
    /// # Errors
    /// The first value that contradicts another, and which.
    pub fn check(&self) -> Result<(), SpecError> {
        for (key, clocks) in self.named() {
            if clocks > LONGEST {
                return Err(SpecError::new(key, format!("{clocks} clocks, expected at most 2^20")));
            }
        }
        for key in ["burst", "t_cl", "t_rcd", "t_rp", "t_ras"] {
            if self.named().contains(&(key, 0)) {
                return Err(SpecError::new(key, "0 clocks, expected at least 1"));
            }
        }
        let least = |key, own: u64, what: &str, other: u64| {
            let message = format!("{own} clocks, expected at least {what}, which is {other}");
            if own < other {
                Err(SpecError::new(key, message))
            } else {
                Ok(())
            }
        };
        // Data of a row cannot be read and the row closed before it is there.
        least("t_ras", self.t_ras, "t_rcd", self.t_rcd)?;
        least("t_ccd_l", self.t_ccd_l, "t_ccd_s", self.t_ccd_s)?;
        least("t_rrd_l", self.t_rrd_l, "t_rrd_s", self.t_rrd_s)?;
        least("t_wtr_l", self.t_wtr_l, "t_wtr_s", self.t_wtr_s)?;
        least("t_faw", self.t_faw, "t_rrd_s", self.t_rrd_s)?;
        // Else a write after a read would begin before the read.
        least("t_cl", self.t_cl + self.burst + self.t_rtrs, "t_cwl", self.t_cwl)?;
        if self.t_refi > 0 {
            let busy = self.t_rfc + self.t_ras + self.t_rp;
            let what = "t_rfc + t_ras + t_rp, else a rank does nothing but refresh";
            least("t_refi", self.t_refi, what, busy)?;
        }
        Ok(())
    }
}
