//! A barrier at both ends of a piece of work: parties begin together and end together.
//!
//! All state is in the parties' own nodes, which are ephemeral. The party that finds enough of them
//! writes to each node which numbers are of the round, in one transaction that expects that nobody
//! has written to them before. So a node is in one round at most, all of a round are let in at the
//! same moment, and nothing is left of a round that could open the next one.

use std::ops::{Deref, RangeInclusive};
use std::sync::Arc;

use tracing::debug;
use zk_client::{Children, Client, ErrorCode, Node, Op, Reply, Watcher, Zxid};

use crate::error::{Cause, Error, Loss};
use crate::hold::{Hold, Release};
use crate::node::{Contender, NodeNaming, Role};
use crate::options::{OfMember, Options};
use crate::queue::join::Attempt;
use crate::queue::{Place, Queue};
use crate::steady::absent::unless_absent;
use crate::steady::retries::{Retries, with_retries};
use crate::steady::watch::Awaited;
use crate::trace::COORDINATION;

/// A double barrier: work begins when a number of parties have come, and ends when all have left.
///
/// ```
/// # async fn compute() {}
/// # async fn f(client: &zk_client::Client) -> Result<(), zk_recipes::Error> {
/// use zk_recipes::DoubleBarrier;
///
/// // Each of three processes does this.
/// let barrier = DoubleBarrier::new(client, "/barriers/step", 3)?;
/// for _ in 0..10 {
///     let mut round = barrier.enter().await?; // until three have come
///     round.run(compute()).await?; // dropped when the others no longer wait for us
///     round.leave().await?; // until all three have left
/// }
/// # Ok(())
/// # }
/// ```
///
/// Those that come form rounds: the first `parties` of those who wait are a round, and are let in
/// at the same moment. One that comes later waits for the next round, so a barrier can be entered
/// again at once. All who use it must give the same number.
///
/// # What it does not promise
///
/// A party whose process crashes, or whose session ends, has left as far as the others can see, as
/// soon as the server has ended its session. They are not told that it did not finish its work. The
/// party itself is told by its [`Round`], if it still runs. What it writes by
/// [`fenced`](Hold::fenced) is written only while the others still wait for it.
///
/// Two rounds can overlap if more than `parties` processes use the barrier.
///
/// A party that loses the reply to its create looks for the node, and comes anew only if there is
/// none. If a leader that was just deposed answers (ZOOKEEPER-1675), the node may be there all the
/// same, and counts as one more party until this client sees it and deletes it.
///
/// # Servers without a quorum
///
/// A [read-only](zk_client::SessionState::ConnectedReadOnly) server refuses the node of a party, so
/// [`enter`](Self::enter) fails there. A session that has a node is served by no such server.
///
/// # Who shares it
///
/// Nobody: Curator's `DistributedDoubleBarrier` and kazoo's `DoubleBarrier` open by a node that
/// does not say for which round. What a crash leaves of it lets the first one in that comes to the
/// next round, and one who leaves late deletes it under those who are about to enter.
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    queue: Arc<Queue>,
    parties: usize,
}

impl DoubleBarrier {
    /// Makes a double barrier for so many parties on the folder `path`, which should hold nothing
    /// else.
    ///
    /// If the folder is missing, the first party creates it and its ancestors as containers.
    ///
    /// # Errors
    ///
    /// The path is not valid in ZooKeeper, or there are no parties
    /// ([`InvalidArgument`](crate::ErrorKind::InvalidArgument)).
    pub fn new(client: &Client, path: &str, parties: u32) -> Result<Self, Error> {
        Self::with_options(client, path, parties, Options::new())
    }

