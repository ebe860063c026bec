//! One session after another, for services that must survive the expiry of a session.
//!
//! A keeper opens the next session when one has expired, and reports it: all that was ephemeral is
//! gone, and only the application can create it again. [`kept`] is what the handles and the future
//! of a keeper share, and [`task`] is that future. Knows nothing of what a session does.

mod kept;
mod task;

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::sync::watch;

use self::kept::Kept;
use self::task::KeeperTask;
use crate::config::ConnectString;
use crate::connect::{ClientBuilder, Parts};
use crate::error::{Cause, Ended, Error};
use crate::handles::client::Client;
use crate::random::{Random, entropy};
use crate::stats::KeeperStats;

impl ClientBuilder {
    /// Keeps a session open for good: whenever one expires, the keeper opens the next one.
    ///
    /// [`SessionKeeper::sessions`] reports every session.
    ///
    /// The call waits for the first session, as [`connect`](Self::connect) does, so a wrong address
    /// is an error here; [`keep_lazily`](Self::keep_lazily) does not wait. The keeper spawns one
    /// task, which does all of the work. Every session has the settings of this builder, except
    /// that the keeper tries to [resume](Self::session) a session only once: if that session is
    /// over, the first session that is reported has the number 2.
    ///
    /// ```
    /// # async fn f() -> Result<(), zk_client::Error> {
    /// use zk_client::{Client, CreateOptions};
    ///
    /// let keeper = Client::builder().keep("zk1:2181,zk2:2181/shop").await?;
    ///
    /// // Somewhere: what belongs to a session is made anew in each.
    /// let mut sessions = keeper.sessions();
    /// # async move {
    /// while let Ok(session) = sessions.next().await {
    ///     let here = CreateOptions::ephemeral();
    ///     if let Err(error) = session.client.create("/members/me", b"", &here).await {
    ///         println!("not registered in session {}: {error}", session.number);
    ///     }
    /// }
    /// # };
    ///
    /// // Elsewhere: whatever the session, it is the current one.
    /// let motd = keeper.client().await?.get_data("/motd").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// A connect string or setting that breaks a rule; no server within the connect timeout, with
    /// every server tried and why each failed; a chroot that does not exist.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future stops the attempt; a session that was opened meanwhile is closed again.
    ///
    /// # Panics
    ///
    /// Panics, as tokio does, in a runtime without time or io enabled.
    pub async fn keep(self, servers: &str) -> Result<SessionKeeper, Error> {
        let timeout = self.connect_timeout;
        let (keeper, mut first, task) = self.keeper(servers)?;
        let first_connection = first.first_connection();
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| Cause::NoRuntime)?;
        runtime.spawn(task.run(first));
        let waiting =
            first_connection.with_timeout(timeout, async |error| match error.is_session_over() {
                // The session to resume has expired: the next one counts.
                true => keeper.client().await.map(drop),
                false => Err(error),
            });
        waiting.await.map(|()| keeper)
    }

    /// Starts to keep a session open and returns at once: see [`keep`](Self::keep).
    ///
    /// While no server is reached, the keeper keeps trying, and calls that need a session wait. It
    /// does not check whether the chroot exists.
    ///
    /// # Errors
    ///
    /// A connect string or setting that breaks a rule; no tokio runtime.
    ///
    /// # Panics
    ///
    /// Panics, as tokio does, in a runtime without time or io enabled.
    pub fn keep_lazily(self, servers: &str) -> Result<SessionKeeper, Error> {
        let (keeper, task) = self.keep_split(servers)?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| Cause::NoRuntime)?;
        runtime.spawn(task);
        Ok(keeper)
    }

    /// Makes a keeper, and the future that does its work: see [`split`](Self::split).
    ///
    /// The future ends when the keeper ends, and dropping the future ends the keeper.
    ///
    /// # Errors
    ///
    /// The same as those of [`keep_lazily`](Self::keep_lazily).
    ///
    /// # Panics
    ///
    /// Panics, as tokio does, in a runtime without time or io enabled.
    pub fn keep_split(
        self,
        servers: &str,
    ) -> Result<(SessionKeeper, impl Future<Output = ()> + Send + use<>), Error> {
        let (keeper, first, task) = self.keeper(servers)?;
        Ok((keeper, task.run(first)))
    }

    /// Makes a keeper, its first session, and the task body that opens the others.
    fn keeper(mut self, servers: &str) -> Result<(SessionKeeper, Parts, KeeperTask), Error> {
        let mut random = Random::new(self.seed.unwrap_or_else(entropy));
        let servers: ConnectString = servers.parse()?;
        let first = self.clone().seeded(&mut random).parts(servers.clone())?;
        self.resume = None;
        let (kept, _) = watch::channel(Kept::default());
        let kept = Arc::new(kept);
        let task = KeeperTask { kept: Arc::clone(&kept), builder: self, servers, random };
        Ok((SessionKeeper(Arc::new(Handle(kept))), first, task))
    }

    /// Gives this builder a seed of its own if it has one, since two sessions must not make the
    /// same names.
    fn seeded(mut self, random: &mut Random) -> Self {
        self.seed = self.seed.map(|_| random.next());
        self
    }
}

/// Keeps a session open, one after another: see [`ClientBuilder::keep`].
///
/// Clones share one keeper. Dropping the last clone ends it: the keeper opens no other session, and
/// the current session is closed once the last [`Client`] of it is dropped. [`close`](Self::close)
/// closes it at once: end a program with that call, as with [`Client::close`].
///
/// The keeper also ends when a session ends for another reason than expiry: when the servers refuse
/// the credentials, which a new session would not change, or when the client is closed or detached.
///
/// If sessions expire soon after one another, the keeper waits longer before each new one: a random
/// time of up to a second.
#[derive(Clone)]
#[must_use = "dropping the last one ends it: bind it to a name (`_` is none)"]
pub struct SessionKeeper(Arc<Handle>);

