//! Nodes of all ranks to flows: who takes part in what, in which order, after what.

use std::collections::{BTreeMap, VecDeque};

use halfwink_units::Time;

use super::nodes::{Comm, Rank, What};
use super::{ChakraError, File};
use crate::flows::collective::{add, Collective, Members};
use crate::flows::traffic::{Flow, Traffic};
use crate::flows::workload::MOST_FLOWS;

/// A node: its rank, and its place there.
type Place = (u32, u32);

/// Nodes that happen together: the parts of a collective, or one node.
#[derive(Default)]
struct Unit {
    parts: Vec<Place>,
    /// Unit that sends, if this one receives.
    sender: Option<u32>,
    /// Number of units that it still waits for.
    blocked: u32,
}

struct Graph<'a> {
    files: &'a [File],
    ranks: &'a [Rank],
    ranks_per_server: u32,
    units: Vec<Unit>,
    /// Index of the unit of each node, by rank and place.
    unit_of: Vec<Vec<u32>>,
    /// Flows after which the successors of a node continue, by rank and place.
    ended: Vec<Vec<Vec<u32>>>,
    traffic: Traffic,
    group: u32,
}

/// All flows, in an order in which none waits for a later one.
pub(super) fn traffic(
    files: &[File],
    ranks: &[Rank],
    ranks_per_server: u32,
) -> Result<Traffic, ChakraError> {
    let mut traffic = Traffic::default();
    let group = traffic.group();
    let mut graph = Graph {
        files,
        ranks,
        ranks_per_server,
        units: vec![],
        unit_of: ranks.iter().map(|rank| vec![u32::MAX; rank.nodes.len()]).collect(),
        ended: ranks.iter().map(|rank| vec![vec![]; rank.nodes.len()]).collect(),
        traffic,
        group,
    };
    graph.join_collectives()?;
    graph.join_messages()?;
    graph.add_others();
    graph.play()?;
    Ok(graph.traffic)
}

