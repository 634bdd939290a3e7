use halfwink_chip::ChipError;
use halfwink_engine::{Imbalance, InputError, Interrupted};
use halfwink_eventlog::LogError;
use halfwink_policy::StuckTimer;
use halfwink_techniques::Error;
use halfwink_trace::TraceError;

/// Reasons why a question cannot be answered, each in one line for the user.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A name or a description is wrong.
    #[error(transparent)]
    Name(halfwink_techniques::Error),
    /// A description is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A trace is damaged or missing.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A run of the chip model failed.
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
        StudyError::Name(Error::unknown(what, name, known))
    }

    /// True if the user's input is at fault rather than the work itself.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        !matches!(self, StudyError::Run(_) | StudyError::Model(_) | StudyError::Interrupted)
    }
}

impl From<Error> for StudyError {
    fn from(error: Error) -> StudyError {
        match error {
            Error::Input(error) => StudyError::Input(error),
            Error::Usage(message) => StudyError::Usage(message),
            // Only this layer knows the commands, which is why the hint is not part of the error
            // itself.
            Error::OtherWorld { ref asked, .. } => StudyError::Usage(format!(
                "{error}; `halfwink list techniques --world {asked}` shows what is"
            )),
            Error::Unknown { .. } | Error::Io { .. } => StudyError::Name(error),
        }
    }
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
