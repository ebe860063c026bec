//! Owned nodes of a multi whose request or reply is lost: each owner learns the outcome, and a node
//! without an owner is deleted. Also requests that a real server refuses half-way.

use std::time::Duration;

use zk_client::{Client, CreateOptions, Op, Outcome, OwnedNode, Reply};
use zk_embedded::{Config, Fault, OpCode, Server, ServerVersion};
use zk_proto::{
    Acl, CheckVersionRequest, CreateMode, CreateRequest, Decode, ErrorCode, List, MultiOp,
    MultiRequest, MultiResponse, MultiResult, Reader, ReplyHeader,
};
use zk_test_support::raw::{RawClient, create, delete, get_data, request};

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

/// A server with the node `/l`, another one to be deleted, and a client.
async fn world(version: ServerVersion) -> (Server, Client) {
    let server = Server::in_memory(Config::new().server_version(version));
    let builder = Client::builder().session_timeout(Duration::from_secs(6));
    let client = builder.connector(server.connector()).connect("zk").await.unwrap();
    client.create("/l", b"", &CreateOptions::persistent()).await.unwrap();
    client.create("/l/old", b"", &CreateOptions::persistent()).await.unwrap();
    (server, client)
}

/// Replaces a node by two owned nodes: one numbered by the server, one by the test.
fn replace(client: &Client) -> [Reply<OwnedNode>; 2] {
    let replies = client.multi_owned((
        Op::create_owned("/l/a-", b"", &OWNED),
        Op::delete("/l/old", None),
        Op::create_owned("/l/b-0000000007", b"", &CreateOptions::ephemeral()),
    ));
    replies.try_into().unwrap()
}

const MADE: [&str; 2] = ["/l/a-0000000001", "/l/b-0000000007"];

#[tokio::test(start_paused = true)]
async fn a_multi_that_was_carried_out_is_found_although_its_answer_was_lost() {
    for version in [ServerVersion::V3_8, ServerVersion::V3_9] {
        let (server, client) = world(version).await;
        server.inject(Fault::lose_reply().op(OpCode::MULTI));
        let [first, second] = replace(&client);
        let nodes = [first.await.unwrap(), second.await.unwrap()];
        for (node, path) in nodes.iter().zip(MADE) {
            let stat = client.exists(path).await.unwrap().unwrap();
            assert_eq!((node.path(), node.czxid()), (path, stat.czxid));
        }
        drop(nodes);
        client.sync("/").await.unwrap();
        assert_eq!(MADE.map(|path| server.has_node(path)), [false; 2]);
        assert_eq!(server.pending_faults(), 0);
    }
}

/// A real server has already begun the list of results when it finds an entry that is not a read.
/// If there are reads among the entries, or since 3.9 a mode that does not exist, it cannot even
/// decode the request.
#[tokio::test(start_paused = true)]
async fn a_multi_read_of_writes_is_refused_with_an_empty_list() {
    for version in [ServerVersion::V3_8, ServerVersion::V3_9] {
        let (server, _client) = world(version).await;
        let mut client = RawClient::open(&server).await;
        let make = MultiOp::Create(create("/m", CreateMode::PERSISTENT));
        let odd = MultiOp::Create(create("/m", CreateMode(9)));
        let (delete, read) =
            (MultiOp::Delete(delete("/l/old")), MultiOp::GetData(get_data("/l", false)));
        for (ops, has_list) in [
            (&[make][..], true),
            (&[make, delete], true),
            (&[odd], version == ServerVersion::V3_8),
            (&[delete, read], false),
            (&[read, delete], false),
        ] {
            client.send_as(OpCode::MULTI_READ, &MultiRequest::new(ops)).await;
            let frame = client.frame().await.expect("an answer");
            let mut reader = Reader::new(&frame);
            let header = ReplyHeader::decode(&mut reader).unwrap();
            assert_eq!(header.error, ErrorCode::MARSHALLING_ERROR, "{ops:?}");
            let list = MultiResponse::decode_exact(reader.rest()).map(|list| list.iter().count());
            assert_eq!(list.ok(), has_list.then_some(0), "{ops:?}");
        }
        assert!(server.has_node("/l/old") && !server.has_node("/m"));
    }
}

