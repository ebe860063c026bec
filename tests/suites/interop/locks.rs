//! Our locks in one queue with kazoo's and Curator's, and the results of two queues in one folder.
//!
//! The locks protect a number in a file. Each writer adds to it, and each reader checks that it
//! does not change. A seed decides the order of the turns.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::process::Command;
use zk_client::{Client, CreateOptions};
use zk_recipes::{ErrorKind, Layout, Lock, MultiLock, Options, Owner, ReentrantLock, RwLock};
use zk_test_support::contender::{self, Contender};
use zk_test_support::foreign::{Curator, Program};
use zk_test_support::server::Standalone;

/// Turns of each contender.
pub(crate) const TURNS: u32 = 150;

/// The turns of each contender that takes several locks at once, a multiple of four (see
/// [`chosen`]), and how often the contenders start again: a foreign program may not run for long.
fn multi_turns() -> (u32, u32) {
    if env::var_os("ZK_SOAK").is_some() { (500, 4) } else { (200, 1) }
}

/// A number in a file that only a lock protects.
pub(crate) struct Counter {
    _folder: TempDir,
    file: PathBuf,
}

impl Counter {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("number");
        std::fs::write(&file, "0")?;
        Ok(Self { _folder: folder, file })
    }

    pub(crate) fn path(&self) -> Result<&str> {
        self.file.to_str().context("path")
    }

    pub(crate) fn value(&self) -> Result<u32> {
        Ok(std::fs::read_to_string(&self.file)?.trim().parse()?)
    }

    /// Adds one, and lets other tasks run between the read and the write.
    async fn add(&self) -> Result<()> {
        let value = self.value()?;
        tokio::task::yield_now().await;
        Ok(std::fs::write(&self.file, (value + 1).to_string())?)
    }
}

/// The locks that are taken in a turn: all three, or all but one.
fn chosen(turn: u32) -> impl DoubleEndedIterator<Item = usize> {
    (0..3).filter(move |index| *index as u32 != turn % 4)
}

/// Starts our contenders of these kinds, one process for each.
pub(crate) fn ours(
    server: &Standalone,
    path: &str,
    counter: &Counter,
    kinds: &[&str],
) -> Result<Vec<Contender>> {
    let mut all = Vec::new();
    for (seed, kind) in kinds.iter().enumerate() {
        let mut arguments = vec![
            format!("servers={}", server.address()),
            format!("path={path}"),
            format!("counter={}", counter.path()?),
            format!("turns={TURNS}"),
            format!("seed={seed}"),
        ];
        arguments.extend(kind.split(' ').map(str::to_owned));
        all.push(contender::start(env!("CARGO_BIN_EXE_contender"), &arguments)?);
    }
    Ok(all)
}

pub(crate) async fn done(ours: Vec<Contender>) -> Result<()> {
    for contender in ours {
        contender.done().await?;
    }
    Ok(())
}

/// Starts kazoo's locks with these arguments.
pub(crate) fn kazoo(server: &Standalone, arguments: &[&str]) -> Result<Program> {
    let python = env::var_os("ZK_INTEROP_PYTHON")
        .context("ZK_INTEROP_PYTHON is not set; tests/run installs kazoo and sets it")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/kazoo_locks.py");
    let mut command = Command::new(python);
    command.arg(script).arg(server.address()).args(arguments);
    Program::start(command)
}

fn strict(layout: Layout) -> Options {
    Options::new().layout(layout).strict_foreign(true)
}

/// Waits until a lock's folder has `count` nodes.
pub(crate) async fn queued(client: &Client, folder: &str, count: usize) -> Result<()> {
    loop {
        let (children, mut watch) = client.get_children_and_watch(folder).await?;
        if children.names.len() == count {
            return Ok(());
        }
        watch.changed().await?;
    }
}

/// Fails unless the acquire is refused because of a contender of another layout.
async fn refused(lock: &Lock) -> Result<()> {
    let error = lock.acquire().await.err().context("it got in")?;
    assert_eq!(error.kind(), ErrorKind::ForeignContender, "{error}");
    Ok(())
}

