//! One session after another, for services that live through expiry.
//!
//! A keeper makes the next client when a session has expired, and says so: what was ephemeral is
//! gone, and only its owner can rebuild it. The driver of each session runs inside of the keeper's
//! own future, one after the other, so there is one task in all and no order to go wrong between
//! two. What a session does is none of its business.

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tracing::info;

use crate::client::Client;
use crate::config::ConnectString;
use crate::connect::{ClientBuilder, Parts, entropy};
use crate::driver::shared_session::SharedSession;
use crate::driver::task::Driver;
use crate::error::{Ended, Error, Fault};
use crate::model::event::SessionState;
use crate::net::hosts::Random;
use crate::trace;

/// A session that lived for less counts towards the wait before the next one, so that a server that
/// ends every session at once is not asked in a tight loop.
const LIVED: Duration = Duration::from_secs(1);

impl ClientBuilder {
    /// Keeps a session open for good: whenever one expires, the keeper opens the next one, and
    /// [`SessionKeeper::sessions`] reports it.
    ///
    /// It waits for the first session, as [`connect`](Self::connect) does, so that a wrong address
    /// is an error here; [`keep_lazily`](Self::keep_lazily) does not. One task is spawned, which
    /// does all of the work. Every session has the settings of this builder, except that a session
    /// to [resume](Self::session) is asked for once: if it is over, the first session that is
    /// reported has the number 2.
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
    /// Dropping the future gives up; a session that was opened meanwhile is closed again.
    ///
    /// # Panics
    ///
    /// As tokio does, in a runtime without time or io enabled.
    pub async fn keep(self, servers: &str) -> Result<SessionKeeper, Error> {
        let timeout = self.connect_timeout;
        let (keeper, mut first, running) = self.keeper(servers)?;
        let settling = first.settling();
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| Fault::NoRuntime)?;
        runtime.spawn(running.run(first));
        let settled = settling.within(timeout, async |error| match error.is_session_over() {
            // The session to resume has expired: the next one counts.
            true => keeper.client().await.map(drop),
            false => Err(error),
        });
        settled.await.map(|()| keeper)
    }

    /// Starts to keep a session open and returns at once: see [`keep`](Self::keep).
    ///
    /// While no server is reached, the keeper goes on trying, and whoever asks for a session waits.
    /// It does not look whether the chroot exists.
    ///
    /// # Errors
    ///
    /// A connect string or setting that breaks a rule; no tokio runtime.
    ///
    /// # Panics
    ///
    /// As tokio does, in a runtime without time or io enabled.
    pub fn keep_lazily(self, servers: &str) -> Result<SessionKeeper, Error> {
        let (keeper, running) = self.keep_split(servers)?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| Fault::NoRuntime)?;
        runtime.spawn(running);
        Ok(keeper)
    }

    /// A keeper, and the future that does its work: see [`split`](Self::split).
    ///
    /// The future ends when the keeper does, and the keeper with it.
    ///
    /// # Errors
    ///
    /// As those of [`keep_lazily`](Self::keep_lazily).
    ///
    /// # Panics
    ///
    /// As tokio does, in a runtime without time or io enabled.
    pub fn keep_split(
        self,
        servers: &str,
    ) -> Result<(SessionKeeper, impl Future<Output = ()> + Send + use<>), Error> {
        let (keeper, first, running) = self.keeper(servers)?;
        Ok((keeper, running.run(first)))
    }

    /// A keeper, its first session, and what opens the others.
    fn keeper(mut self, servers: &str) -> Result<(SessionKeeper, Parts, Running), Error> {
        let mut random = Random::new(self.seed.unwrap_or_else(entropy));
        let servers: ConnectString = servers.parse()?;
        let first = self.clone().seeded(&mut random).parts(servers.clone())?;
        self.resume = None;
        let (kept, _) = watch::channel(Kept::default());
        let kept = Arc::new(kept);
        let running = Running { kept: Arc::clone(&kept), builder: self, servers, random };
        Ok((SessionKeeper(Arc::new(Handle(kept))), first, running))
    }

    /// With a seed of its own, if it has one: two sessions must not make the same names.
    fn seeded(mut self, random: &mut Random) -> Self {
        self.seed = self.seed.map(|_| random.next());
        self
    }
}

