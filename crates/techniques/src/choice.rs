//! A technique with values for some of its parameters.

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use halfwink_policy::completion::CompletionPolicy;
use halfwink_policy::scaling::ScalingPolicy;
use halfwink_policy::steering::SteeringPolicy;

use crate::{
    file_name, router, server, technique, techniques, CompletionContext, Error, Make, Slot,
    Steering, Technique, Values,
};

/// A technique with values for some of its parameters, and what is added to it:
/// `tap:wake=last+central-wake-up`.
///
/// Its text is canonical, so that it can be a label and part of a key: parameters in the order of
/// their names, without those that say what holds anyway.
#[derive(Clone)]
pub struct Choice {
    technique: &'static Technique,
    values: Values,
    modifiers: Vec<Choice>,
    /// The first fault of a policy of it that is a module.
    fault: Arc<OnceLock<String>>,
    /// Bytes of memory that its policies in files have together.
    memory: Arc<AtomicUsize>,
    /// True if its policies decide in a live program.
    is_live: bool,
}

impl Choice {
    /// Reads a technique of a world: `NAME`, `NAME:PARAMETER=VALUE,...`, and after `+` techniques
    /// for other slots, and modifiers.
    ///
    /// # Errors
    /// If there is no such technique or parameter, a value is out of range, or two techniques
    /// decide the same; with the nearest name, and what was expected.
    pub fn parse(world: &str, text: &str) -> Result<Choice, Error> {
        let parts = text.split('+').map(|part| Choice::parse_one(world, part));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let (modifiers, mut parts): (Vec<Choice>, Vec<Choice>) =
            parts.into_iter().partition(|p| matches!(p.technique.make, Make::Modifier(_)));
        if let (Some(modifier), []) = (modifiers.first(), &parts[..]) {
            let (name, other) = (modifier.technique.name, example(world));
            let message = format!("technique `{name}` is added to another: write `{other}+{name}`");
            return Err(Error::Usage(message));
        }
        if parts.len() > 1 {
            if let Some(part) = parts.iter().rfind(|part| part.own_slots().is_empty()) {
                let name = part.technique.name;
                let message = format!("technique `{name}` cannot be added to another (`{text}`)");
                return Err(Error::Usage(message));
            }
        }
        // The text is part of keys: parts have one order, whatever order they were written in.
        parts.sort_by_key(|part| (part.own_slots().first().copied(), part.technique.name));
        let mut first = parts.remove(0);
        for part in parts {
            first.add(part)?;
        }
        for (n, modifier) in modifiers.iter().enumerate() {
            if modifiers[..n].iter().any(|m| m.technique.family == modifier.technique.family) {
                let message = format!("`{text}`: two techniques that say the same thing");
                return Err(Error::Usage(message));
            }
        }
        let added = first.modifiers.len();
        first.modifiers.extend(modifiers);
        // Techniques of other slots stay in front, in the order of their slots; modifiers alone are
        // sorted by name.
        first.modifiers[added..].sort_by_key(|m| m.technique.name);
        Ok(first)
    }

    /// Adds a technique for slots that are free.
    fn add(&mut self, part: Choice) -> Result<(), Error> {
        let taken = |slot: Slot| self.parts().find(|p| p.own_slots().contains(&slot));
        let clash = part.own_slots().iter().find_map(|&slot| Some((slot, taken(slot)?)));
        if let Some((slot, other)) = clash {
            let (one, two) = (other.technique.name, part.technique.name);
            let decides = slot.decides();
            let message = format!("`{one}` and `{two}` both decide {decides}: name one of them");
            return Err(Error::Usage(message));
        }
        self.modifiers.push(part);
        Ok(())
    }

    /// Returns this technique alone and each that was added to it.
    pub fn parts(&self) -> impl Iterator<Item = &Choice> {
        std::iter::once(self).chain(&self.modifiers)
    }

    /// Returns its text without what was added to it.
    #[must_use]
    pub fn alone(&self) -> String {
        self.written(self.technique.name)
    }

    /// Writes this technique alone, under this name.
    fn written(&self, name: &str) -> String {
        match self.values.to_string() {
            values if values.is_empty() => name.to_owned(),
            values => format!("{name}:{values}"),
        }
    }

    /// Returns its text with the digests of files that its policies are in: equal for choices that
    /// decide the same. It can be read again, and is rejected once a file has another content.
    #[must_use]
    pub fn identity(&self) -> String {
        self.parts().map(Choice::own_identity).collect::<Vec<_>>().join("+")
    }

    /// Returns its identity without what was added to it.
    #[must_use]
    pub fn own_identity(&self) -> String {
        match self.technique.module {
            Some(module) => self.written(&file_name::join(self.technique.name, module.digest())),
            None => self.alone(),
        }
    }

