//! Tables without a header that many people have: known by their cells.

use super::super::moment::When;
use super::cells::Cells;

/// A table: where it has what.
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) delimiter: u8,
    cells: usize,
    pub(super) time: usize,
    /// Unit of its times; none if their size tells it.
    pub(super) unit: Option<&'static str>,
    /// The cell with the bytes of an answer.
    pub(super) bytes: Option<usize>,
    /// Cell of a row's kind, and the kinds that the table has.
    kind: (usize, Kinds),
    /// Kinds that are requests; all if none is named.
    requests: &'static [&'static str],
}

/// Texts that a cell may hold.
enum Kinds {
    Words(&'static [&'static str]),
    Begins(&'static str),
    Digits(usize),
}

impl Kinds {
    fn has(&self, cell: &str) -> bool {
        match self {
            Kinds::Words(words) => words.iter().any(|word| word.eq_ignore_ascii_case(cell)),
            Kinds::Begins(begin) => cell.starts_with(begin),
            Kinds::Digits(count) => {
                cell.len() == *count && cell.bytes().all(|byte| byte.is_ascii_digit())
            }
        }
    }
}

/// Events of Google's cluster of 2011: submitted, scheduled, evicted ...
const EVENTS: Kinds = Kinds::Words(&["0", "1", "2", "3", "4", "5", "6", "7", "8"]);
const SUBMITTED: &[&str] = &["0"];
const STATUS: Kinds = Kinds::Words(&[
    "Terminated",
    "Failed",
    "Waiting",
    "Running",
    "Interrupted",
    "Cancelled",
    "Ready",
]);
const CACHE: Kinds = Kinds::Words(&[
    "get", "gets", "set", "add", "replace", "cas", "append", "prepend", "delete", "incr", "decr",
]);

const ALL: [Shape; 10] = [
    Shape {
        name: "job events of Google's cluster (2011)",
        delimiter: b',',
        cells: 8,
        time: 0,
        unit: Some("us"),
        bytes: None,
        kind: (3, EVENTS),
        requests: SUBMITTED,
    },
    Shape {
        name: "task events of Google's cluster (2011)",
        delimiter: b',',
        cells: 13,
        time: 0,
        unit: Some("us"),
        bytes: None,
        kind: (5, EVENTS),
        requests: SUBMITTED,
    },
    Shape {
        name: "batch tasks of Alibaba's cluster (2018)",
        delimiter: b',',
        cells: 9,
        time: 5,
        unit: Some("s"),
        bytes: None,
        kind: (4, STATUS),
        requests: &[],
    },
    Shape {
        name: "batch instances of Alibaba's cluster (2018)",
        delimiter: b',',
        cells: 14,
        time: 5,
        unit: Some("s"),
        bytes: None,
        kind: (4, STATUS),
        requests: &[],
    },
    Shape {
        name: "tasks of Alibaba's GPU cluster (2020)",
        delimiter: b',',
        cells: 10,
        time: 4,
        unit: Some("s"),
        bytes: None,
        kind: (3, STATUS),
        requests: &[],
    },
    Shape {
        name: "cache trace of Twitter",
        delimiter: b',',
        cells: 7,
        time: 0,
        unit: Some("s"),
        bytes: Some(3),
        kind: (5, CACHE),
        requests: &[],
    },
    Shape {
        name: "results of vegeta",
        delimiter: b',',
        cells: 12,
        time: 0,
        unit: None,
        bytes: Some(4),
        kind: (0, Kinds::Digits(19)),
        requests: &[],
    },
    Shape {
        name: "object store trace of IBM",
        delimiter: b' ',
        cells: 4,
        time: 0,
        unit: Some("ms"),
        bytes: Some(3),
        kind: (1, Kinds::Begins("REST.")),
        requests: &[],
    },
    Shape {
        name: "standard workload format",
        delimiter: b' ',
        cells: 18,
        time: 1,
        unit: Some("s"),
        bytes: None,
        kind: (10, Kinds::Words(&["-1", "0", "1", "2", "3", "4", "5"])),
        requests: &[],
    },
    Shape {
        name: "requests of Wikipedia (WikiBench)",
        delimiter: b' ',
        cells: 4,
        time: 1,
        unit: Some("s"),
        bytes: None,
        kind: (2, Kinds::Begins("http")),
        requests: &[],
    },
];

impl Shape {
    /// The table that a row is of.
    pub(super) fn of(line: &[u8]) -> Option<&'static Shape> {
        ALL.iter().find(|shape| {
            let mut cells = Cells::new(shape.delimiter);
            let is_split = cells.split(line).is_some() && cells.count() == shape.cells;
            let text = |n| cells.text(n);
            is_split
                && text(shape.kind.0).is_some_and(|kind| shape.kind.1.has(kind))
                && matches!(text(shape.time).and_then(When::parse), Some(When::Number(_)))
        })
    }

    /// Returns whether a row is a request; none if it is of another table.
    pub(super) fn is_request(&self, cells: &Cells) -> Option<bool> {
        let kind = cells.text(self.kind.0)?;
        if cells.count() != self.cells || !self.kind.1.has(kind) {
            return None;
        }
        // Google's traces have at 0 what was there before them, and at the end of time what comes.
        let is_within = !matches!(cells.text(self.time)?, "0" | "9223372036854775807");
        let is_kind = self.requests.is_empty() || self.requests.contains(&kind);
        Some(is_kind && (is_within || self.requests.is_empty()))
    }
}
