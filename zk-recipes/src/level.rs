//! The local level of a two-level lock, put into action: tasks that wait, and the node they share.
//!
//! The order of a release is what makes it safe: the node's delete is on its way before anybody of
//! this process can get in again, and the session keeps the order of its requests. There is no task
//! behind it: whoever is at the head of the local queue drives the acquire, and leaves it to the
//! next one when it goes. Who comes next is decided by the cohort.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use zk_client::Client;

use crate::cohort::{Bounds, Cohort, Entry, Outcome, OwnerId, Situation, Step, Ticket};
use crate::error::{Error, Fault};
use crate::hold::{Hold, Release};
use crate::layout::{Names, Role};
use crate::options::Options;
use crate::queue::{Patience, Queue};
use crate::tenure::Joining;

/// The longest that a process hands the lock on within itself, by default.
const PASS_TIME: Duration = Duration::from_millis(500);

/// An attempt to get the node, which whoever is at the head drives. `None` if it would not wait
/// and would have had to.
type Acquiring = Pin<Box<dyn Future<Output = Result<Option<Hold>, Error>> + Send>>;

/// The release of the node.
pub(crate) type Released = Pin<Box<dyn Future<Output = Result<Release, Error>> + Send>>;

/// The local level of one lock, shared by its clones.
#[derive(Clone)]
pub(crate) struct Level(Arc<Shared>);

struct Shared {
    queue: Arc<Queue>,
    local: Mutex<Local>,
}

struct Local {
    cohort: Cohort,
    acquiring: Option<Acquiring>,
    hold: Option<Hold>,
    wakers: BTreeMap<Ticket, Waker>,
}

/// A wait at the local level.
struct Waiting<'l> {
    level: &'l Level,
    /// Taken when its outcome is known.
    ticket: Option<Ticket>,
    owner: OwnerId,
    role: Role,
    patience: Patience,
    /// Whether what it drives was begun for it.
    drives: bool,
}

impl Level {
    pub(crate) fn new(
        client: &Client,
        path: &str,
        names: Names,
        options: Options,
    ) -> Result<Self, Error> {
        let default = PASS_TIME.min(client.session_timeout() / 4);
        let time = options.pass_time.unwrap_or(default);
        let bounds = Bounds { passes: options.passes, time };
        let queue = Queue::new(client, path, names, options)?;
        let (cohort, wakers) = (Cohort::new(bounds), BTreeMap::new());
        let local = Mutex::new(Local { cohort, acquiring: None, hold: None, wakers });
        Ok(Self(Arc::new(Shared { queue, local })))
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        self.0.local.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.0.queue
    }

    /// Waits until `owner` is let in.
    pub(crate) async fn enter(&self, owner: OwnerId, role: Role) -> Result<(Entry, Hold), Error> {
        match self.wait(owner, role, Patience::Waits).await? {
            Some(entered) => Ok(entered),
            // Who waits is told nothing else.
            None => Err(self.would_deadlock()),
        }
    }

    /// Has `owner` let in if that is possible at once.
    pub(crate) async fn try_enter(
        &self,
        owner: OwnerId,
        role: Role,
    ) -> Result<Option<(Entry, Hold)>, Error> {
        self.wait(owner, role, Patience::Tries).await
    }

    /// Lets `owner` out of one level. If the node is let go, that is its release.
    pub(crate) fn leave(&self, owner: OwnerId) -> Option<Released> {
        self.change(|local, situation| local.cohort.leave(owner, situation))
    }

    async fn wait(
        &self,
        owner: OwnerId,
        role: Role,
        patience: Patience,
    ) -> Result<Option<(Entry, Hold)>, Error> {
        let mut waiting = self.ask(owner, role, patience);
        poll_fn(|cx| waiting.poll(cx)).await
    }

    fn would_deadlock(&self) -> Error {
        Fault::WouldDeadlock(self.0.queue.folder().to_owned()).into()
    }

    /// Queues up locally, and in the folder if nobody of this process has.
    fn ask(&self, owner: OwnerId, role: Role, patience: Patience) -> Waiting<'_> {
        let (mut ticket, mut drives) = (None, false);
        self.change(|local, situation| {
            let (asked, mut step) = local.cohort.ask(owner, role, situation);
            ticket = Some(asked);
            drives = step.acquire.is_some();
            if patience == Patience::Tries
                && let Some(role) = step.acquire.take()
            {
                let joining = Joining::begin(&self.0.queue, role, patience);
                local.acquiring = Some(Box::pin(Hold::try_first(joining)));
            }
            step
        });
        Waiting { level: self, ticket, owner, role, patience, drives }
    }

    /// Changes the local level, does what follows from it, and wakes those whom it concerns.
    fn change(&self, change: impl FnOnce(&mut Local, Situation) -> Step) -> Option<Released> {
        let queue = &self.0.queue;
        let mut local = self.local();
        let situation = local.situation(queue);
        // The delete and the next create leave together, in this order.
        let released = queue.client().batch(|| {
            let step = change(&mut local, situation);
            let released = local.carry_out(queue, step);
            if let Some(hold) = local.hold.as_ref().filter(|_| local.cohort.head().is_some()) {
                // It is to be handed on, unless somebody deletes the node.
                hold.attend();
            }
            released
        });
        let woken = local.woken();
        drop(local);
        woken.into_iter().for_each(Waker::wake);
        released
    }
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Level")
            .field("folder", &self.0.queue.folder())
            .field("cohort", &self.local().cohort)
            .finish_non_exhaustive()
    }
}

