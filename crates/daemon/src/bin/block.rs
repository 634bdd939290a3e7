//! `halfwink-block`: serves a device until it is told to end, and says what it has done.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use clap::Parser;
use halfwink_eventlog::{Family, Header, Live};
use halfwink_live::sys::CpuSet;
use halfwink_live_block::backend::{Backend, Delay, File, Io, Modelled, Ram};
use halfwink_live_block::report::Report;
use halfwink_live_block::topology::{self, Machine};
use halfwink_live_block::ublk::{self, Ublk};
use halfwink_live_block::vhost::Vhost;
use halfwink_live_block::{advise, raise_descriptor_limit, EventLog, Listen, Server, Setting};
use halfwink_policy::completion::CompletionPolicy;
use halfwink_techniques::block::{make, Made, LIVE_BLOCK};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

/// Lines of the event log that may wait to be written.
const LOG_ROOM: usize = 1 << 16;
/// A client has so long to say what it wants.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Between two looks whether all threads are alive.
const LOOK: Duration = Duration::from_secs(2);

/// A block device over NBD. SIGTERM or SIGINT ends it in good order; SIGHUP is refused.
#[derive(Parser)]
#[command(name = "halfwink-block", version)]
struct Arguments {
    /// Measures what it costs here to have another CPU complete, prints that as JSON, and ends.
    #[arg(long)]
    measure: bool,
    /// Listens at this socket of the file system.
    #[arg(long, value_name = "PATH", conflicts_with = "tcp")]
    unix: Option<PathBuf>,
    /// Serves virtual machines at this socket, one after another (vhost-user-blk); no policy.
    #[arg(long, value_name = "PATH")]
    #[arg(conflicts_with_all = ["unix", "tcp", "log", "latency_us", "direct"])]
    vhost: Option<PathBuf>,
    /// A disk of this machine, /dev/ublkbID, by the kernel's ublk driver [default ID: any].
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "any")]
    #[arg(value_parser = disk_number, conflicts_with_all = ["unix", "tcp", "vhost", "latency_us"])]
    #[arg(conflicts_with = "direct")]
    ublk: Option<DiskNumber>,
    /// With --vhost: number of queues, each with a thread.
    #[arg(long, default_value_t = 1)]
    queues: usize,
    /// Listens at HOST:PORT; every client that can reach the port may read and write.
    #[arg(long, value_name = "HOST:PORT")]
    tcp: Option<std::net::SocketAddr>,
    /// Memory of so many bytes: 64K, 256M, 1G.
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "file")]
    ram: Option<u64>,
    /// A file, or a block device, as large as it is.
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// With --file: interface for reads and writes: uring (io_uring), sync (a call for each), auto.
    #[arg(long, value_name = "WAY", default_value = "auto")]
    io: Io,
    /// With --file and io_uring: bypasses the page cache for whole blocks, where the file system
    /// allows it.
    #[arg(long)]
    direct: bool,
    /// With --ram: mean latency of the modelled device, in microseconds.
    #[arg(long, value_name = "US", requires = "ram", value_parser = latency)]
    latency_us: Option<f64>,
    /// With --latency-us: seed of the random latencies.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rejects all writes.
    #[arg(long)]
    read_only: bool,
    /// Name of the export.
    #[arg(long, default_value = "", value_parser = name)]
    export: String,
    /// Completion policy, with parameters: cache-aware:by=cache,high_pct=90.
    #[arg(long, default_value = "single-thread")]
    policy: String,
    /// Rest of a thread without work: auto (gather, or own where a policy polls), own (the
    /// policy's), gather, interrupt, polling, suricata, l3fwd-pause.
    #[arg(long, default_value = "auto")]
    rest: String,
    /// CPUs that serve, a thread each, the first of which hears: 0-3,8 [default: where it may run].
    #[arg(long, value_name = "LIST")]
    cpus: Option<String>,
    /// Threads are not kept to CPUs.
    #[arg(long)]
    no_pin: bool,
    /// Largest number of simultaneous connections.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    connections: u64,
    /// Writes events and actions of the policy there: lines of JSON.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Writes what it has counted and measured there at the end: JSON; - is standard output.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Ends after so many seconds [default: when it is told to].
    #[arg(long, value_name = "S", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Prints no messages.
    #[arg(long, short)]
    quiet: bool,
}

fn size(text: &str) -> Result<u64, String> {
    let expected = || "expected bytes as 4096, 64K, 256M or 1G, up to 1P".to_owned();
    let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(expected()),
    };
    let number: u64 = digits.parse().map_err(|_| expected())?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(expected)?;
    if (1..=1 << 50).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(expected())
    }
}

