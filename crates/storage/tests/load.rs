//! Users' loads: what files say, what is wrong with them, and that they are played as they say.

use crate::common;

use common::{machine, play_with};
use halfwink_storage::load::{Closed, File, Host, Issues, Job, Load, Request, Trace};
use halfwink_storage::world::{Run, Setting};
use halfwink_storage::Machine;
use proptest::prelude::*;

fn read(text: &str) -> Result<Load, String> {
    let file = File { name: "a".to_owned(), bytes: text.as_bytes().to_vec() };
    Load::read(&[file], &Host::default()).map_err(|error| error.to_string())
}

fn jobs(text: &str) -> Vec<Vec<Job>> {
    match read(text).unwrap() {
        Load::Jobs(jobs) => jobs.phases,
        Load::Trace(_) => panic!("a trace"),
    }
}

fn job(lines: &str) -> Job {
    jobs(&format!("[a]\n{lines}"))[0][0].clone()
}

fn trace(text: &str) -> Trace {
    match read(text).unwrap() {
        Load::Trace(trace) => trace,
        Load::Jobs(_) => panic!("jobs"),
    }
}

#[test]
fn jobs_say_what_is_in_flight() {
    let text = "; mine\n[global]\nioengine=io_uring\niodepth=16\nbs=8k\n\n[reads]\nrw=randread\n\
                numjobs=4\n[logs]\nrw=write\niodepth=1\nrate_iops=500\nrate_process=poisson\n";
    let phases = jobs(text);
    assert_eq!(phases.len(), 1);
    let [reads, logs] = &phases[0][..] else { panic!("{phases:?}") };
    assert_eq!((reads.copies, reads.depth, reads.bytes, reads.reads), (4, 16, 8192.0, 1.0));
    assert_eq!((logs.copies, logs.depth, logs.rate, logs.reads), (1, 1, Some(500.0), 0.0));
    assert!(logs.poisson && !reads.poisson);
}

#[test]
fn engines_that_wait_have_one_in_flight() {
    assert_eq!(job("iodepth=32").depth, 1);
    assert_eq!(job("iodepth=32\nioengine=pvsync2").depth, 1);
    assert_eq!(job("iodepth=32\nioengine=libaio\ndirect=1").depth, 32);
    assert_eq!(job("iodepth=32\nioengine=libaio\nbuffered=0").depth, 32);
    // io_submit(2) of buffered I/O returns when it is done.
    assert_eq!(job("iodepth=32\nioengine=libaio").depth, 1);
    assert_eq!(job("iodepth=32\nioengine=io_uring").depth, 32);
}

#[test]
fn sizes_mixes_and_limits_are_means() {
    assert_eq!(job("bs=4ki").bytes, 4000.0);
    assert_eq!(job("bs=4ki\nkb_base=1000").bytes, 4096.0);
    assert_eq!(job("bsrange=4k-12k").bytes, 8192.0);
    assert_eq!(job("bssplit=4k/50:12k").bytes, 8192.0);
    let mixed = job("rw=randrw:8\nrwmixread=75\nbs=4k,12k\nrate_iops=300,50");
    assert_eq!((mixed.reads, mixed.bytes), (0.75, 6144.0));
    // 300 reads a second allow 400 of both, and 50 writes 200.
    assert_eq!(mixed.rate, Some(200.0));
    assert_eq!(job("rate=4m\nbs=4k").rate, Some(1024.0));
    assert_eq!((job("thinktime=50").think_us, job("thinktime=2ms").think_us), (50.0, 2000.0));
}