    /// Returns whether a text names a file with a policy, without reading it.
    #[must_use]
    pub fn names_file(text: &str) -> bool {
        let names = text.split('+').filter_map(|part| part.split(':').next());
        names.into_iter().any(file_name::is_file)
    }

    /// Returns whether its runs may depend on a value of a machine, by path.
    #[must_use]
    pub fn reads(&self, path: &str) -> bool {
        let is_under = |section: &str| {
            // `os` covers `os.cores`, and not `os_like.cores`.
            path.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        !self.parts().all(|part| part.technique.unread.iter().any(|section| is_under(section)))
    }

    /// Returns whether a policy of it is in a file of the user's.
    #[must_use]
    pub fn has_module(&self) -> bool {
        self.parts().any(|part| part.technique.module.is_some())
    }

    /// Notes what a policy in a file did that ends the run; the first fault stays. Clones share it.
    pub fn blame(&self, fault: String) {
        let _ = self.fault.set(fault);
    }

    /// Returns the count of the bytes of memory that its policies in files have together. Clones
    /// share it.
    #[must_use]
    pub fn memory(&self) -> &Arc<AtomicUsize> {
        &self.memory
    }

    /// Returns the fault of a policy in a file, if there was one.
    #[must_use]
    pub fn fault(&self) -> Option<&str> {
        self.parts().find_map(|part| part.fault.get()).map(String::as_str)
    }

    /// Returns it for a live program, or for the replay of its log: a policy in a file has less
    /// time for each decision, and requests nothing more after a fault.
    #[must_use]
    pub fn for_live(mut self) -> Choice {
        self.is_live = true;
        self.modifiers = self.modifiers.into_iter().map(Choice::for_live).collect();
        self
    }

    /// Returns whether its policies decide in a live program.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Returns the slots that this technique takes, without those of what was added to it; none in
    /// worlds without slots.
    #[must_use]
    pub fn own_slots(&self) -> &'static [Slot] {
        match self.technique.make {
            Make::Node(part) => part.slots,
            Make::Gating(gating) => gating.slots,
            _ => &[],
        }
    }

    fn parse_one(world: &str, text: &str) -> Result<Choice, Error> {
        let (name, values) = text.split_once(':').unwrap_or((text, ""));
        let technique = technique(world, name)?;
        let mut choice = Choice {
            technique,
            values: Values::of(technique.parameters),
            modifiers: Vec::new(),
            fault: Arc::default(),
            memory: Arc::default(),
            is_live: false,
        };
        for value in values.split(',').filter(|v| !v.is_empty()) {
            let Some((parameter, value)) = value.split_once('=') else {
                let message = format!("`{text}`: expected `{name}:PARAMETER=VALUE`");
                return Err(Error::Usage(message));
            };
            choice.set(parameter, value)?;
        }
        Ok(choice)
    }

    /// Chooses a value for a parameter.
    ///
    /// # Errors
    /// If it has no such parameter, or the value is out of range.
    pub fn set(&mut self, parameter: &str, value: &str) -> Result<(), Error> {
        let technique = self.technique;
        let known = technique.parameters;
        if !self.values.knows(parameter) {
            if known.is_empty() {
                let message = format!("technique `{}` takes no parameters", technique.name);
                return Err(Error::Usage(message));
            }
            // The owner of a parameter is worth more to the reader than a name that is like it.
            let owner = techniques().find(|t| {
                t.worlds == technique.worlds && t.parameters.iter().any(|p| p.name == parameter)
            });
            if let Some(owner) = owner {
                return Err(Error::Usage(format!(
                    "`{parameter}` is a parameter of `{}`, not of `{}` (which takes {})",
                    owner.name,
                    technique.name,
                    known.iter().map(|p| p.name).collect::<Vec<_>>().join(", "),
                )));
            }
            return Err(Error::unknown("parameter", parameter, known.iter().map(|p| p.name)));
        }
        let wrong = |message| Error::Usage(format!("{}:{message}", technique.name));
        self.values.set(parameter, value).map_err(wrong)
    }

