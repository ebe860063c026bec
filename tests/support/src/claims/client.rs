//! Claims about the client on a server: its operations, its watches, and the end of its session.

#![expect(missing_docs, reason = "the names are the claims")]

use std::future::poll_fn;
use std::task::Poll;

use anyhow::{Context, Result};
use zk_client::{
    Acl, Client, CreateOptions, ErrorCode, ErrorKind, EventType, Id, Op, OpResult, Operations,
    Outcome, OwnedNode, Perms, SessionState, StreamEvent, WatchMode, WatchStream, Watcher,
};

use crate::claims::target::Target;

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

async fn sees(watch: &mut Watcher, kind: EventType, path: &str) -> Result<bool> {
    let event = watch.changed().await?;
    assert_eq!((event.kind, event.path.as_str()), (kind, path));
    Ok(event.missed)
}

pub async fn every_operation_does_what_zookeeper_does(target: &Target) -> Result<()> {
    let client = target.connect().await?;

    let created = client.create("/a", b"one", &PERSISTENT).await?;
    assert_eq!((created.path.as_str(), created.stat.map(|stat| stat.version)), ("/a", Some(0)));
    let error = client.create("/a", b"", &PERSISTENT).await.expect_err("it exists");
    assert!(error.is_node_exists());
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied));

    let sequential = CreateOptions::ephemeral().sequential();
    for expected in ["/a/s-0000000000", "/a/s-0000000001"] {
        let created = client.create("/a/s-", b"", &sequential).await?;
        assert_eq!(created.path, expected);
        let owner = created.stat.map(|stat| stat.ephemeral_owner);
        assert_eq!(owner, client.session().map(|own| own.id));
    }
    let container = client.create("/c", b"", &CreateOptions::container()).await?;
    assert_eq!(container.stat.map(|stat| stat.ephemeral_owner.0), Some(0));

    let node = client.get_data("/a").await?;
    assert_eq!((&node.data[..], node.stat.num_children), (&b"one"[..], 2));
    let stat = client.set_data("/a", b"two", Some(0)).await?;
    assert_eq!(stat.version, 1);
    let error = client.set_data("/a", b"three", Some(0)).await.expect_err("a stale version");
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
    assert_eq!(client.exists("/a").await?.map(|stat| stat.version), Some(1));
    assert_eq!(client.exists("/nothing").await?, None);

    let children = client.get_children("/a").await?;
    let mut names = children.names.iter().collect::<Vec<_>>();
    names.sort_unstable();
    assert_eq!(names, ["s-0000000000", "s-0000000001"]);
    client.sync("/a").await?;
    let error = client.delete("/a", None).await.expect_err("it has children");
    assert_eq!(error.code(), Some(ErrorCode::NOT_EMPTY));
    client.delete("/a/s-0000000000", Some(0)).await?;
    assert_eq!(client.get_children("/a").await?.names, ["s-0000000001"]);
    assert!(client.get_data("/nothing").await.expect_err("absent").is_no_node());
    Ok(())
}

pub async fn calls_reach_the_server_in_call_order_however_they_are_awaited(
    target: &Target,
) -> Result<()> {
    let client = target.connect().await?;
    client.create("/n", b"", &PERSISTENT).await?;
    let mut writes = Vec::new();
    for n in 0..500 {
        writes.push((n, client.set_data("/n", n.to_string().as_bytes(), Some(n))));
    }
    for (n, write) in writes.into_iter().rev() {
        assert_eq!(write.await?.version, n + 1);
    }
    Ok(())
}

pub async fn watches_see_each_kind_of_change_once(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let (absent, mut created) = client.exists_and_watch("/w").await?;
    assert_eq!(absent, None);
    other.create("/w", b"1", &PERSISTENT).await?;
    sees(&mut created, EventType::NODE_CREATED, "/w").await?;

    let (node, mut data) = client.get_data_and_watch("/w").await?;
    assert_eq!(&node.data[..], b"1");
    let (_, mut children) = client.get_children_and_watch("/w").await?;
    other.create("/w/child", b"", &PERSISTENT).await?;
    sees(&mut children, EventType::NODE_CHILDREN_CHANGED, "/w").await?;
    other.set_data("/w", b"2", None).await?;
    sees(&mut data, EventType::NODE_DATA_CHANGED, "/w").await?;

    let (_, mut gone) = client.get_data_and_watch("/w/child").await?;
    other.delete("/w/child", None).await?;
    assert!(!sees(&mut gone, EventType::NODE_DELETED, "/w/child").await?);
    let spent = gone.changed().await.expect_err("a watch is one-shot");
    assert_eq!((spent.kind(), spent.is_session_over()), (ErrorKind::WatchSpent, false));
    Ok(())
}