fn latency(text: &str) -> Result<f64, String> {
    let expected = || "expected 0.1 to 1000000".to_owned();
    let us: f64 = text.parse().map_err(|_| expected())?;
    (0.1..=1e6).contains(&us).then_some(us).ok_or_else(expected)
}

fn name(text: &str) -> Result<String, String> {
    if text.len() > 255 || text.contains('\0') {
        return Err("expected 255 bytes at most".to_owned());
    }
    Ok(text.to_owned())
}

/// Number of a disk; none for any free one.
#[derive(Clone, Copy, Debug)]
struct DiskNumber(Option<u32>);

fn disk_number(text: &str) -> Result<DiskNumber, String> {
    let number = || text.parse().ok().filter(|number| *number < 1 << 20);
    match text {
        "any" => Ok(DiskNumber(None)),
        _ => number().map(|n| DiskNumber(Some(n))).ok_or("expected a number, or any".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let expected = || "expected above 0, at most 30 days".to_owned();
    let seconds: f64 = text.parse().map_err(|_| expected())?;
    let in_range = seconds > 0.0 && seconds <= 30.0 * 86_400.0;
    in_range.then(|| Duration::from_secs_f64(seconds)).ok_or_else(expected)
}

impl Arguments {
    /// Returns the reason why the server ended without being stopped.
    fn ended(&self) -> &'static str {
        if self.ublk.is_some() {
            "somebody has taken the disk away, or a thread has died, which it said above"
        } else {
            "a thread has died; what it said is above"
        }
    }
}

/// Reason of a failure: the user's input, or a limit of the machine.
enum Failed {
    Input(String),
    Run(String),
}

fn backend(arguments: &Arguments) -> Result<Box<dyn Backend>, Failed> {
    if arguments.direct && (arguments.io == Io::Sync || arguments.file.is_none()) {
        let why = "--direct: expected --file PATH and --io uring or auto: calls have a cache";
        return Err(Failed::Input(why.to_owned()));
    }
    match (arguments.ram, &arguments.file) {
        (Some(bytes), None) => {
            let wrong = |e| Failed::Run(format!("--ram {bytes}: {e}"));
            let Some(us) = arguments.latency_us else {
                return Ok(Box::new(Ram::new(bytes).map_err(wrong)?));
            };
            let delay = Delay { mean_ns: us * 1e3, seed: arguments.seed };
            Ok(Box::new(Modelled::new(bytes, delay).map_err(wrong)?))
        }
        (None, Some(path)) => {
            let wrong = |e| Failed::Input(format!("--file {}: {e}", path.display()));
            // Requests of virtual machines and of the kernel are served one by one.
            let by_calls = arguments.vhost.is_some() || arguments.ublk.is_some();
            let io = if by_calls { Io::Sync } else { arguments.io };
            let file = File::open_by(path, arguments.read_only, io, arguments.direct);
            Ok(Box::new(file.map_err(wrong)?))
        }
        _ => Err(Failed::Input("expected --ram SIZE or --file PATH".to_owned())),
    }
}

fn machine(arguments: &Arguments) -> Result<Machine, Failed> {
    let all = Machine::read(Path::new(topology::SYSFS)).map_err(Failed::Run)?;
    let allowed: Vec<u32> = CpuSet::allowed().iter().collect();
    let chosen = match &arguments.cpus {
        Some(text) => topology::list(text).map_err(|e| Failed::Input(format!("--cpus: {e}")))?,
        None => all.cpus.iter().map(|c| c.cpu).filter(|cpu| allowed.contains(cpu)).collect(),
    };
    if let Some(cpu) = chosen.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(Failed::Input(format!("--cpus: CPU {cpu} is not one where this may run")));
    }
    if chosen.is_empty() || chosen.len() > 255 {
        return Err(Failed::Input("--cpus: expected 1 to 255 CPUs".to_owned()));
    }
    all.only(&chosen).map_err(|e| Failed::Input(format!("--cpus: {e}")))
}

fn open_log(path: Option<&Path>, header: &Header) -> Result<Option<(Live, EventLog)>, Failed> {
    let Some(path) = path else { return Ok(None) };
    let made = Live::create(path, header, LOG_ROOM);
    made.map(Some).map_err(|e| Failed::Run(e.to_string()))
}