#[tokio::test]
async fn kazoos_lock_and_ours_never_hold_together() -> Result<()> {
    let (server, counter) = (Standalone::start().await?, Counter::new()?);
    let turns = TURNS.to_string();
    let kinds = ["kind=lock layout=kazoo", "kind=reentrant layout=kazoo tasks=2"];
    let ours = ours(&server, "/locks/count", &counter, &kinds)?;
    kazoo(&server, &["count", "/locks/count", counter.path()?, &turns])?.finish().await?;
    done(ours).await?;
    assert_eq!(counter.value()?, 4 * TURNS);
    Ok(())
}

#[tokio::test]
async fn kazoos_readers_and_writers_and_ours_share_a_lock() -> Result<()> {
    let (server, counter) = (Standalone::start().await?, Counter::new()?);
    let turns = TURNS.to_string();
    let kinds = ["kind=rw layout=kazoo", "kind=reentrant-rw layout=kazoo tasks=2"];
    let ours = ours(&server, "/locks/countrw", &counter, &kinds)?;
    let arguments = ["countrw", "/locks/countrw", counter.path()?, &turns, "7"];
    kazoo(&server, &arguments)?.finish().await?;
    done(ours).await?;
    assert_eq!(counter.value()?, 4 * TURNS);
    Ok(())
}

#[tokio::test]
async fn curators_mutex_and_ours_never_hold_together() -> Result<()> {
    let (server, counter) = (Standalone::start().await?, Counter::new()?);
    let mut curator = Curator::connect(&server.address()).await?;
    let ours = ours(&server, "/locks/count", &counter, &["kind=lock", "kind=reentrant tasks=2"])?;
    curator.does(&format!("a count /locks/count {} {TURNS}", counter.path()?)).await?;
    done(ours).await?;
    assert_eq!(counter.value()?, 4 * TURNS);
    curator.quit().await
}

/// As the page on moving says: kazoo's lock with Curator's names, beside Curator and ours.
#[tokio::test]
async fn kazoo_with_curators_names_curator_and_ours_never_hold_together() -> Result<()> {
    let (server, counter) = (Standalone::start().await?, Counter::new()?);
    let client = Client::connect(&server.address()).await?;
    client.create_all("/locks/count", b"", &CreateOptions::persistent()).await?;
    let mut curator = Curator::connect(&server.address()).await?;
    let (file, turns) = (counter.path()?, TURNS.to_string());
    let python = kazoo(&server, &["countas", "/locks/count", file, &turns])?;
    let ours = ours(&server, "/locks/count", &counter, &["kind=lock"])?;
    curator.does(&format!("a count /locks/count {file} {TURNS}")).await?;
    python.finish().await?;
    done(ours).await?;
    assert_eq!(counter.value()?, 3 * TURNS);
    client.close().await;
    curator.quit().await
}

/// As the page on moving says: whoever takes the locks of both layouts excludes both kinds.
#[tokio::test]
async fn the_locks_of_two_layouts_exclude_kazoo_and_curator() -> Result<()> {
    let server = Standalone::start().await?;
    let client = Client::connect(&server.address()).await?;
    let of = |layout| Options::new().layout(layout).persistent_folder(true);
    let kazoos = Lock::with_options(&client, "/locks/both", of(Layout::KAZOO))?;
    let curators = Lock::with_options(&client, "/locks/both", of(Layout::CURATOR))?;
    let both = async |counter: &Counter| -> Result<()> {
        for _ in 0..TURNS {
            let outer = kazoos.acquire().await?;
            let inner = curators.acquire().await?;
            counter.add().await?;
            inner.release().await?;
            outer.release().await?;
        }
        Ok(())
    };
    let (counter, turns) = (Counter::new()?, TURNS.to_string());
    let python = kazoo(&server, &["count", "/locks/both", counter.path()?, &turns])?;
    tokio::try_join!(both(&counter), python.finish())?;
    assert_eq!(counter.value()?, 2 * TURNS);

    let (counter, mut curator) = (Counter::new()?, Curator::connect(&server.address()).await?);
    let line = format!("a count /locks/both {} {TURNS}", counter.path()?);
    tokio::try_join!(both(&counter), curator.does(&line))?;
    assert_eq!(counter.value()?, 2 * TURNS);
    client.close().await;
    curator.quit().await
}

const THREE: [&str; 3] = ["/locks/1", "/locks/2", "/locks/3"];