/// The events in the stream now, as `NodeCreated /a` or `Rearmed`.
async fn heard(stream: &mut WatchStream) -> Result<Vec<String>> {
    let mut heard = Vec::new();
    loop {
        let next = poll_fn(|cx| Poll::Ready(stream.poll_next(cx))).await;
        match next {
            Poll::Pending => return Ok(heard),
            Poll::Ready(event) => heard.push(match event? {
                StreamEvent::Changed(event) => format!("{} {}", event.kind, event.path),
                event => format!("{event:?}"),
            }),
        }
    }
}

/// Creates, changes and deletes `/w`, its child and its grandchild. The client has received all
/// events.
async fn stir(client: &Client, other: &Client) -> Result<()> {
    let nodes = ["/w", "/w/a", "/w/a/b"];
    for path in nodes {
        other.create(path, b"", &PERSISTENT).await?;
    }
    other.create("/wx", b"", &PERSISTENT).await?;
    for path in nodes {
        other.set_data(path, b"x", None).await?;
    }
    for path in nodes.into_iter().rev() {
        other.delete(path, None).await?;
    }
    client.wait_for_zxid(other.last_zxid()).await?;
    Ok(())
}

pub async fn a_stream_tells_every_change_of_its_node(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let mut stream = client.watch("/w", WatchMode::Persistent).await?;
    stir(&client, &other).await?;
    let expected = [
        "NodeCreated /w",
        "NodeChildrenChanged /w",
        "NodeDataChanged /w",
        "NodeChildrenChanged /w",
        "NodeDeleted /w",
    ];
    assert_eq!(heard(&mut stream).await?, expected);
    Ok(())
}

pub async fn a_recursive_stream_tells_every_change_below_its_node(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let mut stream = client.watch("/w", WatchMode::PersistentRecursive).await?;
    let mut root = client.watch("/", WatchMode::PersistentRecursive).await?;
    // The server notifies this client that children changed, but the streams ignore that.
    let (_, mut children) = client.get_children_and_watch("/").await?;
    stir(&client, &other).await?;
    let mut expected = ["/w", "/w/a", "/w/a/b"].map(|path| format!("NodeCreated {path}")).to_vec();
    expected.extend(["/w", "/w/a", "/w/a/b"].map(|path| format!("NodeDataChanged {path}")));
    expected.extend(["/w/a/b", "/w/a", "/w"].map(|path| format!("NodeDeleted {path}")));
    assert_eq!(heard(&mut stream).await?, expected);
    expected.insert(3, "NodeCreated /wx".to_owned());
    assert_eq!(heard(&mut root).await?, expected);
    sees(&mut children, EventType::NODE_CHILDREN_CHANGED, "/").await?;
    Ok(())
}

/// Servers before 3.9 have one kind of watch for each path of a connection.
pub async fn a_recursive_stream_outlives_every_other_watch_at_its_path(
    target: &Target,
) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let mut stream = client.watch("/w", WatchMode::PersistentRecursive).await?;
    client.create("/w", b"", &PERSISTENT).await?;
    assert_eq!(heard(&mut stream).await?, ["NodeCreated /w"]);
    for round in 0..3 {
        let path = format!("/w/{round}");
        let (_, mut data) = client.get_data_and_watch("/w").await?;
        let (_, mut children) = client.get_children_and_watch("/w").await?;
        let (_, mut exists) = client.exists_and_watch("/w").await?;
        // Until the client knows that its watch is set again, the stream may miss changes.
        client.sync("/").await?;
        client.sync("/").await?;
        let told = heard(&mut stream).await?;
        assert!(!told.is_empty() && told.iter().all(|event| event == "Rearmed"), "{told:?}");

        other.create(&path, b"", &PERSISTENT).await?;
        let event = children.changed().await?;
        assert_eq!((event.kind, event.path.as_str()), (EventType::NODE_CHILDREN_CHANGED, "/w"));
        other.set_data("/w", b"", None).await?;
        sees(&mut data, EventType::NODE_DATA_CHANGED, "/w").await?;
        sees(&mut exists, EventType::NODE_DATA_CHANGED, "/w").await?;
        other.set_data(&path, b"", None).await?;
        client.wait_for_zxid(other.last_zxid()).await?;
        let expected = [
            format!("NodeCreated {path}"),
            "NodeDataChanged /w".to_owned(),
            format!("NodeDataChanged {path}"),
        ];
        assert_eq!(heard(&mut stream).await?, expected);
    }
    // A child watch alone takes nothing from the stream.
    let (_, mut children) = client.get_children_and_watch("/w").await?;
    for child in ["a", "b"] {
        other.create(&format!("/w/{child}"), b"", &PERSISTENT).await?;
    }
    sees(&mut children, EventType::NODE_CHILDREN_CHANGED, "/w").await?;
    client.wait_for_zxid(other.last_zxid()).await?;
    assert_eq!(heard(&mut stream).await?, ["NodeCreated /w/a", "NodeCreated /w/b"]);
    Ok(())
}

