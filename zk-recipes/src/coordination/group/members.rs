//! What observers see of a group: views, one after another.
//!
//! An observer keeps a watch on the folder and one on each member, and lists the group when any of
//! them fires. It reads a member again only if that member is new or has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use zk_client::{
    Client, Error as ClientError, Names, Node, SessionId, SessionState, Watcher, Zxid,
};

use crate::error::Error;
use crate::node::{Folder, parse_member};
use crate::steady::quorum::{Quorum, by_quorum, has_quorum};
use crate::steady::retries::{Retries, with_retries};
use crate::steady::watch::RecheckTimer;

/// For how long an observer waits for further changes after the first one. When a server ends many
/// sessions at once, their members leave one after another.
const COALESCE: Duration = Duration::from_millis(5);

/// How often a member may go between the list and the read of its data, before a caller who waits
/// for nothing else gives up. Where one goes in each round trip, that would never end.
const MAX_CHANGES: u32 = 10;

/// The members of a [`Group`](crate::Group) at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct View {
    /// The last transaction that the server had applied when it listed the members.
    ///
    /// It orders the views of all observers: one with a greater epoch is newer as to who is a
    /// member, and two with the same epoch have the same members. Their data may differ all the
    /// same: it is ordered by [`Member::mzxid`]. The epoch does not depend on what servers store
    /// with the folder, which ClickHouse Keeper does not store (issue 115457).
    pub epoch: Zxid,
    /// The members, in the order of their ids. Their data may be newer than the epoch, and is
    /// never older, unless a member's access list was changed so that it may not be read any more.
    pub members: Vec<Member>,
}

/// A member of a [`Group`](crate::Group), as observers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Member {
    /// The id with which it has joined. For a member of kazoo's `Party`, a unique part of its name.
    pub id: String,
    /// Its data, such as an address.
    pub data: Vec<u8>,
    /// The transaction with which it has joined, the [first part](crate::FencingToken::czxid) of
    /// its token.
    ///
    /// It distinguishes the memberships of one id. The later one has the greater number.
    pub czxid: Zxid,
    /// The transaction that has last changed its data.
    pub mzxid: Zxid,
    /// The session that owns its node.
    pub session: SessionId,
    /// The path of its node.
    pub node: String,
}

impl Member {
    fn new(id: &str, path: String, node: &Node) -> Self {
        let Node { data, stat, .. } = node;
        Self {
            id: id.to_owned(),
            data: data.to_vec(),
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            session: stat.ephemeral_owner,
            node: path,
        }
    }
}

/// The views of a group, one after another: see [`Group::watch`](crate::Group::watch).
pub struct Members {
    client: Client,
    folder: Folder,
    watched: Watched,
    /// Shows that the connection has changed.
    states: watch::Receiver<SessionState>,
    /// Runs from one look at the group to the next, over all calls in between.
    recheck: RecheckTimer,
    /// True from a sign of a change until a look at the group has succeeded.
    is_due: bool,
    last: Option<View>,
}

/// What an observer has watches on.
#[derive(Default)]
struct Watched {
    /// Fires when a node comes or goes.
    folder: Option<Watcher>,
    /// The members that were read, by the names of their nodes. Each has a watch that has not
    /// fired.
    members: BTreeMap<String, (Member, Watcher)>,
}

impl Watched {
    /// Takes note of all events: drops the watches that have fired, and the members that are to be
    /// read again. True if there was an event, or the session is over.
    fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        let before = self.members.len();
        self.members.retain(|_, (_, watch)| watch.poll_changed(cx).is_pending());
        let fired = self.folder.take_if(|watch| watch.poll_changed(cx).is_ready());
        fired.is_some() || self.members.len() < before
    }
}

impl Members {
    pub(super) fn new(client: &Client, folder: &Folder) -> Self {
        Self {
            client: client.clone(),
            folder: folder.clone(),
            watched: Watched::default(),
            states: client.states(),
            recheck: RecheckTimer::default(),
            is_due: true,
            last: None,
        }
    }

