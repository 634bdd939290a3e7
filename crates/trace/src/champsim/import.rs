//! From ChampSim records to a trace.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufReader, Cursor, Read, Write};

use halfwink_units::{PhysAddr, VirtAddr};

use super::form::{self, Layout, RecordForm};
use super::lengths::Lengths;
use super::{Record, FLAGS, INSTRUCTION_POINTER, STACK_POINTER};
use crate::error::{Problem, TraceError};
use crate::fill::fill;
use crate::format::{BlockDef, Code, CodeForm, Header, RawAccess, Summary, TraceWriter};
use crate::program::BlockId;
use crate::record::{Branch, Instr, Kind, RegSet};
use crate::source::Address;

/// Longest block made on import. Records have no blocks: a run of records is cut at branches and
/// jumps in the address. A limit keeps straight code of any length from being held back.
const MAX_BLOCK: usize = 64;
/// Bytes of a line in ChampSim and here.
const LINE_BYTES: u64 = 64;

/// Records read ahead of the one that is written, so that most calls have returned by then and tell
/// their lengths ([`Lengths`]): 4 MB. A call that returns later is known from its second time on.
const READ_AHEAD: usize = 1 << 16;

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Name of the workload.
    pub workload: String,
    /// Text on the origin of the trace.
    pub origin: String,
    /// Records to read at most.
    pub limit: Option<u64>,
    /// Level of zstd compression.
    pub level: i32,
}

/// Reads ChampSim records from `input`, unpacked, and writes a halfwink trace to `out`.
///
/// # Errors
/// If the records end in the middle of one, are not of this form, or if there are none.
pub fn import_champsim<W: Write>(
    mut input: impl Read,
    form: RecordForm,
    options: &ImportOptions,
    out: W,
) -> Result<(Summary, W), TraceError> {
    let mut header = Header::new(&options.workload, &options.origin, CodeForm::Decoded);
    header.notes.push(
        "imported from ChampSim records: user instructions only, physical addresses are the \
         virtual ones, accesses are 8 bytes or end with their line, functional units are guessed"
            .to_owned(),
    );
    let io = |e| TraceError::at(0, Problem::Io(e));
    let mut importer = Importer {
        writer: TraceWriter::create(out, &header, options.level).map_err(io)?,
        registers: Registers::default(),
        blocks: HashMap::new(),
        pending: Vec::new(),
    };
    let (layout, head) = form::layout(&mut input, form)?;
    let input = BufReader::new(Cursor::new(head).chain(input));
    let records = Records { input: Box::new(input), layout, at: 0 };
    let mut ahead = Ahead {
        records,
        // One more than is written: its address is where the last one goes.
        left: options.limit.unwrap_or(u64::MAX).saturating_add(1),
        waiting: VecDeque::new(),
        lengths: Lengths::default(),
    };
    let mut left = options.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let Some((record, next_ip)) = ahead.next()? else { break };
        let (length, follows) = ahead.lengths.of(&record, next_ip);
        importer.push(record, length, follows).map_err(io)?;
        left -= 1;
    }
    importer.end_block().map_err(io)?;
    if importer.writer.totals().instructions == 0 {
        return Err(TraceError::at(0, Problem::NoInstructions));
    }
    importer.writer.finish().map_err(io)
}

struct Records<'a> {
    input: Box<dyn Read + 'a>,
    layout: Layout,
    at: u64,
}

impl Records<'_> {
    fn next(&mut self) -> Result<Option<Record>, TraceError> {
        let mut bytes = [0; Layout::LONGEST];
        let wanted = self.layout.bytes;
        match fill(&mut self.input, &mut bytes[..wanted]) {
            Ok(0) => return Ok(None),
            Ok(read) if read < wanted => {
                let why = format!(
                    "the records end in the middle of one: {read} of {wanted} bytes; is this a \
                     ChampSim trace?"
                );
                return Err(TraceError::at(self.at, Problem::Import(why)));
            }
            Ok(_) => {}
            Err(e) => return Err(form::unreadable(self.at, &e)),
        }
        self.at += wanted as u64;
        Ok(Some(self.layout.parse(&bytes)))
    }
}

/// Reads records ahead and learns from them.
struct Ahead<'a> {
    records: Records<'a>,
    /// Records to read at most.
    left: u64,
    waiting: VecDeque<Record>,
    lengths: Lengths,
}

impl Ahead<'_> {
    /// The next record, with the address of the one behind it.
    fn next(&mut self) -> Result<Option<(Record, Option<u64>)>, TraceError> {
        while self.waiting.len() < READ_AHEAD && self.left > 0 {
            let Some(record) = self.records.next()? else {
                self.left = 0;
                break;
            };
            self.left -= 1;
            if let Some(before) = self.waiting.back() {
                self.lengths.learn(before, record.ip);
            }
            self.waiting.push_back(record);
        }
        let Some(record) = self.waiting.pop_front() else { return Ok(None) };
        Ok(Some((record, self.waiting.front().map(|next| next.ip))))
    }
}

