//! Encrypted connections: a connector that runs TLS over the connections of another connector.
//!
//! Certificates and keys are read again for every connection, so replaced files are used without a
//! restart or a call. This folder knows nothing of sessions; a handshake that fails is a failed
//! attempt at a server like any other.

/// What a user sets: roots, certificate, key, the server's name.
pub(crate) mod options;

/// The words of TLS errors, and which errors are permanent.
mod error_text;

/// The check of a certificate whose name does not matter.
mod any_name;

/// The certificates and the key, as they were last read.
mod material;

/// The encrypted stream.
mod stream;

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tokio_rustls::rustls::pki_types::ServerName as PeerName;

use crate::config::Host;
use crate::error::{Cause, Error};
use crate::net::tls::error_text::{TlsPhase, explain};
use crate::net::tls::material::Identity;
use crate::net::tls::stream::Encrypted;
use crate::net::transport::{Connecting, Connector, PermanentRefusal, TcpConnector, Transport};

pub use self::options::{Pem, ServerName, TlsOptions};

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
        let invalid = |problem: String| Cause::Setting(format!("TLS: {problem}"));
        if let ServerName::Expected(name) = &options.server_name {
            peer_name(name).map_err(invalid)?;
        }
        let identity = Arc::new(Identity::new(options).map_err(invalid)?);
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
                stream.map_err(|error| explain(error, TlsPhase::Handshake, shows_identity))?;
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

fn peer_name(name: &str) -> Result<PeerName<'static>, String> {
    let parsed = PeerName::try_from(name.to_owned());
    parsed.map_err(|_| format!("{name:?} is no name that a certificate can be for"))
}
