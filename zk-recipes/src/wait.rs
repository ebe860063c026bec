//! Waiting to be first, without a request at the hand-over.
//!
//! Where the queue has a mirror, its events are enough, and in a chain those of the one ahead.
//! Elsewhere it is watches: on the nearest contender ahead, on the one before it, and on the own
//! node. Who is ahead is known from a list and only shrinks, so when everybody ahead has been seen
//! to go, the place is first without another request. Whenever something may have gone untold, a list
//! decides.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tracing::{debug, trace};
use zk_client::{
    Children, Error as ClientError, ErrorCode, EventType, Stat, WatchedEvent, Watcher,
};

use crate::again::Again;
use crate::chain::Chain;
use crate::contender::{self, Contender};
use crate::error::Error;
use crate::layout::Role;
use crate::mirror::Turn;
use crate::own::OwnWatch;
use crate::queue::passes;
use crate::tenure::{MAX_LOSSES, Tenure};

/// Contenders ahead that are watched. With two, the second one's end tells early that only the
/// first is left, and the hand-over needs no list.
const WATCHED_AHEAD: usize = 2;

/// What a place that is not first yet knows, where there is no mirror.
struct Wait {
    /// Everybody ahead who has not been seen to go, lowest first.
    ahead: Vec<Contender>,
    /// Whether anybody was.
    waited: bool,
    /// Whether `ahead` must be read again before anything follows from it.
    stale: bool,
    own: OwnWatch,
    /// Our own node may not be read: only lists tell whether it is there.
    own_unreadable: bool,
    watched: Vec<Watched>,
    /// Set where a contender may not be read, so that its end would go untold.
    folder: Option<Watcher>,
    unreadable: bool,
    /// Whether the nearest contender may have become unreadable.
    doubts_nearest: bool,
    /// Flights in a row that were not answered in full, and why the last was not.
    losses: u32,
    loss: Option<ClientError>,
    /// Whether a writer ahead may leave a reader in its place, which must be waited for, too.
    readers: bool,
    again: Again,
}

/// A contender ahead whose end will be told.
#[derive(Debug)]
struct Watched {
    contender: Contender,
    watcher: Watcher,
}

/// What a waiting place was woken by.
enum Woken {
    Own(WatchedEvent),
    Ahead(Watched, WatchedEvent),
    Folder,
    Again,
}

impl Tenure {
    /// Waits until nobody is ahead. `list` is what was read behind the create.
    pub(crate) async fn first(&mut self, list: Option<Children>) -> Result<(), Error> {
        if !self.succeeds {
            self.until_first(list).await?;
        }
        self.queue.is_first(&self.own);
        Ok(())
    }

    async fn until_first(&mut self, list: Option<Children>) -> Result<(), Error> {
        if self.first_in_chain().await? {
            return Ok(());
        }
        // A mirror that came since tells of no node that was there before it.
        let turn = self.first_in_mirror(list.is_some() || self.forged).await?;
        if turn != Turn::First {
            let fresh = turn == Turn::Unknown && !self.waited;
            self.watch = self.wait(list.filter(|_| fresh)).await?;
        }
        Ok(())
    }

    /// Whether nobody is ahead. Does not wait for it, but for one list where that must tell.
    pub(crate) async fn is_first(&self, list: Option<Children>) -> Result<bool, Error> {
        let is_first = self.succeeds || self.nobody_ahead(list).await?;
        if is_first {
            self.queue.is_first(&self.own);
        }
        Ok(is_first)
    }

    async fn nobody_ahead(&self, list: Option<Children>) -> Result<bool, Error> {
        let list = match (self.queue.first_turn(&self.own, list.is_some()), list) {
            (Turn::First, _) => return Ok(true),
            (Turn::Waiting { .. }, _) if !self.queue.is_outdated() => return Ok(false),
            (Turn::Unknown, Some(list)) => list,
            _ => self.list().await?,
        };
        Ok(self.ahead(&list)?.is_empty())
    }

    /// Reads the queue, however often that takes.
    async fn list(&self) -> Result<Children, Error> {
        let mut losses = 0;
        loop {
            let (asked, reply) = self.queue.ask();
            match reply.await {
                Ok(list) => {
                    asked.answered(&list);
                    return Ok(list);
                }
                Err(error) if passes(&error) && losses < MAX_LOSSES => losses += 1,
                Err(error) => return Err(self.vanished_or(error)),
            }
        }
    }

    /// Who is ahead by this list.
    fn ahead(&self, list: &Children) -> Result<Vec<Contender>, Error> {
        self.queue.check_foreign(&list.names)?;
        let ahead = contender::ahead(self.queue.names(), &self.own, &list.names);
        ahead.ok_or_else(|| self.vanished())
    }

