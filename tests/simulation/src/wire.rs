//! The interface between clients and a network: a connector, the stream that it returns, and the
//! task that advances the network.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_client::{Connecting, Connector, Host, Transport};

/// The result of an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// There is a connection.
    Accept,
    /// The attempt fails.
    Refuse,
    /// The attempt gets no reply.
    Ignore,
}

/// Carries bytes between clients and servers, on virtual time.
pub trait Network: Send + 'static {
    /// A client.
    type Party: Copy + Send + Sync + 'static;

    /// One connection.
    type Link: Copy + Send + Sync + Unpin;

    /// Draws the result of an attempt to connect, and how long it takes.
    fn dial(&mut self, party: Self::Party, host: &Host) -> (Reception, Duration);

    /// Opens a connection of a client.
    fn connect(&mut self, party: Self::Party, host: &Host) -> Self::Link;

    /// Reads for a client: nothing at the end.
    fn poll_read(&mut self, link: Self::Link, cx: &Context<'_>, into: &mut ReadBuf<'_>)
    -> Poll<()>;

    /// Writes for a client. Returns how many bytes were accepted, which may not be all.
    fn write(&mut self, link: Self::Link, bytes: &[u8]) -> usize;

    /// The client drops its end.
    fn leave_client(&mut self, link: Self::Link);

    /// Does everything that is due. Returns when something is due next. The caller calls again when
    /// that has changed.
    fn poll_turn(&mut self, cx: &Context<'_>) -> Option<Instant>;
}

/// Connects one party.
#[derive(Debug)]
pub struct Dialer<N: Network> {
    /// The network of all clients.
    pub network: Arc<Mutex<N>>,
    /// The client that connects.
    pub party: N::Party,
}

impl<N: Network> Connector for Dialer<N> {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            let (reception, latency) = self.network.lock().unwrap().dial(self.party, host);
            tokio::time::sleep(latency).await;
            match reception {
                Reception::Accept => {
                    let link = self.network.lock().unwrap().connect(self.party, host);
                    let plug = Plug { network: Arc::clone(&self.network), link };
                    Ok(Box::new(plug) as Box<dyn Transport>)
                }
                Reception::Refuse => Err(io::ErrorKind::ConnectionRefused.into()),
                Reception::Ignore => std::future::pending().await,
            }
        })
    }
}

/// A client's end of a connection.
struct Plug<N: Network> {
    network: Arc<Mutex<N>>,
    link: N::Link,
}

impl<N: Network> AsyncRead for Plug<N> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.network.lock().unwrap().poll_read(self.link, cx, into).map(Ok)
    }
}

impl<N: Network> AsyncWrite for Plug<N> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(self.network.lock().unwrap().write(self.link, bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl<N: Network> Drop for Plug<N> {
    fn drop(&mut self) {
        self.network.lock().unwrap().leave_client(self.link);
    }
}

/// Does everything that is due, for ever.
pub async fn pump<N: Network>(network: Arc<Mutex<N>>) {
    let mut alarm = pin!(tokio::time::sleep(Duration::ZERO));
    poll_fn(|cx| {
        while let Some(next) = network.lock().unwrap().poll_turn(cx) {
            alarm.as_mut().reset(next.into());
            if alarm.as_mut().poll(cx).is_pending() {
                break;
            }
        }
        Poll::Pending
    })
    .await
}
