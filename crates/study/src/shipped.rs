//! The library of the repository, for tests.

use std::sync::LazyLock;

use crate::library::Library;

/// Returns the one that all tests share: what one of them has read or warmed up serves the others.
pub(crate) fn library() -> Library {
    static SHIPPED: LazyLock<Library> =
        LazyLock::new(|| Library::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")));
    SHIPPED.clone()
}
