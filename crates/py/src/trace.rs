//! Trace files.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use halfwink_chip::{count_misses, Geometry, MissSetup};
use halfwink_trace as trace;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::convert::json;
use crate::HalfwinkError;

/// Most bytes of records that are imported, packed and unpacked: 16 TiB.
const MOST_RECORDS_BYTES: u64 = 1 << 44;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trace_info, module)?)?;
    module.add_function(wrap_pyfunction!(trace_head, module)?)?;
    module.add_function(wrap_pyfunction!(trace_check, module)?)?;
    module.add_function(wrap_pyfunction!(trace_slice, module)?)?;
    module.add_function(wrap_pyfunction!(trace_keep_samples, module)?)?;
    module.add_function(wrap_pyfunction!(import_champsim, module)?)?;
    module.add_function(wrap_pyfunction!(export_champsim, module)?)?;
    module.add_function(wrap_pyfunction!(export_drmemtrace, module)?)?;
    module.add_function(wrap_pyfunction!(import_drmemtrace, module)?)?;
    module.add_function(wrap_pyfunction!(trace_caches, module)?)?;
    module.add_function(wrap_pyfunction!(trace_decode, module)?)
}

fn failed(error: trace::TraceError) -> PyErr {
    HalfwinkError::new_err(error.to_string())
}

fn open(path: &Path) -> PyResult<trace::TraceFile> {
    trace::TraceFile::open(path).map_err(failed)
}

fn failed_at(path: &Path, error: &io::Error) -> PyErr {
    HalfwinkError::new_err(format!("{}: {error}", path.display()))
}

/// A file that is written, and why it refused bytes: readers and writers of traces have one type of
/// error, which would name the file that is read.
struct Sink {
    file: File,
    refused: Option<io::Error>,
}

