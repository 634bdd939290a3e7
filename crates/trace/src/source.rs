//! Where instructions come from: a trace file, a generator, or a wrapper around either.

use std::sync::Arc;

use halfwink_units::{PhysAddr, VirtAddr};

use crate::error::TraceError;
use crate::event::Event;
use crate::program::{Program, TemplateId};

/// The address of one memory access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Address {
    /// Virtual address, which the program uses.
    pub virt: VirtAddr,
    /// Physical address, which caches and memory use.
    pub phys: PhysAddr,
}

/// The next thing in a stream of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// A block is executed as this template says; its addresses are in [`Source::addresses`].
    Run(TemplateId),
    /// An event between instructions.
    Event(Event),
    /// The stream is over.
    End,
}

/// A stream of executed instructions with their memory addresses and events.
///
/// After [`Item::End`] every further call returns [`Item::End`].
pub trait Source: Send {
    /// The static tables that the stream refers to. They do not change while the stream is read.
    fn program(&self) -> &Arc<Program>;

    /// Moves on to the next item.
    ///
    /// # Errors
    /// If the underlying file is damaged or cannot be read.
    fn next_item(&mut self) -> Result<Item, TraceError>;

    /// Addresses of the accesses of the last [`Item::Run`], one per site of its template.
    fn addresses(&self) -> &[Address];
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn program(&self) -> &Arc<Program> {
        (**self).program()
    }

    fn next_item(&mut self) -> Result<Item, TraceError> {
        (**self).next_item()
    }

    fn addresses(&self) -> &[Address] {
        (**self).addresses()
    }
}