#[test]
fn phases_follow_each_other_and_the_busiest_is_played() {
    let text = "[a]\niodepth=4\nioengine=io_uring\n[b]\nstonewall\niodepth=64\nioengine=io_uring\n\
                [c]\nwait_for_previous=1\n";
    assert_eq!(jobs(text).iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
    let load = read(text).unwrap();
    assert_eq!(load.issues(2, 0.0).iter().map(Issues::depth).collect::<Vec<_>>(), [64]);
    let keys = read("[a]\nfilename=/dev/nothing\nzonemode=zbd\n").unwrap();
    assert_eq!(keys.account().left_out(), ["zonemode"]);
}

#[test]
fn jobs_share_cpus_by_turns() {
    let load = read("[a]\nnumjobs=3\nioengine=io_uring\niodepth=8\nrate_iops=100\n").unwrap();
    let of = |issues: &Issues| match issues {
        Issues::Closed(Closed { depth, rate, .. }) => (*depth, *rate),
        Issues::Open { .. } => panic!("open"),
    };
    let issues: Vec<_> = load.issues(2, 0.0).iter().map(of).collect();
    assert_eq!(issues, [(16, Some(200.0)), (8, Some(100.0))]);
}

#[test]
fn wrong_jobs_are_named_with_their_line() {
    let error = |text: &str| read(text).unwrap_err();
    assert_eq!(error(""), "a: found nothing, expected a load");
    assert_eq!(error("bs=4k"), "a:1: found `bs=4k`, expected a section `[name]` before");
    assert_eq!(error("[global]\nbs=4k"), "a: found no jobs, expected a section `[name]`");
    assert_eq!(error("[a\n"), "a:1: found `[a`, expected `[name]`");
    assert!(error("[a]\nbs=${SIZE}").starts_with("a:2: found `${SIZE}`, and $SIZE is not set"));
    assert!(error("[a]\nbs=0").contains("expected 1 byte or more"));
    assert!(error("[a]\niodepth=0").starts_with("a:2: iodepth: found `0`"));
    assert!(error("[a]\niodepth=1.5").starts_with("a:2: iodepth: found `1.5`"));
    assert!(error("[a]\nnumjobs=99999999999").starts_with("a:2: numjobs: found"));
    assert!(error("[a]\nrw=trim").contains("no job with block I/O: trim"));
    assert!(error("[a]\nrw=sideways").starts_with("a:2: rw: found `sideways`"));
    assert!(error("[a]\niodept=4").ends_with("unknown option `iodept`; did you mean `iodepth`?"));
    assert!(error("[a]\nioengine=libaoi").starts_with("a:2: ioengine: found `libaoi`"));
    assert!(error("[a]\nwait_for=b").starts_with("a:2: wait_for: found `b`"));
    assert!(error("[a]\nbssplit=4k/50:8k/20").starts_with("a:2: bssplit: shares sum to 70"));
    assert!(error("[a]\nread_iolog=b.bin").starts_with("a:2: read_iolog: this job replays"));
    assert_eq!(error("include b.fio\n[a]"), "a:1: include: expected the lines of `b.fio` here");
    assert_eq!(error("[a]\ninclude b.fio"), "a:2: include: expected the lines of `b.fio` here");
    assert!(error("[a]\nnumjobs=60000\n[b]\nnumjobs=60000").contains("expected at most 65536"));
}

/// Two CPUs, a merge at either end, a flush, a discard, another device, a driver's time.
const TEXT: &str = "\
  8,0    3        1     0.000000000   697  Q   R 1000 + 8 [fio]
  8,0    3        2     0.000001000   697  G   R 1000 + 8 [fio]
  8,0    3        3     0.000002000   697  D   R 1000 + 8 [fio]
  8,0    1        1     0.000010000   698  Q  WS 2000 + 8 [fio]
  8,0    1        2     0.000011000   698  Q  WS 2008 + 8 [fio]
  8,0    1        3     0.000012000   698  M  WS 2008 + 8 [fio]
  8,0    1        4     0.000013000   698  Q  WS 1992 + 8 [fio]
  8,0    1        5     0.000014000   698  F  WS 1992 + 8 [fio]
  8,0    1        6     0.000020000   698  Q FWS [fio]
  8,0    1        7     0.000021000   698  Q   D 9000 + 8 [fio]
  8,0    3        4     0.000082000   697  C   R 1000 + 8 [0]
  8,16   0        1     0.000090000   697  Q   R 1 + 8 [fio]
  8,0    3        5     0.000100000   697  Q   R 1000 + 16 [fio]
CPU0 (sda):
 Reads Queued:           2,       8KiB
";

#[test]
fn events_become_the_requests_that_reach_the_driver() {
    let trace = trace(TEXT);
    let ps = |us: u64| 1_000_000 * us;
    let reads = [Request { at_ps: 0, bytes: 4096 }, Request { at_ps: ps(100), bytes: 8192 }];
    // CPU 1 first; what was merged is one.
    assert_eq!(trace.cpus, [vec![Request { at_ps: ps(10), bytes: 12_288 }], reads.to_vec()]);
    assert_eq!(trace.span_ps, ps(150));
    assert_eq!(trace.latency_us, Some(80.0));
    assert!((trace.reads - 2.0 / 3.0).abs() < 1e-9);
    assert_eq!(
        trace.account.left_out(),
        ["flushes without bytes", "discards", "requests of other devices"]
    );
}

/// As `struct blk_io_trace` has it, in either order of bytes.
fn record(at_ns: u64, sector: u64, action: u32, cpu: u32, is_big: bool, more: &[u8]) -> Vec<u8> {
    let word = |value: u32| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let long = |value: u64| if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
    let payload = more.len() as u16;
    let mut bytes = [word(0x6561_7407), word(1)].concat();
    bytes.extend([long(at_ns), long(sector)].concat());
    bytes.extend([word(4096), word(action), word(7), word(8 << 20), word(cpu)].concat());
    bytes.extend([0, 0]);
    bytes.extend(if is_big { payload.to_be_bytes() } else { payload.to_le_bytes() });
    bytes.extend(more);
    bytes
}

const READ_QUEUED: u32 = 1 << 16 | 1;
const READ_ISSUED: u32 = 1 << 16 | 7;
const READ_DONE: u32 = 1 << 16 | 8;
const NOTIFIES: u32 = 1 << 26;

#[test]
fn binary_traces_of_all_cpus_are_one() {
    for is_big in [false, true] {
        let of = |at, sector, action, cpu| record(at, sector, action, cpu, is_big, &[]);
        let first = [
            record(0, 0, NOTIFIES, 0, is_big, b"fio\0"),
            of(5000, 8, READ_QUEUED, 0),
            of(5500, 8, READ_ISSUED, 0),
            of(9000, 8, READ_QUEUED, 0),
        ];
        let second = [of(7500, 8, READ_DONE, 2), of(8000, 800, READ_QUEUED, 2)];
        let file = |records: &[Vec<u8>]| File { name: "t".to_owned(), bytes: records.concat() };
        let Load::Trace(trace) =
            Load::read(&[file(&first), file(&second)], &Host::default()).unwrap()
        else {
            panic!("jobs");
        };
        assert_eq!(trace.cpus.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(trace.cpus[1][0], Request { at_ps: 3_000_000, bytes: 4096 });
        assert_eq!(trace.latency_us, Some(2.0));
        let mut cut = file(&first);
        cut.bytes.truncate(70);
        let error = Load::read(&[cut], &Host::default()).unwrap_err().to_string();
        assert_eq!(error, "t:52: found 18 bytes, expected a record of 48");
    }
}

#[test]
fn wrong_traces_are_named_with_their_place() {
    let error = |text: &str| read(text).unwrap_err();
    let good = "8,0 0 1 0.0 1 Q R 8 + 8 [a]\n";
    assert!(error(good).contains("expected requests at two different times"));
    for (line, says) in [
        ("8;0 0 1 0.1 1 Q R 8 + 8", "a:2: a device: found `8;0`"),
        ("8,0 x 1 0.1 1 Q R 8 + 8", "a:2: a CPU's number: found `x`"),
        ("8,0 0 1 0.1x 1 Q R 8 + 8", "a:2: seconds: found `0.1x`"),
        ("8,0 0 1 0.1 1", "a:2: an action: found nothing"),
        ("8,0 0 1 0.1 1 Q R -8 + 8", "a:2: a sector: found `-8`"),
        ("8,0 0 1 0.1 1 Q R 8 + 99999999", "a:2: sectors, less than 4 GiB: found"),
        ("8,0 0 1 99999999999.0 1 Q R 8 + 8", "a:2: seconds: found"),
    ] {
        let found = error(&format!("{good}{line}\n"));
        assert!(found.starts_with(says), "{line}: {found}");
    }
    let late = error(&format!("{good}8,0 0 1 9999999.0 1 Q R 8 + 8\n"));
    assert!(late.contains("expected at most 30 days"), "{late}");
    let magic = record(0, 0, READ_QUEUED, 0, false, &[]);
    let other = File { name: "t".to_owned(), bytes: [&magic[..], &[9; 48]].concat() };
    let error = Load::read(&[other], &Host::default()).unwrap_err().to_string();
    assert_eq!(error, "t:48: found 0x9090909, expected a record's 0x65617407");
}

fn play_load<'a>(machine: &'a Machine, name: &str, issues: &'a [Issues], ios: u64) -> Run {
    play_with(machine, name, |s: &mut Setting<'a>| {
        (s.load, s.issuers) = (Some(issues), issues.len() as u16);
        (s.warm_up, s.ios) = (ios, ios);
    })
    .unwrap()
}

