//! What of the format is read: messages of `et_def.proto` (MLCommons Chakra, schema 1.0 and later),
//! by their tags. Tags that are not here are skipped.

use prost::Message;

/// The first message of a file.
#[derive(Clone, PartialEq, Message)]
pub struct GlobalMetadata {
    /// Version of the schema.
    #[prost(string, tag = "1")]
    pub version: String,
    /// Further attributes of the trace.
    #[prost(message, repeated, tag = "2")]
    pub attr: Vec<Attribute>,
}

/// One thing that a rank does.
#[derive(Clone, PartialEq, Message)]
pub struct Node {
    /// Number of the node in its file; the order is free.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Name for human readers.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Kind of the node ([`NodeType`]).
    #[prost(enumeration = "NodeType", tag = "3")]
    pub r#type: i32,
    /// Nodes before it, by order of the program.
    #[prost(uint64, repeated, tag = "4")]
    pub ctrl_deps: Vec<u64>,
    /// Nodes before it, by what it reads.
    #[prost(uint64, repeated, tag = "5")]
    pub data_deps: Vec<u64>,
    /// Begin of the node in the recorded run, in microseconds.
    #[prost(uint64, tag = "6")]
    pub start_time_micros: u64,
    /// Duration of the node in the recorded run, in microseconds.
    #[prost(uint64, tag = "7")]
    pub duration_micros: u64,
    /// Further attributes of the node.
    #[prost(message, repeated, tag = "10")]
    pub attr: Vec<Attribute>,
}

/// A name and its value, of which one kind is read: a number, or a text.
#[derive(Clone, PartialEq, Message)]
pub struct Attribute {
    /// Name of the attribute, such as `comm_size`.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Value of the attribute; none if it has another type.
    #[prost(oneof = "Value", tags = "7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29")]
    pub value: Option<Value>,
}

/// Value of an attribute.
#[derive(Clone, PartialEq, prost::Oneof)]
#[allow(missing_docs, reason = "names of the format's kinds")]
pub enum Value {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

impl Value {
    /// Returns the value as a whole number, whatever its integer type.
    pub(super) fn whole(&self) -> Option<i128> {
        match *self {
            Value::Int32(n) | Value::Sint32(n) | Value::Sfixed32(n) => Some(n.into()),
            Value::Int64(n) | Value::Sint64(n) | Value::Sfixed64(n) => Some(n.into()),
            Value::Uint32(n) | Value::Fixed32(n) => Some(n.into()),
            Value::Uint64(n) | Value::Fixed64(n) => Some(n.into()),
            Value::Bool(_) | Value::Text(_) => None,
        }
    }
}

/// Kinds of nodes in an execution trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum NodeType {
    /// The kind is missing.
    Invalid = 0,
    /// Says something of the run.
    Metadata = 1,
    /// Loads from remote memory.
    MemLoad = 2,
    /// Stores to remote memory.
    MemStore = 3,
    /// Computes on the rank.
    Comp = 4,
    /// Sends to one other rank.
    CommSend = 5,
    /// Receives from one rank.
    CommRecv = 6,
    /// Takes part in a collective.
    CommColl = 7,
}

/// Kinds of collective operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
pub enum CollectiveType {
    /// All have the sum.
    AllReduce = 0,
    /// One has the sum.
    Reduce = 1,
    /// All have what each had.
    AllGather = 2,
    /// One has what each had.
    Gather = 3,
    /// Each has a part of what one had.
    Scatter = 4,
    /// All have what one had.
    Broadcast = 5,
    /// Each has a part of what each had.
    AllToAll = 6,
    /// Each has a part of the sum.
    ReduceScatter = 7,
    /// Another name of `ReduceScatter`.
    ReduceScatterBlock = 8,
    /// All wait for all.
    Barrier = 9,
}