    /// Applies `TECHNIQUE:PARAMETER` or `technique.PARAMETER` (of whichever has it) as a study
    /// sweeps it; true if it was such a path, whether or not it is about this technique.
    ///
    /// # Errors
    /// If no technique of this world has such a parameter, or the value is out of range.
    pub fn sweep(&mut self, world: &str, path: &str, value: &str) -> Result<bool, Error> {
        let chosen = |this: &mut Choice, only: Option<&str>, parameter: &str| {
            this.set_where(only, parameter, value)?;
            for modifier in &mut this.modifiers {
                modifier.set_where(only, parameter, value)?;
            }
            Ok(true)
        };
        if let Some((name, parameter)) = path.split_once(':') {
            // Whether it can be at all does not depend on which technique this one is.
            Choice::parse_one(world, &format!("{name}:{parameter}={value}"))?;
            return chosen(self, Some(name), parameter);
        }
        if let Some(parameter) = path.strip_prefix("technique.") {
            let here = techniques().filter(|t| t.worlds.contains(&world));
            let mut known: Vec<&str> = here.flat_map(|t| t.parameters).map(|p| p.name).collect();
            // A file's are listed nowhere else.
            known.extend(self.parts().flat_map(|part| part.technique.parameters).map(|p| p.name));
            if !known.contains(&parameter) {
                return Err(Error::unknown("parameter", parameter, known));
            }
            return chosen(self, None, parameter);
        }
        Ok(false)
    }

    /// Makes its policy for a router.
    ///
    /// # Errors
    /// It is a technique of another world.
    pub fn scaling(&self, router: &router::Model) -> Result<ScalingPolicy, Error> {
        match self.technique.make {
            Make::Scaling(make) => Ok(make(self, router)),
            _ => Err(Error::Usage(format!("{self}: no policy of routers"))),
        }
    }

    /// Makes its policy for a hybrid server with a workload.
    ///
    /// # Errors
    /// It is a technique of another world, or decides for a pair and the machines are none.
    pub fn steering(
        &self,
        server: &server::Model,
        service: &server::Service,
    ) -> Result<SteeringPolicy, Error> {
        let is_pair = server.set().is_pair();
        match self.technique.make {
            Make::Steering(Steering::Set(make)) => Ok(make(self, server, service)),
            // The order of these arms counts: all forms below are for pairs alone.
            Make::Steering(Steering::Either { set, .. }) if !is_pair => {
                Ok(set(self, server, service))
            }
            Make::Steering(_) if !is_pair => Err(self.no_pair(server)),
            Make::Steering(Steering::Alone(make) | Steering::Either { pair: make, .. }) => {
                Ok(make(self))
            }
            Make::Steering(Steering::Of(make)) => Ok(make(self, server, service)),
            _ => Err(Error::Usage(format!("{self}: no policy of hybrid servers"))),
        }
    }

    fn no_pair(&self, server: &server::Model) -> Error {
        let of_sets = |t: &&Technique| {
            matches!(t.make, Make::Steering(Steering::Set(_) | Steering::Either { .. }))
        };
        let names: Vec<&str> = techniques().filter(of_sets).map(|t| t.name).collect();
        let (found, known) = (server.set().machines().len(), names.join(", "));
        let message = format!("found a set of {found} machines, expected a pair for `{self}`");
        Error::Usage(format!("{message}; of sets are {known}"))
    }

    /// Makes its policy for two machines that nothing describes, from its parameters alone.
    ///
    /// # Errors
    /// It is a technique of another world, or takes values of machines.
    pub fn steering_alone(&self) -> Result<SteeringPolicy, Error> {
        match self.technique.make {
            Make::Steering(Steering::Alone(make) | Steering::Either { pair: make, .. }) => {
                Ok(make(self))
            }
            Make::Steering(Steering::Of(_) | Steering::Set(_)) => {
                let message = format!("{self}: takes values of machines, expected a `machine`");
                Err(Error::Usage(message))
            }
            _ => Err(Error::Usage(format!("{self}: no policy of hybrid servers"))),
        }
    }

    /// Makes its policy for the completions of a machine.
    ///
    /// # Errors
    /// It is a technique of another world.
    pub fn completion(&self, machine: &CompletionContext) -> Result<CompletionPolicy, Error> {
        match self.technique.make {
            Make::Completion(make) => Ok(make(self, machine)),
            _ => Err(Error::Usage(format!("{self}: completes no block I/Os"))),
        }
    }

    /// Chooses a value if the technique has the parameter, and the name if one is given.
    fn set_where(&mut self, only: Option<&str>, parameter: &str, value: &str) -> Result<(), Error> {
        let named = only.is_none_or(|name| name == self.technique.name);
        if named && self.technique.parameters.iter().any(|p| p.name == parameter) {
            self.set(parameter, value)?;
        }
        Ok(())
    }

