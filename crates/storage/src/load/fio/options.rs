//! Options of fio, by what they mean to a load.

/// Names of all options (fio 3.41, `options.c` and `engines/*.c`).
const NAMES: &str = include_str!("options.txt");

/// Options that say what is in flight.
const PLAYED: [&str; 24] = [
    "bs",
    "blocksize",
    "bsrange",
    "blocksize_range",
    "bssplit",
    "rw",
    "readwrite",
    "rwmixread",
    "rwmixwrite",
    "ioengine",
    "iodepth",
    "numjobs",
    "rate",
    "rate_iops",
    "rate_process",
    "thinktime",
    "stonewall",
    "wait_for_previous",
    "wait_for",
    "kb_base",
    "name",
    "read_iolog",
    "direct",
    "buffered",
];
/// Options that change what is issued and that nothing here plays, unless they are off.
const MATTERS: [(&str, &str); 12] = [
    ("verify", "reads everything back"),
    ("fsync", "flushes between writes"),
    ("fdatasync", "flushes between writes"),
    ("sync_file_range", "flushes between writes"),
    ("latency_target", "searches for a depth"),
    ("flow", "holds one job back for another"),
    ("thinktime_blocks", "thinks once in so many I/Os"),
    ("write_mode", "other commands than writes"),
    ("profile", "jobs that are not in the file"),
    ("zone_reset_threshold", "resets zones"),
    ("experimental_verify", "reads everything back"),
    ("thinktime_spin", "spins between I/Os"),
];
/// Values that leave such an option off.
const OFF: [&str; 6] = ["", "0", "none", "null", "write", "1us"];
/// Options that make no difference to it: where, how long, how much, what is written down.
const NEUTRAL: &str = "filename directory size filesize offset io_size runtime time_based timeout \
    ramp_time group_reporting new_group thread description randrepeat norandommap \
    random_generator randseed allrandrepeat refill_buffers write_bw_log write_lat_log \
    write_iops_log log_avg_msec uri invalidate create_on_open unlink percentile_list \
    clat_percentiles loops number_ios nrfiles filename_format overwrite fallocate end_fsync \
    exitall gtod_reduce disable_lat disable_clat disable_slat disable_bw lat_percentiles \
    status_interval random_distribution blockalign ba file_service_type openfiles \
    buffer_pattern scramble_buffers zero_buffers iodepth_batch_submit write_hist_log \
    continue_on_error ignore_error log_max_value log_offset softrandommap per_job_logs \
    unified_rw_reporting steadystate ss steadystate_duration ss_dur ss_ramp \
    steadystate_ramp_time allow_file_create file_append create_serialize create_fsync \
    pre_read bwavgtime iopsavgtime fill_device readonly dedupe_percentage \
    buffer_compress_percentage hugepage-size mem iomem do_verify";

/// What an option means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    Played,
    Neutral,
    /// Known, and neither played nor known to make no difference.
    Unplayed,
    /// Changes what is issued: why.
    Matters(&'static str),
    Unknown,
}

pub(super) fn means(name: &str, value: &str) -> Means {
    if PLAYED.contains(&name) {
        return Means::Played;
    }
    if let Some((_, why)) = MATTERS.iter().find(|(matters, _)| *matters == name) {
        let is_off = OFF.contains(&value) || (name == "thinktime_blocks" && value == "1");
        return if is_off { Means::Neutral } else { Means::Matters(why) };
    }
    if NEUTRAL.split_whitespace().any(|it| it == name) {
        return Means::Neutral;
    }
    if NAMES.split_whitespace().any(|it| it == name) {
        return Means::Unplayed;
    }
    Means::Unknown
}

/// The known option nearest to a name.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    let near = |known: &&str| strsim::damerau_levenshtein(name, known);
    // Two edits at most: among hundreds of names a farther one is found for any word.
    NAMES.split_whitespace().min_by_key(near).filter(|known| near(known) <= 2)
}

/// How an engine does I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// One in flight, whatever `iodepth` says.
    Waits,
    /// Up to `iodepth`.
    Queues,
    /// Up to `iodepth` of direct I/O; one in flight of buffered I/O, which the kernel does while
    /// the caller waits (io_submit(2)).
    QueuesDirect,
    /// No I/O of a block device of this machine.
    NoBlocks,
    Unknown,
}

/// The first is what fio takes.
const WAIT: [&str; 11] = [
    "psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "splice", "libzbc", "mtd", "libpmem",
    "dev-dax",
];
const QUEUE: [&str; 9] = [
    "io_uring",
    "io_uring_cmd",
    "posixaio",
    "solarisaio",
    "windowsaio",
    "sg",
    "bsg",
    "libblkio",
    "xnvme",
];
const NO_BLOCKS: [&str; 38] = [
    "cpuio",
    "net",
    "netsplice",
    "null",
    "cpp_null",
    "exec",
    "filecreate",
    "filestat",
    "filedelete",
    "dircreate",
    "dirstat",
    "dirdelete",
    "ftruncate",
    "falloc",
    "e4defrag",
    "page_fault",
    "rdma",
    "http",
    "rados",
    "rbd",
    "nfs",
    "gfapi",
    "gfapi_async",
    "libhdfs",
    "libiscsi",
    "nbd",
    "dfs",
    "ime_psync",
    "ime_psyncv",
    "ime_aio",
    "libcufile",
    "libhipfile",
    "guasi",
    "pmemblk",
    "cuda",
    "libzfs",
    "binject",
    "fileoperations",
];

/// Engines of SPDK, which fio loads: `external:build/fio/spdk_nvme`, or `spdk` by LD_PRELOAD.
const SPDK: [&str; 3] = ["spdk", "spdk_nvme", "spdk_bdev"];

impl Engine {
    pub(super) fn of(name: &str) -> Engine {
        let path = name.strip_prefix("external:").unwrap_or(name);
        if SPDK.contains(&path.rsplit('/').next().unwrap_or_default()) {
            return Engine::Queues;
        }
        if name == "libaio" {
            Engine::QueuesDirect
        } else if WAIT.contains(&name) {
            Engine::Waits
        } else if QUEUE.contains(&name) {
            Engine::Queues
        } else if NO_BLOCKS.contains(&name) {
            Engine::NoBlocks
        } else {
            Engine::Unknown
        }
    }
}
