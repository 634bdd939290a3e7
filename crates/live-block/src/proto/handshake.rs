//! Option haggling: what a client asks before it gets the device.

use super::{u16_at, u32_at, u64_at, Export, MOST_BYTES, PREFERRED_BYTES};

/// First word of the greeting.
pub const MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Before each option, and second word of the greeting.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before each answer to an option.
pub const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Bytes that an option may carry.
pub const MOST_OPTION_BYTES: u32 = 4096;
/// Bytes of an option that is too long, which are read all the same to answer it.
const MOST_SKIPPED: u32 = 64 << 10;
/// Options of one handshake.
const MOST_OPTIONS: u32 = 64;

const FIXED_NEWSTYLE: u16 = 1;
const NO_ZEROES: u16 = 2;

mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// The one context of metadata that is here: what is a hole.
pub const ALLOCATION: &[u8] = b"base:allocation";
/// Identifier of the context in requests and replies.
pub const ALLOCATION_ID: u32 = 1;

mod answer {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    const ERROR: u32 = 1 << 31;
    pub const UNSUPPORTED: u32 = ERROR + 1;
    pub const INVALID: u32 = ERROR + 3;
    pub const UNKNOWN: u32 = ERROR + 6;
    pub const TOO_BIG: u32 = ERROR + 9;
}

mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const BLOCK_SIZE: u16 = 3;
}

/// Features that both sides have agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Replies to reads come in chunks.
    pub structured: bool,
    /// The client may ask what is a hole.
    pub allocation: bool,
}

/// Next step of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// The device is the client's.
    Go(Session),
    /// The client has had enough.
    End,
}

/// The client does what no client may: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The client set flags that were not offered.
    #[error("client flags {0:#x}: expected fixed newstyle (1) and no zeroes (2) at most")]
    Flags(u32),
    /// An option does not begin as one.
    #[error("option magic {0:#x}: expected {OPTION_MAGIC:#x}")]
    Magic(u64),
    /// An option is longer than is worth reading.
    #[error("option {0} of {1} bytes: expected {MOST_OPTION_BYTES} at most")]
    TooLong(u32, u32),
    /// The client sends too many options.
    #[error("more than {MOST_OPTIONS} options")]
    TooMany,
    /// An export that is not here, asked for in the way that knows no answer.
    #[error("an export of another name, by NBD_OPT_EXPORT_NAME")]
    Export,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Flags,
    Option,
    /// The rest of an option that is too long.
    Skip {
        option: u32,
        left: u32,
    },
}

/// State of a client's handshake.
#[derive(Clone, Debug)]
pub struct Handshake {
    state: State,
    zeroes: bool,
    structured: bool,
    allocation: bool,
    options: u32,
}

