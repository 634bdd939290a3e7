//! HTTP/1.1 towards an interface that switches machines: a request for each connection, over TLS
//! whose certificate is checked.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    self, verify_tls12_signature, verify_tls13_signature, CryptoProvider,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    version, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_rustls::TlsConnector;

use super::drive::{Again, Fault};
use crate::body::{Decoder, Framing};
use crate::health::Unwell;
use crate::stream::Buffer;

/// Bytes of one answer, at most.
const MOST_ANSWER: usize = 4 << 20;
/// Bytes of the head of an answer, at most.
const MOST_HEAD: usize = 64 << 10;
/// Header fields of an answer, at most.
const MOST_FIELDS: usize = 100;

/// An interface over HTTPS, and how its certificate is checked.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Address of the interface: `ADDRESS:PORT`.
    pub address: SocketAddr,
    /// Certificate in PEM of the authority that signed the interface's; relative to the
    /// description.
    pub ca_file: Option<PathBuf>,
    /// Name that the certificate is for, beside `ca_file`; without it, the address.
    pub name: Option<String>,
    /// SHA-256 of the interface's own certificate, in hexadecimal digits; in place of `ca_file`.
    pub fingerprint: Option<String>,
    /// Speaks in clear text, which only an address of this machine may.
    #[serde(default)]
    pub plain: bool,
}

/// A request to an interface.
pub struct Ask<'a> {
    /// Method, such as `GET`.
    pub method: &'static str,
    /// Path, from its slash.
    pub path: &'a str,
    /// Line of a header field with the credentials.
    pub credentials: &'a str,
    /// Body in JSON, if there is one.
    pub body: Option<Value>,
}

/// A connection of either kind.
trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

impl Endpoint {
    pub(super) fn check(&self) -> Result<(), String> {
        let ways = [self.ca_file.is_some(), self.fingerprint.is_some(), self.plain];
        if ways.iter().filter(|is_there| **is_there).count() != 1 {
            return Err("expected one of ca_file, fingerprint and plain = true".to_owned());
        }
        // A password in clear text must not leave this machine.
        if self.plain && !self.address.ip().is_loopback() {
            let expected = "an address of this machine, or ca_file or fingerprint";
            return Err(format!("found plain to {}, expected {expected}", self.address));
        }
        if let Some(text) = &self.fingerprint {
            if digest_of(text).is_none() {
                return Err(format!("found fingerprint {text}, expected 64 hexadecimal digits"));
            }
        }
        match &self.name {
            Some(_) if self.ca_file.is_none() => Err("found name without ca_file".to_owned()),
            Some(name) if ServerName::try_from(name.as_str()).is_err() => {
                Err(format!("found name {name}, expected a name or address of a server"))
            }
            _ => Ok(()),
        }
    }

    /// Sends a request; returns its answer in JSON, null if it has no body.
    ///
    /// # Errors
    /// The interface cannot be reached or trusted, or its status is none of success.
    pub(super) async fn ask(&self, ask: &Ask<'_>) -> Result<Value, Fault> {
        let at = format!("{} {} at {}", ask.method, ask.path, self.address);
        let said = |error: std::io::Error| Fault::passing(Unwell::at(&at, error));
        let mut wire = self.connect().await?;
        wire.write_all(&self.head(ask)).await.map_err(said)?;
        let mut received = Vec::new();
        loop {
            match self.parse(&received, &at)? {
                Some(answer) => return answer,
                None if received.len() > MOST_ANSWER => {
                    return Err(Fault::lasting(format!("{at}: an answer without end")));
                }
                None => {}
            }
            match wire.read_buf(&mut received).await {
                Ok(0) => break,
                Ok(_) => {}
                // Interfaces close without the end of TLS; what was received says if it is whole.
                Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(said(error)),
            }
        }
        let cut = || Fault::passing(format!("{at}: the answer was cut off").into());
        let (head, body) = head_of(&received, &at)?.ok_or_else(cut)?;
        if head.framing != Framing::Close {
            return Err(cut());
        }
        head.judge(body, &at)
    }

