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
    ("Architecture:   x86_64\nCPU(s):   2\n", Instructions, "lscpu", "calibrate host"),
    ("{\n   \"lscpu\": [\n      {\"field\": \"CPU(s):\"}\n", Services, "lscpu", "calibrate host"),
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
    ("[10:11:12.5] (+0.1) host block_rq_issue: { cpu_id = 0 }\n", Blocks, "LTTng", "biosnoop"),
    ("[10:11:12.5] (+0.1) host power_cpu_idle: { cpu_id = 0 }\n", Idle, "LTTng", "power:cpu_idle"),
    ("fio-1 [001] d..1. 20123: block_rq_issue: 8,0 R 0 ()\n", Blocks, "no seconds", "-C local"),
    ("<idle>-0 [001] d..2. 20123: cpu_idle: state=1 cpu_id=1\n", Idle, "no seconds", "-C local"),
    ("0.0 swapper/0 power:cpu_idle(state: 1, cpu_id: 0)\n", Idle, "perf trace", "power:cpu_idle"),
    ("sd=sd1,lun=/dev/sdb\nwd=wd1,sd=sd1\n", Blocks, "vdbench", "for fio"),
    ("define fileset name=a\n  flowop openfile name=b\n", Blocks, "filebench", "for fio"),
    ("sysbench 1.0.20 (using system LuaJIT)\n", Blocks, "sysbench", "biosnoop"),
    ("Command Line: diskspd -b4K a\n\ttimespan:   1\n", Blocks, "DiskSpd", "for fio"),
    ("4 KiB <<< /dev/sda: request=1 time=186 us\n", Blocks, "ioping", "biosnoop"),
    ("10+0 records in\n10+0 records out\n", Blocks, "dd", "biosnoop"),
    ("PID COMM    D MAJ MIN DISK   I/O\n", Blocks, "biotop", "biosnoop"),
    ("TIME COMM PID T BYTES OFF_KB LAT(ms) FILENAME\n", Blocks, "ext4slower", "biosnoop"),
    ("\"Time of Day\",\"Process Name\",\"PID\",\"Operation\"\n", Blocks, "Process Monitor", "CSV"),
    ("BeginHeader\n  DiskRead,  TimeStamp,  PID, IrpPtr,\n", Blocks, "xperf", "CSV"),
    ("time,obj_id,obj_size,op\n0,1,2,get\n", Blocks, "cache trace", "--load log:"),
    ("{\"sysstat\": {\"hosts\": []}}\n", Blocks, "sysstat", "biosnoop"),
    ("CPUidle driver: intel_idle\n", Idle, "cpupower idle-info", "cpuidle/state"),
    ("Log is 10 secs long\n| C-state  | min |\n", Idle, "idlestat", "-f FILE"),
    ("top - 10:00:00 up 1 day,  1 user,  load average: 0\n", Idle, "top", "power:cpu_idle"),
    ("cpu  100 0 5\ncpu0 50 0 2\nbtime 1762164000\n", Idle, "/proc/stat", "power:cpu_idle"),
    ("gem5\u{1}\u{2}", Instructions, "protobuf", "halfwink record"),
    ("version https://git-lfs.github.com/spec/v1\n", Instructions, "Git LFS", "git lfs pull"),
    ("<!DOCTYPE html>\n<title>404</title>\n", Flows, "page of the web", "raw form"),
    ("<?xml version=\"1.0\"?>\n<component>\n", Descriptions, "XML", "CSV"),
    ("1762164000.123456 IP 10.0.0.1.5 > 10.0.0.2.4: Flags [S]\n", Flows, "tcpdump", "numbers"),
    ("10:00:00.1 52:54:00:1 > 52:54:00:2, ethertype IPv4 (\n", Flows, "tcpdump", "numbers"),
    ("10:00:00.1 eth0  Out IP 10.0.0.1.5 > 10.0.0.2.4: UDP\n", Flows, "tcpdump", "numbers"),
    ("frame.time_epoch\tip.src\tip.dst\tframe.len\n", Flows, "tshark", "numbers"),
    ("    1   0.000000 10.0.0.1 \u{2192} 10.0.0.2 TCP 74\n", Flows, "tshark", "-T fields"),
    ("[\n  {\n    \"_index\": \"packets-2025-11-03\",\n", Flows, "tshark", "-T fields"),
    ("====\nTCP Conversations\nFilter:<No Filter>\n", Flows, "tshark", "-T fields"),
    ("version vpc-id srcaddr dstaddr bytes start\n", Flows, "VPC flows", "numbers"),
    ("firstSeen,srcAddr,dstAddr,bytes\n", Flows, "nfdump", "numbers"),
    ("[\n{\"first\" : 1, \"src4_addr\" : 2, \"in_bytes\" : 3}\n", Flows, "nfdump", "numbers"),
    ("{\"ts\":1.5,\"id.orig_h\":\"a\",\"conn_state\":\"SF\"}\n", Flows, "Zeek", "numbers"),
    ("{\"event_type\":\"flow\",\"src_ip\":\"10.0.0.1\"}\n", Flows, "Suricata", "numbers"),
    ("Connecting to host 10.0.0.2, port 5201\n", Flows, "iperf3", "--json"),
    ("{\"schema\": \"1.1.1-chakra.0.0.4\", \"nodes\": []}\n", Flows, "PyTorch", "chakra_converter"),
    ("{\"type\": \"COMM_COLL_NODE\"}\n", Flows, "Chakra as JSON", ".et"),
    ("# nThread 1 nGpus 8 minBytes 8\n", Flows, "nccl-tests", "Chakra"),
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
    let rows = super::flow_tools::ROWS.iter().chain(rows::ROWS).chain(super::other_tools::ROWS);
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
