//! TLS for clients.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{crypto, version, ServerConfig};
use tokio_rustls::TlsAcceptor;

use super::config::Tls;

/// Takes certificate and key from their files; offers HTTP/2 and HTTP/1.1.
///
/// # Errors
/// The file, and what is wrong with it.
pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor, String> {
    let said = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let certificates: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&tls.cert)
        .and_then(Iterator::collect)
        .map_err(|e| said(&tls.cert, &e))?;
    if certificates.is_empty() {
        return Err(said(&tls.cert, &"no certificate, expected one in PEM"));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|e| said(&tls.key, &e))?;
    let provider = Arc::new(crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|e| said(&tls.key, &e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
