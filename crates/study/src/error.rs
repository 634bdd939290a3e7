use halfwink_chip::ChipError;
use halfwink_engine::{nearest, Imbalance, InputError, Interrupted};
use halfwink_eventlog::LogError;
use halfwink_policy::StuckTimer;
use halfwink_trace::TraceError;

/// Why a question cannot be answered, in one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A name that does not exist.
    #[error("unknown {what} `{name}`{}", hint(.nearest))]
    Unknown {
        /// What was looked for (`technique`).
        what: &'static str,
        /// What was asked for.
        name: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// A description is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A trace is damaged or missing.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A run failed.
    #[error("{0}")]
    Run(ChipError),
    /// Accounts do not balance, or a policy does not do its part: a mistake in a model.
    #[error("{0}")]
    Model(String),
    /// The run was stopped from outside.
    #[error("interrupted")]
    Interrupted,
    /// An event log cannot be read or written.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A file cannot be read.
    #[error("{path}: {error}")]
    Io {
        /// Path of the file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// The question itself is wrong.
    #[error("{0}")]
    Usage(String),
}

impl StudyError {
    /// An unknown name among known ones.
    pub(crate) fn unknown<'a>(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> StudyError {
        let nearest = nearest(name, known).map(str::to_owned);
        StudyError::Unknown { what, name: name.to_owned(), nearest }
    }

    /// True if the user's input is at fault rather than the work itself.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        !matches!(self, StudyError::Run(_) | StudyError::Model(_) | StudyError::Interrupted)
    }
}

fn hint(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

impl From<Imbalance> for StudyError {
    fn from(error: Imbalance) -> StudyError {
        StudyError::Model(error.to_string())
    }
}

impl From<StuckTimer> for StudyError {
    fn from(error: StuckTimer) -> StudyError {
        StudyError::Model(error.to_string())
    }
}

impl From<Interrupted> for StudyError {
    fn from(_: Interrupted) -> StudyError {
        StudyError::Interrupted
    }
}

impl From<ChipError> for StudyError {
    fn from(error: ChipError) -> StudyError {
        match error {
            ChipError::Interrupted(_) => StudyError::Interrupted,
            ChipError::Trace(error) => StudyError::Trace(error),
            ChipError::TooManyTasks { .. } | ChipError::NoWork => {
                StudyError::Usage(error.to_string())
            }
            other => StudyError::Run(other),
        }
    }
}