struct Handle(Arc<watch::Sender<Kept>>);

/// A session that has begun.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeptSession {
    /// The session's own client. It ends with the session; the next session has another client.
    pub client: Client,
    /// The number of the session, from 1 on. A gap shows missed sessions: a reader that gets number
    /// 5 after number 2 has missed two sessions, which are over.
    pub number: u64,
}

/// Yields every new session: see [`SessionKeeper::sessions`].
///
/// It keeps neither the keeper nor the session alive.
pub struct Sessions {
    kept: watch::Receiver<Kept>,
    seen: u64,
}

impl SessionKeeper {
    /// Returns the client of the current session, once a server has accepted that session.
    ///
    /// The call waits until then. Afterwards it does not matter whether the session is connected at
    /// the moment.
    ///
    /// A client is valid only for its session, so do not keep it for long: call this again. The
    /// session may end between this call and a request. Then the request fails with an error that
    /// is [`is_session_over`](Error::is_session_over).
    ///
    /// # Errors
    ///
    /// The keeper is over: [`AuthFailed`](crate::ErrorKind::AuthFailed) or
    /// [`Closed`](crate::ErrorKind::Closed). All later calls fail with the same error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn client(&self) -> Result<Client, Error> {
        let mut kept = self.0.0.subscribe();
        // Keep the client that was found and do not check again: its session may end at any moment.
        let mut found = None;
        let is_ready = |kept: &Kept| {
            found = kept.current().cloned();
            found.is_some() || kept.over.is_some()
        };
        match kept.wait_for(is_ready).await {
            Ok(kept) => kept.outcome(found),
            Err(_) => Err(Ended::Closed.into()),
        }
    }

    /// Returns the client of the current session, or `None` if there is none to return now.
    ///
    /// This is [`client`](Self::client) without the wait, for instance in a handler of requests
    /// that rather refuses one than keeps it waiting. There is none before the first session,
    /// between two sessions, and once the keeper is over. Nor is a client returned whose session is
    /// known to be over or is being closed. One that is only cut off is: its
    /// [`state`](Client::state) tells that.
    pub fn try_client(&self) -> Option<Client> {
        self.0.0.borrow().current().cloned()
    }

    /// Yields every session from the current one on.
    ///
    /// A session is reported once a server that serves writes has accepted it.
    ///
    /// Any number of tasks may each have such a reader. No reader misses that a session ended: a
    /// reader that is late gets the newest session, whose [number](KeptSession::number) shows how
    /// many have passed. To learn of the end itself, before the next session begins, wait for it in
    /// [`Client::states`].
    pub fn sessions(&self) -> Sessions {
        Sessions { kept: self.0.0.subscribe(), seen: 0 }
    }

    /// The counters of all sessions so far, added up: nothing is counted twice, and the numbers
    /// only grow.
    ///
    /// They stay readable after the keeper has ended, with its last session. Like
    /// [`Client::stats`], the call is cheap enough for every scrape.
    pub fn stats(&self) -> KeeperStats {
        let kept = self.0.0.borrow();
        let mut stats = kept.earlier.clone();
        if let Some(session) = &kept.session {
            stats.add(session.stats());
        }
        stats
    }

    /// Ends the keeper and closes the current session, like [`Client::close`].
    ///
    /// The future returns when that is done; calls that wait for a client or a session end at
    /// once. A first handshake that is under way gets one second to end, so that no session is left
    /// at the server.
    ///
    /// # Cancel safety
    ///
    /// The keeper is closed whether or not the future is awaited.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        let client = self.0.stop();
        self.0.0.send_modify(|kept| {
            kept.over.get_or_insert_with(|| Ended::Closed.into());
        });
        let closing = client.as_ref().map(Client::close);
        drop(client);
        let mut kept = self.0.0.subscribe();
        async move {
            if let Some(closing) = closing {
                closing.await;
            }
            // An error means that the keeper is gone.
            drop(kept.wait_for(|kept| kept.done).await);
        }
    }
}

impl Sessions {
    /// Waits for the next session.
    ///
    /// # Errors
    ///
    /// The keeper is over: [`AuthFailed`](crate::ErrorKind::AuthFailed) or
    /// [`Closed`](crate::ErrorKind::Closed). All later calls fail with the same error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<KeptSession, Error> {
        let seen = self.seen;
        let mut found = None;
        let is_ready = |kept: &Kept| {
            let number = kept.number;
            let client = kept.current().filter(|_| kept.began.is_some() && number > seen).cloned();
            found = client.map(|client| KeptSession { client, number });
            found.is_some() || kept.over.is_some()
        };
        let session = match self.kept.wait_for(is_ready).await {
            Ok(kept) => kept.outcome(found),
            Err(_) => Err(Ended::Closed.into()),
        }?;
        self.seen = session.number;
        Ok(session)
    }
}

impl Handle {
    /// Stops the keeper: no other session begins. Returns the client of the session that may still
    /// run.
    fn stop(&self) -> Option<Client> {
        let mut client = None;
        self.0.send_modify(|kept| {
            kept.stopping = true;
            client = kept.client.take();
        });
        client
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        drop(self.stop());
    }
}

impl fmt::Debug for SessionKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SessionKeeper").field(&*self.0.0.borrow()).finish()
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").field("seen", &self.seen).finish_non_exhaustive()
    }
}
