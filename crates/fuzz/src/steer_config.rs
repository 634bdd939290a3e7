//! Arbitrary text as the description of a live proxy.

use std::path::Path;

use halfwink_engine::Input;
use halfwink_live_steer::Config;

/// Checks what is said above of these bytes.
pub fn run(bytes: &[u8]) {
    let text = crate::text(bytes);
    // It would open the key that is named there, whatever that is.
    if text.contains("announce") {
        return;
    }
    match Config::parse(&Input::new("x.toml", text), Path::new("")) {
        Ok(config) => assert_eq!(config.schema, 1),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}
