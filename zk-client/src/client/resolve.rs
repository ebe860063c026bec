//! Writes whose answer was lost, resolved by looking at what is there.
//!
//! A state has one past only as far as its counters tell: a node's czxid, whether it is the node of
//! before; its version, how often it was written; its parent's pzxid, whether a child came or went.
//! What was before is told by the highest zxid that was seen when the write was sent. Where these
//! prove that nothing happened, the write is sent again, and where they prove neither, its outcome
//! stays unknown. The nodes of [`Client::create_owned`] are found again by the session itself,
//! since that is owed also to callers that have gone.

use std::future::Future;
use std::time::Duration;

use zk_proto::{CreateMode, ErrorCode, SessionId, Stat, Zxid};

use crate::client::handle::Client;
use crate::error::{Error, Outcome};
use crate::handles::reply::Reply;
use crate::model::node::{CreateOptions, Created, Node};

/// Any version will do: what servers take this one for.
const ANY_VERSION: i32 = -1;

/// Before a server that would not yet is asked again.
const PAUSE: Duration = Duration::from_millis(50);

impl Client {
    /// Writes that look what became of them if the connection breaks before their answer.
    pub fn resolving(&self) -> Resolving {
        Resolving { client: self.clone() }
    }
}

/// A client's writes, each carried out once at most and told truly: see [`Client::resolving`].
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
/// While connections last, each does what the [`Client`]'s method does, at the same cost. If the
/// connection breaks before the answer, the client looks on the next one, with a sync ahead, and
/// compares with what it knew when the write was sent:
///
/// | it finds | and so |
/// |---|---|
/// | what the write would have left, and newer than before | the write is done |
/// | proof that nothing was changed | the write is sent again, and the server's answer counts |
/// | anything else: the node was changed further, deleted, or made anew | nobody can know |
///
/// What is done was done by this write, or by one that is equal in all that a node shows. Where
/// nobody can know, the error of the loss is given back, with the outcome
/// [`Unknown`](Outcome::Unknown).
///
/// So a success means that the write was carried out, an error with the outcome
/// [`NotApplied`](Outcome::NotApplied) that it was not and will not be, and no write is carried out
/// twice. Who must tell their own write from an equal one of others puts something
/// [unique](Client::unique) into the data.
///
/// Why a look is final: a write that was lost on the way to one server cannot arrive later. The
/// next server takes the session over at the leader, which refuses from then on what others still
/// forward for it. One thing is beyond a client: a leader that was deposed and does not know it yet
/// may answer the look (ZOOKEEPER-1675), and then a write may happen again that others have undone
/// meanwhile.
///
/// # Ordering
///
/// The write is sent by the call, in call order. If it is sent again, it is behind what was called
/// meanwhile.
///
/// # Errors
///
/// Those of the [`Client`]'s method. An unknown outcome is looked into for one session timeout,
/// counted from the loss; the end of the session ends it as well.
///
/// # Cancel safety
///
/// Dropping the future stops looking: the write is sent in any case, and not again.
#[derive(Clone, Debug)]
pub struct Resolving {
    client: Client,
}

impl Resolving {
    /// Creates a node, as [`Client::create`] does.
    ///
    /// A node is recognised by its data, an ephemeral one by its session as well, and none if it
    /// was changed since; a client that has had no answer before knows of no persistent node that
    /// it is new. That there is no node yet is proved by a parent whose children have not changed
    /// since the write was sent, so in a folder where others are busy a loss may stay unknown. The
    /// state in [`Created`] is that which was found.
    ///
    /// A sequential node has no name to look for, and a loss stays unknown: for ephemeral ones
    /// there is [`Client::create_owned`].
    pub fn create<'a>(
        &self,
        path: &'a str,
        data: &'a [u8],
        options: &CreateOptions<'a>,
    ) -> impl Future<Output = Result<Created, Error>> + Send + use<'a> {
        resolve(self.client.clone(), Create { path, data, options: *options })
    }

    /// Replaces a node's data if it is at `version`, as [`Client::set_data`] does, and returns its
    /// new state, or the state that was found.
    ///
    /// The version is what makes it recognisable: the write leads to the next one. If others have
    /// written upon it, a loss stays unknown; if they have written in its place, it was refused.
    /// Version -1, which servers take for any, leaves every loss unknown.
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
    /// A node that is gone tells nobody who deleted it: if it is gone after a loss, the outcome
    /// stays unknown. If it is still there, the delete is sent again.
    pub fn delete<'a>(
        &self,
        path: &'a str,
        version: i32,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<'a> {
        resolve(self.client.clone(), Delete { path, version })
    }
}

/// A write that can be recognised.
trait Write {
    type Done;

    fn send(&self, client: &Client) -> Reply<Self::Done>;

    /// Where to look, if that helps at all.
    fn trace(&self) -> Option<&str>;

    /// What became of the write, if that can be known. `before` is the highest zxid that was seen
    /// when it was first sent, so that of the write is higher.
    fn judge(&self, before: Zxid, seen: Seen) -> Option<Verdict<Self::Done>>;
}

