//! Policies in Python: found and called for the crate of users' policies.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};

use halfwink_policy::record::{Fields, FIELDS};
use halfwink_policy_module::{
    set_opener, Code, Family, Found, Limits, Started, ACTIONS, FIRST_EVENT, MORE, MOST_ACTIONS,
    TIMER,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

/// Module of the package that finds a policy.
const FINDING: &str = "halfwink.policies.finding";

/// Lets techniques be named by files in Python and by classes, in the whole process.
pub(crate) fn install() {
    set_opener(open);
}

fn open(name: &str, digest: &str) -> Result<Found, String> {
    Python::attach(|py| {
        let found = py.import(FINDING).and_then(|module| module.getattr("find"));
        let found = found.and_then(|find| find.call1((name, digest))?.extract());
        let (digest, about, class): (String, String, Py<PyType>) =
            found.map_err(|error| line(py, name, &error))?;
        Ok(Found { digest, about, code: Box::new(Class(class)) })
    })
}

/// Returns an error as a line without the name that stands before it anyway.
fn line(py: Python<'_>, name: &str, error: &PyErr) -> String {
    let text = error.value(py).to_string();
    text.strip_prefix(&format!("{name}: ")).map_or(text.clone(), str::to_owned)
}

/// The class of a policy.
struct Class(Py<PyType>);

impl Code for Class {
    fn start(
        &self,
        family: &Family,
        _limits: Limits,
        _together: &Arc<AtomicUsize>,
    ) -> Result<Box<dyn Started>, String> {
        Python::attach(|py| {
            let class = self.0.bind(py);
            let made = Player::new(class, family);
            made.map(|player| Box::new(player) as Box<dyn Started>)
                .map_err(|error| format!("could not be made: {}", said(class, &error)))
        })
    }
}

/// Threads that are inside of a policy, by their numbers in Python.
static INSIDE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

thread_local! {
    static NUMBER: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Raises an error of this class in each thread that is inside of a policy, which may never return
/// from there.
#[pyfunction]
pub(crate) fn leave_policies(py: Python<'_>, error: &Bound<'_, PyType>) -> PyResult<()> {
    let threads = INSIDE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if threads.is_empty() {
        return Ok(());
    }
    // No safe function of the native interface does it.
    let ctypes = py.import("ctypes")?;
    let raise = ctypes.getattr("pythonapi")?.getattr("PyThreadState_SetAsyncExc")?;
    let error = ctypes.call_method1("py_object", (error,))?;
    for thread in threads {
        raise.call1((ctypes.call_method1("c_ulong", (thread,))?, &error))?;
    }
    Ok(())
}

/// A thread is inside of a policy as long as this lives.
struct Inside(u64);

impl Inside {
    fn enter(py: Python<'_>) -> PyResult<Inside> {
        let mut number = NUMBER.get();
        if number == 0 {
            number = py.import("threading")?.getattr("get_ident")?.call0()?.extract()?;
            NUMBER.set(number);
        }
        INSIDE.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        Ok(Inside(number))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let mut inside = INSIDE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = inside.iter().position(|&number| number == self.0) {
            inside.swap_remove(place);
        }
    }
}

/// A class of actions: its number, and the names of its fields.
struct Writer {
    class: Py<PyType>,
    number: u64,
    fields: Vec<Py<PyString>>,
}

/// Events that were told lately: idle cores say the same again and again, and an event is a tuple,
/// which cannot change.
struct Told(Vec<Option<OneTold>>);

/// An event: its number and fields, and the tuple.
type OneTold = (u64, Fields, Py<PyAny>);

/// Number of events that are kept: a power of two.
const TOLD: usize = 256;

impl Told {
    /// Returns an event as Python has it.
    #[inline]
    fn event(
        &mut self,
        py: Python<'_>,
        event: u64,
        fields: &[u64],
        make: impl FnOnce() -> PyResult<Py<PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        // Multiplied by the golden ratio, as Fibonacci hashing has it; its highest bits depend on
        // all others.
        let mixed = fields.iter().fold(event, |all, field| {
            (all ^ field).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        });
        let slot = &mut self.0[(mixed >> 7) as usize % TOLD];
        if let Some((kept, of, told)) = slot {
            if *kept == event && of[..fields.len()] == *fields {
                return Ok(told.clone_ref(py));
            }
        }
        let told = make()?;
        let mut of = [0; FIELDS];
        of[..fields.len()].copy_from_slice(fields);
        *slot = Some((event, of, told.clone_ref(py)));
        Ok(told)
    }
}

/// A policy that was started.
struct Player {
    policy: Py<PyAny>,
    /// Methods for an event, for the timer and for the start.
    on: [Py<PyAny>; 3],
    /// `tuple.__new__`, which makes an event at once, where its class would run Python.
    new: Py<PyAny>,
    start: Py<PyType>,
    /// Classes of events, in the order of their numbers.
    events: Vec<Py<PyType>>,
    told: Told,
    writers: Vec<Writer>,
    /// Names of the parameters, in their order.
    parameters: Vec<Py<PyString>>,
    /// The method that was asked last.
    asked: &'static str,
    /// Set where the parameters could not be.
    problem: Option<String>,
    timer: u64,
    actions: Vec<(u64, Fields)>,
    /// Actions before this one were handed over.
    next: usize,
}

impl Player {
    fn new(class: &Bound<'_, PyType>, family: &Family) -> PyResult<Player> {
        let py = class.py();
        let policy = class.call0()?;
        let of = class.getattr("family")?;
        let classes = |table: &str, names: &[&str]| -> PyResult<Vec<Py<PyType>>> {
            let table = of.getattr(table)?;
            names.iter().map(|&name| Ok(table.get_item(name)?.extract()?)).collect()
        };
        let writer = |(place, class): (usize, Py<PyType>)| -> PyResult<Writer> {
            let fields = class.bind(py).getattr("__match_args__")?.extract()?;
            Ok(Writer { class, number: place as u64 + 1, fields })
        };
        let actions = classes("actions", family.actions)?;
        let of_class = py.import(FINDING)?.getattr("parameters_of")?.call1((class,))?;
        let parameters = of_class.try_iter()?.map(|p| Ok(p?.getattr("name")?.extract()?));
        Ok(Player {
            on: [
                policy.getattr("on_event")?.unbind(),
                policy.getattr("on_timer")?.unbind(),
                policy.getattr("on_start")?.unbind(),
            ],
            new: py.get_type::<PyTuple>().getattr("__new__")?.unbind(),
            start: of.getattr("start")?.extract()?,
            events: classes("events", family.events)?,
            told: Told((0..TOLD).map(|_| None).collect()),
            writers: actions.into_iter().enumerate().map(writer).collect::<PyResult<_>>()?,
            parameters: parameters.collect::<PyResult<_>>()?,
            policy: policy.unbind(),
            asked: "",
            problem: None,
            timer: u64::MAX,
            actions: Vec::new(),
            next: 0,
        })
    }

    /// Returns what the policy raised, in one line with the line of its file.
    fn said(&self, py: Python<'_>, error: &PyErr) -> String {
        said(&self.policy.bind(py).get_type(), error)
    }

    /// Returns the place of the method that was asked last.
    fn place(&self, py: Python<'_>) -> String {
        let policy = self.policy.bind(py).get_type();
        let place = py.import(FINDING).and_then(|finding| {
            finding.getattr("place_of")?.call1((policy, self.asked))?.extract()
        });
        place.unwrap_or_else(|_| self.asked.to_owned())
    }

    /// Asks the policy, and takes its answer.
    fn ask(&mut self, py: Python<'_>, now: u64, event: u64, fields: &[u64]) -> Result<(), String> {
        self.asked = match event {
            TIMER => "on_timer",
            FIRST_EVENT.. => "on_event",
            _ => "on_start",
        };
        let Player { new, told, on: [on_event, on_timer, on_start], .. } = self;
        let made = |class: &Py<PyType>| new.call1(py, (class, PyTuple::new(py, fields)?));
        let answer = Inside::enter(py).and_then(|_inside| match event {
            TIMER => {
                self.policy.setattr(py, intern!(py, "timer"), py.None())?;
                on_timer.call1(py, (now,))
            }
            FIRST_EVENT.. => {
                let class = &self.events[(event - FIRST_EVENT) as usize];
                on_event.call1(py, (now, told.event(py, event, fields, || made(class))?))
            }
            _ => on_start.call1(py, (made(&self.start)?,)),
        });
        let answer = answer.map_err(|error| self.said(py, &error))?;
        // Actions that were not handed over are none of this call.
        debug_assert!(self.next + ACTIONS >= self.actions.len(), "actions are left");
        self.next = 0;
        self.actions.clear();
        self.answered(answer.bind(py))?;
        let timer = self.policy.bind(py).getattr(intern!(py, "timer"));
        let timer = timer.map_err(|error| self.said(py, &error))?;
        self.timer = match timer.is_none() {
            true => u64::MAX,
            false => timer.extract().map_err(|_| {
                let (found, place) = (shown(&timer), self.place(py));
                format!("set its timer to {found} ({place}), expected whole picoseconds or None")
            })?,
        };
        Ok(())
    }

    /// Takes an answer: an action, several of them or none.
    fn answered(&mut self, answer: &Bound<'_, PyAny>) -> Result<(), String> {
        if answer.is_none() || self.action_of(answer)? {
            return Ok(());
        }
        // Both can be iterated, and would be answers of letters or keys.
        let is_text = answer.is_instance_of::<PyString>() || answer.is_instance_of::<PyDict>();
        let Some(several) = (!is_text).then(|| answer.try_iter().ok()).flatten() else {
            return Err(self.unknown(answer));
        };
        // An answer may have no end.
        for action in several.take(MOST_ACTIONS + 1) {
            let action = action.map_err(|error| self.said(answer.py(), &error))?;
            if !self.action_of(&action)? {
                return Err(self.unknown(&action));
            }
        }
        Ok(())
    }

    /// Takes an action; false if it is none of the family.
    fn action_of(&mut self, action: &Bound<'_, PyAny>) -> Result<bool, String> {
        let py = action.py();
        // A subclass may mean something else by the same fields.
        let class = action.get_type();
        let Some(writer) = self.writers.iter().find(|writer| class.is(&writer.class)) else {
            return Ok(false);
        };
        let mut fields = [0; FIELDS];
        for (field, name) in fields.iter_mut().zip(&writer.fields) {
            let value = action.getattr(name.bind(py)).map_err(|error| self.said(py, &error))?;
            *field = value.extract().map_err(|_| {
                let (found, place) = (shown(action), self.place(py));
                format!("returned {found} ({place}), expected whole numbers from 0 on")
            })?;
        }
        self.actions.push((writer.number, fields));
        Ok(true)
    }

    fn unknown(&self, answer: &Bound<'_, PyAny>) -> String {
        let name = |writer: &Writer| writer.class.bind(answer.py()).name().map(|n| n.to_string());
        let known: Vec<_> = self.writers.iter().filter_map(|writer| name(writer).ok()).collect();
        let (found, place) = (shown(answer), self.place(answer.py()));
        format!("returned {found} ({place}), expected {}", known.join(", "))
    }
}

/// Returns what a policy of this class raised, in one line with the line of its file.
fn said(class: &Bound<'_, PyType>, error: &PyErr) -> String {
    let py = class.py();
    let said = py.import(FINDING).and_then(|finding| {
        // The value alone would have no traceback.
        let value = error.clone_ref(py).into_value(py);
        finding.getattr("said_by")?.call1((value, class))?.extract()
    });
    said.unwrap_or_else(|_| format!("raised {error}"))
}

/// Returns a value as Python writes it, in one line.
fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().map_or_else(|_| "a value".to_owned(), |text| text.to_string());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Started for Player {
    fn begin(&mut self, parameters: &[f64]) {
        Python::attach(|py| {
            for (name, &value) in self.parameters.iter().zip(parameters) {
                if let Err(error) = self.policy.setattr(py, name, value) {
                    self.problem = Some(self.said(py, &error));
                    return;
                }
            }
        });
    }

    fn call(&mut self, now: u64, event: u64, fields: &[u64]) -> Result<(), String> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        if event == MORE {
            self.next += ACTIONS;
            return Ok(());
        }
        Python::attach(|py| self.ask(py, now, event, fields))
    }

    fn timer(&self) -> u64 {
        self.timer
    }

    fn count(&self) -> u64 {
        (self.actions.len() - self.next) as u64
    }

    fn action(&self, n: usize) -> (u64, Fields) {
        self.actions[self.next + n]
    }
}
