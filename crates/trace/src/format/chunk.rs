//! A chunk: some millions of executed instructions, as the differences from what the model guesses.
//!
//! | column | holds |
//! |---|---|
//! | templates | how many guesses were right, then what came instead, and so on |
//! | tags | one byte per access: which guess, and how many bytes of difference follow |
//! | deltas | those bytes |
//! | pages | how many physical pages were guessed right, then what came instead, and so on |
//! | events | runs since the last event, kind, fields |

use halfwink_units::{Asid, VirtAddr, PAGE_SHIFT};

use super::bytes::{put_varint, unzigzag, zigzag, Column};
use super::header::DirectMap;
use super::model::{in_page, Addresses, Pages, Sequence, GUESSES};
use super::section::{put_column, take_column, take_u32, MAX_COLUMN};
use super::{CHUNK_ACCESSES, CHUNK_EVENTS, CHUNK_INSTRS, MAX_CHUNK_ITEMS, MAX_CHUNK_RUNS};
use crate::error::{corrupt, TraceError};
use crate::event::Event;
use crate::program::{Program, Site, TemplateId};
use crate::source::Address;

/// Tags 0..GUESSES are exact guesses; then, per guess, one tag for each length of the difference.
const FIRST_DELTA_TAG: u8 = GUESSES as u8;
const TAG_COUNT: u8 = FIRST_DELTA_TAG + 8 * GUESSES as u8;
const _: () = assert!(9 * GUESSES <= u8::MAX as usize);

/// Fixed-size facts at the head of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ChunkHead {
    pub(crate) instructions: u32,
    pub(crate) runs: u32,
    pub(crate) accesses: u32,
    pub(crate) events: u32,
    /// CPU and address space in force at the first instruction.
    pub(crate) cpu: u16,
    pub(crate) asid: Asid,
}

/// Collects the columns of one chunk.
pub(crate) struct Encoder {
    sequence: Sequence,
    addresses: Addresses,
    pages: Pages,
    fields: EventFields,
    head: ChunkHead,
    templates: Vec<u8>,
    right_templates: u64,
    tags: Vec<u8>,
    deltas: Vec<u8>,
    page_column: Vec<u8>,
    right_pages: u64,
    events: Vec<u8>,
    runs_since_event: u64,
}

impl Encoder {
    pub(crate) fn new(direct: Option<DirectMap>) -> Encoder {
        Encoder {
            sequence: Sequence::new(),
            addresses: Addresses::new(),
            pages: Pages::new(direct),
            fields: EventFields::default(),
            head: ChunkHead::default(),
            templates: Vec::new(),
            right_templates: 0,
            tags: Vec::new(),
            deltas: Vec::new(),
            page_column: Vec::new(),
            right_pages: 0,
            events: Vec::new(),
            runs_since_event: 0,
        }
    }

    pub(crate) fn head(&self) -> &ChunkHead {
        &self.head
    }

