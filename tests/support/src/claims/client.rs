//! Claims about the client on a server: its watches, its transactions, and the nodes that it owns.

use std::future::poll_fn;
use std::task::Poll;

use anyhow::{Context, Result};
use zk_client::{
    CreateOptions, ErrorCode, ErrorKind, EventType, Op, OpResult, Outcome, OwnedNode, SessionState,
    StreamEvent, WatchMode, WatchStream, Watcher,
};

use crate::claims::target::Target;

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

/// The events in the stream now, as `NodeCreated /a` or `Rearmed`.
async fn heard(stream: &mut WatchStream) -> Result<Vec<String>> {
    let mut heard = Vec::new();
    while let Poll::Ready(event) = poll_fn(|cx| Poll::Ready(stream.poll_next(cx))).await {
        heard.push(match event? {
            StreamEvent::Changed(event) => format!("{} {}", event.kind, event.path),
            event => format!("{event:?}"),
        });
    }
    Ok(heard)
}

async fn sees(watch: &mut Watcher, kind: EventType, path: &str) -> Result<()> {
    let event = watch.changed().await?;
    assert_eq!((event.kind, event.path.as_str()), (kind, path));
    let spent = watch.changed().await.expect_err("a watch is one-shot");
    assert_eq!((spent.kind(), spent.is_session_over()), (ErrorKind::WatchSpent, false));
    Ok(())
}

/// Servers before 3.9 have one kind of watch for each path of a connection.
pub async fn watches_and_streams_at_one_path_leave_each_other_alone(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let [node, tree] = [WatchMode::Persistent, WatchMode::PersistentRecursive];
    for (mode, another, path) in [(node, tree, "/node"), (tree, node, "/tree")] {
        client.create(path, b"", &PERSISTENT).await?;
        other.wait_for_zxid(client.last_zxid()).await?;
        let watches = async || {
            let (_, data) = client.get_data_and_watch(path).await?;
            let (_, children) = client.get_children_and_watch(path).await?;
            anyhow::Ok((data, children))
        };
        let is_rearmed = async |stream: &mut WatchStream| {
            // Until the client knows that its watch is set again, the stream may miss changes.
            client.sync("/").await?;
            client.sync("/").await?;
            let told = heard(stream).await?;
            assert!(told.iter().all(|event| event == "Rearmed"), "{told:?}");
            anyhow::Ok(!told.is_empty())
        };
        let all_see = async |watches: (Watcher, Watcher), stream: &mut WatchStream, child| {
            let (mut data, mut children) = watches;
            let child = format!("{path}/{child}");
            other.create(&child, b"", &PERSISTENT).await?;
            sees(&mut children, EventType::NODE_CHILDREN_CHANGED, path).await?;
            other.set_data(path, b"", None).await?;
            sees(&mut data, EventType::NODE_DATA_CHANGED, path).await?;
            client.wait_for_zxid(other.last_zxid()).await?;
            let first = match mode {
                WatchMode::Persistent => format!("NodeChildrenChanged {path}"),
                _ => format!("NodeCreated {child}"),
            };
            assert_eq!(heard(stream).await?, [first, format!("NodeDataChanged {path}")]);
            anyhow::Ok(())
        };

        let earlier = watches().await?;
        let mut stream = client.watch(path, mode).await?;
        is_rearmed(&mut stream).await?;
        all_see(earlier, &mut stream, 'a').await?;

        let later = watches().await?;
        assert!(is_rearmed(&mut stream).await?, "it may have missed something");
        all_see(later, &mut stream, 'b').await?;

        let kept = watches().await?;
        drop(client.watch(path, another).await?);
        drop(client.get_data_and_watch(path).await?);
        is_rearmed(&mut stream).await?;
        all_see(kept, &mut stream, 'c').await?;

        // The last stream is removed, and a stream that is set after it stays.
        drop(stream);
        let mut next = client.watch(path, mode).await?;
        let later = watches().await?;
        is_rearmed(&mut next).await?;
        all_see(later, &mut next, 'd').await?;
    }
    Ok(())
}