/// The server's first words.
#[must_use]
pub fn greeting() -> [u8; 18] {
    let mut out = [0; 18];
    out[..8].copy_from_slice(&MAGIC.to_be_bytes());
    out[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    out[16..].copy_from_slice(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    out
}

impl Default for Handshake {
    fn default() -> Handshake {
        let state = State::Flags;
        Handshake { state, zeroes: true, structured: false, allocation: false, options: 0 }
    }
}

impl Handshake {
    /// Takes what is whole of `input`, appends answers to `out`; how many bytes it took.
    ///
    /// # Errors
    /// The client must go; answers that stand in `out` by then may still be sent.
    pub fn feed(
        &mut self,
        export: &Export,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Step), Refused> {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            let (used, step) = match self.state {
                State::Flags => self.flags(rest)?,
                State::Option => self.option(export, rest, out)?,
                State::Skip { option, left } => {
                    let used = rest.len().min(left as usize);
                    let left = left - used as u32;
                    self.state = State::Skip { option, left };
                    if left == 0 {
                        reply(out, option, answer::TOO_BIG, b"options have 4096 bytes at most");
                        self.state = State::Option;
                    }
                    (used, Step::More)
                }
            };
            taken += used;
            if step != Step::More || used == 0 {
                return Ok((taken, step));
            }
        }
    }

    fn flags(&mut self, input: &[u8]) -> Result<(usize, Step), Refused> {
        if input.len() < 4 {
            return Ok((0, Step::More));
        }
        let flags = u32_at(input, 0);
        // The protocol has the server end the connection at flags that it has not offered.
        if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
            return Err(Refused::Flags(flags));
        }
        self.zeroes = flags & u32::from(NO_ZEROES) == 0;
        self.state = State::Option;
        Ok((4, Step::More))
    }

    fn option(
        &mut self,
        export: &Export,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Step), Refused> {
        if input.len() < 16 {
            return Ok((0, Step::More));
        }
        let magic = u64_at(input, 0);
        if magic != OPTION_MAGIC {
            return Err(Refused::Magic(magic));
        }
        let (option, length) = (u32_at(input, 8), u32_at(input, 12));
        // Up to here an option is read away and refused, so that the client can go on with others.
        if length > MOST_SKIPPED {
            return Err(Refused::TooLong(option, length));
        }
        if length > MOST_OPTION_BYTES {
            self.count()?;
            self.state = State::Skip { option, left: length };
            return Ok((16, Step::More));
        }
        let whole = 16 + length as usize;
        if input.len() < whole {
            return Ok((0, Step::More));
        }
        // Behind the checks for the whole: a part comes here again, and is one option still.
        self.count()?;
        let step = self.answer(export, option, &input[16..whole], out)?;
        Ok((whole, step))
    }

    fn count(&mut self) -> Result<(), Refused> {
        self.options += 1;
        if self.options > MOST_OPTIONS {
            return Err(Refused::TooMany);
        }
        Ok(())
    }

    fn session(&self) -> Session {
        Session { structured: self.structured, allocation: self.allocation }
    }

    fn answer(
        &mut self,
        export: &Export,
        option: u32,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Step, Refused> {
        match option {
            option::EXPORT_NAME => {
                if !is_named(export, data) {
                    // This option has no reply for errors: the protocol has the connection end.
                    return Err(Refused::Export);
                }
                out.extend(export.size.to_be_bytes());
                out.extend(export.flags(self.structured).to_be_bytes());
                if self.zeroes {
                    out.extend([0; 124]);
                }
                return Ok(Step::Go(self.session()));
            }
            option::ABORT => {
                reply(out, option, answer::ACK, b"");
                return Ok(Step::End);
            }
            option::LIST if data.is_empty() => {
                let name = export.name.as_bytes();
                let mut server = (name.len() as u32).to_be_bytes().to_vec();
                server.extend(name);
                reply(out, option, answer::SERVER, &server);
                reply(out, option, answer::ACK, b"");
            }
            option::STRUCTURED_REPLY if data.is_empty() => {
                self.structured = true;
                reply(out, option, answer::ACK, b"");
            }
            option::LIST | option::STRUCTURED_REPLY => {
                reply(out, option, answer::INVALID, b"expected no data");
            }
            option::INFO | option::GO => {
                if self.about(export, option, data, out) && option == option::GO {
                    return Ok(Step::Go(self.session()));
                }
            }
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => {
                self.contexts(export, option, data, out);
            }
            // TLS, extended headers, and what is to come.
            _ => reply(out, option, answer::UNSUPPORTED, b"not supported"),
        }
        Ok(Step::More)
    }

    /// Answers `NBD_OPT_INFO` and `NBD_OPT_GO`; whether the export is here.
    fn about(&self, export: &Export, option: u32, data: &[u8], out: &mut Vec<u8>) -> bool {
        let Some((name, wanted)) = wanted(data) else {
            reply(out, option, answer::INVALID, b"expected a name and a list of infos");
            return false;
        };
        if !is_named(export, name) {
            reply(out, option, answer::UNKNOWN, b"no export of that name");
            return false;
        }
        let mut about = info::EXPORT.to_be_bytes().to_vec();
        about.extend(export.size.to_be_bytes());
        about.extend(export.flags(self.structured).to_be_bytes());
        reply(out, option, answer::INFO, &about);
        let has = |kind: u16| wanted.chunks_exact(2).any(|info| u16_at(info, 0) == kind);
        if has(info::NAME) {
            let mut about = info::NAME.to_be_bytes().to_vec();
            about.extend(export.name.as_bytes());
            reply(out, option, answer::INFO, &about);
        }
        if has(info::BLOCK_SIZE) {
            let mut about = info::BLOCK_SIZE.to_be_bytes().to_vec();
            for size in [1, PREFERRED_BYTES, MOST_BYTES] {
                about.extend(size.to_be_bytes());
            }
            reply(out, option, answer::INFO, &about);
        }
        reply(out, option, answer::ACK, b"");
        true
    }

    /// Answers which contexts of metadata there are, and takes the client's choice of them.
    fn contexts(&mut self, export: &Export, option: u32, data: &[u8], out: &mut Vec<u8>) {
        let sets = option == option::SET_META_CONTEXT;
        // A choice that fails undoes the one before.
        self.allocation &= !sets;
        if !self.structured {
            return reply(out, option, answer::INVALID, b"expected structured replies first");
        }
        let Some((name, queries)) = queries(data) else {
            return reply(out, option, answer::INVALID, b"expected a name and a list of contexts");
        };
        if !is_named(export, name) {
            return reply(out, option, answer::UNKNOWN, b"no export of that name");
        }
        // A list without queries asks for all contexts, and `base:` for those of that namespace;
        // only a list has such wildcards.
        let lists_all = !sets && (queries.is_empty() || queries.contains(&&b"base:"[..]));
        if lists_all || queries.contains(&ALLOCATION) {
            self.allocation |= sets;
            // In a list, its number says nothing.
            let id = if sets { ALLOCATION_ID } else { 0 };
            reply(out, option, answer::META_CONTEXT, &[&id.to_be_bytes(), ALLOCATION].concat());
        }
        reply(out, option, answer::ACK, b"");
    }
}

/// The name, and the contexts that are asked for.
fn queries(data: &[u8]) -> Option<(&[u8], Vec<&[u8]>)> {
    let (name, mut rest) = text(data)?;
    let count = u32_at(rest.get(..4)?, 0);
    rest = &rest[4..];
    // No memory is set aside for `count`, which is only what the client says.
    let mut queries = Vec::new();
    for _ in 0..count {
        let (query, after) = text(rest)?;
        queries.push(query);
        rest = after;
    }
    rest.is_empty().then_some((name, queries))
}

/// A length and so many bytes, and what comes after.
fn text(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32_at(data.get(..4)?, 0) as usize;
    data[4..].split_at_checked(length)
}

/// The name, and the infos that are asked for, two bytes each.
fn wanted(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, rest) = text(data)?;
    let count = usize::from(u16_at(rest.get(..2)?, 0));
    let wanted = &rest[2..];
    (wanted.len() == 2 * count).then_some((name, wanted))
}

fn is_named(export: &Export, name: &[u8]) -> bool {
    name.is_empty() || name == export.name.as_bytes()
}

fn reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend(REPLY_MAGIC.to_be_bytes());
    for number in [option, kind, data.len() as u32] {
        out.extend(number.to_be_bytes());
    }
    out.extend(data);
}
