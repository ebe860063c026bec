//! Encrypted connections: a connector that runs TLS over the connections of another connector.
//!
//! Certificates and keys are read again for every connection, so replaced files are used without a
//! restart or a call. This folder knows nothing of sessions; a handshake that fails is a failed
//! attempt at a server like any other.

mod failure;

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::client::verify_server_cert_signed_by_trust_anchor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{
    CertificateDer, PrivateKeyDer, ServerName as PeerName, UnixTime,
};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tracing::{info, warn};

use crate::config::Host;
use crate::error::{Error, Fault};
use crate::net::tls::failure::{Moment, explain, flaw_of_ours};
use crate::net::transport::{Connecting, Connector, PermanentRefusal, TcpConnector, Transport};
use crate::trace;

/// Certificates or a key in PEM: the bytes, or a file that holds them.
#[derive(Clone, PartialEq, Eq)]
pub struct Pem(Source);

#[derive(Clone, PartialEq, Eq)]
enum Source {
    Bytes(Vec<u8>),
    File(PathBuf),
}

impl Pem {
    /// Uses bytes that stay the same.
    pub fn bytes(pem: impl Into<Vec<u8>>) -> Self {
        Self(Source::Bytes(pem.into()))
    }

    /// Uses a file, which is read again for every connection.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Source::File(path.into()))
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        match &self.0 {
            Source::Bytes(bytes) => Ok(bytes.clone()),
            Source::File(path) => {
                std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
            }
        }
    }
}

impl fmt::Debug for Pem {
    /// Shows the file name and nothing of the contents, which may be a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Bytes(_) => f.write_str("Pem(bytes)"),
            Source::File(path) => write!(f, "Pem({})", path.display()),
        }
    }
}

impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::Bytes(_) => f.write_str("bytes in PEM"),
            Source::File(path) => path.display().fmt(f),
        }
    }
}

/// Which name a server's certificate must be for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerName {
    /// The name or address of the connect string. The client makes no reverse lookups.
    #[default]
    Dialled,
    /// This name or address, whatever the connect string says: for servers behind a proxy, or
    /// servers that share one certificate.
    Expected(String),
    /// Any name or none. **Anyone who has a certificate that the trusted roots have signed can
    /// impersonate a server**, so these roots must have signed the servers' certificates and no
    /// others: use no public authority, and none that also signs the clients' certificates. This is
    /// for ensembles whose certificates do not name the addresses that clients connect to.
    /// Everything else is checked as usual.
    Any,
}

/// The roots that a client trusts and its own certificate, for [`TlsConnector::new`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "options do nothing until a connector is made of them"]
pub struct TlsOptions {
    roots: Pem,
    identity: Option<(Pem, Pem)>,
    server_name: ServerName,
}

impl TlsOptions {
    /// Trusts servers whose certificates come from these roots, and no others.
    ///
    /// The roots of the system and of the web are not trusted. The client shows no certificate of
    /// its own.
    pub fn new(roots: Pem) -> Self {
        Self { roots, identity: None, server_name: ServerName::default() }
    }

    /// Sets the client's certificate and private key, for servers that ask for them.
    ///
    /// The chain of certificates up to the root follows the client's own. The key is unencrypted,
    /// as PKCS #8, PKCS #1 or SEC 1. Certificates and key may be in one file.
    ///
    /// Servers ask by default (`ssl.clientAuth`). A server with the authentication provider for
    /// X.509 then identifies the client by the scheme `x509` and the certificate's subject, without
    /// [`add_auth`](crate::Client::add_auth).
    pub fn identity(self, certificates: Pem, key: Pem) -> Self {
        Self { identity: Some((certificates, key)), ..self }
    }

    /// Sets which name the servers' certificates must be for. Default: [`ServerName::Dialled`].
    pub fn server_name(self, server_name: ServerName) -> Self {
        Self { server_name, ..self }
    }
}

/// Makes encrypted connections, TLS 1.3 or 1.2, to servers at their `secureClientPort`.
///
/// Files are read again for every connection, and replaced files are used from the next connection
/// on. While the files cannot be used, for example when they are half written or the key does not
/// fit the certificate, the connector goes on with the last that could be used, and logs a warning.
/// Existing connections stay as they are.
///
/// A handshake that fails is a failed attempt: [`Error::attempts`] returns the reason for each
/// server. Some failures are permanent, such as a certificate that is not trusted. If every server
/// fails like that, [`connect`](crate::ClientBuilder::connect) does not wait for its timeout.
///
/// ```
/// # async fn f() -> Result<(), zk_client::Error> {
/// use zk_client::{Client, Pem, TlsConnector, TlsOptions};
///
/// let options = TlsOptions::new(Pem::file("/etc/zk/ca.pem"))
///     .identity(Pem::file("/etc/zk/client.pem"), Pem::file("/etc/zk/client.key"));
/// let client = Client::builder()
///     .connector(TlsConnector::new(options)?)
///     .connect("zk1.example:2281,zk2.example:2281,zk3.example:2281")
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct TlsConnector {
    inner: Arc<dyn Connector>,
    identity: Arc<Identity>,
}

impl TlsConnector {
    /// Makes a connector that runs TLS over TCP.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`](crate::ErrorKind::InvalidSetting): a file that cannot be read or contains
    /// nothing of its kind, a key that does not fit its certificate, or an expected name that is
    /// not valid.
    pub fn new(options: TlsOptions) -> Result<Self, Error> {
        let invalid = |problem: String| Fault::Setting(format!("TLS: {problem}"));
        if let ServerName::Expected(name) = &options.server_name {
            peer_name(name).map_err(invalid)?;
        }
        let material = Material::read(&options).map_err(invalid)?;
        let config = Arc::new(material.config(&options).map_err(invalid)?);
        let current = Mutex::new(Current { material, config, warned: None });
        let identity = Arc::new(Identity { options, current });
        Ok(Self { inner: Arc::new(TcpConnector), identity })
    }