impl Sink {
    fn out(file: File) -> BufWriter<Sink> {
        BufWriter::new(Sink { file, refused: None })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).inspect_err(|error| {
            // An interrupted call is made again.
            if error.kind() != io::ErrorKind::Interrupted {
                // An error cannot be copied; its number is enough to say why.
                self.refused = error.raw_os_error().map(io::Error::from_raw_os_error);
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes into an open file; an error that is the file's own names `path`.
fn fill<T>(
    path: &Path,
    file: File,
    write: impl FnOnce(&mut BufWriter<Sink>) -> Result<T, trace::TraceError>,
) -> PyResult<T> {
    let mut out = Sink::out(file);
    let written = write(&mut out).and_then(|t| match out.flush() {
        Ok(()) => Ok(t),
        Err(error) => Err(trace::TraceError::at(0, error.into())),
    });
    written.map_err(|error| match &out.get_ref().refused {
        Some(refused) => failed_at(path, refused),
        None => failed(error),
    })
}

/// Writes a file beside `path` and moves it there once it is whole. What stands there keeps its
/// permissions, and a symbolic link to it stays one.
fn write_whole<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<Sink>) -> Result<T, trace::TraceError>,
) -> PyResult<T> {
    let before = std::fs::metadata(path).ok();
    // A device or a pipe is written to, not replaced.
    if before.as_ref().is_some_and(|meta| !meta.is_file()) {
        let file = File::options().write(true).open(path).map_err(|e| failed_at(path, &e))?;
        return fill(path, file, write);
    }
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut partial = OsString::from(".");
    partial.push(target.file_name().unwrap_or_default());
    // Another process may write the same file.
    partial.push(format!(".{:016x}", std::process::id()));
    let partial = target.with_file_name(partial);
    let make = || {
        let file = File::create(&partial)?;
        before.map_or(Ok(()), |meta| file.set_permissions(meta.permissions()))?;
        Ok(file)
    };
    let moved = || std::fs::rename(&partial, &target).map_err(|e| failed_at(path, &e));
    let made = make().map_err(|e| failed_at(path, &e));
    let written = made.and_then(|file| fill(path, file, write)).and_then(|t| moved().map(|()| t));
    written.inspect_err(|_| {
        // The error that matters is the first one.
        let _ = std::fs::remove_file(&partial);
    })
}

/// Header, footer and size of a trace, as JSON.
#[pyfunction]
fn trace_info(path: PathBuf) -> PyResult<String> {
    let file = open(&path)?;
    let program = file.program();
    let warm = file.warm().map_err(failed)?;
    let info = serde_json::json!({
        "bytes": file.bytes(),
        "header": json(file.header())?,
        "totals": json(&file.footer().totals)?,
        "sections": json(&file.footer().sections)?,
        "blocks": program.blocks.len(),
        "templates": program.templates.len(),
        "static_instructions": program.instrs.len(),
        "warm_lines": warm.lines.len(),
    });
    Ok(info.to_string())
}

/// The first instructions, as text.
#[pyfunction]
fn trace_head(path: PathBuf, count: u64) -> PyResult<String> {
    let file = open(&path)?;
    trace::listing(&file, count).map_err(failed)
}

/// Reads everything; what was found, as a dict.
#[pyfunction]
fn trace_check(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let report = py
        .detach(|| trace::TraceFile::open(&path).and_then(|file| trace::check(&file)))
        .map_err(|e| failed(e.in_file(&path)))?;
    let dict = PyDict::new(py);
    for (name, value) in [
        ("chunks", report.chunks),
        ("user_instructions", report.instructions[0]),
        ("kernel_instructions", report.instructions[1]),
        ("runs", report.runs),
        ("accesses", report.accesses),
        ("unexplained_successions", report.unexplained),
        ("direct_map_accesses", report.direct_map),
        ("direct_map_wrong", report.direct_map_wrong),
        ("stray_requests", report.stray_requests),
    ] {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

/// Kind, privilege, accesses, first-level misses, last-level misses.
type MissRow = (&'static str, &'static str, u64, u64, u64);

/// Accesses and misses of a trace in a hierarchy of caches: for each kind and privilege, the
/// accesses, the first-level and the last-level misses.
#[pyfunction]
fn trace_caches(
    py: Python<'_>,
    path: PathBuf,
    shapes: [String; 3],
    user_only: bool,
    virtual_addresses: bool,
) -> PyResult<Vec<MissRow>> {
    let [i1, d1, ll] = shapes.map(|text| Geometry::parse(&text).map_err(HalfwinkError::new_err));
    let setup = MissSetup { i1: i1?, d1: d1?, ll: ll?, user_only, virtual_addresses };
    let file = open(&path)?;
    let counts = py
        .detach(|| count_misses(&mut file.stream(), setup))
        .map_err(|e| failed(e.in_file(&path)))?;
    let kinds = [("fetch", counts.fetches), ("load", counts.loads), ("store", counts.stores)];
    Ok(kinds
        .into_iter()
        .flat_map(|(kind, modes)| {
            ["user", "kernel"]
                .into_iter()
                .zip(modes)
                .map(move |(mode, n)| (kind, mode, n.accesses, n.l1_misses, n.ll_misses))
        })
        .collect())
}

/// Decodes everything and does nothing with it: instructions, for benchmarks.
#[pyfunction]
fn trace_decode(py: Python<'_>, path: PathBuf) -> PyResult<u64> {
    use trace::Source;
    let file = open(&path)?;
    py.detach(|| {
        let mut stream = file.stream();
        let program = std::sync::Arc::clone(stream.program());
        let mut instructions = 0;
        let mut sum = 0u64;
        loop {
            match stream.next_item()? {
                trace::Item::Run(id) => {
                    instructions += u64::from(program.template(id).executed);
                    // Looks at every address, so that none is optimized away.
                    sum = stream.addresses().iter().fold(sum, |s, a| s ^ a.phys.0);
                }
                trace::Item::Event(_) => {}
                trace::Item::End => break,
            }
        }
        std::hint::black_box(sum);
        Ok(instructions)
    })
    .map_err(failed)
}

/// Cuts a slice, of so many instructions after so many, out of a trace.
#[pyfunction]
fn trace_slice(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    part: (u64, u64),
    warm_lines: usize,
    decoded: bool,
    level: i32,
) -> PyResult<String> {
    let file = open(&path)?;
    let (skip, keep) = part;
    let what = trace::Slice { skip, keep, warm_lines, decoded, level };
    py.detach(|| {
        let summary = write_whole(&out, |w| {
            trace::slice(&file, what, w).map(|(summary, _)| summary).map_err(|e| e.in_file(&path))
        })?;
        Ok(json(&summary.totals)?.to_string())
    })
}

/// Writes the samples of a recording that begin at multiples of `every` instructions, of a run of
/// `of`; the totals, as JSON, and their number.
#[pyfunction]
fn trace_keep_samples(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    size: u64,
    every: u64,
    of: u64,
) -> PyResult<(String, usize)> {
    let file = open(&path)?;
    let kept = trace::Kept { size, every, of, level: 9 };
    py.detach(|| {
        let mut count = 0;
        let summary = write_whole(&out, |w| {
            let done = trace::keep_samples(&file, kept, w).map_err(|e| e.in_file(&path));
            done.map(|(summary, found, _)| {
                count = found;
                summary
            })
        })?;
        Ok((json(&summary.totals)?.to_string(), count))
    })
}

/// Makes a trace of another simulator's, which the closure reads; its totals, as JSON.
fn import(
    py: Python<'_>,
    what: &str,
    path: &Path,
    out: &Path,
    workload: String,
    limit: Option<u64>,
    read: impl Send
        + FnOnce(
            &trace::ImportOptions,
            &mut BufWriter<Sink>,
        ) -> Result<trace::Summary, trace::TraceError>,
) -> PyResult<String> {
    // Without the folder: the same file makes the same trace wherever it lies.
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let origin = format!("{what} {name}");
    let options = trace::ImportOptions { workload, origin, limit, level: 9 };
    py.detach(|| {
        let summary = write_whole(out, |w| read(&options, w).map_err(|e| e.in_file(path)))?;
        Ok(json(&summary.totals)?.to_string())
    })
}

/// Reads ChampSim records into a trace; its totals, as JSON.
#[pyfunction]
#[pyo3(signature = (path, out, workload, limit=None, cloudsuite=false))]
fn import_champsim(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    workload: String,
    limit: Option<u64>,
    cloudsuite: bool,
) -> PyResult<String> {
    let budget = halfwink_inputs::Budget::new(MOST_RECORDS_BYTES);
    let input = halfwink_inputs::open_input(&path, &budget);
    let input = input.map_err(|e| HalfwinkError::new_err(e.to_string()))?;
    let form = if cloudsuite { trace::RecordForm::Cloudsuite } else { trace::RecordForm::Own };
    import(py, "ChampSim trace", &path, &out, workload, limit, |options, w| {
        trace::import_champsim(input, form, options, w).map(|(summary, _)| summary)
    })
}

/// Reads drmemtrace entries into a trace; its totals, as JSON.
#[pyfunction]
#[pyo3(signature = (path, out, workload, limit=None))]
fn import_drmemtrace(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    workload: String,
    limit: Option<u64>,
) -> PyResult<String> {
    let budget = halfwink_inputs::Budget::new(MOST_RECORDS_BYTES);
    let input = trace::DrmemtraceInput::open(&path, &budget);
    let mut input = input.map_err(|e| HalfwinkError::new_err(e.to_string()))?;
    import(py, "drmemtrace", &path, &out, workload, limit, |options, w| {
        trace::import_drmemtrace(input.reader(), options, w).map(|(summary, _)| summary)
    })
}

/// Writes a trace as ChampSim records: how many, and accesses that found no room.
#[pyfunction]
#[pyo3(signature = (path, out, user, kernel, limit=None))]
fn export_champsim(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    user: bool,
    kernel: bool,
    limit: Option<u64>,
) -> PyResult<(u64, u64)> {
    let file = open(&path)?;
    let options = trace::ExportOptions { user, kernel, limit };
    py.detach(|| {
        // From the name that was given: that of the file beside it has another end.
        let compression = trace::Compression::of(&out);
        let done = write_whole(&out, |w| trace::export_champsim(&file, options, w, compression))?;
        Ok((done.records, done.accesses_left_out))
    })
}

/// Writes what a CPU of a trace did as a drmemtrace; what was written, as a dict.
#[pyfunction]
#[pyo3(signature = (path, out, kernel, cpu=None, limit=None))]
fn export_drmemtrace(
    py: Python<'_>,
    path: PathBuf,
    out: PathBuf,
    kernel: bool,
    cpu: Option<u16>,
    limit: Option<u64>,
) -> PyResult<Bound<'_, PyDict>> {
    let file = open(&path)?;
    let options = trace::DrmemtraceOptions { kernel, cpu, limit };
    let done = py.detach(|| {
        let compression = trace::Compression::of(&out);
        write_whole(&out, |w| {
            trace::export_drmemtrace(&file, options, w, compression).map_err(|e| e.in_file(&path))
        })
    })?;
    let dict = PyDict::new(py);
    for (name, value) in [
        ("user_instructions", done.instructions[0]),
        ("kernel_instructions", done.instructions[1]),
        ("repeats", done.repeats),
        ("loads", done.loads),
        ("stores", done.stores),
        ("taken", done.taken),
        ("threads", done.threads),
        ("gaps", done.gaps),
    ] {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}
