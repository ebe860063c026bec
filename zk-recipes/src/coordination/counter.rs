//! A shared counter: one number in one node, whose every write counts once or not at all.
//!
//! A write expects the version of the node that it has read, so nobody's write is overwritten. When
//! the reply is lost, the node cannot show whether the write was applied: others may have written
//! since. So each write is a transaction with a [`Marker`], an ephemeral child of the counter that
//! belongs to this handle alone.
//!
//! The marker protects from one more thing. While it exists, nobody can delete the counter and
//! create it again, with versions that begin anew.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::sleep;
use tracing::debug;
use zk_client::{
    Acl, Client, CreateOptions, Error as ClientError, ErrorCode, Marker, Node, Op, Outcome, Stat,
};

use crate::error::{Cause, Error};
use crate::node::Folder;
use crate::steady::quorum::by_quorum;
use crate::steady::retries::{Retries, with_retries};
use crate::trace::COORDINATION;

/// The longest pause after a second conflict in a row. It doubles with each further conflict.
const FIRST_PAUSE: Duration = Duration::from_millis(2);

/// How often the longest pause doubles.
const MAX_DOUBLINGS: u32 = 6;

/// How the number is written in the node, and so with which clients the counter is shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CounterFormat {
    /// Eight bytes, the highest first, as Curator's `DistributedAtomicLong` writes them.
    #[default]
    BigEndian,
    /// Decimal digits, as kazoo's `Counter` of integers writes them.
    ///
    /// What Python's `int()` takes is read too: white space around the digits, such as the end of
    /// a line that somebody has written, and `_` between them.
    Decimal,
}

impl CounterFormat {
    fn encode(self, value: i64) -> Vec<u8> {
        match self {
            Self::BigEndian => value.to_be_bytes().to_vec(),
            Self::Decimal => value.to_string().into_bytes(),
        }
    }

    /// A node without data counts as 0, as it does for Curator and kazoo.
    fn decode(self, data: &[u8]) -> Option<i64> {
        match self {
            _ if data.is_empty() => Some(0),
            Self::BigEndian => data.try_into().ok().map(i64::from_be_bytes),
            Self::Decimal => {
                let text = std::str::from_utf8(data).ok()?.trim();
                let mut groups = text.trim_start_matches(['+', '-']).split('_');
                let is_number = groups.all(|digits| !digits.is_empty());
                is_number.then(|| text.replace('_', "").parse().ok())?
            }
        }
    }
}

/// A number that all processes count with.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_recipes::Error> {
/// use zk_recipes::Counter;
///
/// let orders = Counter::new(client, "/counters/orders")?;
/// println!("this is order number {}", orders.add(1).await?);
///
/// // A thousand ids that no other process gets, for one write.
/// for id in orders.reserve(1000).await? {
///     println!("{id}");
/// }
/// # Ok(())
/// # }
/// ```
///
/// A counter that does not exist is at 0. The first write creates it as a persistent node, with
/// missing ancestors as containers. If somebody deletes the node, the counter begins at 0 again.
///
/// # Lost replies
///
/// A write is applied at most once. If the connection breaks before the reply, the call finds out
/// on the next connection whether the write was applied, whatever others have written since. If it
/// was not, the call writes again. So a result is the truth: the call counted once.
///
/// It cannot find out if the session ends meanwhile, if somebody deletes or writes the marker (see
/// below), or if connections break for a whole session timeout. Then the kind of the error is
/// [`InDoubt`](crate::ErrorKind::InDoubt), and its [`outcome`](Error::outcome) is
/// [`Unknown`](Outcome::Unknown). With an error of another kind the call has not counted.
///
/// # Cost
///
/// One round trip for each write, as long as nobody else writes: the value and the version of the
/// last write are remembered. The first write takes one more, and one or two more if the node is
/// missing. A write that meets another writer's reads again and tries again, which is two round
/// trips, and a random pause that grows with each further conflict, up to an eighth of a second. Of
/// all writers that try at the same moment one succeeds, so the counter always makes progress, but
/// nothing decides whose turn it is. Under much contention let each process
/// [`reserve`](Self::reserve) numbers in advance, or count under a [`Lock`](crate::Lock).
///
/// Tasks that share a counter by its clones take turns in the order of their calls. A counter that
/// has written keeps one child of its node, its marker, which is ephemeral. Dropping the last clone
/// deletes the marker.
///
/// # Who shares it
///
/// By default Curator's `DistributedAtomicLong`, and kazoo's `Counter` with
/// [`CounterFormat::Decimal`]. Their writes and ours never overwrite each other. But they repeat a
/// write whose reply is lost without knowing whether it was applied, so theirs may count twice.
///
/// This client needs the permissions to read and write the node, and to create and delete its
/// children, for the marker. The node cannot be deleted while it has markers. It should be a
/// persistent node: servers delete a container some time after its last marker has gone.
#[derive(Clone, Debug)]
pub struct Counter {
    client: Client,
    node: Folder,
    format: CounterFormat,
    acl: Vec<Acl>,
    /// Shared by all clones. Empty before the first write, and after one whose outcome is unknown.
    writer: Arc<Mutex<Option<Writer>>>,
}

