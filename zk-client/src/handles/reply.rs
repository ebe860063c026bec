//! The answer to come: what every call on a client returns.
//!
//! The request is on its way when the call returns, in call order; this only waits. The reply's
//! record is decoded here, in the task that asked, so that the driver never does it for a caller
//! that has gone.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::task::coop::poll_proceed;
use tokio::time::{Sleep, sleep_until};
use zk_proto::{Decode, DecodeError, OpCode, Reader, Zxid};

use crate::driver::clock::Clock;
use crate::driver::reply_slot::{Completion, ReplyReceiver};
use crate::driver::shared_session::SharedSession;
use crate::error::{Ended, Error, Failure, Fault};
use crate::model::path::Chroot;
use crate::session::{Answer, RequestId};
use crate::trace;

/// What was asked, to make sense of the answer and of errors.
pub(crate) struct Call {
    pub(crate) op: OpCode,
    pub(crate) answer: ReplyReceiver,
    pub(crate) chroot: Chroot,
    pub(crate) shared: Arc<SharedSession>,
    /// If it can be taken back.
    pub(crate) request: Option<RequestId>,
}

impl Call {
    /// The path, as the caller wrote it.
    pub(crate) fn path(&self) -> &str {
        self.answer.path()
    }

    /// Decodes the answer's record, and lets it be followed by what a newer server appended.
    pub(crate) fn decode<'a, T: Decode<'a>>(&self, answer: &'a Answer) -> Result<T, Error> {
        let mut reader = Reader::new(&answer.body);
        let record = T::decode(&mut reader).map_err(|source| self.undecodable(source))?;
        if reader.remaining() > 0 {
            let bytes = reader.remaining();
            tracing::trace!(target: trace::REQUEST, op = %self.op, bytes, "appended");
        }
        Ok(record)
    }

    /// The answer, or the failure as an error that names the request.
    pub(crate) fn answer(&self, completion: Completion) -> Result<Answer, Error> {
        completion.map_err(|failure| self.failed(failure))
    }

    pub(crate) fn failed(&self, failure: Failure) -> Error {
        Error::failed(self.op, self.path(), failure)
    }

    /// Takes the request back, if that can be.
    fn timed_out(&self, limit: Duration) -> Error {
        let (op, path) = (self.op, self.path().to_owned());
        let taken = self.request.and_then(|id| self.shared.with(|core| core.withdraw(id)));
        Fault::TimedOut { op, path, limit, sent: taken.is_none() }.into()
    }

    pub(crate) fn undecodable(&self, source: DecodeError) -> Error {
        Fault::Answer { op: self.op, path: self.path().to_owned(), source }.into()
    }
}

/// Turns an answer into what the caller asked for. It holds what goes with it: a watcher, an owned
/// node or, most often, nothing, and then the box takes no memory.
type Finish<R> = Box<dyn FnOnce(&Call, Completion) -> Result<R, Error> + Send>;

/// The answer to a request that is already on its way.
///
/// # Cancel safety
///
/// Dropping it does not take the request back: it is sent and carried out in its turn, and the
/// answer is thrown away. Two kinds clean up: a watch that nobody waits for is forgotten, and an
/// [owned node](crate::Client::create_owned) that nobody got is deleted.
#[must_use = "the request is sent in any case, but only awaiting it tells how it went"]
pub struct Reply<R>(State<R>);

enum State<R> {
    /// Refused on this side.
    Failed(Error),
    Waiting {
        call: Call,
        finish: Finish<R>,
        deadline: Option<Box<Deadline>>,
    },
    Done,
}

/// When the answer is late.
struct Deadline {
    at: Instant,
    limit: Duration,
    /// Made when it is first waited for, which may be where there is a runtime.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
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
    pub(crate) fn failed(error: Error) -> Self {
        Self(State::Failed(error))
    }

    pub(crate) fn waiting(
        call: Call,
        finish: impl FnOnce(&Call, Completion) -> Result<R, Error> + Send + 'static,
    ) -> Self {
        Self(State::Waiting { call, finish: Box::new(finish), deadline: None })
    }

