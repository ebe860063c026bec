//! The first moment of what a wait has brought, over all recipes: it lasts although replies are
//! late, and the first question hears what has happened meanwhile. And what a wait reports when its
//! own client is closed.

use std::io;
use std::ops::Deref;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex, split};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zk_client::{Client, Connecting, Connector, ErrorCode, Host, Transport};
use zk_embedded::{Fault, OpCode};
use zk_recipes::{
    DoubleBarrier, Election, Error, ErrorKind, Group, Hold, Lock, LockState, Loss, MultiGuard,
    MultiLock, Owner, Partitioner, ReentrantLock, RwLock, Semaphore, Shard,
};
use zk_test_support::explore::settle;
use zk_test_support::fault::Way;
use zk_test_support::locks::{LOCK, TIMEOUT, World};

/// What can be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Lock,
    Read,
    Write,
    Multi,
    Reentrant,
    Semaphore,
    Election,
    Group,
    Round,
    Shard,
}

const KINDS: [Kind; 10] = [
    Kind::Lock,
    Kind::Read,
    Kind::Write,
    Kind::Multi,
    Kind::Reentrant,
    Kind::Semaphore,
    Kind::Election,
    Kind::Group,
    Kind::Round,
    Kind::Shard,
];

/// Something that is held, as long as this is not dropped.
struct Held {
    /// Its state, and what remains of it.
    look: Box<dyn Fn() -> (LockState, Duration) + Send>,
    /// The node of it, if the wait leaves a watch there.
    watched: Option<String>,
}

impl Held {
    fn one(guard: impl Deref<Target = Hold> + Send + 'static) -> Self {
        let watched = Some(guard.node().to_owned());
        Self { look: Box::new(move || (guard.state(), guard.remaining())), watched }
    }

    fn several(guard: impl Deref<Target = MultiGuard> + Send + 'static) -> Self {
        Self { look: Box::new(move || (guard.state(), guard.remaining())), watched: None }
    }

    fn state(&self) -> LockState {
        (self.look)().0
    }
}

/// A shard, and the member that works on it.
struct Work(Shard, JoinHandle<Error>);

impl Deref for Work {
    type Target = Hold;

    fn deref(&self) -> &Hold {
        &self.0
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.1.abort();
    }
}

impl Kind {
    /// Waits until this is held.
    async fn take(self, client: Client) -> Result<Held, Error> {
        let client = &client;
        Ok(match self {
            Self::Lock => Held::one(Lock::new(client, LOCK)?.acquire().await?),
            Self::Read => Held::one(RwLock::new(client, LOCK)?.read().await?),
            Self::Write => Held::one(RwLock::new(client, LOCK)?.write().await?),
            Self::Multi => {
                let guard = MultiLock::new(client, [LOCK, "/locks/two"])?.acquire().await?;
                let watched = guard.locks().first().map(|hold| hold.node().to_owned());
                Held { watched, ..Held::several(Box::new(guard)) }
            }
            Self::Reentrant => {
                Held::one(ReentrantLock::new(client, LOCK)?.acquire(&Owner::new()).await?)
            }
            // The turn was watched, which is over, and not the permit.
            Self::Semaphore => Held::several(Semaphore::new(client, LOCK, 1)?.acquire().await?),
            Self::Election => Held::one(Election::new(client, LOCK)?.campaign().await?),
            Self::Group => Held::one(Group::new(client, LOCK)?.join("one", "").await?),
            Self::Round => Held::one(DoubleBarrier::new(client, LOCK, 2)?.enter().await?),
            Self::Shard => {
                let partitioner = Partitioner::new(client, LOCK, ["one"])?.delay(Duration::ZERO);
                let (begun, mut shards) = mpsc::unbounded_channel();
                let mut running = tokio::spawn(async move {
                    let work = |shard| {
                        begun.send(shard).ok();
                        std::future::pending::<()>()
                    };
                    let Err(error) = partitioner.run("one", work).await;
                    error
                });
                tokio::select! {
                    Some(shard) = shards.recv() => Held::one(Work(shard, running)),
                    error = &mut running => return Err(error.unwrap()),
                }
            }
        })
    }

    /// Makes others wait for what this takes, until it is dropped.
    async fn block(self, client: Client) -> Option<Held> {
        let held = match self {
            // The second party lets the first one in.
            Self::Round => return None,
            Self::Read => Self::Write.take(client).await,
            Self::Shard => {
                let folder = Partitioner::new(&client, LOCK, ["one"]).unwrap();
                let path = format!("{}/shards/one", folder.path());
                let lock = Lock::new(&client, &path).unwrap();
                return Some(Held::one(lock.acquire().await.unwrap()));
            }
            kind => kind.take(client).await,
        };
        Some(held.unwrap())
    }

    /// Begins to wait in a task.
    fn waits(self, client: &Client) -> JoinHandle<Result<Held, Error>> {
        tokio::spawn(self.take(client.clone()))
    }
}

/// A connector over another one whose bytes arrive late, all by the same time.
#[derive(Debug)]
struct Late(Way, Duration);