    /// Returns whether the chunk should end: it is long, or one of its columns has reached the
    /// limit of readers. Random pages, or millions of markers, fill columns long before
    /// instructions are many.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        /// More than a run or an event adds to any column.
        const ROOM: usize = 1 << 20;
        let columns = [&self.templates, &self.tags, &self.deltas, &self.page_column, &self.events];
        self.head.instructions >= CHUNK_INSTRS
            || self.head.runs >= MAX_CHUNK_RUNS
            || self.head.accesses >= CHUNK_ACCESSES
            || self.head.events >= CHUNK_EVENTS
            || columns.iter().any(|column| column.len() > MAX_COLUMN - ROOM)
    }

    /// Starts the next chunk, of which `program` holds the tables so far.
    ///
    /// Nothing is remembered from the last one: a reader can start at any chunk, and different
    /// chunks can be read at once. Learning the code again costs a few bytes for each template.
    pub(crate) fn begin(&mut self, program: &Program, cpu: u16, asid: Asid) {
        self.sequence.reset(program.templates.len());
        self.addresses.reset(program.sites.len());
        self.pages.reset(asid);
        self.fields = EventFields::default();
        self.head = ChunkHead { cpu, asid, ..ChunkHead::default() };
        for column in [&mut self.templates, &mut self.tags, &mut self.deltas, &mut self.page_column]
        {
            column.clear();
        }
        self.events.clear();
        self.right_templates = 0;
        self.right_pages = 0;
        self.runs_since_event = 0;
    }

    /// One execution of `template`; `instructions` is what it adds to the count.
    pub(crate) fn run(
        &mut self,
        program: &Program,
        template: TemplateId,
        addresses: &[Address],
        instructions: u32,
    ) {
        let guess = self.sequence.guess();
        // Counts of right guesses and not a bit for each: in a loop, thousands are one number.
        if guess == template.0 {
            self.right_templates += 1;
        } else {
            put_varint(&mut self.templates, self.right_templates);
            self.right_templates = 0;
            let second = self.sequence.second_guess();
            if second == template.0 {
                self.templates.push(0);
            } else {
                // From the last one: templates are numbered as they first come, so that what is
                // executed for the first time is a step from its neighbour.
                let distance = u64::from(template.0).wrapping_sub(self.sequence.base().into());
                put_varint(&mut self.templates, 1 + zigzag(distance));
            }
        }
        self.sequence.update(template.0);
        let shape = program.template(template);
        debug_assert_eq!(addresses.len(), usize::from(shape.sites), "one address for each site");
        // A reader has all sites from the start. What is new to the writer is untouched in both.
        self.addresses.grow(program.sites.len());
        let first = shape.first_site as usize;
        for (i, (&site, address)) in program.sites_of(shape).iter().zip(addresses).enumerate() {
            self.address(first + i, site, *address);
        }
        self.head.runs += 1;
        self.head.accesses += u32::from(shape.sites);
        self.head.instructions += instructions;
        self.runs_since_event += 1;
    }

    fn address(&mut self, index: usize, site: Site, address: Address) {
        let actual = address.virt.0;
        let guesses = self.addresses.guesses(index, site);
        match guesses.iter().position(|&guess| guess == actual) {
            Some(which) => self.tags.push(which as u8),
            // The guess with the shortest difference, the first of several: the tag names it, so
            // the choice costs nothing to read back. Lengths stand in the tag and not in a varint's
            // continuation bits, so that a reader takes a whole word and masks it.
            None => {
                let (which, delta) = guesses
                    .iter()
                    .map(|&guess| zigzag(actual.wrapping_sub(guess)))
                    .enumerate()
                    .min_by_key(|&(_, delta)| byte_length(delta))
                    .expect("there is at least one guess");
                let length = byte_length(delta);
                self.tags.push(FIRST_DELTA_TAG + 8 * which as u8 + (length - 1) as u8);
                self.deltas.extend_from_slice(&delta.to_le_bytes()[..length]);
            }
        }
        self.addresses.update(index, site, actual);
        // A reader knows the virtual address by now, and guesses the page from it as this does.
        let page = address.phys.0 >> PAGE_SHIFT;
        if self.pages.guess(address.virt) == page {
            self.right_pages += 1;
        } else {
            put_varint(&mut self.page_column, self.right_pages);
            self.right_pages = 0;
            let distance = page.wrapping_sub(self.pages.last_correction);
            put_varint(&mut self.page_column, zigzag(distance));
            self.pages.correct(address.virt, page);
        }
    }

    /// Adds an event after the last run.
    pub(crate) fn event(&mut self, event: &Event) {
        put_varint(&mut self.events, self.runs_since_event);
        self.runs_since_event = 0;
        self.fields.put(&mut self.events, event);
        // At the same place of the stream as in the reader: pages are guessed by it.
        if let Event::AddressSpace(asid) = *event {
            self.pages.switch(asid);
        }
        self.head.events += 1;
    }

    /// The chunk's section body.
    pub(crate) fn finish(&mut self, level: i32) -> std::io::Result<Vec<u8>> {
        debug_assert_eq!(self.tags.len(), self.head.accesses as usize, "a tag for each access");
        // Guesses that were right up to the end are implied by the number of runs and accesses.
        let mut body = Vec::with_capacity(self.tags.len() / 4 + 1024);
        let head = &self.head;
        for n in [head.instructions, head.runs, head.accesses, head.events, u32::from(head.cpu)] {
            body.extend_from_slice(&n.to_le_bytes());
        }
        body.extend_from_slice(&head.asid.0.to_le_bytes());
        for column in [&self.templates, &self.tags, &self.deltas, &self.page_column, &self.events] {
            put_column(&mut body, column, level)?;
        }
        Ok(body)
    }
}