/// The same load said in two ways is the same run.
#[test]
fn cpus_that_all_issue_alike_are_one_load_or_many() {
    let machine = machine("westmere-ex", &[]);
    let alike = Issues::Closed(Closed { depth: 32, bytes: 512, ..Closed::default() });
    let own = play_load(&machine, "issuer", &vec![alike; 13], 5_000);
    let other = play_with(&machine, "issuer", |s: &mut Setting| {
        (s.issuers, s.warm_up, s.ios) = (13, 5_000, 5_000);
    })
    .unwrap();
    assert_eq!((own.duration, own.latency.mean()), (other.duration, other.latency.mean()));
}

/// A trace is played at its own rate, lap after lap, and an I/O alone takes what one takes.
#[test]
fn traces_come_at_their_own_times() {
    let machine = machine("westmere-ex", &[("device.pcie_us", "10")]);
    let requests: Vec<_> =
        (0..100).map(|n| Request { at_ps: n * 100_000_000, bytes: 4096 }).collect();
    let open = Issues::Open { requests, span_ps: 10_000_000_000 };
    let run = play_load(&machine, "msi-x", &[open.clone(), open], 400);
    assert!((run.iops() / 20_000.0 - 1.0).abs() < 0.01, "{}", run.iops());
    let mean_us = run.latency.mean().unwrap().as_ns() * 1e-3;
    assert!(mean_us < 60.0, "{mean_us}");
    // Ten times as fast as it can be: it takes longer, and the wait counts.
    let requests: Vec<_> =
        (0..100).map(|n| Request { at_ps: n * 1_000_000, bytes: 4096 }).collect();
    let run =
        play_load(&machine, "msi-x", &[Issues::Open { requests, span_ps: 100_000_000 }], 4000);
    assert!(run.iops() < 200_000.0, "{}", run.iops());
    assert!(run.latency.mean().unwrap().as_ns() * 1e-3 > 10.0 * mean_us);
}

