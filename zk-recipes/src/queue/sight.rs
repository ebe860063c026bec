//! A set of watched nodes: those of the contenders ahead, and our own.
//!
//! [`Sight`] sets the watches that are missing, and tells what becomes of the nodes: a contender
//! went, our own node went, or it is in doubt, and only a listing tells who is there. Where an
//! access list hides a node, no event tells of its end, and the folder is watched in its place.

use std::task::{Context, Poll, Waker};

use zk_client::{
    Acl, Children, Error as ClientError, ErrorCode, EventType, Node, Reply, WatchedEvent, Watcher,
};

use crate::node::{Contender, Standing};
use crate::queue::place::Place;
use crate::queue::queue::Listing;
use crate::steady::watch::{QuietWatch, RecheckTimer};

/// The watches of a place that is not first, and whether only a listing can tell who is there.
#[derive(Debug, Default)]
pub(super) struct Sight {
    own: QuietWatch,
    /// True if we may not read our own node: then only listings show whether it exists.
    own_is_hidden: bool,
    ahead: Vec<Watched>,
    folder: FolderWatch,
    /// True if the nearest contender may have become unreadable.
    doubts_nearest: bool,
    /// True if an event may have been missed: only a listing tells who is there.
    needs_listing: bool,
    recheck: RecheckTimer,
}

/// A contender ahead with a watch on its node.
#[derive(Debug)]
struct Watched {
    contender: Contender,
    watcher: Watcher,
}

/// A watch on the folder, for contenders whose nodes we may not read.
#[derive(Debug, Default)]
enum FolderWatch {
    #[default]
    Unneeded,
    Missing,
    Set(Watcher),
}

/// What has become of a watched node.
#[derive(Debug)]
pub(super) enum Seen {
    /// The node of this contender is gone.
    Gone(Contender),
    /// Our own node is gone.
    OwnGone,
    /// A node was written to, and is watched again; or a doubt has come up.
    Changed,
}

/// Requests of a place that waits: for the watches that are missing, and for a listing if it is in
/// doubt who is there.
pub(super) struct Asked {
    own: Option<Reply<(Node, Watcher)>>,
    /// The contenders that are watched, and after them our own node if it is not read.
    watched: Option<Reply<Vec<Watcher>>>,
    contenders: Vec<Contender>,
    nearest: Option<Reply<Node>>,
    list: Option<Listing>,
}

impl Sight {
    pub(super) fn require_listing(&mut self) {
        self.needs_listing = true;
    }

    pub(super) fn needs_listing(&self) -> bool {
        self.needs_listing
    }

    /// True if watches are missing, or it is in doubt who is there.
    pub(super) fn lacks_something(&self, standing: &Standing) -> bool {
        let is_watched = !self.lacks_own() && !matches!(self.folder, FolderWatch::Missing);
        self.needs_listing || !is_watched || self.unwatched(standing).next().is_some()
    }

    fn lacks_own(&self) -> bool {
        !self.own.is_set() && !self.own_is_hidden
    }

