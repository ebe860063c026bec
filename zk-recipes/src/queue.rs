//! A lock's folder as one client sees it: how to get into the queue, and what is known of it.
//!
//! All attempts of one lock share this. The first one joins with a create and a list; from the
//! second on a recursive watch keeps a [`Mirror`] of the folder, and the create is enough. Whoever is
//! told of enough without it puts it away.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use tokio::sync::futures::Notified;
use tracing::{debug, warn};
use zk_client::{Children, Client, Error as ClientError, ErrorCode, Reply, WatchMode, WatchStream};

use crate::contender::Contender;
use crate::error::{Error, Fault};
use crate::feed::Feed;
use crate::folder::Folder;
use crate::layout::{Names, Role};
use crate::mirror::{Listing, Mirror, Turn};
use crate::news::News;
use crate::options::Options;
use crate::round::{Expected, Round};
use crate::succession::Succession;

/// From here on a folder's numbers are worth a warning: half of them are used up.
const MANY_SEQUENCES: i32 = 1 << 30;

/// One folder.
#[derive(Debug)]
pub(crate) struct Queue {
    client: Client,
    folder: Folder,
    names: Names,
    /// What the names of the contenders begin with that this client made.
    made_here: String,
    /// What the names of those begin with that its session may own: nothing if another client began
    /// the session, whose contenders have names of their own.
    siblings: String,
    options: Options,
    view: Mutex<View>,
    news: Arc<News>,
    /// Tells the news.
    waker: Waker,
}

/// What is known of the queue.
#[derive(Debug)]
struct View {
    feed: Feed,
    succession: Succession,
    round: Round,
    /// When the last list was answered.
    listed_at: Option<Instant>,
    /// Whether a warning was told of how many numbers are used up.
    warned: bool,
}

/// Whether somebody waits for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Waits,
    Tries,
}

/// What a place can be asked for with.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Whether the queue is to be followed from now on.
    pub(crate) arms: bool,
    /// Whether the mirror knows everybody.
    pub(crate) is_known: bool,
    /// Whether the number may well tell that nobody is ahead.
    pub(crate) goes_on: bool,
    pub(crate) old: Option<Old>,
    /// What the place will be like, if it takes that of the old one.
    pub(crate) expected: Option<Expected>,
}

/// The contender of ours that last came to be first. Its place may be replaced, once.
#[derive(Debug)]
pub(crate) struct Old {
    pub(crate) contender: Contender,
    /// The path of the one that replaces it, up to the digits.
    pub(crate) stem: String,
    /// Whether its number is a measure for that one's.
    pub(crate) measures: bool,
}

/// A stream that is on its way.
#[derive(Debug)]
pub(crate) struct Arming {
    queue: Arc<Queue>,
    reply: Option<Reply<WatchStream>>,
}

/// A list that is on its way, for the mirror to take over.
#[derive(Debug)]
pub(crate) struct Asked {
    queue: Arc<Queue>,
    /// Taken when it is answered.
    listing: Option<Listing>,
}

impl Queue {
    pub(crate) fn new(
        client: &Client,
        folder: &str,
        names: Names,
        options: Options,
    ) -> Result<Arc<Self>, Error> {
        zk_client::check_path(folder)?;
        let folder = Folder::new(folder);
        let made_here = names.siblings((client.unique() >> 64) as u64);
        let siblings = if client.is_resumed() { String::new() } else { made_here.clone() };
        let view = View {
            feed: Feed::new(Mirror::new(names.clone(), folder.clone(), siblings.clone())),
            succession: Succession::default(),
            round: Round::default(),
            listed_at: None,
            warned: false,
        };
        let news = Arc::<News>::default();
        Ok(Arc::new(Self {
            client: client.clone(),
            folder,
            names,
            made_here,
            siblings,
            options,
            view: Mutex::new(view),
            waker: Waker::from(Arc::clone(&news)),
            news,
        }))
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn folder(&self) -> &str {
        self.folder.path()
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Whether a contender may be of this client's session, whose end takes it together with ours.
    pub(crate) fn is_sibling(&self, name: &str) -> bool {
        name.starts_with(&self.siblings)
    }

    /// The path of a child.
    pub(crate) fn child(&self, name: &str) -> String {
        self.folder.child(name)
    }

    /// The name of the child at this path; `None` if that is none.
    pub(crate) fn name<'p>(&self, path: &'p str) -> Option<&'p str> {
        self.folder.name(path)
    }

    /// The path of a new contender, up to the digits.
    pub(crate) fn stem(&self, role: Role) -> String {
        self.child(&self.names.stem(role, self.client.unique()))
    }

