//! Captured frames: pcap and pcapng files, read for replay and written by the sink.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use halfwink_inputs::{look, open_input, Budget, Family};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapReader, PcapWriter};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader, PcapNgWriter};
use pcap_file::{DataLink, PcapError, TsResolution};

use super::frame::FRAME_BYTES;
use super::link::Link;
use super::Error;

/// Longest frame that is written whole.
const SNAP_BYTES: u32 = 65_535;
/// First four bytes of a pcapng file, in either order.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Bytes that tell what another file is.
const LOOKED_AT: u64 = 1 << 14;
/// Frames with nothing behind their addresses and type are not sent.
const LEAST_BYTES: usize = 14;

/// Most bytes of a capture, packed and unpacked: 1 TiB.
const MOST_BYTES: u64 = 1 << 40;

fn wrong(path: &Path, error: &PcapError) -> Error {
    let why = match error {
        PcapError::IoError(source) => source.to_string(),
        other => other.to_string(),
    };
    Error::input(format!("{}: expected a pcap or pcapng file: {why}", path.display()))
}

/// An error behind the head of a file, after so many whole frames.
fn broken(path: &Path, frames: u64, error: &PcapError) -> Error {
    // The reader has two words for a file that ends too soon.
    let is_cut = match error {
        PcapError::IncompleteBuffer => true,
        PcapError::IoError(source) => source.kind() == std::io::ErrorKind::UnexpectedEof,
        _ => false,
    };
    if !is_cut {
        return wrong(path, error);
    }
    Error::input(format!(
        "{}: is cut: it ends in the middle of frame {}; `tcpdump -r FILE -w WHOLE` keeps the \
         {frames} before",
        path.display(),
        frames + 1,
    ))
}

type Source = BufReader<Box<dyn Read + Send>>;

enum Format {
    Pcap(PcapReader<Source>, Link),
    Ng(PcapNgReader<Source>),
}

impl Format {
    fn open(path: &Path) -> Result<Format, Error> {
        let budget = Budget::new(MOST_BYTES);
        let opened = open_input(path, &budget);
        let mut file = opened.map_err(|error| Error::input(error.to_string()))?;
        let mut head = Vec::new();
        let read = file.by_ref().take(LOOKED_AT).read_to_end(&mut head);
        read.map_err(|e| Error::input(format!("{}: {e}", path.display())))?;
        if let Some(other) = look(&head, Family::Frames) {
            return Err(Error::input(format!("{}: {other}", path.display())));
        }
        let is_ng = head.starts_with(&PCAPNG_MAGIC);
        // A stream that is unpacked cannot be rewound: what was looked at comes once more.
        let file: Source = BufReader::new(Box::new(Cursor::new(head).chain(file)));
        if is_ng {
            return PcapNgReader::new(file).map(Format::Ng).map_err(|e| wrong(path, &e));
        }
        let reader = PcapReader::new(file).map_err(|e| wrong(path, &e))?;
        let link = link(path, reader.header().datalink)?;
        Ok(Format::Pcap(reader, link))
    }
}

fn link(path: &Path, link: DataLink) -> Result<Link, Error> {
    Link::of(link).ok_or_else(|| {
        Error::input(format!(
            "{}: frames of {link:?}: expected Ethernet, packets of IP, or those of `-i any`; \
             capture at an interface of IP: tcpdump -i any -w FILE",
            path.display()
        ))
    })
}

/// Frames of a file one after the other, in memory that does not grow with it.
pub struct Replay {
    path: PathBuf,
    format: Format,
    times_left: u32,
    frame: Vec<u8>,
    /// Bytes of a block, before its link is known.
    raw: Vec<u8>,
    /// Time of the first frame of the file, and what rounds before took.
    first: Option<Duration>,
    base_ns: u64,
    at_ns: u64,
    skipped: u64,
    read: u64,
}

