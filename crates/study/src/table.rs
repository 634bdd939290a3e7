//! Results as named columns, for any data frame to take over.

/// A value in a [`Table`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Text.
    Text(String),
    /// Whole number.
    Integer(i64),
    /// Number.
    Real(f64),
    /// Nothing to say: a mean of nothing, a latency without requests.
    Missing,
}

/// A column: name, with the unit last, and values.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// One value for each row.
    pub values: Vec<Value>,
}

/// Rows of the same shape.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// All columns, equally long.
    pub columns: Vec<Column>,
}

impl Table {
    /// An empty table with these columns.
    #[must_use]
    pub fn new(names: &[&'static str]) -> Table {
        let columns = names.iter().map(|name| Column { name, values: Vec::new() }).collect();
        Table { columns }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If its length is not the number of columns: a mistake in this crate.
    pub fn push(&mut self, row: Vec<Value>) {
        assert_eq!(row.len(), self.columns.len(), "a row has a value for each column");
        for (column, value) in self.columns.iter_mut().zip(row) {
            column.values.push(value);
        }
    }

    /// A table of one row.
    #[must_use]
    pub fn row(cells: Vec<(&'static str, Value)>) -> Table {
        let columns =
            cells.into_iter().map(|(name, value)| Column { name, values: vec![value] }).collect();
        Table { columns }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
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
            Value::Missing
        }
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Missing, Into::into)
    }
}