    /// The same answer, if it comes within this time from now on; an error of the kind
    /// [`TimedOut`](crate::ErrorKind::TimedOut) if it does not.
    ///
    /// A read or write that was not sent by then, because the client was cut off all the time, is
    /// taken back: it will never be carried out, and the [`outcome`](Error::outcome) is
    /// `NotApplied`. What was sent cannot be taken back, and the outcome is `Unknown`, as it is of
    /// those that are queued with a promise: an [owned node](crate::Client::create_owned) is
    /// deleted if it comes to be. Connection, session and the order of all other requests are
    /// untouched, and of two limits the last one counts.
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
    /// A reply that is not awaited does not time out, and dropping one takes nothing back.
    ///
    /// # Panics
    ///
    /// When it is awaited outside of a tokio runtime with time enabled.
    pub fn within(mut self, limit: Duration) -> Self {
        if let State::Waiting { call, deadline, .. } = &mut self.0 {
            let at = call.shared.clock().now().checked_add(limit);
            *deadline = at.map(|at| Box::new(Deadline { at, limit, sleep: None }));
        }
        self
    }

    /// The same answer, with the zxid that it came with: of a write its own transaction, of a read
    /// the last one that the server had applied when it answered. An
    /// [`exists`](crate::Client::exists) of no node has one, too. That of a refusal is in the
    /// [error](Error::zxid).
    ///
    /// ```
    /// # use zk_client::{Client, Error};
    /// # async fn f(ours: &Client, theirs: &Client) -> Result<(), Error> {
    /// let (stat, zxid) = ours.set_data("/config", b"2", None).with_zxid().await?;
    /// assert_eq!(stat.mzxid, zxid);
    /// // Whoever hears of the zxid can wait for what it stands for.
    /// theirs.at_least(zxid).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// The zxid is 0 of the few answers that tell of no transaction, such as that of an
    /// authentication; everybody has seen that one.
    pub fn with_zxid(self) -> WithZxid<R> {
        WithZxid(self)
    }

    /// Whoever finds answer after answer lets other tasks run in between, and this client's driver
    /// with them, as with anything of tokio's.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<(Result<R, Error>, Option<Zxid>)> {
        // Before the limit is looked at, which is none for an answer that is there.
        let coop = ready!(poll_proceed(cx));
        let answer = self.poll_now(cx);
        if answer.is_ready() {
            coop.made_progress();
        }
        answer
    }

    fn poll_now(&mut self, cx: &mut Context<'_>) -> Poll<(Result<R, Error>, Option<Zxid>)> {
        let (completion, zxid) = match &mut self.0 {
            State::Waiting { call, deadline, .. } => match call.answer.poll(cx) {
                Poll::Pending => {
                    let Some(deadline) = deadline else {
                        return Poll::Pending;
                    };
                    ready!(deadline.poll(cx, call.shared.clock()));
                    let error = call.timed_out(deadline.limit);
                    self.0 = State::Done;
                    return Poll::Ready((Err(error), None));
                }
                // The session answers every request, so this is a session that is no more.
                Poll::Ready(answered) => answered
                    .unwrap_or((Err(Failure::Ended { sent: true, ended: Ended::Closed }), None)),
            },
            // Polled after it was done, like any future that is not fused.
            State::Failed(_) | State::Done => {
                (Err(Failure::Ended { sent: false, ended: Ended::Closed }), None)
            }
        };
        let result = match std::mem::replace(&mut self.0, State::Done) {
            State::Failed(error) => Err(error),
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
            State::Failed(error) => error,
            State::Waiting { call, .. } => &call.op,
            State::Done => &"done",
        };
        f.debug_tuple("Reply").field(state).finish()
    }
}

/// The answer to come, with its zxid: see [`Reply::with_zxid`].
///
/// # Cancel safety
///
/// As that of the [`Reply`].
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
