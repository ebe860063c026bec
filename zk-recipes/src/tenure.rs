//! A place in a queue: one ephemeral sequential node, from its create to the moment it is first.
//!
//! Joining is one flight of two requests, create and list. Waiting is watches: on the nearest
//! contender ahead, on the one before it, and on the own node. Who is ahead is known from the list
//! and only shrinks, so when everybody ahead has been seen to go, the place is first without
//! another request. The node itself is the client's [`OwnedNode`]: whatever is dropped here,
//! whenever, leaves nothing behind.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use tracing::{debug, trace};
use zk_client::{
    Acl, Children, Client, CreateOptions, Created, Error as ClientError, ErrorCode, EventType,
    Outcome, OwnedNode, Reply, WatchedEvent, Watcher,
};

use crate::contender::{self, Contender};
use crate::error::{Error, Fault};
use crate::layout;

/// Sequence numbers end at 2^31 - 1, and what servers do there differs. This far before it no
/// place is taken any more; the distance is more contenders than can be under way at once.
const LAST_SEQUENCE: i32 = i32::MAX - 65_536;

/// Contenders ahead that are watched. With two, the second one's end tells early that only the
/// first is left, and the hand-over needs no list.
const WATCHED_AHEAD: usize = 2;

/// Connections that may break in a row over what a place asks, before it is given up: a request
/// that breaks each connection it is sent on would take all others of the session with it.
const MAX_LOSSES: u32 = 5;

/// A contender's place in the queue of one folder.
#[derive(Debug)]
pub(crate) struct Tenure {
    client: Client,
    folder: String,
    node: OwnedNode,
    own: Contender,
}

/// What a place that is not first yet knows.
#[derive(Debug, Default)]
struct Queue {
    /// Everybody ahead who has not been seen to go, lowest first.
    ahead: Vec<Contender>,
    /// Whether `ahead` must be read again before anything follows from it.
    stale: bool,
    own: Option<Watcher>,
    watched: Vec<Watched>,
    /// Set where a contender may not be read, so that its end would go untold.
    folder: Option<Watcher>,
    unreadable: bool,
    /// Flights in a row that were not answered in full, and why the last was not.
    losses: u32,
    loss: Option<ClientError>,
}

/// A contender ahead whose end will be told.
#[derive(Debug)]
struct Watched {
    contender: Contender,
    /// Whether its node belongs to our own session.
    sibling: bool,
    watcher: Watcher,
}

/// What a waiting place was woken by.
enum Woken {
    Own(WatchedEvent),
    Ahead(Watched, WatchedEvent),
    Folder,
}

impl Tenure {
    /// Joins the queue of `folder` and waits to be first.
    ///
    /// Dropping the future leaves the queue.
    pub(crate) async fn first(client: &Client, folder: &str, data: &[u8]) -> Result<Self, Error> {
        let (tenure, list) = Self::join(client, folder, data).await?;
        tenure.wait(list).await?;
        Ok(tenure)
    }

    /// Joins the queue. Returns the list that was read behind the create, unless it was lost.
    async fn join(
        client: &Client,
        folder: &str,
        data: &[u8],
    ) -> Result<(Self, Option<Children>), Error> {
        let mut parents: Option<CreateOptions<'_>> = None;
        let mut losses = 0;
        loop {
            let stem = child(folder, &layout::stem(client.unique()));
            let (made, created, list) = client.batch(|| {
                let made = parents.iter().flat_map(|options| {
                    ancestors(folder).map(|path| client.create(path, b"", options))
                });
                let made = made.collect::<Vec<_>>();
                let created = client.create_owned(&stem, data, &[Acl::OPEN]);
                (made, created, client.get_children(folder))
            });
            let (failed, no_containers) = made_folders(made).await;
            if no_containers {
                debug!("the server has no containers");
                parents = Some(CreateOptions::persistent());
            }
            let node = match created.await {
                Ok(node) => node,
                // The root that this client sees is missing, and not ours to make.
                Err(error) if error.is_no_node() && folder == "/" => return Err(error.into()),
                Err(error) if error.is_no_node() => match (parents, failed) {
                    (None, _) => {
                        trace!(folder, "making the folder");
                        parents = Some(CreateOptions::container());
                        continue;
                    }
                    (_, Some(failed)) if !no_containers && !failed.is_connection_loss() => {
                        return Err(failed.into());
                    }
                    // Made otherwise now; or its create was lost, or somebody removed it again.
                    _ => continue,
                },
                // The client has looked: nothing is left of this attempt.
                Err(error) if error.is_connection_loss() => {
                    losses += 1;
                    if error.outcome() == Outcome::NotApplied && losses < MAX_LOSSES {
                        continue;
                    }
                    return Err(error.into());
                }
                Err(error) => return Err(error.into()),
            };
            let tenure = Self::new(client, folder, node)?;
            return match list.await {
                Ok(list) => Ok((tenure, Some(list))),
                Err(error) if passes(&error) => Ok((tenure, None)),
                Err(error) => Err(tenure.vanished_or(error)),
            };
        }
    }

