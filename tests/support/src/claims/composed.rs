//! Claims about what the client builds from several operations: waiting for zxids, trees, and
//! writes whose results are looked for.

use anyhow::{Context, Result};
use zk_client::{CreateOptions, ErrorCode, Outcome, Quota};
use zk_proto::OpCode;

use crate::claims::target::Target;
use crate::fault::{Fault, Faults};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

pub async fn every_answer_is_stamped_with_its_zxid(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let (created, zxid) = client.create("/a", b"", &PERSISTENT).with_zxid().await?;
    assert_eq!(created.czxid, zxid);
    let (stat, set) = client.set_data("/a", b"1", None).with_zxid().await?;
    assert_eq!(stat.mzxid, set);
    let (none, read) = client.exists("/none").with_zxid().await?;
    assert!(none.is_none() && read >= set, "{read}");
    let (_, synced) = client.sync("/").with_zxid().await?;
    assert!(synced >= read, "{synced}");
    let error = client.get_data("/none").await.expect_err("absent");
    assert!(error.zxid().is_some_and(|zxid| zxid >= synced), "{error:?} {:?}", error.zxid());
    // A refused write is a transaction too.
    let error = client.delete("/a", Some(7)).await.expect_err("a stale version");
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
    let refused = error.zxid().expect("an answer");
    assert!(refused > synced, "{refused}");
    let error = client.multi(&[zk_client::Op::check("/none", None)]).await.expect_err("absent");
    assert!(error.zxid().is_some_and(|zxid| zxid > refused), "{error:?} {:?}", error.zxid());
    assert_eq!(Some(client.last_zxid()), error.zxid());
    Ok(())
}

pub async fn whoever_is_at_least_at_a_zxid_sees_what_happened_there(target: &Target) -> Result<()> {
    let writer = target.connect().await?;
    let readers = target.connect_to_each().await?;
    writer.create("/n", b"", &PERSISTENT).await?;
    for n in 1..=200 {
        let (stat, zxid) = writer.set_data("/n", b"", None).with_zxid().await?;
        assert_eq!(stat.version, n);
        for reader in &readers {
            reader.wait_for_zxid(zxid).await?;
            assert_eq!(reader.get_data("/n").await?.stat.version, n);
        }
    }
    // Other clients can wait for the zxid of a refusal.
    let error = writer.create("/n", b"", &PERSISTENT).await.expect_err("it exists");
    for reader in &readers {
        reader.wait_for_zxid(error.zxid().expect("an answer")).await?;
    }
    Ok(())
}

pub async fn a_node_is_made_with_its_parents_and_goes_with_its_children(
    target: &Target,
) -> Result<()> {
    let client = target.connect().await?;
    client.create_all("/t/a/b/c", b"", &PERSISTENT.container_parents()).await?;
    client.ensure("/t/a/b", &PERSISTENT).await?;
    client.ensure("/t/x/y", &PERSISTENT).await?;
    for n in 0..600 {
        drop(client.create(&format!("/t/x/{n:03}"), b"", &PERSISTENT));
    }
    let mut paths = Vec::new();
    let mut walk = client.walk("/t");
    while let Some(node) = walk.next().await? {
        paths.push(node.path);
    }
    assert_eq!(paths[..6], ["/t", "/t/a", "/t/x", "/t/a/b", "/t/x/000", "/t/x/001"]);
    assert_eq!(paths.len(), 606);
    assert_eq!(client.delete_all("/t").await?, 606);
    assert_eq!(client.exists("/t").await?, None);
    assert_eq!(client.delete_all("/t").await?, 0);
    Ok(())
}

pub async fn a_write_whose_answer_is_lost_is_found(target: &Target) -> Result<()> {
    let faults = Faults::over(target.way());
    let client = target.builder().connector(faults.clone()).connect(&target.servers()).await?;
    let sure = client.resolving();
    for (path, options) in
        [("/e", CreateOptions::ephemeral()), ("/p", PERSISTENT), ("/c", CreateOptions::container())]
    {
        let container = options == CreateOptions::container();
        faults.arm(Fault::LoseReply(if container {
            OpCode::CREATE_CONTAINER
        } else {
            OpCode::CREATE2
        }));
        let created = sure.create(path, b"one", &options).await?;
        assert_eq!((created.path.as_str(), created.stat.map(|stat| stat.version)), (path, Some(0)));
        assert!(faults.happened());
    }
    faults.arm(Fault::LoseReply(OpCode::SET_DATA));
    assert_eq!(sure.set_data("/p", b"two", 0).await?.version, 1);
    assert!(faults.happened());
    faults.arm(Fault::LoseReply(OpCode::DELETE));
    let error = sure.delete("/p", 1).await.expect_err("it is gone, and nobody can know by whom");
    assert_eq!(error.outcome(), Outcome::Unknown);
    Ok(())
}

pub async fn a_write_that_is_lost_is_sent_again(target: &Target) -> Result<()> {
    let faults = Faults::over(target.way());
    let client = target.builder().connector(faults.clone()).connect(&target.servers()).await?;
    let sure = client.resolving();
    let arm = |op| {
        assert!(faults.happened(), "the one before");
        faults.arm(Fault::LoseRequest(op));
    };
    arm(OpCode::CREATE2);
    let created = sure.create("/e", b"one", &CreateOptions::ephemeral()).await?;
    let owner = created.stat.map(|stat| stat.ephemeral_owner);
    assert_eq!(owner, client.session().map(|own| own.id));
    arm(OpCode::SET_DATA);
    assert_eq!(sure.set_data("/e", b"two", 0).await?.version, 1);
    arm(OpCode::SET_DATA);
    let error = sure.set_data("/e", b"two", 0).await.expect_err("a stale version");
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
    arm(OpCode::DELETE);
    sure.delete("/e", 1).await?;
    assert!(faults.happened());
    Ok(())
}

pub async fn a_quota_is_kept_where_servers_look_for_it(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let mut quota = Quota { count: Some(5), ..Quota::default() };
    let missing = client.set_quota("/q", &quota).await.expect_err("no node");
    assert!(missing.is_no_node(), "{missing}");

    client.create_all("/q/a", b"12345", &PERSISTENT).await?;
    assert_eq!(client.get_quota("/q").await?, None);
    assert!(!client.delete_quota("/q").await?);
    client.set_quota("/q", &quota).await?;
    let (kept, usage) = client.get_quota("/q").await?.context("a quota")?;
    assert_eq!(kept, quota);
    if target.counts_quotas() {
        assert_eq!((usage.count, usage.bytes), (2, 5));
    }
    quota.hard_bytes = Some(100);
    client.set_quota("/q", &quota).await?;
    let (kept, _) = client.get_quota("/q").await?.context("a quota")?;
    assert_eq!(kept, quota);
    assert!(client.delete_quota("/q").await?);
    assert_eq!(client.get_quota("/q").await?, None);
    Ok(())
}
