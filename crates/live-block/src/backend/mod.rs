//! What holds the bytes.

mod device;
mod file;
mod gate;
mod modelled;
mod ram;
mod rings;
mod written;

pub use device::{Backend, Extent, Way, Window};
pub use file::{File, Io};
pub(crate) use gate::{is_whole, Closed, Gate};
pub(crate) use modelled::Draws;
pub use modelled::{Delay, Modelled};
pub use ram::Ram;
pub use rings::Rings;