/// Bytes needed for `n`, at least one.
fn byte_length(n: u64) -> usize {
    (8 - n.leading_zeros() as usize / 8).max(1)
}

/// Plays one chunk back.
pub(crate) struct Decoder {
    sequence: Sequence,
    addresses: Addresses,
    pages: Pages,
    fields: EventFields,
    templates: Column,
    right_templates: u64,
    tags: Column,
    deltas: Column,
    page_column: Column,
    right_pages: u64,
    events: Column,
    runs_to_event: u64,
    runs_left: u32,
    events_left: u32,
}

/// Columns of a chunk in memory; all readers that play it share them.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    head: ChunkHead,
    templates: Column,
    tags: Column,
    deltas: Column,
    pages: Column,
    events: Column,
}

impl Columns {
    /// Decompresses the body of the chunk at `offset`.
    pub(crate) fn read(mut body: &[u8], offset: u64) -> Result<Columns, TraceError> {
        let columns = Columns {
            head: read_head(&mut body, offset)?,
            templates: take_column(&mut body, "the template column", offset)?,
            tags: take_column(&mut body, "the tag column", offset)?,
            deltas: take_column(&mut body, "the delta column", offset)?,
            pages: take_column(&mut body, "the page column", offset)?,
            events: take_column(&mut body, "the event column", offset)?,
        };
        if !body.is_empty() {
            return Err(corrupt(offset, "a chunk", "bytes follow its last column"));
        }
        // Checked once, so that a chunk which claims fewer accesses than it has is not found out
        // at its end, after all have been played.
        if columns.tags.bytes.len() != columns.head.accesses as usize {
            return Err(columns.tags.fail("its length is not the number of accesses"));
        }
        Ok(columns)
    }
}

/// Result of [`Decoder::next`].
pub(crate) enum Decoded {
    Run(TemplateId),
    Event(Event),
    End,
}

impl Decoder {
    pub(crate) fn new(direct: Option<DirectMap>) -> Decoder {
        Decoder {
            sequence: Sequence::new(),
            addresses: Addresses::new(),
            pages: Pages::new(direct),
            fields: EventFields::default(),
            templates: Column::default(),
            right_templates: 0,
            tags: Column::default(),
            deltas: Column::default(),
            page_column: Column::default(),
            right_pages: 0,
            events: Column::default(),
            runs_to_event: u64::MAX,
            runs_left: 0,
            events_left: 0,
        }
    }

    /// Starts on the chunk in `body`, which began at file `offset`.
    pub(crate) fn begin(
        &mut self,
        columns: &Columns,
        program: &Program,
    ) -> Result<ChunkHead, TraceError> {
        let Columns { head, templates, tags, deltas, pages, events } = columns.clone();
        (self.templates, self.tags, self.deltas) = (templates, tags, deltas);
        (self.page_column, self.events) = (pages, events);
        self.sequence.reset(program.templates.len());
        self.addresses.reset(program.sites.len());
        self.pages.reset(head.asid);
        self.fields = EventFields::default();
        self.runs_left = head.runs;
        self.events_left = head.events;
        self.right_templates = next_gap(&mut self.templates)?;
        self.right_pages = next_gap(&mut self.page_column)?;
        self.runs_to_event = if head.events > 0 { self.events.varint()? } else { u64::MAX };
        Ok(head)
    }

    /// The next run or event; the addresses of a run replace the contents of `out`.
    #[inline]
    pub(crate) fn next(
        &mut self,
        program: &Program,
        out: &mut Vec<Address>,
    ) -> Result<Decoded, TraceError> {
        // Events first: one that lies behind the last run has no run left to wait for.
        if self.runs_to_event == 0 {
            return self.event().map(Decoded::Event);
        }
        if self.runs_left == 0 {
            return self.end();
        }
        let template = self.template(program)?;
        self.runs_left -= 1;
        // Where no event is left it counts down too, from more runs than a chunk can have.
        self.runs_to_event -= 1;
        let shape = program.template(template);
        out.clear();
        let first = shape.first_site as usize;
        for (i, &site) in program.sites_of(shape).iter().enumerate() {
            out.push(self.address(first + i, site)?);
        }
        Ok(Decoded::Run(template))
    }

