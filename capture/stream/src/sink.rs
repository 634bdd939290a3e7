// SPDX-License-Identifier: GPL-2.0-or-later
//! The other end: a thread that compresses batches into the trace file, so that the guest runs on
//! meanwhile.

use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::JoinHandle;

use halfwink_trace::{BlockId, Header, Summary, TraceWriter};

use crate::batch::{Batch, Item};

/// zstd level of the file.
const LEVEL: i32 = 3;
/// Batches under way: enough that neither thread waits long, few enough to bound memory.
const BATCHES: usize = 6;

/// Thread that writes batches.
pub struct Sink {
    full: SyncSender<Batch>,
    empty: Receiver<Batch>,
    thread: JoinHandle<io::Result<Summary>>,
}

impl Sink {
    /// Starts a trace in `out`, and the thread. `fail` is called on that thread if the trace cannot
    /// be written: the guest must not run on for nothing.
    ///
    /// # Errors
    /// If the trace cannot be started.
    pub fn start(
        out: impl Write + Send + 'static,
        header: &Header,
        fail: fn(&str),
    ) -> io::Result<Sink> {
        let mut writer = TraceWriter::create(out, header, LEVEL)?;
        let (full, full_in) = std::sync::mpsc::sync_channel::<Batch>(BATCHES);
        let (empty_out, empty) = std::sync::mpsc::sync_channel::<Batch>(BATCHES + 2);
        for _ in 0..BATCHES {
            // The channel is longer than this.
            let _ = empty_out.send(Batch::default());
        }
        let thread = std::thread::Builder::new().name("trace".into()).spawn(move || {
            let mut blocks = Vec::new();
            while let Ok(mut batch) = full_in.recv() {
                if let Err(error) = write(&mut writer, &mut blocks, &mut batch) {
                    fail(&format!("cannot write the trace: {error}"));
                    return Err(error);
                }
                batch.clear();
                let _ = empty_out.send(batch);
            }
            writer.finish().map(|(summary, _)| summary)
        })?;
        Ok(Sink { full, empty, thread })
    }

    /// Hands a batch over and takes an empty one.
    pub fn send(&self, batch: &mut Batch) {
        // Both channels live as long as the thread, and the thread as long as we.
        let next = self.empty.recv().unwrap_or_default();
        let _ = self.full.send(std::mem::replace(batch, next));
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn finish(self) -> io::Result<Summary> {
        drop(self.full);
        self.thread.join().map_err(|_| io::Error::other("the writing thread died"))?
    }
}

/// Reads a trace's header from JSON, and adds a tool with its version.
///
/// # Errors
/// If the file cannot be read, or holds no header.
pub fn read_header(path: &Path, tool: &str, version: &str) -> io::Result<Header> {
    let json = std::fs::read(path)?;
    let mut header: Header = serde_json::from_slice(&json)?;
    header.tools.insert(tool.to_owned(), version.to_owned());
    Ok(header)
}

fn write<W: Write>(
    writer: &mut TraceWriter<W>,
    blocks: &mut Vec<Option<BlockId>>,
    batch: &mut Batch,
) -> io::Result<()> {
    let mut definitions = batch.definitions.iter();
    let mut events = batch.events.iter();
    let mut accesses = batch.accesses.as_slice();
    for item in &batch.items {
        match *item {
            Item::Define => {
                let Some((number, definition)) = definitions.next() else { continue };
                let number = *number as usize;
                if blocks.len() <= number {
                    blocks.resize(number + 1, None);
                }
                blocks[number] = Some(writer.define_block(&definition.as_block())?);
            }
            Item::Run { block, executed, accesses: count } => {
                let (mine, rest) = accesses.split_at(usize::from(count));
                accesses = rest;
                let id = blocks.get(block as usize).copied().flatten();
                let id = id.ok_or_else(|| io::Error::other("a block was never defined"))?;
                writer.run(id, executed, mine)?;
            }
            Item::Event => {
                if let Some(event) = events.next() {
                    writer.event(event)?;
                }
            }
        }
    }
    Ok(())
}