impl Graph<'_> {
    fn wrong(&self, rank: u32, node: Option<u64>, message: String) -> ChakraError {
        ChakraError { file: self.files[rank as usize].name.clone(), node, message }
    }

    fn id(&self, (rank, place): Place) -> u64 {
        self.ranks[rank as usize].nodes[place as usize].id
    }

    fn what(&self, (rank, place): Place) -> &What {
        &self.ranks[rank as usize].nodes[place as usize].what
    }

    fn unit(&mut self, parts: Vec<Place>, sender: Option<u32>) -> u32 {
        let number = self.units.len() as u32;
        for &(rank, place) in &parts {
            self.unit_of[rank as usize][place as usize] = number;
        }
        self.units.push(Unit { parts, sender, blocked: 0 });
        number
    }

    fn places(&self) -> impl Iterator<Item = Place> + use<'_> {
        let of =
            |(rank, nodes): (u32, &Rank)| (0..nodes.nodes.len() as u32).map(move |n| (rank, n));
        (0..).zip(self.ranks).flat_map(of)
    }

    /// The k-th collective of a group at each rank that has any of it are one, as files have them.
    fn join_collectives(&mut self) -> Result<(), ChakraError> {
        let mut groups = BTreeMap::<&str, BTreeMap<u32, Vec<Place>>>::new();
        for place in self.places() {
            if let What::Together { group, .. } = self.what(place) {
                groups.entry(group).or_default().entry(place.0).or_default().push(place);
            }
        }
        // The group without a name is all ranks, also those whose files have no collective of it:
        // that is an error, not a smaller group.
        if let Some(members) = groups.get_mut("") {
            for rank in 0..self.ranks.len() as u32 {
                members.entry(rank).or_default();
            }
        }
        let mut joined = vec![];
        for (name, members) in groups {
            // The longest list is taken as right: the error then names the rank where a collective
            // is missing.
            let Some((&first, of_first)) = members.iter().max_by_key(|(_, own)| own.len()) else {
                continue;
            };
            for (&rank, own) in &members {
                if own.len() != of_first.len() {
                    let (found, expected) = (own.len(), of_first.len());
                    let (group, file) = (named(name), &self.files[first as usize].name);
                    let message =
                        format!("{found} collectives{group}, expected {expected} as in {file}");
                    return Err(self.wrong(rank, None, message));
                }
            }
            for n in 0..of_first.len() {
                let parts: Vec<Place> = members.values().map(|own| own[n]).collect();
                self.check_alike(&parts)?;
                joined.push(parts);
            }
        }
        for parts in joined {
            self.unit(parts, None);
        }
        Ok(())
    }

    /// All of them do the same, with as many bytes; only what is sent all to all may be uneven.
    fn check_alike(&self, parts: &[Place]) -> Result<(), ChakraError> {
        let told = |place| match self.what(place) {
            What::Together { what, bytes, .. } => (*what, *bytes),
            _ => (Comm::Barrier, 0.0),
        };
        let first = told(parts[0]);
        for &place in &parts[1..] {
            let found = told(place);
            let is_uneven = found.0 == Comm::AllToAll && first.0 == Comm::AllToAll;
            if found != first && !is_uneven {
                let file = &self.files[parts[0].0 as usize].name;
                let (what, bytes) = found;
                let message = format!(
                    "{what:?} of {bytes} bytes, expected {:?} of {} as node {} of {file}",
                    first.0,
                    first.1,
                    self.id(parts[0]),
                );
                return Err(self.wrong(place.0, Some(self.id(place)), message));
            }
        }
        Ok(())
    }

    /// The k-th message of a tag from a rank to another is received by its k-th receiver.
    fn join_messages(&mut self) -> Result<(), ChakraError> {
        let mut sends = BTreeMap::<(u32, u32, i128), VecDeque<Place>>::new();
        for place in self.places() {
            if let What::Send { to, tag, .. } = *self.what(place) {
                sends.entry((place.0, to, tag)).or_default().push_back(place);
            }
        }
        let mut pairs = vec![];
        for place in self.places() {
            let What::Receive { from, tag, bytes } = *self.what(place) else { continue };
            // Messages of one tag between two ranks arrive in the order in which they were sent, as
            // in MPI.
            let found = sends.get_mut(&(from, place.0, tag)).and_then(VecDeque::pop_front);
            let wrong = |message| Err(self.wrong(place.0, Some(self.id(place)), message));
            let Some(send) = found else {
                return wrong(format!("rank {from} has no message of tag {tag} for it"));
            };
            match *self.what(send) {
                What::Send { bytes: sent, .. } if sent != bytes => {
                    return wrong(format!("{bytes} bytes, expected {sent} as rank {from} sends"));
                }
                _ => pairs.push((send, place)),
            }
        }
        if let Some(&place) = sends.values().flatten().next() {
            let message = "nobody receives it, expected a node that does".to_owned();
            return Err(self.wrong(place.0, Some(self.id(place)), message));
        }
        for (send, receive) in pairs {
            let sender = self.unit(vec![send], None);
            self.unit(vec![receive], Some(sender));
        }
        Ok(())
    }

    fn add_others(&mut self) {
        let rest: Vec<Place> = self
            .places()
            .filter(|&(rank, place)| self.unit_of[rank as usize][place as usize] == u32::MAX)
            .collect();
        for place in rest {
            self.unit(vec![place], None);
        }
    }

    /// Adds flows of units whose dependencies have theirs.
    fn play(&mut self) -> Result<(), ChakraError> {
        let mut edges = Vec::<(u32, u32)>::new();
        for (number, unit) in (0..).zip(&self.units) {
            for &(rank, place) in &unit.parts {
                let after = &self.ranks[rank as usize].nodes[place as usize].after;
                let units = &self.unit_of[rank as usize];
                edges.extend(after.iter().map(|&before| (units[before as usize], number)));
            }
            edges.extend(unit.sender.map(|sender| (sender, number)));
        }
        // Sorted, the edges of a unit are one slice: no list for each of millions of units.
        edges.sort_unstable();
        for &(_, later) in &edges {
            self.units[later as usize].blocked += 1;
        }
        let is_free = |number: &u32| self.units[*number as usize].blocked == 0;
        let mut ready: VecDeque<u32> = (0..self.units.len() as u32).filter(is_free).collect();
        let mut done = 0;
        while let Some(number) = ready.pop_front() {
            self.add(number)?;
            done += 1;
            let begin = edges.partition_point(|&(before, _)| before < number);
            for &(_, later) in edges[begin..].iter().take_while(|&&(before, _)| before == number) {
                let blocked = &mut self.units[later as usize].blocked;
                *blocked -= 1;
                if *blocked == 0 {
                    ready.push_back(later);
                }
            }
        }
        // Kahn's order: units that are left block each other, whatever else is in the graph.
        if done == self.units.len() {
            return Ok(());
        }
        let stuck = self.units.iter().filter(|unit| unit.blocked > 0);
        let first = stuck.map(|unit| unit.parts[0]).min().unwrap_or((0, 0));
        let message = "waits for itself, by way of others: expected no cycle".to_owned();
        Err(self.wrong(first.0, Some(self.id(first)), message))
    }

    /// Flows after which a node may begin.
    fn before(&self, (rank, place): Place) -> Vec<u32> {
        let rank = rank as usize;
        let after = &self.ranks[rank].nodes[place as usize].after;
        let ended = &self.ended[rank];
        let mut flows: Vec<u32> =
            after.iter().flat_map(|&n| ended[n as usize].iter().copied()).collect();
        flows.sort_unstable();
        flows.dedup();
        flows
    }

    fn server(&self, rank: u32) -> u32 {
        rank / self.ranks_per_server
    }

    /// A flow between ranks; within a server it is over at once.
    fn flow(&self, from: u32, to: u32, bytes: f64, after: Time) -> Flow {
        let (from, to) = (self.server(from), self.server(to));
        Flow { from, to, bytes, after, group: self.group }
    }

    fn add(&mut self, number: u32) -> Result<(), ChakraError> {
        let parts = std::mem::take(&mut self.units[number as usize].parts);
        let first = parts[0];
        let mut before: Vec<Vec<u32>> = parts.iter().map(|&place| self.before(place)).collect();
        let ended = match *self.what(first) {
            What::Takes(time) => vec![self.takes(first.0, time, before.remove(0))],
            What::Send { to, bytes, .. } => {
                let flow = self.flow(first.0, to, bytes, Time::ZERO);
                vec![vec![self.traffic.add(flow, &before[0])]]
            }
            What::Receive { .. } => {
                let sender = self.units[number as usize].sender;
                let sent = sender.map(|unit| self.sent_by(unit)).unwrap_or_default();
                before[0].extend(sent);
                vec![self.takes(first.0, Time::ZERO, before.remove(0))]
            }
            What::Together { what, .. } => self.together(what, &parts, &before)?,
        };
        for (&(rank, place), ended) in parts.iter().zip(ended) {
            self.ended[rank as usize][place as usize] = ended;
        }
        self.units[number as usize].parts = parts;
        Ok(())
    }

    fn sent_by(&self, unit: u32) -> Vec<u32> {
        let (rank, place) = self.units[unit as usize].parts[0];
        self.ended[rank as usize][place as usize].clone()
    }

    /// A time of the rank alone. No time after one other is that other.
    fn takes(&mut self, rank: u32, time: Time, before: Vec<u32>) -> Vec<u32> {
        // Such a flow would only copy its one predecessor; with several it is the point where they
        // meet.
        if time == Time::ZERO && before.len() < 2 {
            return before;
        }
        let flow = self.flow(rank, rank, 0.0, time);
        vec![self.traffic.add(flow, &before)]
    }

    fn together(
        &mut self,
        what: Comm,
        parts: &[Place],
        before: &[Vec<u32>],
    ) -> Result<Vec<Vec<u32>>, ChakraError> {
        let n = parts.len();
        let bytes = |&place: &Place| match *self.what(place) {
            // Each has a byte for each other at least.
            What::Together { bytes, .. } => bytes.max(n as f64),
            _ => 0.0,
        };
        let each: Vec<f64> = parts.iter().map(bytes).collect();
        let (what, bytes) = match what {
            Comm::AllReduce => (Collective::RingAllReduce, each[0]),
            // What a rank gives is the whole of a step.
            Comm::AllGather => (Collective::AllGather, each[0] * n as f64),
            Comm::ReduceScatter => (Collective::ReduceScatter, each[0]),
            Comm::AllToAll => (Collective::AllToAll, each[0]),
            Comm::Broadcast => (Collective::Broadcast, each[0]),
            Comm::Barrier => {
                let all = before.concat();
                let joined = self.takes(parts[0].0, Time::ZERO, all);
                return Ok(vec![joined; n]);
            }
        };
        let more = what.flows(n) as f64;
        if self.traffic.flows().len() as f64 + more > MOST_FLOWS {
            let message = format!("more than {MOST_FLOWS} flows until here");
            return Err(self.wrong(parts[0].0, Some(self.id(parts[0])), message));
        }
        let servers: Vec<u32> = parts.iter().map(|&(rank, _)| self.server(rank)).collect();
        let uneven = if what == Collective::AllToAll { &each[..] } else { &[] };
        let members =
            Members { servers: &servers, bytes, uneven, group: self.group, after: before };
        Ok(add(&mut self.traffic, what, &members))
    }
}

fn named(group: &str) -> String {
    if group.is_empty() {
        String::new()
    } else {
        // As it is in a file, which may be anything.
        format!(" of group `{}`", group.escape_debug())
    }
}
