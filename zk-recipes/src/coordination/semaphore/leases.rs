//! The folder whose children are the permits that are held.
//!
//! A lease is created together with a listing behind it, which tells whether there is room. In
//! kazoo's layout only the first contender of the queue creates leases, and only when there is room
//! for them, since kazoo creates a lease without a look behind it.

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::slice::from_ref;
use std::sync::Arc;
use std::task::Poll;

use tracing::debug;
use zk_client::{Children, Error as ClientError, EventType, Node, Op, Reply};

use crate::error::{Cause, Error};
use crate::node::Role;
use crate::queue::join::Attempt;
use crate::queue::{Place, Queue};
use crate::steady::retries::{Retries, with_retries};
use crate::steady::watch::{QuietWatch, RecheckTimer};
use crate::trace::COORDINATION;

/// The index of the operation that checks our turn, ahead of the creates of leases.
const TURN: usize = 0;

/// The leases of a semaphore.
#[derive(Clone, Debug)]
pub(super) struct Leases {
    pub(super) queue: Arc<Queue>,
    /// How many there are at most.
    pub(super) permits: u32,
    /// True if the number of permits is written in the folder's data, as kazoo does.
    pub(super) has_count: bool,
}

/// The result of a request for the leases that exist.
pub(super) type Listed = Result<Children, Error>;

impl Leases {
    /// Creates the nodes of so many permits, and lists the folder behind that. With a turn, they
    /// are created only if that still exists.
    pub(super) async fn create(
        &self,
        permits: u32,
        turn: Option<&Place>,
    ) -> Result<(Vec<Place>, Listed), Error> {
        let (queue, client) = (&self.queue, self.queue.client());
        let ask = || {
            let options = queue.options();
            let stems = (0..permits).map(|_| queue.stem(Role::Exclusive)).collect::<Vec<_>>();
            let node = options.node();
            let check = turn.map(|turn| Op::check(turn.node.path(), None));
            let creates = stems.iter().map(|stem| Op::create_owned(stem, &options.data, &node));
            let created = client.multi_owned((Vec::from_iter(check), creates.collect::<Vec<_>>()));
            (created, self.listed(client.get_children(queue.folder())))
        };
        let turn_has_failed = |error: &ClientError| {
            let turn = turn.filter(|_| error.failed_op() == Some(TURN))?;
            Some(Err(turn.vanished_or(error.clone())))
        };
        let joining = Attempt::send(client, ask).finish(from_ref(queue), ask, turn_has_failed);
        let (nodes, list) = joining.await?;
        let places = nodes.into_iter().map(|node| Place::new(queue, node));
        Ok((places.collect::<Result<_, _>>()?, list.await))
    }

    /// Lists the folder, although a connection may break.
    pub(super) async fn list(&self) -> Listed {
        let client = self.queue.client();
        let ask = || client.batch(|| self.listed(client.get_children(self.queue.folder())));
        with_retries(ask).await
    }

