//! The textbook queue: contenders are ephemeral sequential nodes in one folder, and the lowest
//! sequence number owns the lock.
//!
//! [`Queue`] is the folder as one client sees it. [`join`] creates our node and lists the folder in
//! one round trip, [`place`] is our node in the queue, and [`wait`] waits until nobody is ahead.
//! Only a listing that contains our node tells who is ahead: never a name, and never a number.

pub(crate) mod wakeups;

pub(crate) mod place;

pub(crate) mod join;

mod wait;

pub(crate) mod inspect;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use tracing::warn;
use zk_client::{Children, Client, Error as ClientError, ErrorCode, Reply, Watcher};

use crate::error::{Error, Fault, Timeout};
use crate::node::{Folder, NodeNaming, Role};
use crate::options::Options;

/// From this sequence number on a warning is written: half of the folder's numbers are used up.
const MANY_SEQUENCES: i32 = 1 << 30;

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
    /// True if a listing must come with a watch that fires when a contender joins or leaves.
    watches_folder: bool,
    /// True once the warning was written that many numbers are used up.
    has_warned: AtomicBool,
}

/// A listing that was requested.
#[derive(Debug)]
pub(crate) enum Listing {
    Plain(Reply<Children>),
    Watching(Reply<(Children, Watcher)>),
}

impl Listing {
    /// Waits for the reply.
    pub(crate) async fn answer(self) -> Result<(Children, Option<Watcher>), ClientError> {
        match self {
            Self::Plain(reply) => Ok((reply.await?, None)),
            Self::Watching(reply) => reply.await.map(|(list, watcher)| (list, Some(watcher))),
        }
    }
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
            false => naming.session_prefix((client.unique() >> 64) as u64),
        };
        Ok(Self {
            client: client.clone(),
            folder: Folder::new(folder),
            naming,
            session_prefix,
            options,
            watches_folder: false,
            has_warned: AtomicBool::new(false),
        })
    }

    /// The same queue, for a lock that needs to know whether others come while it is held.
    pub(crate) fn with_folder_watch(self) -> Self {
        Self { watches_folder: true, ..self }
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

    /// The name of the child at this path; `None` if the path is not a child's.
    pub(crate) fn name<'p>(&self, path: &'p str) -> Option<&'p str> {
        self.folder.name(path)
    }

    /// The path of a new contender, up to the sequence number. It contains a random number that is
    /// never used twice.
    pub(crate) fn stem(&self, role: Role) -> String {
        self.child(&self.naming.stem(role, self.client.unique()))
    }

    /// The paths of the folder's ancestors from the top and of the folder itself, without the root.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &str> {
        self.folder.ancestors()
    }

    /// Lists the folder, with a watch on it if the lock wants one.
    pub(crate) fn list(&self) -> Listing {
        match self.watches_folder {
            true => Listing::Watching(self.client.get_children_and_watch(self.folder())),
            false => Listing::Plain(self.client.get_children(self.folder())),
        }
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
                let why = match self.client.state().is_connected() {
                    true => Timeout::Contended,
                    false => Timeout::Disconnected,
                };
                Err(Fault::TimedOut { path: self.folder().to_owned(), time, why }.into())
            }
        }
    }

    /// Warns once when half of the sequence numbers are used up.
    pub(crate) fn note_sequence(&self, sequence: i32) {
        if sequence >= MANY_SEQUENCES && !self.has_warned.swap(true, Ordering::Relaxed) {
            let folder = self.folder();
            warn!(folder, sequence, "half of the folder's sequence numbers are used up");
        }
    }

    /// Fails if there is a child that another layout would count as a contender, and the options
    /// forbid that.
    pub(crate) fn check_foreign<'n>(
        &self,
        children: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), Error> {
        if !self.options.strict_foreign {
            return Ok(());
        }
        match children.into_iter().find(|name| self.naming.is_foreign(name)) {
            Some(name) => Err(Fault::ForeignContender(self.child(name)).into()),
            None => Ok(()),
        }
    }
}

/// True if a failure says nothing about the request itself: the connection broke, or the server
/// shed the request.
pub(crate) fn is_transient(error: &ClientError) -> bool {
    error.is_connection_loss() || error.code() == Some(ErrorCode::THROTTLED_OP)
}
