//! The kinds of locks that a contender can take, and one interface to hold any of them.

use std::ops::Deref;

use anyhow::Result;
use zk_client::Client;
use zk_recipes::{
    Error, ErrorKind, Guard, Hold, Lock, Options, Owner, ReadGuard, ReentrantGuard, ReentrantLock,
    ReentrantRwLock, RwLock, WriteGuard,
};

use crate::arguments::{Arguments, Kind};

/// The lock that the contenders compete for.
#[derive(Clone)]
pub enum Prize {
    Lock(Lock),
    Rw(RwLock),
    Reentrant(ReentrantLock),
    ReentrantRw(ReentrantRwLock),
}

/// The guard of a lock that was acquired.
pub enum Won {
    Lock(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    /// A lock held at two levels. The outer guard is released first.
    Nested(ReentrantGuard, ReentrantGuard),
}

impl Prize {
    pub fn new(client: &Client, arguments: &Arguments) -> Result<Self> {
        let (path, layout) = (&arguments.path, || arguments.layout.clone());
        let one_level = || Options::new().layout(layout());
        let two_level = || Options::new().layout(layout()).linger(arguments.linger);
        Ok(match arguments.kind {
            Kind::Lock => Self::Lock(Lock::with_options(client, path, one_level())?),
            Kind::Rw => Self::Rw(RwLock::with_options(client, path, one_level())?),
            Kind::Reentrant => {
                Self::Reentrant(ReentrantLock::with_options(client, path, two_level())?)
            }
            Kind::ReentrantRw => {
                Self::ReentrantRw(ReentrantRwLock::with_options(client, path, two_level())?)
            }
        })
    }

    /// True if readers share the lock.
    pub fn has_readers(&self) -> bool {
        matches!(self, Self::Rw(_) | Self::ReentrantRw(_))
    }

    /// Acquires the lock, exclusively or shared.
    pub async fn win(&self, me: &Owner, shared: bool) -> Result<Won, Error> {
        Ok(match self {
            Self::Lock(lock) => Won::Lock(lock.acquire().await?),
            Self::Rw(lock) if shared => Won::Read(lock.read().await?),
            Self::Rw(lock) => Won::Write(lock.write().await?),
            Self::Reentrant(lock) => Won::Nested(lock.acquire(me).await?, lock.acquire(me).await?),
            Self::ReentrantRw(lock) if shared => {
                Won::Nested(lock.read(me).await?, lock.read(me).await?)
            }
            // A writer may also read.
            Self::ReentrantRw(lock) => Won::Nested(lock.write(me).await?, lock.read(me).await?),
        })
    }
}

impl Won {
    /// True if the lock is held exclusively and can be shared.
    pub fn can_share(&self) -> bool {
        matches!(self, Self::Write(_))
    }

    /// Shares a lock that was held exclusively, if that [is possible](Self::can_share).
    pub async fn downgrade(self) -> Result<Self> {
        Ok(match self {
            Self::Write(guard) => Self::Read(guard.downgrade().await?),
            other => other,
        })
    }

    pub async fn release(self) -> Result<()> {
        let released = match self {
            Self::Lock(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Nested(outer, inner) => {
                drop(outer);
                inner.release().await
            }
        };
        match released {
            Ok(_) => Ok(()),
            // The connection broke. The client keeps trying to release the lock.
            Err(error) if error.kind() == ErrorKind::Unconfirmed => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Deref for Won {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        match self {
            Self::Lock(guard) => guard,
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
            Self::Nested(outer, _) => outer,
        }
    }
}
