//! The work of a task: it acquires the lock, holds it and releases it, again and again, in all the
//! ways in which users do.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use zk_client::{Client, Op};
use zk_embedded::Zxid;
use zk_recipes::{Error, ErrorKind, Guard, LockState, NotReleased, Options, Owner, Release};

use super::Family;
use super::clock::now;
use super::journal::{COUNTER, Role};
use super::judge::{self, LockRequest};
use super::locks::{AnyGuard, AnyLock, Patience};
use super::planned::Pace;
use super::process::{End, Phase, Trial, Who};
use zk_inputs::Random;

/// A task.
pub(super) struct Job {
    pub(super) trial: Arc<Trial>,
    pub(super) who: Who,
    pub(super) family: Family,
    pub(super) client: Client,
    pub(super) end: Arc<End>,
    pub(super) lock: AnyLock,
    pub(super) owner: Owner,
    pub(super) passes: u32,
    /// How often the task has asked, and has left what it held, counted from the number of its
    /// process. With faults of a script these choose how it asks and leaves, so that each way comes
    /// soon.
    pub(super) asked: u64,
    pub(super) left: u64,
    pub(super) random: Random,
}

/// A guard that was acquired, and what the process had received before.
type Acquired = (AnyGuard, LockRequest, Option<Zxid>);

impl Job {
    /// Acquires the lock again and again until the session or the run is over.
    pub(super) async fn run(mut self) {
        let (trial, end, mut pace) =
            (Arc::clone(&self.trial), Arc::clone(&self.end), Pace::default());
        while self.client.state().ended().is_none() {
            if trial.phase() < Phase::Idle {
                end.or(pace.keep(&trial)).await;
            }
            match self.trial.phase() {
                Phase::Storm | Phase::Calm => self.begin().await,
                Phase::Idle => {
                    self.trial.progress.lock().unwrap().idle.insert(self.who.name);
                    let over = self.trial.changed.notified();
                    self.end.or(over).await;
                    self.trial.progress.lock().unwrap().idle.remove(&self.who.name);
                }
                Phase::Over => {
                    if let Some(remains) = self.lock.remains() {
                        self.violate(format!("nobody wants the lock, and is left: {remains}"));
                    }
                    break;
                }
            }
        }
        let who = self.who;
        self.trial.note(|| format!("{who} is done"));
    }

    /// Does once what tasks of this family do.
    async fn begin(&mut self) {
        match self.family {
            // These pause by themselves.
            Family::Requeue | Family::Counter | Family::Barrier => {}
            _ => tokio::time::sleep(self.random.millis(0..60)).await,
        }
        match self.family {
            Family::Requeue => self.requeue_again().await,
            Family::MultiLock => self.take_several().await,
            Family::Semaphore => self.use_permits().await,
            Family::Counter => self.count_up().await,
            Family::Election => self.lead().await,
            Family::Partitioner => self.share_work().await,
            Family::Barrier => self.use_barrier().await,
            Family::DoubleBarrier => self.take_part().await,
            Family::Group => self.be_member().await,
            _ => self.turn().await,
        }
    }

    pub(super) fn violate(&self, what: String) {
        self.trial.violate(format!("{}: {what}", self.who));
    }

    /// A request of this task for something that one has alone.
    pub(super) fn request(&self) -> LockRequest {
        LockRequest::of(self.who)
    }

    /// The number of polls after which a request is given up, in some percent of the cases, and
    /// only in the storm.
    pub(super) fn polls(&mut self, percent: u64, most: u64) -> u64 {
        let is_cut = self.is_storm() && self.random.percent(percent);
        if is_cut { self.random.within(1..most) } else { u64::MAX }
    }

    /// True if the task does all that users do, instead of taking one turn after the other.
    pub(super) fn is_storm(&self) -> bool {
        self.trial.phase() == Phase::Storm && !self.trial.is_planned
    }

    /// How long the next acquire waits, and after how many polls it is given up.
    pub(super) fn patience(&mut self) -> (Patience, u64) {
        let planned = self.trial.is_planned.then_some(3 * self.asked % 10);
        self.asked += 1;
        match planned.unwrap_or_else(|| self.random.within(0..10)) {
            0..2 if self.trial.phase() == Phase::Storm => {
                (Patience::Within(self.random.millis(0..300)), u64::MAX)
            }
            2..4 if self.trial.phase() == Phase::Storm => (Patience::Tries, u64::MAX),
            4 if self.is_storm() => (Patience::Waits, self.random.within(1..12)),
            _ => (Patience::Waits, u64::MAX),
        }
    }

