//! The handle itself, and the helpers that its methods are written with.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;
use zk_proto::{OpCode, Operation};

use crate::driver::reply_slot::{Completion, ReplyReceiver};
use crate::driver::shared_session::{Core, SharedSession};
use crate::error::{Error, Rejected};
use crate::handles::reply::{Call, Reply};
use crate::handles::watcher::Watcher;
use crate::model::path::Chroot;
use crate::session::{Watch, WatchKind};

/// A session with a ZooKeeper ensemble.
///
/// Clones share the session. When the last clone and the last [`OwnedNode`](crate::OwnedNode) are
/// dropped, the session is closed in the background; [`close`](Client::close) closes it and waits.
/// End a program with that: at the end of `main` the runtime ends, and its background tasks with
/// it. The session then lasts, with its ephemeral nodes, until it expires.
///
/// # Ordering
///
/// A call that returns a [`Reply`] has its request on its way, whether or not that is awaited:
/// requests reach the server in call order, and their replies come in that order. A watch event is
/// delivered before any reply that reflects the change.
///
/// # Cancel safety
///
/// Dropping the future of a method loses nothing: a request is sent in any case, and a wait can be
/// repeated. A call that sends several requests, such as those about quotas or of a
/// [`Marker`](crate::Marker), says in its own section what remains of it.
///
/// # Errors
///
/// Every method that sends a request fails if its path breaks a rule, its request is above
/// [`Limits`](crate::Limits), the server refuses it, the connection breaks before the reply, or the
/// session is over. While the client is cut off, requests wait for the next connection. Requests
/// that were sent before fail with [`ConnectionLoss`](crate::ErrorKind::ConnectionLoss) and
/// [`outcome`](Error::outcome) `Unknown`.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
    pub(crate) chroot: Chroot,
}

/// The part that the clones of a client share. Dropping it closes the session.
struct Handle(Arc<SharedSession>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.with(Core::close);
    }
}

impl Client {
    pub(crate) fn new(shared: Arc<SharedSession>, chroot: Chroot) -> Self {
        Self { handle: Arc::new(Handle(shared)), chroot }
    }

    pub(crate) fn shared(&self) -> &Arc<SharedSession> {
        &self.handle.0
    }

    /// Sends all requests that `calls` makes in one go, with one write.
    ///
    /// Without it two calls may be two packets, if the driver wakes up between them. `calls` must
    /// not block: the session sends no request while it runs.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// let (a, b) = client.batch(|| (client.get_data("/a"), client.get_data("/b")));
    /// println!("{:?} {:?}", a.await?, b.await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn batch<R>(&self, calls: impl FnOnce() -> R) -> R {
        let _cork = self.shared().cork();
        calls()
    }

    /// 128 random bits, for names that no other client will use.
    pub fn unique(&self) -> u128 {
        self.shared().unique()
    }

    /// Makes a call with the full path, or rejects the path with the rule that it breaks.
    pub(crate) fn with_checked_path<R>(
        &self,
        path: &str,
        check: fn(&str) -> Result<(), Error>,
        call: impl FnOnce(&str) -> Reply<R>,
    ) -> Reply<R> {
        match check(path) {
            Ok(()) => self.chroot.applied(path, call),
            Err(error) => Reply::rejected(error),
        }
    }

    pub(crate) fn call(&self, op: OpCode, receiver: ReplyReceiver) -> Call {
        let (shared, chroot) = (Arc::clone(self.shared()), self.chroot.clone());
        Call { op, receiver, chroot, shared, request: None }
    }

    pub(crate) fn rejected<R>(&self, op: OpCode, path: &str, rejected: Rejected) -> Reply<R> {
        Reply::rejected(Error::rejected(op, path, rejected))
    }

    pub(crate) fn send<R>(
        &self,
        path: &str,
        request: &impl Operation,
        finish: impl FnOnce(&Call, Completion) -> Result<R, Error> + Send + 'static,
    ) -> Reply<R> {
        let submitted = self.shared().submit(path, |core, responder| {
            core.submit(request, responder)?;
            Ok(core.last_request_id())
        });
        match submitted {
            Ok((id, receiver)) => {
                Reply::waiting(Call { request: id, ..self.call(request.op(), receiver) }, finish)
            }
            Err(rejected) => self.rejected(request.op(), path, rejected),
        }
    }

    pub(crate) fn send_watching<R>(
        &self,
        path: &str,
        full: &str,
        request: &impl Operation,
        kind: WatchKind,
        finish: impl FnOnce(&Call, Completion) -> Result<R, Error> + Send + 'static,
    ) -> Reply<(R, Watcher)> {
        let (watching, event) = oneshot::channel();
        let full = Arc::<str>::from(full);
        let watch = Watch { kind, path: Arc::clone(&full), watcher: watching };
        let submitted = self.shared().submit(path, |core, responder| {
            let id = core.submit_watching(request, responder, watch)?;
            Ok((id, core.last_request_id()))
        });
        match submitted {
            Ok(((id, submitted), receiver)) => {
                let (shared, chroot) = (Arc::clone(self.shared()), self.chroot.clone());
                let watcher = Watcher::new(shared, id, full, chroot, event);
                let call = Call { request: submitted, ..self.call(request.op(), receiver) };
                Reply::waiting(call, move |call, completion| {
                    // On an error the watch is dropped, if it was set.
                    finish(call, completion).map(|result| (result, watcher))
                })
            }
            Err(rejected) => self.rejected(request.op(), path, rejected),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("session", self.shared())
            .field("chroot", &self.chroot)
            .finish()
    }
}