pub async fn a_persistent_stream_outlives_every_other_watch_at_its_path(
    target: &Target,
) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    client.create("/w", b"", &PERSISTENT).await?;
    let mut stream = client.watch("/w", WatchMode::Persistent).await?;
    let (_, mut data) = client.get_data_and_watch("/w").await?;
    let (_, mut children) = client.get_children_and_watch("/w").await?;
    client.sync("/").await?;
    client.sync("/").await?;
    assert_eq!(heard(&mut stream).await?.last().map(String::as_str), Some("Rearmed"));
    for child in ["a", "b"] {
        other.set_data("/w", b"", None).await?;
        other.create(&format!("/w/{child}"), b"", &PERSISTENT).await?;
    }
    sees(&mut data, EventType::NODE_DATA_CHANGED, "/w").await?;
    sees(&mut children, EventType::NODE_CHILDREN_CHANGED, "/w").await?;
    client.wait_for_zxid(other.last_zxid()).await?;
    let each = ["NodeDataChanged /w", "NodeChildrenChanged /w"];
    assert_eq!(heard(&mut stream).await?, [each, each].concat());
    Ok(())
}

pub async fn a_stream_takes_nothing_from_the_watches_at_its_path(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    client.create("/w", b"", &PERSISTENT).await?;
    for mode in [WatchMode::Persistent, WatchMode::PersistentRecursive] {
        let child = format!("/w/{mode:?}");
        let (_, mut data) = client.get_data_and_watch("/w").await?;
        let (_, mut children) = client.get_children_and_watch("/w").await?;
        let mut node = client.watch("/w", WatchMode::Persistent).await?;
        let stream = client.watch("/w", mode).await?;
        other.create(&child, b"", &PERSISTENT).await?;
        sees(&mut children, EventType::NODE_CHILDREN_CHANGED, "/w").await?;
        other.set_data("/w", b"", None).await?;
        sees(&mut data, EventType::NODE_DATA_CHANGED, "/w").await?;
        client.wait_for_zxid(other.last_zxid()).await?;
        assert_eq!(heard(&mut node).await?, ["NodeChildrenChanged /w", "NodeDataChanged /w"]);
        drop(stream);
    }
    Ok(())
}

pub async fn a_stream_that_is_dropped_leaves_the_others_at_its_path_alone(
    target: &Target,
) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    client.create("/w", b"", &PERSISTENT).await?;
    let mut kept = client.watch("/w", WatchMode::Persistent).await?;
    let (_, mut children) = client.get_children_and_watch("/w").await?;
    drop(client.watch("/w", WatchMode::PersistentRecursive).await?);
    let (_, dropped) = client.get_data_and_watch("/w").await?;
    drop(dropped);
    client.sync("/").await?;
    client.sync("/").await?;
    let told = heard(&mut kept).await?;
    assert!(told.iter().all(|event| event == "Rearmed"), "{told:?}");
    other.create("/w/a", b"", &PERSISTENT).await?;
    sees(&mut children, EventType::NODE_CHILDREN_CHANGED, "/w").await?;
    client.wait_for_zxid(other.last_zxid()).await?;
    assert_eq!(heard(&mut kept).await?, ["NodeChildrenChanged /w"]);

    // The last stream is removed, and a stream that is set after it stays.
    drop(kept);
    let mut next = client.watch("/w", WatchMode::Persistent).await?;
    other.delete("/w/a", None).await?;
    client.wait_for_zxid(other.last_zxid()).await?;
    assert_eq!(heard(&mut next).await?, ["NodeChildrenChanged /w"]);
    Ok(())
}

