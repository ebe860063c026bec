//! Waiting until nobody is ahead, without a request at the hand-over.
//!
//! A listing shows the contenders ahead. Later ones queue up behind us, so the contenders ahead can
//! only leave (but a writer of Curator's may leave a reader in its place). We watch the two nearest
//! of them, and our own node. Once events have told that all of them have left, we are first, and
//! need no other listing. If an event may have been missed, or our own node may be gone, we list
//! the queue again. A server that lags behind may answer that: its state contains our node, and
//! whoever is not ahead of it there never will be.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use tracing::{debug, trace};
use zk_client::{Acl, Error as ClientError, ErrorCode, EventType, WatchedEvent, Watcher};

use crate::error::Error;
use crate::node::{Contender, Role, Standing};
use crate::queue::Place;
use crate::queue::attempts::{MAX_LOSSES, is_transient};
use crate::queue::wakeups::{QuietWatch, RecheckTimer};
use crate::trace::QUEUE;

impl Place {
    /// Waits until nobody is ahead. `standing` comes from the listing behind our create.
    pub(crate) async fn wait(&mut self, standing: Option<Standing>) -> Result<(), Error> {
        let mut wait = Wait::new(self, standing);
        loop {
            // Nobody is ahead: all contenders of our last listing were seen to go.
            if wait.is_over() && self.was_there_until_now(&mut wait)? {
                break;
            }
            // Sets the watches that are missing, and lists the queue again where that is needed.
            if self.request_what_is_missing(&mut wait).await? {
                continue;
            }
            match poll_fn(|cx| wait.poll_woken(self, cx)).await? {
                Woken::Ahead(contender, event) => wait.note_ahead(self, &contender, &event),
                Woken::Own(event) if event.kind == EventType::NODE_DELETED => {
                    return Err(self.vanished());
                }
                // Somebody wrote to our node, perhaps to revoke the lock. It is watched again.
                Woken::Own(_) => {}
                Woken::Folder => wait.must_list = true,
                // A change of permissions may have silenced the watch ahead.
                Woken::Recheck => (wait.must_list, wait.doubts_nearest) = (true, true),
            }
        }
        debug!(target: QUEUE, node = self.node.path(), "first");
        self.has_waited = wait.has_waited;
        self.own_watch = std::mem::take(&mut wait.own);
        if wait.has_waited {
            self.others = QuietWatch::default();
        }
        Ok(())
    }

    /// Checks that our own node was still there when the last contender ahead had left. Returns
    /// false if only a new listing can tell.
    ///
    /// On one connection events come in the order of the changes. So if somebody had deleted our
    /// node before, the watch on it would have fired by now. A watch that is not set is pending.
    /// Then nobody was ahead in the last listing, which shows our node; or we may not watch our
    /// node, and each contender ahead that left has led to such a listing.
    fn was_there_until_now(&self, wait: &mut Wait) -> Result<bool, Error> {
        let state = self.queue.client().state();
        if let Some(ended) = state.ended() {
            return Err(ClientError::from(ended).into());
        }
        // If the connection is gone, and we have waited for longer than a session timeout, nothing
        // shows that the session lives, and a lease would lapse at once. The reply to a listing
        // shows that it lives.
        if !state.is_connected() {
            wait.must_list = true;
            return Ok(false);
        }
        match wait.own.poll_changed(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Ok(true),
            Poll::Ready(event) if event.as_ref().is_ok_and(is_deleted) => Err(self.vanished()),
            Poll::Ready(event) => {
                event?;
                wait.must_list = true;
                Ok(false)
            }
        }
    }

