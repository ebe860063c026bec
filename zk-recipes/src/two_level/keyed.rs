//! Many locks of one folder, each found by its key: those that are used stay at hand, and so many
//! more.
//!
//! A lock that is at hand keeps its place among the tasks of this process, and its node while that
//! lingers. One that is let go of is only made again: nothing depends on it. Knows no queue.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_client::Client;

use crate::error::Error;
use crate::node::Folder;
use crate::options::{OfTwoLevelLock, Options};
use crate::steady::mutex::lock;
use crate::two_level::reentrant::ReentrantLock;

/// How many locks are kept by default.
const CAPACITY: usize = 1_000;

/// For how long an unused lock stays with the process by default.
const LINGER: Duration = Duration::from_secs(2);

/// A lock for each key, for instance for each user: see [the page on them](crate::lock_per_key).
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_recipes::{KeyedLocks, Owner};
///
/// let users = KeyedLocks::new(client, "/locks/users")?; // clone it for other tasks
/// let guard = users.lock("4711")?.acquire(&Owner::new()).await?;
/// // Nobody else works on this user.
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// The lock of a key is a [`ReentrantLock`] whose folder is the child of that name. All tasks that
/// ask for a key get the same lock while any of them has it or one of its guards.
///
/// # What is kept
///
/// Locks that somebody in this process has, holds or waits for, however many; and of the others
/// those that were asked for last, so that there are no more than the
/// [capacity](Self::with_options) all together. So a key that is used again within the
/// [linger](Options::linger) time costs no request. A lock that is let go of releases its node if
/// that lingers, and is made anew when it is asked for again.
///
/// Clones share what is kept. It is bound to one client and its session, as all locks are.
#[derive(Clone)]
pub struct KeyedLocks {
    client: Client,
    folder: Arc<Folder>,
    options: Arc<Options<OfTwoLevelLock>>,
    capacity: usize,
    kept: Arc<Mutex<Kept>>,
}

/// The locks at hand.
#[derive(Default)]
struct Kept {
    /// With their keys, by the turns of their last uses.
    locks: BTreeMap<u64, (Arc<str>, ReentrantLock)>,
    turns: HashMap<Arc<str>, u64>,
    last_turn: u64,
}

impl KeyedLocks {
    /// Locks below this folder. 1,000 of them are kept, and linger for two seconds.
    ///
    /// # Errors
    ///
    /// As [`with_options`](Self::with_options).
    pub fn new(client: &Client, folder: &str) -> Result<Self, Error> {
        Self::with_options(client, folder, CAPACITY, Options::new().linger(LINGER))
    }

    /// Locks with these options, of which `capacity` are kept. With a capacity of zero, no lock is
    /// kept that is not in use.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn with_options(
        client: &Client,
        folder: &str,
        capacity: usize,
        options: Options<OfTwoLevelLock>,
    ) -> Result<Self, Error> {
        zk_client::check_path(folder)?;
        Ok(Self {
            client: client.clone(),
            folder: Arc::new(Folder::new(folder)),
            options: Arc::new(options),
            capacity,
            kept: Arc::default(),
        })
    }

    /// The path of the folder whose children are the folders of the locks.
    pub fn path(&self) -> &str {
        self.folder.path()
    }

    /// How many locks are kept at the moment.
    pub fn kept(&self) -> usize {
        let kept = lock(&self.kept);
        kept.locks.len()
    }

    /// The lock of a key. It sends no request.
    ///
    /// A key is the name of a node: any text without a slash that may be in a path. Encode what may
    /// be something else. Keys differ if their characters do.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument) if no node can have this name.
    pub fn lock(&self, key: &str) -> Result<ReentrantLock, Error> {
        let mut kept = lock(&self.kept);
        if let Some((key, lock)) = kept.take(key) {
            return Ok(kept.keep(key, lock));
        }
        let path = self.folder.valid_child("the key", key)?;
        let options = Options::clone(&self.options);
        let lock = ReentrantLock::with_options(&self.client, &path, options)?;
        let lock = kept.keep(key.into(), lock);
        let unused = kept.let_go(self.capacity);
        drop(kept);
        // This releases the nodes that linger.
        drop(unused);
        Ok(lock)
    }
}

impl Kept {
    fn take(&mut self, key: &str) -> Option<(Arc<str>, ReentrantLock)> {
        self.locks.remove(&self.turns.remove(key)?)
    }

    /// Keeps the lock of a key, whose last use is now.
    fn keep(&mut self, key: Arc<str>, lock: ReentrantLock) -> ReentrantLock {
        self.last_turn += 1;
        self.turns.insert(Arc::clone(&key), self.last_turn);
        self.locks.insert(self.last_turn, (key, lock.clone()));
        lock
    }

    /// Takes out those that were not used for longest until so many are left, or only those that
    /// are in use.
    fn let_go(&mut self, capacity: usize) -> Vec<ReentrantLock> {
        let excess = self.locks.len().saturating_sub(capacity);
        let is_used = |lock: &ReentrantLock| Arc::strong_count(&lock.0) > 1;
        let unused = self.locks.values().filter(|(_, lock)| !is_used(lock)).take(excess);
        let unused = unused.map(|(key, _)| Arc::clone(key)).collect::<Vec<_>>();
        unused.iter().filter_map(|key| self.take(key)).map(|(_, lock)| lock).collect()
    }
}

impl fmt::Debug for KeyedLocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyedLocks")
            .field("path", &self.path())
            .field("capacity", &self.capacity)
            .field("kept", &self.kept())
            .finish_non_exhaustive()
    }
}
