//! Requests of a recording, and the state of the caches before each.

use std::sync::Arc;

use halfwink_trace::{Event, Item, Program, Source, TraceError, WarmSet};

use crate::chip::CodeCache;
use crate::machine::Machine;
use crate::sample::{Excerpt, ExcerptSource, Functional, WarmState};

/// Rule by which a recording is cut into requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Cuts from a request's begin to its end, if it was alone in between.
    Alone,
    /// Before each system call of this number.
    Syscall(u32),
}

/// Requests of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// Marked in the recording.
    pub marked: u64,
    /// Number of these that were alone from begin to end.
    pub alone: u64,
    /// Rule by which it is cut.
    pub cut: Cut,
}

/// One request: what it executes, and what the caches held before.
#[derive(Clone, Debug)]
pub struct Request {
    /// Number of the request, from 0.
    pub index: u64,
    /// Number of instructions.
    pub instructions: u64,
    /// Contents of caches and predictor when the recording came to it, without time.
    pub state: WarmState,
    program: Arc<Program>,
    excerpt: Arc<Excerpt>,
    /// Lines that it touches, by number, in no order.
    touched: Vec<u64>,
}

impl Request {
    /// Returns a source that plays it.
    #[must_use]
    pub fn source(&self) -> ExcerptSource {
        self.excerpt.source(&self.program)
    }

    /// The lines that it touches: instructions and data, user and kernel.
    #[must_use]
    pub fn touched(&self) -> halfwink_policy::preheat::LineSet {
        halfwink_policy::preheat::LineSet::from_unsorted(self.touched.clone())
    }
}

impl Requests {
    /// Looks through a recording.
    ///
    /// Where most requests are alone, they are cut at their marks. Where many are under way at
    /// once, work for them alternates: then a request is what lies between two system calls of the
    /// number that is made once for each, or nearly.
    ///
    /// # Errors
    /// If the recording is damaged.
    pub fn of(source: &mut dyn Source) -> Result<Option<Requests>, TraceError> {
        let (mut marked, mut alone, mut open) = (0u64, 0u64, Vec::<(u64, bool)>::new());
        let mut calls = std::collections::BTreeMap::<u32, u64>::new();
        loop {
            match source.next_item()? {
                Item::Event(Event::RequestBegin { id, .. }) => {
                    marked += 1;
                    open.iter_mut().for_each(|request| request.1 = false);
                    open.push((id, open.is_empty()));
                }
                Item::Event(Event::RequestEnd { id, .. }) => {
                    if let Some(n) = open.iter().position(|request| request.0 == id) {
                        alone += u64::from(open.swap_remove(n).1);
                    }
                }
                Item::Event(Event::Syscall { number, .. }) => {
                    *calls.entry(number).or_default() += 1
                }
                Item::Event(_) | Item::Run(_) => {}
                Item::End => break,
            }
        }
        if marked > 0 && alone * 10 >= marked * 8 {
            return Ok(Some(Requests { marked, alone, cut: Cut::Alone }));
        }
        let near = |count: u64| count.abs_diff(marked) * 10 <= marked;
        let best = calls.into_iter().filter(|&(_, count)| near(count));
        let best = best.min_by_key(|&(_, count)| count.abs_diff(marked));
        Ok(best.map(|(number, _)| Requests { marked, alone, cut: Cut::Syscall(number) }))
    }
}

/// A request that is being read.
struct Open {
    excerpt: Excerpt,
    instructions: u64,
    state: WarmState,
    id: u64,
}

/// Hands over a recording's requests in order, until `see` says false. Halts are left out: what a
/// request waited for is not its own work.
///
/// # Errors
/// If the recording is damaged.
pub fn requests(
    machine: &Machine,
    mut source: Box<dyn Source>,
    warm: &WarmSet,
    cut: Cut,
    codes: &mut CodeCache,
    mut see: impl FnMut(Request) -> bool,
) -> Result<(), TraceError> {
    let program = Arc::clone(source.program());
    let mut pass = Functional::new(machine, codes.compile(&program), warm);
    let (mut open, mut index) = (None::<Open>, 0);
    loop {
        let item = source.next_item()?;
        let (begins, ends) = match (item, cut) {
            (Item::Event(Event::RequestBegin { id, .. }), Cut::Alone) => (Some(id), None),
            (Item::Event(Event::RequestEnd { id, .. }), Cut::Alone) => (None, Some(id)),
            (Item::Event(Event::Syscall { number, .. }), Cut::Syscall(wanted))
                if number == wanted =>
            {
                (Some(index), open.as_ref().map(|open| open.id))
            }
            (Item::End, _) => return Ok(()),
            _ => (None, None),
        };
        if let Some(done) = open.take_if(|open| ends == Some(open.id)) {
            let touched = lines_of(&done.excerpt, &program);
            let (instructions, excerpt) = (done.instructions, Arc::new(done.excerpt));
            let (state, program) = (done.state, Arc::clone(&program));
            if !see(Request { index, instructions, state, program, excerpt, touched }) {
                return Ok(());
            }
            index += 1;
        }
        if let Some(id) = begins {
            let state = pass.state.clone();
            open = Some(Open { excerpt: Excerpt::default(), instructions: 0, state, id });
        }
        match item {
            Item::Run(template) => {
                pass.resolve(template);
                let instructions = pass.run(template, source.addresses());
                if let Some(open) = &mut open {
                    open.instructions += instructions;
                    open.excerpt.push(item, source.addresses());
                }
            }
            Item::Event(event) => {
                pass.event(event);
                let waits = matches!(
                    event,
                    Event::Idle { .. } | Event::RequestBegin { .. } | Event::RequestEnd { .. }
                );
                if let Some(open) = open.as_mut().filter(|_| !waits) {
                    open.excerpt.push(item, &[]);
                }
            }
            Item::End => {}
        }
    }
}

/// All lines that an excerpt touches.
fn lines_of(excerpt: &Excerpt, program: &Arc<Program>) -> Vec<u64> {
    let mut walk = crate::lines::LineWalk::new();
    let mut lines = Vec::new();
    for (item, addresses) in excerpt.iter() {
        if let Item::Run(id) = item {
            let template = program.template(id);
            walk.walk(program, template, addresses, false, |touch| lines.push(touch.line));
        }
    }
    lines.sort_unstable();
    lines.dedup();
    lines
}
