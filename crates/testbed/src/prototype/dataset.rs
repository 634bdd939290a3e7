//! The data set: pages of text in folders of 1,000, an index, and a description that tells a
//! folder of ours from anybody else's.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

use halfwink_engine::stream;
use rand::RngExt;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::pareto::BoundedPareto;
use super::text::Language;
use super::Error;

/// File that marks a data-set folder, and holds its options.
pub const DESCRIPTION: &str = "halfwink-dataset.toml";
/// Paths and bytes of all files.
pub const INDEX: &str = "index.csv";
/// Files in a sub-folder.
const FOLDER: usize = 1000;
/// Grows when the same description makes other bytes.
const FORMAT: u32 = 1;

/// Options of a data set; equal options give equal bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Number of files: 250,000 in the thesis.
    pub files: usize,
    /// Bytes of the smallest: 6 kB.
    pub min_bytes: u64,
    /// Bytes of the largest: 1.4 MB.
    pub max_bytes: u64,
    /// Bytes in the mean, of the distribution: 40 kB.
    pub mean_bytes: f64,
    /// Seed of sizes and text.
    pub seed: u64,
}

/// A data set that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dataset {
    /// Version of what the values mean.
    pub format: u32,
    /// Options that it was made from.
    pub options: Options,
    /// Shape of the sizes' distribution.
    pub shape: f64,
    /// Bytes of all files.
    pub bytes: u64,
    /// XXH3 (64 bits) of each file's XXH3, one after the other in little endian, as 16 hexadecimal
    /// digits. Empty until all files are written.
    pub sum: String,
}

/// Paths below a folder, with their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Folder that the paths are relative to.
    pub folder: PathBuf,
    /// Files in the order of their numbers.
    pub files: Vec<(String, u64)>,
}

impl Index {
    /// Reads the index of a folder.
    ///
    /// # Errors
    /// There is none, or a line is no path with its bytes; names the line.
    pub fn read(folder: &Path) -> Result<Index, Error> {
        let path = folder.join(INDEX);
        let text = fs::read_to_string(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::input(format!(
                "{}: not there: expected a folder of `halfwink live dataset`",
                path.display()
            )),
            _ => Error::file(&path, e),
        })?;
        let files =
            read_index(&text).map_err(|e| Error::input(format!("{}: {e}", path.display())))?;
        Ok(Index { folder: folder.to_owned(), files })
    }

    /// Returns the path of a file.
    #[must_use]
    pub fn path(&self, number: usize) -> Option<PathBuf> {
        self.files.get(number).map(|(path, _)| self.folder.join(path))
    }

    /// The index as text: a heading, then `path,bytes`.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::from("path,bytes\n");
        for (path, bytes) in &self.files {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{path},{bytes}");
        }
        text
    }
}

/// Reads the text of an index: lines `path,bytes` below a heading. Paths stay below their folder.
///
/// # Errors
/// A line is something else; names it.
pub fn read_index(text: &str) -> Result<Vec<(String, u64)>, Error> {
    let parse = |(n, line): (usize, &str)| {
        let parsed = line.rsplit_once(',').and_then(|(p, b)| Some((p, b.trim().parse().ok()?)));
        match parsed {
            Some((path, bytes)) if is_inside(path) => Ok((path.to_owned(), bytes)),
            _ => Err(Error::input(format!(
                "line {}: `{line}`: expected `PATH,BYTES`, the path below the folder",
                n + 2
            ))),
        }
    };
    let mut lines = text.lines();
    if lines.next().map(str::trim) != Some("path,bytes") {
        return Err(Error::input("line 1: expected the heading `path,bytes`"));
    }
    lines.enumerate().filter(|(_, line)| !line.is_empty()).map(parse).collect()
}

fn is_inside(path: &str) -> bool {
    use std::path::Component;
    !path.is_empty() && Path::new(path).components().all(|c| matches!(c, Component::Normal(_)))
}