fn signals() -> Result<Receiver<i32>, Failed> {
    let wrong = |e: std::io::Error| Failed::Run(format!("signals: {e}"));
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2]).map_err(wrong)?;
    let (tell, hear) = mpsc::channel();
    let body = move || signals.forever().take_while(|&s| tell.send(s).is_ok()).for_each(drop);
    std::thread::Builder::new().name("signals".to_owned()).spawn(body).map_err(wrong)?;
    Ok(hear)
}

/// Waits for a signal, and says whether it ends the program. SIGHUP, SIGUSR1 and SIGUSR2 do not:
/// there is no description to read again, and their default action would leave the socket behind.
fn told_to_end(signals: &Receiver<i32>, most: Duration) -> bool {
    match signals.recv_timeout(most) {
        Ok(SIGHUP) => {
            eprintln!("halfwink-block: no description to read again; all stays as it was");
            false
        }
        Ok(SIGUSR1 | SIGUSR2) => {
            eprintln!("halfwink-block: SIGUSR1 and SIGUSR2 change nothing; all stays as it was");
            false
        }
        Ok(_) | Err(RecvTimeoutError::Disconnected) => true,
        Err(RecvTimeoutError::Timeout) => false,
    }
}

#[allow(clippy::print_stdout, reason = "its report may be asked for there")]
fn write(path: &Path, text: &str) -> Result<(), Failed> {
    if path == Path::new("-") {
        println!("{text}");
        return Ok(());
    }
    std::fs::write(path, format!("{text}\n"))
        .map_err(|e| Failed::Run(format!("{}: {e}", path.display())))
}

fn write_report(
    arguments: &Arguments,
    path: &Path,
    report: &Report,
    machine: &Machine,
    log_dropped: Option<u64>,
) -> Result<(), Failed> {
    let wrong = |e: serde_json::Error| Failed::Run(e.to_string());
    let mut all = serde_json::to_value(report).map_err(wrong)?;
    all["policy"] = arguments.policy.as_str().into();
    all["rest"] = arguments.rest.as_str().into();
    all["log_dropped"] = log_dropped.into();
    all["machine"] = serde_json::to_value(machine).map_err(wrong)?;
    write(path, &format!("{all:#}"))
}

/// Serves virtual machines until it is told to end. A request under way is not waited for: its
/// guest has had no answer.
fn serve_vhost(arguments: &Arguments, socket: &Path) -> Result<(), Failed> {
    let made = Vhost::new(backend(arguments)?, arguments.read_only, arguments.queues);
    let device = made.map_err(Failed::Input)?;
    let signals = signals()?;
    let (tell, hear) = mpsc::channel();
    let (own, path) = (device.clone(), socket.to_owned());
    let body = move || loop {
        if let Err(why) = own.serve(&path) {
            // The next virtual machine may do better; a socket that cannot be made never will.
            if tell.send(why).is_err() || !path.exists() {
                return;
            }
        }
    };
    let spawned = std::thread::Builder::new().name("block vhost".to_owned()).spawn(body);
    spawned.map_err(|e| Failed::Run(e.to_string()))?;
    if !arguments.quiet {
        eprintln!("halfwink-block: ready at {}", socket.display());
    }
    let end = arguments.seconds.map(|seconds| Instant::now() + seconds);
    let mut failed = None;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break;
        }
        if told_to_end(&signals, left.unwrap_or(LOOK).min(Duration::from_millis(200))) {
            break;
        }
        if let Ok(why) = hear.try_recv() {
            eprintln!("halfwink-block: {why}");
            if why.contains("AddrInUse") || why.contains("Address already in use") {
                failed = Some(why);
                break;
            }
        }
    }
    let flushed = device.flush();
    let _ = std::fs::remove_file(socket);
    if let Some(path) = &arguments.report {
        let text = serde_json::to_string_pretty(&device.served());
        write(path, &text.map_err(|e| Failed::Run(e.to_string()))?)?;
    }
    failed.map_or(Ok(()), |why| Err(Failed::Run(why)))?;
    flushed.map_err(|e| Failed::Run(format!("the last flush of the device failed: {e}")))
}

fn listen(arguments: &Arguments) -> Result<Listen, Failed> {
    match (&arguments.unix, arguments.tcp) {
        (Some(path), None) => Ok(Listen::Unix(path.clone())),
        (None, Some(address)) => Ok(Listen::Tcp(address)),
        _ => {
            let expected = "expected --unix PATH, --tcp HOST:PORT, --ublk or --vhost PATH";
            Err(Failed::Input(expected.to_owned()))
        }
    }
}