/// One in flight that thinks: a period is the think time and what an I/O takes.
#[test]
fn think_time_delays_next_io() {
    let machine = machine("westmere-ex", &[("block.jitter", "0")]);
    let lone = |think_ps| {
        let closed = Closed { depth: 1, bytes: 512, think_ps, ..Closed::default() };
        1e6 / play_load(&machine, "msi-x", &[Issues::Closed(closed)], 1000).iops()
    };
    let (without, with) = (lone(0), lone(500_000_000));
    assert!((with - without - 500.0).abs() < 1.0, "{without} {with}");
}

const JOB: &str = "[global]\nbs=4k,8k\nrw=randrw\nkb_base=1000\n[a]\nnumjobs=3\niodepth=64\n\
                   ioengine=libaio\nbssplit=4k/50:16k\nrate=9m\nrate_iops=7,9\nthinktime=2ms\n\
                   [b]\nstonewall\n";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever is damaged: it is told with its file, or what is read can be played.
    #[test]
    fn damaged_loads_are_told_or_played(
        kind in 0_usize..3,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        is_cut: bool,
        part in 0.0..1.0,
    ) {
        let of = |at, action| record(at, 8 * at, action, (at % 3) as u32, false, &[]);
        let records =
            [of(5, READ_QUEUED), of(6, READ_ISSUED), of(70, READ_DONE), of(90, READ_QUEUED)];
        let kinds = [TEXT.as_bytes().to_vec(), JOB.as_bytes().to_vec(), records.concat()];
        let mut bytes = kinds[kind].clone();
        for (place, byte) in edits {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        match Load::read(&[File { name: "a".to_owned(), bytes }], &Host::default()) {
            Err(error) => prop_assert_eq!(error.file, "a"),
            Ok(load) => {
                let issues = load.issues(4, part);
                prop_assert!((1..=4).contains(&issues.len()));
                for of_cpu in &issues {
                    prop_assert!((1..=4096).contains(&of_cpu.depth()));
                    if let Issues::Open { requests, span_ps } = of_cpu {
                        prop_assert!(requests.windows(2).all(|two| two[0].at_ps <= two[1].at_ps));
                        prop_assert!(requests.iter().all(|it| it.at_ps < *span_ps));
                    }
                }
            }
        }
    }
}