/// Takes the locks one by one, in the order of their paths.
async fn nested(client: Client, counters: &[Counter; 3], turns: u32) -> Result<()> {
    let locks = [0, 1, 2].map(|index| Lock::new(&client, THREE[index]));
    for turn in 0..turns {
        let mut guards = Vec::new();
        for index in chosen(turn) {
            guards.push(locks[index].as_ref().map_err(Clone::clone)?.acquire().await?);
            counters[index].add().await?;
        }
        for guard in guards.into_iter().rev() {
            guard.release().await?;
        }
    }
    client.close().await;
    Ok(())
}

/// Takes the locks together, named in reverse order.
async fn together(client: Client, counters: &[Counter; 3], turns: u32) -> Result<()> {
    for turn in 0..turns {
        let paths = chosen(turn).rev().map(|index| THREE[index]);
        let guard = MultiLock::new(&client, paths)?.acquire().await?;
        for index in chosen(turn) {
            counters[index].add().await?;
        }
        guard.release().await?;
    }
    client.close().await;
    Ok(())
}

#[tokio::test]
async fn several_locks_are_taken_at_once_by_curator_and_in_two_ways_by_ours() -> Result<()> {
    let server = Standalone::start().await?;
    let counters = [Counter::new()?, Counter::new()?, Counter::new()?];
    let files = [counters[0].path()?, counters[1].path()?, counters[2].path()?].join(",");
    let (turns, times) = multi_turns();
    for _ in 0..times {
        let mut curator = Curator::connect(&server.address()).await?;
        let one = Client::connect(&server.address()).await?;
        let two = Client::connect(&server.address()).await?;
        let line = format!("a countmulti {} {files} {turns}", THREE.join(","));
        tokio::try_join!(
            nested(one, &counters, turns),
            together(two, &counters, turns),
            curator.does(&line),
        )?;
        curator.quit().await?;
    }
    for counter in &counters {
        // Each lock is taken in three turns of four.
        assert_eq!(counter.value()?, 3 * times * turns / 4 * 3);
    }
    Ok(())
}

/// Our writers sometimes downgrade to readers. Curator's do not: up to 5.4 they join the queue
/// again to do so, and any waiting writer gets the lock beside them (CURATOR-621).
#[tokio::test]
async fn curators_readers_and_writers_and_ours_share_a_lock() -> Result<()> {
    let (server, counter) = (Standalone::start().await?, Counter::new()?);
    let mut one = Curator::connect(&server.address()).await?;
    let mut two = Curator::connect(&server.address()).await?;
    let kinds = ["kind=rw", "kind=reentrant-rw tasks=2"];
    let ours = ours(&server, "/locks/countrw", &counter, &kinds)?;
    let file = counter.path()?;
    one.tell(&format!("a countrw /locks/countrw {file} {TURNS} 7")).await?;
    two.tell(&format!("a countrw /locks/countrw {file} {TURNS} 8")).await?;
    one.answer("a").await?;
    two.answer("a").await?;
    done(ours).await?;
    assert_eq!(counter.value()?, 5 * TURNS);
    one.quit().await?;
    two.quit().await
}

#[tokio::test]
async fn a_writer_that_becomes_a_reader_lets_the_others_readers_in_and_no_writer() -> Result<()> {
    let server = Standalone::start().await?;
    let mut curator = Curator::connect(&server.address()).await?;
    let client = Client::connect(&server.address()).await?;
    let lock = RwLock::new(&client, "/locks/downgrade")?;

    curator.does("a write /locks/downgrade").await?;
    assert!(lock.try_read().await?.is_none());
    curator.does("a read /locks/downgrade").await?;
    curator.does("a unwrite /locks/downgrade").await?;
    assert!(lock.try_write().await?.is_none());
    lock.try_read().await?.context("both read")?.release().await?;
    curator.does("a unread /locks/downgrade").await?;

    let writer = lock.try_write().await?.context("nobody is there")?;
    curator.tell("a read /locks/downgrade").await?;
    queued(&client, "/locks/downgrade", 2).await?;
    curator.tell("b write /locks/downgrade").await?;
    queued(&client, "/locks/downgrade", 3).await?;
    let token = writer.token();
    let reader = writer.downgrade().await?;
    // The reader is ahead of all waiting contenders, although their nodes are older.
    assert_eq!((reader.token().czxid(), reader.token().pass()), (token.czxid(), 1));
    curator.answer("a").await?;
    // If the writer had got the lock before, its answer would have been skipped.
    curator.tell("a unread /locks/downgrade").await?;
    curator.answer("a").await?;
    reader.release().await?;
    curator.answer("b").await?;
    assert!(lock.try_read().await?.is_none());
    curator.does("b unwrite /locks/downgrade").await?;
    client.close().await;
    curator.quit().await
}

