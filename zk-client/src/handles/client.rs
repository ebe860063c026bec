//! A call from end to end: the handle that sends the request, and the future of the reply.
//!
//! The request is on its way when the call returns, in call order; the future only waits. The
//! reply's record is decoded here, in the task that made the call, so that the driver never decodes
//! it for a caller that has gone. What the calls are is in the folder `client`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::coop::poll_proceed;
use tokio::time::{Sleep, sleep_until};
use zk_proto::{Decode, DecodeError, OpCode, Operation, Reader, Zxid};

use crate::driver::clock::Clock;
use crate::driver::shared_session::{Completion, Core, ReplyReceiver, SharedSession};
use crate::error::{Cause, Ended, Error, Failure, Rejected};
use crate::handles::watcher::Watcher;
use crate::model::path::Chroot;
use crate::session::{RawReply, RequestId, Watch, WatchKind};
use crate::trace;

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
        let _batch = self.shared().open_batch();
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

    /// What the reply to a request needs. The request cannot be cancelled.
    pub(crate) fn call(&self, op: OpCode, receiver: ReplyReceiver) -> Call {
        let (shared, chroot) = (Arc::clone(self.shared()), self.chroot.clone());
        Call { op, receiver, chroot, shared, request: None }
    }

    pub(crate) fn rejected<R>(&self, op: OpCode, path: &str, rejected: Rejected) -> Reply<R> {
        Reply::rejected(Error::rejected(op, path, rejected))
    }

    /// Sends a request. `path` is the one that errors name, as the caller wrote it, and `finish`
    /// turns the answer into the result.
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

    /// The same for a request that sets a one-shot watch. `full` is its path with the chroot.
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

/// A request that was sent, as far as the reply and errors need it.
pub(crate) struct Call {
    pub(crate) op: OpCode,
    pub(crate) receiver: ReplyReceiver,
    pub(crate) chroot: Chroot,
    pub(crate) shared: Arc<SharedSession>,
    /// `Some` if the request can be cancelled.
    pub(crate) request: Option<RequestId>,
}

impl Call {
    /// The path, as the caller wrote it.
    pub(crate) fn path(&self) -> &str {
        self.receiver.path()
    }

    /// Decodes the reply's record. It may be followed by data that a newer server appended.
    pub(crate) fn decode<'a, T: Decode<'a>>(&self, reply: &'a RawReply) -> Result<T, Error> {
        self.decode_by(reply, T::decode)
    }

    /// As [`decode`](Self::decode), for a record whose type does not say how it is read.
    pub(crate) fn decode_by<'a, T>(
        &self,
        reply: &'a RawReply,
        decode: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        let mut reader = Reader::new(&reply.body);
        let record = decode(&mut reader).map_err(|source| self.undecodable(source))?;
        if reader.remaining() > 0 {
            let bytes = reader.remaining();
            tracing::trace!(target: trace::REQUEST, op = %self.op, bytes, "appended");
        }
        Ok(record)
    }

    /// The reply, or the failure as an error that names the request.
    pub(crate) fn to_result(&self, completion: Completion) -> Result<RawReply, Error> {
        completion.map_err(|failure| self.failed(failure))
    }

    pub(crate) fn failed(&self, failure: Failure) -> Error {
        Error::failed(self.op, self.path(), failure).below(self.chroot.as_str())
    }

    /// Cancels the request, if that is possible.
    fn timed_out(&self, limit: Duration) -> Error {
        let (op, path) = (self.op, self.path().to_owned());
        let taken = self.request.and_then(|id| self.shared.with(|core| core.withdraw(id)));
        Cause::TimedOut { op, path, limit, sent: taken.is_none() }.into()
    }

    pub(crate) fn undecodable(&self, why: DecodeError) -> Error {
        Cause::UndecodableReply { op: self.op, path: self.path().to_owned(), why }.into()
    }
}

/// Turns a reply into the caller's result. It holds what belongs to the result: a watcher, an owned
/// node or, most often, nothing, and then the box takes no memory.
type Finish<R> = Box<dyn FnOnce(&Call, Completion) -> Result<R, Error> + Send>;

/// The reply to a request that is already on its way.
///
/// # Cancel safety
///
/// Dropping it does not cancel the request: it is sent and carried out in order, and the reply
/// is discarded. Two kinds clean up: a watch without a watcher is dropped, and an [owned
/// node](crate::Client::create_owned) without an owner is deleted.
#[must_use = "the request is sent in any case, but only awaiting it tells how it went"]
pub struct Reply<R>(State<R>);

enum State<R> {
    /// The request was rejected on this side: it was never queued.
    Rejected(Error),
    Waiting {
        call: Call,
        finish: Finish<R>,
        timeout: Option<Box<ReplyTimeout>>,
    },
    Done,
}

/// The time limit of a reply.
struct ReplyTimeout {
    at: Instant,
    limit: Duration,
    /// Created at the first poll, because only then a runtime is sure to be there.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl ReplyTimeout {
    fn poll(&mut self, cx: &mut Context<'_>, clock: &Clock) -> Poll<()> {
        while let Some(alarm) = clock.read().until(self.at) {
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(sleep_until(alarm)));
            if sleep.deadline() != alarm {
                sleep.as_mut().reset(alarm);
            }
            ready!(sleep.as_mut().poll(cx));
        }
        Poll::Ready(())
    }
}

impl<R> Reply<R> {
    pub(crate) fn rejected(error: Error) -> Self {
        Self(State::Rejected(error))
    }

    pub(crate) fn waiting(
        call: Call,
        finish: impl FnOnce(&Call, Completion) -> Result<R, Error> + Send + 'static,
    ) -> Self {
        Self(State::Waiting { call, finish: Box::new(finish), timeout: None })
    }