fn read_by(text: &str, host: &Host) -> Result<Load, String> {
    let file = File { name: "d/a".to_owned(), bytes: text.as_bytes().to_vec() };
    Load::read(&[file], host).map_err(|error| error.to_string())
}

#[test]
fn comments_and_variables_are_as_fio_has_them() {
    let text = "[a]\nioengine=io_uring\niodepth=8     ; eight at once\nnumjobs=$ncpus*2 # two\n\
                bs=${BLOCK}\nfilename=/dev/x#y\n";
    let variable = |name: &str| (name == "BLOCK").then(|| "8k".to_owned());
    let host = Host { cpus: 3, variable, ..Host::default() };
    let Load::Jobs(jobs) = read_by(text, &host).unwrap() else { panic!("a trace") };
    let job = &jobs.phases[0][0];
    assert_eq!((job.depth, job.copies, job.bytes), (8, 6, 8192.0));
    let said = read_by(text, &Host::default()).unwrap_err();
    assert!(said.contains("$BLOCK is not set; set it: BLOCK=VALUE halfwink"), "{said}");
}

#[test]
fn jobs_that_wait_for_another_follow_it() {
    let text = "[a]\n[b]\n[c]\nwait_for=a\n[d]\nwait_for=c\n[e]\nstonewall\n[f]\nwait_for=e\n";
    assert_eq!(jobs(text).iter().map(Vec::len).collect::<Vec<_>>(), [2, 1, 1, 1, 1]);
}

#[test]
fn jobs_without_block_io_are_refused_or_left_out_by_name() {
    let text = "[burn]\nioengine=cpuio\ncpuload=90\n[disk]\nioengine=io_uring\niodepth=4\n";
    let said = read_by(text, &Host::default()).unwrap_err();
    assert!(said.contains("matters, but is not played: cpuio (job burn"), "{said}");
    // The advice leads on.
    let word = said.split("--ignore ").nth(1).unwrap().split('`').next().unwrap();
    let host = Host { ignored: vec![word.to_owned()], ..Host::default() };
    let load = read_by(text, &host).unwrap();
    assert_eq!(load.issues(8, 0.0).len(), 1);
    let said = read_by("[burn]\nioengine=cpuio\n", &Host::default()).unwrap_err();
    assert!(said.contains("no job with block I/O: cpuio"), "{said}");
    let flush = "[a]\nioengine=io_uring\nrw=write\nfsync=1\nverify=crc32c\n";
    assert!(read_by(flush, &Host::default()).unwrap_err().contains("--ignore fsync,verify"));
    let trims = "[a]\nrw=randtrimwrite\n";
    assert_eq!(read_by(trims, &Host::default()).unwrap().account().neutral[0].word, "trim");
}

