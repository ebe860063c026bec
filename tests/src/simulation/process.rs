//! A process of the simulation: a real client and a few tasks that take turns on one lock, again
//! and again, in all the ways in which users do. When its session is over it begins anew.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::watch::Receiver;
use tokio::task::JoinHandle;
use zk_client::{Client, ErrorCode, SessionState};
use zk_embedded::Zxid;
use zk_recipes::{Error, ErrorKind, Guard, Lock, Options, Release};

use super::gate::Gate;
use super::journal::{FOLDER, Grant};
use super::network::{Party, Shared, now};
use super::random::Random;
use super::wire::Dialer;

/// The shortest and the longest session timeout that processes ask for, in milliseconds.
pub(super) const TIMEOUTS: (u64, u64) = (600, 3000);

/// How a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Everything goes wrong.
    Storm,
    /// Nothing does any more; everybody must get the lock.
    Calm,
    /// Nobody wants the lock any more.
    Idle,
    /// Everybody leaves.
    Over,
}

/// A task, by its process and its number there.
pub(super) type Name = (usize, usize);

/// What processes and whoever torments them share.
pub(super) struct Stage {
    pub(super) world: Shared,
    phase: Mutex<Phase>,
    /// The phase has changed. It wakes in order, which tokio's watch does not.
    changed: Notify,
    pub(super) cast: Mutex<Cast>,
}

#[derive(Default)]
pub(super) struct Cast {
    /// Of each process as it lives now.
    pub(super) gates: BTreeMap<usize, Arc<Gate>>,
    /// How often each task got the lock in the calm.
    pub(super) served: BTreeMap<Name, u32>,
    /// Who has stopped to want the lock.
    pub(super) idle: BTreeSet<Name>,
    /// From when on a lock that is asked for must be got.
    pub(super) reliable: Option<Instant>,
}

impl Stage {
    pub(super) fn new(world: Shared) -> Arc<Self> {
        let (phase, cast) = (Mutex::new(Phase::Storm), Mutex::new(Cast::default()));
        Arc::new(Self { world, phase, changed: Notify::new(), cast })
    }

    fn phase(&self) -> Phase {
        *self.phase.lock().unwrap()
    }

    pub(super) fn begin(&self, phase: Phase) {
        self.note(|| format!("{phase:?}"));
        *self.phase.lock().unwrap() = phase;
        self.changed.notify_waiters();
    }

    fn note(&self, line: impl FnOnce() -> String) {
        self.world.lock().unwrap().journal.note(line);
    }

    fn count(&self, what: &'static str) {
        self.world.lock().unwrap().journal.count(what);
    }
}

/// A process with all its lives.
pub(super) async fn live(stage: Arc<Stage>, process: usize, tasks: usize, mut random: Random) {
    let mut seed = random.next();
    let mut life = 0;
    while stage.phase() != Phase::Over {
        if life > 0 {
            tokio::time::sleep(random.millis(0..60)).await;
            // A process that makes the same names as its predecessor, whose session may live on.
            match random.percent(70) {
                true => stage.count("born with the names of the last life"),
                false => seed = random.next(),
            }
        }
        life += 1;
        let dialer = Dialer { world: Arc::clone(&stage.world), party: Party::Process(process) };
        let (client, driver) = Client::builder()
            .seed(seed)
            .session_timeout(random.millis(TIMEOUTS.0..TIMEOUTS.1))
            .connector(dialer)
            .split("zk:2181")
            .unwrap();
        stage.world.lock().unwrap().forget(process);
        stage.note(|| format!("process {process} begins life {life} with seed {seed:x}"));
        let gate = Gate::new();
        stage.cast.lock().unwrap().gates.insert(process, Arc::clone(&gate));
        let driver = tokio::spawn(gate.guard(driver));
        let end = Arc::new(End::default());
        tokio::spawn(gate.guard(Arc::clone(&end).watch(client.states())));
        let works = (0..tasks).map(|task| {
            let who = Who { name: (process, task), life };
            let end = Arc::clone(&end);
            let work = work(Arc::clone(&stage), who, client.clone(), end, random.fork());
            tokio::spawn(gate.guard(work))
        });
        for work in works.collect::<Vec<JoinHandle<_>>>() {
            work.await.unwrap();
        }
        if random.percent(50) {
            client.close().await;
        }
        drop(client);
        driver.await.unwrap();
        stage.note(|| format!("process {process} ends life {life}"));
    }
}

