//! What is said to the kernel's ublk driver and what it says, as the kernel lays it out.
//!
//! Source of every number: Linux, include/uapi/linux/ublk_cmd.h. Written here because no library
//! fits: `libublk` owns the threads and their executor, and commits where it has fetched, so that
//! no policy could have another thread complete.

/// Device through which disks are created.
pub const CONTROL: &str = "/dev/ublk-control";

const READS: u32 = 2;
const READS_AND_WRITES: u32 = 3;

/// `_IOR('u', number, size)` and `_IOWR`.
const fn command(direction: u32, number: u32, size: u32) -> u32 {
    direction << 30 | size << 16 | (b'u' as u32) << 8 | number
}

const CONTROL_BYTES: u32 = size_of::<ControlCommand>() as u32;
const IO_BYTES: u32 = 16;

pub(super) const GET_QUEUE_AFFINITY: u32 = command(READS, 0x01, CONTROL_BYTES);
pub(super) const GET_DEV_INFO: u32 = command(READS, 0x02, CONTROL_BYTES);
pub(super) const ADD_DEV: u32 = command(READS_AND_WRITES, 0x04, CONTROL_BYTES);
pub(super) const DEL_DEV: u32 = command(READS_AND_WRITES, 0x05, CONTROL_BYTES);
pub(super) const START_DEV: u32 = command(READS_AND_WRITES, 0x06, CONTROL_BYTES);
pub(super) const STOP_DEV: u32 = command(READS_AND_WRITES, 0x07, CONTROL_BYTES);
pub(super) const SET_PARAMS: u32 = command(READS_AND_WRITES, 0x08, CONTROL_BYTES);
pub(super) const GET_FEATURES: u32 = command(READS, 0x13, CONTROL_BYTES);
pub(super) const DEL_DEV_ASYNC: u32 = command(READS, 0x14, CONTROL_BYTES);
pub(super) const FETCH_REQ: u32 = command(READS_AND_WRITES, 0x20, IO_BYTES);
pub(super) const COMMIT_AND_FETCH_REQ: u32 = command(READS_AND_WRITES, 0x21, IO_BYTES);

/// Features `UBLK_F_CMD_IOCTL_ENCODE` and `UBLK_F_USER_COPY`.
pub(super) const F_IOCTL_ENCODE: u64 = 1 << 6;
pub(super) const F_USER_COPY: u64 = 1 << 7;

/// `UBLK_S_DEV_DEAD`: there is no disk.
pub(super) const DEAD: u16 = 0;

/// Attributes of a disk, `UBLK_ATTR_*`.
const READ_ONLY: u32 = 1 << 0;
const VOLATILE_CACHE: u32 = 1 << 2;
const FUA: u32 = 1 << 3;
/// Parameter types `UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD`.
const BASIC_AND_DISCARD: u32 = 1 << 0 | 1 << 1;

/// `UBLK_IO_OP_*` and the flags of a request.
const OP_READ: u32 = 0;
const OP_WRITE: u32 = 1;
const OP_FLUSH: u32 = 2;
const OP_DISCARD: u32 = 3;
const OP_WRITE_ZEROES: u32 = 5;
const OP_MASK: u32 = 0xff;
const IO_FUA: u32 = 1 << 13;
const IO_NOUNMAP: u32 = 1 << 15;

/// Values of `UBLKSRV_IO_BUF_OFFSET`, `UBLK_TAG_OFF` and `UBLK_QID_OFF`.
const BYTES_AT: u64 = 0x8000_0000;
const TAG_SHIFT: u32 = 25;
const QUEUE_SHIFT: u32 = 41;
/// `UBLK_MAX_QUEUE_DEPTH`: descriptors of queues are so far apart.
const MOST_DEPTH: u64 = 4096;

pub(super) const SECTOR: u64 = 512;
/// Bytes that one read or write has at most.
pub(super) const MOST_BYTES: u32 = 512 << 10;
/// Bytes that one discard or write-zeroes has at most.
const MOST_ZEROES: u64 = 1 << 30;

