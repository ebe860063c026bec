//! The textbook queue: contenders are ephemeral sequential nodes in one folder, and the contender
//! with the lowest sequence number owns the lock.
//!
//! [`Queue`] is the folder as one client sees it. [`Join`] creates our node in it and lists the
//! folder, in one round trip. That yields our [`Place`], and tells who is ahead. [`wait`] waits
//! until nobody is. Only a listing that contains our own node tells who is ahead of it.

pub(crate) mod attempts;
pub(crate) mod inspect;
pub(crate) mod quorum;
mod wait;
pub(crate) mod wakeups;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tracing::{debug, warn};
use zk_client::{Children, Client, Created, Error as ClientError, OwnedNode, Reply, Watcher};

use crate::error::{Error, Fault, Timeout};
use crate::node::{Contender, Folder, NodeNaming, Role, Standing, layout_of};
use crate::options::Options;
use crate::queue::attempts::{Folders, MAX_LOSSES, Made, Retry, is_transient, rotate};
use crate::queue::wakeups::QuietWatch;
use crate::trace::QUEUE;

/// From this sequence number on a warning is written: half of the folder's numbers are used up.
const MANY_SEQUENCES: i32 = 1 << 30;

/// Sequence numbers end at 2^31 - 1, and servers differ in what they do there. No place is taken
/// beyond this number. The distance to the end is more contenders than can be under way at once.
const LAST_SEQUENCE: i32 = i32::MAX - 65_536;

/// The folder of one lock.
#[derive(Debug)]
pub(crate) struct Queue {
    client: Client,
    folder: Folder,
    naming: NodeNaming,
    /// The beginning of the names of all nodes that this client's session may own. It is empty if
    /// another client began the session, whose nodes have names of their own.
    session_prefix: String,
    options: Options,
    /// The data of the folder, if this client creates it.
    folder_data: Vec<u8>,
    /// True if a listing must come with a watch that fires when a contender joins or leaves.
    watches_folder: bool,
    /// True once the warning was written that many numbers are used up.
    has_warned: AtomicBool,
    /// True once the warning was written that there is a contender of another layout.
    has_warned_of_foreign: AtomicBool,
}

impl Queue {
    pub(crate) fn new(
        client: &Client,
        folder: &str,
        naming: NodeNaming,
        options: Options,
    ) -> Result<Self, Error> {
        zk_client::check_path(folder)?;
        let session_prefix = match client.is_resumed() {
            true => String::new(),
            false => naming.session_prefix(client.unique()),
        };
        Ok(Self {
            client: client.clone(),
            folder: Folder::new(folder),
            naming,
            session_prefix,
            options,
            folder_data: Vec::new(),
            watches_folder: false,
            has_warned: AtomicBool::new(false),
            has_warned_of_foreign: AtomicBool::new(false),
        })
    }

    /// The same queue, for a lock that needs to know whether others come while it is held.
    pub(crate) fn with_folder_watch(self) -> Self {
        Self { watches_folder: true, ..self }
    }