impl Connector for Late {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            let (server, (near, far)) = (self.0.connect(host).await?, duplex(1 << 20));
            let ((from_server, to_server), (from_client, to_client)) = (split(server), split(far));
            tokio::spawn(carry(from_server, to_client, self.1));
            tokio::spawn(carry(from_client, to_server, self.1));
            Ok(Box::new(near) as Box<dyn Transport>)
        })
    }
}

/// Carries bytes from one end to the other, each of them late by `delay`.
async fn carry(
    mut from: impl AsyncRead + Unpin + Send + 'static,
    mut to: impl AsyncWrite + Unpin,
    delay: Duration,
) -> io::Result<()> {
    let (sent, mut arriving) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(len @ 1..) = from.read(&mut buffer).await {
            let bytes = buffer.iter().take(len).copied().collect::<Vec<_>>();
            sent.send((Box::pin(sleep(delay)), bytes)).ok();
        }
    });
    while let Some((arrival, bytes)) = arriving.recv().await {
        arrival.await;
        to.write_all(&bytes).await?;
    }
    to.shutdown().await
}

/// A client whose requests are answered late by this time.
async fn late(world: &World, delay: Duration) -> Client {
    let connector = Late(Way::new(world.server.connector()), delay / 2);
    world.builder().connector(connector).connect("zk").await.unwrap()
}

/// Waits for `kind` as a client whose replies are late, until the others give way after some time.
/// The hold must be sure from then on, and for long.
async fn lasts(kind: Kind, wait: Duration, delay: Duration) {
    let what = format!("{kind:?} after {wait:?}, late by {delay:?}");
    let world = World::new();
    let (holder, waiter) = (world.client().await, late(&world, delay).await);
    let held = kind.block(holder.clone()).await;
    let waiting = kind.waits(&waiter);
    sleep(wait).await;
    drop(held);
    let other = (kind == Kind::Round).then(|| kind.waits(&holder));
    let held = waiting.await.unwrap().unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(held.state(), LockState::Held, "{what}");
    // A member of a partitioner has a lease already, and its next proof is on the way.
    let is_sure = delay < TIMEOUT / 7 && kind != Kind::Shard;
    let least = if is_sure { TIMEOUT * 3 / 10 } else { Duration::ZERO };
    let (_, remaining) = (held.look)();
    assert!(remaining >= least, "{what}: {remaining:?}");
    for _ in 0..40 {
        sleep(TIMEOUT / 10).await;
        assert_eq!(held.state(), LockState::Held, "{what}");
    }
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn what_a_wait_has_brought_lasts_however_long_it_was_and_however_late_replies_are() {
    for kind in KINDS {
        for delay in [0, 5, 20, 30] {
            for wait in [0, 2, 6, 10, 14, 18, 19, 20, 24] {
                lasts(kind, TIMEOUT * wait / 20, TIMEOUT * delay / 100).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_knows_that_the_node_is_gone_if_the_wait_has_left_a_watch() {
    for kind in KINDS {
        let world = World::new();
        let (holder, waiter) = (world.client().await, world.client().await);
        let held = kind.block(holder.clone()).await;
        let waiting = kind.waits(&waiter);
        sleep(TIMEOUT / 10).await;
        drop(held);
        let other = (kind == Kind::Round).then(|| kind.waits(&holder));
        let held = waiting.await.unwrap().unwrap();
        if let Some(node) = &held.watched {
            world.client().await.delete(node, None).await.unwrap();
            settle().await;
            // The partitioner has heard of it as well, and has released the shard.
            let loss = if kind == Kind::Shard { Loss::Released } else { Loss::NodeDeleted };
            assert_eq!(held.state(), LockState::Lost(loss), "{kind:?}");
        }
        drop(other);
    }
}

/// The create of a free lock is answered so late that the grant needs a proof. Meanwhile somebody
/// deletes the node, and the server is too busy to have it read.
#[tokio::test(start_paused = true)]
async fn a_grant_waits_until_its_node_could_be_read() {
    let world = World::new();
    world.make_folder().await;
    let lock = world.lock().await;
    world.server.inject(Fault::delay(TIMEOUT * 6 / 10).op(OpCode::CREATE2));
    for _ in 0..8 {
        world.server.inject(Fault::refuse(ErrorCode::THROTTLED_OP).op(OpCode::GET_DATA));
    }
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    sleep(TIMEOUT / 10).await;
    let queue = world.queue();
    let [node] = &queue[..] else { panic!("{queue:?}") };
    world.client().await.delete(&format!("{LOCK}/{node}"), None).await.unwrap();
    let acquired = timeout(5 * TIMEOUT, acquiring).await.unwrap().unwrap();
    assert_eq!(acquired.unwrap_err().kind(), ErrorKind::NodeVanished);
}

#[tokio::test(start_paused = true)]
async fn the_own_close_is_what_a_wait_reports() {
    for kind in KINDS {
        let world = World::new();
        let (holder, waiter) = (world.client().await, world.client().await);
        let held = kind.block(holder).await;
        let waiting = kind.waits(&waiter);
        sleep(TIMEOUT / 10).await;
        waiter.close().await;
        let error = waiting.await.unwrap().err().expect("it was closed");
        assert_ne!(error.kind(), ErrorKind::NodeVanished, "{kind:?}: {error}");
        assert!(error.is_session_over() && !error.is_transient(), "{kind:?}: {error}");
        drop(held);
    }
}