pub async fn a_stream_has_all_changes_before_the_reply_that_reflects_them(
    target: &Target,
) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let mut stream = client.watch("/", WatchMode::PersistentRecursive).await?;
    for n in 0..200 {
        let path = format!("/{n}");
        let by = if n % 2 == 0 { &client } else { &other };
        by.create(&path, b"", &PERSISTENT).await?;
        if n % 2 == 1 {
            client.wait_for_zxid(other.last_zxid()).await?;
        }
        assert_eq!(heard(&mut stream).await?, [format!("NodeCreated {path}")]);
    }
    client.close().await;
    let error = stream.next().await.expect_err("the session is over");
    assert_eq!((error.kind(), error.is_session_over()), (ErrorKind::Closed, true));
    Ok(())
}

pub async fn what_nobody_waits_for_is_not_watched(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let watched = async || {
        client.sync("/").await?;
        client.sync("/").await?;
        target.watched().await
    };
    client.create("/w", b"", &PERSISTENT).await?;
    let tree = client.watch("/w", WatchMode::PersistentRecursive).await?;
    let node = client.watch("/v", WatchMode::Persistent).await?;
    let (_, data) = client.get_data_and_watch("/w").await?;
    let (_, exists) = client.exists_and_watch("/absent").await?;
    assert_eq!(watched().await?, 3);
    drop((tree, node));
    assert_eq!(watched().await?, 2, "the data of /w and /absent");
    drop((data, exists));
    // These callers leave before the reply.
    drop(client.watch("/w", WatchMode::PersistentRecursive));
    drop(client.get_data_and_watch("/w"));
    assert_eq!(watched().await?, 0);
    Ok(())
}

pub async fn a_session_that_the_server_ended_is_expired_for_good(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let (_, mut watch) = client.exists_and_watch("/never").await?;
    // Resuming the session disconnects the first client, and closing it is an expiry for that
    // client.
    let session = client.session().context("a session")?;
    let thief = target.builder().session(session).connect(&target.servers()).await?;
    assert_eq!(thief.session(), Some(session));
    thief.close().await;

    client.states().wait_for(|state| *state == SessionState::Expired).await?;
    let error = client.get_data("/").await.map(drop).expect_err("expired");
    assert_eq!(error.kind(), ErrorKind::SessionExpired, "{error}");
    match watch.changed().await {
        Err(error) => assert_eq!(error.kind(), ErrorKind::SessionExpired, "{error}"),
        // On a slow machine the two clients take the session from each other again and again, each
        // time before the watch is armed. Then the client gives the watch up and says so.
        Ok(event) => assert!(event.missed, "{event:?}"),
    }
    let again = target.builder().session(session).connect(&target.servers()).await;
    assert_eq!(again.expect_err("expired").kind(), ErrorKind::SessionExpired);
    client.close().await;
    Ok(())
}

pub async fn close_ends_the_session_on_the_server(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    client.create("/eph", b"", &CreateOptions::ephemeral()).await?;
    other.wait_for_zxid(client.last_zxid()).await?;
    let (stat, mut watch) = other.exists_and_watch("/eph").await?;
    assert!(stat.is_some());
    let pending = client.get_data("/eph");
    client.close().await;
    pending.await?;
    assert_eq!(client.state(), SessionState::Closed);
    other.wait_for_zxid(client.last_zxid()).await?;
    assert_eq!(other.exists("/eph").await?, None);
    sees(&mut watch, EventType::NODE_DELETED, "/eph").await?;

    // Dropping the last handle closes the session too.
    let client = target.connect().await?;
    client.create("/eph", b"", &CreateOptions::ephemeral()).await?;
    other.wait_for_zxid(client.last_zxid()).await?;
    let (_, mut watch) = other.exists_and_watch("/eph").await?;
    drop(client);
    sees(&mut watch, EventType::NODE_DELETED, "/eph").await?;
    Ok(())
}

pub async fn a_chroot_is_the_clients_root(target: &Target) -> Result<()> {
    let outside = target.connect().await?;
    let missing = target.connect_at("/app").await.expect_err("no chroot");
    assert!(missing.to_string().contains("/app of the connect string"), "{missing}");

    outside.create("/app", b"root", &PERSISTENT).await?;
    target.catch_up().await?;
    let inside = target.connect_at("/app").await?;
    assert_eq!(&inside.get_data("/").await?.data[..], b"root");
    let (_, mut watch) = inside.exists_and_watch("/a").await?;
    assert_eq!(inside.create("/a", b"", &PERSISTENT).await?.path, "/a");
    sees(&mut watch, EventType::NODE_CREATED, "/a").await?;
    outside.wait_for_zxid(inside.last_zxid()).await?;
    assert!(outside.exists("/app/a").await?.is_some());
    Ok(())
}

