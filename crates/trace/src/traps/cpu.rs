//! One CPU with register windows and software-filled TLBs, told what a recorded CPU executes.

use super::model::{TlbShape, Trap, TrapModel};
use super::shapes::{is_window_operation, Handler};
use super::tlb::{Tlb, Tsb};
use super::windows::{Owner, Saved, Windows};
use crate::program::{Program, TemplateId};
use crate::record::{Branch, Instr};
use crate::source::Address;

/// First address that no program has.
const USER_END: u64 = 1 << 47;
/// Address space that pages of the kernel are looked up with: context 0.
const KERNEL_SPACE: u64 = u64::MAX;

/// A trap inside an execution of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// Before which instruction of the template.
    pub(super) instr: u16,
    pub(super) trap: Trap,
    pub(super) handler: Handler,
}

/// Calls and returns of a mode.
#[derive(Clone, Copy, Debug, Default)]
struct Frames {
    /// The next instruction is a `save` or a `restore`.
    due: Option<Operation>,
    /// The procedure that runs has called none yet: it may do without a window.
    leaf: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Save,
    Restore,
}

impl Frames {
    /// assumption: what returns before it calls is a leaf procedure, which runs in its caller's
    /// window (SPARC V9 manual, App. H). So a window is taken at the first call from inside.
    fn branch(&mut self, branch: Branch, leaf_calls_save: bool) {
        if branch == Branch::Return {
            self.due = (!self.leaf).then_some(Operation::Restore);
            self.leaf = false;
        } else if leaf_calls_save {
            self.due = Some(Operation::Save);
        } else {
            self.due = self.leaf.then_some(Operation::Save);
            self.leaf = true;
        }
    }
}

#[derive(Debug)]
pub(super) struct Cpu {
    pub(super) number: u16,
    /// Privilege of what it ran last, once something was.
    pub(super) kernel: Option<bool>,
    windows: Windows,
    clean_windows: bool,
    /// Frames of user code and of the kernel.
    frames: [Frames; 2],
    /// An interrupt inside the kernel ends.
    returns: bool,
    space: u64,
    instruction: Tlb,
    data: Tlb,
    kernel_data: Tlb,
    /// Page of the last user instruction.
    fetched: Option<u64>,
}

impl Cpu {
    pub(super) fn new(number: u16, model: &TrapModel) -> Cpu {
        let tlb = |shape: TlbShape| Tlb::new(usize::from(shape.entries), usize::from(shape.ways));
        Cpu {
            number,
            kernel: None,
            windows: Windows::new(model.windows.windows),
            clean_windows: model.windows.clean_windows,
            frames: [Frames::default(); 2],
            returns: false,
            space: 0,
            instruction: tlb(model.tlb.instruction),
            data: tlb(model.tlb.data),
            kernel_data: tlb(model.tlb.kernel_data),
            fetched: None,
        }
    }

    /// Goes to a privilege; what entering or leaving the kernel takes in addition.
    pub(super) fn turn(&mut self, kernel: bool) -> Option<Handler> {
        let before = self.kernel.replace(kernel);
        match (before, kernel) {
            (Some(false), true) => {
                // The kernel starts at its entry: whatever frames it left there last time are gone
                // (`Windows::leave`).
                self.frames[1] = Frames::default();
                self.windows.enter().then_some(Handler::EntrySpill)
            }
            (Some(true), false) => {
                self.returns = false;
                self.fetched = None;
                self.windows.leave().then_some(Handler::ExitFill)
            }
            _ => None,
        }
    }

    /// An interrupt or exception: inside the kernel it takes a window as a call does.
    pub(super) fn interrupted(&mut self) -> Option<Handler> {
        if self.kernel != Some(true) {
            return None;
        }
        self.windows.save().spilled.map(kernel_spill)
    }

    /// The page tables become those of another address space: windows of the kernel's and of the
    /// user's that are written then.
    pub(super) fn switch_space(&mut self, space: u64) -> [u8; 2] {
        if std::mem::replace(&mut self.space, space) == space {
            return [0; 2];
        }
        self.fetched = None;
        if self.kernel != Some(true) {
            return [0; 2];
        }
        // Calls and returns that are due belong to the thread that goes; all of its windows are
        // written.
        self.frames = [Frames::default(); 2];
        self.windows.flush()
    }