/// Keeps a session open, one after another: see [`ClientBuilder::keep`].
///
/// Clones share it. Dropping the last of them ends it: the current session is closed as soon as
/// nobody has its [`Client`] any more, and no other is opened. [`close`](Self::close) does so at
/// once: end a program with that, as with [`Client::close`].
///
/// It also ends when a session ends otherwise than by expiry: when the servers refuse the
/// credentials, which no new session would change, or when somebody closes or detaches the client.
///
/// Sessions that expire soon after one another are opened ever more slowly, after a random wait of
/// up to a second.
#[derive(Clone)]
#[must_use = "dropping the last one ends it"]
pub struct SessionKeeper(Arc<Handle>);

struct Handle(Arc<watch::Sender<Kept>>);

/// What the handles and the future of a keeper share.
#[derive(Default)]
struct Kept {
    /// The sessions so far.
    number: u64,
    /// Of the current one.
    client: Option<Client>,
    /// Whether a server has answered it.
    answered: bool,
    /// When a server that serves writes has let it in.
    began: Option<Instant>,
    /// No more sessions.
    stopping: bool,
    /// Nothing comes any more.
    over: Option<Error>,
}

/// A session that has begun.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KeptSession {
    /// The session's own client. It ends with the session; the next one has another.
    pub client: Client,
    /// The number of the session, from 1 on. Whoever hears of number 5 behind number 2 has missed
    /// two that are over.
    pub number: u64,
}

/// Tells of every new session: see [`SessionKeeper::sessions`]. It keeps neither the keeper nor the
/// session alive.
pub struct Sessions {
    kept: watch::Receiver<Kept>,
    seen: u64,
}

impl SessionKeeper {
    /// The client of the current session. While there is none that a server has answered, it waits
    /// for that; once there is, it does not matter whether it is connected just now.
    ///
    /// A client is good for its session alone, so do not keep it for long: ask again. Between this
    /// and a call the session may end, and then the call fails with an error that
    /// [says so](Error::is_session_over).
    ///
    /// # Errors
    ///
    /// The keeper is over: [`AuthFailed`](crate::ErrorKind::AuthFailed) or
    /// [`Closed`](crate::ErrorKind::Closed). It stays like this.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn client(&self) -> Result<Client, Error> {
        let mut kept = self.0.0.subscribe();
        // Found once and not looked at again: its session may end at any moment.
        let mut found = None;
        let told = |kept: &Kept| {
            found = kept.current().cloned();
            found.is_some() || kept.over.is_some()
        };
        match kept.wait_for(told).await {
            Ok(kept) => kept.outcome(found),
            Err(_) => Err(Ended::Closed.into()),
        }
    }

    /// Every session from the current one on, once a server that serves writes has let it in.
    ///
    /// Any number of these tell any number of tasks. None misses that a session ended: whoever is
    /// late is told of the newest, whose [number](KeptSession::number) says how many have passed.
    /// To hear of the end itself, before the next session begins, wait for it in
    /// [`Client::states`].
    pub fn sessions(&self) -> Sessions {
        Sessions { kept: self.0.0.subscribe(), seen: 0 }
    }

    /// Ends the keeper and closes the current session, like [`Client::close`]; returns when that is
    /// done.
    ///
    /// # Cancel safety
    ///
    /// It is closed whether or not the future is awaited.
    pub fn close(&self) -> impl Future<Output = ()> + Send + use<> {
        let client = self.0.stop();
        let closing = client.as_ref().map(Client::close);
        drop(client);
        let mut kept = self.0.0.subscribe();
        async move {
            if let Some(closing) = closing {
                closing.await;
            }
            // An error means that the keeper is gone.
            drop(kept.wait_for(|kept| kept.over.is_some()).await);
        }
    }
}

