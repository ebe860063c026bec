//! What goes into a session and comes out of it, beside bytes and time.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use zk_proto::Zxid;

use crate::error::{Failure, Hangup};
use crate::model::event::{Change, SessionState, StreamEvent};
use crate::session::watches::one_shots::WatchKind;
use crate::session::watches::path_watches::Returned;

/// A successful reply.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The write's transaction, or for reads the last one that the server had applied.
    pub zxid: Zxid,
    /// The reply's record, undecoded.
    pub body: Bytes,
    /// When the request was handed to the transport. For a create whose answer was lost, when the
    /// request was that found the node.
    pub requested_at: Instant,
}

/// The record may hold a node's data, so its length alone is shown.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zxid, body, requested_at } = self;
        let mut shown = f.debug_struct("Answer");
        shown.field("zxid", zxid).field("bytes", &body.len()).field("requested_at", requested_at);
        shown.finish()
    }
}

/// What a session has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<T, W, S = W> {
    /// A request is over. Exactly one of these comes for every request that was accepted.
    Completed {
        /// The caller's.
        token: T,
        /// How it went.
        result: Result<Answer, Failure>,
        /// What the server stamped its answer with, be it a refusal: the zxid of a write, or for
        /// reads the last one that the server had applied. `None` if it gave no answer, or none
        /// that tells of a transaction.
        zxid: Option<Zxid>,
    },
    /// A one-shot watch has fired and is gone.
    WatchFired {
        /// The caller's.
        watcher: W,
        /// The path that the watch was set with.
        path: Arc<str>,
        /// What it saw there.
        change: Change,
    },
    /// A watch is gone without an event: its request failed, it was forgotten, or the session is
    /// over. Every watcher that was accepted comes back exactly once, like this or as `WatchFired`.
    WatchRemoved {
        /// The caller's.
        watcher: W,
    },
    /// A stream has something to tell. This comes before every reply that reflects it.
    StreamEvent {
        /// The caller's.
        stream: S,
        /// What happened; the session itself never says [`StreamEvent::Lagged`].
        event: StreamEvent,
    },
    /// A stream is over: its request failed, it was forgotten, or the session is over. This comes
    /// exactly once for every stream that was accepted, behind all that it is told.
    StreamClosed {
        /// The caller's.
        stream: S,
    },
    /// The session's state changed.
    State(SessionState),
    /// Leases have lapsed, were suspended or became valid:
    /// [`lease_state`](crate::session::Session::lease_state) tells which.
    Leases,
    /// The transport must be dropped, and
    /// [`handle_disconnected`](crate::session::Session::handle_disconnected) called.
    Hangup(Hangup),
}

impl<T, W, S> From<Returned<W, S>> for Event<T, W, S> {
    fn from(returned: Returned<W, S>) -> Self {
        match returned {
            Returned::Once(watcher) => Self::WatchRemoved { watcher },
            Returned::Stream(stream) => Self::StreamClosed { stream },
        }
    }
}

/// A watch to be set by a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built by callers, field by field")]
pub struct Watch<W> {
    /// What the request will watch. With [`WatchKind::Exist`] that depends on the answer: the data
    /// of a node that is there, the creation of one that is not.
    pub kind: WatchKind,
    /// The path, as the server names it.
    pub path: Arc<str>,
    /// What comes back with the event.
    pub watcher: W,
}