    /// The nearest contenders ahead that have no watch yet. With watches on two, the event about
    /// the second one shows early that only the first is left, and the hand-over needs no listing.
    fn unwatched<'s>(&self, standing: &'s Standing) -> impl Iterator<Item = &'s Contender> {
        // Of many contenders that were listed a while ago, some have gone: the listing that is due
        // comes first.
        let is_hidden = !matches!(self.folder, FolderWatch::Unneeded);
        let is_old = self.needs_listing && standing.farther > 0;
        let listed = if is_hidden || is_old { &[][..] } else { &standing.nearest[..] };
        let is_watched = |one: &Contender| self.ahead.iter().any(|seen| seen.contender == *one);
        listed.iter().filter(move |one| !is_watched(one))
    }

    /// Sends all requests that are missing, together.
    pub(super) fn ask(&mut self, place: &Place, standing: &Standing) -> Asked {
        let (queue, client) = (&place.queue, place.queue.client());
        let contenders = self.unwatched(standing).cloned().collect::<Vec<_>>();
        let lacks_own = self.lacks_own();
        // With an access list, we may not be allowed to read our own node. Only a read shows that.
        let reads_own = lacks_own && queue.options().acl() != Acl::OPEN;
        let path = |contender: &Contender| queue.child(&contender.name);
        let mut nodes = contenders.iter().map(path).collect::<Vec<_>>();
        nodes.extend((lacks_own && !reads_own).then(|| place.node.path().to_owned()));
        let nodes = nodes.iter().map(String::as_str).collect::<Vec<_>>();
        let doubted = standing.nearest.first().filter(|_| self.doubts_nearest);
        let lacks_folder = matches!(self.folder, FolderWatch::Missing);
        client.batch(|| Asked {
            own: reads_own.then(|| client.get_data_and_watch(place.node.path())),
            watched: (!nodes.is_empty()).then(|| client.watch_nodes(&nodes)),
            contenders,
            nearest: doubted.map(|nearest| client.get_data(&path(nearest))),
            list: match lacks_folder {
                true => Some(Listing::Watching(client.get_children_and_watch(queue.folder()))),
                false => {
                    self.needs_listing.then(|| Listing::Plain(client.get_children(queue.folder())))
                }
            },
        })
    }

    /// Takes note of the replies. Returns the contenders that have gone, and a listing if one was
    /// asked for.
    pub(super) async fn take(
        &mut self,
        place: &Place,
        asked: Asked,
    ) -> Result<(Vec<Contender>, Option<Children>), ClientError> {
        let lacked_own = self.lacks_own();
        if let Some(reply) = asked.own {
            match reply.await {
                Ok((_, watcher)) => self.own = watcher.into(),
                Err(error) if is_hidden(&error) => {
                    self.own_is_hidden = true;
                    self.watch_folder();
                }
                Err(error) => return Err(error),
            }
        }
        let gone = match asked.watched {
            Some(reply) => self.watch(place, asked.contenders, reply.await?)?,
            None => Vec::new(),
        };
        // Without a watch on our own node, only a listing shows whether it still exists.
        self.needs_listing |= lacked_own && !self.own.is_set();
        match asked.nearest {
            None => {}
            Some(reply) => match reply.await {
                Err(error) if is_hidden(&error) => self.watch_folder(),
                Err(error) if error.is_transient() => return Err(error),
                _ => {}
            },
        }
        self.doubts_nearest = false;
        let mut list = None;
        if let Some(listing) = asked.list {
            let (children, watcher) = listing.answer().await?;
            if let Some(watcher) = watcher {
                self.folder = FolderWatch::Set(watcher);
            }
            list = Some(children);
        }
        self.needs_listing &= list.is_none();
        Ok((gone, list))
    }

    /// Servers send no events about a node that we may not read.
    fn watch_folder(&mut self) {
        if matches!(self.folder, FolderWatch::Unneeded) {
            self.folder = FolderWatch::Missing;
        }
    }

    /// Keeps the watches on contenders, and on our own node if that was the last of all. Returns
    /// the contenders that have gone.
    fn watch(
        &mut self,
        place: &Place,
        contenders: Vec<Contender>,
        mut watchers: Vec<Watcher>,
    ) -> Result<Vec<Contender>, ClientError> {
        if watchers.len() > contenders.len() {
            self.own = watchers.pop().map(QuietWatch::from).unwrap_or_default();
        }
        let mut gone = Vec::new();
        for (contender, mut watcher) in contenders.into_iter().zip(watchers) {
            match watcher.poll_changed(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => self.ahead.push(Watched { contender, watcher }),
                // The watch on our node is in this request or older, so it tells if our node has
                // gone as well. Nobody has to be listed.
                Poll::Ready(Ok(event)) if event.missed => {
                    gone.extend(is_deleted(&event).then_some(contender));
                }
                Poll::Ready(event) => {
                    gone.extend(self.note(place, &event?, &contender).then_some(contender));
                }
            }
        }
        Ok(gone)
    }

    /// Takes note of an event about the node of a contender. True if that is gone.
    fn note(&mut self, place: &Place, event: &WatchedEvent, contender: &Contender) -> bool {
        if !is_deleted(event) {
            return false;
        }
        // After a reconnect events come in no order, and the end of our session deletes all of its
        // nodes in no order, so our own node may have gone before.
        let is_of_own_session = place.queue.is_of_own_session(&contender.name);
        self.needs_listing |= event.missed || is_of_own_session || !self.own.is_set();
        true
    }

    /// Forgets the watches on contenders that are not ahead any more.
    pub(super) fn keep(&mut self, standing: &Standing) {
        let is_ahead = |one: &mut Watched| standing.nearest.contains(&one.contender);
        for gone in self.ahead.extract_if(.., |one| !is_ahead(one)) {
            gone.watcher.abandon();
        }
    }

    /// Looks at the watch on our own node, without waiting.
    pub(super) fn look_at_own(&mut self) -> Result<Option<Seen>, ClientError> {
        match self.own.poll_changed(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Ok(None),
            Poll::Ready(event) => Ok(Some(seen_of_own(&event?))),
        }
    }

    /// The watch on our own node, which outlives the others.
    pub(super) fn into_own(self) -> QuietWatch {
        self.own
    }

    /// Waits for the first watch to fire. The watch on our own node comes last, since
    /// [`look_at_own`](Self::look_at_own) looks at it again before we count as first.
    pub(super) fn poll_seen(
        &mut self,
        place: &Place,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Seen, ClientError>> {
        for index in 0..self.ahead.len() {
            let polled = self.ahead.get_mut(index).map(|one| one.watcher.poll_changed(cx));
            if let Some(Poll::Ready(event)) = polled {
                let Watched { contender, .. } = self.ahead.swap_remove(index);
                let is_gone = self.note(place, &event?, &contender);
                let seen = if is_gone { Seen::Gone(contender) } else { Seen::Changed };
                return Poll::Ready(Ok(seen));
            }
        }
        if let FolderWatch::Set(watcher) = &mut self.folder
            && let Poll::Ready(event) = watcher.poll_changed(cx)
        {
            self.folder = FolderWatch::Missing;
            self.needs_listing = true;
            return Poll::Ready(event.map(|_| Seen::Changed));
        }
        if let Poll::Ready(event) = self.own.poll_changed(cx) {
            // Somebody may have written to our node, perhaps to revoke the lock.
            return Poll::Ready(event.map(|event| seen_of_own(&event)));
        }
        self.recheck.poll(place.queue.client(), cx).map(|()| {
            // A change of permissions may have silenced the watch ahead.
            (self.needs_listing, self.doubts_nearest) = (true, true);
            Ok(Seen::Changed)
        })
    }
}

fn is_deleted(event: &WatchedEvent) -> bool {
    event.kind == EventType::NODE_DELETED
}

fn seen_of_own(event: &WatchedEvent) -> Seen {
    if is_deleted(event) { Seen::OwnGone } else { Seen::Changed }
}

fn is_hidden(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::NO_AUTH)
}
