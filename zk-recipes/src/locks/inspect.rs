//! What all handles of locks have in common: the folder, its contenders, and how to ask the holders
//! for the lock, from outside.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use zk_client::{Error as ClientError, Node, SessionId, Zxid};

use crate::error::Error;
use crate::node::{Contender, Role};
use crate::queue::Queue;
use crate::steady::absent::unless_absent;
use crate::steady::quorum::by_quorum;

/// A contender that holds a lock or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueEntry {
    /// The path of its node.
    pub node: String,
    /// The data of its node: [`Options::data`](crate::Options::data) of its process.
    pub data: Vec<u8>,
    /// The session that owns the node.
    pub session: SessionId,
    /// The transaction that created its node.
    ///
    /// This is the first part of its token, unless it is a reader that was a writer.
    pub czxid: Zxid,
    /// When its node was created, in milliseconds since 1970 by the clock of the servers.
    pub ctime: i64,
    /// True if it shares the lock with others that do.
    pub is_shared: bool,
    /// True if nobody ahead keeps it waiting: it holds the lock, or is about to learn that.
    pub is_first: bool,
}

impl QueueEntry {
    pub(crate) fn new(path: String, contender: &Contender, node: &Node, is_first: bool) -> Self {
        Self {
            node: path,
            data: node.data.to_vec(),
            session: node.stat.ephemeral_owner,
            czxid: node.stat.czxid,
            ctime: node.stat.ctime,
            is_shared: contender.role == Role::Shared,
            is_first,
        }
    }
}

/// The folder of a lock: the handles of all locks that have one dereference to it.
#[derive(Clone, Debug)]
pub struct LockFolder(pub(crate) Arc<Queue>);

impl LockFolder {
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.0
    }

    /// The path of the folder.
    pub fn path(&self) -> &str {
        self.0.folder()
    }

    /// Waits for one acquire of this lock for no longer than `time`.
    ///
    /// When the time is over, `acquiring` is dropped, which leaves the queue. For two-level locks
    /// the time counts for both levels together.
    ///
    /// ```
    /// # async fn f(lock: &zk_recipes::RwLock) -> Result<(), zk_recipes::Error> {
    /// let guard = lock.within(std::time::Duration::from_secs(5), lock.read()).await?;
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors and cancel safety
    ///
    /// Those of `acquiring`, and [`TimedOut`](crate::ErrorKind::TimedOut), with its
    /// [reason](Error::timeout).
    ///
    /// # Panics
    ///
    /// When it is awaited outside of a tokio runtime with time enabled.
    pub async fn within<G>(
        &self,
        time: Duration,
        acquiring: impl Future<Output = Result<G, Error>>,
    ) -> Result<G, Error> {
        self.0.within(time, acquiring).await
    }

    /// All contenders, which hold the lock or wait for it, in the order of the queue.
    ///
    /// Contenders that leave meanwhile are left out. The tasks of a process that share a two-level
    /// lock are one contender. While the client is connected to a server without a quorum, this
    /// waits, as it does while the client is cut off.
    ///
    /// # Errors
    ///
    /// As any read, for instance without permission.
    pub async fn contenders(&self) -> Result<Vec<QueueEntry>, Error> {
        Ok(by_quorum(self.0.client(), || self.read()).await?)
    }

    async fn read(&self) -> Result<Vec<QueueEntry>, ClientError> {
        let (queue, client) = (&self.0, self.0.client());
        let Some(list) = unless_absent(client.get_children(queue.folder()).await)? else {
            return Ok(Vec::new());
        };
        let contenders = queue.contenders(&list);
        let replies = client.batch(|| {
            let read = |one: &Contender| client.get_data(&queue.child(&one.name));
            contenders.iter().map(read).collect::<Vec<_>>()
        });
        let holders = holders(&contenders);
        let mut entries = Vec::new();
        for (at, (contender, reply)) in contenders.iter().zip(replies).enumerate() {
            let Some(node) = unless_absent(reply.await)? else { continue };
            let path = queue.child(&contender.name);
            entries.push(QueueEntry::new(path, contender, &node, at < holders));
        }
        Ok(entries)
    }

    /// Asks all holders to give the lock back. Returns how many were asked.
    ///
    /// Like Curator's `Revoker`, this replaces the data of a holder's node by `__REVOKE__`. The
    /// holder decides what to do ([`revoke_requested`](crate::Hold::revoke_requested)). A process
    /// with a two-level lock hands it on among its tasks no more.
    ///
    /// # Errors
    ///
    /// As any read and write, for instance without permission.
    pub async fn revoke(&self) -> Result<usize, Error> {
        let mut asked = 0;
        for entry in self.contenders().await?.into_iter().filter(|entry| entry.is_first) {
            let written = self.0.client().set_data(&entry.node, b"__REVOKE__", None).await;
            asked += usize::from(unless_absent(written)?.is_some());
        }
        Ok(asked)
    }
}

/// How many contenders hold the lock: a writer that is the first, or all readers ahead of the first
/// writer. They are sorted.
fn holders(contenders: &[Contender]) -> usize {
    let is_reader = |one: &&Contender| one.role == Role::Shared;
    let readers = contenders.iter().take_while(is_reader).count();
    readers.max(contenders.len().min(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_are_those_who_wait_for_nobody() {
        for roles in 0..1 << 5 {
            for len in 0..=5 {
                let contender = |sequence: i32| {
                    let role = [Role::Exclusive, Role::Shared][roles >> sequence & 1];
                    Contender { sequence, role, name: format!("{sequence}") }
                };
                let queue = (0..len).map(contender).collect::<Vec<_>>();
                let waits = |one: &&Contender| {
                    queue.iter().any(|other| one.waits_for(other.role, other.sequence, &other.name))
                };
                let expected = queue.iter().filter(|one| !waits(one)).count();
                assert_eq!(holders(&queue), expected, "{queue:?}");
            }
        }
    }
}
