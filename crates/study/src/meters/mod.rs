//! Watts for times that live programs have measured: a described machine stands in for the power
//! meter that nobody has. Rows have the components, states and causes of simulated runs.

mod router;
mod server;

pub use router::{RouterAccounts, RouterTimes};
pub use server::MachineWatts;