impl Replay {
    /// Opens a file of frames, to be played `times` times.
    ///
    /// # Errors
    /// It cannot be read, or holds something else.
    pub fn open(path: &Path, times: u32) -> Result<Replay, Error> {
        Ok(Replay {
            path: path.to_owned(),
            format: Format::open(path)?,
            times_left: times.saturating_sub(1),
            frame: Vec::new(),
            raw: Vec::new(),
            first: None,
            base_ns: 0,
            at_ns: 0,
            skipped: 0,
            read: 0,
        })
    }

    /// Reads the next frame: its time in nanoseconds from the first; `None` after the last. Times
    /// never run backwards: a frame that was captured out of order is due with the one before.
    ///
    /// # Errors
    /// The file breaks off, or has other frames than Ethernet's.
    pub fn advance(&mut self) -> Result<Option<u64>, Error> {
        loop {
            let Some(at) = self.read_one()? else {
                // A file without a frame to send would be read again in vain.
                if self.times_left == 0 || self.read == 0 {
                    return Ok(None);
                }
                self.times_left -= 1;
                self.base_ns = self.at_ns;
                self.first = None;
                self.format = Format::open(&self.path)?;
                continue;
            };
            if !(LEAST_BYTES..=*FRAME_BYTES.end()).contains(&self.frame.len()) {
                self.skipped += 1;
                continue;
            }
            self.read += 1;
            let first = *self.first.get_or_insert(at);
            let offset = at.saturating_sub(first).as_nanos() as u64;
            self.at_ns = self.at_ns.max(self.base_ns + offset);
            return Ok(Some(self.at_ns));
        }
    }

    /// The frame that was read last.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Frames that were too short or too long to be sent.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn read_one(&mut self) -> Result<Option<Duration>, Error> {
        let Replay { path, format, frame, raw, read, .. } = self;
        match format {
            Format::Pcap(reader, link) => {
                let ts_resolution = reader.header().ts_resolution;
                // Raw: the library takes a frame that is longer than what was kept of it for an
                // error, though `tcpdump -s 96` writes just that.
                let Some(packet) = reader.next_raw_packet() else { return Ok(None) };
                let packet = packet.map_err(|e| broken(path, *read, &e))?;
                raw.clear();
                raw.extend_from_slice(&packet.data);
                let unit_ns = match ts_resolution {
                    TsResolution::MicroSecond => 1000,
                    TsResolution::NanoSecond => 1,
                };
                let nanos = packet.ts_frac.saturating_mul(unit_ns).min(999_999_999);
                let at = Duration::new(u64::from(packet.ts_sec), nanos);
                fill(raw, packet.orig_len);
                link.frame(raw, frame);
                Ok(Some(at))
            }
            Format::Ng(reader) => loop {
                raw.clear();
                let Some(block) = reader.next_block() else { return Ok(None) };
                let (interface, ticks, wire_bytes) =
                    match block.map_err(|e| broken(path, *read, &e))? {
                        Block::EnhancedPacket(packet) => {
                            let ticks = packet.timestamp.as_nanos() as u64;
                            raw.extend_from_slice(&packet.data);
                            (packet.interface_id, Some(ticks), packet.original_len)
                        }
                        Block::SimplePacket(packet) => {
                            raw.extend_from_slice(&packet.data);
                            // The library hands out the bytes that pad the block, too.
                            raw.truncate(packet.original_len as usize);
                            (0, None, packet.original_len)
                        }
                        Block::Packet(packet) => {
                            raw.extend_from_slice(&packet.data);
                            let ticks = Some(packet.timestamp);
                            (u32::from(packet.interface_id), ticks, packet.original_len)
                        }
                        _ => continue,
                    };
                let Some(described) = reader.interfaces().get(interface as usize) else {
                    return Err(wrong(path, &PcapError::InvalidInterfaceId(interface)));
                };
                fill(raw, wire_bytes);
                // Each interface of a file has a type of link of its own.
                link(path, described.linktype)?.frame(raw, frame);
                // Simple packets have no time: they follow at once.
                return Ok(Some(ticks.map_or(Duration::ZERO, |t| tick_time(described, t))));
            },
        }
    }
}

