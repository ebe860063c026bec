//! Claims about operations beyond reading, writing and watching nodes, on servers that allow nodes
//! with a time to live and no change of their members.

#![expect(missing_docs, reason = "the names are the claims")]

use std::time::Duration;

use anyhow::{Context, Result};
use zk_client::{
    Acl, Client, CreateOptions, Dialect, ErrorCode, ErrorKind, Id, Op, OpCode, Operations, Outcome,
    Perms, Read, ReadResult, Reconfig, SessionId,
};

use crate::claims::target::Target;

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

pub async fn an_access_list_is_read_and_replaced_by_whoever_may(target: &Target) -> Result<()> {
    let outside = target.connect().await?;
    outside.create("/app", b"", &PERSISTENT).await?;
    let client = target.connect_at("/app").await?;
    let created = client.create("/a", b"", &PERSISTENT).await?;
    let list = client.get_acl("/a").await?;
    assert_eq!(
        (list.acl.as_slice(), list.stat),
        (Acl::OPEN, created.stat.context("the state as created")?)
    );

    // A client that read the list before this change cannot overwrite it.
    let bob = Acl::new(Perms::ALL, Id::digest("bob", "secret"));
    let mut acl = list.acl;
    acl.push(bob.clone());
    let changed = client.set_acl("/a", &acl, Some(list.stat.aversion)).await?;
    assert_eq!((changed.aversion, changed.version), (1, 0));
    assert_eq!((changed.mzxid, changed.pzxid), (list.stat.mzxid, list.stat.pzxid));
    let stale = client.set_acl("/a", &acl, Some(list.stat.aversion)).await;
    assert_eq!(stale.expect_err("changed since").code(), Some(ErrorCode::BAD_VERSION));
    outside.wait_for_zxid(client.last_zxid()).await?;
    let list = outside.get_acl("/app/a").await?;
    assert_eq!((&list.acl, list.stat.aversion), (&acl, 1));

    // Clients that may read but not change see the identities of the list, but not the hashes.
    let readers = [bob, Acl::new(Perms::READ, Id::ANYONE)];
    client.set_acl("/a", &readers, None).await?;
    target.catch_up().await?;
    let list = client.get_acl("/a").await?;
    assert_eq!(list.acl.iter().map(|acl| acl.perms).collect::<Vec<_>>(), [Perms::ALL, Perms::READ]);
    assert_eq!(list.acl.first().context("bob")?.id, Id::new("digest", "bob:x"));
    let error = client.set_acl("/a", Acl::OPEN, None).await.expect_err("bob's");
    assert_eq!((error.code(), error.outcome()), (Some(ErrorCode::NO_AUTH), Outcome::NotApplied));

    assert!(client.get_acl("/none").await.expect_err("absent").is_no_node());
    assert!(client.set_acl("/none", Acl::OPEN, None).await.expect_err("absent").is_no_node());
    assert_eq!(client.get_acl("a").await.expect_err("a rule").kind(), ErrorKind::InvalidPath);
    Ok(())
}

