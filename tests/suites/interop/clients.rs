//! Other ZooKeeper clients against our servers: kazoo, ZooKeeper's C client, and its Java client
//! through `zkCli.sh` and Curator's locks. Each client makes the same checks on every server.
//!
//! kazoo and the C client run scripts of their own, in `tests/interop`. Curator's locks share their
//! script with our locks.

use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::process::Command;
use zk_client::Client;
use zk_embedded::{Config, Server, ServerVersion};
use zk_recipes::Lock;
use zk_test_support::contender;
use zk_test_support::foreign::{Curator, Program, ZkCli};
use zk_test_support::relay::Relay;
use zk_test_support::server::Standalone;

/// Runs all clients against the server that `$start` yields, new and empty each time.
macro_rules! serves_foreign_clients {
    ($server:ident, $start:expr) => {
        mod $server {
            use super::*;

            #[tokio::test]
            async fn kazoo() -> Result<()> {
                let server = $start;
                super::kazoo(&server.address()).await
            }

            #[tokio::test]
            async fn c_client() -> Result<()> {
                let server = $start;
                super::c_client(&server.address()).await
            }

            #[tokio::test]
            async fn zkcli() -> Result<()> {
                let server = $start;
                super::zkcli(&server.address()).await
            }

            #[tokio::test]
            async fn curator() -> Result<()> {
                let server = $start;
                super::curator(&server.address()).await
            }
        }
    };
}

serves_foreign_clients!(real, Standalone::start().await?);
serves_foreign_clients!(embedded, Server::with(quick()).await?);
serves_foreign_clients!(
    embedded_3_8,
    Server::with(quick().server_version(ServerVersion::V3_8)).await?
);

/// The same tick as that of the real server in the harness.
fn quick() -> Config {
    Config::new().tick_time(Duration::from_millis(200))
}

async fn kazoo(address: &str) -> Result<()> {
    let python = env::var_os("ZK_INTEROP_PYTHON")
        .context("ZK_INTEROP_PYTHON is not set; tests/run installs kazoo and sets it")?;
    let mut command = Command::new(python);
    command.arg(script("kazoo_client.py")).arg(address);
    Program::start(command)?.finish().await
}

async fn c_client(address: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("c_client");
    let mut compiler = Command::new("cc");
    compiler.arg("-o").arg(&program).arg(script("c_client.c")).arg("-lzookeeper_mt");
    let compiled = Program::start(compiler)?.finish().await;
    compiled.context("cannot compile; tests/run installs the C client")?;

    let mut command = Command::new(program);
    command.arg(address);
    Program::start(command)?.finish().await
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("interop").join(name)
}

async fn zkcli(address: &str) -> Result<()> {
    let mut relay = Relay::to(address)?;
    let mut own = ZkCli::connect(&relay.address()?).await?;
    let mut other = ZkCli::connect(address).await?;

    zkcli_reads_and_writes(&mut own).await?;
    zkcli_makes_nodes_of_all_kinds(&mut own, &mut other).await?;
    zkcli_sees_changes(&mut own, &mut other).await?;
    zkcli_keeps_strangers_out(&mut own, &mut other).await?;
    zkcli_deletes_a_tree_or_nothing(&mut own, &mut other).await?;
    zkcli_resumes_its_session(&mut own, &mut other, &mut relay).await?;

    own.quit().await?;
    other.answers("stat /resumed/e", &["Node does not exist: /resumed/e"]).await?;
    other.quit().await
}