    /// Waits for the one ahead, if all is as it was expected. Says whether that made the place first.
    async fn first_in_chain(&mut self) -> Result<bool, Error> {
        let Some(mut chain) = self.chain.take() else {
            return Ok(false);
        };
        self.waited = true;
        let is_first = self.follow(&mut chain).await?;
        self.check_session()?;
        if !is_first {
            self.queue.broken();
            return Ok(false);
        }
        debug!(node = self.node.path(), "first in the chain");
        self.queue.turned(&self.own, Some(&chain.ahead));
        self.watch = chain.into_own();
        Ok(true)
    }

    /// Waits for what the chain tells, and looks for the one ahead whenever it has told nothing for a
    /// session timeout.
    async fn follow(&self, chain: &mut Chain) -> Result<bool, Error> {
        let mut again = Again::default();
        loop {
            let told = poll_fn(|cx| match chain.poll_first(cx) {
                Poll::Ready(is_first) => Poll::Ready(Some(is_first)),
                Poll::Pending => again.poll(self.queue.client(), cx).map(|()| None),
            });
            if let Some(is_first) = told.await {
                return Ok(is_first);
            }
            if !self.finds(&chain.ahead).await? {
                // What happened until then was told ahead of the answer.
                let told = chain.poll_first(&mut Context::from_waker(Waker::noop()));
                return Ok(told == Poll::Ready(true));
            }
        }
    }

    /// Whether this contender is still there, and an error if we are not: servers do not tell of the end
    /// of a node that may no longer be read. A list would say so, too, but whoever has seen those behind
    /// in one cannot tell which numbers are still to come, and would leave the chain.
    async fn finds(&self, ahead: &Contender) -> Result<bool, Error> {
        let client = self.queue.client();
        let path = self.queue.child(&ahead.name);
        let (own, ahead) = client.batch(|| (client.exists(self.node.path()), client.exists(&path)));
        let is_there = |stat: Result<Option<Stat>, ClientError>| match stat {
            Ok(stat) => Ok(stat.is_some()),
            Err(error) if passes(&error) || error.code() == Some(ErrorCode::NO_AUTH) => Ok(true),
            Err(error) => Err(error),
        };
        if !is_there(own.await)? {
            return Err(self.vanished());
        }
        Ok(is_there(ahead.await)?)
    }

