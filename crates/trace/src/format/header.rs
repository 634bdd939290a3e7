//! The parts of a trace that people read: provenance, index, totals. JSON on disk.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Origin of a trace, and the way to read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Name of the workload (`nginx`).
    pub workload: String,
    /// One sentence on what was recorded.
    pub description: String,
    /// Name of the instruction set (`x86-64`).
    pub isa: String,
    /// Command line of the recorded program, or of the import.
    pub command: Vec<String>,
    /// Kernel of the recorded machine.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Tools that made the trace, with their versions.
    #[serde(default)]
    pub tools: BTreeMap<String, String>,
    /// Packages of the recorded system whose code may appear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<Package>,
    /// Seed of everything random in the recorded machine.
    pub seed: u64,
    /// Unit of work: `request`, or `instruction` where nothing is marked.
    pub unit_of_work: String,
    /// Arrival process of requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Load>,
    /// CPUs of the recorded machine; which of them the trace holds is in its
    /// [`crate::Event::Cpu`]s.
    pub cpus: u16,
    /// Virtual picoseconds per instruction of the recorded machine; 0 if time was not virtual.
    #[serde(default)]
    pub ps_per_instruction: u64,
    /// Code bytes or decoded records.
    pub code: CodeForm,
    /// A linear mapping of physical memory that addresses are predicted with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direct_map: Option<DirectMap>,
    /// The samples that the trace holds of a longer run, if it is not a whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Samples>,
    /// Cuts and conversions since the recording, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<String>,
    /// Terms of use, and other remarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl Header {
    /// A header with everything optional left out.
    #[must_use]
    pub fn new(workload: &str, description: &str, code: CodeForm) -> Header {
        Header {
            workload: workload.to_owned(),
            description: description.to_owned(),
            isa: "x86-64".to_owned(),
            command: Vec::new(),
            kernel: String::new(),
            tools: BTreeMap::new(),
            packages: Vec::new(),
            seed: 0,
            unit_of_work: "instruction".to_owned(),
            load: None,
            cpus: 1,
            ps_per_instruction: 0,
            code,
            direct_map: None,
            samples: None,
            history: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Samples of a run, at one distance. The trace holds them one behind the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Instructions of the run.
    pub of: u64,
    /// Instructions of the run from the begin of a sample to that of the next.
    pub every: u64,
    /// Instructions of the trace before each sample.
    pub begins: Vec<u64>,
}

/// A software package, by name and exact version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// Exact version, as the distribution writes it.
    pub version: String,
}

/// Arrival process of requests at the recorded service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Dependence of arrivals on responses.
    pub kind: LoadKind,
    /// Offered requests per virtual second, for open loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u64>,
    /// Number of connections, or clients.
    pub connections: u32,
}

/// Dependence of arrivals on responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadKind {
    /// Requests arrive on their own schedule: idle time ends at a fixed time.
    Open,
    /// The next request follows a response: idle time has a fixed length.
    Closed,
}

/// Form in which the dictionary stores instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeForm {
    /// The instruction bytes, decoded when the file is opened.
    Bytes,
    /// Decoded records only; the recorded programs' bytes are not in the file.
    Decoded,
}

/// `phys = virt - virt_base` for `virt` in `virt_base .. virt_base + bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectMap {
    /// First virtual address of the map.
    pub virt_base: u64,
    /// Length of the map.
    pub bytes: u64,
}

/// One section of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionInfo {
    /// File offset of the section's header.
    pub offset: u64,
    /// Kind of the section: `dictionary`, `chunk` or `warm`.
    pub kind: SectionKindName,
    /// Content of a chunk, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<ChunkInfo>,
}

/// Names of section kinds in the footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SectionKindName {
    /// Section of blocks and templates.
    Dictionary,
    /// Section of executed blocks.
    Chunk,
    /// Cache lines touched before the first chunk.
    Warm,
}

/// Summary of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkInfo {
    /// Instructions before this chunk.
    pub first_instruction: u64,
    /// Retired in it; further iterations of repeated ones do not count.
    pub instructions: u64,
    /// Executions of blocks in it.
    pub runs: u64,
}

/// Counts over the whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Retired instructions; all iterations of a repeated string instruction are one.
    pub instructions: u64,
    /// Number of instructions with kernel privilege.
    pub kernel_instructions: u64,
    /// Number of executed blocks.
    pub runs: u64,
    /// Memory accesses of instructions.
    pub accesses: u64,
    /// Iterations of repeated string instructions beyond the first.
    pub repeats: u64,
    /// Number of events by name.
    pub events: BTreeMap<String, u64>,
    /// Sum of idle periods, in virtual nanoseconds.
    pub idle_ns: u64,
    /// Requests begun and ended inside the trace.
    pub requests: u64,
}

/// The last section: where everything is, and how much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footer {
    /// All sections before the footer, in file order.
    pub sections: Vec<SectionInfo>,
    /// Counts over the whole trace.
    pub totals: Totals,
}
