//! Connections to a server, and one request on one of them.

use std::future::Future;
use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::HeaderName;
use hyper::rt::{Read, Write};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Mutex;

use super::{Options, What};
use crate::prototype::handlers::Workload;
use crate::prototype::Error;
use crate::traffic::monotonic_ns;

/// Requests that share a connection of HTTP/2: as many as servers allow by default.
const STREAMS: usize = 100;

type Body = Empty<Bytes>;

/// Address of a server.
#[derive(Clone, Debug)]
enum Place {
    Tcp(String),
    Unix(String),
}

/// Server and path of requests.
pub(super) struct Target {
    pub url: String,
    place: Place,
    authority: String,
    what: What,
    backend: HeaderName,
    shared: Option<Vec<Mutex<Option<http2::SendRequest<Body>>>>>,
    /// Bytes of the files, if they are known.
    pub sizes: Vec<u64>,
}

/// A connection, if there is one.
#[derive(Default)]
pub(super) struct Link(Option<http1::SendRequest<Body>>);

/// Answer to a request.
pub(super) struct Answer {
    pub status: u16,
    /// Time at which the request was really sent; `service_ns` counts from there.
    pub sent_ns: u64,
    pub service_ns: u64,
    /// Bytes of the file; of the answer, if the server does not say.
    pub file_bytes: u64,
    pub body_bytes: u64,
    pub backend: Option<String>,
    /// The answer is not as long as it must be.
    pub wrong_length: bool,
    /// A connection was made for it.
    pub connected: bool,
}

/// Futures of HTTP/2 connections stay on our thread.
#[derive(Clone)]
struct Here;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for Here {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// Reason why a request failed, by which it is counted.
pub(super) type Failure = &'static str;

impl Target {
    pub fn new(options: &Options) -> Result<Target, Error> {
        let url = options.url.trim_end_matches('/').to_owned();
        let (place, authority) = if let Some(path) = url.strip_prefix("unix:") {
            (Place::Unix(path.to_owned()), "localhost".to_owned())
        } else {
            let address = url.strip_prefix("http://").unwrap_or("");
            let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
            let host = match port {
                Some(Ok(_)) => address.to_owned(),
                _ => format!("{address}:80"),
            };
            if address.is_empty() || address.contains('/') {
                return Err(Error::input(format!(
                    "{}: expected http://HOST:PORT or unix:PATH",
                    options.url
                )));
            }
            (Place::Tcp(host), address.to_owned())
        };
        if let What::Path(path) = &options.what {
            if !path.starts_with('/') || path.parse::<hyper::Uri>().is_err() {
                return Err(Error::input(format!("path {path}: expected one that begins with /")));
            }
        }
        let backend = options.backend_header.parse().map_err(|_| {
            Error::input(format!("header {}: expected a name", options.backend_header))
        })?;
        let shared = options.http2.then(|| {
            (0..options.connections.div_ceil(STREAMS)).map(|_| Mutex::new(None)).collect()
        });
        let what = options.what.clone();
        Ok(Target { url, place, authority, what, backend, shared, sizes: Vec::new() })
    }

    fn request(&self, path: &str) -> Result<Request<Body>, Failure> {
        // HTTP/2 takes scheme and authority from the URI, HTTP/1 names the host in a field.
        let builder = if self.shared.is_some() {
            Request::get(format!("http://{}{path}", self.authority))
        } else {
            Request::get(path).header(hyper::header::HOST, &self.authority)
        };
        builder.body(Empty::new()).map_err(|_| "request")
    }

    /// One request outside of all counts: status and body.
    pub async fn get(&self, path: &str) -> io::Result<(u16, Bytes)> {
        let request = self.request(path).map_err(io::Error::other)?;
        let response = if self.shared.is_some() {
            self.connect_2().await?.send_request(request).await
        } else {
            self.connect_1().await?.send_request(request).await
        };
        let response = response.map_err(io::Error::other)?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(io::Error::other)?;
        Ok((status, body.to_bytes()))
    }