async fn zkcli_reads_and_writes(own: &mut ZkCli) -> Result<()> {
    own.answers("create /n one", &["Created /n"]).await?;
    own.answers("create /n", &["Node already exists: /n"]).await?;
    own.answers("get /n", &["one"]).await?;
    let stat = ["one", "dataVersion = 0", "dataLength = 3", "ephemeralOwner = 0x0"];
    own.tells("get -s /n", &stat).await?;
    own.answers("set -v 0 /n two", &[]).await?;
    own.answers("set -v 0 /n three", &["version No is not valid : /n"]).await?;
    own.answers("get /n", &["two"]).await?;
    own.answers("get /none", &["Node does not exist: /none"]).await?;

    own.answers("create /n/c", &["Created /n/c"]).await?;
    // A node that is created without data has null data, which differs from data of length 0.
    own.answers("get /n/c", &["null"]).await?;
    own.answers("ls /n", &["[c]"]).await?;
    own.tells("ls -s /n", &["[c]", "cversion = 1", "dataVersion = 1", "numChildren = 1"]).await?;
    own.answers("create /none/c", &["Node does not exist: /none/c"]).await?;
    own.answers("delete /n", &["Node not empty: /n"]).await?;
    own.answers("delete -v 1 /n/c", &["version No is not valid : /n/c"]).await?;
    own.answers("delete -v 0 /n/c", &[]).await?;
    own.answers("delete /n/c", &["Node does not exist: /n/c"]).await?;
    own.tells("stat /n", &["cversion = 2", "dataVersion = 1", "numChildren = 0"]).await?;
    own.answers("sync /n", &["Sync is OK"]).await
}

async fn zkcli_makes_nodes_of_all_kinds(own: &mut ZkCli, other: &mut ZkCli) -> Result<()> {
    own.answers("create /kinds", &["Created /kinds"]).await?;
    own.answers("create -s /kinds/n-", &["Created /kinds/n-0000000000"]).await?;
    own.answers("create -s -e /kinds/n-", &["Created /kinds/n-0000000001"]).await?;
    own.answers("create -e /kinds/e", &["Created /kinds/e"]).await?;
    let refusal = "Ephemerals cannot have children: /kinds/e/c";
    own.answers("create /kinds/e/c", &[refusal]).await?;
    own.answers("create -c /kinds/box", &["Created /kinds/box"]).await?;
    own.answers("getEphemerals /kinds/n", &["[/kinds/n-0000000001]"]).await?;
    other.answers("getEphemerals", &["[]"]).await?;
    own.answers("getAllChildrenNumber /kinds", &["4"]).await
}

async fn zkcli_sees_changes(own: &mut ZkCli, other: &mut ZkCli) -> Result<()> {
    own.answers("stat -w /w", &["Node does not exist: /w"]).await?;
    other.answers("create /w one", &["Created /w"]).await?;
    own.sees("state:SyncConnected type:NodeCreated path:/w").await?;
    own.answers("get -w /w", &["one"]).await?;
    other.answers("set /w two", &[]).await?;
    own.sees("state:SyncConnected type:NodeDataChanged path:/w").await?;
    own.answers("ls -w /w", &["[]"]).await?;
    other.answers("create /w/c", &["Created /w/c"]).await?;
    own.sees("state:SyncConnected type:NodeChildrenChanged path:/w").await?;
    other.answers("delete /w/c", &[]).await?;

    own.answers("addWatch -m PERSISTENT /w", &[]).await?;
    for _ in 0..2 {
        other.answers("set /w again", &[]).await?;
        own.sees("state:SyncConnected type:NodeDataChanged path:/w").await?;
    }
    other.answers("create /w/c", &["Created /w/c"]).await?;
    own.sees("state:SyncConnected type:NodeChildrenChanged path:/w").await?;
    own.answers("removewatches /w", &[]).await?;
    own.sees("state:SyncConnected type:PersistentWatchRemoved path:/w").await?;
    own.answers("removewatches /w", &["KeeperErrorCode = No such watcher for /w"]).await?;

    own.answers("addWatch -m PERSISTENT_RECURSIVE /w", &[]).await?;
    other.answers("set /w/c x", &[]).await?;
    own.sees("state:SyncConnected type:NodeDataChanged path:/w/c").await?;
    other.answers("create /w/c/deep", &["Created /w/c/deep"]).await?;
    own.sees("state:SyncConnected type:NodeCreated path:/w/c/deep").await?;
    other.answers("delete /w/c/deep", &[]).await?;
    own.sees("state:SyncConnected type:NodeDeleted path:/w/c/deep").await
}