pub async fn an_access_list_says_who_may_do_what(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let refused = |code| move |error: zk_client::Error| assert_eq!(error.code(), Some(code));
    let no_auth = refused(ErrorCode::NO_AUTH);
    client.create("/r", b"", &PERSISTENT.with_acl(Acl::READ_ONLY)).await?;
    client.get_data("/r").await?;
    client.set_data("/r", b"", None).await.map(drop).map_err(no_auth).expect_err("no WRITE");
    let no_child = client.create("/r/c", b"", &PERSISTENT).await;
    no_child.map(drop).map_err(no_auth).expect_err("no CREATE");

    let perms = Perms::CREATE | Perms::WRITE | Perms::ADMIN;
    let here = [Acl::new(perms, Id::ip("127.0.0.1")), Acl::new(Perms::DELETE, Id::ip("10.0.0.1"))];
    client.create("/w", b"", &PERSISTENT.with_acl(&here)).await?;
    client.create("/w/c", b"", &PERSISTENT).await?;
    client.set_data("/w", b"1", None).await?;
    client.get_data("/w").await.map(drop).map_err(no_auth).expect_err("no READ");
    client.delete("/w/c", None).await.map_err(no_auth).expect_err("no DELETE");
    assert_eq!(client.get_acl("/w").await?.acl, here, "who may change it may read it");
    client.set_acl("/w", &[Acl::new(Perms::ALL, Id::ip("127.0.0.0/8"))], None).await?;
    // A leader checks against the old list until it has applied the new one itself, which may be
    // after a follower has answered.
    target.catch_up().await?;
    client.delete("/w/c", None).await?;

    // This connection has not authenticated.
    let creator = [Acl::CREATOR_ALL, &[], &[Acl::new(Perms::ALL, Id::new("world", "somebody"))]];
    for invalid in creator {
        let error = client.create("/i", b"", &PERSISTENT.with_acl(invalid)).await;
        error.map(drop).map_err(refused(ErrorCode::INVALID_ACL)).expect_err("no such identity");
        let error = client.set_acl("/w", invalid, None).await;
        error.map(drop).map_err(refused(ErrorCode::INVALID_ACL)).expect_err("no such identity");
    }
    Ok(())
}

pub async fn a_client_learns_who_it_is(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    assert_eq!(client.who_am_i().await?, [Id::ip("127.0.0.1")]);
    Ok(())
}

pub async fn a_sessions_ephemerals_are_listed_by_prefix(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let ephemeral = CreateOptions::ephemeral();
    for path in ["/app", "/app/jobs"] {
        client.create(path, b"", &PERSISTENT).await?;
    }
    for path in ["/app/jobs/a", "/app/jobs/ab", "/app/b", "/apple"] {
        client.create(path, b"", &ephemeral).await?;
    }
    other.create("/app/theirs", b"", &ephemeral).await?;
    let sorted = async |client: &Client, prefix: &str| {
        let mut paths = client.get_ephemerals(prefix).await?;
        paths.sort();
        Ok::<_, zk_client::Error>(paths)
    };
    let all = ["/app/b", "/app/jobs/a", "/app/jobs/ab", "/apple"];
    assert_eq!(sorted(&client, "/").await?, all);
    assert_eq!(sorted(&client, "/app").await?, all);
    assert_eq!(sorted(&client, "/app/").await?, all[..3]);
    assert_eq!(sorted(&client, "/app/jobs/a").await?, all[1..3]);
    assert_eq!(sorted(&client, "/none").await?, [""; 0]);
    assert_eq!(sorted(&other, "/").await?, ["/app/theirs"]);
    let error = client.get_ephemerals("jobs").await.expect_err("no path");
    assert_eq!(error.kind(), ErrorKind::InvalidPath);

    let inside = target.connect_at("/app").await?;
    for path in ["/jobs/c", "/d"] {
        inside.create(path, b"", &ephemeral).await?;
    }
    assert_eq!(sorted(&inside, "/").await?, ["/d", "/jobs/c"]);
    assert_eq!(sorted(&inside, "/jobs/").await?, ["/jobs/c"]);
    Ok(())
}

pub async fn descendants_are_counted_at_any_depth(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    for path in ["/app", "/app/a", "/app/a/b", "/app/c", "/apple"] {
        client.create(path, b"", &PERSISTENT).await?;
    }
    target.catch_up().await?;
    let inside = target.connect_at("/app").await?;
    assert_eq!(client.get_all_children_number("/app").await?, 3);
    assert_eq!(inside.get_all_children_number("/").await?, 3);
    assert_eq!(inside.get_all_children_number("/a/b").await?, 0);
    assert!(client.get_all_children_number("/none").await.expect_err("absent").is_no_node());
    Ok(())
}