    /// Asks for the lock once.
    async fn turn(&mut self) {
        let is_storm = self.is_storm();
        if is_storm && self.random.percent(3) {
            // The result does not matter.
            drop(self.lock.revoke().await);
        }
        // Another lock on the folder, which is held only for a limited time.
        let short = (is_storm && self.random.percent(8)).then(|| {
            let term = self.random.millis(1..1000);
            let options = Options::new().max_hold(term);
            AnyLock::new(self.family, &self.client, options)
        });
        let lock = short.as_ref().unwrap_or(&self.lock).clone();
        let Who { name: (process, _), life } = self.who;
        let request = LockRequest {
            who: self.who,
            role: lock.role(&mut self.random),
            level: Some((process, life)).filter(|_| lock.is_reentrant() && short.is_none()),
            passes: self.passes,
            has_term: short.is_some(),
            at: now(),
        };
        let (patience, polls) = self.patience();
        let who = self.who;
        self.trial.note(|| format!("{who} asks: {:?}, {patience:?}, {polls}", request.role));
        let trial = Arc::clone(&self.trial);
        let acquire = attend(&trial, who, lock.request(&self.owner, request.role, patience));
        match unless_given_up(&trial, who, polls, acquire).await {
            Some((Ok(Some(guard)), heard)) => self.held(&lock, (guard, request, Some(heard))).await,
            Some((Err(error), _)) => judge::failed(&trial, &request, &error),
            Some((Ok(None), _)) => {
                trial.count(patience.in_vain());
                trial.note(|| format!("{who} gets nothing"));
            }
            None => {
                trial.count("acquires cancelled");
                trial.note(|| format!("{who} has cancelled"));
            }
        }
    }

    /// Holds the lock, and everything that it is turned into, until it is released.
    async fn held(&mut self, lock: &AnyLock, acquired: Acquired) {
        let mut next = Some(acquired);
        while let Some((guard, request, heard)) = next.take() {
            let grant = judge::granted(&self.trial, &request, &self.client, &guard, heard);
            let mut guards = vec![guard];
            if lock.is_reentrant() {
                self.nest(lock, &request, &mut guards).await;
            }
            self.stay(&guards, grant).await;
            while guards.len() > 1 {
                let any = self.random.within(0..guards.len() as u64) as usize;
                let guard = guards.swap_remove(any);
                match self.random.percent(50) {
                    true => drop(guard),
                    false => drop(guard.release().await),
                }
                if self.random.percent(30) {
                    self.stay(&guards, grant).await;
                }
            }
            if let Some(guard) = guards.pop() {
                next = self.leave(guard, request, grant).await;
            }
        }
    }

    /// Acquires the lock again under the same owner.
    async fn nest(&mut self, lock: &AnyLock, request: &LockRequest, guards: &mut Vec<AnyGuard>) {
        for _ in 0..self.random.within(0..3) {
            if self.random.percent(30) {
                tokio::time::sleep(self.random.millis(0..20)).await;
            }
            let role = lock.role(&mut self.random);
            let patience = self.random.pick(&[Patience::Waits, Patience::Tries]);
            let nested = lock.request(&self.owner, role, patience.unwrap_or(Patience::Waits));
            let nested = for_polls(1, nested).await;
            let upgrades = (request.role, role) == (Role::Shared, Role::Exclusive);
            match nested {
                Some(Ok(Some(guard))) if !upgrades => {
                    let same = |outer: &AnyGuard| {
                        outer.token() == guard.token() && outer.node() == guard.node()
                    };
                    if !guards.iter().all(same) {
                        self.violate(format!("{guard:?} within {guards:?}"));
                    }
                    self.trial.count("nested");
                    guards.push(guard);
                }
                Some(Err(error)) if upgrades && error.kind() == ErrorKind::WouldDeadlock => {
                    self.trial.count("would deadlock");
                }
                // A nested guard would be lost too, whatever the outer guard reports.
                Some(Err(error))
                    if error.kind() == ErrorKind::Lost
                        && matches!(guards[0].state(), LockState::Lost(_)) =>
                {
                    self.trial.count("lost when taken again");
                }
                other => self.violate(format!("{role:?} within {:?}: {other:?}", request.role)),
            }
        }
    }

