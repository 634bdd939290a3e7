//! Where machines and workloads are found.

use std::any::Any;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use halfwink_chip::{Machine, MAX_CORES};
use halfwink_engine::Input;
use halfwink_fabric::flows::Traffic;
use halfwink_inputs::{look, Family};
use halfwink_storage::load::Load;
use halfwink_techniques::{read_text, Choice, Descriptions, Error, Stamp};
use halfwink_trace::{Header, Kernel, Service, Totals, TraceFile, SERVICES};

use crate::error::StudyError;
use crate::mutant::Mutant;
use crate::requests::Read;
use crate::worlds::chip::service::WarmService;
use crate::worlds::chip::trace::Trace;
use crate::worlds::chip::workload::{
    by_threads, service, threads_of, Part, Workload, WorkloadKind,
};

/// The folders that come with halfwink. What was read once is kept as long as its file is the same:
/// a study of thousands of jobs names few machines and traces.
#[derive(Clone, Debug)]
pub struct Library {
    descriptions: Descriptions,
    kept: Arc<Mutex<Kept>>,
    /// The mutant that breaks its descriptions of machines, if any.
    mutant: Option<Arc<Mutant>>,
}

/// Inputs that were read and are kept in memory.
#[derive(Debug, Default)]
struct Kept {
    traces: HashMap<PathBuf, Arc<Trace>>,
    /// Generated services, latest last.
    services: Vec<Arc<WarmService>>,
    machines: HashMap<MachineKey, Arc<MachineInfo>>,
    /// Hybrid servers, of a type that their world knows.
    servers: HashMap<MachineKey, (Stamps, Arc<dyn Any + Send + Sync>)>,
    /// Flows of files, latest last.
    flows: Kind<FlowsKey, Traffic>,
    /// Block I/Os of files, likewise.
    block_loads: Kind<String, Load>,
    /// Requests of files, likewise.
    requests: Kind<RequestsKey, Read>,
}

/// Inputs of one kind by what they were read from, latest last.
type Kind<K, V> = Vec<(K, Arc<Slot<V>>)>;

/// Input that is being read, and is there once the lock is free; none if it could not be read.
type Slot<V> = Mutex<Option<Arc<V>>>;

/// A load as it is written, with the path of its file, and the file as it was.
type RequestsKey = (String, Stamp);

/// The key of a file of flows: a digest of its contents, the number of racks, and the servers of
/// each rack.
pub(crate) type FlowsKey = (u64, u16, u16);

/// Name and values of a machine, and its file as it was.
type MachineKey = (String, Vec<(String, String)>, Option<Stamp>);

/// Files that a description names, as they were.
type Stamps = Vec<(PathBuf, Stamp)>;

/// Machines that are kept; a sweep rarely comes back to one after so many others.
const MACHINES: usize = 512;
/// Generated services that are kept: each holds some MB of lines and code.
const SERVICES_KEPT: usize = 16;
/// Files of a kind that are kept: one for every technique that is compared, and one beside it.
const FILES_KEPT: usize = 2;

/// A machine description, read.
#[derive(Clone, Debug)]
pub struct MachineInfo {
    /// Name it was asked for by.
    pub name: String,
    /// The machine, as described.
    pub machine: Machine,
    /// The description as text, with the values that were set.
    pub text: String,
}

/// A workload in the list.
#[derive(Clone, Debug)]
pub struct WorkloadInfo {
    /// Name on the command line.
    pub name: String,
    /// A description in one line.
    pub description: String,
    /// Either `trace` or `synthetic`.
    pub kind: &'static str,
    /// Provenance and counts of a trace.
    pub trace: Option<(Header, Totals, u64)>,
}

/// Lets techniques be named by files with policies, in the whole process.
pub fn play_policies_in_files() {
    halfwink_policy_module::install(&halfwink_policy_module::FAMILIES);
    halfwink_policy_wasm::install();
}