pub async fn members_are_told_to_all_alike_and_changed_only_where_that_is_allowed(
    target: &Target,
) -> Result<()> {
    let outside = target.connect().await?;
    outside.create("/app", b"", &PERSISTENT).await?;
    target.catch_up().await?;
    let inside = target.connect_at("/app").await?;
    for client in [&outside, &inside] {
        let (config, _watch) = client.get_config_and_watch().await?;
        assert_eq!(client.get_config().await?, config);
        // The time at which the node was created differs from server to server.
        let same = outside.get_config().await?;
        assert_eq!((same.members, same.version), (config.members, config.version));
        let error = client.reconfig(Reconfig::Members(&[]), None).await.expect_err("not allowed");
        assert_eq!(error.code(), Some(ErrorCode::RECONFIG_DISABLED));
        assert!(client.exists("/").await?.is_some(), "the session goes on");
    }
    Ok(())
}

pub async fn nodes_with_a_time_to_live_are_created_alone_and_together(
    target: &Target,
) -> Result<()> {
    let client = target.connect().await?;
    let hour = PERSISTENT.ttl(Duration::from_secs(3600));
    let created = client.create("/t", b"data", &hour).await?;
    let owner = created.stat.map(|stat| stat.ephemeral_owner);
    assert_eq!((&*created.path, owner), ("/t", Some(SessionId(0))));
    let made = client.create("/t/s-", b"", &hour.sequential()).await?;
    assert_eq!(made.path, "/t/s-0000000000");
    let in_order = PERSISTENT.sequential().ttl(Duration::from_micros(1));
    let (one, other, ()) = client
        .multi((
            Op::create("/t/s-", b"", &in_order),
            Op::create("/t/m", b"", &hour),
            Op::check("/t/m", Some(0)),
        ))
        .await?;
    assert_eq!((&*one.path, &*other.path), ("/t/s-0000000001", "/t/m"));
    assert_eq!(client.get_children("/t").await?.names.len(), 3);

    let longest = PERSISTENT.ttl(Duration::from_millis((1 << 40) - 1));
    client.create("/longest", b"", &longest).await?;
    Ok(())
}

pub async fn a_time_to_live_that_no_server_would_take_is_refused_here(
    target: &Target,
) -> Result<()> {
    let client = target.connect().await?;
    let second = Duration::from_secs(1);
    for invalid in [
        PERSISTENT.ttl(Duration::ZERO),
        PERSISTENT.ttl(Duration::from_millis(1 << 40)),
        PERSISTENT.sequential().ttl(Duration::MAX),
        CreateOptions::ephemeral().ttl(second),
        CreateOptions::ephemeral().sequential().ttl(second),
        CreateOptions::container().ttl(second),
    ] {
        let error = client.create("/t", b"", &invalid).await.expect_err("no such node");
        assert_eq!(
            (error.kind(), error.outcome()),
            (ErrorKind::InvalidOptions, Outcome::NotApplied)
        );
        let ops = (Op::check("/", None), Op::create("/t", b"", &invalid));
        let error = client.multi(ops).await.expect_err("no such node");
        assert_eq!((error.kind(), error.failed_op()), (ErrorKind::InvalidOp, Some(1)));
    }
    assert_eq!(client.exists("/t").await?, None);
    Ok(())
}

pub async fn results_come_in_the_shape_of_the_operations(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let create = |path| Op::create(path, b"", &PERSISTENT);
    let (set, check) = (Op::set_data("/a", b"x", None), Op::check("/a", None));

    assert_eq!(client.multi(create("/a")).await?.path, "/a");
    let [b, c] = client.multi([create("/b"), create("/c")]).await?;
    assert_eq!((&*b.path, &*c.path), ("/b", "/c"));
    let paths = ["/d", "/e", "/f"];
    let made = client.multi(paths.iter().map(|path| create(path)).collect::<Vec<_>>()).await?;
    assert!(made.iter().map(|created| &created.path).eq(paths));
    assert_eq!(client.multi(&[set; 3][1..]).await?.len(), 2);

    // A shape inside another.
    let ((), stats, (created, stat)) =
        client.multi((check, vec![set; 2], &(create("/g"), set))).await?;
    let versions = stats.iter().chain([&stat]).map(|stat| stat.version).collect::<Vec<_>>();
    assert_eq!((versions, &*created.path), (vec![3, 4, 5], "/g"));
    let twelve =
        (set, check, set, check, set, check, set, check, set, check, set, Op::delete("/g", None));
    assert_eq!(twelve.count(), 12);
    let (.., eleventh, ()) = client.multi(twelve).await?;
    assert_eq!(eleventh.version, 11);

    // The index of the failed operation counts nested operations one by one.
    let ops = (check, [set, set], (Op::delete("/none", None), check));
    let error = client.multi(ops).await.expect_err("absent");
    assert_eq!((error.is_no_node(), error.failed_op()), (true, Some(3)));
    assert_eq!(client.get_data("/a").await?.stat.version, 11);
    Ok(())
}

