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
    Children, Client, Error as ClientError, ErrorCode, Node, StreamEvent, WatchStream, WithZxid,
    Zxid,
};

use crate::coordination::follow::Stop;
use crate::coordination::tree_cache::shared::Shared;
use crate::coordination::tree_cache::tree::child;
use crate::steady::wakeups::first_of;
use crate::steady::watch::pause;

/// Requests in flight at once: enough to fill a round trip.
const AT_ONCE: usize = 128;

/// New requests are sent when no more than this many are in flight, so that each write to the
/// connection has many of them.
const REFILL: usize = AT_ONCE / 2;

/// Keeps a tree as the server has it, over one connection.
pub(super) struct Reader<'a> {
    client: &'a Client,
    shared: &'a Shared,
    events: WatchStream,
    /// The nodes that have changed since they were last requested. A parent is before its children.
    changed: BTreeSet<String>,
    /// The nodes to request, the next one last.
    due: Vec<String>,
    asked: VecDeque<Asked>,
    /// True if anything may have changed without an event.
    reads_all: bool,
    /// The zxid of the last reply. The events of all earlier changes have come.
    seen: Zxid,
}

/// A request in flight, with its path.
struct Asked {
    path: String,
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
}

type Answer = Result<(Found, Zxid), ClientError>;

impl Asked {
    fn new<T: 'static>(path: String, reply: WithZxid<T>, found: fn(T) -> Found) -> Self {
        let answer = async move { reply.await.map(|(read, zxid)| (found(read), zxid)) };
        Self { path, answer: Box::pin(answer) }
    }
}

enum Found {
    Nothing,
    Node(Node),
    Children(Children),
}

impl<'a> Reader<'a> {
    /// A reader behind a watch that was set at `seen`. All nodes are to be read.
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
            changed: BTreeSet::from([shared.root.clone()]),
            due: Vec::new(),
            asked: VecDeque::new(),
            reads_all: true,
            seen,
        }
    }

    /// Reads what has changed. Returns the zxid up to which all changes are in the tree then.
    pub(super) async fn read_changed(&mut self) -> Result<Zxid, Stop> {
        let since = self.seen;
        self.due = std::mem::take(&mut self.changed).into_iter().rev().collect();
        while let Some(mut asked) = self.next_asked() {
            let answer = poll_fn(|cx| {
                let answer = asked.answer.as_mut().poll(cx);
                if answer.is_pending() {
                    // A queue of events that nobody takes runs over.
                    self.poll_events(cx)?;
                }
                answer.map(Ok::<_, Stop>)
            });
            let answer = answer.await?;
            self.put(asked.path, answer)?;
        }
        self.reads_all = false;
        poll_fn(|cx| Poll::Ready(self.poll_events(cx))).await?;
        if !self.changed.is_empty() {
            // Further changes have come. So a node may be newer than others that changed with it,
            // and nodes that have gone may still be counted beside those that have come.
            return Ok(since);
        }
        self.shared.tree.change(|tree| self.shared.ensure_within_limits(tree, 1))?;
        Ok(self.seen)
    }

    /// Waits until something is to be read, with all changes up to `reached` in the tree.
    pub(super) async fn wait(&mut self, reached: Zxid) -> Result<(), Stop> {
        let (client, shared) = (self.client, self.shared);
        let mut wanted = shared.wanted.subscribe();
        let due = async {
            // The sender is kept with the tree.
            let wanted = async { drop(wanted.wait_for(|wanted| *wanted > reached).await) };
            first_of(wanted, pause(client)).await;
            let wanted = *shared.wanted.borrow();
            client.wait_for_zxid(wanted).await?;
            // The reply also shows how far the server is, and that the root may be read.
            Ok::<_, Stop>(Some(shared.root.clone()))
        };
        let changed = poll_fn(|cx| {
            self.poll_events(cx)?;
            if self.changed.is_empty() { Poll::Pending } else { Poll::Ready(Ok(None)) }
        });
        let due = first_of(changed, due).await?;
        self.changed.extend(due);
        Ok(())
    }

    /// Takes the events that have come. The last task that called this is woken by the next one.
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Result<(), Stop> {
        while let Poll::Ready(event) = self.events.poll_next(cx) {
            let StreamEvent::Changed(event) = event? else {
                return Err(Stop::Missed);
            };
            self.changed.insert(event.path);
            if self.changed.len() > self.shared.limits.max_nodes {
                // Rather read all again than remember all that changes meanwhile.
                return Err(Stop::Missed);
            }
        }
        Ok(())
    }

    /// Puts an answer into the tree.
    fn put(&mut self, path: String, answer: Answer) -> Result<(), Stop> {
        let is_root = path == self.shared.root;
        let (found, zxid) = match answer {
            Ok(found) => found,
            Err(error) => {
                // What the session may not read is as if it were not there, except the root.
                let is_hidden = !is_root && error.code() == Some(ErrorCode::NO_AUTH);
                if !error.is_no_node() && !is_hidden {
                    return Err(error.into());
                }
                (Found::Nothing, error.zxid().unwrap_or_default())
            }
        };
        self.seen = self.seen.max(zxid);
        let listed = self.shared.tree.change(|tree| {
            tree.newest = self.seen;
            match found {
                Found::Nothing => tree.remove(&path),
                // The parent was deleted meanwhile, or may not be read.
                Found::Node(_) if !is_root && !tree.has_parent_of(&path) => {}
                Found::Node(node) => {
                    let is_new = tree.put(&path, &node);
                    let has_children = node.stat.num_children > 0;
                    if has_children && (is_new || self.reads_all) {
                        let reply = self.client.get_children(&path).with_zxid();
                        self.asked.push_back(Asked::new(path, reply, Found::Children));
                    } else if !has_children && !is_new {
                        tree.keep_children(&path, [].into_iter());
                    }
                    // A node that moves meanwhile is counted at both places, until the read of what
                    // has changed removes the old one. The limits themselves are for a tree without
                    // changes to be read.
                    self.shared.ensure_within_limits(tree, 2)?;
                }
                Found::Children(Children { names, .. }) => {
                    tree.keep_children(&path, names.iter());
                    return Ok::<_, Stop>(Some((path, names)));
                }
            }
            Ok(None)
        });
        // There may be many, so this is not a part of the change, for which readers wait.
        if let Some((path, names)) = listed? {
            let paths = names.iter().map(|name| child(&path, name));
            self.shared.tree.look(|tree| {
                // What is known already is kept by events.
                let is_due = |path: &String| self.reads_all || tree.node(path).is_none();
                self.due.extend(paths.filter(is_due));
            });
        }
        Ok(())
    }

    /// The request that was sent first, behind the next ones if few are in flight.
    fn next_asked(&mut self) -> Option<Asked> {
        if self.asked.len() <= REFILL {
            let client = self.client;
            client.batch(|| {
                while self.asked.len() < AT_ONCE
                    && let Some(path) = self.due.pop()
                {
                    let reply = client.get_data(&path).with_zxid();
                    self.asked.push_back(Asked::new(path, reply, Found::Node));
                }
            });
        }
        self.asked.pop_front()
    }
}
