//! Arbitrary text as the description of a live router.

use std::path::Path;

use halfwink_engine::Input;
use halfwink_live_router::Config;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    if let Err(error) = Config::parse(&Input::new("x.toml", crate::text(bytes)), Path::new("")) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