#[test]
fn io_logs_of_fio_are_played() {
    let text = "fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n195 /dev/x read 4096 4096\n\
                295 /dev/x write 8192 8192\n300 /dev/x sync\n395 /dev/x read 0 4096\n";
    let trace = trace(text);
    assert_eq!((trace.requests(), trace.span_ps), (3, 300_000_000));
    assert_eq!(trace.account.left_out(), ["flushes without bytes"]);
    let two = "fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x read 0 4096\n\
               /dev/x wait 100\n/dev/x write 0 12288\n/dev/x close\n";
    let job = &jobs(two)[0][0];
    assert_eq!((job.depth, job.bytes, job.reads, job.think_us), (1, 8192.0, 0.5, 50.0));
    let replays = read_by("[r]\nread_iolog=b.log\n", &Host::default()).unwrap_err();
    assert!(replays.ends_with("name that file: d/b.log"), "{replays}");
    assert!(read("fio version 1 iolog\n").unwrap_err().contains("expected `fio version 2"));
}

/// The same four I/Os in every text: 4 KiB reads at 1, 2 and 4 ms, an 8 KiB write at 3 ms, 100 us
/// each.
#[test]
fn texts_of_tracers_are_one_trace() {
    let biosnoop = "TIME(s)     COMM     PID  DISK  T SECTOR  BYTES  LAT(ms)\n\
        0.001100 a b c 10 sda R 8 4096 0.10\n0.002100 fio 10 sda R 16 4096 0.10\n\
        0.003100 fio 10 sda W 24 8192 0.10\n0.004100 fio 10 sda R 40 4096 0.10\n";
    let event = |at: &str, kind: &str, sector: u32, sectors: u32| {
        format!(
            " fio  1 [001]  10.00{at}: block:block_rq_issue: 8,0 {kind} 4096 () {sector} + \
             {sectors} [fio]\n fio  1 [001]  10.00{at}9: block:block_rq_complete: 8,0 {kind} () \
             {sector} + {sectors} [0]\n"
        )
    };
    let perf = event("1000", "R", 8, 8)
        + &event("2000", "R", 16, 8)
        + " fio 1 [001] 10.0025: sched:sched_switch: a ==> b\n"
        + &event("3000", "WS", 24, 16)
        + &event("4000", "R", 40, 8);
    let msr = "128166372000010000,web,0,Read,4096,4096,1000\n\
        128166372000020000,web,0,Read,8192,4096,1000\n\
        128166372000030000,web,0,Write,12288,8192,1000\n\
        128166372000040000,web,0,Read,20480,4096,1000\n";
    let alibaba = "1,R,4096,4096,1577808144361000\n1,R,8192,4096,1577808144362000\n\
        1,W,12288,8192,1577808144363000\n1,R,20480,4096,1577808144364000\n";
    let own = "0.001000000 Q R 8 + 8\n0.002000000 Q R 16 + 8\n0.003000000 Q WS 24 + 16\n\
        0.004000000 Q R 40 + 8\n";
    for text in [biosnoop, &perf, msr, alibaba, own] {
        let found = trace(text);
        assert_eq!(found.requests(), 4, "{text}");
        assert_eq!((found.span_ps, found.reads, found.bytes()), (4_000_000_000, 0.75, 5120.0));
    }
    for text in [biosnoop, msr] {
        let latency = trace(text).latency_us.unwrap();
        assert!((latency - 100.0).abs() < 1e-3, "{latency}");
    }
    assert_eq!(trace(alibaba).latency_us, None);
    let said = read("one\ntwo three\n").unwrap_err();
    assert!(said.contains("expected a job file"), "{said}");
}

#[test]
fn last_line_without_newline_is_left_out_if_a_number_ends_it() {
    let alibaba: String =
        (0..4).map(|n| format!("3,R,{},4096,15778080000{n}0000\n", 4096 * n)).collect();
    let iolog: String = (0..4).map(|n| format!("{}0 /dev/sda read 0 4096\n", n)).collect();
    for (text, span_ps) in
        [(alibaba, 20_000_000_000), (format!("fio version 3 iolog\n{iolog}"), 20_000_000)]
    {
        let whole = trace(&text);
        assert_eq!((whole.requests(), whole.account.neutral.len()), (4, 0), "{text}");
        for cut in 1..4 {
            let found = trace(&text[..text.len() - cut]);
            let last = found.cpus.iter().filter_map(|cpu| cpu.last()).map(|it| it.at_ps).max();
            assert_eq!(
                (found.requests(), found.bytes(), last),
                (3, 4096.0, Some(span_ps)),
                "{cut}"
            );
            let told = found.account.left_out().join(", ");
            assert_eq!(told, "last line (no newline ends it: its last number may be cut)");
        }
    }
    // The rows of a user's table are kept, and the doubt is told.
    let found = trace("time_us,op,offset,bytes\n0,R,0,4096\n10,R,0,40");
    assert_eq!(found.requests(), 2);
    let told = found.account.left_out().join(", ");
    assert_eq!(told, "check of the end (no newline ends it: its last number may be cut)");
}

