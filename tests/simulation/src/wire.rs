//! How clients meet the network: a connector, the stream that it gives them, and the task that
//! lets the network's time pass.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_client::{Connecting, Connector, Host, Transport};
use zk_embedded::ConnectionId;

use super::network::{Party, Reception, Shared};

/// Connects one party.
pub(super) struct Dialer {
    pub(super) world: Shared,
    pub(super) party: Party,
}

impl Connector for Dialer {
    fn connect<'a>(&'a self, _: &'a Host) -> Connecting<'a> {
        Box::pin(async {
            let (reception, latency) = self.world.lock().unwrap().dial(self.party);
            tokio::time::sleep(latency).await;
            match reception {
                Reception::Accept => {
                    let id = self.world.lock().unwrap().connect(self.party);
                    let plug = Plug { world: Arc::clone(&self.world), id };
                    Ok(Box::new(plug) as Box<dyn Transport>)
                }
                Reception::Refuse => Err(io::ErrorKind::ConnectionRefused.into()),
                Reception::Ignore => std::future::pending().await,
            }
        })
    }
}

/// A client's end of a connection.
struct Plug {
    world: Shared,
    id: ConnectionId,
}

impl AsyncRead for Plug {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.world.lock().unwrap().poll_read(self.id, cx, into).map(Ok)
    }
}

impl AsyncWrite for Plug {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(self.world.lock().unwrap().write(self.id, bytes)))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        self.world.lock().unwrap().leave_client(self.id);
    }
}

/// Lets happen what is due, for ever.
pub(super) async fn pump(world: Shared) {
    let mut alarm = pin!(tokio::time::sleep(Duration::ZERO));
    poll_fn(|cx| {
        while let Some(next) = world.lock().unwrap().poll_turn(cx) {
            alarm.as_mut().reset(next.into());
            if alarm.as_mut().poll(cx).is_pending() {
                break;
            }
        }
        Poll::Pending
    })
    .await
}