    /// The same queue, whose folder is created with this data.
    pub(crate) fn with_folder_data(self, data: impl Into<Vec<u8>>) -> Self {
        Self { folder_data: data.into(), ..self }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn folder(&self) -> &str {
        self.folder.path()
    }

    pub(crate) fn naming(&self) -> &NodeNaming {
        &self.naming
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// True if a contender may belong to this client's session, whose end deletes its node together
    /// with ours.
    pub(crate) fn is_of_own_session(&self, name: &str) -> bool {
        name.starts_with(&self.session_prefix)
    }

    /// The path of a child.
    pub(crate) fn child(&self, name: &str) -> String {
        self.folder.child(name)
    }

    /// The path of a new contender, up to the sequence number. It contains a random number that is
    /// never used twice.
    pub(crate) fn stem(&self, role: Role) -> String {
        self.child(&self.naming.stem(role, self.client.unique()))
    }

    /// Lists the folder, with a watch on it if the lock wants one.
    pub(crate) fn list(&self) -> Listing {
        match self.watches_folder {
            true => Listing::Watching(self.client.get_children_and_watch(self.folder())),
            false => Listing::Plain(self.client.get_children(self.folder())),
        }
    }

    /// Requests a place: a node of our own, and the listing behind it.
    fn request_place(&self, role: Role, folders: Option<&Folders>) -> Requests {
        let options = &self.options;
        Requests {
            folders: self.make_folders(folders),
            created: self.client.create_owned(&self.stem(role), &options.data, &options.node()),
            list: self.list(),
        }
    }

    /// Creates the folder, and its ancestors before it if they may be missing, too. Creates nothing
    /// if `folders` are not given.
    pub(crate) fn make_folders(&self, folders: Option<&Folders>) -> Vec<Reply<Created>> {
        let make = |Folders { options, with_ancestors }: &Folders| {
            let paths = self.folder.ancestors();
            let paths = paths.filter(|path| *with_ancestors || *path == self.folder());
            let data = |path| if path == self.folder() { &*self.folder_data } else { b"" };
            paths.map(|path| self.client.create(path, data(path), options)).collect()
        };
        folders.map(make).unwrap_or_default()
    }

    /// Notes that a child looks like a contender of another layout, which does not wait for ours.
    fn note_foreign(&self, name: &str) -> Result<(), Error> {
        let (node, layout) = (self.child(name), layout_of(name));
        if self.options.strict_foreign {
            return Err(Fault::ForeignContender { node, layout }.into());
        }
        if !self.has_warned_of_foreign.swap(true, Ordering::Relaxed) {
            warn!(
                target: QUEUE, node, layout,
                "a contender of another layout is ignored"
            );
        }
        Ok(())
    }

    /// Acquires for no longer than `time`.
    pub(crate) async fn within<G>(
        &self,
        time: Duration,
        acquiring: impl Future<Output = Result<G, Error>>,
    ) -> Result<G, Error> {
        match timeout(time, acquiring).await {
            Ok(acquired) => acquired,
            Err(_) => {
                self.options.count(|stats| stats.timed_out += 1);
                let why = match self.client.state().is_connected() {
                    true => Timeout::Contended,
                    false => Timeout::Disconnected,
                };
                Err(Fault::TimedOut { path: self.folder().to_owned(), time, why }.into())
            }
        }
    }
}

/// What the caller will do if somebody is ahead: see [`Hold::when_first`](crate::hold::Hold) and
/// `if_first`. A join itself asks only whether it may wait until an exhausted folder is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Waits,
    Tries,
}

/// The operation of [`Client::replace_owned`] that deletes the old node.
const REPLACED: usize = 1;

/// A contender whose requests are on their way.
#[derive(Debug)]
pub(crate) struct Join {
    queue: Arc<Queue>,
    role: Role,
    patience: Patience,
    requests: Requests,
}

#[derive(Debug)]
struct Requests {
    /// The creates of the folder and its ancestors, if the folder was missing.
    folders: Vec<Reply<Created>>,
    created: Reply<OwnedNode>,
    list: Listing,
}

impl Join {
    /// Sends the create of our node and a listing of the folder, together. ZooKeeper carries out
    /// the requests of a session in order. So the listing shows our node, and all contenders that
    /// are ahead of it.
    pub(crate) fn send(queue: &Arc<Queue>, role: Role, patience: Patience) -> Self {
        let requests = queue.client().batch(|| queue.request_place(role, None));
        Self { queue: Arc::clone(queue), role, patience, requests }
    }

    /// The same for a contender whose node at `old` was released in the same batch: the delete and
    /// the create become one transaction.
    pub(crate) fn send_in_place_of(queue: &Arc<Queue>, role: Role, old: &str) -> Self {
        let (client, options) = (queue.client(), queue.options());
        let requests = client.batch(|| {
            let stem = queue.stem(role);
            match client.replace_owned(old, &stem, &options.data, &options.node()) {
                Some(created) => Requests { folders: Vec::new(), created, list: queue.list() },
                None => queue.request_place(role, None),
            }
        });
        Self { queue: Arc::clone(queue), role, patience: Patience::Waits, requests }
    }

    /// Waits for the replies. Returns our place, and who is ahead unless the reply to the listing
    /// was lost.
    ///
    /// If the folder is missing, it is created, and the requests are sent again: first the folder
    /// alone, and with its ancestors if the parent is missing, too.
    pub(crate) async fn finish(self) -> Result<(Place, Option<Standing>), Error> {
        let Self { queue, role, patience, mut requests } = self;
        // Whether the folder was missing, and how often requests were lost.
        let mut retry = Retry::default();
        loop {
            let made = Made::of(requests.folders).await;
            match requests.created.await {
                Ok(node) => {
                    let czxid = node.czxid();
                    match Place::new(&queue, node) {
                        Ok(mut place) => {
                            let standing = place.listed(requests.list).await?;
                            return Ok((place, standing));
                        }
                        Err(error) if patience == Patience::Waits && queue.options().rotate => {
                            debug!(target: QUEUE, %error, "making the folder anew");
                            rotate(&queue.client, queue.folder(), czxid).await?;
                        }
                        Err(error) => return Err(error),
                    }
                }
                // The node that was to be replaced was gone already, so now we just join.
                Err(error) if error.failed_op() == Some(REPLACED) && error.is_no_node() => {}
                Err(error) => retry.after(queue.folder(), &queue.options, error, made)?,
            }
            let folders = retry.folders.as_ref();
            requests = queue.client().batch(|| queue.request_place(role, folders));
        }
    }
}

/// A listing that was requested.
#[derive(Debug)]
pub(crate) enum Listing {
    Plain(Reply<Children>),
    Watching(Reply<(Children, Watcher)>),
}

/// A contender's place in the queue of one folder.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) queue: Arc<Queue>,
    /// Our node. Dropping it deletes the node, also if the connection is broken at that moment. It
    /// is dropped before the watch on it.
    pub(crate) node: OwnedNode,
    /// What the name of our node says.
    pub(crate) own: Contender,
    /// The watch on our node, which was set if we had to wait.
    pub(crate) own_watch: QuietWatch,
    /// True if a contender was ahead of us.
    pub(crate) has_waited: bool,
    /// Fires when a contender joins the queue. It is set if the lock wants to know that, and if
    /// there was no other contender when we joined.
    pub(crate) others: QuietWatch,
}

