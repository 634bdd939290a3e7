//! Files of the final form: bare, in gzip and the like, or in chunks, the entries of a zip.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use flate2::bufread::DeflateDecoder;
use halfwink_inputs::{open_input, open_regular, Budget, InputError, Opened};
use rawzip::{
    CompressionMethod, FileReader, ZipArchive, ZipArchiveEntryWayfinder, RECOMMENDED_BUFFER_SIZE,
};

/// First bytes of a zip.
const ZIP: [u8; 4] = *b"PK\x03\x04";
/// Most chunks of a zip: DynamoRIO makes one for each ten million instructions.
const MOST_CHUNKS: usize = 1 << 20;

/// A file of entries that was opened.
pub struct DrmemtraceInput(Form);

enum Form {
    Stream(Opened),
    Zip { archive: ZipArchive<FileReader>, chunks: Vec<Chunk> },
}

#[derive(Clone, Copy)]
struct Chunk {
    entry: ZipArchiveEntryWayfinder,
    is_packed: bool,
}

impl DrmemtraceInput {
    /// Opens a regular file, or standard input as `-`.
    ///
    /// # Errors
    /// If it is not there, no regular file, larger than the budget, or packed in a way that is not
    /// unpacked here.
    pub fn open(path: &Path, budget: &Budget) -> Result<DrmemtraceInput, InputError> {
        if path.as_os_str() != "-" {
            let file = open_regular(path)?;
            let mut head = [0; ZIP.len()];
            let read = (&file).read(&mut head).map_err(|e| InputError::at(path, e))?;
            if head[..read] == ZIP {
                return zip(file).map(DrmemtraceInput).map_err(|e| InputError::at(path, e));
            }
        }
        open_input(path, budget).map(|opened| DrmemtraceInput(Form::Stream(opened)))
    }

    /// The entries of the trace, one chunk behind the other.
    pub fn reader(&mut self) -> Box<dyn Read + '_> {
        match &mut self.0 {
            Form::Stream(opened) => Box::new(opened),
            Form::Zip { archive, chunks } => {
                let left = chunks.iter().copied().collect();
                Box::new(Chunks { archive, left, current: Box::new(io::empty()) })
            }
        }
    }
}

fn zip(file: File) -> io::Result<Form> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive = ZipArchive::from_file(file, &mut buffer).map_err(damaged)?;
    let mut chunks = Vec::new();
    let mut entries = archive.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(damaged)? {
        let is_packed = match entry.compression_method() {
            CompressionMethod::STORE => false,
            CompressionMethod::DEFLATE => true,
            other => {
                let why = format!("a zip with chunks packed by {other:?}; unpack it with unzip");
                return Err(io::Error::other(why));
            }
        };
        if !entry.is_dir() {
            chunks.push(Chunk { entry: entry.wayfinder(), is_packed });
        }
        if chunks.len() > MOST_CHUNKS {
            return Err(io::Error::other(format!("a zip of more than {MOST_CHUNKS} chunks")));
        }
    }
    Ok(Form::Zip { archive, chunks })
}

fn damaged(error: rawzip::Error) -> io::Error {
    io::Error::other(format!("a damaged zip: {error}"))
}

/// Reads chunk after chunk; each one's checksum is looked at when it ends.
struct Chunks<'a> {
    archive: &'a ZipArchive<FileReader>,
    left: VecDeque<Chunk>,
    current: Box<dyn Read + 'a>,
}

impl Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.current.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Some(chunk) = self.left.pop_front() else { return Ok(0) };
            let entry = self.archive.get_entry(chunk.entry).map_err(damaged)?;
            self.current = if chunk.is_packed {
                let unpacked = DeflateDecoder::new(BufReader::new(entry.reader()));
                Box::new(entry.verifying_reader(unpacked))
            } else {
                Box::new(entry.verifying_reader(entry.reader()))
            };
        }
    }
}
