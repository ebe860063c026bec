//! Transports: a session runs over any stream of bytes, and a connector opens one to a server.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::config::Host;
use crate::net::lookup;
use crate::random::entropy;

/// A connection to a server: anything that tokio can read from and write to.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// The future that [`Connector::connect`] returns.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send + 'a>>;

/// Makes connections, one for every attempt at a server.
///
/// Implement it to go through a proxy, to encrypt, to record frames or to test without a network.
/// If nothing needs to be awaited, a closure from [`Host`] to a transport is enough; the type of
/// its argument must be written out:
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

/// Why no connection to a server is possible with these settings: it would refuse the next attempt,
/// too.
///
/// A connector puts it into its [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct PermanentRefusal(pub(crate) String);

impl PermanentRefusal {
    /// Whether `error` contains a permanent refusal.
    pub(crate) fn is_in(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|source| source.is::<Self>())
    }
}

/// How long one of several addresses of a name may take, so that a dead address leaves time for the
/// others.
const ADDRESS_TIMEOUT: Duration = Duration::from_millis(500);

/// Connects by plain TCP, without Nagle's delay.
///
/// The name is resolved anew at every attempt, so the client finds a server that has moved. That
/// runs on a thread of its own, for which no end of a runtime waits. If the name has several
/// addresses, they are tried in turn, beginning with a random one, for half a second each.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "it has nothing to set")]
pub struct TcpConnector;

impl Connector for TcpConnector {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            let mut addresses = lookup::addresses(host).await?;
            // A server that accepts connections and does not serve must not keep the others from
            // being tried.
            let first = entropy() % addresses.len().max(1) as u64;
            addresses.rotate_left(first as usize);
            let mut failures = match first_of(addresses, TcpStream::connect).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Box::new(stream) as Box<dyn Transport>);
                }
                Err(failures) => failures,
            };
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

/// Connects to the first of these addresses that accepts, tried in turn. Otherwise returns the
/// error of each.
async fn first_of<S, D>(
    addresses: Vec<SocketAddr>,
    dial: impl Fn(SocketAddr) -> D,
) -> Result<S, Vec<(SocketAddr, io::Error)>>
where
    D: Future<Output = io::Result<S>>,
{
    let mut addresses = addresses.into_iter().peekable();
    let mut failures = Vec::new();
    while let Some(address) = addresses.next() {
        let dialing = dial(address);
        let dialed = match addresses.peek() {
            Some(_) => tokio::time::timeout(ADDRESS_TIMEOUT, dialing).await,
            None => Ok(dialing.await),
        };
        match dialed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => return Ok(stream),
            Err(error) => failures.push((address, error)),
        }
    }
    Err(failures)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Mutex;

    use tokio::net::TcpSocket;

    use super::*;

    const REFUSED: io::ErrorKind = io::ErrorKind::ConnectionRefused;

    /// The addresses of `localhost` on many machines, and one more.
    fn addresses() -> Vec<SocketAddr> {
        ["[::1]:2181", "127.0.0.1:2181", "127.0.0.2:2181"].map(|it| it.parse().unwrap()).into()
    }

    #[tokio::test]
    async fn an_address_that_refuses_leaves_the_name_to_the_next() {
        let bind = || {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            let address = socket.local_addr().unwrap();
            (socket, address)
        };
        // The port is bound, but not listened on.
        let (_silent, refusing) = bind();
        let (socket, serving) = bind();
        let _listener = socket.listen(1).unwrap();
        for addresses in [vec![refusing, serving], vec![serving, refusing]] {
            let stream = first_of(addresses, TcpStream::connect).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), serving);
        }
        let failures = first_of(vec![refusing], TcpStream::connect).await.unwrap_err();
        assert_eq!(failures.len(), 1);
        assert_eq!((failures[0].0, failures[0].1.kind()), (refusing, REFUSED));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_silent_takes_half_a_second_of_the_others_time() {
        let addresses = addresses();
        let last = addresses[2];
        let dial =
            |address| async move { if address == last { Ok(address) } else { pending().await } };
        let dialing = first_of(addresses, dial);
        let dialed = tokio::time::timeout(ADDRESS_TIMEOUT * 2 + ADDRESS_TIMEOUT / 10, dialing);
        assert_eq!(dialed.await.expect("it asks the others").unwrap(), last);
    }

    /// The caller of the connector limits the attempt as a whole.
    #[tokio::test(start_paused = true)]
    async fn the_last_address_has_all_of_the_time() {
        let slow = |address| async move {
            tokio::time::sleep(ADDRESS_TIMEOUT * 10).await;
            Ok(address)
        };
        assert_eq!(first_of(addresses(), slow).await.unwrap(), addresses()[2]);
    }

    #[tokio::test(start_paused = true)]
    async fn every_address_is_asked_once_and_told_with_its_reason() {
        let asked = Mutex::new(Vec::new());
        let dial = |address: SocketAddr| {
            asked.lock().unwrap().push(address);
            async move {
                if address.is_ipv6() {
                    pending::<io::Result<()>>().await
                } else {
                    Err(REFUSED.into())
                }
            }
        };
        let dialed = tokio::time::timeout(ADDRESS_TIMEOUT * 2, first_of(addresses(), dial)).await;
        let failures = dialed.expect("it gives up").unwrap_err();
        assert_eq!(*asked.lock().unwrap(), addresses());
        let told: Vec<_> = failures.iter().map(|(address, why)| (*address, why.kind())).collect();
        let reasons = [io::ErrorKind::TimedOut, REFUSED, REFUSED];
        assert_eq!(told, addresses().into_iter().zip(reasons).collect::<Vec<_>>());
    }
}
