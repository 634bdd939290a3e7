//! Names of techniques that are policies of the user's own: the file of a module
//! (`./my-gate.wasm`) or of a class (`./my_gate.py`), or a class itself (`MyGate()`); or with the
//! digest of the content that it must have, `./my-gate.wasm@1f0c...`.
//!
//! A technique's text has a use for some characters, which a file's name in it has as in a URL:
//! `./a%2Bb/my-gate.wasm` is in the folder `a+b`.

use std::borrow::Cow;

/// The ends of names that are policies of the user's own.
const SUFFIXES: [&str; 3] = [".wasm", ".py", "()"];
/// Between a path and a digest.
const DIGEST: char = '@';

/// The characters that a technique's text has a use for, and `%`, as a file's name in it has them.
const ESCAPED: [(char, &str); 5] =
    [('%', "%25"), ('+', "%2B"), (',', "%2C"), (':', "%3A"), (DIGEST, "%40")];
/// Advice for a name that was split in its middle.
pub(crate) const HINT: &str =
    "in a file's name, write `+` as %2B, `,` as %2C, `:` as %3A and `@` as %40";

/// Returns a path as a technique's text has it.
#[must_use]
pub fn escape(path: &str) -> String {
    let escaped = |c| ESCAPED.iter().find(|(plain, _)| *plain == c).map(|(_, escaped)| *escaped);
    path.chars().fold(String::new(), |mut text, c| {
        match escaped(c) {
            Some(escaped) => text.push_str(escaped),
            None => text.push(c),
        }
        text
    })
}

/// Returns the path that a technique's text has. A `%` that begins no such character is itself.
#[must_use]
pub fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return text.into();
    }
    let (mut path, mut rest) = (String::new(), text);
    while let Some(c) = rest.chars().next() {
        let found = ESCAPED.iter().find(|(_, escaped)| rest.starts_with(escaped));
        let (plain, length) = found.map_or((c, c.len_utf8()), |(plain, text)| (*plain, text.len()));
        path.push(plain);
        rest = &rest[length..];
    }
    path.into()
}

/// True if a technique's name is a policy of the user's own.
pub(crate) fn is_file(name: &str) -> bool {
    let path = split(name).0;
    SUFFIXES.into_iter().any(|suffix| path.ends_with(suffix))
}

/// Splits a name into its path and its digest, which is empty where none is given.
pub(crate) fn split(name: &str) -> (&str, &str) {
    name.split_once(DIGEST).unwrap_or((name, ""))
}

/// Joins a path and a digest.
pub(crate) fn join(path: &str, digest: &str) -> String {
    format!("{path}{DIGEST}{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_comes_back_from_a_technique_s_text() {
        for path in ["./my-gate.wasm", "a+b/c,d:e@f.wasm", "50%/x.wasm", "%2B/\u{e9}%.wasm"] {
            let text = escape(path);
            assert!(!text.contains(['+', ',', ':', '@']), "{text}");
            assert_eq!(unescape(&text), path);
        }
        assert_eq!(escape("a+b/x.wasm"), "a%2Bb/x.wasm");
        assert_eq!(unescape("50%/x%2b.wasm"), "50%/x%2b.wasm", "neither is one of them");
    }
}