    /// Waits for as long as the mirror knows of somebody ahead, and says what it knows then. The place
    /// was `listed` if a list was read behind the create.
    async fn first_in_mirror(&mut self, listed: bool) -> Result<Turn, Error> {
        let queue = &self.queue;
        let mut turn = queue.first_turn(&self.own, listed);
        if turn != Turn::Unknown {
            let nearest = queue.look(|mirror| mirror.nearest(&self.own).cloned()).flatten();
            queue.turned(&self.own, nearest.as_ref());
        }
        // Who never waits for long would never ask again.
        if matches!(turn, Turn::Waiting { .. }) && queue.is_outdated() {
            (self.waited, turn) = (true, Turn::Unknown);
        }
        let mut again = Again::default();
        // The end of the session takes a contender of ours ahead and our own node in no order.
        let mut sibling = false;
        while let Turn::Waiting { sibling: now } = turn {
            (sibling, self.waited) = (now, true);
            let mut news = pin!(queue.news());
            news.as_mut().enable();
            turn = queue.look(|mirror| queue.turn(mirror, &self.own)).unwrap_or(Turn::Unknown);
            if matches!(turn, Turn::Waiting { .. }) {
                poll_fn(|cx| match news.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(()),
                    Poll::Pending => again.poll(queue.client(), cx).map(|()| turn = Turn::Unknown),
                })
                .await;
            }
        }
        self.check_session()?;
        if turn != Turn::First {
            return Ok(turn);
        }
        debug!(node = self.node.path(), sibling, "first in the queue");
        Ok(if sibling { Turn::Unknown } else { Turn::First })
    }

    fn check_session(&self) -> Result<(), Error> {
        match self.queue.client().state().ended() {
            Some(ended) => Err(ClientError::from(ended).into()),
            None => Ok(()),
        }
    }

    /// Waits by watches. Returns the one on the own node, if it is set.
    async fn wait(&mut self, list: Option<Children>) -> Result<OwnWatch, Error> {
        let mut wait = Wait::new(self);
        if let Some(list) = list {
            self.learn(&mut wait, &list)?;
            self.queue.turned(&self.own, wait.ahead.last());
        }
        loop {
            if !wait.stale && wait.ahead.is_empty() && self.confirm(&mut wait)? {
                self.waited |= wait.waited;
                return Ok(std::mem::take(&mut wait.own));
            }
            if self.ask(&mut wait).await? {
                continue;
            }
            match poll_fn(|cx| wait.poll_woken(self, cx)).await? {
                Woken::Own(event) if event.kind == EventType::NODE_DELETED => {
                    return Err(self.vanished());
                }
                // Somebody wrote to our node: watch it again. Whoever wants to know what, reads it.
                Woken::Own(_) => {}
                Woken::Folder => wait.stale = true,
                Woken::Again => (wait.stale, wait.doubts_nearest) = (true, true),
                Woken::Ahead(watched, event) => wait.woken_by(self, &watched.contender, &event),
            }
        }
    }

    /// Nobody is ahead: the place is first, unless our own node went before them. Events of one
    /// connection come in the order of the changes, so its end would have been told by now, if
    /// the watch that tells it is still armed. If not, a list decides.
    fn confirm(&self, wait: &mut Wait) -> Result<bool, Error> {
        self.check_session()?;
        let mut cx = Context::from_waker(Waker::noop());
        if let Poll::Ready(event) = wait.own.poll_changed(&mut cx) {
            if event?.kind == EventType::NODE_DELETED {
                return Err(self.vanished());
            }
            wait.own.0 = None;
            wait.stale = true;
            return Ok(false);
        }
        debug!(node = self.node.path(), "first in the queue");
        Ok(true)
    }

    /// Asks for everything that is missing, in one flight. Says whether there was anything.
    async fn ask(&self, wait: &mut Wait) -> Result<bool, Error> {
        let unwatched = wait.unwatched();
        let watch_own = wait.own.0.is_none() && !wait.own_unreadable;
        let watch_folder = wait.unreadable && wait.folder.is_none();
        if !wait.stale && !watch_folder && unwatched.is_empty() && !watch_own {
            return Ok(false);
        }
        let (queue, client) = (&self.queue, self.queue.client());
        // An own node with an access list may not be readable: only a read tells.
        let reads_own = watch_own && queue.options().has_acl();
        let mut nodes: Vec<String> =
            unwatched.iter().map(|contender| queue.child(&contender.name)).collect();
        nodes.extend((watch_own && !reads_own).then(|| self.node.path().to_owned()));
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let nearest = wait.ahead.last().filter(|_| std::mem::take(&mut wait.doubts_nearest));
        let (own, watched, read, folder, list) = client.batch(|| {
            let own = reads_own.then(|| client.get_data_and_watch(self.node.path()));
            let watched = (!nodes.is_empty()).then(|| client.watch_nodes(&nodes));
            let read = nearest.map(|nearest| client.get_data(&queue.child(&nearest.name)));
            let watch = || (queue.asked(), client.get_children_and_watch(queue.folder()));
            let folder = watch_folder.then(watch);
            (own, watched, read, folder, (wait.stale && !watch_folder).then(|| queue.ask()))
        });
        if let Some(reply) = own {
            match reply.await {
                Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => {
                    wait.own_unreadable = true;
                    wait.unreadable = true;
                }
                reply => wait.own.0 = self.survive(wait, reply)?.map(|(_, watcher)| watcher),
            }
        }
        let mut gone = Vec::new();
        if let Some(reply) = watched
            && let Some(mut watchers) = self.survive(wait, reply.await)?
        {
            if watchers.len() > unwatched.len() {
                wait.own.0 = watchers.pop();
            }
            for (contender, mut watcher) in unwatched.into_iter().zip(watchers) {
                match watcher.poll_changed(&mut Context::from_waker(Waker::noop())) {
                    Poll::Pending => wait.watched.push(Watched { contender, watcher }),
                    // At the same moment our own node was there: it is like one not listed.
                    Poll::Ready(Ok(event)) if event.missed => {
                        gone.extend((event.kind == EventType::NODE_DELETED).then_some(contender));
                    }
                    Poll::Ready(event) => wait.woken_by(self, &contender, &event?),
                }
            }
        }
        // Without a watch of our own, only a list can tell that we are still there.
        wait.stale |= watch_own && wait.own.0.is_none();
        if let Some(reply) = read {
            // Servers do not tell of the end of a node that we may not read.
            wait.unreadable |=
                reply.await.is_err_and(|error| error.code() == Some(ErrorCode::NO_AUTH));
        }
        if let Some((asked, reply)) = folder
            && let Some((list, watcher)) = self.survive(wait, reply.await)?
        {
            wait.folder = Some(watcher);
            asked.answered(&list);
            self.learn(wait, &list)?;
        }
        if let Some((asked, reply)) = list
            && let Some(list) = self.survive(wait, reply.await)?
        {
            asked.answered(&list);
            self.learn(wait, &list)?;
        }
        for contender in gone {
            wait.gone(&contender);
        }
        match wait.loss.take() {
            None => wait.losses = 0,
            Some(_) if wait.losses < MAX_LOSSES => wait.losses += 1,
            Some(error) => return Err(error.into()),
        }
        Ok(true)
    }

    /// Takes over who is ahead from a fresh list.
    fn learn(&self, wait: &mut Wait, list: &Children) -> Result<(), Error> {
        wait.ahead = self.ahead(list)?;
        wait.waited |= !wait.ahead.is_empty();
        let Wait { ahead, watched, .. } = wait;
        for gone in watched.extract_if(.., |one| !ahead.contains(&one.contender)) {
            gone.watcher.forget();
        }
        wait.stale = false;
        trace!(node = self.node.path(), ahead = wait.ahead.len(), "listed");
        Ok(())
    }

    /// Turns what passes into `None`: it is asked again.
    fn survive<R>(
        &self,
        wait: &mut Wait,
        reply: Result<R, ClientError>,
    ) -> Result<Option<R>, Error> {
        match reply {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if passes(&error) => {
                wait.loss = Some(error);
                Ok(None)
            }
            Err(error) => Err(self.vanished_or(error)),
        }
    }
}