    fn new(client: &Client, folder: &str, node: OwnedNode) -> Result<Self, Error> {
        let name = node.path().rsplit('/').next().unwrap_or_default();
        let own = Contender::parse(name).filter(|own| (0..=LAST_SEQUENCE).contains(&own.sequence));
        let Some(own) = own else {
            return Err(Fault::SequenceExhausted(folder.to_owned()).into());
        };
        Ok(Self { client: client.clone(), folder: folder.to_owned(), node, own })
    }

    /// The node that is the place.
    pub(crate) fn node(&self) -> &OwnedNode {
        &self.node
    }

    /// Gives the place up.
    pub(crate) fn into_node(self) -> OwnedNode {
        self.node
    }

    /// Waits until nobody is ahead.
    async fn wait(&self, list: Option<Children>) -> Result<(), Error> {
        let mut queue = Queue { stale: true, ..Queue::default() };
        if let Some(list) = list {
            self.learn(&mut queue, &list)?;
        }
        loop {
            if !queue.stale && queue.ahead.is_empty() && self.confirm(&mut queue)? {
                return Ok(());
            }
            if self.ask(&mut queue).await? {
                continue;
            }
            match poll_fn(|cx| queue.poll_woken(cx)).await? {
                Woken::Own(event) if event.kind == EventType::NODE_DELETED => {
                    return Err(self.vanished());
                }
                // Somebody wrote to our node: watch it again.
                Woken::Own(_) => {}
                Woken::Folder => queue.stale = true,
                Woken::Ahead(watched, event) => queue.woken_by(&watched, &event),
            }
        }
    }

    /// Nobody is ahead: the place is first, unless our own node went before them. Events of one
    /// connection come in the order of the changes, so its end would have been told by now, if
    /// the watch that tells it is still armed. If not, a list decides.
    fn confirm(&self, queue: &mut Queue) -> Result<bool, Error> {
        if let Some(ended) = self.client.state().ended() {
            return Err(ClientError::from(ended).into());
        }
        let mut cx = Context::from_waker(Waker::noop());
        if let Some(Poll::Ready(event)) = queue.own.as_mut().map(|own| own.poll_changed(&mut cx)) {
            if event?.kind == EventType::NODE_DELETED {
                return Err(self.vanished());
            }
            queue.own = None;
            queue.stale = true;
            return Ok(false);
        }
        debug!(node = self.node.path(), "first in the queue");
        Ok(true)
    }