    #[inline]
    fn template(&mut self, program: &Program) -> Result<TemplateId, TraceError> {
        let template = if self.right_templates > 0 {
            self.right_templates -= 1;
            self.sequence.guess()
        } else {
            let symbol = self.templates.varint()?;
            self.right_templates = next_gap(&mut self.templates)?;
            match symbol {
                0 => self.sequence.second_guess(),
                n => self.sequence.base().wrapping_add(unzigzag(n - 1) as u32),
            }
        };
        // Also what was guessed: before the model has learnt, it guesses the next number, which
        // need not exist.
        if template as usize >= program.templates.len() {
            return Err(self.templates.fail(format!("it names template {template}")));
        }
        self.sequence.update(template);
        Ok(TemplateId(template))
    }

    #[inline]
    fn address(&mut self, index: usize, site: Site) -> Result<Address, TraceError> {
        let tag = self.tags.byte()?;
        let virt = if tag < FIRST_DELTA_TAG {
            self.addresses.guess(index, site, usize::from(tag))
        } else if tag < TAG_COUNT {
            let which = usize::from((tag - FIRST_DELTA_TAG) / 8);
            let length = usize::from((tag - FIRST_DELTA_TAG) % 8 + 1);
            let delta = unzigzag(self.deltas.le_bytes(length)?);
            self.addresses.guess(index, site, which).wrapping_add(delta)
        } else {
            return Err(self.tags.fail(format!("it holds the unknown tag {tag}")));
        };
        self.addresses.update(index, site, virt);
        let virt = VirtAddr(virt);
        let page = if self.right_pages > 0 {
            self.right_pages -= 1;
            self.pages.guess(virt)
        } else {
            self.page_correction(virt)?
        };
        Ok(Address { virt, phys: in_page(page, virt) })
    }

    #[cold]
    fn page_correction(&mut self, virt: VirtAddr) -> Result<u64, TraceError> {
        let distance = unzigzag(self.page_column.varint()?);
        // What a damaged column says beyond 52 bits would be shifted out of the address, and the
        // next difference would be one from a page that is nowhere.
        let page = self.pages.last_correction.wrapping_add(distance) & (u64::MAX >> PAGE_SHIFT);
        self.pages.correct(virt, page);
        self.right_pages = next_gap(&mut self.page_column)?;
        Ok(page)
    }

    #[cold]
    fn event(&mut self) -> Result<Event, TraceError> {
        let event = self.fields.take(&mut self.events)?;
        if let Event::AddressSpace(asid) = event {
            self.pages.switch(asid);
        }
        self.events_left -= 1;
        self.runs_to_event = if self.events_left > 0 { self.events.varint()? } else { u64::MAX };
        Ok(event)
    }

    #[cold]
    fn end(&mut self) -> Result<Decoded, TraceError> {
        if self.events_left > 0 {
            return Err(self.events.fail("an event lies behind the last run"));
        }
        for column in [&self.templates, &self.tags, &self.deltas, &self.page_column, &self.events] {
            if !column.is_done() {
                return Err(column.fail("it holds more values than announced"));
            }
        }
        Ok(Decoded::End)
    }
}

/// Returns the number of correct guesses before the next correction: unlimited once the column is
/// used up.
fn next_gap(column: &mut Column) -> Result<u64, TraceError> {
    if column.is_done() {
        Ok(u64::MAX)
    } else {
        column.varint()
    }
}

pub(crate) fn read_head(body: &mut &[u8], offset: u64) -> Result<ChunkHead, TraceError> {
    let mut field = || take_u32(body, "a chunk header", offset);
    let [instructions, runs, accesses, events, cpu] =
        [field()?, field()?, field()?, field()?, field()?];
    let asid = u64::from(field()?) | u64::from(field()?) << 32;
    if [instructions, runs, accesses, events].iter().any(|&n| n > MAX_CHUNK_ITEMS) {
        return Err(corrupt(offset, "a chunk header", "it announces an impossible count"));
    }
    let Ok(cpu) = u16::try_from(cpu) else {
        return Err(corrupt(offset, "a chunk header", "it names an impossible CPU"));
    };
    Ok(ChunkHead { instructions, runs, accesses, events, cpu, asid: Asid(asid) })
}