impl Library {
    /// The library in this folder: it holds `machines`, `workloads`, `studies`, `targets`.
    pub fn new(root: impl Into<PathBuf>) -> Library {
        play_policies_in_files();
        let named = |head: &[u8]| look(head, Family::Descriptions).map(|other| other.to_string());
        let descriptions = Descriptions::naming(root, named);
        Library { descriptions, kept: Arc::default(), mutant: None }
    }

    /// Returns the one spelling of a technique of a world, with the digests of files that it names.
    ///
    /// # Errors
    /// If there is no such technique.
    pub fn identity(&self, world: &str, technique: &str) -> Result<String, StudyError> {
        Ok(Choice::parse(world, technique)?.identity())
    }

    /// Returns the same library under a mutant. Traces that were opened are shared.
    pub(crate) fn under(&self, mutant: Arc<Mutant>) -> Library {
        let (traces, services) = {
            let kept = self.kept();
            (kept.traces.clone(), kept.services.clone())
        };
        // Traces and generated services are no descriptions, which is all that mutants break;
        // machines read under one mutant must not be seen under another.
        let kept = Kept { traces, services, ..Kept::default() };
        let descriptions = self.descriptions.clone();
        Library { descriptions, kept: Arc::new(Mutex::new(kept)), mutant: Some(mutant) }
    }

    pub(crate) fn mutant(&self) -> Option<&Mutant> {
        self.mutant.as_deref()
    }

    /// A folder of the library.
    #[must_use]
    pub fn folder(&self, name: &str) -> PathBuf {
        self.descriptions.folder(name)
    }

    /// Names of the files with this extension in a folder of the library, sorted.
    #[must_use]
    pub fn names(&self, folder: &str, extension: &str) -> Vec<String> {
        self.descriptions.names(folder, extension)
    }

    /// Its descriptions as they are written, whatever the mutant.
    #[must_use]
    pub fn descriptions(&self) -> &Descriptions {
        &self.descriptions
    }

