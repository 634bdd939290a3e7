//! Formats of other tools whose files no reader of halfwink takes.

use super::head::is_hex;
use super::Family::{Blocks, Counts, Flows, Frames, Idle, Requests};
use super::{Row, READ};

const RECORDS: &str = "`halfwink record -- PROGRAM` records the program itself";
const EACH_IO: &str = "`biosnoop-bpfcc > ios.txt` records each I/O";
const EACH_GAP: &str = "record each idle time: `perf record -a -e power:cpu_idle sleep 20`, and \
                        `perf script > idle.txt`";
const AS_IOS: &str = "write `time_us,op,offset,bytes` of each I/O as CSV";
const AS_JOBS: &str = "write its jobs for fio (rw, bs, ioengine, iodepth)";

/// Rows are tried in this order; the first that knows a file names it.
pub(super) const ROWS: &[Row] = &[
    // Traces of these tools lack what a core is played with: registers, lengths or encodings. The
    // program itself is there where they were made, so that recording it is the step.
    Row {
        what: "a trace of valgrind's lackey",
        is: |head| {
            let access = |line: &str| {
                let (kind, rest) = line.split_once(' ')?;
                let (address, bytes) = rest.trim().split_once(',')?;
                let is_access = "ILSM".contains(kind) && is_hex(address);
                Some(is_access && bytes.parse::<u16>().is_ok())
            };
            let mut said = head.lines().filter(|line| !line.starts_with("=="));
            head.within("Lackey, an example Valgrind tool")
                || said.next().and_then(access).unwrap_or(false)
        },
        how: RECORDS,
        steps: &[],
    },
    Row {
        what: "a trace of Pin's pinatrace",
        is: |head| {
            let line = head.lines().find(|line| !line.starts_with('#'));
            let words: Vec<&str> = line.unwrap_or_default().split_whitespace().collect();
            let [at, "R" | "W", address, ..] = words[..] else { return false };
            at.strip_suffix(':').is_some_and(is_hex) && is_hex(address)
        },
        how: RECORDS,
        steps: &[],
    },
    Row {
        what: "a trace of gem5 (Exec)",
        is: |head| head.lines().take(50).any(|line| line.contains(": system.") && tick(line)),
        how: RECORDS,
        steps: &[],
    },
    Row {
        what: "a log of spike",
        is: |head| head.first().starts_with("core ") && head.has(": 0x"),
        how: RECORDS,
        steps: &[],
    },
    Row {
        what: "a log of QEMU",
        is: |head| {
            let line = head.first();
            let listed = line.split(", ").take(3).collect::<Vec<_>>();
            let execlog = line.contains(", \"")
                && matches!(listed[..], [cpu, at, code]
                    if cpu.parse::<u16>().is_ok() && is_hex(at) && is_hex(code));
            execlog || line.starts_with("Trace 0: 0x") || line == "IN:" || line.starts_with("IN: ")
        },
        how: RECORDS,
        steps: &[],
    },
    Row {
        what: "branches or instructions of perf script",
        is: |head| {
            let event = |line: &str| {
                let mut words = line.split_whitespace();
                let is = |word: &str| {
                    let name = word.trim_end_matches(':').split(':').next().unwrap_or_default();
                    word.ends_with(':') && matches!(name, "branches" | "instructions" | "intel_pt")
                };
                words.any(is)
            };
            head.lines().take(20).any(event)
        },
        how: RECORDS,
        steps: &[],
    },
    Row {
        what: "a command line of fio",
        is: |head| {
            head.lines().take(20).any(|line| {
                line.trim_start_matches("sudo ").starts_with("fio ") && line.contains(" --")
            })
        },
        how: "`grep 'fio .*--' FILE | sed 's/^.*fio *//;s/ *--name=\\([^ ]*\\)/\\n[\\1]/g;\
              s/ *--/\\n/g' > jobs.fio` writes the job file that it means",
        steps: &[],
    },
    // The table of results holds no I/O, but names the job that can be played.
    Row {
        what: "a result of fio",
        is: |head| {
            let is_terse = head.first().starts_with("3;fio-") || head.first().starts_with("2;fio");
            is_terse || (head.is(b"fio-") || head.within(": (groupid=")) && !head.has("[")
        },
        how: "`halfwink live block --advise --load JOB.fio` plays the job file behind it",
        steps: &[],
    },
    Row {
        what: "text of bpftrace's biosnoop.bt, without sizes",
        is: |head| head.within("TIME(ms)") && head.within("LAT(ms)") && !head.within("BYTES"),
        how: EACH_IO,
        steps: &[],
    },
    Row {
        what: "text of iosnoop without times",
        is: |head| head.within("LATms") && head.within("BLOCK") && !head.within("STARTs"),
        how: "`iosnoop -ts > ios.txt` writes them, too",
        steps: &[],
    },
    Row {
        what: "trace events of nvme",
        is: |head| head.within("nvme_setup_cmd") || head.within("nvme_complete_rq"),
        how: "`perf record -e 'block:block_rq_*'` records those of the block layer",
        steps: &[],
    },
    // Events of the kernel, but not as perf, ftrace or trace-cmd write them.
    Row {
        what: "text of LTTng",
        is: |head| head.has("] (+") && head.has("{ cpu_id = "),
        how: EACH_IO,
        steps: &[(Idle, EACH_GAP)],
    },
    Row {
        what: "events with the time of a clock that has no seconds (x86-tsc, counter)",
        is: |head| {
            let is_event = |line: &str| {
                let at = line.find("block_rq_").or_else(|| line.find("cpu_idle: state="));
                let before = at.map_or("", |at| &line[..at]).trim_end();
                let time = before.trim_end_matches("block:").trim_end_matches("power:").trim_end();
                let time = time.strip_suffix(':').unwrap_or_default();
                time.split_whitespace().last().is_some_and(|it| it.parse::<u64>().is_ok())
            };
            head.lines().take(50).any(is_event)
        },
        how: "`trace-cmd record -C local` (or `echo local` into `trace_clock`) has seconds",
        steps: &[],
    },
    Row {
        what: "a workload of vdbench",
        is: |head| {
            let has = |begin: &str| head.lines().any(|line| line.starts_with(begin));
            has("sd=") && has("wd=")
        },
        how: AS_JOBS,
        steps: &[],
    },
    Row {
        what: "a workload of filebench",
        is: |head| head.within("flowop ") && head.within("define "),
        how: AS_JOBS,
        steps: &[],
    },
    Row {
        what: "a result of sysbench",
        is: |head| head.is(b"sysbench "),
        how: EACH_IO,
        steps: &[],
    },
    Row {
        what: "a result of DiskSpd",
        is: |head| head.has("Command Line: ") && head.within("timespan:"),
        how: AS_JOBS,
        steps: &[],
    },
    Row {
        what: "text of ioping",
        is: |head| head.has(" request=1 time=") || head.within(" ioping statistics "),
        how: EACH_IO,
        steps: &[],
    },
    Row {
        what: "what dd says",
        is: |head| head.within(" records in\n") && head.within(" records out"),
        how: EACH_IO,
        steps: &[],
    },
    Row {
        what: "text of biotop or iotop, with sums alone",
        is: |head| head.within(" D MAJ MIN DISK ") || head.within("Total DISK READ"),
        how: EACH_IO,
        steps: &[],
    },
    Row {
        what: "slow calls of a file system (ext4slower and its kin), without fast ones and blocks",
        is: |head| head.within(" OFF_KB ") && head.within("LAT(ms)"),
        how: EACH_IO,
        steps: &[],
    },
    Row {
        what: "file operations of Process Monitor",
        is: |head| head.has("\"Process Name\"") && head.has("\"Operation\""),
        how: AS_IOS,
        steps: &[],
    },
    Row {
        what: "events of xperf",
        is: |head| head.within("DiskRead,  TimeStamp") || head.within("IrpPtr,"),
        how: AS_IOS,
        steps: &[],
    },
    Row {
        what: "a cache trace, of objects",
        is: |head| head.has("obj_id") && head.has("obj_size"),
        how: "`halfwink hybrid --load log:FILE` plays its requests",
        steps: &[(Requests, READ), (Counts, READ)],
    },
    Row {
        what: "text of cpupower idle-info, of one CPU",
        is: |head| head.is(b"CPUidle driver:"),
        how: "`grep . /sys/devices/system/cpu/cpu*/cpuidle/state*/* > idle.txt` has the counters \
              of all",
        steps: &[],
    },
    Row {
        what: "a report of idlestat, with sums alone",
        is: |head| head.within("| C-state "),
        how: "name the trace that `idlestat --trace -f FILE` wrote",
        steps: &[],
    },
    Row {
        what: "text of top, with means alone",
        is: |head| head.is(b"top - ") && head.within("load average"),
        how: EACH_GAP,
        steps: &[],
    },
    Row {
        what: "counters of /proc/stat, without idle states",
        is: |head| head.is(b"cpu  ") && head.within("\nbtime "),
        how: EACH_GAP,
        steps: &[],
    },
    Row {
        what: "a trace of gem5 (protobuf)",
        is: |head| head.is(b"gem5"),
        how: RECORDS,
        steps: &[],
    },
    Row {
        what: "text of perf trace",
        is: |head| {
            (head.within("block:block_rq_") && head.within("dev:"))
                || head.within("power:cpu_idle(state")
        },
        how: "`perf record -e 'block:block_rq_*'` and `perf script > ios.txt` write what is read",
        steps: &[(Idle, EACH_GAP)],
    },
    Row {
        what: "text of btt",
        is: |head| head.within("==================== All Devices ===================="),
        how: "`blkparse -i sda > ios.txt` writes what is read",
        steps: &[],
    },
    Row {
        what: "text of iostat, with means alone",
        is: |head| head.within("Device") && head.within("r/s") && head.within("w/s"),
        how: EACH_IO,
        steps: &[(Idle, EACH_GAP)],
    },
    // Four numbers between commas may be a table of another family: only readers of blocks and of
    // instructions, which take no such table, are told.
    Row {
        what: "averages of a log of fio",
        is: |head| head.first().contains(',') && head.lines().take(3).all(is_average),
        how: "`write_lat_log=NAME` without `log_avg_msec` has each I/O",
        steps: &[(Requests, READ), (Counts, READ), (Flows, READ), (Idle, READ), (Frames, READ)],
    },
    Row {
        what: "text of strace",
        is: |head| {
            let call = |line: &&str| {
                let calls = ["(", ") = "].iter().all(|word| line.contains(word));
                let begin = line.split('(').next().unwrap_or_default();
                let name = begin.rsplit(' ').next().unwrap_or_default();
                calls && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            };
            head.lines().take(5).count() > 0 && head.lines().take(5).all(|line| call(&line))
        },
        how: RECORDS,
        steps: &[(Blocks, EACH_IO), (Idle, EACH_GAP)],
    },
    // Means over an interval say nothing of how long each idle time was, which policies hang on.
    Row {
        what: "text of vmstat, with means alone",
        is: |head| head.is(b"procs ---"),
        how: EACH_GAP,
        steps: &[(Blocks, EACH_IO)],
    },
    Row {
        what: "text of sysstat (sar, mpstat), with means alone",
        is: |head| {
            head.is(b"Linux ") && head.has(" CPU)")
                || head.is_object() && head.within("\"sysstat\"")
                || head.lines().take(4).any(|line| line.contains("%usr") && line.contains("%idle"))
        },
        how: EACH_GAP,
        steps: &[(Blocks, EACH_IO)],
    },
    Row {
        what: "text of cpupower monitor, with shares alone",
        is: |head| head.lines().take(3).any(|line| line.contains("|| Idle_Stats")),
        how: EACH_GAP,
        steps: &[],
    },
    Row {
        what: "counters of perf stat",
        is: |head| {
            let first = head.first();
            head.within("Performance counter stats for")
                || head.within("cstate_") && first.split(',').count() > 4
        },
        how: EACH_GAP,
        steps: &[],
    },
    Row {
        what: "text of perf sched timehist",
        is: |head| head.within("sch delay") && head.within("run time"),
        how: EACH_GAP,
        steps: &[],
    },
    Row {
        what: "a histogram",
        is: |head| {
            head.within("@usecs:")
                || head.within("[4K, 8K)")
                || (head.within("usecs") && head.within("distribution"))
                || (head.lines().any(|line| line.starts_with("@") && line.ends_with(':'))
                    && head.within(") ")
                    && head.within("|@"))
        },
        how: EACH_IO,
        steps: &[(Idle, EACH_GAP)],
    },
    Row {
        what: "what a load generator measured, without a line for each request",
        is: |head| {
            (head.is(b"Running ") && head.has(" test @ "))
                || head.is(b"This is ApacheBench")
                || (head.is_object() && head.within("\"RunType\"") && head.within("QPS\""))
        },
        how: "`--load log:` plays a log of the server that it asked",
        steps: &[],
    },
    Row {
        what: "a result of ghz",
        is: |head| head.is_object() && head.within("\"rps\"") && head.within("\"details\""),
        how: "`jq -c '.details[]' FILE > lines.json` writes a line for each request",
        steps: &[],
    },
    // Spans begin requests: their begins are the arrivals, and children arrive at other servers.
    Row {
        what: "spans of Jaeger",
        is: |head| head.is_object() && head.within("\"traceID\"") && head.within("\"spans\""),
        how: "`jq -c '.data[].spans[]|{time:(.startTime/1e6)}' FILE > lines.json` writes a line \
              for each",
        steps: &[],
    },
    Row {
        what: "spans of OpenTelemetry",
        is: |head| head.is_object() && head.within("\"resourceSpans\""),
        how: "`jq -c '.resourceSpans[].scopeSpans[].spans[]|{time:(.startTimeUnixNano|tonumber\
              /1e9)}' FILE > lines.json` writes a line for each",
        steps: &[],
    },
    // Which statements it holds hangs on `long_query_time`, which the file does not say.
    Row {
        what: "a slow log of MySQL, which has all queries only with long_query_time=0",
        is: |head| head.within("\n# Query_time: ") || head.is(b"# Query_time: "),
        how: "`awk 'BEGIN{print \"time\"}/^# Time: /{print $3}' FILE > queries.csv` writes their \
              times",
        steps: &[],
    },
    // Fields have any order, and the header stands behind lines of annotations.
    Row {
        what: "a table of InfluxDB, of samples by time",
        is: |head| head.is(b"#group,") || head.is(b"#datatype,"),
        how:
            "`awk -F, '/^#/{next}!t{for(i=1;i<=NF;i++){if($i==\"_time\")t=i;if($i==\"_value\")v=i}}\
              t{print $t\",\"$v}' FILE > counts.csv` writes a table for `--load counts:`",
        steps: &[],
    },
    Row {
        what: "a capture of snoop",
        is: |head| head.is(b"snoop\0\0\0"),
        how: "`editcap -F pcap FILE WHOLE` writes a capture that is read",
        steps: &[],
    },
    // `period,count` and not `time,value`: CloudWatch sums a period, and values would be rates.
    Row {
        what: "a metric of CloudWatch",
        is: |head| head.is_object() && head.within("\"Datapoints\""),
        how:
            "`jq -r '\"period,count\",(.Datapoints|sort_by(.Timestamp)[]|[.Timestamp,.Sum]|@csv)' \
              FILE > counts.csv` writes a table",
        steps: &[],
    },
    Row {
        what: "metrics of CloudWatch",
        is: |head| head.is_object() && head.within("\"MetricDataResults\""),
        how: "`jq -r '\"period,count\",(.MetricDataResults[0]|[.Timestamps,.Values]|transpose|\
              sort[]|@csv)' FILE > counts.csv` writes a table",
        steps: &[],
    },
];

/// Returns whether a line begins with a number and a colon.
fn tick(line: &str) -> bool {
    line.split_once(':').is_some_and(|(tick, _)| tick.parse::<u64>().is_ok())
}

/// Returns whether a line of fio's logs stands for several I/Os: it has no bytes.
fn is_average(line: &str) -> bool {
    let words: Option<Vec<u64>> = line.split(',').map(|word| word.trim().parse().ok()).collect();
    words.is_some_and(|words| (4..8).contains(&words.len()) && words[2] < 3 && words[3] == 0)
}