/// The end of a session, told to all tasks of its process in order.
#[derive(Default)]
struct End(Notify);

impl End {
    async fn watch(self: Arc<Self>, mut states: Receiver<SessionState>) {
        drop(states.wait_for(|state| state.ended().is_some()).await);
        self.0.notify_waiters();
    }

    /// Waits for `future`, or for the end of the session.
    async fn or(&self, future: impl Future<Output = ()>) {
        let (mut ended, mut future) = (pin!(self.0.notified()), pin!(future));
        poll_fn(|cx| match ended.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => future.as_mut().poll(cx),
        })
        .await;
    }
}

#[derive(Clone, Copy)]
struct Who {
    name: Name,
    life: u32,
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name: (process, task), life } = self;
        write!(f, "{process}.{task} in life {life}")
    }
}

/// How an acquire is called.
#[derive(Clone, Copy, Debug)]
enum Call {
    Await,
    Timeout(Duration),
    /// Dropped when it has been polled so often.
    Polls(u64),
}

/// Takes the lock again and again until the session or the run is over.
async fn work(stage: Arc<Stage>, who: Who, client: Client, end: Arc<End>, mut random: Random) {
    let options = Options::new().mirror(random.percent(70));
    let lock = Lock::with_options(&client, FOLDER, options).unwrap();
    while client.state().ended().is_none() {
        match stage.phase() {
            Phase::Storm | Phase::Calm => {}
            Phase::Idle => {
                stage.cast.lock().unwrap().idle.insert(who.name);
                let over = stage.changed.notified();
                end.or(over).await;
                stage.cast.lock().unwrap().idle.remove(&who.name);
                continue;
            }
            Phase::Over => break,
        }
        tokio::time::sleep(random.millis(0..60)).await;
        let call = match random.within(0..10) {
            _ if stage.phase() != Phase::Storm => Call::Await,
            0..2 => Call::Timeout(random.millis(0..300)),
            2 => Call::Polls(random.within(1..12)),
            _ => Call::Await,
        };
        let asked = now();
        stage.note(|| format!("{who} asks: {call:?}"));
        let acquire = attend(&stage, who, lock.acquire());
        let acquired = match call {
            Call::Await => Some(acquire.await),
            Call::Timeout(after) => tokio::time::timeout(after, acquire).await.ok(),
            Call::Polls(polls) => for_polls(polls, acquire).await,
        };
        match acquired {
            None => {
                stage.count("acquires cancelled");
                stage.note(|| format!("{who} has cancelled"));
            }
            Some((Err(error), _)) => failed(&stage, who, asked, &error),
            Some((Ok(guard), heard)) => {
                let grant = granted(&stage, who, &client, &guard, heard);
                hold(&stage, who, &client, &end, guard, grant, &mut random).await;
            }
        }
    }
    stage.note(|| format!("{who} is done"));
}

/// Holds the lock for a while and lets go of it.
async fn hold(
    stage: &Stage,
    who: Who,
    client: &Client,
    end: &End,
    guard: Guard,
    grant: usize,
    random: &mut Random,
) {
    let (node, czxid) = (guard.node().to_owned(), guard.token().czxid());
    let held = match random.percent(90) {
        true => random.millis(0..60),
        false => random.millis(0..1500),
    };
    end.or(tokio::time::sleep(held)).await;
    {
        let mut world = stage.world.lock().unwrap();
        world.journal.grants[grant].is_believed = false;
        let state = client.state();
        world.journal.note(|| format!("{who} lets go of {node}, {state:?}"));
    }
    match random.within(0..4) {
        0 => drop(guard),
        1 => drop(guard.release()),
        2 => drop(for_polls(1, guard.release()).await),
        _ => match guard.release().await {
            Ok(Release::Released) => {
                let mut world = stage.world.lock().unwrap();
                if world.journal.is_alive(&node, czxid) {
                    world.journal.violate(format!("{node} is there after its release"));
                }
            }
            Ok(_) => stage.count("releases of what was lost"),
            Err(error) if error.kind() == ErrorKind::Unconfirmed => {
                stage.count("releases unconfirmed");
            }
            Err(error) if passes(&error) => {}
            Err(error) => {
                let what = format!("{who} cannot release {node}: {error}");
                stage.world.lock().unwrap().journal.violate(what);
            }
        },
    }
}

