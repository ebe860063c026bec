//! What clients have of a network: a connector, the stream that it returns, and the task that
//! advances the network.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_client::{Connecting, Connector, Host, Transport};
use zk_embedded::ConnectionId;

use crate::net::{Traffic, Wired};

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

/// Connects one party.
#[derive(Debug)]
pub struct Dialer<W: Wired> {
    /// The network of all clients.
    pub network: Arc<Mutex<W>>,
    /// The client that connects.
    pub party: W::Party,
}

impl<W: Wired> Connector for Dialer<W> {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            let (reception, latency) = self.network.lock().unwrap().dial(self.party);
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
struct Plug<W: Wired> {
    network: Arc<Mutex<W>>,
    link: ConnectionId,
}

impl<W: Wired> AsyncRead for Plug<W> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.network.lock().unwrap().poll_read(self.link, cx, into).map(Ok)
    }
}

impl<W: Wired> AsyncWrite for Plug<W> {
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

impl<W: Wired> Drop for Plug<W> {
    fn drop(&mut self) {
        self.network.lock().unwrap().leave_client(self.link);
    }
}

/// Does everything that is due, for ever.
pub async fn pump<W: Wired>(network: Arc<Mutex<W>>) {
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