    /// Makes a double barrier on the folder `path` with other settings than the defaults.
    ///
    /// [`Options::acl`], [`Options::persistent_folder`] and [`Options::max_hold`] apply, the last
    /// one to each round. The parties need the permissions to read and write each other's nodes.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_options(
        client: &Client,
        path: &str,
        parties: u32,
        options: Options<OfMember>,
    ) -> Result<Self, Error> {
        let queue = Arc::new(Queue::new(client, path, NodeNaming::parties(), options.settings)?);
        match usize::try_from(parties) {
            Ok(parties) if parties > 0 => Ok(Self { queue, parties }),
            _ => Err(Cause::Argument(format!("{path}: a double barrier for no party")).into()),
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &str {
        self.queue.folder()
    }

    /// Waits until so many parties have come, this one included.
    ///
    /// The last one that comes lets all in, and is in after two round trips. The others are in one
    /// event and one round trip later. The request of the last one grows with the number of
    /// parties: a server takes some thousands by default.
    ///
    /// # Errors
    ///
    /// [`NodeVanished`](crate::ErrorKind::NodeVanished) if somebody deletes the node of this party,
    /// and those of any write, for instance without permission. A lost connection is one only if
    /// several break in a row. The end of the session is an error.
    ///
    /// The others may have been let in at that moment. To them this party has left then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves no node behind. The others may have been let in, as with an
    /// error.
    pub async fn enter(&self) -> Result<Round, Error> {
        loop {
            let (mut place, listed) = self.arrive().await?;
            if let Some(opened) = self.opened(&mut place, listed).await? {
                let hold = Hold::new(place).await?;
                let Opened { members, number } = opened;
                return Ok(Round { hold, members, number, has_left: false });
            }
            // A stranger has written to our node, so it will be in no round.
        }
    }

    /// Creates our node, and lists the folder behind that.
    async fn arrive(&self) -> Result<(Place, Reply<Children>), Error> {
        let (queue, client) = (&self.queue, self.queue.client());
        let ask = || {
            let stem = queue.stem(Role::Exclusive);
            let created = client.create_owned(&stem, b"", &queue.options().node());
            (vec![created], client.get_children(queue.folder()))
        };
        let (node, list) = Attempt::send(client, ask).finish_one(queue, ask, |_| None).await?;
        Ok((Place::new(queue, node)?, list))
    }

    /// Waits until our node is in a round. `None` if a stranger has written to it.
    ///
    /// Of the nodes that wait, the last one was created last. Its list shows all others, so its
    /// party opens the round if there are enough. That is why nobody else needs to look for others
    /// that come.
    async fn opened(
        &self,
        place: &mut Place,
        mut listed: Reply<Children>,
    ) -> Result<Option<Opened>, Error> {
        let client = self.queue.client();
        let mut retries = Retries::default();
        loop {
            match listed.await {
                Ok(list) => {
                    retries.reset();
                    if let Some(opened) = self.open(place, &list).await? {
                        return Ok(Some(opened));
                    }
                    if let Some(Node { data, stat, .. }) = self.wait(place).await? {
                        let opened = |members| Opened { members, number: stat.mzxid };
                        return Ok(decode(&data, &place.own).map(opened));
                    }
                }
                Err(error) => retries.count(error).map_err(|error| place.vanished_or(error))?,
            }
            listed = client.get_children(self.path());
        }
    }

    /// Opens a round for the first of those who wait, as often as there are enough. Returns our
    /// own, if we are among them.
    async fn open(&self, place: &Place, list: &Children) -> Result<Option<Opened>, Error> {
        let (queue, client) = (&self.queue, self.queue.client());
        let mut waiting = queue.contenders(list);
        let mut retries = Retries::default();
        while let Some(first) = waiting.get(..self.parties)
            && let (Some(lowest), Some(highest)) = (first.first(), first.last())
        {
            let members = lowest.sequence..=highest.sequence;
            let paths = first.iter().map(|party| queue.child(&party.name)).collect::<Vec<_>>();
            let data = encode(&members);
            let ops = paths.iter().map(|path| Op::set_data(path, &data, Some(0)));
            let error = match client.multi(ops.collect::<Vec<_>>()).await {
                Ok(stats) => {
                    let number = stats.first().map(|stat| stat.mzxid).unwrap_or_default();
                    let folder = self.path();
                    debug!(target: COORDINATION, folder, %number, ?members, "a round begins");
                    if first.contains(&place.own) {
                        return Ok(Some(Opened { members, number }));
                    }
                    waiting.drain(..self.parties);
                    continue;
                }
                Err(error) => error,
            };
            let Err(error) = retries.count(error) else {
                // If it was carried out, the nodes show that.
                continue;
            };
            let Some(at) = error.failed_op().filter(|&at| at < self.parties) else {
                return Err(error.into());
            };
            match error.code() {
                Some(ErrorCode::NO_NODE) => drop(waiting.remove(at)),
                // It is in an earlier round, as are all with lower numbers.
                Some(ErrorCode::BAD_VERSION) => {
                    let party = waiting.remove(at);
                    if let Some(members) = self.members_with(&party).await? {
                        waiting.retain(|party| party.sequence > *members.end());
                    }
                }
                _ => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// The members of a party's round. `None` if its node is gone, or a stranger has written to it.
    async fn members_with(&self, party: &Contender) -> Result<Option<RangeInclusive<i32>>, Error> {
        let path = self.queue.child(&party.name);
        let read = with_retries(|| self.queue.client().get_data(&path)).await;
        Ok(unless_absent(read)?.and_then(|node| decode(&node.data, party)))
    }

    /// Waits until somebody has written to our node, which is returned. `None` after a session
    /// timeout: a server sends no event of a node that we may no longer read.
    async fn wait(&self, place: &mut Place) -> Result<Option<Node>, Error> {
        let client = self.queue.client();
        loop {
            let read = with_retries(|| client.get_data_and_watch(place.node.path())).await;
            let (node, watcher) = read.map_err(|error| place.vanished_or(error))?;
            if node.stat.version != 0 {
                // The hold goes on with this watch.
                place.own_watch = watcher.into();
                return Ok(Some(node));
            }
            place.has_waited = true;
            if Awaited::from(watcher).changed(client).await?.is_none() {
                return Ok(None);
            }
        }
    }
}

/// A round that was opened.
struct Opened {
    /// The numbers of its members' nodes. No other round has a number in between.
    members: RangeInclusive<i32>,
    number: Zxid,
}

/// What is written to the nodes of a round's members.
fn encode(members: &RangeInclusive<i32>) -> Vec<u8> {
    format!("{:010}-{:010}", members.start(), members.end()).into_bytes()
}

/// `None` if it does not fit to the party's node.
fn decode(data: &[u8], party: &Contender) -> Option<RangeInclusive<i32>> {
    let (first, last) = std::str::from_utf8(data).ok()?.split_once('-')?;
    Some(first.parse().ok()?..=last.parse().ok()?)
        .filter(|members: &RangeInclusive<i32>| members.contains(&party.sequence))
}

/// Proof of being in a round of a [`DoubleBarrier`], until it is dropped or left.
///
/// [`Hold`] describes what it reports: whether the others surely wait for this party, for how long,
/// and when they no longer do, because its session has ended or somebody deleted its node. Its
/// [token](Hold::token) orders the parties; the [number](Self::number) orders the rounds.
///
/// Dropping it leaves the round at once, without waiting for the others.
#[derive(Debug)]
#[must_use = "dropping it leaves the round: bind it to a name (`_` is none)"]
pub struct Round {
    hold: Hold,
    members: RangeInclusive<i32>,
    number: Zxid,
    has_left: bool,
}

impl Round {
    /// The number of the round, which is the same for all of its parties.
    ///
    /// It is the transaction in which they were let in. A later round has a greater number.
    pub fn number(&self) -> Zxid {
        self.number
    }

    /// Leaves the round, and waits until all other parties have left it, too.
    ///
    /// The first arrival leaves last, and all others watch its node. They are woken once; it is
    /// woken each time the latest arrival still inside leaves.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::ErrorKind::Lost) if the others may have stopped to wait for this party
    /// before it called this, or, for the one that leaves last, before the others had left. Those
    /// of any read. The end of the session is an error, also after this party has left.
    ///
    /// With `Ok` all parties have left, have crashed, or have lost their sessions.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: call it again to wait on. The party may have left.
    /// Dropping the round leaves it in any case.
    pub async fn leave(&mut self) -> Result<(), Error> {
        let mut retries = Retries::default();
        loop {
            if let Some(loss) = self.loss() {
                return Err(self.hold.status().lost_error(loss));
            }
            match self.watch_another().await {
                Ok(Some(watcher)) => {
                    retries.reset();
                    let mut awaited = Awaited::from(watcher);
                    let changed = awaited.changed(self.hold.queue().client());
                    match self.has_left {
                        true => changed.await?,
                        false => self.hold.run(changed).await??,
                    };
                }
                Ok(None) => return Ok(()),
                // It has left meanwhile.
                Err(error) if error.is_no_node() => {}
                // A loss tells more than this error.
                Err(error) if self.loss().is_none() => retries.count(error)?,
                Err(_) => {}
            }
        }
    }

    /// How our node was lost, if that was before we left.
    fn loss(&self) -> Option<Loss> {
        self.hold.known_loss().filter(|_| !self.has_left)
    }

    /// Leaves, unless we are the one that leaves last and others are there. Returns a watch on
    /// another party, or `None` if all others have left.
    async fn watch_another(&mut self) -> Result<Option<Watcher>, Error> {
        let others = self.others().await?;
        let queue = self.hold.queue();
        let watch =
            |party: &Contender| queue.client().get_data_and_watch(&queue.child(&party.name));
        if !self.has_left
            && let (Some(lowest), Some(highest)) = (others.first(), others.last())
            && self.hold.own() < lowest
        {
            let (_, watcher) = watch(highest).await?;
            return Ok(Some(watcher));
        }
        let released = (!self.has_left).then(|| self.hold.let_go());
        self.has_left = true;
        let mut watching = others.first().map(watch);
        if let Some(released) = released
            && released.await? == Release::AlreadyLost
        {
            // If the session is over, the list fails. If it goes on and the delete was lost, our
            // node is still there.
            watching = self.others().await?.first().map(watch);
        }
        let Some(watching) = watching else { return Ok(None) };
        let (node, watcher) = watching.await?;
        // If this node came after our round began, the folder was deleted meanwhile and numbers
        // begin anew: all of ours have left.
        Ok((node.stat.czxid < self.number).then_some(watcher))
    }

    /// Lists the other parties that are still in the round, in the order in which they came, and
    /// our own node while the client still tries to delete it. Fails if we have lost our node
    /// before we left.
    async fn others(&self) -> Result<Vec<Contender>, Error> {
        let queue = self.hold.queue();
        let list = unless_absent(queue.client().get_children(queue.folder()).await)?;
        let mut parties = list.map(|list| queue.contenders(&list)).unwrap_or_default();
        let own = self.hold.own();
        if !self.has_left && !parties.contains(own) {
            return Err(self.hold.status().mark_deleted());
        }
        let is_other = |party: &Contender| self.has_left || party != own;
        parties.retain(|party| self.members.contains(&party.sequence) && is_other(party));
        Ok(parties)
    }
}

impl Deref for Round {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.hold
    }
}
