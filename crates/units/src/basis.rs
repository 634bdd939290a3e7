//! How watts are known.

use core::fmt;

/// Origin of a machine's watts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum PowerBasis {
    /// Watts of a published work.
    #[default]
    Published,
    /// Watts that a meter read on this machine.
    Measured,
    /// Watts of parts that are assumed, so that the whole agrees with a published one.
    Estimated,
    /// Watts that are assumed, from similar parts.
    Assumed,
}

impl fmt::Display for PowerBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PowerBasis::Published => "published",
            PowerBasis::Measured => "measured",
            PowerBasis::Estimated => "estimated",
            PowerBasis::Assumed => "assumed",
        })
    }
}
