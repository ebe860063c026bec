//! What a session runs over: any stream of bytes, and how to get one to a server.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::config::Host;

/// A connection to a server: anything that tokio can read from and write to.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// What [`Connector::connect`] returns.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send + 'a>>;

/// Makes connections, one for every attempt at a server.
///
/// Implement it to go through a proxy, to encrypt, to record frames or to test without a network.
/// Where nothing is to be awaited, a closure from [`Host`] to a transport will do; it needs the
/// type of its argument spelt out:
///
/// ```
/// use zk_client::{Client, Host};
///
/// let (here, there) = tokio::io::duplex(1024);
/// let once = std::sync::Mutex::new(Some(here));
/// let builder = Client::builder().connector(move |_: &Host| {
///     let taken = once.lock().ok().and_then(|mut once| once.take());
///     taken.ok_or_else(|| std::io::ErrorKind::ConnectionRefused.into())
/// });
/// # drop((builder, there));
/// ```
///
/// ```
/// use zk_client::{Connecting, Connector, Host, TcpConnector};
///
/// /// Tells of every attempt.
/// struct Loud;
///
/// impl Connector for Loud {
///     fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
///         println!("trying {host}");
///         TcpConnector.connect(host)
///     }
/// }
/// ```
pub trait Connector: Send + Sync + 'static {
    /// Connects to `host`. The future is dropped when the attempt has taken too long.
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a>;
}

impl<F, T> Connector for F
where
    F: Fn(&Host) -> io::Result<T> + Send + Sync + 'static,
    T: Transport + 'static,
{
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        let made = self(host);
        Box::pin(async { Ok(Box::new(made?) as Box<dyn Transport>) })
    }
}

impl fmt::Debug for dyn Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// How long one of several addresses of a name may take, so that a dead one leaves time to the
/// others.
const ADDRESS_TIMEOUT: Duration = Duration::from_millis(500);

/// Plain TCP, without Nagle's delay. The name is looked up anew at every attempt, so a server that
/// moved is found. If it has several addresses, they are tried in turn from a random one on, for
/// half a second each.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it has nothing to set")]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            let host_and_port = (host.name.as_str(), host.port);
            let found = tokio::net::lookup_host(host_and_port).await?;
            let mut addresses = found.collect::<Vec<_>>();
            // A server that accepts and does not serve must not keep the others from being asked.
            let first = RandomState::new().build_hasher().finish() % addresses.len().max(1) as u64;
            addresses.rotate_left(first as usize);
            let mut addresses = addresses.into_iter().peekable();
            let mut failures = Vec::new();
            while let Some(address) = addresses.next() {
                let connecting = TcpStream::connect(address);
                let connected = match addresses.peek() {
                    Some(_) => tokio::time::timeout(ADDRESS_TIMEOUT, connecting).await,
                    None => Ok(connecting.await),
                };
                match connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                    Ok(stream) => {
                        stream.set_nodelay(true)?;
                        return Ok(Box::new(stream) as Box<dyn Transport>);
                    }
                    Err(error) => failures.push((address, error)),
                }
            }
            match failures.as_slice() {
                [] => Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address")),
                [(address, _)] if address.to_string() == host.to_string() => {
                    Err(failures.swap_remove(0).1)
                }
                [(_, first), ..] => {
                    let kind = first.kind();
                    let all = failures.iter().map(|(address, error)| format!("{address}: {error}"));
                    Err(io::Error::new(kind, all.collect::<Vec<_>>().join(", ")))
                }
            }
        })
    }
}
