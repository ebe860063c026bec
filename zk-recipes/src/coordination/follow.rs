//! Keeping what servers have in memory, across reconnects and sessions: of one node, or of a tree.
//!
//! What is found goes through a watch channel of tokio, which holds the last value alone. It is
//! trusted only while the connection lasts; on the next one all is read again.

use std::convert::Infallible;
use std::future::{Future, pending};

use tokio::sync::watch;
use zk_client::{Client, Error as ClientError, ErrorKind, Op, SessionKeeper, Zxid};

use crate::error::Error;
use crate::steady::quorum::{Quorum, has_quorum};
use crate::steady::retries::Attempts;
use crate::steady::wakeups::first_of;
use crate::steady::watch::pause;

/// Whether a [`Cached`](crate::Cached) value or a [`TreeCache`](crate::TreeCache) may be outdated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Freshness {
    /// Nothing has been read yet.
    #[default]
    Unknown,
    /// The client is connected to a server with a quorum, and watches for the next change.
    ///
    /// The server may be some changes behind others, and the event of the next change may be on its
    /// way.
    Current,
    /// The client is cut off, between two sessions, at a server without a quorum, or may not read
    /// the node. The value is the last one that was read.
    Stale,
}

/// What follows a node or a tree.
pub(super) trait Follow: Sync {
    /// What its readers get.
    type Value: Sync;

    fn sender(&self) -> &watch::Sender<Self::Value>;

    /// The parts of the value that all followers have.
    fn freshness_and_error(value: &mut Self::Value) -> (&mut Freshness, &mut Option<Error>);

    /// The highest zxid that a session of this keeper has seen, as far as this needs it.
    fn seen(&self) -> Zxid;

    /// Lets what is found from now on take the place of what was seen.
    fn begin_anew(&self);

    /// Keeps current what its readers get, until a request fails.
    fn keep_up(
        &self,
        client: &Client,
        attempts: &Attempts,
    ) -> impl Future<Output = Result<Infallible, Stop>> + Send;
}

/// Why a follower can no longer keep current what it follows.
pub(super) enum Stop {
    /// Events were missed, so all must be read again.
    Missed,
    Client(ClientError),
    /// There is nothing more to be done.
    Ended(Error),
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// Follows in each session of a keeper, until that is over or nobody reads what is found.
pub(super) async fn follow<F: Follow>(keeper: SessionKeeper, follower: F) -> Result<(), Error> {
    let unread = async {
        follower.sender().closed().await;
        Ok(())
    };
    let following = async {
        let ended = keeper.run_each(|client| follow_session(&follower, client)).await;
        ended.map(|never: Infallible| match never {})
    };
    first_of(unread, following).await
}

/// Follows on each connection of a session. Returns only if that cannot go on: the end of the
/// session is the end of this work.
async fn follow_session(follower: &impl Follow, client: Client) -> Result<Infallible, Error> {
    let attempts = Attempts::default();
    loop {
        let mut states = Quorum::wait(&client).await.into_states();
        if client.state().ended().is_some() {
            return pending().await;
        }
        let cut_off = async {
            // An error means that the session is over.
            drop(states.wait_for(|state| !has_quorum(state)).await);
            None
        };
        let following = async { Some(follow_connection(follower, &client, &attempts).await) };
        if let Some(Err(over)) = first_of(cut_off, following).await {
            return Err(over);
        }
    }
}

/// Follows over one connection.
///
/// A read that breaks each connection would take all other requests of the session with it. So
/// after several failures in a row, it is made once in a session timeout.
async fn follow_connection<F: Follow>(
    follower: &F,
    client: &Client,
    attempts: &Attempts,
) -> Result<Infallible, Error> {
    let _outdated = Outdated(follower);
    loop {
        attempts.begin();
        if attempts.needs_pause() {
            pause(client).await;
        }
        let Err(stop) = Box::pin(follower.keep_up(client, attempts)).await;
        mark_stale(follower, None);
        let error = match stop {
            Stop::Missed => {
                attempts.note_success();
                continue;
            }
            Stop::Client(error) if error.is_session_over() => return Err(error.into()),
            Stop::Client(error) if attempts.may_retry(&error) => continue,
            Stop::Client(error) => error,
            Stop::Ended(error) => {
                mark_stale(follower, Some(error.clone()));
                return Err(error);
            }
        };
        mark_stale(follower, Some(error.clone().into()));
        if has_gone_back(client, &error, follower.seen()).await {
            attempts.note_success();
            follower.begin_anew();
        } else {
            attempts.note_pause();
            pause(client).await;
        }
    }
}

/// Tells that what was found may be outdated, and for which error if it is not a matter of a
/// connection.
fn mark_stale<F: Follow>(follower: &F, error: Option<Error>) {
    follower.sender().send_if_modified(|value| {
        let (freshness, known) = F::freshness_and_error(value);
        let was_current = *freshness == Freshness::Current;
        if was_current {
            *freshness = Freshness::Stale;
        }
        let is_new = error.is_some() && known.is_none();
        *known = error.or_else(|| known.take());
        was_current || is_new
    });
}

/// Tells so when a connection ends, or the future is dropped.
struct Outdated<'a, F: Follow>(&'a F);

impl<F: Follow> Drop for Outdated<'_, F> {
    fn drop(&mut self) {
        mark_stale(self.0, None);
    }
}

/// True if the ensemble has lost what was `seen`, because older data took the place of its own.
///
/// A server that is behind may just lag. But the ensemble commits each transaction behind all that
/// any of its servers has shown, so one with a lower zxid is proof. A server without a quorum
/// commits none.
async fn has_gone_back(client: &Client, error: &ClientError, seen: Zxid) -> bool {
    if error.kind() != ErrorKind::Behind {
        return false;
    }
    let empty = client.multi(Vec::<Op<'_>>::new()).with_zxid().await;
    empty.is_ok_and(|(_, committed)| committed < seen)
}
