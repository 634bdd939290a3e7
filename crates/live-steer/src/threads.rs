//! Threads: each with a runtime and a listener of its own, and one more for power, health and
//! timers.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};

use super::budget;
use super::config::{ms, Mode};
use super::exchange::{Guest, Lane};
use super::head::Client;
use super::http1::{own_answer, Session};
use super::memory::Account;
use super::shared::{Outcome, Shared};
use super::stream::{Conn, Stream};
use super::{http2, keeper, tcp};

/// Connections that wait to be taken, at most, at each listener.
const BACKLOG: u32 = 4096;

/// Between two looks whether freed memory is worth returning to the system.
const RETURN: Duration = Duration::from_secs(1);

/// A listener for each thread, all at one address.
pub fn listen(
    address: SocketAddr,
    threads: usize,
) -> io::Result<(Vec<std::net::TcpListener>, SocketAddr)> {
    let runtime = runtime()?;
    let _inside = runtime.enter();
    let mut address = address;
    // Listeners that share an address would share it with another proxy too: refused, as alone. No
    // client is heard here, who would be dropped.
    if threads > 1 {
        drop(bound(address, false)?);
    }
    let mut all = Vec::new();
    for _ in 0..threads {
        let listener = bound(address, threads > 1)?.listen(BACKLOG)?.into_std()?;
        address = listener.local_addr()?;
        all.push(listener);
    }
    Ok((all, address))
}

fn bound(address: SocketAddr, is_shared: bool) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(is_shared)?;
    socket.bind(address)?;
    Ok(socket)
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Starts all threads.
pub fn start(
    shared: &Arc<Shared>,
    listeners: Vec<std::net::TcpListener>,
) -> Result<Vec<JoinHandle<()>>, String> {
    let said = |e: io::Error| format!("thread: {e}");
    let mut threads = Vec::new();
    for (n, listener) in listeners.into_iter().enumerate() {
        let (runtime, lane) = (runtime().map_err(said)?, Lane::new(shared.clone()));
        let open = Open::new(shared);
        let work = move || runtime.block_on(serve(lane, listener, open));
        let thread = std::thread::Builder::new().name(format!("steer-{n}")).spawn(work);
        threads.push(thread.map_err(said)?);
    }
    let (runtime, shared) = (runtime().map_err(said)?, shared.clone());
    let work = move || {
        runtime.block_on(async {
            for side in shared.config().sides() {
                tokio::spawn(keeper::keep(shared.clone(), side));
                tokio::spawn(keeper::watch(shared.clone(), side));
            }
            tokio::spawn(keeper::keep_time(shared.clone()));
            let memory = shared.memory.clone();
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(RETURN).await;
                    memory.trim();
                }
            });
            shared.until_drained().await;
            keeper::wake_all(&shared).await;
        });
    };
    let thread = std::thread::Builder::new().name("steer-keeper".to_owned()).spawn(work);
    threads.push(thread.map_err(said)?);
    Ok(threads)
}

/// A listener, counted while connections may stand in its queue.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Open {
        shared.listening.fetch_add(1, Ordering::AcqRel);
        Open(shared.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.listening.fetch_sub(1, Ordering::AcqRel);
    }
}

async fn serve(lane: Arc<Lane>, listener: std::net::TcpListener, open: Open) {
    let shared = lane.shared.clone();
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    {
        let mut stop = pin!(shared.stop.notified());
        while !shared.is_stopping() {
            tokio::select! {
                () = stop.as_mut() => break,
                taken = listener.accept() => match taken {
                    Ok((stream, peer)) => accept(&lane, stream, peer),
                    Err(error) => rest(&lane, &error).await,
                },
            }
        }
    }
    empty_queue(&lane, listener).await;
    drop(open);
    shared.until_drained().await;
}

/// Takes the connections that stand in a listener's queue when a drain begins: to its client each
/// of them is open, and may have carried a request. Closing the listener would reset them.
async fn empty_queue(lane: &Arc<Lane>, listener: TcpListener) {
    // By the kernel's word, not by what the runtime knows of it.
    let Ok(listener) = listener.into_std() else { return };
    let mut left = BACKLOG;
    while left > 0 && !lane.shared.drained.load(Ordering::Acquire) {
        match listener.accept() {
            Ok((stream, peer)) => {
                left -= 1;
                let nonblocking = stream.set_nonblocking(true);
                if let Ok(stream) = nonblocking.and_then(|()| TcpStream::from_std(stream)) {
                    accept(lane, stream, peer);
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => left -= 1,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => rest(lane, &error).await,
        }
    }
}

/// A connection could not be taken, and stays in the kernel's queue: no descriptors, say. Those
/// that are in use will come back, and those of idle connections at once.
async fn rest(lane: &Lane, error: &io::Error) {
    if budget::is_ours(error) {
        lane.shared.short(error);
        lane.let_idle_go();
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
}

fn accept(lane: &Arc<Lane>, stream: TcpStream, peer: SocketAddr) {
    let shared = &lane.shared;
    let config = shared.config();
    shared.count(Outcome::Accepted);
    let Some(guest) = Guest::welcome(shared, &config.limits, peer.ip()) else {
        shared.count(Outcome::TooMany);
        if config.mode == Mode::Http && config.tls.is_none() {
            let mut answer = Vec::new();
            own_answer(&mut answer, 503, Outcome::TooMany.why(), true, false);
            // A fresh connection has room for it; if not, closing says enough.
            let _ = stream.try_write(&answer);
        }
        return;
    };
    // Without it answers may only be late.
    let _ = stream.set_nodelay(true);
    let lane = lane.clone();
    tokio::spawn(async move {
        connection(lane, stream, peer, &guest.account).await;
    });
}

pub(super) async fn connection(
    lane: Arc<Lane>,
    stream: TcpStream,
    peer: SocketAddr,
    account: &Arc<Account>,
) {
    let config = lane.shared.config();
    let address = peer.ip().to_canonical().to_string();
    if config.mode == Mode::Tcp {
        let client = Conn::new(Stream::Tcp(stream));
        return tcp::serve(&lane, client, &address, account).await;
    }
    let mut client = Client { address, scheme: "http", headers: config.headers.clone() };
    let tls = lane.shared.tls.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let patience = ms(config.limits.header_timeout_ms);
    let shared = lane.shared.clone();
    let mut stop = pin!(shared.stop.notified());
    let mut conn = Conn::new(Stream::Tcp(stream));
    let is_h2 = if let Some(tls) = tls {
        let Stream::Tcp(stream) = conn.io else { return };
        let Ok(Ok(stream)) = tokio::time::timeout(patience, tls.accept(stream)).await else {
            return lane.shared.count(Outcome::TlsFailed);
        };
        client.scheme = "https";
        let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        conn = Conn::new(Stream::Tls(Box::new(stream)));
        is_h2
    } else {
        http2::begins(&mut conn, patience, &shared, stop.as_mut()).await
    };
    if is_h2 {
        let stream = http2::rewound(conn);
        http2::serve(lane.clone(), stream, (client, account), stop).await;
    } else {
        Session::new(&lane, config, conn, (client, account), stop).serve().await;
    }
}