    /// Reads a machine: `ev6` as it is written, `ev6-16` with 16 cores, or a file ending in
    /// `.toml`; then sets `values` (path, value), those below `os_core.` of the machine whose cores
    /// it may set aside for the kernel.
    ///
    /// # Errors
    /// If there is no such machine, or it is impossible.
    pub fn machine(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<Arc<MachineInfo>, StudyError> {
        // Length and time of the file are part of the key: a description that is edited while the
        // program runs is read again.
        let stamp = self.find_machine(name).ok().and_then(|(path, _)| Stamp::of(&path).ok());
        let key = (name.to_owned(), values.to_vec(), stamp);
        if let Some(known) = self.kept().machines.get(&key) {
            return Ok(Arc::clone(known));
        }
        // Read without the lock: two threads may read one machine at the same time, but none waits
        // for another's file.
        let read = Arc::new(self.read_machine(name, values)?);
        let mut kept = self.kept();
        // Emptied as a whole: sweeps name each machine in a row, so that an order of use would not
        // keep more that is needed.
        if kept.machines.len() >= MACHINES {
            kept.machines.clear();
        }
        kept.machines.insert(key, Arc::clone(&read));
        Ok(read)
    }

    /// Reads a hybrid server as `read` does, or returns it as it was read: a sweep of seeds names
    /// one server a hundred thousand times. `read` lists the files that the server names.
    pub(crate) fn kept_server<T: Any + Send + Sync>(
        &self,
        (name, path): (&str, &Path),
        values: &[(String, String)],
        read: impl FnOnce() -> Result<(Vec<PathBuf>, T), StudyError>,
    ) -> Result<Arc<T>, StudyError> {
        let key = (name.to_owned(), values.to_vec(), Stamp::of(path).ok());
        let is_same =
            |(path, stamp): &(PathBuf, Stamp)| Stamp::of(path).is_ok_and(|now| now == *stamp);
        // The files that the server names are compared as well: its own may be the same while one
        // of them was edited.
        if let Some((files, known)) = self.kept().servers.get(&key) {
            if let (true, Ok(known)) = (files.iter().all(is_same), Arc::clone(known).downcast()) {
                return Ok(known);
            }
        }
        let (files, server) = read()?;
        let stamps =
            files.into_iter().filter_map(|path| Some((path.clone(), Stamp::of(&path).ok()?)));
        let (stamps, server) = (stamps.collect(), Arc::new(server));
        let mut kept = self.kept();
        if kept.servers.len() >= MACHINES {
            kept.servers.clear();
        }
        let kept_server: Arc<dyn Any + Send + Sync> = server.clone();
        kept.servers.insert(key, (stamps, kept_server));
        Ok(server)
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        // What is kept is whole after every statement, also in a thread that panicked.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_machine(
        &self,
        name: &str,
        values: &[(String, String)],
    ) -> Result<MachineInfo, StudyError> {
        const OF_OS_CORES: &str = "os_core.";
        let (of_os_cores, own): (Vec<_>, Vec<_>) =
            values.iter().partition(|(path, _)| path.starts_with(OF_OS_CORES));
        let (path, cores) = self.find_machine(name)?;
        let own = own.into_iter().map(|(path, value)| (path.as_str(), value));
        let input = self.described(&path, own, crate::worlds::chip::MOVED)?;
        let mut machine = Machine::parse(&input)?;
        let mut text = input.text;
        if let Some(cores) = cores {
            machine = machine.with_cores(cores);
            text = format!("# as {name}: {cores} cores\n{text}");
        }
        if machine.os.like.is_some() || !of_os_cores.is_empty() {
            let path = match &machine.os.like {
                Some(like) => self.find_machine(like)?.0,
                None => path,
            };
            let set = of_os_cores.into_iter().map(|(path, v)| (&path[OF_OS_CORES.len()..], v));
            let input = self.described(&path, set, crate::worlds::chip::MOVED)?;
            // Even with nothing like another machine: a value of the OS cores alone needs a machine
            // to be set in.
            machine.os.kind = Some(Box::new(Machine::parse(&input)?));
            // As comments: the text is part of the key and of what is shown, but the machine is
            // not read from it.
            text.push_str("\n# its OS cores, if a technique uses them, are those of:\n");
            for line in input.text.lines() {
                text.push_str("# ");
                text.push_str(line);
                text.push('\n');
            }
        }
        Ok(MachineInfo { name: name.to_owned(), machine, text })
    }

    /// A description with values (path, value) set. It must not say what is `moved`: parameters of
    /// techniques, which were a machine's once; the error says what to write now.
    pub(crate) fn described<'a>(
        &self,
        path: &Path,
        values: impl IntoIterator<Item = (&'a str, &'a String)>,
        moved: &[(&str, &str)],
    ) -> Result<Input, StudyError> {
        let input = self.descriptions.input(path, values, moved)?;
        Ok(self.as_mutated(path, input)?)
    }

    /// Finds a description by its name in a folder of the library, or as a file ending in `.toml`.
    pub(crate) fn find_named(
        &self,
        folder: &str,
        what: &'static str,
        name: &str,
    ) -> Result<PathBuf, StudyError> {
        Ok(self.descriptions.find(folder, what, name)?)
    }

    fn find_machine(&self, name: &str) -> Result<(PathBuf, Option<usize>), StudyError> {
        if Path::new(name).extension().is_some_and(|e| e == "toml") {
            return Ok((PathBuf::from(name), None));
        }
        let file = |name: &str| self.descriptions.known("machines", name);
        if let Some(path) = file(name) {
            return Ok((path, None));
        }
        // A file of that name wins above: `ev6-16` is a number of cores only if no file is called
        // so.
        if let Some((kind, count)) = name.rsplit_once('-') {
            if let (Some(path), Ok(cores)) = (file(kind), count.parse()) {
                if (1..=MAX_CORES).contains(&cores) {
                    return Ok((path, Some(cores)));
                }
                let message = format!("machine `{name}`: {cores} cores, expected 1 to {MAX_CORES}");
                return Err(StudyError::Usage(message));
            }
        }
        self.descriptions.no_description("machine", name)?;
        let known = self.names("machines", "toml");
        let examples: Vec<String> = known
            .iter()
            .flat_map(|k| [k.clone(), format!("{k}-1"), format!("{k}-4"), format!("{k}-16")])
            .collect();
        Err(StudyError::unknown("machine", name, examples.iter().map(String::as_str)))
    }

