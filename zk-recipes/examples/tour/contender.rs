//! Somebody with a session of their own, whose frames are shown.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_client::{Client, ClientBuilder, SessionIdentity};
use zk_recipes::{Guard, Hold, Lock, OfAnyLock, Options};

use crate::Error;
use crate::narrator::Narrator;
use crate::stage::Stage;
use crate::story::HEARS;
use crate::world::{LOCK, World};

pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    pub(crate) narrator: Narrator,
    stage: Stage,
}

impl Contender {
    pub(crate) async fn connect(name: &'static str, world: &World) -> Result<Self, Error> {
        Self::build(name, world, Client::builder(), true).await
    }

    /// The same, without showing it.
    pub(crate) async fn meet(name: &'static str, world: &World) -> Result<Self, Error> {
        Self::build(name, world, Client::builder(), false).await
    }

    /// With a session that exists already.
    pub(crate) async fn resume(
        name: &'static str,
        world: &World,
        session: SessionIdentity,
    ) -> Result<Self, Error> {
        Self::build(name, world, Client::builder().session(session), true).await
    }

    async fn build(
        name: &'static str,
        world: &World,
        builder: ClientBuilder,
        is_shown: bool,
    ) -> Result<Self, Error> {
        let stage = world.stage.clone();
        let narrator = Narrator::new(name, stage.clone(), Arc::clone(&world.network));
        if !is_shown {
            narrator.quiet();
        }
        let builder = builder.connect_timeout(Duration::from_secs(5)).connector(narrator.clone());
        // In memory the same names are drawn each time, so that the tour is the same.
        let seed = name.bytes().fold(1, |seed, byte| seed * 31 + u64::from(byte));
        let builder = if world.is_real { builder } else { builder.seed(seed) };
        let client = builder.connect(&world.address).await?;
        narrator.loud();
        Ok(Self { name, client, narrator, stage })
    }

    pub(crate) fn options<K: OfAnyLock>(&self) -> Options<K> {
        Options::new().data(self.name)
    }

    pub(crate) fn lock(&self) -> Result<Lock, Error> {
        Ok(Lock::with_options(&self.client, LOCK, self.options())?)
    }

    /// Returns once the contender has received all that the server has sent by now.
    pub(crate) async fn hears(&self) -> Result<(), Error> {
        Ok(self.client.sync(HEARS).await?)
    }

    pub(crate) async fn acquire(&self, lock: &Lock) -> Result<Guard, Error> {
        self.told(lock.acquire()).await
    }

    /// Waits for a lock, and says who got it.
    pub(crate) async fn told<G: Deref<Target = Hold>>(
        &self,
        acquire: impl Future<Output = Result<G, zk_recipes::Error>>,
    ) -> Result<G, Error> {
        told(&self.stage, self.name, acquire).await
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
        let (stage, name) = (self.stage.clone(), self.name);
        let waiting = tokio::spawn(async move { told(&stage, name, acquire).await });
        self.narrator.waits().await?;
        self.stage.note(&format!("{} waits.", self.name));
        Ok(waiting)
    }
}

/// What a contender that waits comes to.
pub(crate) type Waiting<G> = JoinHandle<Result<G, Error>>;

/// Waits for a lock, and says who got it.
pub(crate) async fn told<G: Deref<Target = Hold>>(
    stage: &Stage,
    name: &str,
    acquire: impl Future<Output = Result<G, zk_recipes::Error>>,
) -> Result<G, Error> {
    let guard = acquire.await?;
    stage.note(&format!("{name} holds the lock. Fencing token: {}", guard.token()));
    Ok(guard)
}
