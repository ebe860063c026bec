//! The locks that can be fought for, and what it is to hold one, whichever it is.

use std::ops::Deref;

use anyhow::Result;
use zk_client::Client;
use zk_recipes::{
    Error, ErrorKind, Guard, Hold, Lock, Owner, ReadGuard, ReentrantGuard, ReentrantLock,
    ReentrantRwLock, RwLock, WriteGuard,
};

use crate::arguments::{Arguments, Kind};

/// What is fought for.
#[derive(Clone)]
pub enum Prize {
    Lock(Lock),
    Rw(RwLock),
    Reentrant(ReentrantLock),
    ReentrantRw(ReentrantRwLock),
}

/// What has been won.
pub enum Won {
    Lock(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    /// At two levels: the outer one is left first.
    Nested(ReentrantGuard, ReentrantGuard),
}

impl Prize {
    pub fn new(client: &Client, arguments: &Arguments) -> Result<Self> {
        let (path, options) = (&arguments.path, arguments.options.clone());
        Ok(match arguments.kind {
            Kind::Lock => Self::Lock(Lock::with_options(client, path, options)?),
            Kind::Rw => Self::Rw(RwLock::with_options(client, path, options)?),
            Kind::Reentrant => Self::Reentrant(ReentrantLock::with_options(client, path, options)?),
            Kind::ReentrantRw => {
                Self::ReentrantRw(ReentrantRwLock::with_options(client, path, options)?)
            }
        })
    }

    /// Whether readers share it.
    pub fn has_readers(&self) -> bool {
        matches!(self, Self::Rw(_) | Self::ReentrantRw(_))
    }

    /// Waits for it, alone or shared.
    pub async fn win(&self, me: &Owner, shared: bool) -> Result<Won, Error> {
        Ok(match self {
            Self::Lock(lock) => Won::Lock(lock.acquire().await?),
            Self::Rw(lock) if shared => Won::Read(lock.read().await?),
            Self::Rw(lock) => Won::Write(lock.write().await?),
            Self::Reentrant(lock) => Won::Nested(lock.acquire(me).await?, lock.acquire(me).await?),
            Self::ReentrantRw(lock) if shared => {
                Won::Nested(lock.read(me).await?, lock.read(me).await?)
            }
            // Who writes may read.
            Self::ReentrantRw(lock) => Won::Nested(lock.write(me).await?, lock.read(me).await?),
        })
    }
}

impl Won {
    /// Whether it is held alone and can be shared.
    pub fn can_share(&self) -> bool {
        matches!(self, Self::Write(_))
    }

    /// What was held alone is shared from now on, if that [is possible](Self::can_share).
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
            // The connection broke: the client goes on releasing it.
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
