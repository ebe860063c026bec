//! Group membership: which processes of a service are there, with their data for all to see.
//!
//! A member is the holder of a lock on its id: of all nodes with one id in their names, the one
//! with the lowest number is the member. Every node has a name that is never used again, so a
//! client never takes another's node for its own, and never deletes one by mistake.

mod members;

use std::ops::Deref;
use std::sync::Arc;

use zk_client::{Client, Error as ClientError, Op};

use crate::error::{Cause, Error};
use crate::hold::{Hold, Releasing};
use crate::node::{Folder, NodeNaming, Role, parse_member};
use crate::options::{OfMember, Options, Settings};
use crate::queue::{Place, Queue};
use crate::steady::absent::unless_absent;
use crate::steady::retries::{Retries, was_created_unseen, was_looked_for_in_vain, with_retries};

pub use members::{Member, Members, View};

/// The members of a service, across all processes: each has an id and data, such as its address.
///
/// ```
/// use zk_client::Client;
/// use zk_recipes::{Error, Group, retry};
///
/// # async fn serve() {}
/// # async fn f(keeper: zk_client::SessionKeeper) -> Result<(), Error> {
/// // A member in each session, and anew when it was lost while the session lives.
/// keeper.run_each(|client| async move { retry(|| work(&client)).await }).await?;
/// # Ok(())
/// # }
///
/// async fn work(client: &Client) -> Result<(), Error> {
///     let group = Group::new(client, "/service/members")?;
///     let member = group.join("worker-7", "10.0.0.7:80").await?;
///     member.run(serve()).await // dropped when the membership is lost
/// }
/// ```
///
/// An id has one member at a time, as a [`Lock`](crate::Lock) has one holder: a member that joins
/// with an id that another one has [waits](Self::join), [gives up](Self::try_join), or
/// [takes its place](Self::take_over).
///
/// # What it does not promise
///
/// A view may be outdated when the caller acts on it. A process that crashed stays a member until
/// its session has expired. A process that is stopped and has lost its membership may go on working
/// without knowing it. Where that would do harm, compare the [token](Hold::token) of the member, or
/// let it write by [`fenced`](Hold::fenced).
///
/// # Servers without a quorum
///
/// A [read-only](zk_client::SessionState::ConnectedReadOnly) server tells of no members: while the
/// client is connected to one, [`members`](Self::members) and [observers](Self::watch) wait, as
/// they do while the client is cut off. Joining is refused.
///
/// # Who shares it
///
/// A member's node is `<32 hex digits>~<id>__party__<number>`, and its data is the member's.
/// kazoo's `Party` counts it, with its data as the identifier. Members of a `Party` are members
/// here: the unique part of the node's name is the id, and the identifier is the data. Other
/// children of the folder are ignored.
///
/// The nodes of Curator's `GroupMember` are named by the id alone, and are not shared. The end of
/// such a node cannot be requested again after a lost reply, because another member may have the
/// name by then.
#[derive(Clone, Debug)]
pub struct Group {
    client: Client,
    folder: Folder,
    settings: Settings,
}

