//! One file: bytes to nodes whose values are possible.

use std::collections::HashMap;

use halfwink_units::Time;
use prost::Message;

use super::schema::{Attribute, CollectiveType, GlobalMetadata, Node, NodeType, Value};
use super::{ChakraError, File};
use crate::flows::racks::Roofline;

/// Longest that a node may take, in microseconds (11 days), and most bytes of one.
const LONGEST_US: u64 = 1_000_000_000_000;
const LARGEST: i128 = 1_000_000_000_000_000;
/// Longest message; a node has a few hundred bytes.
const LONGEST_MESSAGE: usize = 1 << 28;

/// Nodes of a rank.
pub(super) struct Rank {
    pub(super) nodes: Vec<Step>,
}

/// A node of the execution graph.
pub(super) struct Step {
    pub(super) id: u64,
    /// Predecessors, by their place in the rank.
    pub(super) after: Vec<u32>,
    pub(super) what: What,
}

pub(super) enum What {
    /// Time of the rank alone.
    Takes(Time),
    /// A collective of `bytes` from each rank of a group; the group of all ranks has no name.
    Together {
        what: Comm,
        bytes: f64,
        group: String,
    },
    /// Messages between two ranks are told apart by tags.
    Send {
        to: u32,
        tag: i128,
        bytes: f64,
    },
    Receive {
        from: u32,
        tag: i128,
        bytes: f64,
    },
}

/// Collective operations between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comm {
    AllReduce,
    AllGather,
    ReduceScatter,
    AllToAll,
    Broadcast,
    Barrier,
}

/// Reads the file of one of so many ranks.
pub(super) fn read(
    file: &File,
    rank: u32,
    ranks: u32,
    roofline: Option<Roofline>,
) -> Result<Rank, ChakraError> {
    let wrong = |message| ChakraError { file: file.name.clone(), node: None, message };
    let mut rest = &file.bytes[..];
    if rest.is_empty() {
        return Err(wrong("found nothing, expected an execution trace".to_owned()));
    }
    next::<GlobalMetadata>(file, &mut rest)?;
    let (mut raw, mut places) = (Vec::<Node>::new(), HashMap::new());
    while !rest.is_empty() {
        let node = next::<Node>(file, &mut rest)?;
        if places.insert(node.id, raw.len() as u32).is_some() {
            return Err(wrong(format!("two nodes {}, expected each id once", node.id)));
        }
        raw.push(node);
    }
    let step = |node: &Node| {
        let at = |message| ChakraError { file: file.name.clone(), node: Some(node.id), message };
        let mut after = Vec::with_capacity(node.ctrl_deps.len() + node.data_deps.len());
        for id in node.ctrl_deps.iter().chain(&node.data_deps) {
            let place = places.get(id);
            after.push(
                *place.ok_or_else(|| at(format!("waits for node {id}, which is not there")))?,
            );
        }
        after.sort_unstable();
        after.dedup();
        let what = Reading { node, rank, ranks, roofline }.what().map_err(at)?;
        Ok(Step { id: node.id, after, what })
    };
    Ok(Rank { nodes: raw.iter().map(step).collect::<Result<_, _>>()? })
}

/// The next message: its length, then itself.
fn next<M: Message + Default>(file: &File, rest: &mut &[u8]) -> Result<M, ChakraError> {
    let at = file.bytes.len() - rest.len();
    let wrong = |what: &dyn std::fmt::Display| {
        let message = format!("byte {at}: {what}");
        ChakraError { file: file.name.clone(), node: None, message }
    };
    let length = prost::decode_length_delimiter(&mut *rest).map_err(|e| wrong(&e))?;
    // `split_at` panics beyond the end, and a damaged length may say anything.
    if length > rest.len().min(LONGEST_MESSAGE) {
        let left = rest.len();
        return Err(wrong(&format!("a message of {length} bytes, where {left} are left")));
    }
    let (message, after) = rest.split_at(length);
    *rest = after;
    M::decode(message).map_err(|error| wrong(&error))
}

/// A node of a rank, of so many.
struct Reading<'a> {
    node: &'a Node,
    rank: u32,
    ranks: u32,
    roofline: Option<Roofline>,
}

