//! The instructions of one thread, out of a recording of several.

use std::sync::Arc;

use halfwink_trace::{Address, Event, Item, Program, Source, TraceError};

/// Reads a whole recording and shows what one of its threads does.
pub(super) struct ThreadStream<S> {
    source: S,
    /// Number of the thread in the recording.
    thread: u16,
    /// True in a part of the recording that this thread executed; none before the first number.
    is_here: Option<bool>,
}

impl<S: Source> ThreadStream<S> {
    pub(super) fn new(source: S, thread: u16) -> ThreadStream<S> {
        ThreadStream { source, thread, is_here: None }
    }
}

impl<S: Source> Source for ThreadStream<S> {
    fn program(&self) -> &Arc<Program> {
        self.source.program()
    }

    fn next_item(&mut self) -> Result<Item, TraceError> {
        loop {
            match self.source.next_item()? {
                Item::Event(Event::Cpu(thread)) => self.is_here = Some(thread == self.thread),
                Item::End => return Ok(Item::End),
                // A recording that begins without a number begins with its thread 0.
                item if self.is_here.unwrap_or(self.thread == 0) => return Ok(item),
                Item::Run(_) | Item::Event(_) => {}
            }
        }
    }

    fn addresses(&self) -> &[Address] {
        self.source.addresses()
    }
}
