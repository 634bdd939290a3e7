//! Parts of a core that lose their contents in a state without supply.

use halfwink_power::Lost;

/// Parts that one state loses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) l1i: bool,
    pub(crate) l1d: bool,
    pub(crate) l2: bool,
    pub(crate) l3: bool,
    pub(crate) branch: bool,
    pub(crate) tlb: bool,
}

impl Losses {
    pub(crate) fn of(parts: &[Lost]) -> Losses {
        let has = |part| parts.contains(&part);
        Losses {
            l1i: has(Lost::L1i),
            l1d: has(Lost::L1d),
            l2: has(Lost::L2),
            l3: has(Lost::L3),
            branch: has(Lost::Branch),
            tlb: has(Lost::Tlb),
        }
    }

    /// Returns whether it loses anything.
    pub(crate) fn any(self) -> bool {
        self != Losses::default()
    }
}