/// Sizes of all files, in bytes.
///
/// # Errors
/// No file, too many, or a distribution that cannot be.
pub fn sizes(options: &Options) -> Result<(BoundedPareto, Vec<u64>), Error> {
    if !(1..=10_000_000).contains(&options.files) {
        return Err(Error::input(format!("{} files: expected 1 to 10,000,000", options.files)));
    }
    let (least, most) = (options.min_bytes as f64, options.max_bytes as f64);
    let law = BoundedPareto::of_mean(least, most, options.mean_bytes)?;
    let mut random = stream(options.seed, "sizes");
    let drawn = (0..options.files).map(|_| law.quantile(random.random::<f64>()).round() as u64);
    Ok((law, drawn.collect()))
}

/// Path of a file below the folder.
fn name(number: usize) -> String {
    format!("{:04}/{number:07}.txt", number / FOLDER)
}

/// Writes a data set, with `threads` at once; one that is there already is left as it is.
/// `written` counts files on the way.
///
/// # Errors
/// The folder holds something else, the disk has no room, the kernel refuses, or `stop` was set;
/// in all but the first two cases the same call goes on.
pub fn write(
    folder: &Path,
    options: Options,
    threads: usize,
    written: &AtomicUsize,
    stop: &AtomicBool,
) -> Result<Dataset, Error> {
    let (law, sizes) = sizes(&options)?;
    if let Some(there) = claim(folder, &options)? {
        written.store(options.files, Ordering::Relaxed);
        return Ok(there);
    }
    has_room(folder, &sizes)?;
    let bytes = sizes.iter().sum();
    let sum = String::new();
    let mut made = Dataset { format: FORMAT, options, shape: law.shape(), bytes, sum };
    // Before the files, and without a sum: the same call knows a folder that was stopped, and goes
    // on.
    describe(folder, &made)?;
    let sums = write_files(folder, options.seed, &sizes, threads, written, stop)?;
    let files = sizes.iter().enumerate().map(|(n, &bytes)| (name(n), bytes)).collect();
    let index = Index { folder: folder.to_owned(), files };
    put(&folder.join(INDEX), index.text().as_bytes())?;
    // Last, since a description with a sum says that all files are there.
    made.sum = total(&sums);
    describe(folder, &made)?;
    Ok(made)
}

/// Reads all files again: whether they are what the description says.
///
/// # Errors
/// A file is missing or differs; says what was found.
pub fn check(folder: &Path) -> Result<Dataset, Error> {
    let made = described(folder)?
        .ok_or_else(|| Error::input(format!("{}: no {DESCRIPTION} there", folder.display())))?;
    let index = Index::read(folder)?;
    let mut sums = Vec::with_capacity(index.files.len());
    for (path, bytes) in &index.files {
        let path = folder.join(path);
        let content = fs::read(&path).map_err(|e| Error::file(&path, e))?;
        if content.len() as u64 != *bytes {
            let found = content.len();
            let path = path.display();
            return Err(Error::input(format!("{path}: {found} bytes: expected {bytes}")));
        }
        sums.push(xxh3_64(&content));
    }
    let found = total(&sums);
    if found != made.sum {
        let (folder, sum) = (folder.display(), &made.sum);
        return Err(Error::input(format!("{folder}: the sum is {found}: expected {sum}")));
    }
    Ok(made)
}

fn total(sums: &[u64]) -> String {
    let bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
    format!("{:016x}", xxh3_64(&bytes))
}

/// A finished data set of these values, if the folder holds it; makes the folder if it can be ours.
fn claim(folder: &Path, options: &Options) -> Result<Option<Dataset>, Error> {
    fs::create_dir_all(folder).map_err(|e| Error::file(folder, e))?;
    let Some(there) = described(folder)? else {
        let mut entries = fs::read_dir(folder).map_err(|e| Error::file(folder, e))?;
        return match entries.next() {
            None => Ok(None),
            Some(_) => Err(Error::input(format!(
                "{}: holds other files: expected a new or empty folder",
                folder.display()
            ))),
        };
    };
    if there.options != *options || there.format != FORMAT {
        let o = there.options;
        return Err(Error::input(format!(
            "{}: holds another data set ({} files, {} to {} bytes, mean {}, seed {}, format {}): \
             expected a new or empty folder",
            folder.display(),
            o.files,
            o.min_bytes,
            o.max_bytes,
            o.mean_bytes,
            o.seed,
            there.format
        )));
    }
    Ok((!there.sum.is_empty()).then_some(there))
}

