//! A lock's folder as one client sees it: how to get into the queue, and what is known of it.
//!
//! All attempts of one lock share this. The first one joins with a create and a list; from the
//! second on a recursive watch keeps a [`Mirror`] of the folder, and the create is enough. Where
//! many contend the mirror is put away again: each of their comings and goings would be told to
//! each of them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::sync::futures::Notified;
use tracing::{debug, warn};
use zk_client::{
    Children, Client, CreateOptions, Created, Error as ClientError, ErrorCode, OwnedNode, Reply,
    StreamEvent, WatchMode, WatchStream,
};

use crate::contender::Contender;
use crate::error::{Error, Fault};
use crate::layout::{Names, Role};
use crate::mirror::{Listing, Mirror, Turn};
use crate::news::News;
use crate::options::Options;
use crate::succession::Succession;

/// More contenders than this are watched one by one.
const MIRROR_AT_MOST: usize = 16;

/// No more than this, and the mirror is made again.
const MIRROR_AGAIN: usize = 8;

/// Watches in a row that told nothing, or could not be set, before no other is tried.
const MIRRORS_LOST: u32 = 3;

/// From here on a folder's numbers are worth a warning: half of them are used up.
const MANY_SEQUENCES: i32 = 1 << 30;

/// One folder.
#[derive(Debug)]
pub(crate) struct Queue {
    client: Client,
    folder: String,
    names: Names,
    /// What the names of this client's contenders begin with.
    siblings: String,
    options: Options,
    view: Mutex<View>,
    news: Arc<News>,
}

/// What is known of the queue.
#[derive(Debug)]
struct View {
    mirror: Mirror,
    /// What feeds the mirror, if it is fed.
    stream: Option<WatchStream>,
    /// A stream is on its way.
    arming: bool,
    /// How many streams in a row were of no use.
    useless: u32,
    /// Whether anybody got a place here, and may come again soon.
    used: bool,
    /// How many contenders the last list had.
    listed: usize,
    /// When it was handed over.
    listed_at: Option<Instant>,
    warned: bool,
    succession: Succession,
}

/// Whether somebody waits for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Waits,
    Tries,
}

/// What gets a contender into the queue: requests that leave together.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) arming: Option<Arming>,
    pub(crate) folders: Vec<Reply<Created>>,
    pub(crate) created: Reply<OwnedNode>,
    /// The contender of ours whose place it takes in the same transaction, if that was first.
    pub(crate) replaced: Option<Contender>,
    pub(crate) list: Option<(Asked, Reply<Children>)>,
}

/// A stream that is on its way.
#[derive(Debug)]
pub(crate) struct Arming {
    queue: Arc<Queue>,
    reply: Option<Reply<WatchStream>>,
}

/// A list that is on its way, for the mirror to take over.
#[derive(Debug)]
pub(crate) struct Asked {
    queue: Arc<Queue>,
    /// Taken when it is answered.
    listing: Option<Listing>,
}

impl Queue {
    pub(crate) fn new(
        client: &Client,
        folder: &str,
        names: Names,
        options: Options,
    ) -> Result<Arc<Self>, Error> {
        zk_client::check_path(folder)?;
        let siblings = names.siblings((client.unique() >> 64) as u64);
        let view = View {
            mirror: Mirror::new(names.clone(), folder, siblings.clone()),
            stream: None,
            arming: false,
            useless: 0,
            used: false,
            listed: 0,
            listed_at: None,
            warned: false,
            succession: Succession::default(),
        };
        Ok(Arc::new(Self {
            client: client.clone(),
            folder: folder.to_owned(),
            names,
            siblings,
            options,
            view: Mutex::new(view),
            news: Arc::default(),
        }))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Whether a contender is this client's: the end of the session takes it together with ours.
    pub(crate) fn is_sibling(&self, name: &str) -> bool {
        name.starts_with(&self.siblings)
    }

    /// The path of a child.
    pub(crate) fn child(&self, name: &str) -> String {
        let slash = if self.folder == "/" { "" } else { "/" };
        format!("{}{slash}{name}", self.folder)
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `f` look at the mirror, with all that was told of until now, if there is one.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&Mirror) -> R) -> Option<R> {
        let mut view = self.view();
        let news = self.pump(&mut view);
        let result = view.stream.is_some().then(|| f(&view.mirror));
        drop(view);
        if news {
            self.news.tell();
        }
        result
    }

