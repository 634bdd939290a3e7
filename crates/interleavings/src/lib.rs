//! Hand-overs between threads, played in every order in which these can see each other's words.
//!
//! The tests take the sources of the hand-overs as they are, and give them loom's words in place of
//! the machine's: no flag, no second build of anything else. Nothing is here but tests.
