//! The worlds behind the seam, a folder each.

pub(crate) mod chip;
pub(crate) mod common;
pub(crate) mod fabric;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod node;
pub(crate) mod preheat;
pub(crate) mod racks;
pub(crate) mod router;
pub(crate) mod server;
pub(crate) mod storage;
pub(crate) mod switching;
mod toy;