    /// The paths of the folder's ancestors from the top and of the folder itself, without the root.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &str> {
        self.folder.ancestors()
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `f` change the view, and calls all who wait for news if the stream comes or goes. What a
    /// stream tells needs no call from here, whoever enters it: each pump leaves the same waker with
    /// the stream, which calls them all when the next event comes.
    fn change<R>(&self, f: impl FnOnce(&mut View) -> R) -> R {
        let mut view = self.view();
        let fed = view.feed.is_fed();
        let result = f(&mut view);
        let turned = fed != view.feed.is_fed();
        drop(view);
        if turned {
            self.news.tell();
        }
        result
    }

    /// Lets `f` look at the mirror, with all that was told of until now, if there is one.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&Mirror) -> R) -> Option<R> {
        self.change(|view| {
            self.pump(view);
            view.feed.mirror().map(f)
        })
    }

    /// Waits until there is more to see than when the future was first polled or enabled.
    pub(crate) fn news(&self) -> Notified<'_> {
        self.news.next()
    }

    /// Enters what was told of.
    fn pump(&self, view: &mut View) {
        view.feed.pump(self.folder(), &mut Context::from_waker(&self.waker));
    }

    /// What a place can be asked for with.
    pub(crate) fn plan(&self, role: Role, patience: Patience) -> Plan {
        self.change(|view| {
            self.pump(view);
            // Two who try again and again would each always find the other there.
            let old = view.succession.first().filter(|_| patience == Patience::Waits);
            let measures = view.succession.first_measures();
            let stem = |old: &Contender| self.stem_behind(old, role);
            let old = old.map(|old| Old { stem: stem(old), contender: old.clone(), measures });
            let follows = |expected: &&Expected| {
                let name = old.as_ref().and_then(|old| self.name(&old.stem));
                name.is_some_and(|stem| expected.own.name.starts_with(stem))
            };
            let expected = view.round.expected().filter(follows).cloned();
            let may_arm =
                self.options.mirror && expected.is_none() && !view.succession.is_settled();
            let arms = may_arm && view.feed.begin();
            let is_known = view.feed.mirror().is_some_and(Mirror::is_complete);
            let goes_on = view.succession.goes_on();
            Plan { arms, is_known, goes_on, old, expected }
        })
    }

    /// The path, up to the digits, of whoever takes the place of one of ours that came to be first.
    fn stem_behind(&self, old: &Contender, role: Role) -> String {
        let alone = (old.role, role) == (Role::Exclusive, Role::Exclusive);
        // One that was taken over from another process has its names.
        let follows = alone && old.name.starts_with(&self.made_here);
        let following = if follows { self.names.following(role, &old.name) } else { None };
        following.map_or_else(|| self.stem(role), |stem| self.child(&stem))
    }

    /// Notes that another place was asked for in the place of this one.
    pub(crate) fn replaced(&self, old: &Contender) {
        self.view().succession.replaced(old);
    }

    /// Asks for the stream that a [`Plan`] wants.
    pub(crate) fn arm(self: &Arc<Self>) -> Arming {
        let reply = self.client.watch(self.folder(), WatchMode::PersistentRecursive);
        // Lists that were asked for before tell nothing of who came before the watch.
        self.view().feed.doubt();
        Arming { queue: Arc::clone(self), reply: Some(reply) }
    }

    /// Notes who came to be first. Whoever goes on in a chain needs no mirror.
    pub(crate) fn is_first(&self, contender: &Contender) {
        self.change(|view| {
            view.succession.came_first(contender);
            if view.round.is_steady(contender) && view.feed.is_fed() {
                debug!(folder = self.folder(), "only the one ahead to follow");
                view.feed.cut();
            }
        });
    }

    /// Notes who was the nearest one ahead of a place when it was taken.
    pub(crate) fn turned(&self, own: &Contender, ahead: Option<&Contender>) {
        // The own end must be told, and whoever is not expected must be seen.
        if !(self.options.has_acl() || self.options.strict_foreign) {
            let View { round, succession, .. } = &mut *self.view();
            round.turned(&self.names, own, ahead.filter(|_| succession.measures(own)));
        }
    }

    /// Notes that a turn was not as expected.
    pub(crate) fn broken(&self) {
        debug!(folder = self.folder(), "the chain is broken");
        self.view().round.broken();
    }

    /// Notes that somebody wants to be told of a holder's node.
    pub(crate) fn heed(&self) {
        self.view().succession.heed();
    }

    /// Notes whether somebody was first by its number alone. Whoever goes on like this needs no
    /// mirror.
    pub(crate) fn succeeded(&self, by_number: bool) {
        self.change(|view| {
            view.succession.taken(by_number);
            if view.succession.is_settled() && view.feed.is_fed() {
                debug!(folder = self.folder(), "nobody else to follow");
                view.feed.cut();
            }
        });
    }

    /// A list is about to be asked for.
    pub(crate) fn asked(self: &Arc<Self>) -> Asked {
        let listing = self.view().feed.listing();
        Asked { queue: Arc::clone(self), listing: Some(listing) }
    }

    /// Asks for a list.
    pub(crate) fn ask(self: &Arc<Self>) -> (Asked, Reply<Children>) {
        (self.asked(), self.client.get_children(self.folder()))
    }

    /// What the mirror says of the turn of `own`, whose create was answered just now. It was
    /// `listed` if a list behind that was answered, too.
    pub(crate) fn first_turn(&self, own: &Contender, listed: bool) -> Turn {
        let turn = self.look(|mirror| self.turn(mirror, own)).unwrap_or(Turn::Unknown);
        match turn {
            // Its end was told of since: a list put it in, whatever the watch tells.
            Turn::Absent if listed => {}
            Turn::Absent => {
                debug!(folder = self.folder(), "the watch on the folder tells nothing");
                self.change(|view| view.feed.found_useless());
            }
            Turn::First | Turn::Waiting { .. } => self.view().feed.found_useful(),
            Turn::Unknown => {}
        }
        turn
    }

    /// Whether nobody has read the queue for a session timeout: who was followed may have hidden and
    /// gone since, which nothing tells.
    pub(crate) fn is_outdated(&self) -> bool {
        let (now, timeout) = (self.client.clock().now(), self.client.session_timeout());
        let listed_at = self.view().listed_at;
        listed_at.is_none_or(|at| now.saturating_duration_since(at) >= timeout)
    }

    /// The same of whoever waits already. A contender of another layout is for a list to report.
    pub(crate) fn turn(&self, mirror: &Mirror, own: &Contender) -> Turn {
        if self.options.strict_foreign && mirror.others().any(|name| self.names.is_foreign(name)) {
            return Turn::Unknown;
        }
        mirror.turn(own)
    }

    /// Notes that somebody got a place. Says whether the mirror has told of it.
    pub(crate) fn seated(&self, own: &Contender) -> bool {
        let sequence = own.sequence;
        self.change(|view| {
            self.pump(view);
            view.feed.seated();
            if sequence >= MANY_SEQUENCES && !view.warned {
                view.warned = true;
                let folder = self.folder();
                warn!(folder, sequence, "half of the folder's sequence numbers are used up");
            }
            view.feed.mirror().is_some_and(|mirror| mirror.tells_of(&own.name) == Some(true))
        })
    }

    /// An error if there is a child that another layout would count, and that is not wanted.
    pub(crate) fn check_foreign<'n>(
        &self,
        children: impl IntoIterator<Item = &'n str>,
    ) -> Result<(), Error> {
        if !self.options.strict_foreign {
            return Ok(());
        }
        match children.into_iter().find(|name| self.names.is_foreign(name)) {
            Some(name) => Err(Fault::ForeignContender(self.child(name)).into()),
            None => Ok(()),
        }
    }
}

