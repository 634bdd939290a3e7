//! DIR-24-8 (Gupta, Lin, McKeown 1998, "Routing lookups in hardware at memory access speeds"):
//! the first 24 bits of the destination index one table; prefixes longer than that have a second
//! one of 256 places for each of their /24s. A look-up is one or two loads.

use ipnet::Ipv4Net;

/// Places of the first table: 32 MB, for one load where a trie takes a walk.
const FIRST: usize = 1 << 24;
/// Set in a place of the first table that names a group of the second.
const GROUP: u16 = 0x8000;
/// Groups, and values, that 15 bits name.
pub(super) const MOST: usize = 0x8000;

/// A table of 15-bit values by IPv4 prefix. Value 0 is "none".
pub(super) struct Dir24 {
    first: Box<[u16; FIRST]>,
    second: Vec<[u16; 256]>,
    /// The value of 0.0.0.0/0 is kept aside: else it would fill 32 MB.
    default: u16,
}

impl Dir24 {
    /// Builds the table; of equal prefixes the last counts. `Err`: the number of /24s that hold
    /// longer prefixes, if it is above [`MOST`].
    pub(super) fn build(mut routes: Vec<(Ipv4Net, u16)>) -> Result<Dir24, usize> {
        // Shorter prefixes first, so that longer ones write over them. The sort is stable.
        routes.sort_by_key(|(prefix, _)| prefix.prefix_len());
        let first = vec![0u16; FIRST].into_boxed_slice();
        let Ok(first) = first.try_into() else { return Err(0) };
        let mut table = Dir24 { first, second: Vec::new(), default: 0 };
        for (prefix, value) in routes {
            table.paint(prefix, value);
        }
        if table.second.len() > MOST {
            return Err(table.second.len());
        }
        Ok(table)
    }

    fn paint(&mut self, prefix: Ipv4Net, value: u16) {
        let address = u32::from(prefix.network());
        let place = (address >> 8) as usize;
        match prefix.prefix_len() {
            0 => self.default = value,
            len @ 1..=24 => self.first[place..place + (1 << (24 - len))].fill(value),
            len => {
                let entry = self.first[place];
                let group = if entry & GROUP == 0 {
                    // What cannot be named is still counted, for the error.
                    let group = self.second.len();
                    self.second.push([entry; 256]);
                    self.first[place] = GROUP | (group % MOST) as u16;
                    group
                } else {
                    usize::from(entry & !GROUP)
                };
                let from = (address & 255) as usize;
                self.second[group][from..from + (1 << (32 - len))].fill(value);
            }
        }
    }

    /// The value of the longest prefix that holds `address`, or 0.
    #[inline]
    pub(super) fn lookup(&self, address: u32) -> u16 {
        let mut value = self.first[(address >> 8) as usize];
        if value & GROUP != 0 {
            value = self.second[usize::from(value & !GROUP)][(address & 255) as usize];
        }
        if value == 0 {
            self.default
        } else {
            value
        }
    }
}

impl std::fmt::Debug for Dir24 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Dir24({} groups, default {})", self.second.len(), self.default)
    }
}
