//! Encrypted connections: they are accepted and decrypted here, and served like all others.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use zk_embedded::Server;

use crate::failure::Failure;
use crate::options::Tls;

/// How long a client may take for the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait before accepting again after accepting a connection has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A port for encrypted connections.
pub(crate) struct Listener {
    listener: TcpListener,
    address: SocketAddr,
    acceptor: TlsAcceptor,
}

/// Reads the files and binds the port.
pub(crate) async fn listen(host: IpAddr, tls: &Tls) -> Result<Listener, Failure> {
    let acceptor = TlsAcceptor::from(Arc::new(config(tls)?));
    let what = format!("cannot listen on {host}:{}", tls.port);
    let listener = TcpListener::bind((host, tls.port)).await;
    let listener = listener.map_err(|error| Failure::of(&what, error))?;
    let address = listener.local_addr().map_err(|error| Failure::of(&what, error))?;
    Ok(Listener { listener, address, acceptor })
}

fn config(tls: &Tls) -> Result<ServerConfig, Failure> {
    let key =
        PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| unreadable(&tls.key, error))?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Failure::of("no version of TLS", error))?;
    let builder = match &tls.client_authorities {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root).map_err(|error| unreadable(path, error))?;
            }
            let roots = Arc::new(roots);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| unreadable(path, error))?)
        }
    };
    let shown = certificates(&tls.certificates)?;
    let config = builder.with_single_cert(shown, key);
    config.map_err(|error| Failure::of("the certificate and its key do not fit", error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Failure> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let certificates: Vec<_> = certificates.map_err(|error| unreadable(path, error))?;
    if certificates.is_empty() {
        return Err(unreadable(path, "there is no certificate in it"));
    }
    Ok(certificates)
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::of(&format!("cannot use {}", path.display()), why)
}

impl Listener {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves connections until it is dropped.
    pub(crate) async fn accept(self, server: Arc<Server>) {
        let mut connections = JoinSet::new();
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    while connections.try_join_next().is_some() {}
                    // It may not be possible, and only makes replies quicker.
                    drop(stream.set_nodelay(true));
                    let (acceptor, server) = (self.acceptor.clone(), Arc::clone(&server));
                    connections.spawn(async move {
                        let accepted = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
                        // The handshake has told a client that is refused.
                        if let Ok(Ok(stream)) = accepted {
                            let serving = server.serve(stream, peer);
                            drop(server);
                            serving.await;
                        }
                    });
                }
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}