impl Arming {
    /// Has the mirror fed from now on, if the server can do that.
    pub(crate) async fn finish(mut self) {
        let Some(reply) = self.reply.take() else {
            return;
        };
        let stream = reply.await;
        self.queue.change(|view| view.feed.armed(stream));
    }
}

impl Drop for Arming {
    fn drop(&mut self) {
        self.queue.view().feed.end();
    }
}

impl Asked {
    /// Hands the list to the mirror, behind all that was told of ahead of it.
    pub(crate) fn answered(mut self, children: &Children) {
        let (queue, listing) = (&self.queue, self.listing.take());
        let parse = |name| queue.names.parse(name).map(|(role, sequence)| (sequence, role, name));
        let contenders = children.names.iter().filter_map(parse).collect::<Vec<_>>();
        let listed = contenders.len();
        let last = contenders.into_iter().max().map(|(sequence, role, name): (_, _, &str)| {
            let name = name.to_owned();
            Contender { sequence, role, name }
        });
        queue.change(|view| {
            queue.pump(view);
            if let Some(listing) = listing {
                view.feed.listed(&listing, &children.names, listed);
            }
            view.succession.listed(last);
            view.listed_at = Some(queue.client.clock().now());
        });
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.listing.take().is_some() {
            self.queue.view().feed.not_listed();
        }
    }
}

/// Whether a failure says nothing of what was asked: the connection broke, or the server shed it.
pub(crate) fn passes(error: &ClientError) -> bool {
    error.is_connection_loss() || error.code() == Some(ErrorCode::THROTTLED_OP)
}
