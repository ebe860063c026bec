//! Owned nodes of a multi whose request or reply is lost: each owner learns the outcome, and a node
//! without an owner is deleted. Also multiReads that hold other operations than reads.

use std::time::Duration;

use zk_client::{Client, CreateOptions, Op, Outcome, OwnedNode, Reply};
use zk_embedded::{Config, Fault, OpCode, Server, ServerVersion};
use zk_proto::{
    CreateMode, Decode, ErrorCode, MultiOp, MultiRequest, MultiResponse, Reader, ReplyHeader,
};
use zk_tests::raw::{RawClient, create, delete, get_data};

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
