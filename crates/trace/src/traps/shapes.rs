//! The program with handlers: what a trap runs, and user blocks cut where a trap can come.

use std::ops::Range;

use halfwink_units::{PhysAddr, VirtAddr};

use super::model::HandlerLengths;
use crate::program::{Block, Program, Site, TemplateId};
use crate::record::{Branch, Instr, Kind};

/// Handlers of traps: of windows first, then of TLBs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    UserSpill,
    UserFill,
    CleanWindow,
    KernelSpill,
    KernelFill,
    EntrySpill,
    ExitFill,
    InstructionHit,
    InstructionMiss,
    DataHit,
    DataMiss,
    KernelData,
}

impl Handler {
    /// True for those of register windows.
    pub(super) fn is_window(self) -> bool {
        (self as usize) < Handler::InstructionHit as usize
    }
}

/// First addresses of the handlers, virtual (in the last gigabytes) and physical (in an unused
/// part); each has a page.
const HANDLERS: (u64, u64) = (0xffff_fffe_0000_0000, 0x7f00_0000_0000);
const HANDLER_PAGE: u64 = 0x1000;

/// A part of a user template between two places where a trap can come.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    /// Index of its first instruction in the whole template.
    pub(super) start: u16,
    /// Template that executes it.
    pub(super) template: TemplateId,
    /// Range of its addresses among the whole template's.
    pub(super) sites: Range<usize>,
}

/// The parts of templates, and the templates of handlers.
#[derive(Debug)]
pub(super) struct Shapes {
    handlers: Vec<TemplateId>,
    /// Range in `segments` of each template of the original program; empty if it has one segment.
    ranges: Vec<Range<usize>>,
    segments: Vec<Segment>,
    /// A user instruction that is tried and does not retire: it parts two traps.
    pub(super) tried: TemplateId,
}

impl Shapes {
    /// Adds to `program` all that traps need, for pages of `page_bytes`.
    pub(super) fn new(program: &mut Program, lengths: &HandlerLengths, page_bytes: u64) -> Shapes {
        let mut shapes = Shapes {
            handlers: Vec::new(),
            ranges: Vec::with_capacity(program.templates.len()),
            segments: Vec::new(),
            tried: TemplateId(0),
        };
        for number in 0..program.templates.len() as u32 {
            let first = shapes.segments.len();
            shapes.cut(program, TemplateId(number), page_bytes);
            shapes.ranges.push(first..shapes.segments.len());
        }
        let tried = program.push_block(handler_block(0, false), &[Instr::nop(0, 4)]);
        shapes.tried = program.push_template(tried, 0, &[]);
        let lengths = [
            lengths.user_spill,
            lengths.user_fill,
            lengths.clean_window,
            lengths.kernel_spill,
            lengths.kernel_fill,
            lengths.entry_spill,
            lengths.exit_fill,
            lengths.instruction_tsb_hit,
            lengths.instruction_tsb_miss,
            lengths.data_tsb_hit,
            lengths.data_tsb_miss,
            lengths.kernel_data,
        ];
        for (place, length) in lengths.into_iter().enumerate() {
            let mut code: Vec<Instr> = (0..length).map(|n| Instr::nop(4 * n, 4)).collect();
            if let Some(retry) = code.last_mut() {
                *retry = Instr { kind: Kind::Branch, branch: Branch::Iret, ..*retry };
            }
            let block = program.push_block(handler_block(1 + place as u64, true), &code);
            shapes.handlers.push(program.push_template(block, length, &[]));
        }
        shapes
    }

    /// Returns the template of a handler.
    pub(super) fn handler(&self, handler: Handler) -> TemplateId {
        self.handlers[handler as usize]
    }

    /// The segments of a template of the original program; none if nothing can trap inside.
    pub(super) fn segments(&self, template: TemplateId) -> &[Segment] {
        &self.segments[self.ranges[template.0 as usize].clone()]
    }

    fn cut(&mut self, program: &mut Program, id: TemplateId, page_bytes: u64) {
        let template = *program.template(id);
        let block = *program.block(template.block);
        if block.kernel {
            return;
        }
        let sites: Vec<Site> = program.sites_of(&template).to_vec();
        let code: Vec<Instr> = program.instrs_of(&block).to_vec();
        let mut starts = trap_places(&block, &code, &sites, template.executed, page_bytes);
        if starts.is_empty() {
            return;
        }
        starts.insert(0, 0);
        starts.push(template.executed);
        let mut from = 0;
        for pair in starts.windows(2) {
            let (start, end) = (pair[0], pair[1]);
            let last = end == template.executed;
            let inside = sites[from..].iter().take_while(|site| last || site.instr < end).count();
            let stop = if last { code.len() } else { usize::from(end) };
            let part = Part { block: &block, code: &code[..stop], start, end };
            let own = &sites[from..from + inside];
            let template = part.push(program, own);
            self.segments.push(Segment { start, template, sites: from..from + inside });
            from += inside;
        }
    }
}

/// Instructions behind the first before which a trap can come, ascending: those that access data,
/// those that reach into another page, those behind a call or return.
fn trap_places(
    block: &Block,
    code: &[Instr],
    sites: &[Site],
    executed: u16,
    page_bytes: u64,
) -> Vec<u16> {
    let page = |address: u64| address / page_bytes;
    let of_code = |n: u16| {
        let (before, this) = (&code[usize::from(n) - 1], &code[usize::from(n)]);
        let ends = |instr: &Instr| page(block.end_of(instr).wrapping_sub(1));
        ends(before) != ends(this) || is_window_operation(before)
    };
    let mut places: Vec<u16> = (1..executed).filter(|&n| of_code(n)).collect();
    places.extend(sites.iter().map(|site| site.instr).filter(|n| (1..executed).contains(n)));
    places.sort_unstable();
    places.dedup();
    places
}

/// A call or a return.
pub(super) fn is_window_operation(instr: &Instr) -> bool {
    matches!(instr.branch, Branch::Call | Branch::IndirectCall | Branch::Return)
}

/// Some instructions of a block.
struct Part<'a> {
    block: &'a Block,
    /// All of its instructions up to where the part ends.
    code: &'a [Instr],
    start: u16,
    /// The first that is not executed any more.
    end: u16,
}

impl Part<'_> {
    /// Adds it to the program. Behind the last executed instruction the rest of the block stays: an
    /// instruction that faulted belongs to it.
    fn push(&self, program: &mut Program, sites: &[Site]) -> TemplateId {
        let first = &self.code[usize::from(self.start)];
        let moved = |instr: &Instr| Instr { offset: instr.offset - first.offset, ..*instr };
        let code: Vec<Instr> = self.code[usize::from(self.start)..].iter().map(moved).collect();
        let block = Block {
            pc: VirtAddr(self.block.pc_of(first)),
            phys: Program::instr_phys(self.block, first),
            ..*self.block
        };
        let sites: Vec<Site> =
            sites.iter().map(|site| Site { instr: site.instr - self.start, ..*site }).collect();
        let block = program.push_block(block, &code);
        program.push_template(block, self.end - self.start, &sites)
    }
}

fn handler_block(place: u64, kernel: bool) -> Block {
    let (virt, phys) = HANDLERS;
    Block {
        pc: VirtAddr(virt + place * HANDLER_PAGE),
        phys: PhysAddr(phys + place * HANDLER_PAGE),
        phys_next_page: PhysAddr(0),
        kernel,
        first_instr: 0,
        instrs: 0,
    }
}
