//! World: requests, queues, small and big machines.

pub mod capping;
pub mod confidence;