/// Bytes of an access, which records do not say: eight, but never into the next line. ChampSim
/// takes each for one of its line, and most that would reach beyond are shorter ones.
fn size(at: u64) -> u8 {
    let in_line = LINE_BYTES - at % LINE_BYTES;
    in_line.min(8) as u8
}

/// Gives ChampSim's register numbers, which mean nothing in particular, a place in a [`RegSet`].
#[derive(Default)]
struct Registers {
    known: HashMap<u8, u32>,
}

impl Registers {
    fn set(&mut self, numbers: &[u8]) -> RegSet {
        let bit = |n: u8| self.bit(n);
        RegSet(numbers.iter().filter(|&&n| n != 0).copied().map(bit).fold(0, |set, b| set | b))
    }

    fn bit(&mut self, number: u8) -> u64 {
        match number {
            STACK_POINTER => RegSet::STACK_POINTER.0,
            FLAGS => RegSet::FLAGS.0,
            INSTRUCTION_POINTER => 0,
            _ => {
                // General registers first, without the stack pointer; then vectors; then the rest
                // share one.
                let next = self.known.len() as u32;
                let n = *self.known.entry(number).or_insert(match next {
                    0..=3 => next,
                    4..=14 => next + 1,
                    15..=46 => next + 2,
                    _ => 57,
                });
                1 << n
            }
        }
    }
}

struct Importer<W: Write> {
    writer: TraceWriter<W>,
    registers: Registers,
    blocks: HashMap<Vec<u8>, BlockId>,
    pending: Vec<(Record, u8)>,
}

impl<W: Write> Importer<W> {
    fn push(&mut self, record: Record, length: u8, follows: bool) -> io::Result<()> {
        self.pending.push((record, length));
        if record.branch() != Branch::None || !follows || self.pending.len() == MAX_BLOCK {
            self.end_block()?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        let Some(&(first, _)) = self.pending.first() else { return Ok(()) };
        // Everything of the block but its addresses, and whether the branch was taken.
        let mut key = Vec::with_capacity(self.pending.len() * 16);
        for (record, len) in &self.pending {
            key.extend_from_slice(&record.code());
            key.push(*len);
            // Kinds depend on whether there are loads and stores.
            key.push(u8::from(record.loads != [0; 4]) | u8::from(record.stores != [0; 4]) << 1);
        }
        let block = match self.blocks.get(&key) {
            Some(&block) => block,
            None => {
                let instrs = self.instrs();
                let block = self.writer.define_block(&BlockDef {
                    pc: VirtAddr(first.ip),
                    phys: PhysAddr(first.ip),
                    phys_next_page: PhysAddr((first.ip | 0xfff).wrapping_add(1)),
                    kernel: false,
                    code: Code::Decoded(&instrs),
                })?;
                self.blocks.insert(key, block);
                block
            }
        };
        let mut accesses = Vec::new();
        for (n, (record, _)) in self.pending.iter().enumerate() {
            let loads = record.loads.iter().map(|&a| (a, false));
            let stores = record.stores.iter().map(|&a| (a, true));
            for (at, write) in loads.chain(stores).filter(|&(a, _)| a != 0) {
                let address = Address { virt: VirtAddr(at), phys: PhysAddr(at) };
                accesses.push(RawAccess { instr: n as u16, size: size(at), write, address });
            }
        }
        let executed = self.pending.len() as u16;
        self.pending.clear();
        self.writer.run(block, executed, &accesses)
    }

    fn instrs(&mut self) -> Vec<Instr> {
        let mut offset = 0u16;
        let mut instrs = Vec::with_capacity(self.pending.len());
        for (record, len) in &self.pending {
            let reads = self.registers.set(&record.sources);
            let writes = self.registers.set(&record.results);
            let loads = record.loads != [0; 4];
            let stores = record.stores != [0; 4];
            let kind = match record.branch() {
                Branch::None if loads != stores => Kind::Move,
                Branch::None => Kind::IntAlu,
                _ => Kind::Branch,
            };
            // Which sources form the address is not told: the first ones of a load, all but the
            // last of a store.
            let address = if loads {
                reads.without(RegSet::FLAGS)
            } else if stores {
                let last = record.sources.iter().rev().find(|&&r| r != 0).copied();
                let value = self.registers.set(&last.into_iter().collect::<Vec<_>>());
                reads.without(RegSet::FLAGS).without(value)
            } else {
                RegSet::EMPTY
            };
            instrs.push(Instr {
                reads,
                writes,
                address,
                kind,
                branch: record.branch(),
                ..Instr::nop(offset, *len)
            });
            offset = offset.saturating_add(u16::from(*len));
        }
        instrs
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn an_access_ends_with_its_line() {
        let sizes = [0x1000, 0x1038, 0x1039, 0x103f].map(size);
        assert_eq!(sizes, [8, 8, 7, 1]);
    }
}
