//! What can be chosen of a technique.

use std::fmt;

use halfwink_engine::nearest;

/// A value that a technique takes: `tap:wake=last`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameter {
    /// Name before the `=`.
    pub name: &'static str,
    /// Unit of a number; empty for counts and words.
    pub unit: &'static str,
    /// The value that holds if none is given.
    pub default: Default,
    /// The values that it may have.
    pub range: Range,
    /// A description in one line.
    pub title: &'static str,
    /// The source of the default.
    pub source: &'static str,
}

/// The value of a parameter for which none is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Default {
    /// A number, in the parameter's unit.
    Number(f64),
    /// One of the words that it may be.
    Word(&'static str),
    /// A value that the machine or another parameter decides, described in words.
    From(&'static str),
}

/// The values that a parameter may have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// A number, with both ends.
    Number(f64, f64),
    /// A whole number, with both ends.
    Whole(u64, u64),
    /// One of some words.
    Words(&'static [&'static str]),
    /// Anything that is no value of another kind; what it may be, in words.
    Text(&'static str),
}

/// A value that was chosen, of the parameter's range.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// A number, whole or not.
    Number(f64),
    /// One of the words that it may be.
    Word(&'static str),
    /// Any other text.
    Text(String),
}

impl Parameter {
    /// A number within both ends.
    #[must_use]
    pub const fn number(
        name: &'static str,
        unit: &'static str,
        default: f64,
        ends: (f64, f64),
    ) -> Self {
        let range = Range::Number(ends.0, ends.1);
        Parameter { name, unit, default: Default::Number(default), range, title: "", source: "" }
    }

    /// A whole number within both ends.
    #[must_use]
    pub const fn whole(name: &'static str, default: u64, ends: (u64, u64)) -> Self {
        let (default, range) = (Default::Number(default as f64), Range::Whole(ends.0, ends.1));
        Parameter { name, unit: "", default, range, title: "", source: "" }
    }

    /// One of some words; the first holds if nothing is said.
    #[must_use]
    pub const fn words(name: &'static str, words: &'static [&'static str]) -> Self {
        let (default, range) = (Default::Word(words[0]), Range::Words(words));
        Parameter { name, unit: "", default, range, title: "", source: "" }
    }

    /// Text that a world reads itself; what it may be, in words.
    #[must_use]
    pub const fn text(name: &'static str, what: &'static str, from: &'static str) -> Self {
        let (default, range) = (Default::From(from), Range::Text(what));
        Parameter { name, unit: "", default, range, title: "", source: "" }
    }

    /// Returns the parameter with this explanation and source.
    #[must_use]
    pub const fn about(self, title: &'static str, source: &'static str) -> Self {
        Parameter { title, source, ..self }
    }

    /// Returns the same parameter with a default that something else decides.
    #[must_use]
    pub const fn or_else(self, from: &'static str) -> Self {
        Parameter { default: Default::From(from), ..self }
    }

    /// Reads a value of it.
    ///
    /// # Errors
    /// If it is out of range: what was expected.
    pub fn read(&self, text: &str) -> Result<Setting, String> {
        let found = match self.range {
            Range::Words(words) => {
                let word = words.iter().find(|w| **w == text);
                if let (None, Some(near)) = (word, nearest(text, words.iter().copied())) {
                    return Err(format!("did you mean `{near}`? (expected {})", self.range));
                }
                word.map(|w| Setting::Word(w))
            }
            Range::Text(_) => Some(Setting::Text(text.to_owned())).filter(|_| !text.is_empty()),
            Range::Whole(low, high) => text
                .parse::<u64>()
                .ok()
                .filter(|n| (low..=high).contains(n))
                .map(|n| Setting::Number(n as f64)),
            Range::Number(low, high) => {
                text.parse::<f64>().ok().filter(|n| (low..=high).contains(n)).map(Setting::Number)
            }
        };
        found.ok_or_else(|| {
            let unit = if self.unit.is_empty() { String::new() } else { format!(" {}", self.unit) };
            format!("expected {}{unit}", self.range)
        })
    }

    /// The default, where it is a value.
    #[must_use]
    pub fn fallback(&self) -> Option<Setting> {
        match self.default {
            Default::Number(n) => Some(Setting::Number(n)),
            Default::Word(word) => Some(Setting::Word(word)),
            Default::From(_) => None,
        }
    }

    /// Checks, for tests, that it has an explanation and a source, and that its default may be
    /// chosen.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        assert!(!self.title.is_empty() && !self.source.is_empty(), "{}", self.name);
        if let Some(fallback) = self.fallback() {
            assert_eq!(self.read(&fallback.to_string()), Ok(fallback), "{}", self.name);
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Number(n) => n.fmt(f),
            Setting::Word(word) => word.fmt(f),
            Setting::Text(text) => text.fmt(f),
        }
    }
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Default::Number(n) => n.fmt(f),
            Default::Word(word) | Default::From(word) => word.fmt(f),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Range::Number(low, high) => write!(f, "{low} to {high}"),
            Range::Whole(low, high) => write!(f, "a whole number, {low} to {high}"),
            Range::Words(words) => write!(f, "{}", words.join(", ")),
            Range::Text(what) => what.fmt(f),
        }
    }
}

