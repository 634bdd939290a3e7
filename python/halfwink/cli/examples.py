"""Examples at the end of every ``--help``, to copy. A test parses each as the command would."""

from __future__ import annotations

from collections.abc import Sequence

#: By command: lines behind ``halfwink COMMAND``, each with what it is for.
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "compare": (
        ("nginx", "one of each kind of techniques, in seconds"),
        ("nginx -t idle-menu,tap", "the best of today, and what tap adds"),
        ("nginx gzip -m ev6-1 --json", "two workloads on one core, for programs"),
        ("nginx -t tap,./my-gate.wasm", "a policy of your own beside tap"),
        ("nginx --load 10,30,50,70%", "a server of today at the load you have"),
        ("all-to-all -w fabric -o out", "another world; its results in out/"),
    ),
    "advise": (
        ("nginx --load 30% --p99 2ms", "what to set tonight, and what it hangs on"),
        ("memcached -m zen4-96 --today --json", "what can be had now, for programs"),
        ("nginx -t ./my-gate.wasm", "with a policy of your own among the techniques"),
        (
            "nginx --day counts.csv --servers 1000 --p99 100us",
            "what to set on a fleet, and which servers may sleep",
        ),
    ),
    "verify": (
        (
            "prediction.json --seconds 600 --latencies log.csv",
            "what advise --commit prediction.json wrote, beside this machine",
        ),
        ("prediction.json -t menu --server-w 312", "before anything is set, with a meter of yours"),
    ),
    "idle": (
        ("gaps.txt", "of perf record -a -e power:cpu_idle, then perf script > gaps.txt"),
        ("gaps.csv -m zen4-96 -t teo,c6a --p99 50us", "two policies, and a latency limit to set"),
        ("power.csv", "of powertop --csv: what counters tell, and what they do not"),
    ),
    "run": (
        ("gating -o out", "a study that comes along; the same line goes on"),
        ("my.toml --executor local:2", "a file of your own, on two cores"),
        ("my.toml --plan", "what it will cost: jobs, CPU hours, parts"),
        ("my.toml --part 3/200 -o shared", "a part, for arrays of jobs on a cluster"),
        ("my.toml --collect -o shared", "tables and report when all parts have run"),
        ("my.toml -o s3://bucket/sweep", "results in an object store, by s3fs"),
    ),
    "profile": (
        ("nginx-1pct -m golden-cove -o nginx.toml", "from a recording, on a core of today"),
        ("--service-mean 200us --cv 1.5 --name mine", "without a recording"),
        ("--log times.csv --unit ms", "from response times, one a line"),
    ),
    "sample": (("nginx -t tap --windows 50", "fifty windows, and how sure that is"),),
    "new-policy": (
        ("my-gate --family gating", "a folder my-gate with sources and a Makefile"),
        ("my-gate --language python", "a file my_gate.py with a class"),
    ),
    "check-policy": (
        ("tap", "each law of its family, kept or broken"),
        ("./my-gate.wasm --seeds 10000", "a policy of your own, under more random events"),
    ),
    "replay": (
        ("run.log", "the same actions, or the first that differs"),
        ("live.log --beside simulated.log", "two logs, event by event"),
    ),
    "reproduce": (
        ("gating", "one area: published beside ours, with reasons"),
        ("--scores", "a row for each work"),
        ("--claims mogul", "a work's headline claims, and whether they hold"),
        ("strong/F2.13 --plot figure.svg", "one figure of a work, drawn with ours over it"),
        ("gallery -o gallery", "pages of all figures and tables, from kept values"),
        ("strong/PT-2.13 --fresh", "one target, computed anew"),
    ),
    "record": (
        ("-- ./program data.bin", "a program of yours, into program.hwt"),
        ("--skip 50M --for 20M -- python3 b.py", "20 million instructions behind the first 50"),
        ("--samples 40x4M -- ./program", "samples of a run of any length, for `sample`"),
    ),
    "capture": (
        ("nginx", "a server by name, into nginx.hwt"),
        ("-o t.hwt -- ./program data.bin", "your own program with its file"),
        ("--package python3 -- python3 b.py", "what needs packages of Debian"),
    ),
    "trace info": (("nginx.hwt", "what was recorded, and from what"),),
    "trace head": (("nginx.hwt -n 40", "the first 40 instructions"),),
    "trace check": (("nginx.hwt", "whether it is whole and sound"),),
    "trace import": (
        ("champsim.trace.xz -o mine.hwt --limit 50000000", "from another simulator"),
        ("drmemtrace.app.1234.5678.trace.zip", "of DynamoRIO: a thread's chunks, into app.hwt"),
    ),
    "trace export": (
        ("nginx.hwt -o nginx.champsim", "for another simulator"),
        ("nginx --format drmemtrace -o nginx.drmemtrace.gz", "for DynamoRIO's tools"),
    ),
    "trace caches": (("nginx.hwt --ll 8MB:16", "misses with caches of your choice"),),
    "trace io": (
        ("null-blk-many --beside null-blk-many-other", "instructions and lines of a block I/O"),
    ),
    "trace predict": (("nginx", "how well kernel entries' lengths are predicted"),),
    "trace kernel": (('nginx --caches "32KB:2 32KB:2 1MB:16"', "what the kernel does, and where"),),
    "trace slice": (("long.hwt -o short.hwt --keep 50000000", "a shorter recording"),),
    "pdn": (
        ("--case awa./..../..../....", "the shortest safe wake-up of one case"),
        ("ev6-2x4 --stagger", "cores that wake together, or one by one"),
    ),
    "measure": (("--only system-call,wake-up", "two items; all without --only"),),
    "live resctrl plan": (("apache --size 2MB -o plan.json", "what the recording recommends"),),
    "live resctrl apply": (("plan.json", "bring it into /sys/fs/resctrl"),),
    "live resctrl restore": (("", "as it was before"),),
    "live resctrl show": (("", "who has which ways"),),
    "live router": (("router.toml --view", "forward packets, and look at it"),),
    "live steer": (("steer.toml --metrics 127.0.0.1:9475", "steer requests, with OpenMetrics"),),
    "live preheat": (("--server nginx --self-test", "warm, cold and preheated, measured here"),),
    "live preheat pages": (("--server memcached --self-test", "dropped pages come back"),),
    "live preheat run": (
        ("--port 80 --set a.hws --shared /run/heat --key key", "beside your server"),
    ),
    "calibrate host": (
        ("-o host.toml", "this machine, and how well it is simulated"),
        ("--quick --json", "in seconds, with every number and curve"),
    ),
    "live block": (
        ("--unix /run/disk --ram 1G", "a disk of memory over NBD"),
        ("--unix /run/disk --file disk.img --direct", "a file, past the page cache"),
        ("--advise --iops 400000", "where queues and completions should run here"),
        ("--advise --load job.fio", "the same for a job of fio, or a block trace"),
    ),
    "live circuits": (
        ("--hosts 4 --slot 2ms --night 0.2ms", "four hosts that take turns"),
        ("--transfer 1GB --switch-off 1s", "a file over TCP, with checksums"),
    ),
    "live day": (("-o day", "a day of load, live and simulated"),),
    "live costs": (("--json", "ns of each element of the data plane"),),
    "live generate": (("eth1 --pps 1000 --seconds 5", "numbered, stamped frames"),),
    "live sink": (("eth2 --seconds 6", "what became of them"),),
    "live dataset": (("pages --files 2000", "files to serve"),),
    "live serve": (("pages --listen unix:small.sock --workers 2", "a pool of the prototype"),),
    "live load": (("http://127.0.0.1:8081 --rate 200 --seconds 30", "an open load"),),
    "live calibrate": (("--big http://127.0.0.1:8081 -o count.toml", "delays by size"),),
    "live predict": (("out", "measured and simulated: are they the same?"),),
    "live steer-day": (("day", "a day on a hybrid server whose big pool is stopped"),),
    "live delegate": (("-- tar cf a.tar /usr/include", "its system calls, on another CPU"),),
    "live idle": (("-- sleep 5", "how long CPUs are idle meanwhile"),),
    "segregation sweep": (("apache --l2 256KB --plot split.svg", "every split of the cache"),),
    "circuits advise": (
        ("data-mining@10", "schedules on one fabric, energy against time"),
        ("llama.0.et -m training-64", "an execution trace's flows"),
    ),
    "circuits model": (("--savings --plot saved.svg", "closed forms, drawn"),),
    "circuits simulate": (
        ("-t packet-switch,round-robin --set tokens=naive", "hosts in turns, beside packets"),
    ),
    "circuits schedule": (("demand.csv", "a week of circuits for a demand"),),
    "preheat prototype": (("", "warm, cold, preheated: Tables 6.1 and 6.2"),),
    "preheat breakdown": (("--plot steps.svg", "what each step of the loader saves"),),
    "preheat deadline": (("-w nginx-2016", "requests that come before their lines"),),
    "preheat simulate": (("nginx-1pct --requests 40", "a recorded server, preheated"),),
    "storage calibrate": (
        ("--from null-blk -o linux.toml", "a machine made of recordings, and its error"),
    ),
    "storage simulate": (
        ("-t issuer,cache-aware --load 1..20 -o out", "I/Os by CPUs that issue, with a report"),
    ),
    "switching": (
        ("alpha --runs --workload web", "amount, power, work per joule"),
        ("xeon-5160 --systems", "what that means for whole systems"),
    ),
    "router": (
        ("ipv4 ipsec -t polling,napi,power-save", "watts, delay, loss, reordering"),
        ("ipv4@5,20,80 --points", "at three loads"),
    ),
    "hybrid": (
        ("count@30 --set servers=100", "a hundred servers at 30 %"),
        ("--load log:access.log -o out", "by your own request log, with a report"),
    ),
    "hybrid-year": (("-t always-on,hybrid --load 4", "a year of the World Cup's minutes"),),
    "list": (
        ("techniques --world chip", "with parameters and what each is"),
        ("targets --json", "every published number"),
    ),
    "query": (
        ("out", "which tables there are, and their columns"),
        ("out 'select * from runs order by energy_j limit 5'", "who takes least"),
    ),
    "report": (
        ("out", "report.html, drawn again"),
        ("out --plot figure.pdf", "a figure for a column of a paper, with its caption"),
        ("out --against before", "what changed since another run"),
        ("out --serve", "the report at an address of this machine, until Ctrl-C"),
        ("halfwink-out --index", "a page that links all runs in a folder"),
    ),
    "completion": (("zsh", "a script for zsh"),),
    "doctor": (("", "what works here, and what adds the rest"),),
}


def shown(words: Sequence[str]) -> str:
    """The examples of the command that a command line names, as lines; empty if it has none."""
    names = [word for word in words if not word.startswith("-")]
    for count in (3, 2, 1):
        found = EXAMPLES.get(" ".join(names[:count]))
        if found is not None and len(names) >= count:
            head = f"  halfwink {' '.join(names[:count])}"
            lines = [f"{head} {more}".rstrip() + f"\n      {why}" for more, why in found]
            return "\n".join(["Examples:", *lines])
    return ""
