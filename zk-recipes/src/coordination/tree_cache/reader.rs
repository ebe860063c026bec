//! Reads the nodes that have changed, many at a time, and collects what changes meanwhile.
//!
//! Every event of the watch is answered by a read: what the server has at that moment is the truth,
//! whatever the event says. So events may come late, twice or in any number. Replies come in the
//! order of their requests, so no older one overwrites a newer one.

use std::collections::{BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use zk_client::{
    Children, Client, Error as ClientError, ErrorCode, Names, Node, StreamEvent, WatchStream,
    WithZxid, Zxid,
};

use crate::coordination::tree_cache::shared::Shared;
use crate::coordination::tree_cache::tree::{Placed, Tree};

/// Requests in flight at once: enough to fill a round trip.
const AT_ONCE: usize = 128;

/// New requests are sent when no more than this many are in flight, so that each write to the
/// connection has many of them.
const REFILL: usize = AT_ONCE / 2;

/// Why the reading of a tree ended.
pub(super) enum Stop {
    /// Events were missed, so all must be read again.
    Missed,
    Client(ClientError),
    /// The tree has more nodes or bytes than are allowed.
    TooLarge,
}

impl From<ClientError> for Stop {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

/// Keeps a tree as the server has it, over one connection.
pub(super) struct Reader<'a> {
    client: &'a Client,
    shared: &'a Shared,
    events: WatchStream,
    /// The nodes that have changed since they were last requested. A parent is before its children.
    changed: BTreeSet<String>,
    /// The nodes to request next.
    due: BTreeSet<String>,
    /// Children to request after those, of one list after another.
    listed: Vec<Listed>,
    asked: VecDeque<Asked>,
    /// True if anything may have changed without an event.
    reads_all: bool,
    /// The most that the tree may take meanwhile, in nodes and bytes.
    ceiling: (usize, usize),
    /// The zxid of the last reply. The events of all earlier changes have come.
    seen: Zxid,
}

struct Listed {
    /// The path of the node.
    parent: String,
    names: Names,
    next: usize,
}

/// A request in flight, with its path.
struct Asked {
    path: String,
    reply: Waiting,
}

enum Waiting {
    Node(WithZxid<Node>),
    Children(WithZxid<Children>),
}

enum Found {
    Nothing,
    Node(Node),
    Children(Children),
}

impl Asked {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(Found, Zxid), ClientError>> {
        match &mut self.reply {
            Waiting::Node(reply) => {
                Pin::new(reply).poll(cx).map_ok(|(node, zxid)| (Found::Node(node), zxid))
            }
            Waiting::Children(reply) => {
                Pin::new(reply).poll(cx).map_ok(|(list, zxid)| (Found::Children(list), zxid))
            }
        }
    }
}

impl<'a> Reader<'a> {
    /// A reader behind a watch that was set at `seen`.
    pub(super) fn new(
        client: &'a Client,
        shared: &'a Shared,
        events: WatchStream,
        seen: Zxid,
    ) -> Self {
        Self {
            client,
            shared,
            events,
            changed: BTreeSet::new(),
            due: BTreeSet::new(),
            listed: Vec::new(),
            asked: VecDeque::new(),
            reads_all: false,
            ceiling: (0, 0),
            seen,
        }
    }

    /// Reads the whole tree.
    pub(super) async fn read_all(&mut self) -> Result<Zxid, Stop> {
        self.reads_all = true;
        self.changed.clear();
        self.changed.insert(String::new());
        let reached = self.read_changed().await;
        self.reads_all = false;
        reached
    }

    /// Reads what has changed. Returns the zxid up to which all changes are in the tree then.
    pub(super) async fn read_changed(&mut self) -> Result<Zxid, Stop> {
        let since = self.seen;
        self.due = std::mem::take(&mut self.changed);
        self.ceiling = self.shared.ceiling();
        poll_fn(|cx| self.poll_read(cx)).await?;
        self.take_events().await?;
        // Further changes have come. So a node may be newer than others that changed with it.
        Ok(if self.changed.is_empty() { self.seen } else { since })
    }

    /// Waits until a node has changed.
    pub(super) async fn wait(&mut self) -> Result<(), Stop> {
        poll_fn(|cx| {
            self.poll_events(cx)?;
            if self.changed.is_empty() { Poll::Pending } else { Poll::Ready(Ok(())) }
        })
        .await
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Lets the root be read, as if it had changed.
    pub(super) fn look_again(&mut self) {
        self.changed.insert(String::new());
    }

    async fn take_events(&mut self) -> Result<(), Stop> {
        poll_fn(|cx| Poll::Ready(self.poll_events(cx))).await
    }

    /// Takes the events that have come. The last task that called this is woken by the next one.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Result<(), Stop> {
        while let Poll::Ready(event) = self.events.poll_next(cx) {
            let StreamEvent::Changed(event) = event? else {
                return Err(Stop::Missed);
            };
            let Some(path) = self.shared.relative(&event.path) else {
                continue;
            };
            self.changed.insert(path.to_owned());
            if self.changed.len() > self.shared.limits.max_nodes {
                // Rather read all again than remember all that changes meanwhile.
                return Err(Stop::Missed);
            }
        }
        Ok(())
    }

    /// Reads what is due, and what is found below.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Stop>> {
        loop {
            self.ask();
            let Some(asked) = self.asked.front_mut() else {
                return Poll::Ready(Ok(()));
            };
            let Poll::Ready(answer) = asked.poll(cx) else {
                // A queue of events that nobody takes runs over.
                self.poll_events(cx)?;
                return Poll::Pending;
            };
            if let Some(Asked { path, .. }) = self.asked.pop_front() {
                self.take(path, answer)?;
            }
        }
    }

    /// Puts an answer into the tree.
    fn take(
        &mut self,
        path: String,
        answer: Result<(Found, Zxid), ClientError>,
    ) -> Result<(), Stop> {
        let relative = self.shared.relative(&path).unwrap_or_default();
        let (found, zxid) = match answer {
            Ok((found, zxid)) => (found, zxid),
            Err(error) if error.is_no_node() || is_hidden(&error, relative) => {
                (Found::Nothing, error.zxid().unwrap_or_default())
            }
            Err(error) => return Err(error.into()),
        };
        self.seen = self.seen.max(zxid);
        let shared = self.shared;
        shared.tree.change(|tree| self.put(tree, path, found))
    }

    fn put(&mut self, tree: &mut Tree, path: String, found: Found) -> Result<(), Stop> {
        let relative = self.shared.relative(&path).unwrap_or_default();
        tree.newest = self.seen;
        match found {
            Found::Nothing => tree.remove(relative),
            Found::Node(node) => {
                let placed = tree.put(relative, &node);
                let may_differ = self.reads_all || placed == Placed::New;
                if node.stat.num_children == 0 {
                    if placed == Placed::Known {
                        tree.keep_children(relative, [].into_iter());
                    }
                } else if may_differ && placed != Placed::Nowhere {
                    let reply = Waiting::Children(self.client.get_children(&path).with_zxid());
                    self.asked.push_back(Asked { path, reply });
                }
                let (nodes, bytes) = self.ceiling;
                if tree.nodes > nodes || tree.bytes > bytes {
                    return Err(Stop::TooLarge);
                }
            }
            Found::Children(Children { names, .. }) => {
                tree.keep_children(relative, names.iter());
                self.listed.push(Listed { parent: path, names, next: 0 });
            }
        }
        Ok(())
    }

    /// Sends the next requests, if few are in flight.
    fn ask(&mut self) {
        if self.asked.len() > REFILL {
            return;
        }
        let client = self.client;
        client.batch(|| {
            while self.asked.len() < AT_ONCE
                && let Some(path) = self.next_due()
            {
                let reply = client.get_data(&path).with_zxid();
                self.asked.push_back(Asked { path, reply: Waiting::Node(reply) });
            }
        });
    }

    /// The path of the next node to request.
    fn next_due(&mut self) -> Option<String> {
        if let Some(path) = self.due.pop_first() {
            return Some(self.shared.absolute(&path));
        }
        loop {
            let Listed { parent, names, next } = self.listed.last_mut()?;
            let Some(name) = names.get(*next) else {
                self.listed.pop();
                continue;
            };
            *next += 1;
            let path = child(parent, name);
            // What is known already is kept by events.
            let is_known = || {
                let relative = self.shared.relative(&path)?;
                self.shared.tree.look(|tree| tree.node(relative).map(drop))
            };
            if self.reads_all || is_known().is_none() {
                return Some(path);
            }
        }
    }
}

/// The path of a node's child.
fn child(parent: &str, name: &str) -> String {
    let parent = if parent == "/" { "" } else { parent };
    let mut path = String::with_capacity(parent.len() + 1 + name.len());
    path.extend([parent, "/", name]);
    path
}

/// True if the session may not read a node below the root. That is as if it were not there.
fn is_hidden(error: &ClientError, path: &str) -> bool {
    !path.is_empty() && error.code() == Some(ErrorCode::NO_AUTH)
}