pub async fn a_multi_happens_as_a_whole_and_tells_in_order(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let sequential = PERSISTENT.sequential();
    let (parent, numbered, container, set, (), ()) = client
        .multi((
            Op::create("/m", b"one", &PERSISTENT),
            [Op::create("/m/s-", b"", &sequential); 2],
            Op::create("/m/c", b"", &CreateOptions::container()),
            Op::set_data("/m", b"two", Some(0)),
            Op::check("/m", Some(1)),
            Op::delete("/m/c", None),
        ))
        .await?;
    assert_eq!((&*parent.path, &*container.path), ("/m", "/m/c"));
    let paths = numbered.each_ref().map(|created| created.path.as_str());
    assert_eq!(paths, ["/m/s-0000000000", "/m/s-0000000001"]);
    let node = client.get_data("/m").await?;
    assert_eq!((&node.data[..], node.stat.version), (&b"two"[..], 1));
    assert_eq!((set.version, set.mzxid, set.czxid), (1, node.stat.mzxid, node.stat.mzxid));
    assert_eq!((parent.czxid, container.czxid), (node.stat.czxid, node.stat.czxid));
    assert_eq!((parent.stat, container.stat), (None, None));
    assert_eq!(client.get_children("/m").await?.names.len(), 2);

    client.multi(()).await?;
    assert_eq!(client.multi(Vec::<Op<'_>>::new()).await?, []);
    let any = [Op::create("/m/a", b"", &PERSISTENT).any(), Op::delete("/m/a", None).any()];
    match client.multi(&any[..]).await?.as_slice() {
        [OpResult::Created(created), OpResult::Deleted] => assert_eq!(created.path, "/m/a"),
        other => panic!("{other:?}"),
    }
    Ok(())
}

pub async fn a_refused_multi_changes_nothing_and_tells_which_operation_failed(
    target: &Target,
) -> Result<()> {
    let client = target.connect().await?;
    client.create("/r", b"", &PERSISTENT).await?;
    let good = Op::create("/r/a", b"", &PERSISTENT);
    let bad = [
        (Op::create("/r", b"", &PERSISTENT).any(), ErrorCode::NODE_EXISTS),
        (Op::create("/none/a", b"", &PERSISTENT).any(), ErrorCode::NO_NODE),
        (Op::delete("/r", None).any(), ErrorCode::NOT_EMPTY),
        (Op::set_data("/r", b"", Some(7)).any(), ErrorCode::BAD_VERSION),
        (Op::check("/r", Some(7)).any(), ErrorCode::BAD_VERSION),
        (Op::check("/none", None).any(), ErrorCode::NO_NODE),
    ];
    for (bad, code) in bad {
        let error = client.multi((good, bad, good)).await.expect_err("one is bad");
        assert_eq!((error.code(), error.failed_op()), (Some(code), Some(1)), "{bad:?}");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied));
    }
    assert_eq!(client.get_children("/r").await?.names, [""; 0]);
    let error = client.multi(Op::delete("/none", None)).await.expect_err("absent");
    assert_eq!((error.is_no_node(), error.failed_op()), (true, Some(0)));
    assert_eq!(error.to_string(), "operation 0 of a multi, delete /none: NoNode");
    Ok(())
}

pub async fn a_multi_happens_below_the_chroot(target: &Target) -> Result<()> {
    let outside = target.connect().await?;
    outside.create("/app", b"", &PERSISTENT).await?;
    target.catch_up().await?;
    let inside = target.connect_at("/app").await?;
    let ops = (
        Op::create("/a", b"", &PERSISTENT),
        Op::check("/", None),
        Op::create("/b", b"", &CreateOptions::container()),
        Op::create("/a/s-", b"", &PERSISTENT.sequential()),
    );
    let (a, (), b, numbered) = inside.multi(ops).await?;
    let paths = [a, b, numbered].map(|created| created.path);
    assert_eq!(paths, ["/a", "/b", "/a/s-0000000000"]);
    outside.wait_for_zxid(inside.last_zxid()).await?;
    assert!(outside.exists("/app/a/s-0000000000").await?.is_some());

    let ops = Op::create_owned("/o-", b"", &OWNED);
    let [node] = owned(&inside, ops).await?.try_into().expect("one");
    assert_eq!(node.path(), "/o-0000000002");
    outside.wait_for_zxid(inside.last_zxid()).await?;
    assert!(outside.exists("/app/o-0000000002").await?.is_some());
    node.delete().await?;
    Ok(())
}

