//! The ordered set of machines that a description has: a pair, or as many of each kind as it says.

use halfwink_policy::steering::Side;

use super::model::machine;
use super::{Machine, MachineModel, ModelError, Spec};

/// Machines of a set at most.
pub const MOST: u32 = 250;

/// Machines in the order in which they are activated.
#[derive(Clone, Debug)]
pub struct Set {
    /// Names of the kinds, in the order of their first machine.
    kinds: Vec<String>,
    /// Kind of the machine at each place.
    places: Vec<u8>,
    /// Name of the machine at each place.
    names: Vec<String>,
    machines: Vec<MachineModel>,
    is_pair: bool,
}

impl Spec {
    /// Returns the description of a kind that was checked.
    pub(super) fn kind(&self, name: &str) -> &Machine {
        match name {
            "small" => &self.small,
            "big" => &self.big,
            _ => &self.kinds[name],
        }
    }

    /// Returns the kind whose times a workload has for this one.
    pub(super) fn times_of<'a>(&'a self, kind: &'a str) -> &'a str {
        self.kind(kind).times.as_deref().unwrap_or(kind)
    }

    /// Checks the values of a kind, and whose times it has.
    fn check_kind(&self, name: &str) -> Result<(), ModelError> {
        let own = matches!(name, "small" | "big");
        let at = if own { name.to_owned() } else { format!("kinds.{name}") };
        let times = |message: &str| Err(ModelError::at(format!("{at}.times"), message));
        match self.kind(name).times.as_deref() {
            None if own => {}
            Some("small" | "big") if !own => {}
            Some(_) if own => return times("expected none: workloads have times of its own"),
            _ => return times("expected `small` or `big`, whose times workloads have"),
        }
        machine(&at, self.kind(name)).map(drop)
    }
}

impl Set {
    pub(super) fn of(spec: &Spec) -> Result<Set, ModelError> {
        for name in ["small", "big"].into_iter().chain(spec.kinds.keys().map(String::as_str)) {
            if matches!(name, "small" | "big") && spec.kinds.contains_key(name) {
                let message = "expected another name: it has a section of its own";
                return Err(ModelError::at(format!("kinds.{name}"), message));
            }
            spec.check_kind(name)?;
        }
        let pair = ["small", "big"].map(str::to_owned);
        let members = if spec.machines.is_empty() { &pair[..] } else { &spec.machines };
        let mut set = Set {
            kinds: Vec::new(),
            places: Vec::new(),
            names: Vec::new(),
            machines: Vec::new(),
            is_pair: members == pair,
        };
        for members in members {
            set.extend(spec, members)?;
        }
        set.name();
        Ok(set)
    }

    /// Adds machines of a kind: `small`, or `small*4`.
    fn extend(&mut self, spec: &Spec, members: &str) -> Result<(), ModelError> {
        let (kind, count) = members.split_once('*').unwrap_or((members, "1"));
        let wrong = |expected: &str| {
            Err(ModelError::at("machines", format!("found `{members}`, expected {expected}")))
        };
        if !matches!(kind, "small" | "big") && !spec.kinds.contains_key(kind) {
            return wrong("one of small, big and the names of kinds, as small or small*4");
        }
        let count = count.parse().ok().filter(|count| (1..=MOST).contains(count));
        let Some(count) = count.filter(|count| self.places.len() as u32 + count <= MOST) else {
            return wrong(&format!("1 to {MOST} machines, in all"));
        };
        let number = self.kinds.iter().position(|known| known == kind).unwrap_or_else(|| {
            self.kinds.push(kind.to_owned());
            self.kinds.len() - 1
        });
        let model = machine(kind, spec.kind(kind))?;
        for _ in 0..count {
            self.places.push(number as u8);
            self.machines.push(model);
        }
        Ok(())
    }

    /// Names machines after their kind, with numbers where there are several of it.
    fn name(&mut self) {
        let count = |kind: u8| self.places.iter().filter(|&&k| k == kind).count();
        let name = |(place, &kind): (usize, &u8)| {
            let name = &self.kinds[usize::from(kind)];
            let before = self.places[..place].iter().filter(|&&k| k == kind).count();
            if count(kind) == 1 {
                name.clone()
            } else {
                format!("{name}-{}", before + 1)
            }
        };
        self.names = self.places.iter().enumerate().map(name).collect();
    }

    /// Returns whether it is one small machine and one big one, in this order.
    #[must_use]
    pub fn is_pair(&self) -> bool {
        self.is_pair
    }

    /// Returns the machine at a place, as policies name it.
    #[inline]
    #[must_use]
    pub fn side(&self, place: usize) -> Side {
        if self.is_pair {
            Side::BOTH[place]
        } else {
            Side::Place(place as u8)
        }
    }

    /// Machines in their order, as policies name them.
    pub fn sides(&self) -> impl Iterator<Item = Side> + '_ {
        (0..self.machines.len()).map(|place| self.side(place))
    }

    /// Returns the machines in their order.
    #[must_use]
    pub fn machines(&self) -> &[MachineModel] {
        &self.machines
    }

    /// Returns the names of the machines in their order: `small`, or `small-1`, `small-2`.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Names of the kinds, in the order of their first machine.
    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(String::as_str)
    }

    /// Returns whether the machine at a place is of the kind of the last one: the big one of a
    /// pair.
    #[must_use]
    pub fn is_of_last_kind(&self, place: usize) -> bool {
        self.places.get(place) == self.places.last()
    }

    pub(super) fn kind_at_places(&self) -> &[u8] {
        &self.places
    }

    pub(super) fn kind_of(&self, side: Side) -> &str {
        &self.kinds[usize::from(self.places[side.index()])]
    }
}