impl Wait {
    fn new(tenure: &Tenure) -> Self {
        Self {
            ahead: Vec::new(),
            stale: true,
            own: OwnWatch::default(),
            waited: false,
            own_unreadable: false,
            watched: Vec::new(),
            folder: None,
            unreadable: false,
            doubts_nearest: false,
            losses: 0,
            loss: None,
            readers: tenure.own.role == Role::Exclusive && tenure.queue.names().has_readers(),
            again: Again::default(),
        }
    }

    /// The nearest contenders ahead that should be watched and are not.
    fn unwatched(&self) -> Vec<Contender> {
        // Of many who were listed a while ago some have gone: the list that is due comes first.
        if self.unreadable || (self.stale && self.ahead.len() > WATCHED_AHEAD) {
            return Vec::new();
        }
        let nearest = self.ahead.iter().rev().take(WATCHED_AHEAD);
        let watched =
            |one: &&Contender| self.watched.iter().any(|watched| watched.contender == **one);
        nearest.filter(|one| !watched(one)).cloned().collect()
    }

    /// A contender ahead was changed or is gone.
    fn woken_by(&mut self, tenure: &Tenure, ahead: &Contender, event: &WatchedEvent) {
        if event.kind == EventType::NODE_DELETED {
            // Our own end may not have been told yet: what was missed is told in no order, and
            // neither are the nodes that a session takes with it when it ends.
            let sibling = tenure.queue.is_sibling(&ahead.name);
            self.stale |= event.missed || sibling || self.own.0.is_none();
            self.gone(ahead);
        }
    }

    /// A contender ahead is gone. Of those in front of the ones that are watched nothing is known
    /// since the last list, so while there are any, they are listed again.
    fn gone(&mut self, contender: &Contender) {
        if !self.ahead.contains(contender) {
            return;
        }
        let nearest = self.ahead.last() == Some(contender);
        self.ahead.retain(|other| other != contender);
        self.stale |= self.ahead.len() > 1 || (nearest && !self.ahead.is_empty());
        self.stale |= self.readers && contender.role == Role::Exclusive;
    }

    /// Waits for the first watch to fire. The own node's comes last: its end, if it happened
    /// before another's, is then there to be seen.
    fn poll_woken(
        &mut self,
        tenure: &Tenure,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Woken, ClientError>> {
        for index in 0..self.watched.len() {
            let polled = self.watched.get_mut(index).map(|one| one.watcher.poll_changed(cx));
            if let Some(Poll::Ready(event)) = polled {
                let watched = self.watched.swap_remove(index);
                return Poll::Ready(event.map(|event| Woken::Ahead(watched, event)));
            }
        }
        if let Some(Poll::Ready(event)) = self.folder.as_mut().map(|folder| folder.poll_changed(cx))
        {
            self.folder = None;
            return Poll::Ready(event.map(|_| Woken::Folder));
        }
        if let Poll::Ready(event) = self.own.poll_changed(cx) {
            self.own.0 = None;
            return Poll::Ready(event.map(Woken::Own));
        }
        self.again.poll(tenure.queue.client(), cx).map(|()| Ok(Woken::Again))
    }
}