    /// Finds a workload: `nginx`, `chase:mb=64`, `trace.hwt`, `nginx*4`, several with `+`, or
    /// `trace.hwt:threads=cores`.
    ///
    /// # Errors
    /// If there is none of that name, or its trace cannot be opened.
    pub fn workload(&self, name: &str) -> Result<Workload, StudyError> {
        let mut parts: Vec<Part> = Vec::new();
        for piece in name.split('+') {
            let (base, copies) = match piece.rsplit_once('*') {
                Some((base, count)) => match count.parse() {
                    Ok(n @ 1..=MAX_CORES) => (base, n),
                    _ => {
                        let message =
                            format!("workload `{piece}`: expected 1 to {MAX_CORES} copies");
                        return Err(StudyError::Usage(message));
                    }
                },
                None => (piece, 1),
            };
            let kind = self.part(base)?;
            let copies = match &kind {
                WorkloadKind::Threads(_, threads) if copies == 1 && piece == name => {
                    threads.count()
                }
                WorkloadKind::Threads(..) => {
                    let message = format!("workload `{name}`: threads run once and alone");
                    return Err(StudyError::Usage(message));
                }
                _ => copies,
            };
            parts.push(Part { kind, name: base.to_owned(), copies });
        }
        Ok(Workload { name: name.to_owned(), parts })
    }

    fn part(&self, name: &str) -> Result<WorkloadKind, StudyError> {
        let stem = name.split(':').next().unwrap_or(name);
        let settings = name.strip_prefix(stem).unwrap_or("").trim_start_matches(':');
        if let Some(&(_, kernel, footprint)) = Kernel::ALL.iter().find(|(n, ..)| *n == stem) {
            return WorkloadKind::synthetic(kernel, footprint, settings);
        }
        if let Some(model) = SERVICES.iter().find(|model| model.name == stem) {
            return Ok(WorkloadKind::Service(self.service(service(*model, settings)?)));
        }
        let (name, has_threads) = by_threads(name)?;
        let is_trace = Path::new(name).extension().is_some_and(|e| e == "hwt");
        let is_path = name.contains('/') && Path::new(name).is_file();
        let shipped = self.folder("workloads").join(format!("{name}.hwt"));
        let path = if is_trace || is_path {
            PathBuf::from(name)
        } else if shipped.exists() {
            shipped
        } else {
            self.elsewhere()?.refuse(name)?;
            // A file of the working folder; a name that is known means what it always means.
            let path = PathBuf::from(name);
            if !path.is_file() {
                let mut known = self.names("workloads", "hwt");
                known.extend(Kernel::ALL.iter().map(|(n, ..)| (*n).to_owned()));
                known.extend(SERVICES.iter().map(|model| model.name.to_owned()));
                return Err(StudyError::unknown(
                    "workload",
                    name,
                    known.iter().map(String::as_str),
                ));
            }
            path
        };
        let trace = self.trace(path)?;
        match has_threads {
            true => threads_of(name, trace),
            false => Ok(WorkloadKind::Trace(trace)),
        }
    }

    /// A generated service, warmed up the first time that it is played.
    // Under the lock throughout, unlike files: nothing is read here, the warm-up runs when the
    // service is first played.
    fn service(&self, spec: Service) -> Arc<WarmService> {
        let mut kept = self.kept();
        if let Some(known) = kept.services.iter().find(|known| known.spec == spec) {
            return Arc::clone(known);
        }
        if kept.services.len() >= SERVICES_KEPT {
            kept.services.remove(0);
        }
        let service = Arc::new(WarmService::new(spec));
        kept.services.push(Arc::clone(&service));
        service
    }

    /// A trace, opened and digested the first time that it is named.
    fn trace(&self, path: PathBuf) -> Result<Arc<Trace>, StudyError> {
        // Cloned out of the lock before the file is looked at: a slow disk must not hold up jobs of
        // other traces.
        let known = self.kept().traces.get(&path).cloned();
        if let Some(known) = known.filter(|trace| trace.is_same()) {
            return Ok(known);
        }
        let trace = Arc::new(Trace::open(path.clone())?);
        self.kept().traces.insert(path, Arc::clone(&trace));
        Ok(trace)
    }

