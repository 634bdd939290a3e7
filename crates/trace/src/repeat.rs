//! Repeated string instructions: many executions in the trace, one instruction in the count.

use crate::program::{Program, TemplateId};
use crate::record::InstrFlags;

/// Tells which runs go on with the repeated string instruction that the run before ended in.
///
/// The recorder sees `rep movsb` once per iteration; a real pipeline retires it once.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepeatFold {
    /// Address of the repeated instruction that ended the last run.
    pc: Option<u64>,
}

impl RepeatFold {
    /// True if the first instruction of this run is a further iteration and must not be counted.
    /// Call it for every run, in order.
    #[inline]
    pub fn is_repeat(&mut self, program: &Program, template: TemplateId) -> bool {
        let shape = program.template(template);
        let block = program.block(shape.block);
        let instrs = program.instrs_of(block);
        let first = &instrs[0];
        let repeat =
            shape.executed > 0 && first.flags.has(InstrFlags::REP) && self.pc == Some(block.pc.0);
        let last = &instrs[usize::from(shape.executed.max(1)) - 1];
        self.pc =
            (shape.executed > 0 && last.flags.has(InstrFlags::REP)).then(|| block.pc_of(last));
        repeat
    }
}