    /// Asks for everything that is missing, in one flight. Says whether there was anything.
    async fn ask(&self, queue: &mut Queue) -> Result<bool, Error> {
        let unwatched = queue.unwatched();
        let watch_folder = queue.unreadable && queue.folder.is_none();
        if !queue.stale && !watch_folder && unwatched.is_empty() && queue.own.is_some() {
            return Ok(false);
        }
        let client = &self.client;
        let (own, others, watched_list, list) = client.batch(|| {
            let own = queue.own.is_none();
            let own = own.then(|| client.get_data_and_watch(self.node.path()));
            let others = unwatched.into_iter().map(|contender| {
                let path = child(&self.folder, &contender.name);
                (contender, client.get_data_and_watch(&path))
            });
            let others = others.collect::<Vec<_>>();
            let watched = watch_folder.then(|| client.get_children_and_watch(&self.folder));
            let list = queue.stale && !watch_folder;
            (own, others, watched, list.then(|| client.get_children(&self.folder)))
        });
        if let Some(reply) = own {
            queue.own = self.survive(queue, reply.await)?.map(|(_, watcher)| watcher);
            // Without a watch of our own, only a list can tell that we are still there.
            queue.stale |= queue.own.is_none();
        }
        let mut gone = Vec::new();
        for (contender, reply) in others {
            match reply.await {
                Ok((node, watcher)) => {
                    let sibling = node.stat.ephemeral_owner == self.node.stat().ephemeral_owner;
                    queue.watched.push(Watched { contender, sibling, watcher });
                }
                Err(error) if error.is_no_node() => gone.push(contender),
                Err(error) if passes(&error) => queue.loss = Some(error),
                // Servers do not tell of the end of a node that we may not read.
                Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => {
                    queue.unreadable = true;
                    queue.stale = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(reply) = watched_list
            && let Some((list, watcher)) = self.survive(queue, reply.await)?
        {
            queue.folder = Some(watcher);
            self.learn(queue, &list)?;
        }
        if let Some(reply) = list
            && let Some(list) = self.survive(queue, reply.await)?
        {
            self.learn(queue, &list)?;
        }
        for contender in gone {
            queue.gone(&contender);
        }
        match queue.loss.take() {
            None => queue.losses = 0,
            Some(_) if queue.losses < MAX_LOSSES => queue.losses += 1,
            Some(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Takes over who is ahead from a fresh list.
    fn learn(&self, queue: &mut Queue, list: &Children) -> Result<(), Error> {
        let names = list.names.iter().map(String::as_str);
        queue.ahead = contender::ahead(&self.own, names).ok_or_else(|| self.vanished())?;
        queue.watched.retain(|watched| queue.ahead.contains(&watched.contender));
        queue.stale = false;
        trace!(node = self.node.path(), ahead = queue.ahead.len(), "listed");
        Ok(())
    }

    /// Turns what passes into `None`: it is asked again.
    fn survive<R>(
        &self,
        queue: &mut Queue,
        reply: Result<R, ClientError>,
    ) -> Result<Option<R>, Error> {
        match reply {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if passes(&error) => {
                queue.loss = Some(error);
                Ok(None)
            }
            Err(error) => Err(self.vanished_or(error)),
        }
    }

    /// Our own node, or the folder with it, is gone.
    fn vanished_or(&self, error: ClientError) -> Error {
        if error.is_no_node() { self.vanished() } else { error.into() }
    }

    fn vanished(&self) -> Error {
        Fault::NodeVanished(self.node.path().to_owned()).into()
    }
}

impl Queue {
    /// The nearest contenders ahead that should be watched and are not.
    fn unwatched(&self) -> Vec<Contender> {
        if self.unreadable {
            return Vec::new();
        }
        let nearest = self.ahead.iter().rev().take(WATCHED_AHEAD);
        let watched =
            |one: &&Contender| self.watched.iter().any(|watched| watched.contender == **one);
        nearest.filter(|one| !watched(one)).cloned().collect()
    }

    /// A contender ahead was changed or is gone.
    fn woken_by(&mut self, watched: &Watched, event: &WatchedEvent) {
        if event.kind == EventType::NODE_DELETED {
            // Our own end may not have been told yet: what was missed is told in no order, and
            // neither are the nodes that a session takes with it when it ends.
            self.stale |= event.missed || watched.sibling;
            self.gone(&watched.contender);
        }
    }

    /// A contender ahead is gone. Of those in front of the ones that are watched nothing is known
    /// since the last list, so while there are any, they are listed again.
    fn gone(&mut self, contender: &Contender) {
        if !self.ahead.contains(contender) {
            return;
        }
        let nearest = self.ahead.last() == Some(contender);
        self.ahead.retain(|other| other != contender);
        self.stale |= self.ahead.len() > 1 || (nearest && !self.ahead.is_empty());
    }

    /// Waits for the first watch to fire. The own node's comes last: its end, if it happened
    /// before another's, is then there to be seen.
    fn poll_woken(&mut self, cx: &mut Context<'_>) -> Poll<Result<Woken, ClientError>> {
        for index in 0..self.watched.len() {
            let polled = self.watched.get_mut(index).map(|one| one.watcher.poll_changed(cx));
            if let Some(Poll::Ready(event)) = polled {
                let watched = self.watched.swap_remove(index);
                return Poll::Ready(event.map(|event| Woken::Ahead(watched, event)));
            }
        }
        if let Some(Poll::Ready(event)) = self.folder.as_mut().map(|folder| folder.poll_changed(cx))
        {
            self.folder = None;
            return Poll::Ready(event.map(|_| Woken::Folder));
        }
        if let Some(Poll::Ready(event)) = self.own.as_mut().map(|own| own.poll_changed(cx)) {
            self.own = None;
            return Poll::Ready(event.map(Woken::Own));
        }
        Poll::Pending
    }
}

/// Why folders were not made, if they were not, and whether the server knows no containers.
async fn made_folders(made: Vec<Reply<Created>>) -> (Option<ClientError>, bool) {
    let mut failed: Option<ClientError> = None;
    let mut no_containers = false;
    for reply in made {
        match reply.await {
            Ok(_) => {}
            Err(error) if error.is_node_exists() => {}
            Err(error) if error.code() == Some(ErrorCode::UNIMPLEMENTED) => no_containers = true,
            // A child without its parent, or a lost answer, is the consequence of an earlier
            // failure, if there is one.
            Err(error) if error.is_no_node() || error.is_connection_loss() => {
                failed.get_or_insert(error);
            }
            // An ancestor that is there may refuse to be made: the last failure is the cause.
            Err(error) => failed = Some(error),
        }
    }
    (failed, no_containers)
}

/// Whether a failure says nothing of what was asked: the connection broke, or the server shed it.
fn passes(error: &ClientError) -> bool {
    error.is_connection_loss() || error.code() == Some(ErrorCode::THROTTLED_OP)
}

fn child(folder: &str, name: &str) -> String {
    let slash = if folder == "/" { "" } else { "/" };
    format!("{folder}{slash}{name}")
}

/// The folder's ancestors from the top and the folder itself, without the root.
fn ancestors(folder: &str) -> impl Iterator<Item = &str> {
    let ends = folder.match_indices('/').map(|(at, _)| at).skip(1).chain([folder.len()]);
    ends.filter_map(|end| folder.get(..end)).filter(|path| path.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ancestors_come_from_the_top() {
        assert_eq!(ancestors("/a/b/c").collect::<Vec<_>>(), ["/a", "/a/b", "/a/b/c"]);
        assert_eq!(ancestors("/a").collect::<Vec<_>>(), ["/a"]);
        assert_eq!(ancestors("/").count(), 0);
    }

    #[test]
    fn a_child_of_the_root_has_one_slash() {
        assert_eq!(child("/", "x"), "/x");
        assert_eq!(child("/a", "x"), "/a/x");
    }
}
