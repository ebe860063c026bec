//! Writes whose reply was lost, resolved by looking at the state of the node.
//!
//! The counters of a state show its past: the czxid, whether this is the same node as before; the
//! version, how often it was written; the pzxid of the parent, whether a child was created or
//! deleted. The highest zxid seen when the write was sent marks the state before it. Where these
//! prove that nothing happened, the write is sent again. Where they prove nothing, its outcome
//! stays unknown. The session itself finds the nodes of [`Client::create_owned`] again, because it
//! must do so for callers that have gone, too.

use std::future::Future;
use std::time::Duration;

use zk_proto::{CreateMode, ErrorCode, SessionId, Stat, Zxid};

use crate::error::{Error, Outcome};
use crate::handles::client::{Client, Reply};
use crate::model::node::{CreateOptions, Created, Node};

/// The pause before a server that could not serve a request yet is asked again.
const PAUSE: Duration = Duration::from_millis(50);

impl Client {
    /// Writes that find out whether they were applied if the connection breaks before the reply.
    pub fn resolving(&self) -> Resolving {
        Resolving { client: self.clone() }
    }
}

/// A client's writes, each applied at most once and reported truly: see [`Client::resolving`].
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
/// let (counter, sure) = (client.get_data("/counter").await?, client.resolving());
/// // Whatever the connection does meanwhile, this counts once.
/// let stat = sure.set_data("/counter", b"43", counter.stat.version).await?;
/// assert_eq!(stat.version, counter.stat.version + 1);
/// # Ok(())
/// # }
/// ```
///
/// While the connection lasts, each method does what that of the [`Client`] does, at the same cost.
/// If the connection breaks before the reply, the client reads the node on the next connection,
/// after a sync, and compares it with what it knew when the write was sent:
///
/// | the client finds | so |
/// |---|---|
/// | the state that the write leads to, newer than the state before | the write is done |
/// | proof that nothing was changed | the write is sent again, and the server's reply counts |
/// | anything else: the node was changed again, deleted, or created anew | the outcome is unknown |
///
/// A write counts as done if the node looks as if it was applied, even if an identical write of
/// another client did it. Where the
/// outcome cannot be known, the error of the loss is returned, with the outcome
/// [`Unknown`](Outcome::Unknown).
///
/// So a success means that the write was applied, an error with the outcome
/// [`NotApplied`](Outcome::NotApplied) means that it was not and never will be, and no write is
/// applied twice. To tell a write from an equal one of another client, put something
/// [unique](Client::unique) into the data. For transactions there is a
/// [`marker`](Self::marker).
///
/// The result is final because a write that was lost on the way to one server cannot arrive later.
/// The next server moves the session at the leader, which from then on refuses the requests that
/// other servers still forward for it. One case is beyond a client: a leader that was deposed and
/// does not know it yet may serve the read (ZOOKEEPER-1675). Then a write may be applied again
/// after others have undone it.
///
/// # Ordering
///
/// The write is sent by the call, in call order. If it is sent again, it comes after the requests
/// that were made meanwhile.
///
/// # Errors
///
/// Those of the [`Client`]'s method. The client tries to resolve an unknown outcome for one session
/// timeout, counted from the loss, or until the session ends.
///
/// # Cancel safety
///
/// Dropping the future ends the search. The write is sent in any case, but not again.
///
/// # Panics
///
/// When a method is awaited outside of a tokio runtime with time enabled, and its reply is lost.
#[derive(Clone, Debug)]
pub struct Resolving {
    pub(crate) client: Client,
}