    /// Sends all requests that are missing, together. Returns false if none was.
    async fn request_what_is_missing(&self, wait: &mut Wait) -> Result<bool, Error> {
        let unwatched = wait.unwatched();
        let watch_own = !wait.own.is_set() && !wait.own_unreadable;
        let watch_folder = wait.unreadable && wait.folder.is_none();
        if !wait.must_list && !watch_folder && unwatched.is_empty() && !watch_own {
            return Ok(false);
        }
        let (queue, client) = (&self.queue, self.queue.client());
        // With an access list, we may not be allowed to read our own node. Only a read shows that.
        let reads_own = watch_own && queue.options().acl != Acl::OPEN;
        let mut nodes: Vec<String> =
            unwatched.iter().map(|contender| queue.child(&contender.name)).collect();
        nodes.extend((watch_own && !reads_own).then(|| self.node.path().to_owned()));
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let doubted = wait.standing.nearest.first().filter(|_| wait.doubts_nearest);
        let (own, watched, read, folder, list) = client.batch(|| {
            let own = reads_own.then(|| client.get_data_and_watch(self.node.path()));
            let watched = (!nodes.is_empty()).then(|| client.watch_nodes(&nodes));
            let read = doubted.map(|nearest| client.get_data(&queue.child(&nearest.name)));
            let folder = watch_folder.then(|| client.get_children_and_watch(queue.folder()));
            let list =
                (wait.must_list && !watch_folder).then(|| client.get_children(queue.folder()));
            (own, watched, read, folder, list)
        });
        wait.doubts_nearest = false;

        if let Some(reply) = own {
            match reply.await {
                Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => {
                    (wait.own_unreadable, wait.unreadable) = (true, true);
                }
                reply => {
                    let answer = self.survive(wait, reply)?;
                    wait.own = answer.map(|(_, watcher)| watcher.into()).unwrap_or_default();
                }
            }
        }
        let mut gone = Vec::new();
        if let Some(reply) = watched
            && let Some(mut watchers) = self.survive(wait, reply.await)?
        {
            // Our own node was the last of `nodes`.
            if watchers.len() > unwatched.len() {
                wait.own = watchers.pop().map(QuietWatch::from).unwrap_or_default();
            }
            for (contender, mut watcher) in unwatched.into_iter().zip(watchers) {
                match watcher.poll_changed(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => wait.watched.push(Watched { contender, watcher }),
                    // The watch on our node is in this request or older, so it tells if our node
                    // has gone as well. Nobody has to be listed.
                    Poll::Ready(Ok(event)) if event.missed => {
                        gone.extend(is_deleted(&event).then_some(contender));
                    }
                    Poll::Ready(event) => wait.note_ahead(self, &contender, &event?),
                }
            }
        }
        // Without a watch on our own node, only a listing shows whether it still exists.
        wait.must_list |= watch_own && !wait.own.is_set();
        if let Some(reply) = read {
            // Servers send no events about a node that we may not read.
            wait.unreadable |=
                reply.await.is_err_and(|error| error.code() == Some(ErrorCode::NO_AUTH));
        }
        if let Some(reply) = folder
            && let Some((list, watcher)) = self.survive(wait, reply.await)?
        {
            wait.folder = Some(watcher);
            wait.learn(self.standing(&list)?);
        }
        if let Some(reply) = list
            && let Some(list) = self.survive(wait, reply.await)?
        {
            wait.learn(self.standing(&list)?);
        }
        for contender in gone {
            wait.note_gone(&contender);
        }
        match wait.loss.take() {
            None => wait.losses = 0,
            Some(_) if wait.losses < MAX_LOSSES => wait.losses += 1,
            Some(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Turns a transient failure into `None`: the request is sent again.
    fn survive<R>(
        &self,
        wait: &mut Wait,
        reply: Result<R, ClientError>,
    ) -> Result<Option<R>, Error> {
        match reply {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if is_transient(&error) => {
                wait.loss = Some(error);
                Ok(None)
            }
            Err(error) => Err(self.vanished_or(error)),
        }
    }
}

/// The state of a place that is not first.
struct Wait {
    /// The contenders ahead in the last listing, without those that have left since then.
    standing: Standing,
    /// True if `standing` may be wrong, so that the queue must be listed again.
    must_list: bool,
    /// True if a contender was ahead.
    has_waited: bool,
    own: QuietWatch,
    /// True if we may not read our own node: then only listings show whether it exists.
    own_unreadable: bool,
    watched: Vec<Watched>,
    /// True if we may not read the node of a contender. No event reports its end, so the folder is
    /// watched.
    unreadable: bool,
    folder: Option<Watcher>,
    /// True if the nearest contender may have become unreadable.
    doubts_nearest: bool,
    /// True if a writer ahead may leave a reader in its place, for which we must wait, too.
    may_downgrade: bool,
    /// How many times in a row replies were lost, and why the last one was.
    losses: u32,
    loss: Option<ClientError>,
    recheck: RecheckTimer,
}

/// A contender ahead with a watch on its node.
struct Watched {
    contender: Contender,
    watcher: Watcher,
}

/// What woke a waiting place.
enum Woken {
    Own(WatchedEvent),
    Ahead(Contender, WatchedEvent),
    Folder,
    Recheck,
}

impl Wait {
    fn new(place: &Place, standing: Option<Standing>) -> Self {
        let must_list = standing.is_none();
        let standing = standing.unwrap_or_default();
        Self {
            has_waited: !standing.is_first(),
            standing,
            must_list,
            own: QuietWatch::default(),
            own_unreadable: false,
            watched: Vec::new(),
            unreadable: false,
            folder: None,
            doubts_nearest: false,
            may_downgrade: place.own.role == Role::Exclusive && place.queue.naming().has_readers(),
            losses: 0,
            loss: None,
            recheck: RecheckTimer::default(),
        }
    }

    fn is_over(&self) -> bool {
        !self.must_list && self.standing.is_first()
    }

    /// The nearest contenders ahead that have no watch yet. With watches on two, the event about
    /// the second one shows early that only the first is left, and the hand-over needs no listing.
    fn unwatched(&self) -> Vec<Contender> {
        // Of many contenders that were listed a while ago, some have gone: the listing that is due
        // comes first.
        if self.unreadable || (self.must_list && self.standing.farther > 0) {
            return Vec::new();
        }
        let is_watched =
            |one: &&Contender| self.watched.iter().any(|watched| watched.contender == **one);
        self.standing.nearest.iter().filter(|one| !is_watched(one)).cloned().collect()
    }

    /// Takes the contenders ahead from a new listing.
    fn learn(&mut self, standing: Standing) {
        let Standing { nearest, farther, .. } = &standing;
        trace!(target: QUEUE, ?nearest, farther, "listed");
        let is_ahead = |one: &mut Watched| standing.nearest.contains(&one.contender);
        for gone in self.watched.extract_if(.., |one| !is_ahead(one)) {
            gone.watcher.abandon();
        }
        self.has_waited |= !standing.is_first();
        self.standing = standing;
        self.must_list = false;
    }

    /// An event about the node of a contender ahead.
    fn note_ahead(&mut self, place: &Place, ahead: &Contender, event: &WatchedEvent) {
        if is_deleted(event) {
            // After a reconnect events come in no order, and the end of our session deletes all of
            // its nodes in no order, so our own node may have gone before.
            let is_of_own_session = place.queue.is_of_own_session(&ahead.name);
            self.must_list |= event.missed || is_of_own_session || !self.own.is_set();
            self.note_gone(ahead);
        }
    }

    /// A contender ahead has gone. It may have been waiting like us, and since the last listing
    /// nothing is known about the contenders in front of the two nearest ones.
    fn note_gone(&mut self, contender: &Contender) {
        self.standing.nearest.retain(|one| one != contender);
        self.must_list |= self.standing.farther > 0;
        // Curator's writers put a reader in their place when they downgrade.
        self.must_list |= self.may_downgrade && contender.role == Role::Exclusive;
    }

    /// Waits for the first watch to fire. The watch on our own node comes last, since
    /// [`Place::was_there_until_now`] polls it again before we count as first.
    fn poll_woken(
        &mut self,
        place: &Place,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Woken, ClientError>> {
        for index in 0..self.watched.len() {
            let polled = self.watched.get_mut(index).map(|one| one.watcher.poll_changed(cx));
            if let Some(Poll::Ready(event)) = polled {
                let Watched { contender, .. } = self.watched.swap_remove(index);
                return Poll::Ready(event.map(|event| Woken::Ahead(contender, event)));
            }
        }
        let folder = self.folder.as_mut().map(|folder| folder.poll_changed(cx));
        if let Some(Poll::Ready(event)) = folder {
            self.folder = None;
            return Poll::Ready(event.map(|_| Woken::Folder));
        }
        if let Poll::Ready(event) = self.own.poll_changed(cx) {
            return Poll::Ready(event.map(Woken::Own));
        }
        self.recheck.poll(place.queue.client(), cx).map(|()| Ok(Woken::Recheck))
    }
}

fn is_deleted(event: &WatchedEvent) -> bool {
    event.kind == EventType::NODE_DELETED
}
