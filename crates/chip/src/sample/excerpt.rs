//! A piece of a stream, held in memory to be played by several runs.

use std::sync::Arc;

use halfwink_trace::{Address, Item, Program, Source, TraceError};

/// Items with their addresses, one behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excerpt {
    items: Vec<(Item, u32)>,
    addresses: Vec<Address>,
}

impl Excerpt {
    pub(crate) fn push(&mut self, item: Item, addresses: &[Address]) {
        self.items.push((item, self.addresses.len() as u32));
        self.addresses.extend_from_slice(addresses);
    }

    /// All items with their addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Item, &[Address])> {
        let ends = self.items.iter().skip(1).map(|&(_, start)| start as usize);
        let ends = ends.chain([self.addresses.len()]);
        self.items
            .iter()
            .zip(ends)
            .map(|(&(item, start), end)| (item, &self.addresses[start as usize..end]))
    }

    /// Plays it from its first item.
    pub(crate) fn source(self: &Arc<Excerpt>, program: &Arc<Program>) -> ExcerptSource {
        ExcerptSource { program: Arc::clone(program), excerpt: Arc::clone(self), next: 0 }
    }
}

/// Source that plays an [`Excerpt`].
#[derive(Clone, Debug)]
pub struct ExcerptSource {
    program: Arc<Program>,
    excerpt: Arc<Excerpt>,
    next: usize,
}

impl Source for ExcerptSource {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn next_item(&mut self) -> Result<Item, TraceError> {
        let item = self.excerpt.items.get(self.next).map_or(Item::End, |&(item, _)| item);
        self.next = (self.next + 1).min(self.excerpt.items.len() + 1);
        Ok(item)
    }

    fn addresses(&self) -> &[Address] {
        let start_of = |n: usize| self.excerpt.items.get(n).map(|&(_, start)| start as usize);
        let Some(start) = self.next.checked_sub(1).and_then(start_of) else { return &[] };
        &self.excerpt.addresses[start..start_of(self.next).unwrap_or(self.excerpt.addresses.len())]
    }
}