#[test]
fn comments_between_lines_of_blkparse_are_left_out() {
    let line = |n: u64| format!("  8,0    1 {n:8}     0.{n:09}   700  Q   R {} + 8 [fio]\n", 8 * n);
    let text = format!("# of sda\n{}\n# half\n{}", line(1), line(5));
    assert_eq!(trace(&text).requests(), 2);
}

/// A write and a read of 4 KiB, 1 ms apart, each of 80 us; `between` stands before each event's
/// name, and `behind` behind its line.
fn perf_events(between: &str, behind: &str) -> String {
    let event = |at: &str, what: &str, kind: &str, sector: u32| {
        format!(
            "fio 1 [001] {at}:{between} block:block_rq_{what}: 8,0 {kind} 4096 () {sector} + 8 \
             [f]\n{behind}"
        )
    };
    let events = [
        event("100.000000", "issue", "W", 1000),
        event("100.000080", "complete", "W", 1000),
        event("100.001000", "issue", "R", 2000),
        event("100.001080", "complete", "R", 2000),
    ];
    events.concat()
}

#[test]
fn periods_calls_and_headers_between_events_are_left_out() {
    let calls = "\tffffffff9d4a1b2c blk_mq_start_request+0x11c ([kernel.kallsyms])\n\t    7f12 \
                 [unknown] (/usr/lib/libc.so.6)\n\n";
    let trace_cmd = format!("version = 7\nCPU 2 is empty\ncpus=4\n{}", perf_events("", ""));
    for text in [perf_events("          1", ""), perf_events("", calls), trace_cmd] {
        let trace = trace(&text);
        assert_eq!((trace.requests(), trace.reads), (2, 0.5), "{text}");
        assert_eq!(trace.latency_us, Some(80.0), "{text}");
    }
}

#[test]
fn lost_events_are_told_with_their_count() {
    let snoop = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n0.1 fio 1 sda R 8 4096 0.2\n\
                 0.2 fio 1 sda R 16 4096 0.2\n^C\nPossibly lost 12 samples\n";
    let own =
        "Attaching 2 probes...\n123456789012 R 8 4096\n123456799012 R 16 4096\nLost 12 events\n";
    let perf = "perf 1 [001] 100.2: PERF_RECORD_LOST lost 12\n";
    let texts = [
        snoop.to_owned(),
        own.to_owned(),
        perf_events("", "") + perf,
        perf_events("", "") + "CPU:1 [LOST 12 EVENTS]\n",
        perf_events("", "") + "CPU:1 [12 EVENTS DROPPED]\n",
    ];
    for text in texts {
        let trace = trace(&text);
        assert_eq!(trace.requests(), 2, "{text}");
        let told = trace.account.left_out().join(", ");
        assert!(told.contains("12 lost events"), "{text}: {told}");
    }
}

#[test]
fn tables_have_dates_decimal_commas_and_kibibytes() {
    let comma = "time_ms;op;offset;bytes;latency_ms\n0,5;R;0;4096;0,25\n2,5;W;4096;4096;0,25\n";
    let commas = trace(comma);
    assert_eq!((commas.cpus[0][1].at_ps, commas.latency_us), (2_000_000_000, Some(250.0)));
    for (first, second) in [
        ("2025-11-03T10:00:00.999Z", "2025-11-03T10:00:01.001Z"),
        ("2025-11-03 10:00:00.999", "2025-11-03 10:00:01.001"),
        ("2025-11-03T10:00:00.999+01:00", "2025-11-03T10:00:01.001+01:00"),
    ] {
        let rows = format!("timestamp,op,offset,size_kb\n{first},R,0,4\n{second},W,4096,4\n");
        let dates = trace(&rows);
        assert_eq!((dates.cpus[0][1].at_ps, dates.bytes()), (2_000_000_000, 4096.0), "{rows}");
    }
}