impl Resolving {
    /// Creates a node, as [`Client::create`] does.
    ///
    /// The client recognises its node by the data, and an ephemeral node by its session as well. It
    /// does not recognise a node that was changed since. Before its first reply, a client cannot
    /// know that a persistent node is new. The proof that there is no node yet is a parent whose
    /// children have not changed since the write was sent, so in a folder where others are busy the
    /// outcome of a loss may stay unknown. The state in [`Created`] is the one that was found.
    ///
    /// A sequential node has no name to look for, so the outcome of a loss stays unknown. For
    /// ephemeral ones there is [`Client::create_owned`].
    pub fn create<'a>(
        &self,
        path: &'a str,
        data: &'a [u8],
        options: &CreateOptions<'a>,
    ) -> impl Future<Output = Result<Created, Error>> + Send + use<'a> {
        resolve(self.client.clone(), Create { path, data, options: *options })
    }

    /// Replaces a node's data if it is at `version`, as [`Client::set_data`] does.
    ///
    /// Returns the new state, or the state that was found.
    ///
    /// The client recognises its write by the version that it leads to. If others have written
    /// after it, the outcome of a loss stays unknown; if they have written in its place, the write
    /// was refused. With version -1, which servers match with any version, the outcome of every
    /// loss stays unknown.
    pub fn set_data<'a>(
        &self,
        path: &'a str,
        data: &'a [u8],
        version: i32,
    ) -> impl Future<Output = Result<Stat, Error>> + Send + use<'a> {
        resolve(self.client.clone(), SetData { path, data, version })
    }

    /// Deletes a node that has no children if it is at `version`, as [`Client::delete`] does.
    ///
    /// A node that is gone does not show which client deleted it, so the outcome is unknown then.
    /// If the node is still there, the delete is sent again.
    pub fn delete<'a>(
        &self,
        path: &'a str,
        version: i32,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<'a> {
        resolve(self.client.clone(), Delete { path, version })
    }
}

/// A write that can be recognised.
pub(crate) trait Write {
    type Done;

    fn send(&self, client: &Client) -> Reply<Self::Done>;

    /// The path whose state can show what became of the write, if any can.
    fn path_to_inspect(&self) -> Option<&str>;

    /// The outcome of the write, if the state shows it. `before` is the highest zxid that was seen
    /// when the write was first sent, so the zxid of the write is higher.
    fn judge(&self, before: Zxid, seen: Seen) -> Option<WriteFate<Self::Done>>;
}

pub(crate) enum WriteFate<R> {
    Applied(R),
    NotApplied,
}

/// The state that was found.
pub(crate) struct Seen {
    own: Option<SessionId>,
    pub(crate) node: Option<Node>,
    parent: Option<Stat>,
}

struct Create<'a> {
    path: &'a str,
    data: &'a [u8],
    options: CreateOptions<'a>,
}

struct SetData<'a> {
    path: &'a str,
    data: &'a [u8],
    version: i32,
}

struct Delete<'a> {
    path: &'a str,
    version: i32,
}

impl Write for Create<'_> {
    type Done = Created;

    fn send(&self, client: &Client) -> Reply<Created> {
        client.create(self.path, self.data, &self.options)
    }

    fn path_to_inspect(&self) -> Option<&str> {
        (!self.options.mode().is_sequential()).then_some(self.path)
    }

    fn judge(&self, before: Zxid, seen: Seen) -> Option<WriteFate<Created>> {
        let Some(Node { data, stat }) = seen.node else {
            let untouched = seen.parent.is_some_and(|parent| parent.pzxid <= before);
            return untouched.then_some(WriteFate::NotApplied);
        };
        if stat.czxid <= before {
            return Some(WriteFate::NotApplied);
        }
        let owner = match self.options.mode() {
            CreateMode::EPHEMERAL => seen.own,
            // Servers show of all other nodes only that they are not ephemeral. That is also true
            // of a node that existed long before this client saw anything.
            _ => Some(SessionId(0)).filter(|_| before > Zxid(0)),
        };
        let is_as_made =
            owner == Some(stat.ephemeral_owner) && stat.version == 0 && data == self.data;
        is_as_made.then(|| {
            let path = self.path.to_owned();
            WriteFate::Applied(Created { path, czxid: stat.czxid, stat: Some(stat) })
        })
    }
}

impl Write for SetData<'_> {
    type Done = Stat;

    fn send(&self, client: &Client) -> Reply<Stat> {
        client.set_data(self.path, self.data, Some(self.version))
    }

    fn path_to_inspect(&self) -> Option<&str> {
        (self.version != Stat::ANY_VERSION).then_some(self.path)
    }

    fn judge(&self, before: Zxid, seen: Seen) -> Option<WriteFate<Stat>> {
        let Node { data, stat } = seen.node?;
        if stat.mzxid <= before {
            return Some(WriteFate::NotApplied);
        }
        // Versions count within the life of one node.
        if stat.czxid > before {
            return None;
        }
        match stat.version.wrapping_sub(self.version) {
            1 if data == self.data => Some(WriteFate::Applied(stat)),
            // A lower version means that it was not applied and never will be: another write has
            // led to this version.
            ..=1 => Some(WriteFate::NotApplied),
            _ => None,
        }
    }
}

