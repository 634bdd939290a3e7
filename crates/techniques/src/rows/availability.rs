//! Availability of techniques: what an operator can use today, and what the others need.

/// What a machine of today lacks for a technique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Availability {
    /// Nothing: it is a setting, a program or a product that exists.
    Today,
    /// A change of a kernel, a driver or firmware.
    Kernel,
    /// Hardware that is not sold.
    Silicon,
    /// Knowledge of the future: a bound that no machine reaches.
    Bound,
}

impl Availability {
    /// Its name, for other languages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Availability::Today => "today",
            Availability::Kernel => "kernel",
            Availability::Silicon => "silicon",
            Availability::Bound => "bound",
        }
    }
}

/// Availability of a technique, with the means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Available {
    /// What a machine of today lacks.
    pub needs: Availability,
    /// How to get it, in one line.
    pub how: &'static str,
    /// Whether a machine does it unless its operator chooses something else.
    pub is_usual: bool,
}

const fn needs(needs: Availability, how: &'static str) -> Available {
    Available { needs, how, is_usual: false }
}

/// A setting, a program or a product that exists.
pub(super) const fn today(how: &'static str) -> Available {
    needs(Availability::Today, how)
}

/// As [`today`], and what a machine does unless its operator chooses something else.
pub(super) const fn usual(how: &'static str) -> Available {
    Available { is_usual: true, ..today(how) }
}

/// A change of a kernel, a driver or firmware.
pub(super) const fn kernel(how: &'static str) -> Available {
    needs(Availability::Kernel, how)
}

/// Hardware that is not sold.
pub(super) const fn silicon(how: &'static str) -> Available {
    needs(Availability::Silicon, how)
}

/// A bound that knows the future.
pub(super) const fn bound(how: &'static str) -> Available {
    needs(Availability::Bound, how)
}