    fn head(&self, ask: &Ask<'_>) -> Vec<u8> {
        let Ask { method, path, credentials, body } = ask;
        let host = self.name.clone().unwrap_or_else(|| self.address.to_string());
        let body = body.as_ref().map(Value::to_string);
        let more = body.as_ref().map_or_else(String::new, |body| {
            format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
        });
        let body = body.unwrap_or_default();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: halfwink\r\n\
             Accept: application/json\r\nConnection: close\r\n{credentials}\r\n{more}\r\n{body}"
        )
        .into_bytes()
    }

    /// Returns the answer, once all of it is there.
    fn parse(&self, received: &[u8], at: &str) -> Result<Option<Result<Value, Fault>>, Fault> {
        let Some((head, rest)) = head_of(received, at)? else { return Ok(None) };
        let (mut decoder, mut body) = (Decoder::new(head.framing), Vec::new());
        if head.framing == Framing::Close {
            return Ok(None);
        }
        let mut input = Buffer::of(rest);
        decoder
            .take(&mut input, MOST_ANSWER, |piece| body.extend_from_slice(piece))
            .map_err(|_| Fault::lasting(format!("{at}: no body as HTTP has it")))?;
        Ok(decoder.is_done().then(|| head.judge(&body, at)))
    }

    async fn connect(&self) -> Result<Box<dyn Wire>, Fault> {
        let said = |error| Fault::passing(Unwell::at(&self.address, error));
        let stream = TcpStream::connect(self.address).await.map_err(said)?;
        if self.plain {
            return Ok(Box::new(stream));
        }
        let name = match &self.name {
            Some(name) => ServerName::try_from(name.clone()).map_err(|e| e.to_string()),
            None => Ok(ServerName::from(self.address.ip())),
        };
        let name = name.map_err(Fault::lasting)?;
        let config = self.tls().map_err(Fault::lasting)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        match stream {
            Ok(stream) => Ok(Box::new(stream)),
            // TLS reports a certificate that it does not trust as wrong data.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                Err(Fault::lasting(format!("{}: {error}", self.address)))
            }
            Err(error) => Err(said(error)),
        }
    }

    fn tls(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13, &version::TLS12])
            .map_err(|e| e.to_string())?;
        if let Some(path) = &self.ca_file {
            let roots = authorities(path)?;
            return Ok(builder.with_root_certificates(roots).with_no_client_auth());
        }
        // No authority signs what most BMCs come with, so one certificate is trusted by itself.
        let sha256 = self.fingerprint.as_deref().and_then(digest_of);
        let sha256 = sha256.ok_or("no certificate can be checked")?;
        let pinned = Arc::new(Pinned { sha256, provider });
        Ok(builder.dangerous().with_custom_certificate_verifier(pinned).with_no_client_auth())
    }
}

/// Reads the certificates of authorities.
pub(super) fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let said = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|e| said(&e))? {
        roots.add(certificate.map_err(|e| said(&e))?).map_err(|e| said(&e))?;
    }
    if roots.is_empty() {
        return Err(said(&"no certificate, expected one in PEM"));
    }
    Ok(roots)
}

/// Reads 64 hexadecimal digits, with or without colons between pairs.
fn digest_of(text: &str) -> Option<[u8; 32]> {
    let digits: Vec<u8> = text.bytes().filter(|b| *b != b':').collect();
    let mut digest = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |b: u8| char::from(b).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(digest)
}

/// Head of an answer.
struct Head {
    status: u16,
    framing: Framing,
    retry_after: Option<Duration>,
}

/// Reads the head of an answer, and what comes after it; none if it is not all there.
fn head_of<'a>(received: &'a [u8], at: &str) -> Result<Option<(Head, &'a [u8])>, Fault> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let mut response = httparse::Response::new(&mut fields);
    let end = match response.parse(received) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) if received.len() < MOST_HEAD => return Ok(None),
        _ => return Err(Fault::lasting(format!("{at}: no answer as HTTP has it"))),
    };
    let status = response.code.unwrap_or_default();
    let field = |name: &str| {
        let found = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        found.and_then(|field| std::str::from_utf8(field.value).ok()).map(str::trim)
    };
    let framing = match (field("transfer-encoding"), field("content-length")) {
        _ if status == 204 || status == 304 => Framing::None,
        (Some(_), _) => Framing::Chunked,
        (None, Some(length)) => Framing::Length(length.parse().map_err(|_| {
            Fault::lasting(format!("{at}: found length {length:?}, expected a number"))
        })?),
        (None, None) => Framing::Close,
    };
    // A date in place of seconds gets the driver's own pause.
    let retry_after = field("retry-after").and_then(|text| text.parse().ok());
    let retry_after = retry_after.map(Duration::from_secs);
    Ok(Some((Head { status, framing, retry_after }, &received[end..])))
}

impl Head {
    /// Returns the body of a success; for all else, whether the request is sent again.
    fn judge(&self, body: &[u8], at: &str) -> Result<Value, Fault> {
        let again = match self.status {
            200..300 if body.is_empty() => return Ok(Value::Null),
            200..300 => {
                return serde_json::from_slice(body)
                    .map_err(|e| Fault::lasting(format!("{at}: expected JSON: {e}")));
            }
            401 => Again::Once,
            429 | 503 => self.retry_after.map_or(Again::Soon, Again::After),
            408 | 409 | 500 | 502 | 504 => Again::Soon,
            _ => Again::Never,
        };
        let why = format!("{at}: status {}{}", self.status, message(body));
        Err(Fault { why: Unwell::Machine(why), again })
    }
}

/// Returns what an answer says of its failure: `message` as Kubernetes and Redfish have it.
fn message(body: &[u8]) -> String {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let found = value["message"].as_str().or_else(|| value["error"]["message"].as_str());
    let text: String = found.unwrap_or_default().chars().take(160).collect();
    if text.is_empty() {
        text
    } else {
        format!(": {text}")
    }
}

/// Trusts one certificate, by its digest.
#[derive(Debug)]
struct Pinned {
    sha256: [u8; 32],
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let suite = crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13();
        let suite = suite.ok_or_else(|| Error::General("no SHA-256".to_owned()))?;
        let found = suite.common.hash_provider.hash(end_entity);
        if found.as_ref() == self.sha256 {
            return Ok(ServerCertVerified::assertion());
        }
        let hex: String = found.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Err(Error::General(format!("found a certificate of fingerprint {hex}, expected another")))
    }

    // The server has to hold the key of the pinned certificate, as of any other.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