impl Write for Delete<'_> {
    type Done = ();

    fn send(&self, client: &Client) -> Reply<()> {
        client.delete(self.path, Some(self.version))
    }

    fn path_to_inspect(&self) -> Option<&str> {
        (self.version != Stat::ANY_VERSION).then_some(self.path)
    }

    fn judge(&self, before: Zxid, seen: Seen) -> Option<WriteFate<()>> {
        let survived = seen.node.is_some_and(|node| node.stat.czxid <= before);
        survived.then_some(WriteFate::NotApplied)
    }
}

/// Sends the write at once. All else happens when the future is polled.
pub(crate) fn resolve<W: Write + Send + Sync>(
    client: Client,
    write: W,
) -> impl Future<Output = Result<W::Done, Error>> + Send
where
    W::Done: Send,
{
    let before = client.last_zxid();
    let first = write.send(&client);
    async move {
        let lost = match first.await {
            Err(error) if is_lost(&error) => error,
            answer => return answer,
        };
        let Some(path) = write.path_to_inspect() else {
            return Err(lost);
        };
        let timeout = client.session_timeout();
        let resolved = inquire(&client, &write, path, before, &lost);
        tokio::time::timeout(timeout, resolved).await.unwrap_or(Err(lost.clone()))
    }
}

/// Looks at the node, and repeats the write if it surely did not happen, until the outcome is
/// known.
async fn inquire<W: Write>(
    client: &Client,
    write: &W,
    path: &str,
    before: Zxid,
    lost: &Error,
) -> Result<W::Done, Error> {
    let mut refused = None;
    loop {
        match inspect(client, path).await {
            Ok(seen) => match (write.judge(before, seen), refused.take()) {
                (Some(WriteFate::Applied(done)), _) => return Ok(done),
                (Some(WriteFate::NotApplied), Some(refused)) => return Err(refused),
                (Some(WriteFate::NotApplied), None) => {}
                (None, _) => return Err(lost.clone()),
            },
            Err(error) if is_later(&error) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            Err(error) if error.is_connection_loss() => continue,
            Err(_) => return Err(lost.clone()),
        }
        match write.send(client).await {
            Ok(done) => return Ok(done),
            // An error that proves nothing is no refusal: the node shows what has happened.
            Err(error) if is_later(&error) || is_lost(&error) && error.code().is_some() => {
                tokio::time::sleep(PAUSE).await;
            }
            // Perhaps refused because it was applied before: if a leader without a majority has
            // answered the sync (ZOOKEEPER-1675), the state was old.
            Err(error) if error.code().is_some() => refused = Some(error),
            Err(error) if error.is_connection_loss() || is_lost(&error) => {}
            Err(_) => return Err(lost.clone()),
        }
    }
}

/// The node's state after all that was committed before, and the state of its parent.
async fn inspect(client: &Client, path: &str) -> Result<Seen, Error> {
    let parent = path.rsplit_once('/').map_or("/", |(parent, _)| parent);
    let parent = if parent.is_empty() { "/" } else { parent };
    let (sync, node, parent) =
        client.batch(|| (client.sync(path), client.get_data(path), client.exists(parent)));
    sync.await?;
    let node = match node.await {
        Err(error) if error.is_no_node() => None,
        node => Some(node?),
    };
    let parent = match parent.await {
        // Servers require that permission since 3.8.4 and 3.9.2. The node alone shows most.
        Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => None,
        parent => parent?,
    };
    Ok(Seen { own: client.session().map(|own| own.id), node, parent })
}

/// True if the write may have been applied, and the session lives on to find out.
fn is_lost(error: &Error) -> bool {
    error.outcome() == Outcome::Unknown && !error.is_session_over()
}

/// True if this server or the next one may reply differently later.
fn is_later(error: &Error) -> bool {
    let later = [ErrorCode::THROTTLED_OP, ErrorCode::NOT_READ_ONLY];
    error.code().is_some_and(|code| later.contains(&code))
}