    /// Flows of files, read the first time that files hold this.
    pub(crate) fn flows(
        &self,
        key: FlowsKey,
        read: impl FnOnce() -> Result<Traffic, StudyError>,
    ) -> Result<Arc<Traffic>, StudyError> {
        self.once(|kept| &mut kept.flows, key, read)
    }

    /// Block I/Os of files, read the first time that files hold this.
    pub(crate) fn block_load(
        &self,
        key: String,
        read: impl FnOnce() -> Result<Load, StudyError>,
    ) -> Result<Arc<Load>, StudyError> {
        self.once(|kept| &mut kept.block_loads, key, read)
    }

    /// Requests of a file, read the first time that it is as it is now.
    pub(crate) fn requests(
        &self,
        load: String,
        path: &Path,
        read: impl FnOnce() -> Result<Read, StudyError>,
    ) -> Result<Read, StudyError> {
        // Standard input, which is no file, is read as often as it is asked for.
        let Ok(stamp) = Stamp::of(path) else { return read() };
        self.once(|kept| &mut kept.requests, (load, stamp), read).map(|read| (*read).clone())
    }

    fn once<K: PartialEq, V>(
        &self,
        of: fn(&mut Kept) -> &mut Kind<K, V>,
        key: K,
        read: impl FnOnce() -> Result<V, StudyError>,
    ) -> Result<Arc<V>, StudyError> {
        let slot = {
            let mut kept = self.kept();
            let files = of(&mut kept);
            let known = files.iter().find(|(known, _)| *known == key);
            known.map(|(_, slot)| Arc::clone(slot)).unwrap_or_else(|| {
                if files.len() >= FILES_KEPT {
                    files.remove(0);
                }
                let slot = Arc::<Slot<V>>::default();
                files.push((key, Arc::clone(&slot)));
                slot
            })
        };
        // Jobs of one file wait here for the first of them: reading it once more would take as
        // long, and as much memory again.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*slot {
            return Ok(Arc::clone(known));
        }
        Ok(Arc::clone(slot.insert(Arc::new(read()?))))
    }

    /// All workloads that can be named.
    ///
    /// # Errors
    /// If a shipped trace is damaged.
    pub fn workloads(&self) -> Result<Vec<WorkloadInfo>, StudyError> {
        let mut list = Vec::new();
        for name in self.names("workloads", "hwt") {
            let file = TraceFile::open(&self.folder("workloads").join(format!("{name}.hwt")))?;
            let (header, footer) = (file.header().clone(), file.footer().clone());
            list.push(WorkloadInfo {
                name,
                description: header.description.clone(),
                kind: "trace",
                trace: Some((header, footer.totals, file.bytes())),
            });
        }
        for (name, kernel, footprint) in Kernel::ALL {
            let description = match kernel {
                Kernel::Alu => "a loop of integer operations".to_owned(),
                Kernel::Mixed => "loads, stores, arithmetic and branches".to_owned(),
                Kernel::Chase => format!("dependent loads over {} MB", footprint >> 20),
                Kernel::Stream => format!("the STREAM kernels over {} MB", footprint >> 20),
            };
            let name = name.to_owned();
            list.push(WorkloadInfo { name, description, kind: "synthetic", trace: None });
        }
        for model in SERVICES {
            let name = model.name.to_owned();
            let more = if model.name.ends_with("-walk") { ", two columns of 5.5" } else { "" };
            let description = format!(
                "user and kernel of {}, calibrated to Nellans 2014, Tables 5.1 to 5.3{more}",
                model.program
            );
            list.push(WorkloadInfo { name, description, kind: "synthetic", trace: None });
        }
        Ok(list)
    }
}

pub(crate) fn read(path: &Path) -> Result<String, StudyError> {
    Ok(read_text(path)?)
}

pub(crate) fn io(path: &Path, error: std::io::Error) -> StudyError {
    Error::io(path, error).into()
}