/// A request whose path `/null` is null instead.
fn with_null(xid: i32, op: OpCode, ops: &[MultiOp<'_>]) -> Vec<u8> {
    let bytes = request(xid, op, &MultiRequest::new(ops));
    let path = b"\0\0\0\x05/null";
    let at = bytes.windows(path.len()).position(|it| it == path).unwrap();
    let rest = [&bytes[4..at], &[0xff; 4], &bytes[at + path.len()..]].concat();
    [&(rest.len() as u32).to_be_bytes()[..], &rest].concat()
}

/// 3.8 fails on a null path before it makes a transaction of the request, and 3.9 behind that. Both
/// have begun the list of results of a multiRead. (Seen at 3.8.0 and 3.9.3.)
#[tokio::test(start_paused = true)]
async fn a_null_path_fails_the_request_and_what_has_been_read_is_answered() {
    for version in [ServerVersion::V3_8, ServerVersion::V3_9] {
        let (server, _) = world(version).await;
        let mut client = RawClient::open(&server).await;
        let before = server.last_zxid();
        let (read, null) = (get_data("/l", false), get_data("/null", false));
        let make = MultiOp::Create(create("/l/made", CreateMode::PERSISTENT));
        let remove = MultiOp::Delete(delete("/null"));
        let mut answers = Vec::new();
        for frame in [
            with_null(1, OpCode::MULTI, &[make, remove]),
            with_null(2, OpCode::MULTI_READ, &[MultiOp::GetData(read), MultiOp::GetData(null)]),
        ] {
            client.write(&frame).await;
            let frame = client.frame().await.unwrap();
            let mut reader = Reader::new(&frame);
            let header = ReplyHeader::decode(&mut reader).unwrap();
            assert_eq!(header.error, ErrorCode::MARSHALLING_ERROR);
            let results = MultiResponse::decode_exact(reader.rest()).ok();
            let results = results.map(|it| it.iter().map(|one| one.op()).collect::<Vec<_>>());
            answers.push((header.zxid.0 - before.0, results));
        }
        let is_counted = version == ServerVersion::V3_9;
        let (zxid, begun) = if is_counted { (1, None) } else { (0, Some(vec![])) };
        let expected = [(zxid, begun), (zxid, Some(vec![OpCode::GET_DATA]))];
        assert_eq!(answers, expected, "{version:?}");
        assert!(!server.has_node("/l/made"));
        // Either way a zxid is used up.
        client.reply(&create("/l/next", CreateMode::PERSISTENT)).await;
        assert_eq!(server.last_zxid().0, before.0 + 2, "{version:?}");
    }
}

/// A multi whose entries have null for their access lists.
fn without_acl(xid: i32, op: OpCode, ops: &[MultiOp<'_>]) -> Vec<u8> {
    let mut bytes = request(xid, op, &MultiRequest::new(ops)).to_vec();
    let open = b"\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06anyone";
    while let Some(at) = bytes.windows(open.len()).position(|it| it == open) {
        bytes.splice(at..at + open.len(), [0xff; 4]);
    }
    [&(bytes.len() as u32 - 4).to_be_bytes()[..], &bytes[4..]].concat()
}

/// Since 3.9 a server fails on it while it decodes the request, without a zxid. (Seen at 3.9.3.)
#[tokio::test(start_paused = true)]
async fn a_create_without_an_access_list_fails_the_request_or_the_entry() {
    let make = |mode| MultiOp::Create2(create("/l/made", mode));
    let (plain, wrong) = (make(CreateMode::PERSISTENT), make(CreateMode(99)));
    let expiring = make(CreateMode::PERSISTENT_WITH_TTL);
    // This one keeps its access list.
    let acl = [Acl { perms: Acl::READ, ..Acl::OPEN }];
    let listed = CreateRequest {
        acl: List::new(&acl),
        ..create("/l/made", CreateMode::PERSISTENT_WITH_TTL)
    };
    let listed = MultiOp::Create2(listed);
    let read = MultiOp::GetData(get_data("/l", false));
    let check = MultiOp::Check(CheckVersionRequest { path: "/l", version: -1 });
    for (op, ops, zxids) in [
        (OpCode::MULTI, &[plain][..], 0),
        (OpCode::MULTI, &[check, plain, wrong], 0),
        (OpCode::MULTI, &[read, plain], 0),
        (OpCode::MULTI, &[wrong, plain], 1),
        (OpCode::MULTI, &[expiring], 0),
        (OpCode::MULTI, &[listed, plain], 1),
        (OpCode::MULTI, &[check, read, plain], 1),
        (OpCode::MULTI_READ, &[plain], 0),
    ] {
        let (server, _) = world(ServerVersion::V3_9).await;
        let mut client = RawClient::open(&server).await;
        let before = server.last_zxid();
        client.write(&without_acl(1, op, ops)).await;
        let frame = client.frame().await.unwrap();
        let mut reader = Reader::new(&frame);
        let header = ReplyHeader::decode(&mut reader).unwrap();
        assert_eq!(header.error, ErrorCode::MARSHALLING_ERROR, "{ops:?}");
        assert!(reader.rest().is_empty(), "{ops:?}");
        assert_eq!(header.zxid.0 - before.0, zxids, "{ops:?}");
    }
    let (server, _) = world(ServerVersion::V3_8).await;
    let mut client = RawClient::open(&server).await;
    client.write(&without_acl(1, OpCode::MULTI, &[plain])).await;
    let frame = client.frame().await.unwrap();
    let mut reader = Reader::new(&frame);
    assert_eq!(ReplyHeader::decode(&mut reader).unwrap().error, ErrorCode::OK);
    let results = MultiResponse::decode_exact(reader.rest()).unwrap();
    assert_eq!(results.iter().next(), Some(MultiResult::Error(ErrorCode::INVALID_ACL)));
}

#[tokio::test(start_paused = true)]
async fn a_multi_that_did_not_arrive_has_not_happened() {
    let (server, client) = world(ServerVersion::V3_9).await;
    server.inject(Fault::lose_request().op(OpCode::MULTI));
    for reply in replace(&client) {
        let error = reply.await.unwrap_err();
        assert!(error.is_connection_loss(), "{error}");
        assert_eq!((error.outcome(), error.failed_op()), (Outcome::NotApplied, None));
    }
    assert!(server.has_node("/l/old"));
    assert_eq!(MADE.map(|path| server.has_node(path)), [false; 2]);

    // So the same multi can be sent again.
    let [first, second] = replace(&client);
    first.await.unwrap().disown();
    second.await.unwrap().disown();
    assert!(!server.has_node("/l/old"));
    assert_eq!(MADE.map(|path| server.has_node(path)), [true; 2]);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_owner_does_not_wait_goes_and_the_other_stays() {
    for lost in [false, true] {
        for gone in [0, 1] {
            let (server, client) = world(ServerVersion::V3_9).await;
            if lost {
                server.inject(Fault::lose_reply().op(OpCode::MULTI));
            }
            let mut replies = Vec::from(replace(&client));
            drop(replies.remove(gone));
            let kept = replies.remove(0).await.unwrap();
            // The delete is queued as soon as the node is known, and these syncs behind it.
            client.sync("/").await.unwrap();
            client.sync("/").await.unwrap();
            assert!(!server.has_node(MADE[gone]), "lost: {lost}");
            assert!(server.has_node(kept.path()), "lost: {lost}");
            assert_eq!(kept.path(), MADE[1 - gone]);
        }
    }
}
