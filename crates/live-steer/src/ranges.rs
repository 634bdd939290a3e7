//! Values of a description that are outside of their range.

/// A mistake: the key of the description, and what is wrong there.
pub(super) type Wrong = (String, String);

/// An hour, in milliseconds.
pub(super) const HOUR_MS: u64 = 3_600_000;

/// Returns a mistake at a key.
pub(super) fn wrong(key: &str, message: impl Into<String>) -> Result<(), Wrong> {
    Err((key.to_owned(), message.into()))
}

/// Checks that a value is within its range.
pub(super) fn within(key: &str, found: u64, least: u64, most: u64) -> Result<(), Wrong> {
    if (least..=most).contains(&found) {
        return Ok(());
    }
    let expected = if least == most { format!("{least}") } else { format!("{least} to {most}") };
    wrong(key, format!("found {found}, expected {expected}"))
}
