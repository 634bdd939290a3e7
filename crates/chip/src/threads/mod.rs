//! Threads of one recording, each on a core of its own, in one memory.
//!
//! A recording of a program with several threads is one sequence: it was made as on a machine with
//! one CPU, and an [`Event::Cpu`](halfwink_trace::Event::Cpu) says which thread goes on. Played as
//! [`Threads`], each thread has a stream of its own, and what they tell each other keeps its order.
//!
//! **Synchronisation words** are the aligned four bytes that any thread accesses by an atomic
//! instruction: locks, counters, flags, futexes. An access to one of them, atomic or plain, waits
//! until the last write to it that was recorded before, if that is another thread's, has been done
//! in the caches ([`scan`]). A thread that was blocked in a futex call goes on after the call that
//! woke it; one that was begun, after the call that began it. All other accesses go to the caches
//! without regard to others, which coherence alone orders.
//!
//! **No deadlock**: the recorded order is total, and a thread waits only for what was recorded
//! before (an assertion of the scan). So of the accesses that are not done yet the one that was
//! recorded first waits for nothing. A thread that ends, since the recording or its limit does,
//! releases all that wait for it.
//!
//! **Exactness**: whether a write was done is decided at a fixed time of the reader, once all cores
//! have come as far ([`Turns`]); so it does not matter which core is simulated first.

mod board;
mod contended;
mod locked;
mod order;
mod scan;
mod stream;
mod turns;
mod words;

pub(crate) use board::{Board, Waiting};
pub(crate) use contended::Contended;
pub use order::{OneThread, Threads};
pub(crate) use turns::{Turn, Turns, NO_POST};
