//! The event log of a program's policy: a file that grows while the program runs.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use halfwink_eventlog::{Footer, Header, Live, LogError, Tap};
use serde::Serialize;

use crate::Error;

/// Lines that may wait to be written. The writer looks every 20 ms; assumption: no policy here is
/// called more than three million times a second.
const ROOM: usize = 1 << 16;

/// A log, if one was asked for.
pub struct Log(Mutex<State>);

enum State {
    None,
    Open(Live),
    Ended(Footer),
    /// The log has failed, which was reported.
    Failed,
}

impl Log {
    /// Begins one in `path`, and gives the policy's side of it.
    pub fn begin<E, A>(
        path: Option<&Path>,
        header: &Header,
    ) -> Result<(Log, Option<Tap<E, A>>), Error>
    where
        E: Serialize + Send + 'static,
        A: Serialize + Send + 'static,
    {
        let begun = path.map(|path| Live::create(path, header, ROOM)).transpose();
        let (state, tap) = match begun.map_err(failed)? {
            None => (State::None, None),
            Some((live, tap)) => (State::Open(live), Some(tap)),
        };
        Ok((Log(Mutex::new(state)), tap))
    }

    /// Lines dropped so far, if there is a log.
    #[must_use]
    pub fn dropped(&self) -> Option<u64> {
        match &*self.locked() {
            State::None | State::Failed => None,
            State::Open(live) => Some(live.dropped()),
            State::Ended(footer) => Some(footer.dropped),
        }
    }

    /// Ends the log, once the policy gets no more events. An error of the file is reported once.
    pub fn end(&self) -> Result<(), Error> {
        let mut state = self.locked();
        match std::mem::replace(&mut *state, State::Failed) {
            State::Open(live) => *state = State::Ended(live.end().map_err(failed)?),
            other => *state = other,
        }
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(error: LogError) -> Error {
    Error::Run(error.to_string())
}
