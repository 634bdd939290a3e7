//! The event log of a program's policy: a file that grows while the program runs.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use halfwink_eventlog::{Footer, Header, Live, LogError, Tap};
use halfwink_live::program::config::plain;
use serde::Serialize;

use crate::Error;

/// Lines that may wait to be written. The writer looks every 20 ms; assumption: no policy here is
/// called more than three million times a second.
const ROOM: usize = 1 << 16;

/// A log, if one was asked for.
pub struct Log(Mutex<State>);

/// State of a log for a report; both values are none if there is no log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Told {
    /// Lines that were dropped: the file could not be written, or not fast enough.
    pub log_dropped: Option<u64>,
    /// Error of the last attempt to write; none if it went well.
    pub log_error: Option<String>,
}

enum State {
    None,
    Open(Live),
    Ended(Footer),
    /// The log has failed at its end, which was reported.
    Failed(Told),
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
        let begun = path.map(|path| Live::create(path, header, ROOM, say)).transpose();
        let (state, tap) = match begun.map_err(failed)? {
            None => (State::None, None),
            Some((live, tap)) => (State::Open(live), Some(tap)),
        };
        Ok((Log(Mutex::new(state)), tap))
    }

    /// Returns the state of the log.
    #[must_use]
    pub fn told(&self) -> Told {
        match &*self.locked() {
            State::None => Told::default(),
            State::Open(live) => told(live),
            State::Ended(footer) => Told { log_dropped: Some(footer.dropped), log_error: None },
            State::Failed(told) => told.clone(),
        }
    }

    /// Ends the log, once the policy gets no more events. An error of the file is reported once.
    pub fn end(&self) -> Result<(), Error> {
        let mut state = self.locked();
        let State::Open(live) = std::mem::replace(&mut *state, State::None) else { return Ok(()) };
        let before = told(&live);
        match live.end() {
            Ok(footer) => {
                *state = State::Ended(footer);
                Ok(())
            }
            Err(error) => {
                *state = State::Failed(Told { log_error: Some(error.to_string()), ..before });
                Err(failed(error))
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn told(live: &Live) -> Told {
    let log_error = live.error().map(|error| error.to_string());
    Told { log_dropped: Some(live.dropped()), log_error }
}

/// Always printed: an operator who fills a disk does so while the program runs.
fn say(text: &str) {
    halfwink_live::say!("halfwink: {}", plain(text));
}

fn failed(error: LogError) -> Error {
    Error::Run(error.to_string())
}
