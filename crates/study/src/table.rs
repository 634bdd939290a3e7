//! Results as named, typed columns, for any data frame to take over.

use serde::Serialize;

// Tables are small and cross into Python as lists: an Arrow dependency would be forty crates to
// move a few hundred numbers. Columns carry their kind so that Python guesses none, and empty
// tables keep theirs.

/// The kind of value that a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A column of text.
    Text,
    /// A column of whole numbers.
    Integer,
    /// A column of real numbers.
    Real,
}

impl Kind {
    /// Returns the kind's name, for other languages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Integer => "integer",
            Kind::Real => "real",
        }
    }
}

/// A value in a [`Table`]. Each knows its kind, also where it is missing: a column of nothing but
/// missing means is one of numbers all the same.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text value.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A real number.
    Real(f64),
    /// A value that does not exist: a mean of nothing, or a latency without requests.
    Missing(Kind),
}

/// A column: name, with the unit last, and values.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name, with the unit last (`energy_j`).
    pub name: &'static str,
    /// The kind of its values, also of missing ones.
    pub kind: Kind,
    /// One value for each row.
    pub values: Vec<Value>,
}

/// Name and kind of a column, before it has values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head(pub &'static str, pub Kind);

/// A column of words.
#[must_use]
pub const fn text(name: &'static str) -> Head {
    Head(name, Kind::Text)
}

/// A column of whole numbers.
#[must_use]
pub const fn integer(name: &'static str) -> Head {
    Head(name, Kind::Integer)
}

/// A column of numbers.
#[must_use]
pub const fn real(name: &'static str) -> Head {
    Head(name, Kind::Real)
}

/// A column of a world's table `run` that the short table of results shows, beside those of all
/// worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// Name of the column.
    pub column: &'static str,
    /// Heading, with the unit last.
    pub heading: &'static str,
    /// Digits behind the point.
    pub digits: u8,
}

/// A column of the short table.
#[must_use]
pub const fn short(column: &'static str, heading: &'static str, digits: u8) -> Short {
    Short { column, heading, digits }
}

/// Rows of the same shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// All columns, equally long.
    pub columns: Vec<Column>,
}

impl Value {
    /// Returns the kind of this value, also if it is missing.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Value::Text(_) => Kind::Text,
            Value::Integer(_) => Kind::Integer,
            Value::Real(_) => Kind::Real,
            Value::Missing(kind) => *kind,
        }
    }
}

impl Table {
    /// An empty table with these columns.
    #[must_use]
    pub fn new(heads: &[Head]) -> Table {
        let column = |&Head(name, kind): &Head| Column { name, kind, values: Vec::new() };
        Table { columns: heads.iter().map(column).collect() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If a value is missing, or of another kind than its column: a mistake in this crate.
    pub fn push(&mut self, row: Vec<Value>) {
        assert_eq!(row.len(), self.columns.len(), "a row has a value for each column");
        for (column, value) in self.columns.iter_mut().zip(row) {
            // Readers allot a column by its kind before they see a value.
            assert_eq!(value.kind(), column.kind, "column `{}`", column.name);
            column.values.push(value);
        }
    }

    /// A table of one row.
    #[must_use]
    pub fn row(cells: Vec<(&'static str, Value)>) -> Table {
        let column =
            |(name, value): (_, Value)| Column { name, kind: value.kind(), values: vec![value] };
        Table { columns: cells.into_iter().map(column).collect() }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        // `push` gives every column a value, so that any column would do.
        self.columns.first().map_or(0, |column| column.values.len())
    }

    /// True if it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value in a row of a named column.
    #[must_use]
    pub fn get(&self, row: usize, name: &str) -> Option<&Value> {
        self.columns.iter().find(|c| c.name == name)?.values.get(row)
    }
}

/// A type of cells whose kind is known even where there is no value.
pub trait Cell: Into<Value> {
    /// The kind of such cells.
    const KIND: Kind;
}

impl Cell for &str {
    const KIND: Kind = Kind::Text;
}

impl Cell for String {
    const KIND: Kind = Kind::Text;
}

impl Cell for u64 {
    const KIND: Kind = Kind::Integer;
}

impl Cell for usize {
    const KIND: Kind = Kind::Integer;
}

impl Cell for f64 {
    const KIND: Kind = Kind::Real;
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Value {
        // Data frames have no unsigned kind that mixes with missing values; a saturated count is
        // easier to notice than a negative one.
        Value::Integer(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(n: usize) -> Value {
        Value::from(n as u64)
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Value {
        // A number that is none must not reach a report.
        if n.is_finite() {
            Value::Real(n)
        } else {
            Value::Missing(Kind::Real)
        }
    }
}

impl<T: Cell> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Missing(T::KIND), Into::into)
    }
}