impl Sessions {
    /// The next session.
    ///
    /// # Errors
    ///
    /// The keeper is over: [`AuthFailed`](crate::ErrorKind::AuthFailed) or
    /// [`Closed`](crate::ErrorKind::Closed). It stays like this.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<KeptSession, Error> {
        let seen = self.seen;
        let told = |kept: &Kept| kept.began.is_some() && kept.number > seen;
        let session = match self.kept.wait_for(|kept| kept.over.is_some() || told(kept)).await {
            Ok(kept) => {
                let number = kept.number;
                let session = kept.client.clone().map(|client| KeptSession { client, number });
                kept.outcome(session)
            }
            Err(_) => Err(Ended::Closed.into()),
        }?;
        self.seen = session.number;
        Ok(session)
    }
}

impl Handle {
    /// Nothing begins any more. The client of the session that may go on.
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

impl Kept {
    /// The client that is worth handing out.
    fn current(&self) -> Option<&Client> {
        self.client.as_ref().filter(|client| self.answered && client.state().ended().is_none())
    }

    fn outcome<T>(&self, found: Option<T>) -> Result<T, Error> {
        match (&self.over, found) {
            (Some(over), _) => Err(over.clone()),
            (None, Some(found)) => Ok(found),
            (None, None) => Err(Ended::Closed.into()),
        }
    }
}

/// What opens the sessions.
struct Running {
    kept: Arc<watch::Sender<Kept>>,
    /// For all sessions but the first.
    builder: ClientBuilder,
    /// With those that the last session knew of.
    servers: ConnectString,
    random: Random,
}

impl Running {
    async fn run(mut self, first: Parts) {
        let mut next = Ok(first);
        let mut brief = 0;
        while let Some(Parts { client, shared, driver, .. }) = self.begin(next) {
            self.offer(client);
            self.drive(&shared, driver).await;
            match shared.look(|core| core.ended()) {
                Some(Ended::Expired) => {}
                ended => return self.end(ended.unwrap_or(Ended::Closed).into()),
            }
            let began = self.kept.borrow().began;
            let lived = began.is_some_and(|began| shared.clock().now() - began >= LIVED);
            brief = if lived { 0 } else { brief + 1 };
            self.rest(brief).await;
            self.servers.hosts = shared.hosts(|hosts| hosts.all().to_vec());
            next = self.builder.clone().seeded(&mut self.random).parts(self.servers.clone());
        }
    }

    /// Whether there is another session to open.
    fn begin(&self, parts: Result<Parts, Error>) -> Option<Parts> {
        match parts {
            Ok(parts) if !self.kept.borrow().stopping => return Some(parts),
            Ok(_) => self.end(Ended::Closed.into()),
            Err(error) => self.end(error),
        }
        None
    }

    /// A client that asks for a new session.
    fn offer(&self, client: Client) {
        let mut client = Some(client);
        self.kept.send_modify(|kept| {
            if !kept.stopping {
                *kept = Kept { number: kept.number + 1, client: client.take(), ..Kept::default() };
            }
        });
    }

    /// One session, to its end.
    async fn drive(&self, shared: &SharedSession, driver: Driver) {
        let mut driver = pin!(driver.run());
        let mut telling = pin!(self.tell(shared));
        poll_fn(|cx| {
            match driver.as_mut().poll(cx) {
                // It never ends by itself.
                Poll::Pending => telling.as_mut().poll(cx),
                over => over,
            }
        })
        .await;
    }

    /// Tells how the session gets on.
    async fn tell(&self, shared: &SharedSession) {
        let mut states = shared.states();
        // No error can come: the sender is in the shared session, which we hold.
        drop(states.wait_for(|state| state.is_connected()).await);
        self.kept.send_modify(|kept| kept.answered = true);
        drop(states.wait_for(|state| *state == SessionState::Connected).await);
        let now = shared.clock().now();
        self.kept.send_modify(|kept| kept.began = Some(now));
        pending().await
    }

    /// The wait between two sessions.
    async fn rest(&mut self, brief: u32) {
        let mut ended = None;
        self.kept.send_modify(|kept| {
            ended = kept.client.take();
            (kept.answered, kept.began) = (false, None);
        });
        drop(ended);
        let wait = self.random.wait(brief);
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
        });
        drop(client);
    }
}

/// However it ends, nobody is left waiting.
impl Drop for Running {
    fn drop(&mut self) {
        self.end(Ended::Closed.into());
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("number", &self.number)
            .field("client", &self.client)
            .field("over", &self.over)
            .finish_non_exhaustive()
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
