//! The body of a keeper's task: it opens one session after another.
//!
//! The driver of each session runs inside it, so there is a single task, and no two tasks whose
//! events could get out of order.

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;
use tracing::info;

use crate::config::ConnectString;
use crate::connect::{ClientBuilder, Parts};
use crate::driver::shared_session::SharedSession;
use crate::driver::task::Driver;
use crate::error::{Ended, Error};
use crate::handles::client::Client;
use crate::keeper::kept::Kept;
use crate::model::event::SessionState;
use crate::net::backoff;
use crate::random::Random;
use crate::trace;

/// A session that lived for less makes the wait before the next one longer, so that the keeper does
/// not ask a server that ends every session at once in a tight loop.
const LIVED: Duration = Duration::from_secs(1);

/// The body of the keeper's task, which opens the sessions.
pub(super) struct KeeperTask {
    pub(super) kept: Arc<watch::Sender<Kept>>,
    /// The settings of all sessions except the first.
    pub(super) builder: ClientBuilder,
    /// The chroot, and the servers that the last session knew.
    pub(super) servers: ConnectString,
    pub(super) random: Random,
}

impl KeeperTask {
    pub(super) async fn run(mut self, first: Parts) {
        let mut next = Ok(first);
        let mut short_sessions = 0;
        while let Some(Parts { client, shared, driver, .. }) = self.begin(next) {
            self.publish(client, &shared);
            self.drive(&shared, driver).await;
            match shared.read(|core| core.ended()) {
                Some(Ended::Expired) => {}
                ended => return self.end(ended.unwrap_or(Ended::Closed).into()),
            }
            let began = self.kept.borrow().began;
            let lived = began.is_some_and(|began| shared.clock().now() - began >= LIVED);
            short_sessions = if lived { 0 } else { short_sessions + 1 };
            self.back_off(short_sessions).await;
            self.servers.hosts = shared.hosts(|hosts| hosts.all().to_vec());
            next = self.builder.clone().seeded(&mut self.random).parts(self.servers.clone());
        }
    }

    /// Returns the parts of the next session, or ends the keeper.
    fn begin(&self, parts: Result<Parts, Error>) -> Option<Parts> {
        match parts {
            Ok(parts) if !self.kept.borrow().stopping => return Some(parts),
            Ok(_) => self.end(Ended::Closed.into()),
            Err(error) => self.end(error),
        }
        None
    }

    /// Publishes the client of a new session.
    fn publish(&self, client: Client, shared: &Arc<SharedSession>) {
        let mut client = Some(client);
        self.kept.send_modify(|kept| {
            // The session before is over, so its counters no longer change.
            if let Some(before) = kept.session.replace(Arc::clone(shared)) {
                kept.earlier.add(before.stats());
            }
            if !kept.stopping {
                kept.number += 1;
                kept.client = client.take();
                (kept.answered, kept.began) = (false, None);
            }
        });
    }

    /// Runs one session to its end.
    async fn drive(&self, shared: &SharedSession, driver: Driver) {
        let mut driver = pin!(driver.run());
        let mut tracking = pin!(self.track_acceptance(shared));
        poll_fn(|cx| {
            match driver.as_mut().poll(cx) {
                // This future never ends by itself.
                Poll::Pending => tracking.as_mut().poll(cx),
                over => over,
            }
        })
        .await;
    }

    /// Notes when a server has accepted the session, and when one that serves writes has.
    async fn track_acceptance(&self, shared: &SharedSession) {
        let mut states = shared.states();
        // This cannot fail: the sender is in the shared session, which we hold.
        drop(states.wait_for(|state| state.is_connected()).await);
        self.kept.send_modify(|kept| kept.answered = true);
        drop(states.wait_for(|state| *state == SessionState::Connected).await);
        let now = shared.clock().now();
        self.kept.send_modify(|kept| kept.began = Some(now));
        pending().await
    }

    /// Waits between two sessions.
    async fn back_off(&mut self, short_sessions: u32) {
        let mut ended = None;
        self.kept.send_modify(|kept| {
            ended = kept.client.take();
            (kept.answered, kept.began) = (false, None);
        });
        drop(ended);
        let wait = backoff::delay(&mut self.random, short_sessions);
        let wait_ms = wait.as_millis() as u64;
        info!(target: trace::SESSION, wait_ms, "another");
        let mut kept = self.kept.subscribe();
        drop(tokio::time::timeout(wait, kept.wait_for(|kept| kept.stopping)).await);
    }

    fn end(&self, error: Error) {
        let mut client = None;
        self.kept.send_modify(|kept| {
            client = kept.client.take();
            kept.over.get_or_insert(error);
            kept.done = true;
        });
        drop(client);
    }
}

/// However the task ends, no caller is left waiting.
impl Drop for KeeperTask {
    fn drop(&mut self) {
        self.end(Ended::Closed.into());
    }
}