    /// Executes a template: the traps it takes, in order.
    pub(super) fn execute(
        &mut self,
        model: &TrapModel,
        tsb: &mut Tsb,
        (program, id): (&Program, TemplateId),
        addresses: &[Address],
        taken: &mut Vec<Taken>,
    ) {
        let template = program.template(id);
        let block = program.block(template.block);
        let code = &program.instrs_of(block)[..usize::from(template.executed)];
        let mut data = program.sites_of(template).iter().zip(addresses).peekable();
        // The end of an interrupt inside the kernel gives back the window that `interrupted` took,
        // before the first instruction that retires. It stays due over one that faults instead,
        // hence the order of the conditions.
        if block.kernel && !code.is_empty() && std::mem::take(&mut self.returns) {
            self.operation(Operation::Restore, true, 0, taken);
        }
        for (index, instr) in code.iter().enumerate() {
            let index = index as u16;
            if !block.kernel {
                // An x86 instruction may lie in two pages, one of SPARC does not: the page of its
                // last byte counts.
                let page = block.end_of(instr).wrapping_sub(1) / model.tlb.page_bytes;
                self.fetch(page, tsb, index, taken);
            }
            let mode = usize::from(block.kernel);
            if let Some(operation) = self.frames[mode].due.take() {
                self.operation(operation, block.kernel, index, taken);
            }
            while let Some((_, address)) = data.next_if(|(site, _)| site.instr <= index) {
                self.access(address.virt.0, model, tsb, index, taken);
            }
            self.branch(instr, mode, model.windows.leaf_calls_save);
        }
    }

    fn branch(&mut self, instr: &Instr, mode: usize, leaf_calls_save: bool) {
        if is_window_operation(instr) {
            self.frames[mode].branch(instr.branch, leaf_calls_save);
        } else if instr.branch == Branch::Iret && mode == 1 {
            self.returns = true;
        }
    }

    fn operation(
        &mut self,
        operation: Operation,
        kernel: bool,
        instr: u16,
        taken: &mut Vec<Taken>,
    ) {
        let mut take = |trap, handler| taken.push(Taken { instr, trap, handler });
        match operation {
            Operation::Save => {
                let Saved { spilled, cleaned } = self.windows.save();
                if let Some(owner) = spilled {
                    let user = Handler::UserSpill;
                    take(Trap::WindowSpill, if kernel { kernel_spill(owner) } else { user });
                }
                if cleaned && self.clean_windows {
                    take(Trap::CleanWindow, Handler::CleanWindow);
                }
            }
            // The guard executes the restore in any case; it is true if the window had to be
            // filled.
            Operation::Restore if self.windows.restore() => {
                let fill = if kernel { Handler::KernelFill } else { Handler::UserFill };
                take(Trap::WindowFill, fill);
            }
            Operation::Restore => {}
        }
    }

    #[inline]
    fn fetch(&mut self, page: u64, tsb: &mut Tsb, instr: u16, taken: &mut Vec<Taken>) {
        if self.fetched.replace(page) == Some(page) {
            return;
        }
        let page = (self.space, page);
        if !self.instruction.access(page) {
            let hit = tsb.access(page);
            let handler = if hit { Handler::InstructionHit } else { Handler::InstructionMiss };
            taken.push(Taken { instr, trap: Trap::InstructionTlbMiss, handler });
        }
    }

    #[inline]
    fn access(
        &mut self,
        address: u64,
        model: &TrapModel,
        tsb: &mut Tsb,
        instr: u16,
        taken: &mut Vec<Taken>,
    ) {
        let trap = Trap::DataTlbMiss;
        if address < USER_END {
            let page = (self.space, address / model.tlb.page_bytes);
            if !self.data.access(page) {
                let handler = if tsb.access(page) { Handler::DataHit } else { Handler::DataMiss };
                taken.push(Taken { instr, trap, handler });
            }
        // Entries of the kernel's image are locked in the TLBs and never miss.
        } else if address <= u64::MAX - model.tlb.kernel_image_bytes {
            let page = (KERNEL_SPACE, address / model.tlb.kernel_page_bytes);
            if !self.kernel_data.access(page) {
                taken.push(Taken { instr, trap, handler: Handler::KernelData });
            }
        }
    }
}

/// The kernel writes a window of its own or of the user's.
pub(super) fn kernel_spill(owner: Owner) -> Handler {
    match owner {
        Owner::Own => Handler::KernelSpill,
        Owner::Other => Handler::UserSpill,
    }
}
