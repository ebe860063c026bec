//! Snapshots between a real server and the embedded one: each starts with what the other has
//! written, and shows the same nodes in every field. And what is cached follows a real server that
//! is set back to an older backup.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::time::timeout;
use zk_client::{Acl, Client, CreateOptions, Id, Perms};
use zk_embedded::{Config, Server};
use zk_recipes::{Cached, Freshness, TreeCache, TreeLimits};
use zk_test_support::server::{ServerConfig, Standalone};

/// A node whose only child is ephemeral.
const OWNER: &str = "/owner";

fn extended() -> ServerConfig {
    let types = ("zookeeper.extendedTypesEnabled".to_owned(), "true".to_owned());
    ServerConfig { properties: vec![types], ..ServerConfig::default() }
}

/// Makes nodes of every kind.
async fn fill(client: &Client) -> Result<()> {
    let persistent = CreateOptions::persistent();
    for path in ["/a", "/a/b", "/a/\u{e4} 1", "/acl", "/acl/same", OWNER] {
        client.create(path, path.as_bytes(), &persistent).await?;
    }
    for _ in 0..3 {
        client.create("/a/n-", b"", &persistent.sequential()).await?;
    }
    client.delete("/a/n-0000000002", None).await?;
    client.set_data("/a", &[7; 10_000], None).await?;
    client.create("/box", b"", &CreateOptions::container()).await?;
    client.create("/ttl", b"", &persistent.ttl(Duration::from_secs(1_000_000))).await?;
    client.create("/owner/mine", b"", &CreateOptions::ephemeral()).await?;
    let list = [Acl::new(Perms::ALL, Id::ANYONE), Acl::new(Perms::READ, Id::ip("10.0.0.0/8"))];
    for path in ["/acl", "/acl/same"] {
        client.set_acl(path, &list, None).await?;
    }
    client.set_acl("/a/b", &[Acl::new(Perms::ALL, Id::digest("bob", "secret"))], None).await?;
    Ok(())
}

/// All nodes but the owner of the ephemeral one, each in every field.
async fn nodes(address: &str) -> Result<Vec<String>> {
    let client = Client::builder().auth("digest", b"bob:secret").connect(address).await?;
    let mut nodes = Vec::new();
    let mut walk = client.walk("/");
    while let Some(node) = walk.next().await? {
        if !node.path.starts_with(OWNER) {
            let (data, acl) = (client.get_data(&node.path).await?, client.get_acl(&node.path));
            nodes.push(format!("{} {data:?} {:?}", node.path, acl.await?.acl));
        }
    }
    client.close().await;
    ensure!(nodes.len() > 10, "{nodes:#?}");
    Ok(nodes)
}

/// The newest snapshot of a real server.
fn newest(server: &Standalone) -> Result<PathBuf> {
    let files = fs::read_dir(server.folder().join("version-2"))?;
    let zxid = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix("snapshot.")?;
        i64::from_str_radix(name, 16).ok()
    };
    let files = files.filter_map(|file| Some(file.ok()?.path())).filter(|it| zxid(it).is_some());
    files.max_by_key(zxid).context("no snapshot")
}

#[tokio::test]
async fn the_embedded_server_loads_what_a_real_one_has_written() -> Result<()> {
    let mut real = Standalone::with(&extended()).await?;
    let client = Client::connect(&real.address()).await?;
    fill(&client).await?;
    // It writes a snapshot when it starts.
    real.restart().await?;
    let snapshot = fs::read(newest(&real)?)?;

    let server = Server::with(Config::new()).await?;
    server.restore(&snapshot)?;
    assert_eq!(nodes(server.address()).await?, nodes(&real.address()).await?);
    assert_eq!(server.children(OWNER), [""; 0]);
    let client = Client::connect(server.address()).await?;
    let sequential = CreateOptions::persistent().sequential();
    assert_eq!(client.create("/a/n-", b"", &sequential).await?.path, "/a/n-0000000005");
    client.close().await;
    Ok(())
}

#[tokio::test]
async fn a_real_server_starts_with_what_the_embedded_one_has_written() -> Result<()> {
    let server = Server::with(Config::new().extended_types(true)).await?;
    let client = Client::connect(server.address()).await?;
    fill(&client).await?;
    let (snapshot, zxid) = (server.snapshot(), server.last_zxid());

    let mut real = Standalone::with(&extended()).await?;
    real.kill().await;
    let folder = real.folder().join("version-2");
    for file in fs::read_dir(&folder)? {
        fs::remove_file(file?.path())?;
    }
    fs::write(folder.join(format!("snapshot.{:x}", zxid.0)), snapshot)?;
    real.restart().await?;
    assert_eq!(nodes(&real.address()).await?, nodes(server.address()).await?);
    let other = Client::connect(&real.address()).await?;
    let sequential = CreateOptions::persistent().sequential();
    assert_eq!(other.create("/a/n-", b"", &sequential).await?.path, "/a/n-0000000005");
    // The session is in the snapshot too, and lives until its timeout has passed.
    assert_eq!(other.get_children(OWNER).await?.names.len(), 1);
    other.close().await;
    client.close().await;
    Ok(())
}

/// Makes the files of a folder those of another one.
fn replace_files(from: &Path, to: &Path) -> Result<()> {
    for file in fs::read_dir(to)? {
        fs::remove_file(file?.path())?;
    }
    for file in fs::read_dir(from)? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}

#[tokio::test]
async fn what_is_cached_follows_a_server_that_is_set_back_to_a_backup() -> Result<()> {
    let mut server = Standalone::start().await?;
    let folder = server.folder().join("version-2");
    let backup = tempfile::tempdir()?;
    let writer = Client::connect(&server.address()).await?;
    let persistent = CreateOptions::persistent();
    writer.create("/a", b"old", &persistent).await?;
    server.kill().await;
    replace_files(&folder, backup.path())?;
    server.restart().await?;
    for n in 0..20 {
        writer.create(&format!("/{n}"), b"", &persistent).await?;
    }
    let (_, zxid) = writer.set_data("/a", b"new", None).with_zxid().await?;

    let builder = Client::builder().session_timeout(Duration::from_secs(4));
    let keeper = builder.keep(&server.address()).await?;
    let (mut value, follow_value) = Cached::follow(&keeper, "/a")?;
    let (tree, follow_tree) = TreeCache::follow(&keeper, "/a", TreeLimits::default())?;
    tokio::spawn(follow_value);
    tokio::spawn(follow_tree);
    let minute = Duration::from_secs(60);
    timeout(minute, tree.wait_for_zxid(zxid)).await??;
    let has = |data: &'static [u8]| {
        move |cached: &Cached| {
            let node = cached.node.as_ref().filter(|node| node.data == data);
            node.is_some() && cached.freshness == Freshness::Current
        }
    };
    timeout(minute, value.wait_for(has(b"new"))).await??;
    server.kill().await;
    replace_files(backup.path(), &folder)?;
    server.restart().await?;
    timeout(minute, value.wait_for(has(b"old"))).await??;
    let mut status = tree.status();
    let is_back = status.wait_for(|now| now.zxid < zxid && now.freshness == Freshness::Current);
    timeout(Duration::from_secs(60), is_back).await??;
    let node = tree.get("/a").context("it is there")?;
    ensure!(node.data[..] == b"old"[..], "{node:?}");
    keeper.close().await;
    Ok(())
}