    /// Holds the lock for a while.
    async fn stay(&mut self, guards: &[AnyGuard], grant: usize) {
        let guard = &guards[self.random.within(0..guards.len() as u64) as usize];
        let time = match self.random.percent(90) || !self.is_storm() {
            true => self.random.millis(0..60),
            false => self.random.millis(0..1500),
        };
        let end = Arc::clone(&self.end);
        match self.random.within(0..8) {
            0 => {
                // Looks at the guard again and again.
                let until = now() + time;
                while judge::look(&self.trial, grant, guard) && now() < until {
                    let pause = tokio::time::sleep(self.random.millis(0..200));
                    end.or(pause).await;
                }
            }
            1 => {
                if guard.run(tokio::time::sleep(time)).await.is_err() {
                    judge::lost(&mut self.trial.world.lock().unwrap().journal, grant);
                }
            }
            2 => drop(tokio::time::timeout(time, guard.lost()).await),
            3 => self.until_asked_back(guard, time).await,
            4 => self.write(guard, grant).await,
            _ => end.or(tokio::time::sleep(time)).await,
        }
        if self.random.percent(70) {
            judge::look(&self.trial, grant, guard);
        }
    }

    /// Holds the lock until somebody asks for it, or the time is over.
    pub(super) async fn until_asked_back(&self, guard: &AnyGuard, time: Duration) {
        let revoked = tokio::time::timeout(time, guard.revoke_requested()).await;
        if matches!(revoked, Ok(Ok(()))) {
            self.trial.count("gave it back when asked");
        }
    }

    /// Writes to a node that no other holder may write meanwhile.
    pub(super) async fn write(&mut self, guard: &AnyGuard, grant: usize) {
        match guard.fenced(Op::set_data(COUNTER, b"", None)).await {
            Ok(_) => {
                self.trial.count("written under the lock");
                // The reply may be old by now.
                judge::look(&self.trial, grant, guard);
            }
            Err(error) if error.kind() == ErrorKind::Lost => {
                self.trial.count("not written any more");
                if judge::look(&self.trial, grant, guard) {
                    self.violate(format!("{guard:?} does not know what it said: {error}"));
                }
            }
            Err(error) => self.fails_to("write under the lock", &error),
        }
    }

    /// Releases the lock, or turns it into another one.
    async fn leave(
        &mut self,
        guard: AnyGuard,
        request: LockRequest,
        grant: usize,
    ) -> Option<Acquired> {
        let who = self.who;
        let (node, czxid) = judge::leaves(&self.trial, grant);
        let trial = Arc::clone(&self.trial);
        let planned = trial.is_planned.then_some(20 * self.left % 100);
        self.left += 1;
        let otherwise = planned.unwrap_or_else(|| self.random.within(0..100));
        let write = Op::set_data(COUNTER, b"", None);
        let refused = match guard {
            AnyGuard::Plain(guard)
                if self.family == Family::Ticket
                    && (guard.token().pass() == 0 || otherwise >= 80) =>
            {
                return self.resume(guard, request).await;
            }
            AnyGuard::Plain(guard) if otherwise < 15 => {
                let again = attend(&trial, who, guard.requeue());
                let polls = self.polls(20, 6);
                return match unless_given_up(&trial, who, polls, again).await {
                    Some((Ok(guard), heard)) => {
                        trial.count("queued up again");
                        Some((
                            AnyGuard::Plain(guard),
                            LockRequest { at: now(), ..request },
                            Some(heard),
                        ))
                    }
                    Some((Err(error), _)) => {
                        judge::failed(&trial, &request, &error);
                        None
                    }
                    None => {
                        trial.count("acquires cancelled");
                        None
                    }
                };
            }
            AnyGuard::Plain(guard) if otherwise < 30 => guard
                .release_with(write)
                .await
                .map_err(|NotReleased { guard, error, .. }| (guard.map(AnyGuard::Plain), error)),
            AnyGuard::Writes(guard) if otherwise < 15 => guard
                .release_with(write)
                .await
                .map_err(|NotReleased { guard, error, .. }| (guard.map(AnyGuard::Writes), error)),
            AnyGuard::Writes(guard) if otherwise < 50 => match guard.downgrade().await {
                Ok(guard) => {
                    trial.count("downgrades");
                    let request = LockRequest { role: Role::Shared, ..request };
                    return Some((AnyGuard::Reads(guard), request, None));
                }
                Err(NotReleased { guard, error, .. }) => Err((guard.map(AnyGuard::Writes), error)),
            },
            guard => {
                self.release(guard, &node, czxid).await;
                return None;
            }
        };
        match refused {
            Ok(_) => {
                trial.count("released with a write");
                self.is_gone(&node, czxid);
            }
            Err((guard, error)) => {
                trial.count(if guard.is_some() { "guards given back" } else { "guards kept" });
                self.fails_to("release with more", &error);
                if let Some(guard) = guard {
                    self.release(guard, &node, czxid).await;
                }
            }
        }
        None
    }

