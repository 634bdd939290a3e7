//! A generator or a sink at work in a thread of its own, which can be asked to end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{generator, sink, Error};

/// Work in a thread.
pub struct Running<T, E = Error> {
    stop: Arc<AtomicBool>,
    // Waiting and asking it to end may come from different threads.
    end: Mutex<End<T, E>>,
}

struct End<T, E> {
    result: Receiver<Result<T, E>>,
    found: Option<Result<T, E>>,
}

impl<T: Send + 'static, E: Send + 'static> Running<T, E> {
    /// Begins; the work looks now and then whether it was asked to end.
    pub fn begin(work: impl FnOnce(&AtomicBool) -> Result<T, E> + Send + 'static) -> Running<T, E> {
        let stop = Arc::new(AtomicBool::new(false));
        let (give, result) = channel();
        let asked = Arc::clone(&stop);
        std::thread::spawn(move || {
            // Nobody may wait for it any more.
            let _ = give.send(work(&asked));
        });
        Running { stop, end: Mutex::new(End { result, found: None }) }
    }

    /// Asks it to end: the result is what there is until then.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits until it has ended, for `timeout` at most; whether it has.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        if end.found.is_none() {
            end.found = match end.result.recv_timeout(timeout) {
                Ok(result) => Some(result),
                Err(RecvTimeoutError::Timeout) => return false,
                // It was taken before, or its thread broke down.
                Err(RecvTimeoutError::Disconnected) => return true,
            };
        }
        true
    }

    /// The result, once it has ended, and only once.
    pub fn take(&self) -> Option<Result<T, E>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).found.take()
    }
}

impl<T, E> Drop for Running<T, E> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Begins to send in a thread.
#[must_use]
pub fn generate(options: generator::Options) -> Running<generator::Sent> {
    Running::begin(move |stop| generator::run(options, stop))
}

/// Begins to watch: from here on, nothing that comes is missed.
///
/// # Errors
/// The kernel refuses.
pub fn watch(options: sink::Options) -> Result<Running<sink::Received>, Error> {
    let (tell, told) = channel();
    let running = Running::begin(move |stop| {
        sink::run(options, stop, move || {
            let _ = tell.send(());
        })
    });
    // The sender is gone without a word if it never got ready.
    if told.recv().is_err() {
        running.wait(Duration::from_secs(1));
        if let Some(Err(error)) = running.take() {
            return Err(error);
        }
    }
    Ok(running)
}
