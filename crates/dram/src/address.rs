//! Which channel, bank and row a line lies in.

use serde::Deserialize;

use crate::spec::Spec;
use crate::timing::SpecError;

/// Position of the bank group among the fields of an address, listed from the highest bits down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MapOrder {
    /// Neighbouring lines lie in one row of one group.
    RowRankBankGroupColumn,
    /// Neighbouring lines lie in different groups, which can follow each other faster.
    RowRankBankColumnGroup,
}

/// Bits that are mixed into the bank and rank, so that distant rows do not collide in one bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BankHash {
    /// Mixes in no other bits.
    None,
    /// The lowest bits of the row. Lines that are a large power of two apart, as a line and the
    /// victim that it displaces, still meet.
    Low,
    /// All bits of the row, folded (after Zhang et al., MICRO 2000).
    Fold,
}

/// Bits of line numbers that are addresses: a petabyte, and who owns it above.
const ADDRESS_BITS: u32 = 48;

/// Location of a line in the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the channel.
    pub channel: usize,
    /// Bank of the channel: rank, then group, then bank of the group.
    pub bank: usize,
    /// Row within the bank.
    pub row: u64,
}

/// Takes line numbers apart. Channels alternate from line to line; what is above is one channel's.
#[derive(Clone, Copy, Debug)]
pub struct AddressMap {
    channel_bits: u32,
    column_bits: u32,
    group_bits: u32,
    bank_bits: u32,
    rank_bits: u32,
    order: MapOrder,
    hash: BankHash,
}

impl AddressMap {
    /// Creates the map of a memory whose specification was checked.
    ///
    /// # Errors
    /// More channels, ranks, banks and columns than an address has bits.
    pub fn new(spec: &Spec) -> Result<AddressMap, SpecError> {
        let bits = |n: u64| n.trailing_zeros();
        // All counts are powers of two (`Spec::check`): their zeros are their bits.
        let map = AddressMap {
            channel_bits: bits(spec.channels as u64),
            column_bits: bits(spec.device.row_bytes / 64),
            group_bits: bits(spec.device.groups as u64),
            bank_bits: bits(spec.device.banks as u64),
            rank_bits: bits(spec.ranks as u64),
            order: spec.map,
            hash: spec.hash,
        };
        if map.channel_bits + map.row_shift() > ADDRESS_BITS {
            let message = format!(
                "{} channels of 2^{} lines before the second row: more than the 2^{ADDRESS_BITS} \
                 lines that addresses have",
                spec.channels,
                map.row_shift()
            );
            return Err(SpecError::new("channels", message));
        }
        Ok(map)
    }

    fn row_shift(&self) -> u32 {
        self.column_bits + self.group_bits + self.bank_bits + self.rank_bits
    }

    /// Returns the location of a line.
    #[inline]
    #[must_use]
    pub fn place(&self, line: u64) -> Place {
        let own = line >> self.channel_bits;
        let mask = |bits: u32| (1u64 << bits) - 1;
        // With more than one channel, all higher bits choose among them too: a stride of many lines
        // must not meet one channel alone.
        let channel = match self.channel_bits {
            0 => 0,
            bits => (line ^ fold(own, bits)) & mask(bits),
        };
        let row = own >> self.row_shift();
        let (group, rest) = match self.order {
            MapOrder::RowRankBankGroupColumn => {
                let above = own >> self.column_bits;
                (above & mask(self.group_bits), above >> self.group_bits)
            }
            MapOrder::RowRankBankColumnGroup => {
                (own & mask(self.group_bits), own >> (self.group_bits + self.column_bits))
            }
        };
        let (group, bank, rank) = self.hashed(group, rest, row);
        // Rank on top: banks of one rank are neighbours, as refresh and the rank's limits need
        // them.
        let bank = (rank << self.group_bits | group) << self.bank_bits | bank;
        Place { channel: channel as usize, bank: bank as usize, row }
    }

    /// Group, bank and rank after hashing; `rest` holds bank and rank.
    #[inline]
    fn hashed(&self, group: u64, rest: u64, row: u64) -> (u64, u64, u64) {
        let mask = |bits: u32| (1u64 << bits) - 1;
        // A group that alternates from line to line is visited by every stream anyway: to hash it
        // would only take bits away from bank and rank.
        let (kept, hashed_bits) = match self.order {
            MapOrder::RowRankBankGroupColumn => (rest << self.group_bits | group, self.group_bits),
            MapOrder::RowRankBankColumnGroup => (rest, 0),
        };
        let width = hashed_bits + self.bank_bits + self.rank_bits;
        let mixed = match self.hash {
            BankHash::None => 0,
            BankHash::Low => row & mask(width),
            BankHash::Fold => fold(row, width),
        };
        let all = (kept & mask(width)) ^ mixed;
        let group = if hashed_bits > 0 { all & mask(hashed_bits) } else { group };
        let rest = all >> hashed_bits;
        (group, rest & mask(self.bank_bits), rest >> self.bank_bits)
    }
}

/// All bits of a number, folded to a few by exclusive or.
#[inline]
fn fold(mut n: u64, bits: u32) -> u64 {
    if bits == 0 {
        return 0;
    }
    let mut folded = 0;
    while n != 0 {
        folded ^= n & ((1 << bits) - 1);
        n >>= bits;
    }
    folded
}