    /// The same reply with another result.
    pub(crate) fn map<T>(self, change: impl FnOnce(R) -> T + Send + 'static) -> Reply<T>
    where
        R: 'static,
    {
        Reply(match self.0 {
            State::Rejected(error) => State::Rejected(error),
            State::Waiting { call, finish, timeout } => {
                let finish: Finish<T> =
                    Box::new(|call, completion| finish(call, completion).map(change));
                State::Waiting { call, finish, timeout }
            }
            State::Done => State::Done,
        })
    }

    /// Limits the wait for the reply to this time from now on.
    ///
    /// If the reply is not there by then, the result is an error of the kind
    /// [`TimedOut`](crate::ErrorKind::TimedOut). A read or write that was not sent by then, because
    /// the client was cut off all the time, is cancelled: it will never be carried out, and the
    /// [`outcome`](Error::outcome) is `NotApplied`. A request that was sent cannot be cancelled,
    /// and the outcome is `Unknown`. It is `Unknown`, too, for a request that carries a cleanup
    /// obligation, the create of an [owned node](crate::Client::create_owned): that node is deleted
    /// if it is created later. The connection, the session and the order of all other requests are
    /// not affected. A second limit replaces the first.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use std::time::Duration;
    /// use zk_client::ErrorKind;
    ///
    /// match client.get_data("/motd").within(Duration::from_millis(500)).await {
    ///     Ok(node) => println!("{:?}", node.data),
    ///     Err(error) if error.kind() == ErrorKind::TimedOut => println!("no motd today"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// A reply that is not awaited does not time out, and dropping one cancels nothing.
    ///
    /// # Panics
    ///
    /// When it is awaited outside of a tokio runtime with time enabled.
    pub fn within(mut self, limit: Duration) -> Self {
        if let State::Waiting { call, timeout, .. } = &mut self.0 {
            let at = call.shared.clock().now().checked_add(limit);
            *timeout = at.map(|at| Box::new(ReplyTimeout { at, limit, sleep: None }));
        }
        self
    }

    /// The same reply, with its zxid.
    ///
    /// The zxid of a write is that of its own transaction. The zxid of a read is the last one that
    /// the server had applied when it replied; an [`exists`](crate::Client::exists) of no node has
    /// one, too. The zxid of a refusal is in the [error](Error::zxid).
    ///
    /// ```
    /// # use zk_client::{Client, Error};
    /// # async fn f(ours: &Client, theirs: &Client) -> Result<(), Error> {
    /// let (stat, zxid) = ours.set_data("/config", b"2", None).with_zxid().await?;
    /// assert_eq!(stat.mzxid, zxid);
    /// // A client that learns the zxid can wait for the change that it stands for.
    /// theirs.wait_for_zxid(zxid).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The zxid is 0 in the few replies that belong to no transaction, such as that to an
    /// authentication: [`wait_for_zxid`](crate::Client::wait_for_zxid) of 0 returns at once.
    pub fn with_zxid(self) -> WithZxid<R> {
        WithZxid(self)
    }

    /// A task that finds reply after reply ready lets other tasks run in between, and so the driver
    /// of this client, as with every future of tokio.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<(Result<R, Error>, Option<Zxid>)> {
        // Checked before the time limit, because a reply that is ready has none.
        let coop = ready!(poll_proceed(cx));
        let answer = self.poll_now(cx);
        if answer.is_ready() {
            coop.made_progress();
        }
        answer
    }

    fn poll_now(&mut self, cx: &mut Context<'_>) -> Poll<(Result<R, Error>, Option<Zxid>)> {
        let (completion, zxid) = match &mut self.0 {
            State::Waiting { call, timeout, .. } => match call.receiver.poll(cx) {
                Poll::Pending => {
                    let Some(timeout) = timeout else {
                        return Poll::Pending;
                    };
                    ready!(timeout.poll(cx, call.shared.clock()));
                    let error = call.timed_out(timeout.limit);
                    self.0 = State::Done;
                    return Poll::Ready((Err(error), None));
                }
                // The session answers every request, so the session itself is gone.
                Poll::Ready(answered) => answered
                    .unwrap_or((Err(Failure::Ended { sent: true, ended: Ended::Closed }), None)),
            },
            // Polled after completion, like any future that is not fused.
            State::Rejected(_) | State::Done => {
                (Err(Failure::Ended { sent: false, ended: Ended::Closed }), None)
            }
        };
        let result = match std::mem::replace(&mut self.0, State::Done) {
            State::Rejected(error) => Err(error),
            State::Waiting { call, finish, .. } => {
                finish(&call, completion).map_err(|error| error.stamped(zxid))
            }
            State::Done => Err(Ended::Closed.into()),
        };
        Poll::Ready((result, zxid))
    }
}

impl<R> Future for Reply<R> {
    type Output = Result<R, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_answer(cx).map(|(result, _)| result)
    }
}

impl<R> Unpin for Reply<R> {}

impl<R> fmt::Debug for Reply<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state: &dyn fmt::Debug = match &self.0 {
            State::Rejected(error) => error,
            State::Waiting { call, .. } => &call.op,
            State::Done => &"done",
        };
        f.debug_tuple("Reply").field(state).finish()
    }
}

/// The reply to a request, with its zxid: see [`Reply::with_zxid`].
///
/// # Cancel safety
///
/// That of the [`Reply`].
#[derive(Debug)]
#[must_use = "the request is sent in any case, but only awaiting it tells how it went"]
pub struct WithZxid<R>(Reply<R>);

impl<R> Future for WithZxid<R> {
    type Output = Result<(R, Zxid), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.0.poll_answer(cx);
        answer.map(|(result, zxid)| result.map(|result| (result, zxid.unwrap_or_default())))
    }
}
