//! Claims about operations beyond reading, writing and watching nodes, on servers that allow nodes
//! with a time to live and no change of their members.

use std::time::Duration;

use anyhow::Result;
use zk_client::{
    Acl, CreateOptions, Dialect, Error, ErrorCode, ErrorKind, Id, Op, OpCode, Outcome, Perms, Read,
    ReadResult, Reconfig, SessionId, SessionState,
};

use crate::claims::target::Target;
use crate::fault::{Fault, Faults};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

/// The code with which the server has refused the request, if it has.
fn refusal<T>(answer: Result<T, Error>) -> Option<ErrorCode> {
    answer.err().and_then(|error| error.code())
}

pub async fn an_access_list_says_who_may_do_what(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let no_auth = Some(ErrorCode::NO_AUTH);
    client.create("/r", b"", &PERSISTENT.with_acl(Acl::READ_ONLY)).await?;
    assert_eq!(refusal(client.set_data("/r", b"", None).await), no_auth);

    let perms = Perms::CREATE | Perms::WRITE | Perms::ADMIN;
    let here = [Acl::new(perms, Id::ip("127.0.0.1")), Acl::new(Perms::DELETE, Id::ip("10.0.0.1"))];
    client.create("/w", b"", &PERSISTENT.with_acl(&here)).await?;
    client.create("/w/c", b"", &PERSISTENT).await?;
    assert_eq!(refusal(client.get_data("/w").await), no_auth);
    assert_eq!(refusal(client.delete("/w/c", None).await), no_auth);
    let list = client.get_acl("/w").await?;
    assert_eq!(list.acl, here, "who may change it may read it");

    // A client that read the list before this change cannot overwrite it.
    let acl = [Acl::new(Perms::ALL, Id::ip("127.0.0.0/8")), Acl::new(Perms::READ, Id::ANYONE)];
    let changed = client.set_acl("/w", &acl, Some(list.stat.aversion)).await?;
    assert_eq!((changed.aversion, changed.version, changed.mzxid), (1, 0, list.stat.mzxid));
    let stale = client.set_acl("/w", Acl::OPEN, Some(list.stat.aversion)).await;
    assert_eq!(refusal(stale), Some(ErrorCode::BAD_VERSION));
    // A leader checks against the old list until it has applied the new one itself, which may be
    // after a follower has answered.
    target.catch_up().await?;
    client.delete("/w/c", None).await?;

    // This connection has not authenticated.
    let creator = client.create("/i", b"", &PERSISTENT.with_acl(Acl::CREATOR_ALL)).await;
    assert_eq!(refusal(creator), Some(ErrorCode::INVALID_ACL));
    Ok(())
}

pub async fn only_the_owner_may_read_and_still_after_a_reconnect(target: &Target) -> Result<()> {
    let faults = Faults::over(target.way());
    let owner = target.builder().auth("digest", b"ann:secret").connector(faults.clone());
    let owner = owner.connect(&target.servers()).await?;
    let acl = [Acl::new(Perms::ALL, Id::digest("ann", "secret"))];
    owner.create("/hers", b"", &PERSISTENT.with_acl(&acl)).await?;

    let mut states = owner.states();
    faults.arm(Fault::LoseReply(OpCode::SET_DATA));
    let lost = owner.set_data("/hers", b"x", None);
    states.wait_for(|state| *state == SessionState::Disconnected).await?;
    // They are asked while there is no connection, so they are the first requests on the next one.
    let (synced, node) = (owner.sync("/"), owner.get_data("/hers"));
    synced.await?;
    assert_eq!(&node.await?.data[..], b"x");
    assert_eq!(lost.await.expect_err("its answer was lost").outcome(), Outcome::Unknown);

    let other = target.connect().await?;
    other.wait_for_zxid(owner.last_zxid()).await?;
    other.add_auth("digest", b"ann:wrong").await?;
    assert_eq!(refusal(other.get_data("/hers").await), Some(ErrorCode::NO_AUTH));
    other.add_auth("digest", b"ann:secret").await?;
    other.delete("/hers", None).await?;
    Ok(())
}

pub async fn what_is_below_a_path_is_counted_and_what_is_ones_own_is_listed(
    target: &Target,
) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let ephemeral = CreateOptions::ephemeral();
    for (path, options) in [
        ("/app", PERSISTENT),
        ("/app/jobs", PERSISTENT),
        ("/app/jobs/a", ephemeral),
        ("/app/jobs/ab", ephemeral),
        ("/app/b", ephemeral),
        ("/apple", ephemeral),
    ] {
        client.create(path, b"", &options).await?;
    }
    let inside = client.chroot("/app")?;
    let cases: [(_, _, &[&str]); 6] = [
        (&client, "/", &["/app/b", "/app/jobs/a", "/app/jobs/ab", "/apple"]),
        (&client, "/app", &["/app/b", "/app/jobs/a", "/app/jobs/ab", "/apple"]),
        (&client, "/app/", &["/app/b", "/app/jobs/a", "/app/jobs/ab"]),
        (&inside, "/", &["/b", "/jobs/a", "/jobs/ab"]),
        (&inside, "/jobs/a", &["/jobs/a", "/jobs/ab"]),
        (&other, "/", &[]),
    ];
    for (client, prefix, expected) in cases {
        let mut paths = client.get_ephemerals(prefix).await?;
        paths.sort();
        assert_eq!(paths, expected, "{prefix}");
    }
    let error = client.get_ephemerals("jobs").await.expect_err("no path");
    assert_eq!(error.kind(), ErrorKind::InvalidPath);
    for (client, path, count) in [(&client, "/app", 4), (&inside, "/", 4), (&inside, "/jobs", 2)] {
        assert_eq!(client.get_all_children_number(path).await?, count, "{path}");
    }
    Ok(())
}

