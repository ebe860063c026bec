//! Calls with a deadline: which of their effects the client undoes, and that other calls are not
//! affected.

use std::time::Duration;

use zk_client::{Client, CreateOptions, ErrorKind, Outcome};
use zk_embedded::{Config, Fault, OpCode, Server};
use zk_proto::{GetDataRequest, SetDataRequest};
use zk_test_support::explore::{in_virtual_time, settle};
use zk_test_support::peer::{Bench, Clock, data};

const MS: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_millis(300);
const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

async fn connect() -> (Server, Client) {
    let server = Server::in_memory(Config::new());
    let client = Client::builder().connector(server.connector()).connect("zk").await.unwrap();
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    (server, client)
}

#[test]
fn an_answer_in_time_is_the_answer() {
    in_virtual_time(async {
        let (_server, client) = connect().await;
        let (stat, zxid) =
            client.set_data("/a", b"1", None).within(LIMIT).with_zxid().await.unwrap();
        assert_eq!(stat.mzxid, zxid);
        assert!(client.get_data("/b").within(LIMIT).await.unwrap_err().is_no_node());
        assert_eq!(
            client.get_data("//").within(LIMIT).await.unwrap_err().kind(),
            ErrorKind::InvalidPath
        );
        assert_eq!(client.get_data("/a").within(Duration::MAX).await.unwrap().data, "1");
    });
}

#[test]
fn what_was_sent_and_is_late_is_unknown_and_disturbs_nothing() {
    in_virtual_time(async {
        let (server, client) = connect().await;
        server.inject(Fault::delay(LIMIT * 2).op(OpCode::SET_DATA));
        let clock = Clock::start();
        let late = client.set_data("/a", b"1", None).within(LIMIT);
        let behind = client.get_data("/a");
        let error = late.await.unwrap_err();
        assert_eq!(clock.elapsed(), LIMIT);
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::TimedOut, Outcome::Unknown));
        assert!(error.to_string().contains("setData /a: no answer within 300ms"), "{error}");
        let session = client.session();
        assert_eq!(behind.await.unwrap().data, "1", "it is answered in its turn");
        assert_eq!(clock.elapsed(), LIMIT * 2);
        assert_eq!(client.session(), session);
        assert_eq!(client.stats().totals.connections, 1);
    });
}

#[test]
fn what_was_not_sent_is_taken_back_and_never_happens() {
    in_virtual_time(async {
        let (server, client) = connect().await;
        server.set_serving(false);
        settle().await;
        let before = client.set_data("/a", b"before", None);
        let mut late = Vec::new();
        for n in 0..10_u64 {
            late.push(
                client.set_data("/a", b"late", None).within(LIMIT + MS * (n as u32 * 7 % 10)),
            );
            late.push(client.set_data("/a", b"", None));
        }
        let watching = client.exists_and_watch("/b").within(LIMIT);
        let after = client.get_data("/a");
        let error = watching.await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::TimedOut, Outcome::NotApplied));
        assert!(error.to_string().contains("exists /b: not sent within 300ms"), "{error}");
        let mut kept = Vec::new();
        for (n, reply) in late.into_iter().enumerate() {
            if n % 2 == 0 {
                let error = reply.await.unwrap_err();
                let (kind, outcome) = (error.kind(), error.outcome());
                assert_eq!((kind, outcome), (ErrorKind::TimedOut, Outcome::NotApplied));
            } else {
                kept.push(reply);
            }
        }
        server.set_serving(true);
        assert_eq!(before.await.unwrap().version, 1);
        for (n, reply) in kept.into_iter().enumerate() {
            assert_eq!(reply.await.unwrap().version, n as i32 + 2);
        }
        let node = after.await.unwrap();
        assert_eq!((&node.data[..], node.stat.version), (&b""[..], 11));
        assert_eq!(server.watch_count(), 0);
    });
}

#[test]
fn an_owned_node_that_is_late_is_deleted() {
    in_virtual_time(async {
        let (server, client) = connect().await;
        server.inject(Fault::delay(LIMIT * 2).op(OpCode::CREATE2));
        let error = client.create_owned("/n-", b"", &OWNED).within(LIMIT).await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::TimedOut, Outcome::Unknown));
        tokio::time::sleep(LIMIT * 2).await;
        client.sync("/").await.unwrap();
        assert_eq!(server.children("/"), ["a", "zookeeper"]);
    });
}

#[test]
fn a_reply_that_is_not_awaited_is_carried_out() {
    in_virtual_time(async {
        let (server, client) = connect().await;
        server.set_serving(false);
        settle().await;
        let dropped = client.set_data("/a", b"1", None).within(LIMIT);
        let kept = client.set_data("/a", b"2", None).within(LIMIT);
        drop(dropped);
        tokio::time::sleep(LIMIT * 2).await;
        server.set_serving(true);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(kept.await.unwrap().version, 2, "the answer was there when it was asked for");
    });
}

#[test]
fn a_session_gives_back_what_it_has_not_sent_and_nothing_else() {
    let mut bench = Bench::attached();
    let get = GetDataRequest { path: "/a", watch: false };
    let set = SetDataRequest { path: "/a", data: Some(b"x"), version: -1 };
    let mut ids = Vec::new();
    for token in 1..=4 {
        match token % 2 {
            0 => bench.session.submit(&get, token).unwrap(),
            _ => bench.session.submit(&set, token).unwrap(),
        }
        ids.push(bench.session.last_request_id().unwrap());
        if token == 1 {
            assert_eq!(bench.sent(), ["setData#1 /a"]);
        }
    }
    assert_eq!(bench.session.withdraw(ids[0]), None, "it was sent");
    assert_eq!(bench.session.withdraw(ids[2]), Some(3));
    assert_eq!(bench.session.withdraw(ids[2]), None);
    assert_eq!(bench.sent(), ["getData#2 /a", "getData#4 /a"]);
    assert_eq!(bench.session.withdraw(ids[3]), None);
    for xid in [1, 2, 4] {
        bench.answer(xid, &data(b""));
    }
    assert_eq!(bench.said(), ["1 ok", "2 ok", "4 ok"]);
    assert_eq!(bench.session.withdraw(ids[3]), None);
}