fn described(folder: &Path) -> Result<Option<Dataset>, Error> {
    let path = folder.join(DESCRIPTION);
    let text = match fs::read_to_string(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|e| Error::file(&path, e))?,
    };
    let read = toml::from_str(&text);
    read.map(Some)
        .map_err(|e: toml::de::Error| Error::input(format!("{}: {}", path.display(), e.message())))
}

fn describe(folder: &Path, made: &Dataset) -> Result<(), Error> {
    let text = toml::to_string(made)
        .map_err(|e| Error::input(format!("the description of a data set: {e}")))?;
    put(&folder.join(DESCRIPTION), format!("# Made by `halfwink live dataset`.\n{text}").as_bytes())
}

/// Writes a file beside its place and moves it there, so that it is whole or not there.
fn put(path: &Path, content: &[u8]) -> Result<(), Error> {
    let beside = path.with_extension("part");
    fs::write(&beside, content).map_err(|e| Error::file(&beside, e))?;
    fs::rename(&beside, path).map_err(|e| Error::file(path, e))
}

fn has_room(folder: &Path, sizes: &[u64]) -> Result<(), Error> {
    // Files fill whole blocks; a twentieth more for folders and others who write meanwhile.
    let need = sizes.iter().map(|bytes| bytes.next_multiple_of(4096)).sum::<u64>() / 20 * 21;
    let free = free_bytes(folder).map_err(|e| Error::file(folder, e))?;
    if free < need {
        return Err(Error::input(format!(
            "{}: {:.1} GB free: expected {:.1} GB for {} files",
            folder.display(),
            free as f64 / 1e9,
            need as f64 / 1e9,
            sizes.len()
        )));
    }
    Ok(())
}

/// Bytes that are free to us where a folder is.
fn free_bytes(folder: &Path) -> io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: zeroes are a valid structure; the kernel writes that one and reads the path.
    let (answer, found) = unsafe {
        let mut found: libc::statvfs = core::mem::zeroed();
        (libc::statvfs(path.as_ptr(), &raw mut found), found)
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found.f_bavail * found.f_frsize)
}

fn write_files(
    folder: &Path,
    seed: u64,
    sizes: &[u64],
    threads: usize,
    written: &AtomicUsize,
    stop: &AtomicBool,
) -> Result<Vec<u64>, Error> {
    let language = Language::default();
    let folders = sizes.len().div_ceil(FOLDER);
    let (next, sums) = (AtomicUsize::new(0), Mutex::new(vec![0; sizes.len()]));
    let one = |n: usize| -> Result<u64, Error> {
        // Each page has a stream of its own: threads change nothing.
        let page = language.page(sizes[n] as usize, &mut stream(seed, &format!("page {n}")));
        let path = folder.join(name(n));
        fs::write(&path, &page).map_err(|e| Error::file(&path, e))?;
        written.fetch_add(1, Ordering::Relaxed);
        Ok(xxh3_64(&page))
    };
    let work = || -> Result<(), Error> {
        loop {
            // A folder at a time: no two threads make the same one.
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= folders {
                return Ok(());
            }
            let path = folder.join(format!("{at:04}"));
            fs::create_dir_all(&path).map_err(|e| Error::file(&path, e))?;
            for n in at * FOLDER..((at + 1) * FOLDER).min(sizes.len()) {
                if stop.load(Ordering::Relaxed) {
                    return Err(Error::input("stopped; the same command goes on"));
                }
                let sum = one(n)?;
                sums.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[n] = sum;
            }
        }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads.clamp(1, 64)).map(|_| scope.spawn(work)).collect();
        let ended = all.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(Error::input("a writing thread broke down")))
        });
        ended.collect::<Result<Vec<()>, Error>>()
    })?;
    Ok(sums.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}