/// Layout of `struct ublksrv_ctrl_cmd`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ControlCommand {
    pub(super) device: u32,
    /// Queue; all ones for none.
    pub(super) queue: u16,
    pub(super) length: u16,
    pub(super) address: u64,
    pub(super) data: u64,
    pub(super) path_length: u16,
    pub(super) pad: u16,
    pub(super) reserved: u32,
}

impl ControlCommand {
    pub(super) fn bytes(&self) -> [u8; 80] {
        let mut bytes = [0; 80];
        bytes[..4].copy_from_slice(&self.device.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.queue.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.address.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.data.to_le_bytes());
        bytes
    }
}

/// Layout of `struct ublksrv_ctrl_dev_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Info {
    pub(super) queues: u16,
    pub(super) depth: u16,
    pub(super) state: u16,
    pub(super) pad0: u16,
    pub(super) most_bytes: u32,
    pub(super) device: u32,
    pub(super) server_pid: i32,
    pub(super) pad1: u32,
    pub(super) flags: u64,
    pub(super) server_flags: u64,
    pub(super) owner: [u32; 2],
    pub(super) reserved: [u64; 2],
}

/// `struct ublk_params`, as far as it is used.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Params {
    length: u32,
    types: u32,
    attributes: u32,
    /// Powers of two: logical and physical block, best and least I/O.
    shifts: [u8; 4],
    most_sectors: u32,
    chunk_sectors: u32,
    sectors: u64,
    boundary_mask: u64,
    discard_alignment: u32,
    discard_granularity: u32,
    most_discard_sectors: u32,
    most_zero_sectors: u32,
    discard_segments: u16,
    reserved: u16,
    pad: u32,
}

impl Params {
    /// Returns the parameters of a device of `size` bytes, in whole sectors.
    pub(super) fn of(size: u64, read_only: bool) -> Params {
        let zeroes = (MOST_ZEROES / SECTOR) as u32;
        let attributes = VOLATILE_CACHE | FUA | if read_only { READ_ONLY } else { 0 };
        Params {
            length: size_of::<Params>() as u32,
            types: BASIC_AND_DISCARD,
            attributes,
            shifts: [9, 12, 12, 12],
            most_sectors: MOST_BYTES / SECTOR as u32,
            sectors: size / SECTOR,
            discard_granularity: 4096,
            most_discard_sectors: zeroes,
            most_zero_sectors: zeroes,
            discard_segments: 1,
            ..Params::default()
        }
    }
}

/// `struct ublksrv_io_cmd`. `result`: bytes of a read or write, or an error below zero. There is no
/// buffer, since the server copies.
pub(super) fn io_command(queue: u16, tag: u16, result: i32) -> [u8; 16] {
    let mut bytes = [0; IO_BYTES as usize];
    bytes[..2].copy_from_slice(&queue.to_le_bytes());
    bytes[2..4].copy_from_slice(&tag.to_le_bytes());
    bytes[4..8].copy_from_slice(&result.to_le_bytes());
    bytes
}

/// `struct ublksrv_io_desc`: a request, as the kernel describes it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Description {
    pub(super) op_flags: u32,
    pub(super) sectors: u32,
    pub(super) start: u64,
    pub(super) address: u64,
}

/// Returns the offset at which the descriptions of a queue are mapped.
pub(super) fn descriptions_at(queue: u16) -> u64 {
    u64::from(queue) * MOST_DEPTH * size_of::<Description>() as u64
}

/// Returns the offset of a request's bytes in the server's character device.
pub(super) fn bytes_at(queue: u16, tag: u16) -> u64 {
    BYTES_AT + (u64::from(queue) << QUEUE_SHIFT | u64::from(tag) << TAG_SHIFT)
}

/// Operation that is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Read,
    /// `fua`: stable storage has to follow.
    Write {
        fua: bool,
    },
    Flush,
    Discard,
    /// `keep`: its room stays its own.
    Zeroes {
        keep: bool,
    },
}