/// Events are stored as differences from the last event of their kind.
#[derive(Debug)]
struct EventFields {
    /// One clock for idle periods and requests: each is near the last one, of whichever kind.
    time_ns: u64,
    request: u64,
    asid: u64,
    /// Arguments of the last call with the same number, modulo the table's size.
    args: Vec<[u64; 6]>,
}

/// The numbers of x86-64 Linux are below 512, so each call has its own.
const ARGS_SLOTS: usize = 512;

impl Default for EventFields {
    fn default() -> EventFields {
        EventFields { time_ns: 0, request: 0, asid: 0, args: vec![[0; 6]; ARGS_SLOTS] }
    }
}

impl EventFields {
    fn put(&mut self, out: &mut Vec<u8>, event: &Event) {
        match *event {
            Event::Cpu(cpu) => {
                out.push(0);
                put_varint(out, cpu.into());
            }
            Event::AddressSpace(asid) => {
                out.push(1);
                put_difference(out, &mut self.asid, asid.0);
            }
            Event::Syscall { number, args } => {
                out.push(2);
                put_varint(out, number.into());
                let previous = &mut self.args[number as usize % ARGS_SLOTS];
                for (arg, last) in args.into_iter().zip(previous) {
                    put_difference(out, last, arg);
                }
            }
            Event::Interrupt { vector } => out.extend([3, vector]),
            Event::Exception { vector } => out.extend([4, vector]),
            Event::Idle { from_ns, to_ns } => {
                out.push(5);
                put_difference(out, &mut self.time_ns, from_ns);
                put_difference(out, &mut self.time_ns, to_ns);
            }
            Event::Mark { code, arg } => {
                out.push(6);
                put_varint(out, code.into());
                put_varint(out, arg);
            }
            Event::RequestBegin { id, at_ns } | Event::RequestEnd { id, at_ns } => {
                out.push(if matches!(event, Event::RequestBegin { .. }) { 7 } else { 8 });
                put_difference(out, &mut self.request, id);
                put_difference(out, &mut self.time_ns, at_ns);
            }
        }
    }

    fn take(&mut self, column: &mut Column) -> Result<Event, TraceError> {
        Ok(match column.byte()? {
            0 => Event::Cpu(column.varint_below(1 << 16, "a CPU")? as u16),
            1 => Event::AddressSpace(Asid(take_difference(column, &mut self.asid)?)),
            2 => {
                let number = column.varint_below(1 << 32, "a system call")? as u32;
                let args = &mut self.args[number as usize % ARGS_SLOTS];
                for arg in args.iter_mut() {
                    take_difference(column, arg)?;
                }
                Event::Syscall { number, args: *args }
            }
            3 => Event::Interrupt { vector: column.byte()? },
            4 => Event::Exception { vector: column.byte()? },
            5 => {
                let from_ns = take_difference(column, &mut self.time_ns)?;
                let to_ns = take_difference(column, &mut self.time_ns)?;
                if to_ns < from_ns {
                    return Err(column.fail("an idle period ends before it begins"));
                }
                Event::Idle { from_ns, to_ns }
            }
            6 => {
                let code = column.varint_below(1 << 32, "a marker")? as u32;
                Event::Mark { code, arg: column.varint()? }
            }
            kind @ (7 | 8) => {
                let id = take_difference(column, &mut self.request)?;
                let at_ns = take_difference(column, &mut self.time_ns)?;
                if kind == 7 {
                    Event::RequestBegin { id, at_ns }
                } else {
                    Event::RequestEnd { id, at_ns }
                }
            }
            kind => return Err(column.fail(format!("it holds the unknown event kind {kind}"))),
        })
    }
}

fn put_difference(out: &mut Vec<u8>, last: &mut u64, value: u64) {
    put_varint(out, zigzag(value.wrapping_sub(*last)));
    *last = value;
}

fn take_difference(column: &mut Column, last: &mut u64) -> Result<u64, TraceError> {
    *last = last.wrapping_add(unzigzag(column.varint()?));
    Ok(*last)
}