async fn owned(client: &Client, ops: impl Operations) -> Result<Vec<OwnedNode>> {
    let mut nodes = Vec::new();
    for reply in client.multi_owned(ops) {
        nodes.push(reply.await?);
    }
    Ok(nodes)
}

pub async fn owned_nodes_of_a_multi_go_with_their_owners(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    client.create("/l", b"", &PERSISTENT).await?;
    let stem = format!("/l/{:032x}-", client.unique());
    let at = format!("/l/{:032x}-0000000123", client.unique());
    let ops = (
        Op::check("/l", None),
        Op::create_owned(&stem, b"first", &OWNED),
        Op::create("/l/other", b"", &PERSISTENT),
        Op::create_owned(&at, b"second", &CreateOptions::ephemeral()),
    );
    let [first, second] = owned(&client, &ops).await?.try_into().expect("two");
    assert_eq!((first.path(), second.path()), (&*format!("{stem}0000000000"), &*at));
    let own = client.session().context("a session")?.id;
    other.wait_for_zxid(client.last_zxid()).await?;
    for (node, data) in [(&first, "first"), (&second, "second")] {
        let there = other.get_data(node.path()).await?;
        assert_eq!((there.stat.czxid, there.stat.ephemeral_owner), (node.czxid(), own));
        assert_eq!(there.data, data);
    }

    // The multi is refused: every reply has the reason, and nothing is left.
    for reply in client.multi_owned(ops) {
        let error = reply.await.expect_err("it exists");
        assert_eq!((error.is_node_exists(), error.failed_op()), (true, Some(2)), "{error}");
    }
    assert_eq!(client.get_children("/l").await?.names.len(), 3);

    let (_, mut gone) = other.exists_and_watch(first.path()).await?;
    let path = first.path().to_owned();
    drop(first);
    sees(&mut gone, EventType::NODE_DELETED, &path).await?;
    second.disown();
    client.sync("/l").await?;
    assert!(client.exists(&at).await?.is_some(), "forgotten and not deleted");

    let single = client.create_owned(&stem, b"", &OWNED).await?;
    let stat = client.exists(single.path()).await?.context("just created")?;
    assert_eq!(single.czxid(), stat.czxid);
    Ok(())
}

pub async fn an_owned_node_takes_the_place_of_another(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    client.create("/r", b"", &PERSISTENT).await?;
    let replace = |old: OwnedNode| {
        let stem = format!("/r/{:032x}-", client.unique());
        let path = old.path().to_owned();
        let reply = client.batch(|| {
            drop(old);
            client.replace_owned(&path, &stem, b"data", &OWNED)
        });
        reply.context("nothing was asked for in between")
    };
    let first = client.create_owned("/r/first-", b"", &OWNED).await?;
    // A server that lags behind would send an event of this create too.
    other.wait_for_zxid(client.last_zxid()).await?;
    let mut below = other.watch("/r", WatchMode::PersistentRecursive).await?;
    let gone = first.path().to_owned();
    let second = replace(first)?.await?;
    assert!(second.path().ends_with("-0000000001"), "{}", second.path());
    let stat = client.exists(second.path()).await?.context("just created")?;
    assert_eq!(second.czxid(), stat.czxid);
    assert_eq!(Some(stat.ephemeral_owner), client.session().map(|own| own.id));
    // One transaction deletes the old node and creates the new one; the event of the new one comes
    // first.
    let mut told = Vec::new();
    for _ in 0..2 {
        if let StreamEvent::Changed(event) = below.next().await? {
            told.push((event.kind, event.path));
        }
    }
    let came = second.path().to_owned();
    assert_eq!(told, [(EventType::NODE_CREATED, came), (EventType::NODE_DELETED, gone)]);

    // Another client was faster: nothing is created, and asking again helps.
    let path = second.path().to_owned();
    other.delete(&path, None).await?;
    let error = replace(second)?.await.expect_err("it is gone");
    assert_eq!((error.is_no_node(), error.failed_op()), (true, Some(1)), "{error}");
    let told = error.to_string();
    assert!(told.starts_with("operation 1 of a multi, delete behind /r/"), "{told}");
    assert!(client.get_children("/r").await?.names.is_empty());
    // For a node that no longer exists, no request is sent either.
    assert!(client.replace_owned(&path, "/r/third-", b"", &OWNED).is_none());
    let third = client.create_owned("/r/third-", b"", &OWNED).await?;
    let path = third.path().to_owned();

    // The create is refused, and the old node is deleted all the same.
    let nobody = [Acl::new(Perms::ALL, Id::new("nosuch", "x"))];
    let refused = client.batch(|| {
        drop(third);
        client.replace_owned(&path, "/r/fourth-", b"", &OWNED.with_acl(&nobody))
    });
    let refused = refused.context("nothing was asked for in between")?;
    let error = refused.await.expect_err("there is no such scheme");
    assert_eq!((error.code(), error.failed_op()), (Some(ErrorCode::INVALID_ACL), None), "{error}");
    client.sync("/r").await?;
    assert!(client.get_children("/r").await?.names.is_empty());
    Ok(())
}

