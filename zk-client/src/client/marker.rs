//! Transactions that leave a mark, so that it is certain whether one with a lost reply was applied.
//!
//! A transaction on nodes that others write, too, may leave nothing by which it can be recognised
//! later. So each one also writes its number to a node that nothing else writes, the marker. The
//! marker's data then tells which transactions were carried out, whatever happened to the nodes
//! that they are about.

use std::fmt;

use zk_proto::Zxid;

use crate::client::owned_nodes::OwnedNode;
use crate::client::resolve::{Resolving, Seen, Write, WriteFate, resolve};
use crate::error::Error;
use crate::handles::client::{Client, Reply};
use crate::model::node::Node;
use crate::multi::op::Op;
use crate::multi::write::Operations;

impl Resolving {
    /// Makes a marker of a node that this session owns. Its data is overwritten.
    pub fn marker(&self, node: OwnedNode) -> Marker {
        let last = Mark { id: self.client.unique(), number: 0 };
        Marker { client: self.client.clone(), node, last }
    }
}

/// A node by which transactions find out whether they were carried out.
///
/// ```
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
/// use zk_client::{Committed, CreateOptions, Op};
///
/// let path = format!("/bank/markers/{:032x}-", client.unique());
/// let options = CreateOptions::ephemeral().sequential();
/// let node = client.create_owned(&path, b"", &options).await?;
/// let mut marker = client.resolving().marker(node);
///
/// // Whatever the connection does meanwhile, this happens once.
/// let entry = Op::create("/bank/log/entry-", b"+5", &CreateOptions::persistent().sequential());
/// let done = marker.multi((Op::set_data("/bank/balance", b"47", Some(41)), entry)).await?;
/// match done {
///     Committed::Replied((balance, _)) => println!("written {} times", balance.version),
///     Committed::Found(zxid) => println!("done in {zxid}, and the reply was lost"),
/// }
/// # Ok(())
/// # }
/// ```
///
/// A transaction carries out one more operation, which writes its number to the marker. That is
/// its whole cost while the connection lasts. If the reply is lost, the client reads the marker on
/// the next connection, after a sync. If the number is there, the transaction was carried out. If
/// an earlier one is there, it was not, and is sent again; then the server's reply counts.
///
/// The node is ephemeral, so what was open when the session ended stays unknown.
/// Dropping the marker deletes the node. See [`Resolving`] for what the result is based on.
pub struct Marker {
    client: Client,
    node: OwnedNode,
    /// The mark of the last transaction. The id is random, and no other marker has it.
    last: Mark,
}

/// A transaction that was carried out: see [`Marker::multi`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no third way to learn of it")]
pub enum Committed<R> {
    /// The server has replied with these results.
    Replied(R),
    /// The reply was lost. The marker shows that the transaction was carried out, with this zxid.
    Found(Zxid),
}

impl<R> Committed<R> {
    /// The results, if the reply was not lost.
    pub fn results(self) -> Option<R> {
        match self {
            Self::Replied(results) => Some(results),
            Self::Found(_) => None,
        }
    }

    /// The same with other results.
    pub fn map<T>(self, change: impl FnOnce(R) -> T) -> Committed<T> {
        match self {
            Self::Replied(results) => Committed::Replied(change(results)),
            Self::Found(zxid) => Committed::Found(zxid),
        }
    }
}

impl Marker {
    /// The path of the node.
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// Carries out all operations as one transaction, or none of them, and finds out which.
    ///
    /// As [`Client::multi`], but for a lost reply: the results of the operations are lost with it,
    /// although it is known that they were carried out. A marker resolves one transaction at a
    /// time; use several for transactions side by side.
    ///
    /// # Errors
    ///
    /// As [`Client::multi`]. A [`failed_op`](Error::failed_op) behind the last of `ops` is the
    /// marker: it was deleted, or may not be written. If the marker is gone when it is needed,
    /// or anything but this marker has written to it, the error of the loss is returned, with the
    /// outcome [`Unknown`](crate::Outcome::Unknown). The client looks for one session timeout.
    ///
    /// # Cancel safety
    ///
    /// The transaction is sent when the future is first polled. Dropping the future ends the
    /// search for its outcome. The marker can be used again.
    pub async fn multi<O>(&mut self, ops: O) -> Result<Committed<O::Results>, Error>
    where
        O: Operations + Send + Sync,
        O::Results: Send,
    {
        self.last.number = self.last.number.saturating_add(1);
        let marked = Marked { path: self.node.path(), mark: self.last, ops };
        resolve(self.client.clone(), marked).await
    }
}

/// What transactions write to their marker: its id, and their number.
#[derive(Clone, Copy)]
struct Mark {
    id: u128,
    number: u64,
}

impl Mark {
    fn bytes(self) -> [u8; 24] {
        let mut bytes = [0; 24];
        let (id, number) = bytes.split_at_mut(16);
        id.copy_from_slice(&self.id.to_be_bytes());
        number.copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    /// The number of the transaction that wrote `data`, if it is one of this marker.
    fn number_in(self, data: &[u8]) -> Option<u64> {
        let number = data.strip_prefix(&self.id.to_be_bytes())?;
        Some(u64::from_be_bytes(number.try_into().ok()?))
    }
}

/// A transaction with its mark.
struct Marked<'a, O> {
    path: &'a str,
    mark: Mark,
    ops: O,
}

impl<O: Operations> Write for Marked<'_, O> {
    type Done = Committed<O::Results>;

    fn send(&self, client: &Client) -> Reply<Self::Done> {
        let mark = self.mark.bytes();
        let reply = client.multi((&self.ops, Op::set_data(self.path, &mark, None)));
        reply.map(|(results, _)| Committed::Replied(results))
    }

    fn path_to_inspect(&self) -> Option<&str> {
        Some(self.path)
    }

    fn judge(&self, before: Zxid, seen: Seen) -> Option<WriteFate<Self::Done>> {
        let Node { data, stat } = seen.node?;
        match self.mark.number_in(&data) {
            Some(number) if number == self.mark.number => {
                Some(WriteFate::Applied(Committed::Found(stat.mzxid)))
            }
            // Servers carry out the requests of a session in order, so this transaction would have
            // overwritten the earlier mark.
            Some(number) if number < self.mark.number => Some(WriteFate::NotApplied),
            _ => (stat.mzxid <= before).then_some(WriteFate::NotApplied),
        }
    }
}

impl fmt::Debug for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Marker").field("path", &self.path()).finish_non_exhaustive()
    }
}