pub async fn an_empty_transaction_is_committed_behind_all_that_was_seen(
    target: &Target,
) -> Result<()> {
    let clients = target.connect_to_each().await?;
    for (n, writer) in clients.iter().enumerate() {
        let (_, mut last) = writer.create(&format!("/{n}"), b"", &PERSISTENT).with_zxid().await?;
        for client in &clients {
            let (_, zxid) = client.multi(Vec::<Op<'_>>::new()).with_zxid().await?;
            assert!(zxid > last, "{zxid} behind {last}");
            last = zxid;
        }
    }
    Ok(())
}

pub async fn many_reads_are_one_request_and_fail_one_by_one(target: &Target) -> Result<()> {
    let outside = target.connect().await?;
    outside.create("/app", b"", &PERSISTENT).await?;
    let client = target.connect_at("/app").await?;
    let large = vec![7; 100_000];
    client.create("/a", &large, &PERSISTENT).await?;
    client.create("/a/c", b"c", &PERSISTENT).await?;
    let nobody = [Acl::new(Perms::ALL, Id::ip("10.0.0.1"))];
    client.create("/a/secret", b"s", &PERSISTENT.with_acl(&nobody)).await?;

    let (node, names, none, secret, child) = client
        .multi_read((
            Read::get_data("/a"),
            Read::get_children("/"),
            Read::get_data("/none"),
            Read::get_children("/a/secret"),
            Read::get_data("/a/c"),
        ))
        .await?;
    assert_eq!(node?, client.get_data("/a").await?);
    assert_eq!(names?, ["a"]);
    assert_eq!(&child?.data[..], b"c");
    let error = none.expect_err("absent");
    assert_eq!((error.is_no_node(), error.outcome()), (true, Outcome::NotApplied));
    assert_eq!(error.to_string(), "getData /none: NoNode");
    assert_eq!(secret.expect_err("not for us").code(), Some(ErrorCode::NO_AUTH));

    let any = vec![Read::get_children("/").any(), Read::get_data("/a/c").any()];
    let results = client.multi_read(&any).await?;
    let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let [ReadResult::Children(names), ReadResult::Data(node)] = results.as_slice() else {
        panic!("{results:?}");
    };
    assert_eq!(*names, ["a"]);
    assert_eq!(&node.data[..], b"c");

    client.multi_read(()).await?;
    assert_eq!(client.multi_read(Vec::<Read<'_>>::new()).await?.len(), 0);
    let error = client.multi_read([Read::get_data("/a"), Read::get_data("a")]).await;
    assert_eq!(error.expect_err("a rule").kind(), ErrorKind::InvalidPath);
    Ok(())
}

/// Its reply has no Stat, so this is all that tells which node it was.
pub async fn the_first_create_is_answered_with_the_czxid_of_its_node(
    target: &Target,
) -> Result<()> {
    let old = Dialect::apache().without(OpCode::CREATE2);
    let client = target.builder().dialect(old).connect(&target.servers()).await?;
    for options in [PERSISTENT, PERSISTENT.sequential(), CreateOptions::ephemeral().sequential()] {
        let created = client.create("/a-", b"", &options).await?;
        let stat = client.exists(&created.path).await?.context("created")?;
        assert_eq!((created.czxid, created.stat), (stat.czxid, None));
    }
    let options = CreateOptions::ephemeral().sequential();
    let owned = client.create_owned("/owned-", b"", &options).await?;
    let stat = client.exists(owned.path()).await?.context("created")?;
    assert_eq!(owned.czxid(), stat.czxid);
    assert!(owned.delete().await.is_ok());
    client.close().await;
    Ok(())
}