/// Fills what a capture has not kept of a frame (`tcpdump -s 96`) with zeros, so that it is as long
/// as it was.
fn fill(frame: &mut Vec<u8>, wire_bytes: u32) {
    // A longer one is left out as it is, and one byte more than the longest says that.
    let most = *FRAME_BYTES.end() + 1;
    let whole = (wire_bytes as usize).min(most);
    if frame.len() < whole {
        frame.resize(whole, 0);
    }
}

/// The library hands out ticks as if each were a nanosecond; how long one is, the interface says:
/// 10^-n s, or 2^-n s with the upper bit set; 10^-6 s if it says nothing.
fn tick_time(interface: &InterfaceDescriptionBlock<'_>, ticks: u64) -> Duration {
    let said = interface.options.iter().find_map(|option| match option {
        InterfaceDescriptionOption::IfTsResol(n) => Some(*n),
        _ => None,
    });
    let said = said.unwrap_or(6);
    let power = u32::from(said & 0x7f);
    let base: u128 = if said & 0x80 == 0 { 10 } else { 2 };
    let per_second = base.checked_pow(power).unwrap_or(u128::MAX);
    let ticks = u128::from(ticks);
    let (seconds, rest) = (ticks / per_second, ticks % per_second);
    // Of ticks so short that this would overflow, all are within the same nanosecond.
    let nanos = rest.checked_mul(1_000_000_000).map_or(0, |n| n / per_second);
    Duration::new(u64::try_from(seconds).unwrap_or(u64::MAX), nanos as u32)
}

enum Out {
    Pcap(PcapWriter<BufWriter<File>>),
    Ng(PcapNgWriter<BufWriter<File>>),
}

/// Writes frames to a file, up to a number.
pub struct Writer {
    path: PathBuf,
    out: Out,
    left: u64,
    written: u64,
}

impl Writer {
    /// Makes a pcap file if its name ends so, else a pcapng file; nanoseconds in both.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path, most: u64) -> Result<Writer, Error> {
        let file = File::create(path).map_err(|e| Error::file(path, e))?;
        let file = BufWriter::new(file);
        let out = if path.extension().is_some_and(|e| e == "pcap") {
            let header = PcapHeader {
                ts_resolution: TsResolution::NanoSecond,
                datalink: DataLink::ETHERNET,
                snaplen: SNAP_BYTES,
                ..PcapHeader::default()
            };
            PcapWriter::with_header(file, header).map(Out::Pcap)
        } else {
            PcapNgWriter::new(file).and_then(|mut writer| {
                let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, SNAP_BYTES);
                // Without this option readers take times for microseconds.
                interface.options.push(InterfaceDescriptionOption::IfTsResol(9));
                writer.write_pcapng_block(interface)?;
                Ok(Out::Ng(writer))
            })
        };
        let out = out.map_err(|e| failed(path, e))?;
        Ok(Writer { path: path.to_owned(), out, left: most, written: 0 })
    }

    /// Adds a frame, unless there are enough: when it came (nanoseconds of the clock of the day),
    /// what was kept of it, and how long it was.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, at_ns: u64, bytes: &[u8], wire_bytes: u32) -> Result<(), Error> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        self.written += 1;
        let timestamp = Duration::from_nanos(at_ns);
        let done = match &mut self.out {
            Out::Pcap(writer) => {
                writer.write_packet(&PcapPacket::new(timestamp, wire_bytes, bytes))
            }
            Out::Ng(writer) => writer.write_pcapng_block(EnhancedPacketBlock {
                interface_id: 0,
                timestamp,
                original_len: wire_bytes,
                data: Cow::Borrowed(bytes),
                options: Vec::new(),
            }),
        };
        done.map(drop).map_err(|e| failed(&self.path, e))
    }

    /// Closes the file; how many frames it holds.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn finish(self) -> Result<u64, Error> {
        let mut file = match self.out {
            Out::Pcap(writer) => writer.into_writer(),
            Out::Ng(writer) => writer.into_inner(),
        };
        file.flush().map_err(|e| Error::file(&self.path, e))?;
        Ok(self.written)
    }
}