impl Reading<'_> {
    fn what(&self) -> Result<What, String> {
        match NodeType::try_from(self.node.r#type) {
            Ok(NodeType::Metadata) => Ok(What::Takes(Time::ZERO)),
            Ok(NodeType::Comp | NodeType::MemLoad | NodeType::MemStore) => self.takes(),
            Ok(NodeType::CommColl) => self.together(),
            Ok(NodeType::CommSend) => {
                self.is_self("comm_src")?;
                let (to, tag, bytes) = self.message("comm_dst")?;
                Ok(What::Send { to, tag, bytes })
            }
            Ok(NodeType::CommRecv) => {
                self.is_self("comm_dst")?;
                let (from, tag, bytes) = self.message("comm_src")?;
                Ok(What::Receive { from, tag, bytes })
            }
            _ => Err(format!("type {}, expected 1 to 7", self.node.r#type)),
        }
    }

    fn takes(&self) -> Result<What, String> {
        let us = self.node.duration_micros;
        if us > LONGEST_US {
            return Err(format!("duration_micros {us}, expected 0 to {LONGEST_US}"));
        }
        // A recorded time wins over what a roofline would make of the operations.
        if us > 0 {
            return Ok(What::Takes(Time::ns(1000 * us)));
        }
        let (operations, bytes) = (self.positive("num_ops")?, self.positive("tensor_size")?);
        // A computation of no operations takes no time, whatever the size of its tensor; loads and
        // stores have bytes alone.
        let is_computed = operations > 0.0 || self.node.r#type != NodeType::Comp as i32;
        if !is_computed || operations + bytes == 0.0 {
            return Ok(What::Takes(Time::ZERO));
        }
        let roofline = self.roofline.ok_or_else(|| {
            format!(
                "num_ops {operations} and no duration_micros: this fabric does not say how fast \
                 ranks compute ([racks.rank]), expected one that does: -m training-64"
            )
        })?;
        let s = roofline.seconds(operations, bytes);
        if s > 1e-6 * LONGEST_US as f64 {
            return Err(format!("num_ops {operations}, which take {s} seconds"));
        }
        Ok(What::Takes(Time::from_ns(1e9 * s)))
    }

    /// A number of operations or bytes; 0 if it is not there.
    fn positive(&self, name: &str) -> Result<f64, String> {
        match self.whole(name)? {
            Some(number) if number < 0 => Err(format!("{name} {number}, expected 0 or more")),
            number => Ok(number.unwrap_or(0) as f64),
        }
    }

    fn together(&self) -> Result<What, String> {
        let kind = self.needed("comm_type")?;
        let known = i32::try_from(kind).ok().and_then(|kind| CollectiveType::try_from(kind).ok());
        let what = match known {
            Some(CollectiveType::AllReduce) => Comm::AllReduce,
            Some(CollectiveType::AllGather) => Comm::AllGather,
            Some(CollectiveType::ReduceScatter | CollectiveType::ReduceScatterBlock) => {
                Comm::ReduceScatter
            }
            Some(CollectiveType::AllToAll) => Comm::AllToAll,
            Some(CollectiveType::Broadcast) => Comm::Broadcast,
            Some(CollectiveType::Barrier) => Comm::Barrier,
            _ => {
                let known =
                    "0, 2, 5, 6, 7, 8 or 9 (all-reduce, all-gather, broadcast, all-to-all, \
                             reduce-scatter, barrier)";
                return Err(format!("comm_type {kind}, expected {known}"));
            }
        };
        let group = match self.value("pg_name") {
            None => String::new(),
            Some(Value::Text(name)) => name.clone(),
            Some(_) => return Err("pg_name is no text".to_owned()),
        };
        let bytes = if what == Comm::Barrier { 0.0 } else { self.bytes()? };
        // Nothing to send, but all of them come together.
        let what = if bytes == 0.0 { Comm::Barrier } else { what };
        Ok(What::Together { what, bytes, group })
    }

    fn message(&self, other: &str) -> Result<(u32, i128, f64), String> {
        let rank = self.needed(other)?;
        if !(0..i128::from(self.ranks)).contains(&rank) || rank == i128::from(self.rank) {
            let most = self.ranks - 1;
            return Err(format!("{other} {rank}, expected another rank of 0 to {most}"));
        }
        let tag = self.whole("comm_tag")?.unwrap_or(0);
        // A message of no bytes still has to arrive; a flow has one byte at least.
        Ok((rank as u32, tag, self.bytes()?.max(1.0)))
    }

    /// A message's own end may be named; then it is this rank.
    fn is_self(&self, name: &str) -> Result<(), String> {
        match self.whole(name)? {
            Some(found) if found != i128::from(self.rank) => {
                Err(format!("{name} {found}, expected {}, as the file's", self.rank))
            }
            _ => Ok(()),
        }
    }

    /// `comm_size`, or `tensor_size` as the format's own generator writes messages.
    fn bytes(&self) -> Result<f64, String> {
        let (name, bytes) = match self.whole("comm_size")? {
            Some(bytes) => ("comm_size", bytes),
            None => match self.whole("tensor_size")? {
                Some(bytes) => ("tensor_size", bytes),
                None => return Err("no comm_size, expected bytes".to_owned()),
            },
        };
        if (0..=LARGEST).contains(&bytes) {
            return Ok(bytes as f64);
        }
        Err(format!("{name} {bytes}, expected 0 to {LARGEST}"))
    }

    fn value(&self, name: &str) -> Option<&Value> {
        let found = |attribute: &&Attribute| attribute.name == name;
        self.node.attr.iter().find(found).and_then(|attribute| attribute.value.as_ref())
    }

    fn whole(&self, name: &str) -> Result<Option<i128>, String> {
        let no_number = || format!("{name} is no whole number");
        self.value(name).map(|value| value.whole().ok_or_else(no_number)).transpose()
    }

    fn needed(&self, name: &str) -> Result<i128, String> {
        self.whole(name)?.ok_or_else(|| format!("no {name}, expected a whole number"))
    }
}
