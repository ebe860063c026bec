//! Who is in a queue, whichever client has made it: those who hold something, and those who wait.
//!
//! The names of a folder's children tell what the folder is. The order is that of zk-recipes. A
//! semaphore of Curator's kind has two folders below its path, and one of kazoo's has its queue in
//! a folder beside it.

use zk_client::{Client, SessionId, Zxid};
use zk_recipes::{Error, Layout, Lock, Options, QueueEntry, RwLock};

use crate::trees::entry::child;

/// Somebody who holds something or waits for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) node: String,
    pub(crate) data: Vec<u8>,
    pub(crate) session: SessionId,
    /// The transaction that created the node.
    czxid: Zxid,
    /// When the node was created, in milliseconds since 1970.
    pub(crate) ctime: i64,
    pub(crate) is_shared: bool,
    pub(crate) is_holder: bool,
    /// The last of the nodes that it waits for, and how many these are.
    pub(crate) waits_for: Option<(String, usize)>,
}

/// All who are in the queue of a path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Queue {
    /// What it is: several kinds if different ones share the folder, which do not exclude each
    /// other.
    pub(crate) kinds: Vec<&'static str>,
    pub(crate) contenders: Vec<Contender>,
    /// True if there are children, and none of them is a contender that is known here.
    pub(crate) has_strangers_alone: bool,
    /// True if there is no node at the path.
    pub(crate) is_missing: bool,
}

/// The kinds of locks: how they are called, what the names of their contenders contain, and how
/// these are read.
const LOCKS: [(&str, &[&str], Layout, bool); 4] = [
    ("lock or election", &["lock-"], Layout::CURATOR, false),
    ("read/write lock", &["__WRIT__", "__READ__"], Layout::CURATOR, true),
    ("election of Curator's LeaderLatch", &["latch-"], Layout::LEADER_LATCH, false),
    ("lock or election of kazoo", &["__lock__", "__rlock__"], Layout::KAZOO, true),
];

/// The folders of a semaphore of Curator's kind.
const FOLDERS: [&str; 2] = ["leases", "locks"];

/// The folder of the queue of kazoo's semaphore at this path.
pub(crate) fn beside(path: &str) -> String {
    format!("{path}-__lock__")
}

/// Reads the queue of a path. It is empty if nobody is there.
pub(crate) async fn read(client: &Client, path: &str) -> Result<Queue, Error> {
    let names = names(client, path).await?;
    let mut queue = Queue::default();
    let has_folders = names.iter().any(|name| FOLDERS.contains(&name.as_str()));
    if has_folders {
        queue.kinds.push("semaphore");
        let turns = contenders(client, &child(path, "locks"), Layout::CURATOR, false).await?;
        let permits = permits(client, &child(path, "leases")).await?;
        queue.contenders = with_turns(permits, turns);
    }
    if !has_folders && client.exists(&beside(path)).await?.is_some() {
        queue.kinds.push("semaphore of kazoo");
        let turns = contenders(client, &beside(path), Layout::KAZOO, true).await?;
        queue.contenders = with_turns(permits(client, path).await?, turns);
    } else {
        for (kind, entries) in locks(client, path, &names).await? {
            queue.kinds.push(kind);
            queue.contenders.extend(entries);
        }
    }
    let is_stranger = |name: &String| !FOLDERS.contains(&name.as_str());
    queue.has_strangers_alone = names.iter().any(is_stranger) && queue.contenders.is_empty();
    queue.is_missing = names.is_empty() && client.exists(path).await?.is_none();
    Ok(queue)
}

/// The locks and elections at a path, the names of whose children are known, with those who are
/// in their queues.
async fn locks(
    client: &Client,
    path: &str,
    names: &[String],
) -> Result<Vec<(&'static str, Vec<Contender>)>, Error> {
    let mut found = Vec::new();
    for (kind, markers, layout, is_shared) in LOCKS {
        if !names.iter().any(|name| markers.iter().any(|marker| name.contains(marker))) {
            continue;
        }
        let entries = contenders(client, path, layout, is_shared).await?;
        if !entries.is_empty() {
            found.push((kind, entries));
        }
    }
    Ok(found)
}