    /// Returns the members at first, and then waits until a member comes, goes or changes its data.
    ///
    /// Changes that follow one another within 5 ms make one view, and so do changes that come while
    /// nobody calls this. Each view has a greater epoch than the one before.
    ///
    /// While the client is cut off, or connected to a server without a quorum, this waits, and the
    /// [last](Self::last) view stays as it is: a broken connection of the observer does not mean
    /// that the members have gone. After a reconnect the group is listed anew.
    ///
    /// # Errors
    ///
    /// As any read, for instance without the permission to read a member's node; connections that
    /// break again and again over the reads; the end of the session.
    ///
    /// # Cost
    ///
    /// A list for each change, and a read for each member that is new or has changed. The server
    /// keeps a watch for the folder and one for each member, so a member that comes causes one
    /// event, and one that goes causes two. Without a change, there is one list in each session
    /// timeout: a server sends no event of a folder that the observer may no longer read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<View, Error> {
        let mut retries = Retries::default();
        loop {
            if !self.is_due {
                self.changed().await;
                sleep(COALESCE).await;
            }
            // Waits for a connection before listing: a reconnect during the listing would count as
            // a change, and list twice. At the end of the session, the listing tells why.
            let quorum = Quorum::wait_on(self.states.clone()).await;
            // A change of the connection from here on makes the view doubtful, and is looked at by
            // the next call.
            self.states = quorum.into_states();
            match self.look().await {
                Ok(view) => {
                    retries.reset();
                    let changed = self.last.as_ref().filter(|last| last.members != view.members);
                    if changed.is_some_and(|last| last.epoch >= view.epoch) {
                        // The data is newer than the list. The next list has an epoch of its own.
                        continue;
                    }
                    self.is_due = false;
                    self.recheck = RecheckTimer::default();
                    if self.last.is_none() || changed.is_some() {
                        self.last = Some(view.clone());
                        return Ok(view);
                    }
                }
                // Where members come and go all the time, they are not listed all the time.
                Err(error) if error.is_no_node() => sleep(COALESCE).await,
                Err(error) => retries.count(error)?,
            }
        }
    }

    /// The view that was returned last.
    pub fn last(&self) -> Option<&View> {
        self.last.as_ref()
    }

    /// True if the last view is known to be doubtful.
    ///
    /// That is so until the first view; while the client is cut off, or connected to a server
    /// without a quorum; and after a reconnect or once [`next`](Self::next) has seen a sign of a
    /// change, until it has looked at the group again.
    pub fn may_be_outdated(&self) -> bool {
        let is_connected = has_quorum(&self.states.borrow());
        self.is_due || !is_connected || self.states.has_changed().unwrap_or(true)
    }

    /// Waits for the first sign of a change, or for one session timeout.
    async fn changed(&mut self) {
        let Self { client, watched, states, recheck, .. } = self;
        {
            // It also ends when the session does, and the next look reports that.
            let mut reconnected = pin!(states.changed());
            poll_fn(|cx| {
                let is_over = watched.poll(cx) || reconnected.as_mut().poll(cx).is_ready();
                if is_over { Poll::Ready(()) } else { recheck.poll(client, cx) }
            })
            .await;
        }
        self.is_due = true;
    }

    /// Lists the group, and reads the members that are new or have changed. Fails with `NoNode` if
    /// one of them has gone meanwhile, or the folder has come.
    async fn look(&mut self) -> Result<View, ClientError> {
        let (client, folder) = (&self.client, &self.folder);
        let listed = client.get_children_and_watch(folder.path()).with_zxid().await;
        let (list, watcher, epoch) = match listed {
            Ok(((list, watcher), epoch)) => (list.names, watcher, epoch),
            Err(error) if error.is_no_node() => {
                let exists = client.exists_and_watch(folder.path()).with_zxid();
                let ((found, watcher), epoch) = exists.await?;
                if found.is_some() {
                    return Err(error);
                }
                (Default::default(), watcher, epoch)
            }
            Err(error) => return Err(error),
        };
        // The events of what the list reflects have come ahead of it.
        self.watched.poll(&mut Context::from_waker(Waker::noop()));
        if let Some(earlier) = self.watched.folder.replace(watcher) {
            earlier.abandon();
        }
        let nodes = nodes_of_members(&list);
        let names = nodes.iter().map(|&(_, name)| name).collect::<BTreeSet<_>>();
        let known = &mut self.watched.members;
        let gone = known.keys().filter(|name| !names.contains(name.as_str()));
        for gone in gone.cloned().collect::<Vec<_>>() {
            if let Some((_, watcher)) = known.remove(&gone) {
                watcher.abandon();
            }
        }
        let unknown = nodes.iter().filter(|(_, name)| !known.contains_key(*name));
        let unknown = unknown.map(|&(id, name)| (id, name, folder.child(name))).collect::<Vec<_>>();
        let replies = client.batch(|| {
            unknown.iter().map(|(.., path)| client.get_data_and_watch(path)).collect::<Vec<_>>()
        });
        for ((id, name, path), reply) in unknown.into_iter().zip(replies) {
            let (node, watcher) = reply.await?;
            let member = Member::new(id, path, &node);
            known.insert(name.to_owned(), (member, watcher));
        }
        let member = |(_, name): &(_, &str)| Some(known.get(*name)?.0.clone());
        let members = nodes.iter().filter_map(member).collect();
        Ok(View { epoch, members })
    }
}

/// The members now.
pub(super) async fn read(client: &Client, folder: &Folder) -> Result<View, Error> {
    let mut changes = 0;
    loop {
        match with_retries(|| by_quorum(client, || look(client, folder))).await {
            Ok(view) => return Ok(view),
            Err(error) if error.is_no_node() && changes < MAX_CHANGES => changes += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Lists the members and reads each of them. Fails with `NoNode` if one of them has gone meanwhile,
/// or the folder has come.
async fn look(client: &Client, folder: &Folder) -> Result<View, ClientError> {
    let (list, epoch) = match client.get_children(folder.path()).with_zxid().await {
        Ok(listed) => listed,
        Err(error) if error.is_no_node() => {
            let (found, epoch) = client.exists(folder.path()).with_zxid().await?;
            return match found {
                None => Ok(View { epoch, members: Vec::new() }),
                Some(_) => Err(error),
            };
        }
        Err(error) => return Err(error),
    };
    let nodes = nodes_of_members(&list.names);
    let replies = client.batch(|| {
        let read = |&(_, name): &(&str, &str)| client.get_data(&folder.child(name));
        nodes.iter().map(read).collect::<Vec<_>>()
    });
    let mut members = Vec::new();
    for (&(id, name), reply) in nodes.iter().zip(replies) {
        members.push(Member::new(id, folder.child(name), &reply.await?));
    }
    Ok(View { epoch, members })
}

/// The ids of the members with the names of their nodes, in the order of the ids. Of several nodes
/// with one id, the one with the lowest number is the member.
fn nodes_of_members(list: &Names) -> Vec<(&str, &str)> {
    let mut nodes = BTreeMap::new();
    for name in list {
        if let Some((id, number)) = parse_member(name) {
            let first = nodes.entry(id).or_insert((number, name));
            *first = (*first).min((number, name));
        }
    }
    nodes.into_iter().map(|(id, (_, name))| (id, name)).collect()
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members").field("folder", &self.folder.path()).finish_non_exhaustive()
    }
}
