//! The folder of one lock, as one client sees it.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tracing::warn;
use zk_client::{Children, Client, Created, Error as ClientError, Reply, Watcher};

use crate::error::{Cause, Error, Timeout};
use crate::node::{Contender, Folder, NodeNaming, Role, layout_of};
use crate::options::Settings;
use crate::queue::failed_create::Folders;
use crate::trace::QUEUE;

/// The folder of one lock.
#[derive(Debug)]
pub(crate) struct Queue {
    client: Client,
    folder: Folder,
    naming: NodeNaming,
    /// The common beginning of the names of all nodes that this client's session may own. If
    /// another client began the session, it is empty, and every name begins with it.
    session_prefix: String,
    options: Settings,
    /// The data of the folder, if this client creates it.
    folder_data: Vec<u8>,
    /// True if a listing must come with a watch that fires when a contender joins or leaves.
    watches_folder: bool,
    warned: Warned,
}

/// The warnings that were written already.
#[derive(Debug, Default)]
struct Warned {
    of_exhaustion: AtomicBool,
    of_foreign: AtomicBool,
}

impl Queue {
    pub(crate) fn new(
        client: &Client,
        folder: &str,
        naming: NodeNaming,
        options: Settings,
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
            warned: Warned::default(),
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

    pub(crate) fn options(&self) -> &Settings {
        &self.options
    }

    /// The name of a child at this path, or `None` if it is of another folder.
    pub(crate) fn name<'p>(&self, path: &'p str) -> Option<&'p str> {
        self.folder.name(path)
    }

    /// Warns, once, that half of the sequence numbers are used up.
    pub(crate) fn warn_of_exhaustion(&self, sequence: i32) {
        if !self.warned.of_exhaustion.swap(true, Ordering::Relaxed) {
            let folder = self.folder();
            warn!(target: QUEUE, folder, sequence, "half of the sequence numbers are used up");
        }
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

    /// The contenders in a listing, in the order of the queue.
    pub(crate) fn contenders(&self, list: &Children) -> Vec<Contender> {
        let parse = |name: &str| Contender::parse(&self.naming, name);
        let mut contenders = list.names.iter().filter_map(parse).collect::<Vec<_>>();
        contenders.sort_unstable();
        contenders
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
    pub(crate) fn note_foreign(&self, name: &str) -> Result<(), Error> {
        let (node, layout) = (self.child(name), layout_of(name));
        if self.options.strict_foreign {
            return Err(Cause::ForeignContender { node, layout }.into());
        }
        if !self.warned.of_foreign.swap(true, Ordering::Relaxed) {
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
                Err(Cause::TimedOut { path: self.folder().to_owned(), time, why }.into())
            }
        }
    }
}

/// A listing that was requested.
#[derive(Debug)]
pub(crate) enum Listing {
    Plain(Reply<Children>),
    Watching(Reply<(Children, Watcher)>),
}

impl Listing {
    pub(super) async fn answer(self) -> Result<(Children, Option<Watcher>), ClientError> {
        Ok(match self {
            Self::Plain(reply) => (reply.await?, None),
            Self::Watching(reply) => reply.await.map(|(list, watcher)| (list, Some(watcher)))?,
        })
    }
}