/// Writes the grant down, and looks whether somebody else has the lock at this very moment.
///
/// The process had heard of everything up to `heard` when it last looked around before.
fn granted(stage: &Stage, who: Who, client: &Client, guard: &Guard, heard: Zxid) -> usize {
    if stage.phase() != Phase::Storm {
        *stage.cast.lock().unwrap().served.entry(who.name).or_default() += 1;
    }
    let mut world = stage.world.lock().unwrap();
    let node = guard.node().to_owned();
    let grant = Grant {
        who: who.to_string(),
        process: who.name.0,
        session: client.session().unwrap().id,
        czxid: guard.token().czxid(),
        zxid: world.core.last_zxid(),
        is_there: world.journal.is_alive(&node, guard.token().czxid()),
        is_believed: true,
        node,
    };
    let Grant { node, czxid, is_there, .. } = &grant;
    world.journal.note(|| format!("{who} HOLDS {node}, token {czxid:#x}, there: {is_there}"));
    world.journal.count("grants");
    if *is_there {
        let other =
            world.journal.grants.iter().rev().find(|other| {
                other.is_believed && world.journal.is_alive(&other.node, other.czxid)
            });
        let two = other
            .map(|other| format!("{who} holds {node} while {} holds {}", other.who, other.node));
        if let Some(two) = two {
            world.journal.violate(two);
        }
    } else {
        world.journal.count("grants told too late");
        if let Some(end) = world.journal.end(*czxid).filter(|end| *end <= heard) {
            let what = format!("{who} holds {node}, gone at {end}, having heard of {heard}");
            world.journal.violate(what);
        }
    }
    world.journal.grants.push(grant);
    world.journal.grants.len() - 1
}

/// Judges why there is no lock.
fn failed(stage: &Stage, who: Who, asked: Instant, error: &Error) {
    let reliable = stage.cast.lock().unwrap().reliable.is_some_and(|from| asked >= from);
    let mut world = stage.world.lock().unwrap();
    world.journal.note(|| format!("{who} fails: {error}"));
    let what = match error.kind() {
        ErrorKind::NodeVanished => "acquires whose node vanished",
        ErrorKind::Lost => "acquires lost when they were due",
        ErrorKind::Client if error.client().is_some_and(zk_client::Error::is_session_over) => {
            "acquires ended with the session"
        }
        _ if passes(error) => "acquires that connections broke",
        _ => {
            return world.journal.violate(format!("{who} fails for no good reason: {error}"));
        }
    };
    world.journal.count(what);
    if reliable {
        world.journal.violate(format!("{who} fails though nothing goes wrong: {error}"));
    }
}

/// Whether an error is a fault of the storm's.
fn passes(error: &Error) -> bool {
    error.client().is_some_and(|error| {
        error.is_connection_loss() || error.code() == Some(ErrorCode::THROTTLED_OP)
    })
}

/// Tells with the result what the process had heard of at the end of the poll before the last: what
/// came between the two may come too late to count.
async fn attend<F: Future>(stage: &Stage, who: Who, future: F) -> (F::Output, Zxid) {
    let mut future = pin!(future);
    let mut heard = Zxid::default();
    poll_fn(|cx| {
        let polled = future.as_mut().poll(cx).map(|output| (output, heard));
        heard = stage.world.lock().unwrap().heard(who.name.0);
        polled
    })
    .await
}

/// Polls at most so often.
async fn for_polls<F: Future>(polls: u64, future: F) -> Option<F::Output> {
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