pub async fn members_are_told_to_all_alike_and_changed_only_where_that_is_allowed(
    target: &Target,
) -> Result<()> {
    let outside = target.connect().await?;
    let inside = outside.chroot("/app")?;
    let (config, _watch) = inside.get_config_and_watch().await?;
    assert_eq!(outside.get_config().await?, config);
    // The time at which the node was created differs from server to server.
    for other in target.connect_to_each().await? {
        let same = other.get_config().await?;
        assert_eq!((&same.members, same.version), (&config.members, config.version));
    }
    let changing = inside.reconfig(Reconfig::Members(&[]), None).await;
    assert_eq!(refusal(changing), Some(ErrorCode::RECONFIG_DISABLED));
    assert!(outside.exists("/").await?.is_some(), "the session goes on");
    Ok(())
}

pub async fn nodes_with_a_time_to_live_are_created_alone_and_together(
    target: &Target,
) -> Result<()> {
    let client = target.connect().await?;
    let longest = PERSISTENT.ttl(Duration::from_millis((1 << 40) - 1));
    let created = client.create("/t", b"data", &longest).await?;
    let owner = created.stat.map(|stat| stat.ephemeral_owner);
    assert_eq!((&*created.path, owner), ("/t", Some(SessionId(0))));
    let in_order = PERSISTENT.sequential().ttl(Duration::from_micros(1));
    let ops = (Op::create("/t/s-", b"", &in_order), Op::check("/t", Some(0)));
    let (numbered, ()) = client.multi(ops).await?;
    assert_eq!(numbered.path, "/t/s-0000000000");

    // What no server would take is refused here.
    for invalid in [
        PERSISTENT.ttl(Duration::ZERO),
        PERSISTENT.sequential().ttl(Duration::from_millis(1 << 40)),
        CreateOptions::ephemeral().ttl(Duration::from_secs(1)),
        CreateOptions::container().ttl(Duration::from_secs(1)),
    ] {
        let error = client.create("/i", b"", &invalid).await.expect_err("no such node");
        let kind = (error.kind(), error.outcome());
        assert_eq!(kind, (ErrorKind::InvalidOptions, Outcome::NotApplied));
        let ops = (Op::check("/", None), Op::create("/i", b"", &invalid));
        let error = client.multi(ops).await.expect_err("no such node");
        assert_eq!((error.kind(), error.failed_op()), (ErrorKind::InvalidOp, Some(1)));
    }
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
    let client = outside.chroot("/app")?;
    let large = vec![7; 100_000];
    client.create("/a", &large, &PERSISTENT).await?;
    let nobody = [Acl::new(Perms::ALL, Id::ip("10.0.0.1"))];
    client.create("/a/secret", b"s", &PERSISTENT.with_acl(&nobody)).await?;

    let asked = ["/none", "/a/secret"].map(Read::get_data);
    let reads = (Read::get_data("/a"), Read::get_children("/"), asked);
    let (node, names, [none, secret]) = client.multi_read(reads).await?;
    assert_eq!(node?, client.get_data("/a").await?);
    assert_eq!(names?, ["a"]);
    let error = none.expect_err("absent");
    assert_eq!((error.is_no_node(), error.outcome()), (true, Outcome::NotApplied));
    assert_eq!(error.to_string(), "getData /none: NoNode");
    assert_eq!(refusal(secret), Some(ErrorCode::NO_AUTH));

    let any = vec![Read::get_children("/").any(), Read::get_data("/a").any()];
    let results = client.multi_read(&any).await?.into_iter().collect::<Result<Vec<_>, _>>()?;
    let [ReadResult::Children(names), ReadResult::Data(node)] = results.as_slice() else {
        panic!("{results:?}");
    };
    assert_eq!(*names, ["a"]);
    assert_eq!(node.data, large);

    client.multi_read(()).await?;
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
    let created = client.create("/a", b"", &PERSISTENT).await?;
    let options = CreateOptions::ephemeral().sequential();
    let owned = client.create_owned("/owned-", b"", &options).await?;
    assert_eq!(created.stat, None);
    for (path, czxid) in [(&*created.path, created.czxid), (owned.path(), owned.czxid())] {
        assert_eq!(client.exists(path).await?.map(|stat| stat.czxid), Some(czxid), "{path}");
    }
    Ok(())
}