pub async fn a_multi_happens_as_a_whole_and_tells_in_order(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let sequential = PERSISTENT.sequential();
    // The results come in the shape of the operations.
    let (parent, numbered, (container, ()), set, ()) = client
        .multi((
            Op::create("/m", b"one", &PERSISTENT),
            [Op::create("/m/s-", b"", &sequential); 2],
            &(Op::create("/m/c", b"", &CreateOptions::container()), Op::check("/m", Some(0))),
            vec![Op::set_data("/m", b"two", None); 2],
            Op::delete("/m/c", None),
        ))
        .await?;
    let paths = numbered.each_ref().map(|created| created.path.as_str());
    assert_eq!(paths, ["/m/s-0000000000", "/m/s-0000000001"]);
    let node = client.get_data("/m").await?;
    assert_eq!((&node.data[..], node.stat.num_children), (&b"two"[..], 2));
    let versions = set.iter().map(|stat| (stat.version, stat.mzxid)).collect::<Vec<_>>();
    assert_eq!(versions, [1, 2].map(|version| (version, node.stat.mzxid)));
    for (created, path) in [(parent, "/m"), (container, "/m/c")] {
        assert_eq!((&*created.path, created.czxid, created.stat), (path, node.stat.czxid, None));
    }

    // Operations are counted one by one, also those inside another shape.
    let (set, check) = (Op::set_data("/m", b"", None), Op::check("/m", None));
    for (bad, code) in [
        (Op::delete("/none", None).any(), ErrorCode::NO_NODE),
        (Op::delete("/m/s-0000000000", Some(7)).any(), ErrorCode::BAD_VERSION),
        (Op::set_data("/m", b"", Some(7)).any(), ErrorCode::BAD_VERSION),
        (Op::check("/m", Some(7)).any(), ErrorCode::BAD_VERSION),
    ] {
        let error = client.multi((check, [set; 2], (bad, check))).await.expect_err("one is bad");
        assert_eq!((error.code(), error.failed_op()), (Some(code), Some(3)), "{bad:?}");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Refused, Outcome::NotApplied));
    }
    assert_eq!(client.get_data("/m").await?, node);

    client.multi(()).await?;
    assert_eq!(client.multi(Vec::<Op<'_>>::new()).await?, []);
    let any = [Op::create("/m/a", b"", &PERSISTENT).any(), Op::delete("/m/a", None).any()];
    match client.multi(&any[..]).await?.as_slice() {
        [OpResult::Created(created), OpResult::Deleted] => assert_eq!(created.path, "/m/a"),
        other => panic!("{other:?}"),
    }
    Ok(())
}

pub async fn an_owned_node_takes_the_place_of_another(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    client.create("/r", b"", &PERSISTENT).await?;
    let first = client.create_owned("/r/first-", b"", &OWNED).await?;
    // A server that lags behind would send an event of this create too.
    other.wait_for_zxid(client.last_zxid()).await?;
    let mut below = other.watch("/r", WatchMode::PersistentRecursive).await?;
    let replace = |old: OwnedNode| {
        let path = old.path().to_owned();
        let reply = client.batch(|| {
            drop(old);
            client.replace_owned(&path, "/r/next-", b"data", &OWNED)
        });
        reply.context("nothing was asked for in between")
    };
    let gone = first.path().to_owned();
    let second = replace(first)?.await?;
    let came = second.path().to_owned();
    assert_eq!(came, "/r/next-0000000001");
    let stat = client.exists(&came).await?.context("just created")?;
    assert_eq!(second.czxid(), stat.czxid);
    assert_eq!(Some(stat.ephemeral_owner), client.session().map(|own| own.id));
    // One transaction deletes the old node and creates the new one; the event of the new one comes
    // first.
    other.wait_for_zxid(client.last_zxid()).await?;
    let told = [format!("NodeCreated {came}"), format!("NodeDeleted {gone}")];
    assert_eq!(heard(&mut below).await?, told);

    // Another client was faster: nothing is created.
    other.delete(&came, None).await?;
    let error = replace(second)?.await.expect_err("it is gone");
    assert_eq!((error.is_no_node(), error.failed_op()), (true, Some(1)), "{error}");
    let told = error.to_string();
    assert!(told.starts_with("operation 1 of a multi, delete behind /r/"), "{told}");
    assert!(client.get_children("/r").await?.names.is_empty());
    // For a node that no longer exists, no request is sent either.
    assert!(client.replace_owned(&came, "/r/next-", b"", &OWNED).is_none());
    Ok(())
}

pub async fn a_session_that_was_detached_is_taken_up_with_its_nodes(target: &Target) -> Result<()> {
    let (client, other) = (target.connect().await?, target.connect().await?);
    let node = client.create_owned("/owned-", b"", &OWNED).await?;
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
        let error = other.adopt(path).await.expect_err("another session's");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::NotOwned, Outcome::NotApplied));
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