impl Group {
    /// Makes a group on the folder `path`, which should hold nothing else.
    ///
    /// If the folder is missing, the first member creates it and its ancestors as containers.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn new(client: &Client, path: &str) -> Result<Self, Error> {
        Self::with_options(client, path, Options::new())
    }

    /// Makes a group on the folder `path` with other settings than the defaults.
    ///
    /// [`Options::acl`], [`Options::persistent_folder`] and [`Options::max_hold`] apply, the last
    /// one to each membership. The names and the data of the nodes are the group's.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper.
    pub fn with_options(
        client: &Client,
        path: &str,
        options: Options<OfMember>,
    ) -> Result<Self, Error> {
        zk_client::check_path(path)?;
        let (client, folder) = (client.clone(), Folder::new(path));
        Ok(Self { client, folder, settings: options.settings })
    }

    /// The path of the folder.
    pub fn path(&self) -> &str {
        self.folder.path()
    }

    /// Becomes the member with this id. Waits while another one has the id.
    ///
    /// After a crash of its process, a member that joins again waits until the earlier session has
    /// expired, unless it [takes over](Self::take_over).
    ///
    /// An id is any text that may be in a node's name, without a tilde: a host, an address, or a
    /// UUID. The data may be as long as a request of the server allows, about a megabyte. An
    /// observer reads it once.
    ///
    /// This costs one round trip, and another one or two if the folder is missing.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::ErrorKind::InvalidArgument), and those of
    /// [`Lock::acquire`](crate::Lock::acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire): dropping the future leaves no node behind.
    pub async fn join(&self, id: &str, data: impl Into<Vec<u8>>) -> Result<Membership, Error> {
        let hold = Hold::acquire(&self.queue(id, data.into())?, Role::Exclusive).await?;
        Ok(Membership { hold, id: id.to_owned() })
    }

    /// Becomes the member with this id, or returns `None` if another one has the id.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`join`](Self::join).
    pub async fn try_join(
        &self,
        id: &str,
        data: impl Into<Vec<u8>>,
    ) -> Result<Option<Membership>, Error> {
        let hold = Hold::try_acquire(&self.queue(id, data.into())?, Role::Exclusive).await?;
        Ok(hold.map(|hold| Membership { hold, id: id.to_owned() }))
    }

    /// Becomes the member with this id in place of the one that has it, which loses it.
    ///
    /// The earlier membership ends and the new one begins in one transaction: no view is without
    /// the member, and none has it twice. A caller that waits in [`join`](Self::join) for the same
    /// id gets the error [`NodeVanished`](crate::ErrorKind::NodeVanished).
    ///
    /// This is for a process that knows that the earlier member is an earlier run of itself, and
    /// need not wait for the end of that session. Nobody checks that: of two processes with one id
    /// the later one wins. The earlier process may still be running. It learns of its
    /// [loss](Hold::lost) as soon as it hears from a server. What it writes by
    /// [`fenced`](Hold::fenced) after the takeover is refused, and its [token](Hold::token) is
    /// smaller than the new one.
    ///
    /// It costs a list and a transaction.
    ///
    /// # Errors
    ///
    /// As [`join`](Self::join), and `NoAuth` if the server does not let us delete the earlier node.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no node of ours behind. The earlier member may have lost the id.
    pub async fn take_over(&self, id: &str, data: impl Into<Vec<u8>>) -> Result<Membership, Error> {
        let queue = self.queue(id, data.into())?;
        let mut retries = Retries::default();
        loop {
            let old = self.nodes_of(id).await?;
            let taken = match old.is_empty() {
                true => Hold::try_acquire(&queue, Role::Exclusive).await?,
                false => match replace(&queue, &old).await {
                    Err(error) if error.client().is_some_and(was_looked_for_in_vain) => {
                        retries.count(error)?;
                        None
                    }
                    taken => taken?,
                },
            };
            if let Some(hold) = taken {
                return Ok(Membership { hold, id: id.to_owned() });
            }
        }
    }

    /// The members now.
    ///
    /// This costs a list, and a read for each member. If a member goes in between, the group is
    /// listed again, up to ten times.
    ///
    /// # Errors
    ///
    /// As any read, for instance without permission. `NoNode` if members come and go faster than
    /// they can be read; an [observer](Self::watch) reads only those that are new each time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn members(&self) -> Result<View, Error> {
        members::read(&self.client, &self.folder).await
    }

    /// Observes the members and their data. This makes no member.
    ///
    /// ```
    /// # async fn f(group: zk_recipes::Group) -> Result<(), zk_recipes::Error> {
    /// let mut members = group.watch();
    /// loop {
    ///     let view = members.next().await?;
    ///     println!("epoch {}: {} members", view.epoch, view.members.len());
    ///     for member in &view.members {
    ///         println!("{} at {}", member.id, String::from_utf8_lossy(&member.data));
    ///     }
    /// }
    /// # }
    /// ```
    pub fn watch(&self) -> Members {
        Members::new(&self.client, &self.folder)
    }

    /// The queue of all nodes with this id.
    fn queue(&self, id: &str, data: Vec<u8>) -> Result<Arc<Queue>, Error> {
        let naming = NodeNaming::member(id)?;
        let options = Settings { data, ..self.settings.clone() };
        Ok(Arc::new(Queue::new(&self.client, self.path(), naming, options)?))
    }

    /// The paths of all nodes with this id.
    async fn nodes_of(&self, id: &str) -> Result<Vec<String>, ClientError> {
        let list = with_retries(|| self.client.get_children(self.path())).await;
        let names = unless_absent(list)?.map(|list| list.names).unwrap_or_default();
        let has_id = |name: &&str| parse_member(name).is_some_and(|(found, _)| found == id);
        Ok(names.iter().filter(has_id).map(|name| self.folder.child(name)).collect())
    }
}

/// Deletes the nodes at `old` and creates ours, in one transaction. `None` if one of them or the
/// folder has gone, or another one has come.
async fn replace(queue: &Arc<Queue>, old: &[String]) -> Result<Option<Hold>, Error> {
    let options = queue.options();
    let (stem, node) = (queue.stem(Role::Exclusive), options.node());
    let deletes = old.iter().map(|path| Op::delete(path, None)).collect::<Vec<_>>();
    let create = Op::create_owned(&stem, &options.data, &node);
    let created = queue.client().multi_owned((deletes, create)).into_iter().next();
    let Some(created) = created else {
        return Ok(None);
    };
    let place = match created.await {
        Ok(node) => Place::new(queue, node)?,
        Err(error) if was_created_unseen(&error) => {
            return Err(Cause::NodeVanished(stem).into());
        }
        Err(error) if error.is_no_node() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match place.is_first(None).await? {
        true => Hold::new(place).await.map(Some),
        false => Ok(None),
    }
}

/// Proof of being a member of a [`Group`], until it is dropped or left.
///
/// [`Hold`] describes what it reports about the membership: whether it is surely valid, for how
/// long, and when it is lost. Dropping it leaves the group at once, without waiting, as a lock's
/// [`Guard`](crate::Guard) releases the lock.
#[derive(Debug)]
#[must_use = "dropping it leaves the group: bind it to a name (`_` is none)"]
pub struct Membership {
    hold: Hold,
    id: String,
}

impl Membership {
    /// The id of the member.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Changes the data of the member, for all observers to see.
    ///
    /// It costs a transaction, and each observer a list and a read.
    ///
    /// # Errors
    ///
    /// As [`Hold::fenced`]: [`Lost`](crate::ErrorKind::Lost) if the membership is lost.
    ///
    /// # Cancel safety
    ///
    /// The write is on its way once the future has been polled.
    pub async fn set_data(&self, data: impl AsRef<[u8]>) -> Result<(), Error> {
        self.hold.fenced(Op::set_data(self.node(), data.as_ref(), None)).await.map(drop)
    }

    /// Leaves the group and waits until the server has confirmed it.
    ///
    /// # Errors and cancel safety
    ///
    /// As [`Guard::release`](crate::Guard::release): the delete is on its way when this returns,
    /// whether or not the future is awaited.
    pub fn leave(&self) -> Releasing {
        self.hold.let_go()
    }
}

impl Deref for Membership {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