#[tokio::test]
async fn curator_and_ours_ask_each_other_for_the_lock_back() -> Result<()> {
    let server = Standalone::start().await?;
    let mut curator = Curator::connect(&server.address()).await?;
    let client = Client::connect(&server.address()).await?;

    let lock = Lock::new(&client, "/locks/mutex")?;
    for _ in 0..3 {
        let guard = lock.acquire().await?;
        curator.does(&format!("a revoke {}", guard.node())).await?;
        guard.revoke_requested().await?;
        guard.release().await?;
    }
    let two_level = ReentrantLock::new(&client, "/locks/mutex")?;
    let me = Owner::new();
    let guard = two_level.acquire(&me).await?;
    curator.does(&format!("a revoke {}", guard.node())).await?;
    guard.revoke_requested().await?;
    guard.release().await?;
    let readers = RwLock::new(&client, "/locks/rw")?;
    let guard = readers.read().await?;
    curator.does(&format!("a revoke {}", guard.node())).await?;
    guard.revoke_requested().await?;
    guard.release().await?;

    curator.does("a revocable /locks/mutex").await?;
    curator.does("a lock /locks/mutex").await?;
    assert_eq!(lock.revoke().await?, 1);
    curator.says("a revoked /locks/mutex").await?;
    curator.does("a unlock /locks/mutex").await?;
    lock.acquire().await?.release().await?;
    client.close().await;
    curator.quit().await
}

#[tokio::test]
async fn kazoos_lock_beside_curators_layout_lets_two_in() -> Result<()> {
    let server = Standalone::start().await?;
    let client = Client::connect(&server.address()).await?;
    let ours = Lock::new(&client, "/locks/mixed")?;
    let guard = ours.acquire().await?;
    // kazoo ignores our node, unless it is given the name pattern.
    kazoo(&server, &["enters", "/locks/mixed"])?.finish().await?;
    kazoo(&server, &["waits", "/locks/mixed", "-lock-"])?.finish().await?;
    guard.release().await?;

    // Our lock ignores kazoo's node, unless it is set to refuse foreign contenders.
    let theirs = Options::new().layout(Layout::KAZOO);
    let theirs = Lock::with_options(&client, "/locks/mixed", theirs)?;
    let strict = Lock::with_options(&client, "/locks/mixed", strict(Layout::CURATOR))?;
    for _ in 0..3 {
        strict.acquire().await?.release().await?;
    }
    let guard = theirs.acquire().await?;
    ours.acquire().await?.release().await?;
    refused(&strict).await?;
    refused(&Lock::with_options(&client, "/locks/mixed", self::strict(Layout::CURATOR))?).await?;
    guard.release().await?;
    strict.acquire().await?.release().await?;
    client.close().await;
    Ok(())
}

#[tokio::test]
async fn curators_mutex_beside_its_read_write_lock_lets_two_in() -> Result<()> {
    let server = Standalone::start().await?;
    let mut curator = Curator::connect(&server.address()).await?;
    let client = Client::connect(&server.address()).await?;
    let (mutex, pair) =
        (Lock::new(&client, "/locks/mixed")?, RwLock::new(&client, "/locks/mixed")?);

    curator.does("a lock /locks/mixed").await?;
    curator.does("b write /locks/mixed").await?;
    curator.does("a unlock /locks/mixed").await?;
    mutex.acquire().await?.release().await?;
    refused(&Lock::with_options(&client, "/locks/mixed", strict(Layout::CURATOR))?).await?;
    curator.does("b unwrite /locks/mixed").await?;

    let alone = mutex.acquire().await?;
    let writer = pair.write().await?;
    curator.tell("a lock /locks/mixed").await?;
    alone.release().await?;
    curator.answer("a").await?;
    writer.release().await?;
    client.close().await;
    curator.quit().await
}