    /// Waits until there is more to see than when the future was first polled or enabled.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.news.next()
    }

    /// Enters what was told of. Says whether there was anything.
    fn pump(&self, view: &mut View) -> bool {
        let waker = Waker::from(Arc::clone(&self.news));
        let mut cx = Context::from_waker(&waker);
        let mut news = false;
        while let Some(stream) = &mut view.stream {
            match stream.poll_next(&mut cx) {
                Poll::Pending => break,
                Poll::Ready(Ok(StreamEvent::Changed(event))) => {
                    // One of the changes that a connection missed, for the sake of another watch:
                    // nobody says which came before it.
                    if event.missed {
                        view.mirror.doubt();
                    }
                    view.mirror.told(event.kind, &event.path);
                }
                // Others come and go far more often than anybody looks here: a list is cheaper.
                Poll::Ready(Ok(StreamEvent::Lagged(_))) => {
                    view.used = false;
                    view.drop_stream();
                }
                Poll::Ready(Ok(_)) => view.mirror.doubt(),
                Poll::Ready(Err(_)) => view.drop_stream(),
            }
            news = true;
        }
        let contenders = view.mirror.contenders();
        if view.stream.is_some() && contenders > MIRROR_AT_MOST {
            debug!(self.folder, "too many contenders to follow them all");
            view.listed = contenders;
            view.drop_stream();
            news = true;
        }
        news
    }

    /// Asks for a place in the queue.
    pub(crate) fn fly(
        self: &Arc<Self>,
        role: Role,
        patience: Patience,
        folders: Option<&CreateOptions<'_>>,
    ) -> Flight {
        let stem = self.child(&self.names.stem(role, self.client.unique()));
        let is_known = self.look(Mirror::is_complete).unwrap_or(false);
        let mut view = self.view();
        let arms = self.options.mirror && view.may_arm();
        view.arming |= arms;
        let goes_on = view.succession.goes_on();
        drop(view);
        let client = &self.client;
        let Options { data, acl, .. } = &self.options;
        client.batch(|| {
            let arming = arms.then(|| {
                let reply = Some(client.watch(&self.folder, WatchMode::PersistentRecursive));
                // Lists that were asked for before tell nothing of who came before the watch.
                self.view().mirror.doubt();
                Arming { queue: Arc::clone(self), reply }
            });
            let folders = self.make_folders(folders);
            let (created, replaced) = match patience {
                // Who has just let go of a place goes to the end of the queue in one transaction.
                Patience::Waits => client.replace_owned(&stem, data, acl),
                // Two who try again and again would each always find the other there.
                Patience::Tries => (client.create_owned(&stem, data, acl), None),
            };
            let replaced = replaced.and_then(|path| self.first_at(&path));
            let needs_none = is_known || (goes_on && replaced.is_some());
            let list = (!needs_none).then(|| self.ask());
            Flight { arming, folders, created, replaced, list }
        })
    }

    /// The contender at this path, if it is the last of ours that came to be first.
    fn first_at(&self, path: &str) -> Option<Contender> {
        let first = self.view().succession.first().cloned()?;
        (self.child(&first.name) == path).then_some(first)
    }

    /// Notes who came to be first.
    pub(crate) fn is_first(&self, contender: &Contender) {
        self.view().succession.came_first(contender);
    }

    /// Notes that somebody wants to be told of a holder's node.
    pub(crate) fn heed(&self) {
        self.view().succession.heed();
    }

    /// Notes whether somebody was first by its number alone. Whoever goes on like this needs no
    /// mirror.
    pub(crate) fn succeeded(&self, by_number: bool) {
        let mut view = self.view();
        view.succession.taken(by_number);
        let puts_away = view.succession.is_settled() && view.stream.is_some();
        if puts_away {
            debug!(self.folder, "nobody else to follow");
            view.drop_stream();
        }
        drop(view);
        if puts_away {
            self.news.tell();
        }
    }

    /// Makes the folder with its ancestors, if it is to be made.
    pub(crate) fn make_folders(&self, options: Option<&CreateOptions<'_>>) -> Vec<Reply<Created>> {
        let make = |options| {
            ancestors(&self.folder).map(move |path| self.client.create(path, b"", options))
        };
        options.into_iter().flat_map(make).collect()
    }

    /// A list is about to be asked for.
    pub(crate) fn asked(self: &Arc<Self>) -> Asked {
        let listing = self.view().mirror.listing();
        Asked { queue: Arc::clone(self), listing: Some(listing) }
    }

    /// Asks for a list.
    pub(crate) fn ask(self: &Arc<Self>) -> (Asked, Reply<Children>) {
        (self.asked(), self.client.get_children(&self.folder))
    }

    /// What the mirror says of the turn of `own`, whose create was answered just now. It was
    /// `listed` if a list behind that was answered, too.
    pub(crate) fn first_turn(&self, own: &Contender, listed: bool) -> Turn {
        let turn = self.look(|mirror| self.turn(mirror, own)).unwrap_or(Turn::Unknown);
        match turn {
            // Its end was told of since: a list put it in, whatever the watch tells.
            Turn::Absent if listed => {}
            Turn::Absent => {
                debug!(self.folder, "the watch on the folder tells nothing");
                let mut view = self.view();
                view.useless += 1;
                view.drop_stream();
                drop(view);
                self.news.tell();
            }
            Turn::First | Turn::Waiting { .. } => self.view().useless = 0,
            Turn::Unknown => {}
        }
        turn
    }

    /// Whether nobody has read the queue for a session timeout: who was followed may have hidden and
    /// gone since, which nothing tells.
    pub(crate) fn is_outdated(&self) -> bool {
        let (now, timeout) = (self.client.clock().now(), self.client.session_timeout());
        let listed_at = self.view().listed_at;
        listed_at.is_none_or(|at| now.saturating_duration_since(at) >= timeout)
    }

    /// The same of whoever waits already. A contender of another layout is for a list to report.
    pub(crate) fn turn(&self, mirror: &Mirror, own: &Contender) -> Turn {
        if self.options.strict_foreign && mirror.names().any(|name| self.names.is_foreign(name)) {
            return Turn::Unknown;
        }
        mirror.turn(own)
    }

    /// Notes that somebody got a place, and with which number.
    pub(crate) fn numbered(&self, sequence: i32) {
        let mut view = self.view();
        view.used = true;
        if sequence >= MANY_SEQUENCES && !view.warned {
            view.warned = true;
            warn!(self.folder, sequence, "half of the folder's sequence numbers are used up");
        }
    }

    /// Waits until nobody is in the folder, and removes it: the next one who comes makes it anew,
    /// and the numbers begin again.
    pub(crate) async fn rotate(&self) -> Result<(), Error> {
        let client = &self.client;
        loop {
            let (deleted, children) = client.batch(|| {
                (client.delete(&self.folder, None), client.get_children_and_watch(&self.folder))
            });
            match deleted.await {
                Ok(()) => return Ok(()),
                Err(error) if error.is_no_node() => return Ok(()),
                Err(error) if passes(&error) => continue,
                Err(error) if error.code() == Some(ErrorCode::NOT_EMPTY) => {}
                Err(error) => return Err(error.into()),
            }
            match children.await {
                Ok((children, mut watcher)) if !children.names.is_empty() => {
                    watcher.changed().await?;
                }
                Ok(_) => {}
                Err(error) if error.is_no_node() || passes(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// An error if there is a child that another layout would count, and that is not wanted.
    pub(crate) fn check_foreign<'n>(
        &self,
        children: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), Error> {
        if !self.options.strict_foreign {
            return Ok(());
        }
        match children.into_iter().find(|name| self.names.is_foreign(name)) {
            Some(name) => Err(Fault::ForeignContender(self.child(name)).into()),
            None => Ok(()),
        }
    }
}

impl View {
    /// Whether a mirror is worth it: somebody comes again, and few contend.
    fn may_arm(&self) -> bool {
        let fresh = self.stream.is_none() && !self.arming && self.useless < MIRRORS_LOST;
        fresh && self.used && !self.succession.is_settled() && self.listed <= MIRROR_AGAIN
    }

    fn drop_stream(&mut self) {
        self.stream = None;
        self.mirror.doubt();
    }
}

impl Arming {
    /// Has the mirror fed from now on, if the server can do that.
    pub(crate) async fn finish(mut self) {
        let Some(reply) = self.reply.take() else {
            return;
        };
        let stream = reply.await;
        let mut view = self.queue.view();
        match stream {
            Ok(stream) => view.stream = Some(stream),
            // It may be the answer of a server that does not know it.
            Err(error) if error.is_connection_loss() => view.useless += 1,
            Err(error) if error.is_session_over() => {}
            Err(error) => {
                debug!(%error, "no mirror");
                view.useless = MIRRORS_LOST;
            }
        }
    }
}

impl Drop for Arming {
    fn drop(&mut self) {
        self.queue.view().arming = false;
    }
}

impl Asked {
    /// Hands the list to the mirror, behind all that was told of ahead of it.
    pub(crate) fn answered(mut self, children: &Children) {
        let queue = &self.queue;
        let mut view = queue.view();
        let news = queue.pump(&mut view);
        if let Some(listing) = self.listing.take() {
            view.mirror.listed(&listing, &children.names);
        }
        let parse = |name| queue.names.parse(name).map(|(role, sequence)| (sequence, role, name));
        let contenders = children.names.iter().filter_map(parse).collect::<Vec<_>>();
        view.listed = contenders.len();
        let last = contenders.into_iter().max();
        let named = |(sequence, role, name): (_, _, &str)| {
            let name = name.to_owned();
            Contender { sequence, role, name }
        };
        view.succession.listed(last.map(named));
        view.listed_at = Some(queue.client.clock().now());
        drop(view);
        if news {
            queue.news.tell();
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.listing.take().is_some() {
            self.queue.view().mirror.not_listed();
        }
    }
}

/// Whether a failure says nothing of what was asked: the connection broke, or the server shed it.
pub(crate) fn passes(error: &ClientError) -> bool {
    error.is_connection_loss() || error.code() == Some(ErrorCode::THROTTLED_OP)
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
}