impl Place {
    /// Makes the place whose node this is.
    pub(crate) fn new(queue: &Arc<Queue>, node: OwnedNode) -> Result<Self, Error> {
        let name = queue.folder.name(node.path());
        let own = name.and_then(|name| Contender::parse(queue.naming(), name));
        let own = own.filter(|own| (0..=LAST_SEQUENCE).contains(&own.sequence));
        let Some(own) = own else {
            return Err(Fault::SequenceExhausted(queue.folder().to_owned()).into());
        };
        if own.sequence >= MANY_SEQUENCES && !queue.has_warned.swap(true, Ordering::Relaxed) {
            let (folder, sequence) = (queue.folder(), own.sequence);
            warn!(target: QUEUE, folder, sequence, "half of the sequence numbers are used up");
        }
        let queue = Arc::clone(queue);
        let own_watch = QuietWatch::default();
        Ok(Self { queue, node, own, own_watch, has_waited: false, others: QuietWatch::default() })
    }

    /// Finds who is ahead in the listing that was requested behind the create. `None` if its reply
    /// was lost.
    pub(crate) async fn listed(&mut self, listing: Listing) -> Result<Option<Standing>, Error> {
        let answer = match listing {
            Listing::Plain(reply) => reply.await.map(|list| (list, QuietWatch::default())),
            Listing::Watching(reply) => reply.await.map(|(list, watcher)| (list, watcher.into())),
        };
        match answer {
            Ok((list, watch)) => {
                let standing = self.standing(&list)?;
                self.note_joined(Some(&standing));
                if !standing.has_others {
                    self.others = watch;
                }
                Ok(Some(standing))
            }
            Err(error) if is_transient(&error) => {
                self.note_joined(None);
                Ok(None)
            }
            Err(error) => Err(self.vanished_or(error)),
        }
    }

    fn note_joined(&self, standing: Option<&Standing>) {
        let ahead = standing.map(|standing| (standing.nearest.len() + standing.farther) as u64);
        debug!(target: QUEUE, node = self.node.path(), ahead, "joined");
        let ahead = ahead.unwrap_or_default();
        self.queue.options.count(|stats| {
            stats.joined += 1;
            stats.waited += u64::from(ahead > 0);
            stats.ahead += ahead;
            stats.max_ahead = stats.max_ahead.max(ahead);
        });
    }

    /// Finds who is ahead in a listing. If our node is not in it, it is gone.
    pub(crate) fn standing(&self, list: &Children) -> Result<Standing, Error> {
        let standing = Standing::of(&self.own, self.queue.naming(), &list.names);
        let standing = standing.ok_or_else(|| self.vanished())?;
        if let Some(name) = &standing.foreign {
            self.queue.note_foreign(name)?;
        }
        Ok(standing)
    }

    /// True if nobody is ahead. This does not wait for the turn, but it lists the queue if no
    /// listing is given.
    pub(crate) async fn is_first(&self, standing: Option<&Standing>) -> Result<bool, Error> {
        if let Some(standing) = standing {
            return Ok(standing.is_first());
        }
        let mut losses = 0;
        loop {
            match self.queue.client().get_children(self.queue.folder()).await {
                Ok(list) => return Ok(self.standing(&list)?.is_first()),
                Err(error) if is_transient(&error) && losses < MAX_LOSSES => losses += 1,
                Err(error) => return Err(self.vanished_or(error)),
            }
        }
    }

    /// The error that our own node, or the folder with it, is gone, if that is what `error` means.
    pub(crate) fn vanished_or(&self, error: ClientError) -> Error {
        if error.is_no_node() { self.vanished() } else { error.into() }
    }

    pub(crate) fn vanished(&self) -> Error {
        Fault::NodeVanished(self.node.path().to_owned()).into()
    }
}