/// A request that may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) what: What,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Description {
    /// The request, or the error (`errno`) that it gets.
    pub(super) fn request(&self, size: u64, read_only: bool) -> Result<Request, i32> {
        let what = match self.op_flags & OP_MASK {
            OP_READ => What::Read,
            OP_WRITE => What::Write { fua: self.op_flags & IO_FUA != 0 },
            OP_FLUSH => What::Flush,
            OP_DISCARD => What::Discard,
            OP_WRITE_ZEROES => What::Zeroes { keep: self.op_flags & IO_NOUNMAP != 0 },
            _ => return Err(libc::EOPNOTSUPP),
        };
        if what == What::Flush {
            return Ok(Request { what, offset: 0, length: 0 });
        }
        if read_only && what != What::Read {
            return Err(libc::EPERM);
        }
        let length = u64::from(self.sectors) * SECTOR;
        let offset = self.start.checked_mul(SECTOR).ok_or(libc::EIO)?;
        let is_within = offset.checked_add(length).is_some_and(|end| end <= size);
        let most = match what {
            What::Read | What::Write { .. } => u64::from(MOST_BYTES),
            _ => MOST_ZEROES,
        };
        if !is_within || length > most {
            return Err(libc::EIO);
        }
        Ok(Request { what, offset, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_layouts_are_the_kernels() {
        // As a C compiler says of linux-libc-dev 6.12's <linux/ublk_cmd.h>.
        assert_eq!(GET_QUEUE_AFFINITY, 0x8020_7501);
        assert_eq!(GET_DEV_INFO, 0x8020_7502);
        assert_eq!(ADD_DEV, 0xc020_7504);
        assert_eq!(DEL_DEV, 0xc020_7505);
        assert_eq!(START_DEV, 0xc020_7506);
        assert_eq!(STOP_DEV, 0xc020_7507);
        assert_eq!(SET_PARAMS, 0xc020_7508);
        assert_eq!(GET_FEATURES, 0x8020_7513);
        assert_eq!(DEL_DEV_ASYNC, 0x8020_7514);
        assert_eq!(FETCH_REQ, 0xc010_7520);
        assert_eq!(COMMIT_AND_FETCH_REQ, 0xc010_7521);
        assert_eq!((size_of::<Info>(), size_of::<Description>()), (64, 24));
        assert_eq!(std::mem::offset_of!(Info, flags), 24);
        assert_eq!(std::mem::offset_of!(Params, sectors), 24);
        assert_eq!(std::mem::offset_of!(Params, discard_alignment), 40);
        assert_eq!(std::mem::offset_of!(Params, discard_segments), 56);
        assert_eq!(descriptions_at(3), 3 * 98_304);
        assert_eq!(bytes_at(0, 0), 0x8000_0000);
        assert_eq!(bytes_at(2, 5), 0x8000_0000 + (2 << 41) + (5 << 25));
    }

    #[test]
    fn ublk_descriptions_decode_to_requests() {
        let size = 1 << 20;
        let ask = |op_flags, start, sectors| {
            Description { op_flags, sectors, start, address: 0 }.request(size, false)
        };
        let request = |what, offset, length| Ok(Request { what, offset, length });
        assert_eq!(ask(0, 8, 8), request(What::Read, 4096, 4096));
        assert_eq!(ask(1, 0, 1), request(What::Write { fua: false }, 0, 512));
        assert_eq!(ask(1 | 1 << 13, 0, 1), request(What::Write { fua: true }, 0, 512));
        assert_eq!(ask(2, 9, 9), request(What::Flush, 0, 0));
        assert_eq!(ask(3, 0, 2048), request(What::Discard, 0, size));
        assert_eq!(ask(5, 0, 8), request(What::Zeroes { keep: false }, 0, 4096));
        assert_eq!(ask(5 | 1 << 15, 0, 8), request(What::Zeroes { keep: true }, 0, 4096));
        // Beyond the end, too long, overflowing, unknown.
        assert_eq!(ask(0, 2047, 2), Err(libc::EIO));
        assert_eq!(ask(0, 0, 1025), Err(libc::EIO));
        assert_eq!(ask(0, u64::MAX / 2, 1), Err(libc::EIO));
        assert_eq!(ask(0, u64::MAX / SECTOR, 8), Err(libc::EIO));
        assert_eq!(ask(4, 0, 1), Err(libc::EOPNOTSUPP));
        assert_eq!(ask(0x0a, 0, 1), Err(libc::EOPNOTSUPP));
        let write = Description { op_flags: 1, sectors: 1, start: 0, address: 0 };
        assert_eq!(write.request(size, true), Err(libc::EPERM));
    }
}
