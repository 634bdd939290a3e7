//! The registers of a second level that user and kernel share, as a policy sets them.

/// One of the two virtual threads of a core: user code, and the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Side {
    /// Side of user code.
    User,
    /// Side of the kernel.
    Kernel,
}

/// Which line of a set leaves, and how near its end a fill comes in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used; fills come in at the rule's rank.
    #[default]
    Lru,
    /// Static RRIP: fills come in at 2.
    Srrip,
    /// Dynamic RRIP: as static, or at 3 but for every 32nd, whichever of the two misses less in the
    /// sets that are set aside to try them.
    Drrip,
    /// Static RRIP, but at 3 for fills of instructions whose fills were not used again.
    Ship,
}

/// Which of the kernel's fills go to the kernel's side; all others go to the user's (Nellans 2014,
/// Sec 5.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Route {
    /// Instructions and data (ID).
    #[default]
    Both,
    /// Routes data only (DO).
    Data,
    /// Routes instructions only (IO).
    Instructions,
}

impl Route {
    /// All of them, in the order in which a choice tries them (assumption: none is printed).
    pub const ALL: [Route; 3] = [Route::Data, Route::Instructions, Route::Both];

    /// Returns the name that users, tables and plans use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Route::Both => "both",
            Route::Data => "data",
            Route::Instructions => "instructions",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Route> {
        Route::ALL.into_iter().find(|route| route.name() == name)
    }

    /// Returns the side that a fill goes to.
    #[inline]
    #[must_use]
    pub const fn side(self, kernel: bool, code: bool) -> Side {
        let routed = match self {
            Route::Both => true,
            Route::Data => !code,
            Route::Instructions => code,
        };
        if kernel && routed {
            Side::Kernel
        } else {
            Side::User
        }
    }
}

/// Part of the cache that belongs to a side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum Split {
    /// No split: both compete for the whole cache.
    #[default]
    None,
    /// This many ways of each set to the kernel, the others to the user (column caching; Nellans
    /// 2014, Sec 5.4): where a fill may go, not where a line is found. From 1 to all but one.
    Ways(u8),
    /// Half of the sets to each, as one of two banks (Nellans 2014, Sec 5.2).
    Banks,
}

/// Order in which two banks are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "kebab-case")
)]
pub enum LookUp {
    /// Both banks at once, each with the latency of a bank.
    #[default]
    Parallel,
    /// The bank in which the reference's own fills go first; if it is not there, the other, with
    /// the latency of the whole cache (zero-storage prediction; Nellans 2014, Sec 5.2.3).
    Serial,
}

/// Rule of a cache at a fill, as in its registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rule {
    /// Which fills are the kernel's.
    pub route: Route,
    /// Part of the cache that belongs to a side.
    pub split: Split,
    /// Rank in the order of recency at which a fill of a side (user, kernel) comes in: 0 as the
    /// most recent, ways - 1 as the next to leave (Nellans 2014, Sec 5.3).
    pub insertion: [u8; 2],
    /// Order in which two banks are looked up.
    pub look_up: LookUp,
}

impl Rule {
    /// One LRU stack for all.
    pub const LRU: Rule = Rule {
        route: Route::Both,
        split: Split::None,
        insertion: [0; 2],
        look_up: LookUp::Parallel,
    };

    /// A bank for each side.
    #[must_use]
    pub const fn banks(route: Route, look_up: LookUp) -> Rule {
        Rule { route, split: Split::Banks, look_up, ..Rule::LRU }
    }

    /// Gives `kernel` ways to the kernel.
    #[must_use]
    pub const fn ways(route: Route, kernel: u8) -> Rule {
        Rule { route, split: Split::Ways(kernel), ..Rule::LRU }
    }

    /// Ranks at which fills come in (user, kernel).
    #[must_use]
    pub const fn insertion(user: u8, kernel: u8) -> Rule {
        Rule { insertion: [user, kernel], ..Rule::LRU }
    }
}
