//! Lists the contenders in a lock's queue, and asks holders for the lock, from outside.

use zk_client::{Node, SessionId, Zxid};

use crate::error::Error;
use crate::node::{Contender, Role};
use crate::queue::Queue;

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
            is_shared: contender.role == Role::Shared,
            is_first,
        }
    }
}

impl Queue {
    /// All contenders in the order of the queue. Contenders that leave meanwhile are left out.
    pub(crate) async fn contenders(&self) -> Result<Vec<QueueEntry>, Error> {
        let client = self.client();
        let list = match client.get_children(self.folder()).await {
            Ok(list) => list.names,
            Err(error) if error.is_no_node() => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let parse = |name: &str| Contender::parse(self.naming(), name);
        let mut contenders = list.iter().filter_map(parse).collect::<Vec<_>>();
        contenders.sort_unstable();
        let replies = client.batch(|| {
            let read = |one: &Contender| client.get_data(&self.child(&one.name));
            contenders.iter().map(read).collect::<Vec<_>>()
        });
        let holders = holders(&contenders);
        let mut entries = Vec::new();
        for (at, (contender, reply)) in contenders.iter().zip(replies).enumerate() {
            let node = match reply.await {
                Ok(node) => node,
                Err(error) if error.is_no_node() => continue,
                Err(error) => return Err(error.into()),
            };
            let path = self.child(&contender.name);
            entries.push(QueueEntry::new(path, contender, &node, at < holders));
        }
        Ok(entries)
    }

    /// Asks all holders for the lock. Returns how many were asked.
    pub(crate) async fn revoke(&self) -> Result<usize, Error> {
        let client = self.client();
        let mut asked = 0;
        for entry in self.contenders().await?.into_iter().filter(|entry| entry.is_first) {
            match client.set_data(&entry.node, b"__REVOKE__", None).await {
                Ok(_) => asked += 1,
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error.into()),
            }
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
