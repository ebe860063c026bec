//! What goes into a session and comes out of it, besides bytes and time.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use zk_proto::Zxid;

use crate::error::{Failure, Hangup};
use crate::model::event::{Change, SessionState, StreamEvent};
use crate::session::watches::path_watches::{CallerHandle, WatchKind};

/// A successful reply.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RawReply {
    /// The zxid of the write, or for reads the last one that the server had applied. 0 for a create
    /// or a multi where that is not the [czxid](crate::Dialect::zxids_of_creates) of the node.
    pub zxid: Zxid,
    /// The reply's record, undecoded.
    pub body: Bytes,
    /// When the request was handed to the transport.
    ///
    /// For a create whose reply was lost, this is the time of the request that found the node.
    pub requested_at: Instant,
}

/// The record may hold a node's data, so its length alone is shown.
impl fmt::Debug for RawReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zxid, body, requested_at } = self;
        let mut shown = f.debug_struct("RawReply");
        shown.field("zxid", zxid).field("bytes", &body.len()).field("requested_at", requested_at);
        shown.finish()
    }
}

/// What a session reports to its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<T, W, S = W> {
    /// A request is over. Exactly one of these comes for every request that was accepted and not
    /// [withdrawn](crate::session::Session::withdraw).
    Completed {
        /// The caller's token.
        token: T,
        /// The result of the request.
        result: Result<RawReply, Failure>,
        /// The zxid of the server's reply, also of a refusal.
        ///
        /// For a write this is its transaction, for reads the last one that the server had applied.
        /// `None` if there was no reply, if the reply was too large, or if its zxid is not that of
        /// a transaction.
        zxid: Option<Zxid>,
    },
    /// A one-shot watch has fired and is gone.
    WatchFired {
        /// The caller's watcher.
        watcher: W,
        /// The path that the watch was set with.
        path: Arc<str>,
        /// What happened there.
        change: Change,
    },
    /// A one-shot watch is gone without an event.
    ///
    /// Its request failed, it was removed, or the session is over. Every watcher that was
    /// accepted comes back exactly once, like this or as `WatchFired`.
    WatchRemoved {
        /// The caller's watcher.
        watcher: W,
    },
    /// A stream has an event. This comes before every reply that reflects it.
    StreamEvent {
        /// The caller's stream.
        stream: S,
        /// What happened. The session itself never reports [`StreamEvent::Lagged`].
        event: StreamEvent,
    },
    /// A stream is over.
    ///
    /// Its request failed, it was removed, or the session is over. This comes exactly once for
    /// every stream that was accepted, after all its events.
    StreamClosed {
        /// The caller's stream.
        stream: S,
    },
    /// The session's state changed.
    State(SessionState),
    /// Leases have lapsed, were suspended or became valid.
    ///
    /// [`lease_state`](crate::session::Session::lease_state) returns the state of each.
    Leases,
    /// The transport must be dropped.
    ///
    /// Then call [`handle_disconnected`](crate::session::Session::handle_disconnected).
    Hangup(Hangup),
}

impl<T, W, S> From<CallerHandle<W, S>> for Event<T, W, S> {
    fn from(returned: CallerHandle<W, S>) -> Self {
        match returned {
            CallerHandle::Once(watcher) => Self::WatchRemoved { watcher },
            CallerHandle::Stream(stream) => Self::StreamClosed { stream },
        }
    }
}

/// A watch to be set by a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by callers, field by field")]
pub struct Watch<W> {
    /// What the request will watch.
    ///
    /// With [`WatchKind::Exist`] that depends on the reply: the data of a node that exists, or the
    /// creation of one that does not.
    pub kind: WatchKind,
    /// The path, as the server names it.
    pub path: Arc<str>,
    /// What comes back with the event.
    pub watcher: W,
}
