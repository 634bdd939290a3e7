// SPDX-License-Identifier: GPL-2.0-or-later
//! The other end: a thread that compresses batches into the trace file, so that the guest runs on
//! meanwhile.

use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::JoinHandle;

use halfwink_trace::{BlockId, Header, Summary, TraceWriter};

use crate::args::Args;
use crate::batch::{Batch, Item};
use crate::report;

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
    /// Opens the file and starts the thread.
    ///
    /// # Errors
    /// If the header cannot be read or the file not be written.
    pub fn open(args: &Args) -> io::Result<Sink> {
        let header = read_header(args)?;
        let out = BufWriter::with_capacity(1 << 20, File::create(&args.out)?);
        let mut writer = TraceWriter::create(out, &header, LEVEL)?;
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
                    // Nobody can act on it but us: the guest must not run on for nothing.
                    report::error(&format!("cannot write the trace: {error}"));
                    crate::ffi::exit_now(1);
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

fn read_header(args: &Args) -> io::Result<Header> {
    let json = std::fs::read(&args.header)?;
    let mut header: Header = serde_json::from_slice(&json)?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    header.tools.insert(env!("CARGO_PKG_NAME").to_owned(), version);
    Ok(header)
}

fn write(
    writer: &mut TraceWriter<BufWriter<File>>,
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
