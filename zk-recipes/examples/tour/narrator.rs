//! Listens to the connections of one contender, and can do to them what networks do.
//!
//! A connector that hands out connections and listens to both directions. It needs nothing but the
//! public interface of the client, and does not know what the frames mean: that is the [`Story`].

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use zk_client::{Connecting, Connector, Host, Transport};

use crate::stage::Stage;
use crate::story::Story;

/// Makes connections that tell what passes over them. Clones are one narrator.
#[derive(Clone)]
pub(crate) struct Narrator {
    told: Arc<Mutex<Told>>,
    network: Arc<dyn Connector>,
    waiting: watch::Receiver<bool>,
}

struct Told {
    story: Story,
    waiting: watch::Sender<bool>,
    /// Nothing passes, in either direction.
    stopped: bool,
    /// Who would like to be told when it does again.
    wakers: Vec<Waker>,
}

impl Narrator {
    /// Connects by `network`.
    pub(crate) fn new(name: &'static str, stage: Stage, network: Arc<dyn Connector>) -> Self {
        let (told, waiting) = watch::channel(false);
        let (stopped, wakers) = (false, Vec::new());
        let told = Told { story: Story::new(name, stage), waiting: told, stopped, wakers };
        Self { told: Arc::new(Mutex::new(told)), network, waiting }
    }

    /// Returns once the contender has a node in the queue and nothing left to do but wait.
    pub(crate) async fn waits(&self) -> Result<(), watch::error::RecvError> {
        self.waiting.clone().wait_for(|waiting| *waiting).await.map(drop)
    }

    /// From now on frames pass untold.
    pub(crate) fn quiet(&self) {
        self.told().story.tell(false);
    }

    /// Frames are told again.
    pub(crate) fn loud(&self) {
        self.told().story.tell(true);
    }

    /// From now on each frame says which folder it is about.
    pub(crate) fn name_folders(&self) {
        self.told().story.name_folders();
    }

    /// The next create is carried out, but its reply is lost, and the connection breaks.
    pub(crate) fn lose_reply_of_create(&self) {
        self.told().story.lose_reply_of_create();
    }

    /// From now on nothing passes, as with a process that is stopped.
    pub(crate) fn stop(&self) {
        self.told().stopped = true;
    }

    /// Things pass again.
    pub(crate) fn go_on(&self) {
        let mut told = self.told();
        told.stopped = false;
        told.wakers.drain(..).for_each(Waker::wake);
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connector for Narrator {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            let io = self.network.connect(host).await?;
            self.told().story.connecting();
            let (sent, received) = (BytesMut::new(), BytesMut::new());
            Ok(Box::new(Tap { io, sent, received, narrator: self.clone() }) as Box<dyn Transport>)
        })
    }
}

/// A connection with an ear on it.
struct Tap {
    io: Box<dyn Transport>,
    sent: BytesMut,
    received: BytesMut,
    narrator: Narrator,
}

impl Told {
    fn poll_passes(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.stopped {
            self.wakers.push(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    fn heard(&self) {
        let now = self.story.waits();
        self.waiting.send_if_modified(|before| std::mem::replace(before, now) != now);
    }
}

impl AsyncRead for Tap {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut told = this.narrator.told();
        ready!(told.poll_passes(cx));
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        this.received.extend_from_slice(buf.filled().get(before..).unwrap_or_default());
        told.story.hear(&mut this.received, Story::received);
        if told.story.is_cut() {
            // Nothing more to read: the end of the connection.
            buf.set_filled(before);
        }
        told.heard();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut told = this.narrator.told();
        ready!(told.poll_passes(cx));
        let n = ready!(Pin::new(&mut this.io).poll_write(cx, buf))?;
        this.sent.extend_from_slice(buf.get(..n).unwrap_or_default());
        told.story.hear(&mut this.sent, Story::sent);
        told.heard();
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}
