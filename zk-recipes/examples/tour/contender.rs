//! Somebody with a session of their own, whose frames are told.

use std::ops::Deref;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_client::{Client, ClientBuilder, SessionIdentity};
use zk_recipes::{Guard, Hold, Lock, Options};

use crate::narrator::Narrator;
use crate::story::HEARS;
use crate::text::note;
use crate::{Error, LOCK};

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    pub(crate) narrator: Narrator,
}

impl Contender {
    pub(crate) async fn connect(name: &'static str, server: &str) -> Result<Self, Error> {
        Self::build(name, server, Client::builder()).await
    }

    /// With a session that is there already.
    pub(crate) async fn resume(
        name: &'static str,
        server: &str,
        session: SessionIdentity,
    ) -> Result<Self, Error> {
        Self::build(name, server, Client::builder().session(session)).await
    }

    async fn build(
        name: &'static str,
        server: &str,
        builder: ClientBuilder,
    ) -> Result<Self, Error> {
        let narrator = Narrator::new(name);
        let builder = builder.connect_timeout(Duration::from_secs(5)).connector(narrator.clone());
        Ok(Self { name, client: builder.connect(server).await?, narrator })
    }

    pub(crate) fn options(&self) -> Options {
        Options::new().data(self.name)
    }

    pub(crate) fn lock(&self) -> Result<Lock, Error> {
        Ok(Lock::with_options(&self.client, LOCK, self.options())?)
    }

    /// Returns once all is told that the server has to tell by now.
    pub(crate) async fn hears(&self) -> Result<(), Error> {
        Ok(self.client.sync(HEARS).await?)
    }

    pub(crate) async fn acquire(&self, lock: &Lock) -> Result<Guard, Error> {
        told(self.name, lock.acquire()).await
    }

    /// Starts to acquire, and returns once there is nothing to do but wait.
    pub(crate) async fn queue_up(&self, lock: &Lock) -> Result<Waiting<Guard>, Error> {
        let lock = lock.clone();
        self.waits(async move { lock.acquire().await }).await
    }

    /// The same for any lock.
    pub(crate) async fn waits<G>(
        &self,
        acquire: impl Future<Output = Result<G, zk_recipes::Error>> + Send + 'static,
    ) -> Result<Waiting<G>, Error>
    where
        G: Deref<Target = Hold> + Send + 'static,
    {
        let waiting = tokio::spawn(told(self.name, acquire));
        self.narrator.waits().await?;
        note(&format!("{} waits.", self.name));
        Ok(waiting)
    }
}

/// What a contender that waits comes to.
pub(crate) type Waiting<G> = JoinHandle<Result<G, Error>>;

/// Waits for the lock, and says who got it.
pub(crate) async fn told<G: Deref<Target = Hold>>(
    name: &str,
    acquire: impl Future<Output = Result<G, zk_recipes::Error>>,
) -> Result<G, Error> {
    let guard = acquire.await?;
    note(&format!("{name} holds the lock. Fencing token: {}", guard.token()));
    Ok(guard)
}
