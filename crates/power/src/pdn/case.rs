//! One situation on a chip: which cores are active, which wake and when, which sleep.

use super::grid::{Cores, Grid};
use super::spec::PdnError;

/// Active cores, waking cores, and the length of the wake-up.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Set of active cores.
    pub active: Cores,
    /// Waking cores with the start of each, in nanoseconds.
    pub starts: Vec<(usize, f64)>,
    /// Duration of each wake-up, in nanoseconds.
    pub wake_ns: f64,
}

impl Case {
    /// Reads a drawing: rows from above with `/` between them, `a` for an active core, `w` for one
    /// that wakes, `.` for one that sleeps. Waking cores start `stagger_ns` apart in order.
    ///
    /// # Errors
    /// If the drawing does not fit the grid, or nothing wakes.
    pub fn parse(
        drawing: &str,
        grid: Grid,
        wake_ns: f64,
        stagger_ns: f64,
    ) -> Result<Case, PdnError> {
        let rows: Vec<&str> = drawing.split('/').collect();
        let fits = rows.len() == grid.rows
            && rows.iter().all(|row| {
                row.chars().count() == grid.columns
                    && row.chars().all(|c| matches!(c, 'a' | 'w' | '.'))
            });
        if !fits {
            let example = vec!["w".to_owned() + &"a".repeat(grid.columns - 1); grid.rows];
            let message = format!(
                "`{drawing}`, expected {} rows of {} cores, `a` active, `w` waking, `.` sleeping: \
                 {}",
                grid.rows,
                grid.columns,
                example.join("/")
            );
            return Err(PdnError::at("case", message));
        }
        let marks: Vec<char> = rows.concat().chars().collect();
        let of = |mark: char| (0..marks.len()).filter(move |&n| marks[n] == mark);
        let active = Cores::of(of.clone()('a'));
        let starts: Vec<(usize, f64)> =
            of('w').enumerate().map(|(n, core)| (core, n as f64 * stagger_ns)).collect();
        if starts.is_empty() {
            return Err(PdnError::at(
                "case",
                format!("`{drawing}`, expected a core `w` that wakes"),
            ));
        }
        Ok(Case { active, starts, wake_ns })
    }

    /// Returns the set of waking cores.
    #[must_use]
    pub fn waking(&self) -> Cores {
        Cores::of(self.starts.iter().map(|&(core, _)| core))
    }

    /// Returns a drawing of the grid.
    #[must_use]
    pub fn drawing(&self, grid: Grid) -> String {
        let mark = |core| match (self.active.has(core), self.waking().has(core)) {
            (true, _) => 'a',
            (_, true) => 'w',
            _ => '.',
        };
        let row = |row: usize| (0..grid.columns).map(move |c| mark(row * grid.columns + c));
        let rows: Vec<String> = (0..grid.rows).map(|r| row(r).collect()).collect();
        rows.join("/")
    }
}