enum Verdict<R> {
    Applied(R),
    NotApplied,
}

/// What is there now.
struct Seen {
    own: Option<SessionId>,
    node: Option<Node>,
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

    fn trace(&self) -> Option<&str> {
        (!self.options.mode().is_sequential()).then_some(self.path)
    }

    fn judge(&self, before: Zxid, seen: Seen) -> Option<Verdict<Created>> {
        let Some(Node { data, stat }) = seen.node else {
            let untouched = seen.parent.is_some_and(|parent| parent.pzxid <= before);
            return untouched.then_some(Verdict::NotApplied);
        };
        if stat.czxid <= before {
            return Some(Verdict::NotApplied);
        }
        let owner = match self.options.mode() {
            CreateMode::EPHEMERAL => seen.own,
            // Of all others servers show nothing but that they are not ephemeral, which is as true
            // of a node that was there long before this client saw anything.
            _ => Some(SessionId(0)).filter(|_| before > Zxid(0)),
        };
        let is_as_made =
            owner == Some(stat.ephemeral_owner) && stat.version == 0 && data == self.data;
        is_as_made.then(|| {
            let path = self.path.to_owned();
            Verdict::Applied(Created { path, czxid: stat.czxid, stat: Some(stat) })
        })
    }
}

impl Write for SetData<'_> {
    type Done = Stat;

    fn send(&self, client: &Client) -> Reply<Stat> {
        client.set_data(self.path, self.data, Some(self.version))
    }

    fn trace(&self) -> Option<&str> {
        (self.version != ANY_VERSION).then_some(self.path)
    }

    fn judge(&self, before: Zxid, seen: Seen) -> Option<Verdict<Stat>> {
        let Node { data, stat } = seen.node?;
        if stat.mzxid <= before {
            return Some(Verdict::NotApplied);
        }
        // Versions count within one life of a node.
        if stat.czxid > before {
            return None;
        }
        match stat.version.wrapping_sub(self.version) {
            1 if data == self.data => Some(Verdict::Applied(stat)),
            // Or it has not come so far, and never will: another write has led to its version.
            ..=1 => Some(Verdict::NotApplied),
            _ => None,
        }
    }
}

impl Write for Delete<'_> {
    type Done = ();

    fn send(&self, client: &Client) -> Reply<()> {
        client.delete(self.path, Some(self.version))
    }

    fn trace(&self) -> Option<&str> {
        (self.version != ANY_VERSION).then_some(self.path)
    }

    fn judge(&self, before: Zxid, seen: Seen) -> Option<Verdict<()>> {
        let survived = seen.node.is_some_and(|node| node.stat.czxid <= before);
        survived.then_some(Verdict::NotApplied)
    }
}

/// Sends at once; the rest is up to who polls.
fn resolve<W: Write + Send + Sync>(
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
        let Some(path) = write.trace() else {
            return Err(lost);
        };
        let timeout = client.session_timeout();
        let resolved = inquire(&client, &write, path, before, &lost);
        tokio::time::timeout(timeout, resolved).await.unwrap_or(Err(lost.clone()))
    }
}

/// Looks, and sends again what surely did not happen, until one or the other tells.
async fn inquire<W: Write>(
    client: &Client,
    write: &W,
    path: &str,
    before: Zxid,
    lost: &Error,
) -> Result<W::Done, Error> {
    let mut refused = None;
    loop {
        match look(client, path).await {
            Ok(seen) => match (write.judge(before, seen), refused.take()) {
                (Some(Verdict::Applied(done)), _) => return Ok(done),
                (Some(Verdict::NotApplied), Some(refused)) => return Err(refused),
                (Some(Verdict::NotApplied), None) => {}
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
            Err(error) if is_later(&error) => tokio::time::sleep(PAUSE).await,
            // Perhaps because it did happen: where a leader without a majority has answered the
            // sync (ZOOKEEPER-1675), what was seen was old.
            Err(error) if error.code().is_some() => refused = Some(error),
            Err(error) if error.is_connection_loss() || is_lost(&error) => {}
            Err(_) => return Err(lost.clone()),
        }
    }
}

/// The state behind all that was committed before, with that of the parent.
async fn look(client: &Client, path: &str) -> Result<Seen, Error> {
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
        // Servers ask for that permission since 3.8.4 and 3.9.2. The node tells most by itself.
        Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => None,
        parent => parent?,
    };
    Ok(Seen { own: client.session().map(|own| own.id), node, parent })
}

/// Whether the write may have happened, and the session lives on to tell.
fn is_lost(error: &Error) -> bool {
    error.outcome() == Outcome::Unknown && !error.is_session_over()
}

/// Whether the server may say otherwise when it is asked again, or the next one.
fn is_later(error: &Error) -> bool {
    let later = [ErrorCode::THROTTLED_OP, ErrorCode::NOT_READ_ONLY];
    error.code().is_some_and(|code| later.contains(&code))
}