/// Values that were chosen of some parameters: those of a technique, or the options of a world.
#[derive(Clone, Debug)]
pub struct Values {
    known: &'static [Parameter],
    given: Vec<(&'static Parameter, Setting)>,
}

impl Values {
    /// None chosen yet.
    #[must_use]
    pub fn of(known: &'static [Parameter]) -> Values {
        Values { known, given: Vec::new() }
    }

    /// Whether there is such a parameter.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.known.iter().any(|p| p.name == name)
    }

    /// Chooses a value; that which holds anyway is not kept, so that equal choices are equal text.
    ///
    /// # Errors
    /// If it is out of range: `NAME: `VALUE`, expected ...`.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let Some(found) = self.known.iter().find(|p| p.name == name) else {
            return Err(format!("unknown parameter `{name}`"));
        };
        let setting = found.read(value).map_err(|e| format!("{name}: `{value}`, {e}"))?;
        self.given.retain(|(p, _)| p.name != name);
        if found.fallback().as_ref() != Some(&setting) {
            self.given.push((found, setting));
            self.given.sort_by_key(|(p, _)| p.name);
        }
        Ok(())
    }

    fn holds(&self, name: &str) -> Option<Setting> {
        debug_assert!(self.knows(name), "no parameter `{name}`");
        let given = self.given.iter().find(|(p, _)| p.name == name).map(|(_, s)| s.clone());
        given.or_else(|| self.known.iter().find(|p| p.name == name)?.fallback())
    }

    /// The number that was chosen for a parameter; none if something else decides.
    #[must_use]
    pub fn given(&self, name: &str) -> Option<f64> {
        match self.given.iter().find(|(p, _)| p.name == name) {
            Some((_, Setting::Number(n))) => Some(*n),
            _ => None,
        }
    }

    /// The text that was chosen.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.given.iter().find(|(p, _)| p.name == name) {
            Some((_, Setting::Text(text))) => Some(text),
            _ => None,
        }
    }

    /// The number that holds for a parameter: chosen, or its default. A row that asks for a number
    /// of its words is a mistake in this crate, which its test finds.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        match self.holds(name) {
            Some(Setting::Number(n)) => n,
            _ => f64::NAN,
        }
    }

    /// The word that holds for a parameter.
    #[must_use]
    pub fn word(&self, name: &str) -> &'static str {
        match self.holds(name) {
            Some(Setting::Word(word)) => word,
            _ => "",
        }
    }
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (parameter, setting)) in self.given.iter().enumerate() {
            let before = if n == 0 { "" } else { "," };
            write!(f, "{before}{}={setting}", parameter.name)?;
        }
        Ok(())
    }
}