    /// Leaves the lock to whoever has its ticket, and resumes it by that.
    async fn resume(&self, guard: Guard, request: LockRequest) -> Option<Acquired> {
        let AnyLock::Plain(lock) = &self.lock else {
            return None;
        };
        let ticket = match guard.into_ticket() {
            Ok(ticket) => ticket,
            Err(error) => {
                judge::failed(&self.trial, &request, &error);
                return None;
            }
        };
        let begun = LockRequest { at: now(), ..request };
        loop {
            let resume = attend(&self.trial, self.who, lock.resume(&ticket));
            match unless_given_up(&self.trial, self.who, u64::MAX, resume).await {
                Some((Ok(guard), heard)) => {
                    self.trial.count("resumed by a ticket");
                    return Some((AnyGuard::Plain(guard), begun, Some(heard)));
                }
                Some((Err(error), _)) if !judge::passes(&error) => {
                    judge::failed(&self.trial, &request, &error);
                    return None;
                }
                // The ticket is still good.
                Some((Err(_), _)) | None => {}
            }
        }
    }

    pub(super) async fn release(&mut self, guard: AnyGuard, node: &str, czxid: i64) {
        let hands_on = matches!(guard, AnyGuard::Reentrant(_));
        match self.random.within(0..4) {
            0 => drop(guard),
            1 => drop(guard.release()),
            2 => drop(for_polls(1, guard.release()).await),
            _ => match guard.release().await {
                Ok(Release::Released) if hands_on => {}
                Ok(Release::Released) => self.is_gone(node, czxid),
                Ok(_) => self.trial.count("releases of what was lost"),
                Err(error) => self.fails_to("release", &error),
            },
        }
    }

    pub(super) fn is_gone(&self, node: &str, czxid: i64) {
        if self.trial.world.lock().unwrap().journal.is_alive(node, czxid) {
            self.violate(format!("{node} is there after its release"));
        }
    }

    /// Judges an error of an operation under the lock.
    fn fails_to(&self, what: &str, error: &Error) {
        match error.kind() {
            ErrorKind::Unconfirmed => self.trial.count("releases unconfirmed"),
            ErrorKind::Lost => {}
            _ if judge::passes(error) => {}
            _ if error.client().is_some_and(zk_client::Error::is_session_over) => {}
            _ => self.violate(format!("cannot {what}: {error}")),
        }
    }
}

/// Adds to the result what the process had received at the end of the poll before the last one.
/// What came between these two may have come too late to count.
pub(super) async fn attend<F: Future>(trial: &Trial, who: Who, future: F) -> (F::Output, Zxid) {
    let mut future = pin!(future);
    let mut heard = Zxid::default();
    poll_fn(|cx| {
        let polled = future.as_mut().poll(cx).map(|output| (output, heard));
        heard = trial.world.lock().unwrap().heard(who.name.0);
        polled
    })
    .await
}

/// Polls at most `polls` times, and until the process is called off. What is given up is dropped.
pub(super) async fn unless_given_up<F: Future>(
    trial: &Trial,
    who: Who,
    polls: u64,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(for_polls(polls, future));
    let mut called_off = pin!(trial.is_called_off(who.name.0));
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Pending => called_off.as_mut().poll(cx).map(|()| None),
        ended => ended,
    })
    .await
}

/// Polls at most `polls` times.
pub(super) async fn for_polls<F: Future>(polls: u64, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