    /// Runs TLS over the connections of another connector, for example through a proxy.
    pub fn over(self, connector: impl Connector) -> Self {
        Self { inner: Arc::new(connector), ..self }
    }
}

impl Connector for TlsConnector {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            let identity = Arc::clone(&self.identity);
            let config = tokio::task::spawn_blocking(move || identity.latest()).await?;
            let TlsOptions { server_name, identity, .. } = &self.identity.options;
            let name = match server_name {
                ServerName::Dialled => peer_name(&host.name),
                ServerName::Expected(name) => peer_name(name),
                // A string that is no valid name is not sent to the server either.
                ServerName::Any => Ok(peer_name(&host.name).unwrap_or_else(|_| {
                    PeerName::from(std::net::IpAddr::from(Ipv4Addr::UNSPECIFIED))
                })),
            };
            let name = name.map_err(|problem| {
                io::Error::new(io::ErrorKind::InvalidInput, PermanentRefusal(problem))
            })?;
            let io = self.inner.connect(host).await?;
            let connecting = tokio_rustls::TlsConnector::from(config).connect(name, io);
            let shows_identity = identity.is_some();
            let stream = connecting.await;
            let stream =
                stream.map_err(|error| explain(error, Moment::Handshake, shows_identity))?;
            Ok(Box::new(Encrypted { stream, shows_identity }) as Box<dyn Transport>)
        })
    }
}

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inner, identity } = self;
        f.debug_struct("TlsConnector")
            .field("options", &identity.options)
            .field("over", inner)
            .finish()
    }
}

/// The certificates that are shown and trusted, as they were last read.
struct Identity {
    options: TlsOptions,
    current: Mutex<Current>,
}

struct Current {
    material: Material,
    /// Kept while the material is the same, since it remembers data of the servers.
    config: Arc<ClientConfig>,
    /// The problem that was last logged, while it persists.
    warned: Option<String>,
}

impl Identity {
    /// The configuration that the files give now, or the last one that could be used.
    fn latest(&self) -> Arc<ClientConfig> {
        let read = Material::read(&self.options);
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let problem = match read {
            Ok(material) if material == current.material => None,
            Ok(material) => match material.config(&self.options) {
                Ok(config) => {
                    info!(target: trace::CONNECTION, "certificates replaced");
                    (current.material, current.config) = (material, Arc::new(config));
                    None
                }
                Err(problem) => Some(problem),
            },
            Err(problem) => Some(problem),
        };
        if let Some(problem) = &problem
            && current.warned.as_ref() != Some(problem)
        {
            warn!(target: trace::CONNECTION, problem, "certificates kept");
        }
        current.warned = problem;
        Arc::clone(&current.config)
    }
}

/// The bytes of all files that were read.
#[derive(PartialEq, Eq)]
struct Material {
    roots: Vec<u8>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Material {
    fn read(options: &TlsOptions) -> Result<Self, String> {
        let TlsOptions { roots, identity, server_name: _ } = options;
        let identity = identity
            .as_ref()
            .map(|(certificates, key)| Ok::<_, String>((certificates.read()?, key.read()?)));
        Ok(Self { roots: roots.read()?, identity: identity.transpose()? })
    }

    /// The configuration of rustls for this material; `options` name its sources.
    fn config(&self, options: &TlsOptions) -> Result<ClientConfig, String> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in certificates(&self.roots, &options.roots)? {
            let added = roots.add(root);
            added.map_err(|error| format!("{}: {}", options.roots, flaw_of_ours(&error)))?;
        }
        let roots = Arc::new(roots);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match options.server_name {
            ServerName::Dialled | ServerName::Expected(_) => {
                let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider);
                builder.with_webpki_verifier(verifier.build().map_err(|error| error.to_string())?)
            }
            ServerName::Any => {
                let verifier = Arc::new(AnyName { roots, provider });
                builder.dangerous().with_custom_certificate_verifier(verifier)
            }
        };
        match (&self.identity, &options.identity) {
            (Some((shown, key)), Some((from, key_from))) => {
                let shown = certificates(shown, from)?;
                let key = PrivateKeyDer::from_pem_slice(key)
                    .map_err(|error| format!("{key_from}: no private key: {error}"))?;
                let config = builder.with_client_auth_cert(shown, key);
                config.map_err(|error| format!("{from} and {key_from}: {}", flaw_of_ours(&error)))
            }
            _ => Ok(builder.with_no_client_auth()),
        }
    }
}

/// Parses at least one certificate.
fn certificates(pem: &[u8], from: &Pem) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| format!("{from}: {error}"))?;
    if certificates.is_empty() {
        return Err(format!("{from}: no certificate in it"));
    }
    Ok(certificates)
}

fn peer_name(name: &str) -> Result<PeerName<'static>, String> {
    let parsed = PeerName::try_from(name.to_owned());
    parsed.map_err(|_| format!("{name:?} is no name that a certificate can be for"))
}

/// Checks everything in a certificate except its name.
#[derive(Debug)]
struct AnyName {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &PeerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        let Self { roots, .. } = self;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            roots,
            intermediates,
            now,
            algorithms,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The encrypted stream, whose errors explain what is wrong.
struct Encrypted {
    stream: TlsStream<Box<dyn Transport>>,
    /// Whether the client has a certificate to show.
    shows_identity: bool,
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer).map(|read| match read {
            // Frames carry their length, so a stream that ends without TLS's closing message does
            // no harm.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            read => read.map_err(|error| explain(error, Moment::Later, self.shows_identity)),
        })
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
