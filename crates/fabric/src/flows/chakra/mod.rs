//! Execution traces of training jobs (MLCommons Chakra; Sridharan 2023): a graph of what each rank
//! computes and sends, a file for each rank, becomes flows.
//!
//! ```text
//!   trace.0.et ─┐            k-th of a group with the k-th of
//!   trace.1.et ─┼─▶ nodes ─▶ each rank, sends with receives   ─▶ order ─▶ flows, each after others
//!   ...        ─┘
//! ```
//!
//! | node | becomes |
//! |---|---|
//! | computes, loads or stores | its `duration_micros`; without one, by its `num_ops` |
//! | `ALL_REDUCE`, `ALL_GATHER`, `REDUCE_SCATTER` | a ring; `comm_size` is what a rank gives |
//! | `ALL_TO_ALL` | from each an `n`th of its own `comm_size` to each |
//! | `BROADCAST` | a binary tree from the first rank of its group |
//! | `BARRIER`, and collectives of no bytes | all wait for all |
//! | a message | one flow, which its receiver waits for |
//!
//! Operations and bytes (`num_ops`, `tensor_size`) take what the fabric's `[racks.rank]` takes at
//! its best.
//!
//! A node begins when all of its `data_deps` and `ctrl_deps` have ended, and nothing else holds it
//! back: two computations of a rank that do not depend on each other overlap. Which ranks a group
//! has is not in the files; here it is all those with a collective of its `pg_name`.

mod graph;
mod nodes;
pub mod schema;

use prost::Message;

use super::{Racks, Traffic};

/// A file of the trace.
#[derive(Clone, Debug)]
pub struct File {
    /// Name of the file, for errors.
    pub name: String,
    /// Content of the file, decompressed.
    pub bytes: Vec<u8>,
}

/// An error in a trace, with its file and node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {}{message}", self.place())]
pub struct ChakraError {
    /// Name of the rank's file.
    pub file: String,
    /// The node, if it is one of them.
    pub node: Option<u64>,
    /// Message with the value found and the values allowed.
    pub message: String,
}

impl ChakraError {
    fn place(&self) -> String {
        self.node.map_or_else(String::new, |node| format!("node {node}: "))
    }
}

/// Reads files, one for each rank in their order. So many ranks after each other are at one server;
/// what they send to each other takes no time.
///
/// # Errors
/// With the file and the node that are wrong.
pub fn read(files: &[File], racks: &Racks, ranks_per_server: u32) -> Result<Traffic, ChakraError> {
    let ranks = u32::try_from(files.len()).unwrap_or(u32::MAX);
    let (servers, each) = (racks.all_servers(), ranks_per_server.max(1));
    let used = ranks.div_ceil(each);
    let Some(first) = files.first() else {
        let message = "found no file, expected one for each rank".to_owned();
        return Err(ChakraError { file: String::new(), node: None, message });
    };
    if used > servers {
        let message = format!("{ranks} ranks on {used} servers, expected at most {servers}");
        return Err(ChakraError { file: first.name.clone(), node: None, message });
    }
    let read = |(file, rank)| nodes::read(file, rank, ranks, racks.rank);
    let nodes = files.iter().zip(0..).map(read).collect::<Result<Vec<_>, _>>()?;
    let mut traffic = graph::traffic(files, &nodes, each)?;
    if traffic.flows().is_empty() {
        let message = "found nothing that takes time, expected nodes".to_owned();
        return Err(ChakraError { file: first.name.clone(), node: None, message });
    }
    traffic.close();
    Ok(traffic)
}

/// A file of these nodes, for tests and tools.
#[must_use]
pub fn write(nodes: &[schema::Node]) -> Vec<u8> {
    let head = schema::GlobalMetadata { version: "0.0.4".to_owned(), attr: vec![] };
    let mut bytes = head.encode_length_delimited_to_vec();
    for node in nodes {
        bytes.extend(node.encode_length_delimited_to_vec());
    }
    bytes
}