/// Source of requests.
enum Front {
    Clients(Server),
    Kernel(Ublk),
}

impl Front {
    fn start(
        arguments: &Arguments,
        machine: &Machine,
        backend: Box<dyn Backend>,
        policy: CompletionPolicy,
        tap: Option<EventLog>,
    ) -> Result<Front, Failed> {
        let pin = |cpu: &topology::Cpu| (!arguments.no_pin).then_some(cpu.cpu);
        let cpus = machine.cpus.iter().map(pin).collect();
        let read_only = arguments.read_only;
        if let Some(DiskNumber(number)) = arguments.ublk {
            let setting = ublk::Setting { number, read_only, cpus };
            let started = Ublk::start(&setting, backend, policy, tap);
            return started.map(Front::Kernel).map_err(Failed::Run);
        }
        let setting = Setting {
            listen: listen(arguments)?,
            name: arguments.export.clone(),
            read_only,
            cpus,
            connections: arguments.connections,
            handshake: HANDSHAKE,
        };
        Server::start(&setting, backend, policy, tap).map(Front::Clients).map_err(Failed::Run)
    }

    fn address(&self) -> String {
        match self {
            Front::Clients(server) => server.address().to_owned(),
            Front::Kernel(disk) => disk.address(),
        }
    }

    fn is_running(&self) -> bool {
        match self {
            Front::Clients(server) => server.is_running(),
            Front::Kernel(disk) => disk.is_running(),
        }
    }

    fn report(&self) -> Report {
        match self {
            Front::Clients(server) => server.report(),
            Front::Kernel(disk) => disk.report(),
        }
    }

    fn stop(self) -> Result<(), String> {
        match self {
            Front::Clients(server) => server.stop(),
            Front::Kernel(disk) => disk.stop(),
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failed> {
    let say = |text: &str| {
        if !arguments.quiet {
            eprintln!("halfwink-block: {text}");
        }
    };
    if arguments.measure {
        let measured = advise::measure(&machine(arguments)?).map_err(Failed::Run)?;
        let text = serde_json::to_string_pretty(&measured);
        return write(Path::new("-"), &text.map_err(|e| Failed::Run(e.to_string()))?);
    }
    if let Some(socket) = &arguments.vhost {
        raise_descriptor_limit();
        return serve_vhost(arguments, socket);
    }
    if arguments.ublk.is_none() {
        listen(arguments)?;
    } else if let Some(why) = ublk::missing() {
        return Err(Failed::Run(why));
    }
    raise_descriptor_limit();
    let machine = machine(arguments)?;
    let made = make(&arguments.policy, &arguments.rest, &machine.topology());
    let Made { policy, technique, values } = made.map_err(|e| Failed::Input(e.to_string()))?;
    let header = Header::new(LIVE_BLOCK, Family::Completion, &technique)
        .on("", "live")
        .with(values.iter().map(|(key, value)| (*key, value.as_str())));
    let backend = backend(arguments)?;
    if let Some(why) = backend.way().fell_back {
        say(&why);
    }
    // Before anything listens: a signal that comes early is kept for later.
    let signals = signals()?;
    let (live, tap) = open_log(arguments.log.as_deref(), &header)?.unzip();
    let server = Front::start(arguments, &machine, backend, policy, tap)?;
    say(&format!("ready at {}", server.address()));
    let end = arguments.seconds.map(|seconds| Instant::now() + seconds);
    while server.is_running() {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            break;
        }
        if told_to_end(&signals, left.unwrap_or(LOOK).min(LOOK)) {
            break;
        }
    }
    let alive = server.is_running();
    let report = server.report();
    let stopped = server.stop();
    let ended = live.map(Live::end).transpose().map_err(|e| Failed::Run(e.to_string()));
    if let Some(path) = &arguments.report {
        let dropped = ended.as_ref().ok().and_then(Option::as_ref).map(|footer| footer.dropped);
        write_report(arguments, path, &report, &machine, dropped)?;
    }
    if let Some(why) = &report.ledger.imbalance {
        eprintln!("halfwink-block: {why}");
    }
    if !alive {
        return Err(Failed::Run(arguments.ended().to_owned()));
    }
    ended?;
    stopped.map_err(Failed::Run)
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed::Input(why)) => {
            eprintln!("halfwink-block: {why}");
            ExitCode::from(2)
        }
        Err(Failed::Run(why)) => {
            eprintln!("halfwink-block: {why}");
            ExitCode::from(1)
        }
    }
}