fn failed(path: &Path, error: PcapError) -> Error {
    match error {
        PcapError::IoError(source) => Error::file(path, source),
        other => Error::input(format!("{}: {other}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<(u64, Vec<u8>)> {
        let day = 1_700_000_000_000_000_000;
        [(0, 60), (1_001, 61), (2_500_000, 1514), (2_400_000, 64)]
            .map(|(ns, bytes)| (day + ns, (0..bytes).map(|n| n as u8).collect()))
            .to_vec()
    }

    fn written(name: &str, most: u64) -> (tempfile::TempDir, PathBuf, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        let mut writer = Writer::create(&path, most).unwrap();
        for (at, frame) in frames() {
            writer.add(at, &frame, frame.len() as u32).unwrap();
        }
        let count = writer.finish().unwrap();
        (folder, path, count)
    }

    #[test]
    fn what_is_written_is_replayed() {
        for name in ["a.pcap", "a.pcapng"] {
            let (_folder, path, count) = written(name, 100);
            assert_eq!(count, 4);
            let mut replay = Replay::open(&path, 2).unwrap();
            for round in 0..2 {
                for ((_, frame), offset) in frames().iter().zip([0, 1_001, 2_500_000, 2_500_000]) {
                    let at = replay.advance().unwrap().unwrap();
                    assert_eq!(at, offset + round * 2_500_000, "{name}");
                    assert_eq!(replay.frame(), frame);
                }
            }
            assert_eq!(replay.advance().unwrap(), None);
        }
    }

    #[test]
    fn no_more_than_asked_for() {
        let (_folder, path, count) = written("b.pcapng", 2);
        assert_eq!(count, 2);
        let mut replay = Replay::open(&path, 1).unwrap();
        assert!(replay.advance().unwrap().is_some() && replay.advance().unwrap().is_some());
        assert_eq!(replay.advance().unwrap(), None);
    }

    #[test]
    fn packed_captures_are_read_and_cut_ones_named() {
        let (folder, path, _) = written("c.pcap", 100);
        let whole = std::fs::read(&path).unwrap();
        let packed = folder.path().join("c.pcap.gz");
        let file = File::create(&packed).unwrap();
        let mut out = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        out.write_all(&whole).unwrap();
        out.finish().unwrap();
        let mut replay = Replay::open(&packed, 1).unwrap();
        let mut count = 0;
        while replay.advance().unwrap().is_some() {
            count += 1;
        }
        assert_eq!(count, 4);
        std::fs::write(&path, &whole[..whole.len() - 5]).unwrap();
        let mut replay = Replay::open(&path, 1).unwrap();
        let error = loop {
            match replay.advance() {
                Ok(Some(_)) => {}
                other => break other.unwrap_err().to_string(),
            }
        };
        assert!(error.contains("is cut: it ends in the middle of frame 4"), "{error}");
    }

    #[test]
    fn ticks_are_what_the_interface_says() {
        let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 0);
        assert_eq!(tick_time(&interface, 1_500_000), Duration::from_millis(1_500));
        for (code, ticks, ns) in
            [(9, 1_500, 1_500), (3, 2, 2_000_000), (0x80 | 1, 3, 1_500_000_000)]
        {
            interface.options = vec![InterfaceDescriptionOption::IfTsResol(code)];
            assert_eq!(tick_time(&interface, ticks), Duration::from_nanos(ns), "{code}");
        }
        for code in [127, 255] {
            interface.options = vec![InterfaceDescriptionOption::IfTsResol(code)];
            tick_time(&interface, u64::MAX);
        }
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for content in [&b""[..], b"hello", &PCAPNG_MAGIC, &[0x0a, 0x0d, 0x0d, 0x0a, 9, 9, 9, 9]] {
            std::fs::write(&path, content).unwrap();
            let error = Replay::open(&path, 1).err().unwrap().to_string();
            assert!(error.contains("expected a pcap") && !error.contains('\n'), "{error}");
        }
        let (_folder, whole, _) = written("c.pcap", 10);
        let bytes = std::fs::read(&whole).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let mut replay = Replay::open(&path, 1).unwrap();
        let mut last = replay.advance();
        for _ in 0..3 {
            last = replay.advance();
        }
        assert!(last.is_err());
    }
}
