//! Forwarding in user space: a receiver and workers between sockets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use halfwink_dataplane::Forwarder;
use halfwink_eventlog::Header;
use halfwink_live::clock::Rate;
use halfwink_live::program::stand_in::Deciding;
use halfwink_live::sys::CpuSet;
use halfwink_policy::scaling::ScalingPolicy;
use halfwink_units::Time;

use super::config::Config;
use super::control::{Clock, Control, EventLog, Next};
use super::interface::Interface;
use super::keeper::Keeper;
use super::keys::{self, Follower, Table};
use super::loader::{Loader, Sources};
use super::meter::Meter;
use super::pool::Pool;
use super::port;
use super::ports::{PortSeen, Ports};
use super::queue::{self, Redirect, Standing};
use super::receiver::{OnBack, Receiver, Steering};
use super::report::{self, Report};
use super::waiter::{Bell, Waiter};
use super::worker::{Common, Queue, Seen, Worker};

/// Forwarding threads at work. Dropping it stops them.
pub(super) struct UserSpace {
    pub(super) loader: Arc<Loader>,
    pub(super) common: Arc<Common>,
    pub(super) meters: Vec<Arc<Meter>>,
    pub(super) seen: Vec<Arc<Mutex<Seen>>>,
    pub(super) standings: Vec<Arc<Standing>>,
    pub(super) ports: Arc<Mutex<Vec<PortSeen>>>,
    pub(super) steering: Arc<Steering>,
    pub(super) bell: Arc<Bell>,
    /// Between which moments its workers' meters did.
    pub(super) began: [Instant; 2],
    pub(super) keeper: Arc<Keeper>,
    /// Follower of the kernel's keys, if they are used.
    follower: Option<Follower>,
    threads: Vec<JoinHandle<()>>,
}

impl UserSpace {
    /// Opens all ports and starts forwarding.
    ///
    /// # Errors
    /// What is wrong or missing, in one line.
    pub(super) fn start(
        config: Config,
        policy: Deciding<ScalingPolicy, Next>,
        log: Option<EventLog>,
    ) -> Result<UserSpace, String> {
        let pool = Pool::new(chunks(&config)).map_err(|e| format!("memory for frames: {e}"))?;
        let wanted: Vec<_> =
            config.port.iter().map(|p| (p.interface.clone(), p.io, p.queues)).collect();
        let (ports, senders) = Ports::open(&wanted, &pool)?;
        let interfaces: Vec<Interface> = ports.interfaces().cloned().collect();
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_unix_ns = since_epoch.as_nanos() as u64;
        let keeper = Arc::new(Keeper::new());
        let (opened, table) = match config.app.follows_kernel() {
            true => keys::open().map(|(opened, table)| (Some(opened), table))?,
            false => (None, Table::default()),
        };
        let sources = Sources { start_unix_ns, keeper: keeper.clone() };
        let loader = Arc::new(Loader::new(config.clone(), interfaces, sources, table)?);
        let follower = opened.map(|opened| Follower::start(opened, loader.clone())).transpose()?;
        let rate = Rate::measure();
        let common = Arc::new(Common {
            pool,
            control: Control::new(policy, config.workers, Clock::start(rate), log),
            senders,
            stopping: AtomicBool::new(false),
            drained: AtomicBool::new(false),
            collector: config.app.collector()?,
        });
        let begins = Instant::now();
        let (redirect, takers, standings) = queue::queues(config.workers, config.queue);
        let queues: Vec<Queue> = takers
            .into_iter()
            .enumerate()
            .map(|(n, taker)| Queue {
                number: n as u8,
                taker,
                standings: standings.clone(),
                meter: Arc::new(Meter::start(rate)),
                seen: Arc::default(),
                batch: config.batch,
            })
            .collect();
        let bell = Arc::new(Bell::new().map_err(|e| format!("eventfd: {e}"))?);
        let mut router = UserSpace {
            loader,
            common,
            meters: queues.iter().map(|q| q.meter.clone()).collect(),
            seen: queues.iter().map(|q| q.seen.clone()).collect(),
            standings,
            ports: ports.seen(),
            steering: Arc::default(),
            bell,
            began: [begins, Instant::now()],
            keeper,
            follower,
            threads: Vec::new(),
        };
        router.begin(queues, ports, redirect)?;
        Ok(router)
    }