impl Local {
    fn situation(&self, queue: &Queue) -> Situation {
        let own = self.hold.as_ref().map_or("", |hold| &hold.own().name);
        let known = queue.look(|mirror| mirror.has_strangers(own)).unwrap_or(true);
        // Whoever was ahead has most likely come again, and is told of only when the server and
        // this process's driver get to run: tasks that hand on among themselves may outrun both.
        let expected = self.hold.as_ref().is_some_and(Hold::has_waited);
        Situation {
            now: queue.client().clock().now(),
            is_sound: self.hold.as_ref().is_some_and(Hold::is_sound),
            has_strangers: known || expected,
        }
    }

    /// Does what the cohort wants done with the node.
    fn carry_out(&mut self, queue: &Arc<Queue>, step: Step) -> Option<Released> {
        let mut released = None;
        if step.let_go {
            self.acquiring = None;
            released = self.hold.take().map(|hold| Box::pin(hold.let_go()) as Released);
        }
        if let Some(role) = step.acquire {
            self.acquire(queue, role);
        }
        released
    }

    /// Queues up in the folder.
    fn acquire(&mut self, queue: &Arc<Queue>, role: Role) {
        let joining = Joining::begin(queue, role, Patience::Waits);
        self.acquiring = Some(Box::pin(async move { Hold::first(joining).await.map(Some) }));
    }

    /// Those who have something to hear, and who has something to drive.
    fn woken(&mut self) -> Vec<Waker> {
        let Self { cohort, wakers, acquiring, .. } = self;
        let driver = cohort.head().filter(|_| acquiring.is_some());
        let mut woken = Vec::new();
        wakers.retain(|ticket, waker| {
            let stays = Some(*ticket) != driver && !cohort.is_done(*ticket);
            if !stays {
                woken.push(waker.clone());
            }
            stays
        });
        woken
    }
}

impl Waiting<'_> {
    /// Ready with nothing if it would have to wait, and does not want to.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<(Entry, Hold)>, Error>> {
        let Some(ticket) = self.ticket else {
            return Poll::Ready(Ok(None));
        };
        let level = self.level;
        loop {
            let mut local = level.local();
            match local.cohort.take(ticket) {
                Some(Outcome::Entered(entry)) => {
                    let hold = local.hold.as_ref().map(|hold| hold.with_pass(entry.pass));
                    drop(local);
                    self.ticket = None;
                    // What it is let into may have been lost since.
                    let is_first = (entry.depth, entry.pass) == (1, 0);
                    let lost = hold.as_ref().filter(|_| !is_first).and_then(Hold::known_loss);
                    let (Some(hold), Some(loss)) = (&hold, lost) else {
                        return Poll::Ready(Ok(hold.map(|hold| (entry, hold))));
                    };
                    level.change(|local, situation| local.cohort.leave(self.owner, situation));
                    if entry.depth > 1 {
                        return Poll::Ready(Err(hold.lost_by(loss)));
                    }
                    *self = level.ask(self.owner, self.role, self.patience);
                    return self.poll(cx);
                }
                Some(Outcome::WouldDeadlock) => {
                    self.ticket = None;
                    return Poll::Ready(Err(level.would_deadlock()));
                }
                None => {}
            }
            let tries_elsewhere = self.patience == Patience::Tries && !self.drives;
            let is_head = local.cohort.head() == Some(ticket) && !tries_elsewhere;
            let Some(acquiring) = local.acquiring.as_mut().filter(|_| is_head) else {
                if self.patience == Patience::Tries {
                    return Poll::Ready(Ok(None));
                }
                local.wakers.insert(ticket, cx.waker().clone());
                return Poll::Pending;
            };
            let Poll::Ready(acquired) = acquiring.as_mut().poll(cx) else {
                local.wakers.insert(ticket, cx.waker().clone());
                return Poll::Pending;
            };
            local.acquiring = None;
            drop(local);
            match acquired {
                Ok(Some(hold)) => {
                    level.change(|local, situation| {
                        let is_sound = hold.is_sound();
                        local.hold = Some(hold);
                        local.cohort.granted(Situation { is_sound, ..situation })
                    });
                }
                // It was tried for somebody who has left.
                Ok(None) if self.patience == Patience::Waits => {
                    level.change(|local, _| local.cohort.again());
                }
                Ok(None) => {
                    self.ticket = None;
                    level.change(|local, _| local.cohort.failed());
                    return Poll::Ready(Ok(None));
                }
                Err(error) => {
                    self.ticket = None;
                    level.change(|local, _| local.cohort.failed());
                    return Poll::Ready(Err(error));
                }
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // The node's end is seen to by the client.
            drop(self.level.change(|local, situation| {
                local.wakers.remove(&ticket);
                local.cohort.cancel(ticket, situation)
            }));
        }
    }
}
