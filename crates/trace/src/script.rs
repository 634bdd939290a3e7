//! A stream written out item by item, for tests and for workloads that a program composes.

use std::sync::Arc;

use crate::error::TraceError;
use crate::event::Event;
use crate::program::{Program, TemplateId};
use crate::source::{Address, Item, Source};

/// Plays a list of runs and events.
#[derive(Clone, Debug)]
pub struct Script {
    program: Arc<Program>,
    items: Vec<(Item, Vec<Address>)>,
    next: usize,
}

impl Script {
    /// An empty list over these static tables.
    #[must_use]
    pub fn new(program: Arc<Program>) -> Script {
        Script { program, items: Vec::new(), next: 0 }
    }

    /// Adds an execution of a template with one address per site.
    ///
    /// # Panics
    /// If the number of addresses is another.
    pub fn run(&mut self, template: TemplateId, addresses: Vec<Address>) -> &mut Script {
        let sites = usize::from(self.program.template(template).sites);
        assert_eq!(addresses.len(), sites, "an address for each site");
        self.items.push((Item::Run(template), addresses));
        self
    }

    /// Adds an event to the script.
    pub fn event(&mut self, event: Event) -> &mut Script {
        self.items.push((Item::Event(event), Vec::new()));
        self
    }
}

impl Source for Script {
    fn program(&self) -> &Arc<Program> {
        &self.program
    }

    fn next_item(&mut self) -> Result<Item, TraceError> {
        let item = self.items.get(self.next).map_or(Item::End, |(item, _)| *item);
        self.next += 1;
        Ok(item)
    }

    fn addresses(&self) -> &[Address] {
        self.items.get(self.next.wrapping_sub(1)).map_or(&[], |(_, addresses)| addresses)
    }
}
