//! The locks of all families behind one interface, so that a task need not know which one it uses.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::time::Duration;

use zk_client::Client;
use zk_recipes::{
    Error, ErrorKind, Guard, Hold, KeyedLocks, Lock, OfTwoLevelLock, Options, Owner, ReadGuard,
    ReentrantGuard, ReentrantLock, ReentrantRwLock, Release, RwLock, WriteGuard,
};

use super::Family;
use super::journal::{FOLDER, FOLDER_OF_KEYS, KEY, Role};
use zk_inputs::Random;

#[derive(Clone, Debug)]
pub(super) enum AnyLock {
    Plain(Lock),
    Rw(RwLock),
    Reentrant(ReentrantLock),
    ReentrantRw(ReentrantRwLock),
    Keyed(KeyedLocks),
}

#[derive(Debug)]
pub(super) enum AnyGuard {
    Plain(Guard),
    Reads(ReadGuard),
    Writes(WriteGuard),
    Reentrant(ReentrantGuard),
}

/// How long an acquire waits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Patience {
    Waits,
    Within(Duration),
    Tries,
}

impl Patience {
    /// What it is called if the lock was not to be had.
    pub(super) fn in_vain(self) -> &'static str {
        if matches!(self, Self::Tries) { "tries in vain" } else { "acquires cancelled" }
    }

    /// Asks in one of three ways for a guard: that is `None` if the time was over before, or if
    /// somebody else holds the lock.
    pub(super) async fn ask<G, A, F>(
        self,
        acquire: A,
        within: impl FnOnce(Duration, A) -> F,
        try_acquire: impl Future<Output = Result<Option<G>, Error>>,
    ) -> Result<Option<G>, Error>
    where
        A: Future<Output = Result<G, Error>>,
        F: Future<Output = Result<G, Error>>,
    {
        match self {
            Self::Waits => acquire.await.map(Some),
            Self::Within(time) => match within(time, acquire).await {
                Err(error) if error.kind() == ErrorKind::TimedOut => Ok(None),
                acquired => acquired.map(Some),
            },
            Self::Tries => try_acquire.await,
        }
    }
}

impl AnyLock {
    pub(super) fn new(family: Family, client: &Client, options: Options<OfTwoLevelLock>) -> Self {
        match family {
            Family::RwLock => Self::Rw(RwLock::new(client, FOLDER).unwrap()),
            Family::ReentrantLock => {
                Self::Reentrant(ReentrantLock::with_options(client, FOLDER, options).unwrap())
            }
            Family::ReentrantRwLock => {
                Self::ReentrantRw(ReentrantRwLock::with_options(client, FOLDER, options).unwrap())
            }
            Family::KeyedLocks => {
                Self::Keyed(KeyedLocks::with_options(client, FOLDER_OF_KEYS, 0, options).unwrap())
            }
            _ => Self::Plain(Lock::new(client, FOLDER).unwrap()),
        }
    }

    /// A random role among those that this lock has.
    pub(super) fn role(&self, random: &mut Random) -> Role {
        match self {
            Self::Rw(_) | Self::ReentrantRw(_) if random.percent(60) => Role::Shared,
            _ => Role::Exclusive,
        }
    }

    pub(super) fn is_reentrant(&self) -> bool {
        matches!(self, Self::Reentrant(_) | Self::ReentrantRw(_) | Self::Keyed(_))
    }

    pub(super) async fn request(
        &self,
        owner: &Owner,
        role: Role,
        patience: Patience,
    ) -> Result<Option<AnyGuard>, Error> {
        Ok(match (self, role) {
            (Self::Plain(lock), _) => patience
                .ask(lock.acquire(), |time, _| lock.acquire_within(time), lock.try_acquire())
                .await?
                .map(AnyGuard::Plain),
            (Self::Rw(lock), Role::Shared) => patience
                .ask(lock.read(), |time, it| lock.within(time, it), lock.try_read())
                .await?
                .map(AnyGuard::Reads),
            (Self::Rw(lock), Role::Exclusive) => patience
                .ask(lock.write(), |time, it| lock.within(time, it), lock.try_write())
                .await?
                .map(AnyGuard::Writes),
            (Self::Reentrant(lock), _) => patience
                .ask(lock.acquire(owner), |time, it| lock.within(time, it), lock.try_acquire(owner))
                .await?
                .map(AnyGuard::Reentrant),
            (Self::ReentrantRw(lock), Role::Shared) => patience
                .ask(lock.read(owner), |time, it| lock.within(time, it), lock.try_read(owner))
                .await?
                .map(AnyGuard::Reentrant),
            (Self::ReentrantRw(lock), Role::Exclusive) => patience
                .ask(lock.write(owner), |time, it| lock.within(time, it), lock.try_write(owner))
                .await?
                .map(AnyGuard::Reentrant),
            (Self::Keyed(locks), _) => {
                // Nothing is kept that is not in use, so that another key lets go of this one.
                drop(locks.lock("another")?);
                let lock = Self::Reentrant(locks.lock(KEY)?);
                Box::pin(lock.request(owner, role, patience)).await?
            }
        })
    }

    /// Asks the holder to give the lock back, where the lock supports that.
    pub(super) async fn revoke(&self) -> Result<(), Error> {
        match self {
            Self::Plain(lock) => lock.revoke().await.map(drop),
            Self::Rw(lock) => lock.revoke().await.map(drop),
            Self::Reentrant(_) | Self::ReentrantRw(_) | Self::Keyed(_) => Ok(()),
        }
    }

    /// The state that is left at the local level, if there is one.
    pub(super) fn remains(&self) -> Option<String> {
        let shown = match self {
            Self::Keyed(locks) => format!("{:?}", locks.lock(KEY).unwrap()),
            lock => format!("{lock:?}"),
        };
        let empty = ["state: Idle", "waiters: []"];
        let is_left = self.is_reentrant() && !empty.iter().all(|part| shown.contains(part));
        is_left.then_some(shown)
    }
}

impl AnyGuard {
    pub(super) fn release(self) -> Pin<Box<dyn Future<Output = Result<Release, Error>> + Send>> {
        match self {
            Self::Plain(guard) => Box::pin(guard.release()),
            Self::Reads(guard) => Box::pin(guard.release()),
            Self::Writes(guard) => Box::pin(guard.release()),
            Self::Reentrant(guard) => Box::pin(guard.release()),
        }
    }
}

impl Deref for AnyGuard {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        match self {
            Self::Plain(guard) => guard,
            Self::Reads(guard) => guard,
            Self::Writes(guard) => guard,
            Self::Reentrant(guard) => guard,
        }
    }
}
