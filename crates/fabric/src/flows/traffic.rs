//! What is to be sent: flows that begin at their time, or when others have ended.

use halfwink_units::Time;

/// Marks a flow without a group.
pub const ALONE: u32 = u32::MAX;

/// A flow from one server to another, or a time in which nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flow {
    /// Server that sends.
    pub from: u32,
    /// Server that receives; the sender itself if the flow only takes time.
    pub to: u32,
    /// Size of the flow, in bytes.
    pub bytes: f64,
    /// Begins so long after the last of those that it waits for; after the begin of the run if it
    /// waits for none.
    pub after: Time,
    /// Flows that belong together (a coflow, an iteration of a training job), or [`ALONE`].
    pub group: u32,
}

/// All that is to be sent.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    flows: Vec<Flow>,
    /// Number of flows that each flow waits for.
    waits_for: Vec<u32>,
    /// Dependencies as pairs (flow, waiting flow), sorted by the first once all are present.
    edges: Vec<(u32, u32)>,
    groups: u32,
}

impl Traffic {
    /// Adds a flow that waits for others, which must be there.
    ///
    /// # Panics
    /// There are 2^32 flows.
    pub fn add(&mut self, flow: Flow, waits_for: &[u32]) -> u32 {
        let number = u32::try_from(self.flows.len()).expect("below 2^32 flows");
        debug_assert!(waits_for.iter().all(|&other| other < number));
        self.flows.push(flow);
        self.waits_for.push(waits_for.len() as u32);
        self.edges.extend(waits_for.iter().map(|&other| (other, number)));
        number
    }

    /// Adds a group and returns its number.
    pub fn group(&mut self) -> u32 {
        self.groups += 1;
        self.groups - 1
    }

    /// All flows, by number.
    #[must_use]
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Returns the number of groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.groups as usize
    }

    /// Returns the bytes of all flows between servers.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.flows.iter().filter(|flow| flow.from != flow.to).map(|flow| flow.bytes).sum()
    }

    /// Returns the number of flows that each flow waits for.
    pub(super) fn waits_for(&self) -> &[u32] {
        &self.waits_for
    }

    /// Makes those who wait for a flow quick to find.
    pub fn close(&mut self) {
        self.edges.sort_unstable();
    }

    /// Returns the dependencies of the flows that wait for this one.
    pub(super) fn waiting(&self, flow: u32) -> &[(u32, u32)] {
        debug_assert!(self.edges.is_sorted(), "not closed");
        let begin = self.edges.partition_point(|&(first, _)| first < flow);
        let count = self.edges[begin..].partition_point(|&(first, _)| first == flow);
        &self.edges[begin..begin + count]
    }
}