#[test]
fn times_in_another_unit_than_their_column_says_are_refused() {
    let rows = |unit: &str| {
        let rows: String = (0..20).map(|n| format!("{n},R,{},4096\n", 8192 * n)).collect();
        read(&format!("time_{unit},op,offset,bytes\n{rows}"))
    };
    assert!(rows("us").is_ok());
    let error = rows("ns").unwrap_err();
    assert!(error.contains("found 20 requests in 19 ns, expected"), "{error}");
}

#[test]
fn tables_of_calls_are_no_lines_of_blkparse() {
    let slow = "TIME     COMM   PID    T BYTES   OFF_KB   LAT(ms) FILENAME\n\
                06:49:17 bash   3616   R 512     0           7.75 cksum\n\
                06:49:17 cksum  3616   R 39936   512         1.34 [\n";
    let error = read(slow).unwrap_err();
    assert!(error.contains("this is slow calls of a file system"), "{error}");
}

#[test]
fn engines_of_spdk_queue() {
    for engine in ["spdk", "external:/opt/spdk/build/fio/spdk_nvme", "external:spdk_bdev"] {
        assert_eq!(job(&format!("ioengine={engine}\niodepth=16")).depth, 16);
    }
    let error = read("[a]\nioengine=external:./mine.so\n").unwrap_err();
    assert!(error.contains("ioengine: found `external:./mine.so`"), "{error}");
}

#[test]
fn whole_numbers_without_a_unit_are_no_dates() {
    // Each is a date of ISO 8601 without dashes, too.
    let rows: String =
        (20_201_201..20_201_231).map(|at| format!("{at},R,{},4096\n", at * 8)).collect();
    let error = read(&format!("time,op,offset,size\n{rows}")).unwrap_err();
    assert!(error.contains("time"), "{error}");
}

#[test]
fn steps_of_an_io_in_a_format_of_ones_own_are_one_request() {
    let steps = |at: u64, sector: u64| -> String {
        let line = |(n, action): (usize, &str)| {
            format!("0.{:09} {action} WS {sector} + 8 [fio]\n", at + n as u64)
        };
        let actions = ["Q", "G", "I", "D", "R", "D", "C"];
        actions.into_iter().enumerate().map(line).collect()
    };
    let summary = "CPU0 (sda):\n Reads Queued:           2,       8KiB\t Writes Queued: 0, 0KiB\n \
         Read Dispatches:        0,        0KiB\n IO unplugs:             1\n\n\
         Total (sda):\n Reads Queued:           2,       8KiB\n\n\
         Throughput (R/W): 0KiB/s / 12KiB/s\nEvents (sda): 34 entries\n";
    let found = trace(&(steps(1_000_000, 8) + &steps(2_000_000, 64) + summary));
    assert_eq!((found.requests(), found.reads, found.latency_us), (2, 0.0, Some(1e-3)));
}

#[test]
fn issues_of_other_devices_are_told() {
    let issue = |device: &str, at: u64| format!("{device} 0 1 0.{at:09} 1 D R {at} + 8 [fio]\n");
    let text = [("8,0", 1), ("8,0", 2000), ("8,16", 3000)].map(|(device, at)| issue(device, at));
    let found = trace(&text.concat());
    assert_eq!(
        (found.requests(), found.account.left_out().join(", ")),
        (2, "requests of other devices".to_owned())
    );
}

#[test]
fn request_before_a_long_pause_comes_as_rarely_as_in_its_trace() {
    // 20 minutes apart, of which only ten are played at once.
    let text = "time_s,op,offset,bytes\n0.0,R,0,4096\n1200.0,R,0,4096\n";
    let Load::Trace(found) = read(text).unwrap() else { panic!("jobs") };
    let issues = Load::Trace(found).issues(1, 0.0);
    let [Issues::Open { requests, span_ps }] = &issues[..] else { panic!("{issues:?}") };
    assert_eq!((requests.len(), *span_ps), (1, 1200 * 1_000_000_000_000));
}