pub async fn a_node_is_adopted_by_its_session_alone(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let ephemeral = CreateOptions::ephemeral();
    let created = client.create("/mine", b"", &ephemeral).await?;
    other.create("/theirs", b"", &ephemeral).await?;
    client.wait_for_zxid(other.last_zxid()).await?;
    for path in ["/theirs", "/"] {
        let error = client.adopt(path).await.expect_err("not ours");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::NotOwned, Outcome::NotApplied));
    }
    assert!(client.adopt("/none").await.expect_err("absent").is_no_node());

    let node = client.adopt("/mine").await?;
    assert_eq!((node.path(), node.czxid()), ("/mine", created.czxid));
    drop(node);
    client.sync("/").await?;
    assert_eq!(client.exists("/mine").await?, None);
    assert!(client.exists("/theirs").await?.is_some());
    Ok(())
}

pub async fn a_session_that_was_detached_is_taken_up_with_its_nodes(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let stem = format!("/{:032x}-", client.unique());
    let node = client.create_owned(&stem, b"", &OWNED).await?;
    let (path, czxid) = (node.path().to_owned(), node.czxid());
    let pending = client.create("/pending", b"", &CreateOptions::ephemeral());
    let session = client.detach().await.context("a session to take up")?;
    pending.await?;
    drop(node);
    assert_eq!(client.state(), SessionState::Closed);
    assert_eq!(client.get_data("/").await.expect_err("detached").kind(), ErrorKind::Closed);
    other.wait_for_zxid(client.last_zxid()).await?;
    drop(client);
    for path in [path.as_str(), "/pending"] {
        let there = other.exists(path).await?.context("it stays")?;
        assert_eq!(there.ephemeral_owner, session.id);
    }

    let heir = target.builder().session(session).connect(&target.servers()).await?;
    assert_eq!(heir.session(), Some(session));
    heir.sync("/").await?;
    let node = heir.adopt(&path).await?;
    assert_eq!(node.czxid(), czxid);
    node.delete().await?;
    other.wait_for_zxid(heir.last_zxid()).await?;
    assert_eq!(other.exists(&path).await?, None);
    heir.close().await;
    other.wait_for_zxid(heir.last_zxid()).await?;
    assert_eq!(other.exists("/pending").await?, None, "it went with its session");
    Ok(())
}

pub async fn what_cannot_be_sent_is_refused_here_and_what_can_is_taken_there(
    target: &Target,
) -> Result<()> {
    let client = target.connect().await?;
    let error = client.create("/big", &[0; 2 << 20], &PERSISTENT).await.expect_err("2 MiB");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::TooLarge, Outcome::NotApplied));
    assert!(error.to_string().contains("1048575"), "{error}");
    // The largest data that fits: the limit less header, path, access list and the lengths.
    let path = format!("{}/big", target.root());
    let overhead = 8 + 4 + path.len() + 4 + 4 + 4 + 4 + "world".len() + 4 + "anyone".len() + 4;
    let data = vec![7; 0xf_ffff - overhead];
    client.create("/big", &data, &PERSISTENT).await?;
    assert_eq!(client.get_data("/big").await?.data, data);
    let error = client.create("/big2", &data, &PERSISTENT).await.expect_err("one byte more");
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    Ok(())
}