    /// Asks for a file; a connection that is gone is made anew first.
    pub async fn ask(&self, link: &mut Link, slot: usize, file: usize) -> Result<Answer, Failure> {
        let workload = match &self.what {
            What::Workload(workload, _) => Some(*workload),
            What::Path(_) => None,
        };
        let request = match (&self.what, workload) {
            (What::Path(path), _) => self.request(path)?,
            (_, workload) => {
                let name = workload.map_or("", Workload::name);
                self.request(&format!("/{name}/{file}"))?
            }
        };
        let (response, sent_ns, connected) = match &self.shared {
            Some(shared) => self.ask_2(&shared[slot / STREAMS % shared.len()], request).await?,
            None => self.ask_1(link, request).await?,
        };
        let status = response.status().as_u16();
        let header = |name: &HeaderName| response.headers().get(name)?.to_str().ok();
        let backend = header(&self.backend).map(String::from);
        let told: Option<u64> =
            header(&HeaderName::from_static("x-file-bytes")).and_then(|text| text.parse().ok());
        let body_bytes = length(response).await?;
        let service_ns = monotonic_ns() - sent_ns;
        let known = self.sizes.get(file).copied();
        let differs = |a: Option<u64>, b: Option<u64>| a.zip(b).is_some_and(|(a, b)| a != b);
        // Only this workload answers with the file itself.
        let whole = (workload == Some(Workload::Readfile)).then_some(body_bytes);
        let wrong_length =
            status == 200 && (differs(told, known) || differs(whole, told.or(known)));
        let file_bytes = told.or(known).unwrap_or(body_bytes);
        Ok(Answer {
            status,
            sent_ns,
            service_ns,
            file_bytes,
            body_bytes,
            backend,
            wrong_length,
            connected,
        })
    }

    async fn ask_1(
        &self,
        link: &mut Link,
        request: Request<Body>,
    ) -> Result<(Response<Incoming>, u64, bool), Failure> {
        // A server may have closed it meanwhile.
        let alive = match &mut link.0 {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !alive {
            link.0 = Some(self.connect_1().await.map_err(|_| "connect")?);
        }
        let sender = link.0.as_mut().ok_or("connect")?;
        // The time to connect is no part of the service time.
        let sent_ns = monotonic_ns();
        match sender.send_request(request).await {
            Ok(response) => Ok((response, sent_ns, !alive)),
            Err(e) => {
                link.0 = None;
                Err(kind(&e))
            }
        }
    }

    async fn ask_2(
        &self,
        shared: &Mutex<Option<http2::SendRequest<Body>>>,
        request: Request<Body>,
    ) -> Result<(Response<Incoming>, u64, bool), Failure> {
        // The lock is held for the connection alone: requests on it run at the same time.
        let (mut sender, connected) = {
            let mut shared = shared.lock().await;
            let alive = shared.as_ref().is_some_and(|sender| !sender.is_closed());
            if !alive {
                *shared = Some(self.connect_2().await.map_err(|_| "connect")?);
            }
            (shared.clone().ok_or("connect")?, !alive)
        };
        let sent_ns = monotonic_ns();
        let response = sender.send_request(request).await.map_err(|e| kind(&e))?;
        Ok((response, sent_ns, connected))
    }

    async fn connect_1(&self) -> io::Result<http1::SendRequest<Body>> {
        match &self.place {
            Place::Tcp(address) => shake_1(tcp(address).await?).await,
            Place::Unix(path) => shake_1(UnixStream::connect(path).await?).await,
        }
    }

    async fn connect_2(&self) -> io::Result<http2::SendRequest<Body>> {
        match &self.place {
            Place::Tcp(address) => shake_2(tcp(address).await?).await,
            Place::Unix(path) => shake_2(UnixStream::connect(path).await?).await,
        }
    }
}

async fn tcp(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn shake_1<S>(stream: S) -> io::Result<http1::SendRequest<Body>>
where
    TokioIo<S>: Read + Write + Unpin + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    // What goes wrong on it, its requests are told.
    tokio::task::spawn_local(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

async fn shake_2<S>(stream: S) -> io::Result<http2::SendRequest<Body>>
where
    TokioIo<S>: Read + Write + Unpin + 'static,
{
    let (sender, connection) =
        http2::handshake(Here, TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::task::spawn_local(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

/// Takes a body to its end; its bytes.
async fn length(response: Response<Incoming>) -> Result<u64, Failure> {
    let mut body = response.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| kind(&e))?;
        bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
    Ok(bytes)
}

fn kind(error: &hyper::Error) -> Failure {
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        "closed"
    } else if error.is_parse() {
        "malformed"
    } else {
        "broken"
    }
}
