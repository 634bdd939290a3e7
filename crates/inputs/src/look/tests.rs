use super::Family::{self, *};
use super::{look, rows, READ};

/// Beginning of a file, the asking family, the name of the format and the step that is printed.
const FILES: &[(&str, Family, &str, &str)] = &[
    ("==12== Lackey, an example Valgrind tool\n", Instructions, "lackey", "halfwink record -- "),
    ("I  04000c20,3\n L 1ffefffe38,8\n", Instructions, "lackey", "halfwink record -- "),
    ("0x7f2c1a8e0100: W 0x7ffd6a3c0e38\n", Instructions, "pinatrace", "halfwink record -- "),
    ("   1000: system.cpu: T0 : @main+4 : addi\n", Instructions, "gem5", "halfwink record -- "),
    ("core   0: 0x0000000000001000 (0x00000297) auipc\n", Instructions, "spike", "halfwink record"),
    ("0, 0xa12, 0xf8012400, \"movs r4, #0\"\n", Instructions, "QEMU", "halfwink record -- "),
    ("Trace 0: 0x7f0 [00000000/400a14/0x10/0xff0]\n", Instructions, "QEMU", "halfwink record -- "),
    ("ls  1234 [000] 5.1: 1 branches:u: 7f12 => 7f13\n", Instructions, "perf script", "record"),
    ("Output format:\n<--record#-> <--instr#->: <---tid\n", Instructions, "drmemtrace", "TRACE"),
    ("schema = 1\ncore = \"any\"\nservice_us = 5\n", Instructions, "a profile", "compare FILE"),
    ("workloads = [\"nginx\"]\ntechniques = [\"tap\"]\n", Services, "a study", "run FILE"),
    ("::1 - - [1/Mar/2025:1:2:3 +0] \"GET / HTTP/1.1\" 200 5\n", Services, "a log", "log:FILE"),
    ("PERFILE2", Idle, "a recording of perf", "perf script -i FILE"),
    ("10:00:00.1 IP 10.0.0.1.443 > 10.0.0.2.5: Flags [.], length 9\n", Frames, "tcpdump", ".pcap"),
    ("Date first seen  Duration Proto\n", Flows, "nfdump", "-o csv"),
    ("fio-3.33\nStarting 1 process\n", Blocks, "a result of fio", "JOB.fio"),
    ("3;fio-3.33;j;0;0;1048576\n", Blocks, "a result of fio", "JOB.fio"),
    ("12 1740996000.0 pread64(3, \"\"..., 4096, 0) = 4096 <0.1>\n", Blocks, "strace", "biosnoop"),
    ("procs -----------memory---------- ---swap--\n", Blocks, "vmstat", "biosnoop-bpfcc"),
    ("procs -----------memory---------- ---swap--\n", Idle, "vmstat", "power:cpu_idle"),
    ("Linux 6.1.0 (h) \t03/03/25 \t_x86_64_\t(4 CPU)\n", Idle, "mpstat", "power:cpu_idle"),
    ("Linux 6.1.0 (h) \t03/03/25 \t_x86_64_\t(4 CPU)\n", Blocks, "sar", "biosnoop-bpfcc"),
    ("              | Mperf              || Idle_Stats\n", Idle, "cpupower", "power:cpu_idle"),
    ("\n Performance counter stats for 'system wide':\n", Idle, "perf stat", "power:cpu_idle"),
    ("<html>\n<title>PowerTOP report</title>\n", Idle, "powertop", "powertop --csv="),
    ("    time    cpu  task name  wait time  sch delay   run time\n", Idle, "timehist", "cpu_idle"),
    ("@idle_us:\n[0]         3 |@@@       |\n[2, 4)   120 |@@@@|\n", Idle, "histogram", "cpu_idle"),
    (
        "2025/03/03 10:00:00 [error] 31#31: *5 open() \"/a\", client: 1\n",
        Requests,
        "error log",
        "log:",
    ),
    ("Running 30s test @ http://127.0.0.1:80/\n", Requests, "a load generator", "log:"),
    ("{\"RunType\": \"HTTP\", \"RequestedQPS\": \"8\"}\n", Requests, "a load generator", "log:"),
    ("nvme_setup_cmd: nvme0\n", Blocks, "trace events of nvme", "block:block_rq_*"),
    ("0 block:block_rq_issue(dev: 1, sector: 2)\n", Blocks, "perf trace", "perf script"),
    ("==================== All Devices ====================\n", Blocks, "btt", "blkparse -i sda"),
];

#[test]
fn files_of_other_tools_are_named_with_a_step() {
    for (text, family, what, how) in FILES {
        let found = look(text.as_bytes(), *family).unwrap_or_else(|| panic!("unknown: {text}"));
        assert!(found.what.contains(what) && found.how.contains(how), "{text}: {found}");
        assert!(!found.to_string().contains('\n'));
    }
}

#[test]
fn readers_are_not_told_of_what_they_read() {
    let rows = rows::ROWS.iter().chain(super::other_tools::ROWS);
    let read = rows.flat_map(|row| row.steps).filter(|(_, how)| *how == READ);
    assert!(read.count() > 8);
    assert_eq!(look(b"[global]\nioengine=libaio\n", Blocks), None);
    assert!(look(b"[global]\nioengine=libaio\n", Idle).is_some());
    assert_eq!(look(b"Nodes 16\nConnections 2\n", Flows), None);
}

/// A row that knows too much refuses files that are read.
#[test]
fn common_beginnings_are_of_no_other_format() {
    for text in [
        "",
        "time,bytes\n0.5,1000\n",
        "0 1 1000 0\n2 3 1000 5\n",
        "192.0.2.7 - - [03/Mar/2025:10:00:00 +0000] \"GET /a(b) HTTP/1.1\" 200 5\n",
        "{\"ts\":1740996000.1,\"status\":200,\"size\":5}\n",
        "cpu,begin_us,end_us\n0,1,2\n",
        "1998-04-30 21:30:00,2\n",
        "\0\0\x40\0\0\0\0\0\0\0",
    ] {
        assert_eq!(look(text.as_bytes(), Requests), None, "{text}");
    }
}