/// What the writes of this handle need, which take turns with it.
#[derive(Debug)]
struct Writer {
    marker: Marker,
    /// The counter as it was last seen since the marker was created.
    known: Option<Known>,
}

/// The counter at one moment.
#[derive(Clone, Copy, Debug)]
struct Known {
    value: i64,
    version: i32,
}

impl Counter {
    /// Makes a counter of the node at `path`, which need not exist.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        zk_client::check_path(path)?;
        Ok(Self {
            client: client.clone(),
            node: Folder::new(path),
            format: CounterFormat::default(),
            acl: Acl::OPEN.to_vec(),
            writer: Arc::default(),
        })
    }

    /// Sets how the number is written in the node.
    #[must_use]
    pub fn format(self, format: CounterFormat) -> Self {
        Self { format, ..self }
    }

    /// Sets the access list of the nodes that this handle creates.
    ///
    /// By default everybody may do everything.
    #[must_use]
    pub fn acl(self, acl: &[Acl]) -> Self {
        Self { acl: acl.to_vec(), ..self }
    }

    /// The path of the node.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Reads the value from the server that the client is connected to.
    ///
    /// That server may be behind: the value may miss writes of other clients, but none that this
    /// client has seen. It never goes back for one client. [`get_latest`](Self::get_latest) misses
    /// no write. While the server has no quorum, this waits, as it does while the client is cut
    /// off, and writes and `get_latest` are refused.
    ///
    /// # Errors
    ///
    /// As any read; and [`InvalidCounter`](crate::ErrorKind::InvalidCounter) if the data is no
    /// number in this format. A lost connection is one only if several break in a row.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn get(&self) -> Result<i64, Error> {
        self.read().await.map(|known| known.value)
    }

    /// Reads the value after all writes that were done when this was called.
    ///
    /// This is a linearizable read. A sync would not be enough for that, since a leader that was
    /// just deposed may answer it (ZOOKEEPER-1675). So a transaction that changes nothing is sent
    /// ahead of the read, in the same round trip. It needs a majority of the servers, and costs
    /// them as much as a write.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn get_latest(&self) -> Result<i64, Error> {
        let read = || async {
            let (ordered, node) = self.client.batch(|| {
                let check = [Op::check(self.path(), None)];
                (self.client.multi(check), self.client.get_data(self.path()))
            });
            match ordered.await {
                // A transaction that was refused has its place in the order, too.
                Err(error) if !error.is_no_node() => Err(error),
                _ => node.await,
            }
        };
        self.known(with_retries(read).await).map(|known| known.value)
    }

    /// Adds `n`, which may be negative. Returns the new value.
    ///
    /// # Errors
    ///
    /// [`Overflow`](crate::ErrorKind::Overflow) if the new value is beyond the range of an `i64`,
    /// [`InvalidCounter`](crate::ErrorKind::InvalidCounter) if the node is no counter,
    /// [`InDoubt`](crate::ErrorKind::InDoubt) if the number may have been added or not, and those
    /// of any write, for instance without permission. The end of the session is one of the last
    /// two.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the number may have been added or not, but never twice.
    pub async fn add(&self, n: i64) -> Result<i64, Error> {
        let added = self.update(|value| value.checked_add(n)).await?;
        added.ok_or_else(|| Cause::Overflow(self.path().to_owned()).into())
    }

    /// Sets the value to `new` if it is `current`. Returns whether it was.
    ///
    /// The result `false` means that the counter was at another value at some moment of the call.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add), without the overflow.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the value may have been set or not.
    pub async fn compare_and_set(&self, current: i64, new: i64) -> Result<bool, Error> {
        let set = self.update(|value| (value == current).then_some(new)).await?;
        Ok(set.is_some())
    }

    /// Adds `n`, and returns the `n` numbers from the old value up to the new one.
    ///
    /// Each number is handed out at most once, over all processes and whatever fails, as long as
    /// nobody lowers or deletes the counter. The numbers of a reservation that is in doubt or was
    /// dropped may be skipped: nobody gets them. A process that reserves many at once gives
    /// out ids without a request for each, and skips those that it has left when it ends.
    ///
    /// # Errors
    ///
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the numbers may be skipped.
    pub async fn reserve(&self, n: u32) -> Result<Range<i64>, Error> {
        let n = i64::from(n);
        let end = self.add(n).await?;
        Ok(end - n..end)
    }

    /// Writes `next(value)`, and tries again on conflicts. Returns `None` if `next` declines the
    /// latest value.
    async fn update(&self, next: impl Fn(i64) -> Option<i64>) -> Result<Option<i64>, Error> {
        let mut kept = self.writer.lock().await;
        let mut conflicts = 0;
        let (mut retries, mut lost_markers) = (Retries::default(), Retries::default());
        loop {
            // A marker of a write whose outcome is unknown is dropped, also with this future.
            let Writer { mut marker, known } = match kept.take() {
                Some(writer) => writer,
                None => self.create_marker().await?,
            };
            let known = match known {
                Some(known) => known,
                None => self.read().await?,
            };
            let Some(value) = next(known.value) else {
                *kept = Some(Writer { marker, known: None });
                // What was known may be old.
                match next(self.get_latest().await?) {
                    None => return Ok(None),
                    Some(_) => continue,
                }
            };
            if known.version == Stat::ANY_VERSION {
                return Err(Cause::InvalidCounter(self.path().to_owned()).into());
            }
            match self.write(&mut marker, known.version, value).await {
                Ok(written) => {
                    // With others about, reading first is cheaper than a write that is refused.
                    let known = written.filter(|_| conflicts == 0);
                    *kept = Some(Writer { marker, known });
                    return Ok(Some(value));
                }
                Err(error) if error.outcome() == Outcome::Unknown => {
                    // The end of the session tells more than the loss of a connection before it.
                    let ended = self.client.state().ended().map(ClientError::from);
                    let (path, cause) = (self.path().to_owned(), ended.unwrap_or(error));
                    return Err(Cause::InDoubt { path, cause }.into());
                }
                Err(error) => match (error.failed_op(), error.code()) {
                    (Some(0), Some(ErrorCode::BAD_VERSION)) => {
                        *kept = Some(Writer { marker, known: None });
                        retries.reset();
                        conflicts += 1;
                        self.pause(conflicts).await;
                    }
                    // The marker is a child of the counter.
                    (Some(_), Some(ErrorCode::NO_NODE)) => {
                        let node = self.path();
                        debug!(target: COORDINATION, node, %error, "somebody deleted the marker");
                        retries.reset();
                        lost_markers.count_any(error)?;
                    }
                    _ => {
                        retries.count(error)?;
                        *kept = Some(Writer { marker, known: Some(known) });
                    }
                },
            }
        }
    }

    /// Writes the value in a transaction with the marker. Returns what is known then.
    async fn write(
        &self,
        marker: &mut Marker,
        version: i32,
        value: i64,
    ) -> Result<Option<Known>, ClientError> {
        let data = self.format.encode(value);
        let mut ops = vec![Op::set_data(self.path(), &data, Some(version))];
        if version == Stat::ANY_VERSION - 1 {
            // No client shall find the counter at the version that matches any. Nobody can write
            // between the two.
            ops.push(Op::set_data(self.path(), &data, None));
        }
        let stats = marker.multi(&ops).await?.results().unwrap_or_default();
        Ok(stats.last().map(|stat| Known { value, version: stat.version }))
    }

    /// Creates a marker, after the counter if that is missing, and reads the counter behind it.
    async fn create_marker(&self) -> Result<Writer, Error> {
        let (client, mut retries) = (&self.client, Retries::default());
        let options = CreateOptions::ephemeral().sequential().with_acl(&self.acl);
        loop {
            let stem = self.node.child(&format!("_w_{:032x}-", client.unique()));
            let (created, counter) = client.batch(|| {
                (client.create_owned(&stem, b"", &options), client.get_data(self.path()))
            });
            match created.await {
                Ok(node) => {
                    let counter = counter.await.ok();
                    let known = counter.map(|node| self.known(Ok(node))).transpose()?;
                    return Ok(Writer { marker: client.resolving().marker(node), known });
                }
                Err(error) if error.is_no_node() => {
                    retries.count_any(error)?;
                    let options = CreateOptions::persistent().container_parents();
                    let (options, zero) = (options.with_acl(&self.acl), self.format.encode(0));
                    match client.create_all(self.path(), &zero, &options).await {
                        Err(error) if !error.is_node_exists() => retries.count(error)?,
                        _ => {}
                    }
                }
                Err(error) => retries.count(error)?,
            }
        }
    }

    async fn read(&self) -> Result<Known, Error> {
        let read = || by_quorum(&self.client, || self.client.get_data(self.path()));
        self.known(with_retries(read).await)
    }

    fn known(&self, read: Result<Node, ClientError>) -> Result<Known, Error> {
        match read {
            Ok(node) => {
                let invalid = || Cause::InvalidCounter(self.path().to_owned());
                let value = self.format.decode(&node.data).ok_or_else(invalid)?;
                Ok(Known { value, version: node.stat.version })
            }
            // No write is applied to this version: without the counter there is no marker.
            Err(error) if error.is_no_node() => Ok(Known { value: 0, version: 0 }),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits for a random time from the second conflict in a row on, so that the writers of one
    /// moment do not meet again at the next.
    async fn pause(&self, conflicts: u32) {
        let Some(doublings) = conflicts.checked_sub(2) else { return };
        let longest = FIRST_PAUSE * (1 << doublings.min(MAX_DOUBLINGS));
        let random = self.client.unique() as u32;
        sleep(longest.mul_f64(f64::from(random) / f64::from(u32::MAX))).await;
    }
}