/// The entry of an ACL for the user `owner` with the password `secret`.
const OWNER: &str = "'digest,'owner:Vj++wdU3sMAbt+g9TyKj1BT+usI=";

async fn zkcli_keeps_strangers_out(own: &mut ZkCli, other: &mut ZkCli) -> Result<()> {
    let refusal = ["Insufficient permission : /acl"];
    own.answers("addauth digest owner:secret", &[]).await?;
    own.tells("whoami", &["Auth scheme: User", "digest: owner", "ip: 127.0.0.1"]).await?;
    own.answers("create /acl mine auth::cdrwa", &["Created /acl"]).await?;
    own.answers("getAcl /acl", &[OWNER, ": cdrwa"]).await?;
    for command in
        ["get /acl", "set /acl x", "ls /acl", "getAcl /acl", "setAcl /acl world:anyone:r"]
    {
        other.answers(command, &refusal).await?;
    }
    other.answers("create /acl/c", &["Insufficient permission : /acl/c"]).await?;

    own.answers("setAcl -v 0 /acl world:anyone:r,auth::cdrwa", &[]).await?;
    let stale = ["version No is not valid : /acl"];
    own.answers("setAcl -v 0 /acl world:anyone:r", &stale).await?;
    own.tells("getAcl -s /acl", &["'world,'anyone", ": r", OWNER, "aclVersion = 1"]).await?;
    other.answers("get /acl", &["mine"]).await?;
    other.answers("set /acl x", &refusal).await?;
    own.answers("set /acl still", &[]).await?;
    let nonsense = ["KeeperErrorCode = InvalidACL for /bad", "Acl is not valid : /bad"];
    own.answers("create /bad x nonsense:x:r", &nonsense).await
}

/// `deleteall` is the only command of `zkCli.sh` that sends a transaction. It deletes the deepest
/// nodes first.
async fn zkcli_deletes_a_tree_or_nothing(own: &mut ZkCli, other: &mut ZkCli) -> Result<()> {
    let tree = ["/tree", "/tree/own", "/tree/all", "/tree/all/a", "/tree/all/a/b"];
    for path in tree {
        own.answers(&format!("create {path}"), &[&format!("Created {path}")]).await?;
    }
    own.answers("create /tree/own/c", &["Created /tree/own/c"]).await?;
    own.answers("setAcl /tree/own world:anyone:r,auth::cdrwa", &[]).await?;
    // A race of its threads decides whether it reports the failure.
    other.tells("deleteall /tree", &[]).await?;
    other.tells("ls -R /tree", &tree).await?;

    own.answers("deleteall /tree", &[]).await?;
    own.answers("ls /tree", &["Node does not exist: /tree"]).await
}

async fn zkcli_resumes_its_session(
    own: &mut ZkCli,
    other: &mut ZkCli,
    relay: &mut Relay,
) -> Result<()> {
    for path in ["/resumed", "/resumed/a"] {
        own.answers(&format!("create {path}"), &[&format!("Created {path}")]).await?;
    }
    own.answers("create -e /resumed/e", &["Created /resumed/e"]).await?;
    own.answers("get -w /resumed", &["null"]).await?;
    own.answers("ls -w /resumed/a", &["[]"]).await?;
    own.answers("stat -w /resumed/not", &["Node does not exist: /resumed/not"]).await?;

    relay.cut();
    own.sees("state:Disconnected type:None path:null").await?;
    other.answers("set /resumed missed", &[]).await?;
    other.answers("create /resumed/not", &["Created /resumed/not"]).await?;
    relay.mend();
    own.sees("state:SyncConnected type:None path:null").await?;

    // The client gets the events that it missed, and its other watches are still set.
    own.sees("state:SyncConnected type:NodeDataChanged path:/resumed").await?;
    own.sees("state:SyncConnected type:NodeCreated path:/resumed/not").await?;
    other.answers("create /resumed/a/c", &["Created /resumed/a/c"]).await?;
    own.sees("state:SyncConnected type:NodeChildrenChanged path:/resumed/a").await?;
    other.answers("set /w/c recursive", &[]).await?;
    own.sees("state:SyncConnected type:NodeDataChanged path:/w/c").await?;
    own.answers("set /acl resumed", &[]).await?;
    own.answers("getEphemerals /resumed", &["[/resumed/e]"]).await
}

