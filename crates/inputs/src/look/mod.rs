//! Names a file that a reader does not take, and the step that leads on.

mod flow_tools;
mod head;
mod other_tools;
mod rows;

use std::fmt;

use self::head::Head;

/// A family of inputs, whose reader asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Logs of requests to servers and proxies.
    Requests,
    /// Numbers or rates of requests by time.
    Counts,
    /// Block I/Os: jobs and traces of them.
    Blocks,
    /// Flows between servers, or matrices of what they send.
    Flows,
    /// Idle times of CPUs.
    Idle,
    /// Traces of instructions that programs execute.
    Instructions,
    /// Frames of a network.
    Frames,
    /// Profiles of services on a server.
    Services,
    /// Descriptions of machines and workloads.
    Descriptions,
}

/// A format that the asking reader does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Other {
    /// Name of the format, with its article.
    pub what: &'static str,
    /// Step that leads on: a command between backticks, with `FILE` for the file.
    pub how: &'static str,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "this is {}: {}", self.what, self.how)
    }
}

/// A format, and what leads on from it.
struct Row {
    what: &'static str,
    is: fn(&Head) -> bool,
    /// Step for families without one of their own.
    how: &'static str,
    /// Steps of families; [`READ`] for one whose reader takes the format.
    steps: &'static [(Family, &'static str)],
}

/// Step of a family that reads the format itself.
const READ: &str = "";

/// Tells a format of another family or tool by the first bytes of a file; none if it is unknown, or
/// a format that the reader of `family` takes.
#[must_use]
pub fn look(head: &[u8], family: Family) -> Option<Other> {
    let head = Head::of(head);
    let step = |row: &Row| {
        let own = row.steps.iter().find(|(of, _)| *of == family);
        own.map_or(row.how, |(_, how)| how)
    };
    // A list of JSON is named by what it lists first.
    let mut rows = flow_tools::ROWS.iter().chain(rows::ROWS).chain(other_tools::ROWS);
    let row = rows.find(|row| step(row) != READ && (row.is)(&head))?;
    Some(Other { what: row.what, how: step(row) })
}

/// Returns whether the first bytes of a file are printable text; not if there are none.
#[must_use]
pub fn is_text(head: &[u8]) -> bool {
    Head::of(head).is_text()
}

#[cfg(test)]
mod tests;