/// The node of a contender that those of a semaphore at this path do not exclude, or those of a
/// lock or an election.
pub(crate) async fn other_kind(
    client: &Client,
    path: &str,
    is_semaphore: bool,
) -> Result<Option<String>, Error> {
    if is_semaphore {
        let locks = locks(client, path, &names(client, path).await?).await?;
        let mut entries = locks.into_iter().flat_map(|(_, entries)| entries);
        return Ok(entries.next().map(|entry| entry.node));
    }
    let leases = child(path, "leases");
    let names = names(client, &leases).await?;
    let permit = names.iter().find(|name| name.contains("-lease-"));
    Ok(permit.map(|name| child(&leases, name)))
}

/// The names of a node's children: none if there is no node.
async fn names(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    match client.get_children(path).await {
        Ok(children) => Ok(children.names.iter().map(str::to_owned).collect()),
        Err(error) if error.is_no_node() => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// The contenders of a lock, in the order of the queue.
async fn contenders(
    client: &Client,
    path: &str,
    layout: Layout,
    is_shared: bool,
) -> Result<Vec<Contender>, Error> {
    let options = Options::new().layout(layout);
    let entries = match is_shared {
        true => RwLock::with_options(client, path, options)?.contenders().await?,
        false => Lock::with_options(client, path, options)?.contenders().await?,
    };
    let contenders = entries.iter().enumerate().map(|(at, entry)| {
        let blocks = |other: &&QueueEntry| !(other.is_shared && entry.is_shared);
        let mut ahead = entries.iter().take(at).filter(blocks);
        let nearest = ahead.next_back();
        Contender {
            node: entry.node.clone(),
            data: entry.data.clone(),
            session: entry.session,
            czxid: entry.czxid,
            ctime: entry.ctime,
            is_shared: entry.is_shared,
            is_holder: entry.is_first,
            waits_for: nearest.map(|nearest| (nearest.node.clone(), ahead.count() + 1)),
        }
    });
    Ok(contenders.collect())
}

/// The permits of a semaphore, and those who wait for some.
///
/// The first of the queue takes its permits before there is room for them, and leaves the queue
/// when there is. So those that its session has taken since it joined the queue are not held yet.
fn with_turns(mut permits: Vec<Contender>, turns: Vec<Contender>) -> Vec<Contender> {
    if let Some(first) = turns.first() {
        permits.retain(|it| it.session != first.session || it.czxid < first.czxid);
    }
    let waiting = turns.into_iter().map(|turn| Contender { is_holder: false, ..turn });
    permits.into_iter().chain(waiting).collect()
}

/// The permits of a semaphore, in the order in which they were taken: each child of their folder,
/// whatever its name.
async fn permits(client: &Client, folder: &str) -> Result<Vec<Contender>, Error> {
    let nodes = names(client, folder).await?;
    let nodes = nodes.iter().map(|name| child(folder, name)).collect::<Vec<_>>();
    let replies =
        client.batch(|| nodes.iter().map(|node| client.get_data(node)).collect::<Vec<_>>());
    let mut permits = Vec::new();
    for (node, reply) in nodes.into_iter().zip(replies) {
        let found = match reply.await {
            Ok(found) => found,
            Err(error) if error.is_no_node() => continue,
            Err(error) => return Err(error.into()),
        };
        permits.push(Contender {
            node,
            data: found.data.to_vec(),
            session: found.stat.ephemeral_owner,
            czxid: found.stat.czxid,
            ctime: found.stat.ctime,
            is_shared: false,
            is_holder: true,
            waits_for: None,
        });
    }
    // Those of one transaction are in the order of their numbers, behind the last dash.
    permits.sort_by_cached_key(|it| {
        let number = it.node.rsplit('-').next().map(str::to_owned);
        (it.czxid, number)
    });
    Ok(permits)
}