    /// True if there is room for so many more leases.
    pub(super) async fn has_room_for(&self, more: u32) -> Result<bool, Error> {
        match self.list().await {
            Ok(list) => self.has_room(&[], more, &list),
            Err(error) if error.is_no_node() => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The reply to a listing, in kazoo's layout with a read of the number of permits behind it.
    fn listed<T>(&self, list: Reply<T>) -> impl Future<Output = Result<T, Error>> {
        let count = self.has_count.then(|| self.queue.client().get_data(self.queue.folder()));
        async move {
            let list = list.await?;
            if let Some(count) = count {
                self.check_count(&count.await?)?;
            }
            Ok(list)
        }
    }

    /// Fails if the folder's data is a number, and not that of the permits. Other data says
    /// nothing, as for kazoo.
    fn check_count(&self, folder: &Node) -> Result<(), Error> {
        match number(&folder.data) {
            Some(found) if found != i64::from(self.permits) => {
                let (path, permits) = (self.queue.folder().to_owned(), self.permits);
                Err(Cause::OtherPermits { path, permits, found }.into())
            }
            _ => Ok(()),
        }
    }

    /// True if a listing shows that our leases, and so many more, are not too many. Fails if one of
    /// them is gone.
    pub(super) fn has_room(
        &self,
        leases: &[Place],
        more: u32,
        list: &Children,
    ) -> Result<bool, Error> {
        // A search through the list for each lease would compare each with all others.
        let names = list.names.iter().collect::<HashSet<_>>();
        match leases.iter().find(|lease| !names.contains(lease.own.name.as_str())) {
            Some(gone) => Err(gone.vanished()),
            None => Ok(list.names.len() + more as usize <= self.permits as usize),
        }
    }

    /// Waits until there are no more leases than permits, ours and so many more included. `listed`
    /// is the listing behind their create.
    ///
    /// If somebody deletes the node of our turn, another contender is first, too. Then our leases
    /// would keep it waiting, and its leases us, so this fails.
    pub(super) async fn wait_for_room(
        &self,
        turn: &mut Place,
        leases: &mut [Place],
        more: u32,
        listed: Listed,
    ) -> Result<(), Error> {
        let client = self.queue.client();
        let mut listed = listed.map(|list| (list, QuietWatch::default()));
        let mut retries = Retries::default();
        loop {
            match listed {
                Ok((list, mut watch)) => {
                    retries.reset();
                    if self.has_room(leases, more, &list)? {
                        return Ok(());
                    }
                    let folder = self.queue.folder();
                    debug!(target: COORDINATION, folder, "no permit is free");
                    leases.iter_mut().for_each(|lease| lease.has_waited = true);
                    if watch.is_set() && turn.own_watch.is_set() {
                        changed(turn, &mut watch).await?;
                    }
                }
                // Nobody holds a permit.
                Err(error) if error.is_no_node() && leases.is_empty() => return Ok(()),
                Err(error) => retries.count(error).map_err(|error| vanished_or(leases, error))?,
            }
            let (own, list) = client.batch(|| {
                let own =
                    (!turn.own_watch.is_set()).then(|| client.watch_nodes(&[turn.node.path()]));
                (own, self.listed(client.get_children_and_watch(self.queue.folder())))
            });
            let watched = async {
                if let Some(own) = own {
                    let watcher = own.await?.pop();
                    turn.own_watch = watcher.map(QuietWatch::from).unwrap_or_default();
                }
                let (list, watcher) = list.await?;
                Ok((list, watcher.into()))
            };
            listed = watched.await;
        }
    }
}

/// The integer that kazoo reads in this data. One that is too great for us is the greatest.
fn number(data: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(data).ok()?.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(i64::MAX))
}

/// Waits until the leases have changed, or for one session timeout: servers send no events about
/// nodes that we may not read. Fails if our turn is lost.
async fn changed(turn: &mut Place, leases: &mut QuietWatch) -> Result<(), Error> {
    let mut recheck = RecheckTimer::default();
    let event = poll_fn(|cx| {
        for watch in [&mut turn.own_watch, &mut *leases] {
            if let Poll::Ready(event) = watch.poll_changed(cx) {
                return Poll::Ready(event.map(Some));
            }
        }
        recheck.poll(turn.queue.client(), cx).map(|()| Ok(None))
    });
    match event.await? {
        Some(event) if event.kind == EventType::NODE_DELETED && event.path == turn.node.path() => {
            return Err(turn.vanished());
        }
        Some(_) => {}
        None => turn.own_watch = QuietWatch::default(),
    }
    Ok(())
}

/// The error of a listing. Without the folder, our leases in it are gone.
pub(super) fn vanished_or(leases: &[Place], error: Error) -> Error {
    match leases.first() {
        Some(lease) if error.is_no_node() => lease.vanished(),
        _ => error,
    }
}