async fn curator(address: &str) -> Result<()> {
    let mut curator = Curator::connect(address).await?;
    curator_and_our_lock_wait_for_each_other(&mut curator, address).await?;
    curator_and_our_lock_never_hold_together(&mut curator, address).await?;
    curator_reads_together_and_writes_alone(&mut curator).await?;
    curator_asks_a_holder_to_let_go(&mut curator).await?;
    curator.quit().await
}

async fn curator_and_our_lock_wait_for_each_other(
    curator: &mut Curator,
    address: &str,
) -> Result<()> {
    let client = Client::connect(address).await?;
    let lock = Lock::new(&client, "/curator/mutex")?;
    curator.does("a lock /curator/mutex").await?;
    let waiter = tokio::spawn(async move { lock.acquire().await });
    loop {
        let (children, mut watch) = client.get_children_and_watch("/curator/mutex").await?;
        if children.names.len() == 2 {
            break;
        }
        watch.changed().await?;
    }
    assert!(!waiter.is_finished());
    curator.does("a unlock /curator/mutex").await?;
    let ours = waiter.await??;

    assert_eq!(curator.does("a try /curator/mutex 300").await?, "timeout");
    curator.tell("a lock /curator/mutex").await?;
    ours.release().await?;
    curator.answer("a").await?;
    curator.does("a unlock /curator/mutex").await?;
    client.close().await;
    Ok(())
}

/// Both sides add to a number that only the lock protects.
async fn curator_and_our_lock_never_hold_together(
    curator: &mut Curator,
    address: &str,
) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("number");
    std::fs::write(&file, "0")?;
    let file = file.to_str().context("path")?;
    let (servers, counter) = (format!("servers={address}"), format!("counter={file}"));
    let arguments = [&servers, "path=/curator/count", &counter, "turns=300"];
    let ours = contender::start(env!("CARGO_BIN_EXE_contender"), &arguments)?;
    curator.does(&format!("a count /curator/count {file} 300")).await?;
    ours.done().await?;
    assert_eq!(std::fs::read_to_string(file)?, "600");
    curator.does(&format!("a countrw /curator/countrw {file} 100 1")).await?;
    assert_eq!(std::fs::read_to_string(file)?, "700");
    Ok(())
}

async fn curator_reads_together_and_writes_alone(curator: &mut Curator) -> Result<()> {
    curator.does("a read /curator/rw").await?;
    curator.does("b read /curator/rw").await?;
    curator.tell("c write /curator/rw").await?;
    curator.does("a unread /curator/rw").await?;
    // If the writer had got the lock before, its answer would have been skipped.
    curator.tell("b unread /curator/rw").await?;
    curator.answer("c").await?;
    curator.does("c unwrite /curator/rw").await?;
    Ok(())
}

async fn curator_asks_a_holder_to_let_go(curator: &mut Curator) -> Result<()> {
    curator.does("a revocable /curator/revocable").await?;
    let node = curator.does("a lock /curator/revocable").await?;
    curator.tell(&format!("b revoke {node}")).await?;
    curator.says("a revoked /curator/revocable").await?;
    curator.does("a unlock /curator/revocable").await?;
    Ok(())
}