    /// Starts the threads: a receiver, and workers beside it.
    fn begin(
        &mut self,
        queues: Vec<Queue>,
        ports: Ports,
        redirect: Redirect,
    ) -> Result<(), String> {
        let mut workers: Vec<Worker> = queues
            .into_iter()
            .map(|queue| {
                let forwarder =
                    Forwarder::new(self.loader.shared().clone(), u16::from(queue.number));
                Worker::new(queue, forwarder, self.common.clone())
            })
            .collect();
        let waiter = Waiter::new(self.bell.clone(), &ports).map_err(|e| format!("epoll: {e}"))?;
        let receiver = Receiver {
            worker: workers.remove(0),
            ports,
            redirect,
            waiter,
            steering: self.steering.clone(),
            on_back: self.on_back(),
            cared: Instant::now(),
            moderation: Time::from_ns(self.loader.config().moderation_us * 1e3),
            fed: false,
        };
        self.spawn(0, move || receiver.run())?;
        for worker in workers {
            self.spawn(worker.queue.number, move || worker.run())?;
        }
        Ok(())
    }

    fn spawn(&mut self, number: u8, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
        let cpus = self.loader.config().cpus;
        let cpu = (!cpus.is_empty()).then(|| cpus[usize::from(number) % cpus.len()]);
        let body = move || {
            if let Some(cpu) = cpu {
                if CpuSet::one(cpu).pin().is_err() {
                    halfwink_live::say!(
                        "halfwink: cpus: found {cpu}, which this process may not use; its threads \
                         run where they may"
                    );
                }
            }
            // Sleeps end when they should, not up to 50 us later.
            // SAFETY: plain numbers.
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
            work();
        };
        let thread = std::thread::Builder::new().name(format!("router-{number}")).spawn(body);
        self.threads.push(thread.map_err(|e| format!("thread of worker {number}: {e}"))?);
        Ok(())
    }

    /// Returns the action for ports that are back, perhaps with other addresses and neighbours.
    fn on_back(&self) -> OnBack {
        let loader = self.loader.clone();
        Box::new(move |ports, back| {
            loader.ports_back(ports.interfaces().cloned().collect(), back);
        })
    }

    /// Takes routes, addresses, neighbours and application from a new description; no packet is
    /// lost. What has changed, by path.
    ///
    /// # Errors
    /// What is wrong, or can only change by a restart; then nothing changes.
    pub(super) fn reload(&self, config: Config) -> Result<Vec<String>, String> {
        self.loader.reload(config)
    }

    /// Lets another policy decide.
    pub(super) fn replace(&self, policy: Deciding<ScalingPolicy, Next>, header: Header) {
        self.common.control.replace(policy, header);
        // The receiver does what the policy begins with, and workers ask this one how to rest.
        self.bell.ring();
        self.standings.iter().for_each(|standing| {
            standing.ring();
        });
    }

    /// The description in use.
    pub(super) fn config(&self) -> Config {
        self.loader.config()
    }

    /// Stops: what has arrived is forwarded, nothing more is taken. Returns once all is done.
    pub(super) fn stop(&mut self) {
        // Only the receiver is stopped: workers go on until it has put its last frame.
        self.common.stopping.store(true, Ordering::Relaxed);
        self.bell.ring();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
        // After the workers, which take sequence numbers until then: the keeper records the last
        // ones.
        self.follower = None;
        self.keeper.end();
    }

    /// Returns whether all threads are running.
    pub(super) fn is_running(&self) -> bool {
        !self.threads.is_empty() && self.threads.iter().all(|t| !t.is_finished())
    }

    /// Returns the report up to now.
    pub(super) fn report(&self) -> Report {
        report::of(self)
    }
}

impl Drop for UserSpace {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Chunks for the rings of all lanes, the queues of all workers, and batches under way.
fn chunks(config: &Config) -> u32 {
    let lanes: u32 = config
        .port
        .iter()
        .map(|port| {
            let there = Interface::find(&port.interface).map_or(1, |i| i.queues);
            port.queues.map_or(there, |most| most.clamp(1, there))
        })
        .sum();
    let workers = u32::from(config.workers) * (config.queue as u32 + 512);
    lanes * port::CHUNKS_OF_A_LANE + workers + 1024
}
