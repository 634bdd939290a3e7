//! Every integration test of the crate in one program, so that its libraries are linked once.

mod golden;
mod held_out;
mod laws;
mod logs;
mod own_governor;
mod own_policy;
mod records;

use std::sync::LazyLock;

use halfwink_study::Library;

/// Returns the library of the repository, which all tests share: services are warmed up once.
fn library() -> Library {
    static SHIPPED: LazyLock<Library> =
        LazyLock::new(|| Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    SHIPPED.clone()
}