    /// Its row in the list of techniques.
    #[must_use]
    pub fn technique(&self) -> &'static Technique {
        self.technique
    }

    /// Returns what was added to it: techniques for other slots, then modifiers.
    #[must_use]
    pub fn modifiers(&self) -> &[Choice] {
        &self.modifiers
    }

    /// The number that was chosen for a parameter; none if something else decides.
    #[must_use]
    pub fn given(&self, name: &str) -> Option<f64> {
        self.values.given(name)
    }

    /// The number that holds for a parameter, if the technique has one of that name.
    #[must_use]
    pub fn given_or_default(&self, name: &str) -> Option<f64> {
        let is_known = self.technique().parameters.iter().any(|p| p.name == name);
        is_known.then(|| self.number(name))
    }

    /// The number that holds for a parameter: chosen, or its default.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        self.values.number(name)
    }

    /// Returns the number that holds for a parameter, as a whole number.
    #[must_use]
    pub fn whole(&self, name: &str) -> u64 {
        self.number(name) as u64
    }

    /// The word that holds for a parameter.
    #[must_use]
    pub fn word(&self, name: &str) -> &'static str {
        self.values.word(name)
    }
}

/// A technique that others are added to, for messages.
fn example(world: &str) -> &'static str {
    match world {
        "switching" => "v4",
        _ => "tap",
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.alone())?;
        self.modifiers.iter().try_for_each(|modifier| write!(f, "+{modifier}"))
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(world: &str, text: &str) -> Result<String, String> {
        Choice::parse(world, text).map(|c| c.to_string()).map_err(|e| e.to_string())
    }

    #[test]
    fn its_text_is_canonical() {
        for (world, text, canonical) in [
            ("chip", "tap", "tap"),
            ("chip", "tap:wake=first", "tap"),
            ("chip", "tap:wake=last", "tap:wake=last"),
            ("router", "metronome:vacation_us=20,threads=2", "metronome:threads=2,vacation_us=20"),
            ("router", "metronome:threads=3", "metronome"),
            ("router", "metronome:threads=2,threads=3", "metronome"),
            ("chip", "tap+central-wake-up", "tap+central-wake-up"),
            ("chip", "os-offload+tap", "tap+os-offload"),
            ("chip", "package-sleep+way-partition+c6a", "c6a+way-partition+package-sleep"),
            ("node", "packing:limit=3+package-sleep+c6a", "c6a+package-sleep+packing:limit=3"),
            ("node", "coalesce:hold_us=50+lifo", "lifo+coalesce"),
        ] {
            assert_eq!(parse(world, text).as_deref(), Ok(canonical));
            assert_eq!(parse(world, canonical).as_deref(), Ok(canonical));
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_was_expected() {
        for (world, text, said) in [
            ("chip", "tap:wakes=last", "did you mean `wake`?"),
            ("chip", "tap:wake=lst", "did you mean `last`? (expected first, last)"),
            ("chip", "tap:wake", "expected `tap:PARAMETER=VALUE`"),
            ("chip", "oracle:wake=last", "technique `oracle` takes no parameters"),
            ("router", "metronome:threads=0", "expected a whole number, 1 to 8"),
            ("router", "metronome:threads=two", "metronome:threads: `two`"),
            ("router", "metronome:c_up=3", "`c_up` is a parameter of `power-save`"),
            ("chip", "central-wake-up", "write `tap+central-wake-up`"),
            ("chip", "tap+oracle", "both decide how a core waits for memory"),
            ("chip", "c6a+tap+menu", "`c6a` and `menu` both decide how an idle core sleeps"),
            ("chip", "tap+os-offload+os-always", "both decide where kernel code runs"),
            ("router", "napi-menu+napi-teo", "cannot be added to another"),
            ("chip", "tap+central-wake-up+distributed-wake-up", "say the same thing"),
            ("server", "tap", "world `chip`, not `server`"),
            ("node", "c6a+c6", "`c6` and `c6a` both decide how an idle core sleeps"),
            ("node", "package-sleep+pc1a", "both decide when what cores share sleeps"),
            ("node", "menu+packin", "did you mean `packing`?"),
            ("node", "packing+lifo+menu", "`lifo` and `packing` both decide how requests"),
        ] {
            let error = parse(world, text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_sweep_sets_what_it_names_and_leaves_the_others() {
        let mut tap = Choice::parse("chip", "tap").unwrap();
        assert!(tap.sweep("chip", "tap:wake", "last").unwrap());
        assert_eq!(tap.to_string(), "tap:wake=last");
        let mut oracle = Choice::parse("chip", "oracle").unwrap();
        assert!(oracle.sweep("chip", "technique.wake", "last").unwrap());
        assert_eq!(oracle.to_string(), "oracle");
        assert!(!oracle.sweep("chip", "gating.wake_up_ns", "1").unwrap());
        assert!(oracle.sweep("chip", "tap:wake", "never").is_err());
        assert!(oracle.sweep("chip", "technique.wakes", "last").is_err());
    }
}
