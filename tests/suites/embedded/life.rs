//! The life of an embedded server: it is independent of all others, keeps a history, and ends with
//! its handle.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_client::{Client, CreateOptions, WatchMode};
use zk_embedded::{Change, Config, Server, WatcherType};
use zk_proto::{Acl, CreateMode, List, MultiOp, MultiRequest, SetAclRequest};
use zk_test_support::raw::{RawClient, create, delete, framed, get_data, hello, set_data};

#[tokio::test]
async fn servers_have_nothing_in_common() {
    let (one, two) = (Server::start().await.unwrap(), Server::start().await.unwrap());
    assert_ne!(one.address(), two.address());
    let client = Client::connect(one.address()).await.unwrap();
    client.create("/a", b"", &CreateOptions::persistent()).await.unwrap();
    assert!(one.has_node("/a") && !two.has_node("/a"));
    assert_eq!((one.sessions().len(), two.sessions()), (1, vec![]));
    drop(two);
    client.set_data("/a", b"x", None).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_handle_closes_connections_and_the_port() {
    let server = Server::start().await.unwrap();
    let address = server.address().to_owned();
    let mut fresh = TcpStream::connect(&address).await.unwrap();
    let mut served = TcpStream::connect(&address).await.unwrap();
    served.write_all(&framed(&hello(Duration::from_secs(4)))).await.unwrap();
    let mut answer = [0; 41];
    served.read_exact(&mut answer).await.unwrap();
    let mut in_memory = RawClient::open(&server).await;
    drop(server);
    let mut rest = Vec::new();
    for stream in [&mut fresh, &mut served] {
        // The kernel decides how the end appears.
        drop(stream.read_to_end(&mut rest).await);
    }
    assert_eq!(rest, []);
    assert_eq!(in_memory.hear().await, "closed");
    // Connections that waited to be accepted are refused once the listener is closed.
    while TcpStream::connect(&address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_handle_ends_connections_in_memory_whatever_they_do() {
    let server = Server::in_memory(Config::new());
    let mut fresh = RawClient::connect(&server);
    assert_eq!(fresh.heard().await, [""; 0]);
    let mut deaf = RawClient::open(&server).await;
    let data = vec![7; 700_000];
    let big = zk_proto::SetDataRequest { data: Some(&data), ..set_data("/") };
    deaf.reply(&big).await;
    for _ in 0..4 {
        deaf.send(&get_data("/", false)).await;
    }
    let tasks = tokio::runtime::Handle::current().metrics();
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(tasks.num_alive_tasks(), 3, "two connections, and one that keeps time");
    // The task of this connection has not started yet.
    let mut late = RawClient::connect(&server);
    drop(server);
    for client in [&mut fresh, &mut late] {
        assert_eq!(client.hear().await, "closed");
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(tasks.num_alive_tasks(), 0);
    assert!(deaf.bytes().await.len() < 4 * data.len(), "what was on its way");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_its_client_leaves_ends_its_task() {
    let server = Server::in_memory(Config::new());
    let client = RawClient::open(&server).await;
    let tasks = tokio::runtime::Handle::current().metrics();
    assert_eq!(tasks.num_alive_tasks(), 2);
    drop(client);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(tasks.num_alive_tasks(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connector_outlives_its_server_and_reaches_nobody() {
    let server = Server::in_memory(Config::new());
    let connector = server.connector::<()>();
    let mut before = connector(&()).unwrap();
    before.write_all(b"ruok").await.unwrap();
    let mut answer = String::new();
    before.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "imok");
    drop(server);
    let mut after = connector(&()).unwrap();
    drop(after.write_all(b"ruok").await);
    answer.clear();
    after.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "");
}

#[tokio::test(start_paused = true)]
async fn the_history_lists_what_happened_to_the_tree() {
    let server = Server::in_memory(Config::new().keep_history(true));
    let mut client = RawClient::open(&server).await;
    let mut other = RawClient::open(&server).await;
    client.reply(&create("/a", CreateMode::PERSISTENT)).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    other.reply(&set_data("/a")).await;
    client.ask(&create("/a", CreateMode::PERSISTENT)).await;
    let acl = List::new(&[Acl::OPEN]);
    client.reply(&SetAclRequest { path: "/a", acl, version: -1 }).await;
    let (inner, outer) =
        (create("/a/b", CreateMode::EPHEMERAL), create("/c", CreateMode::PERSISTENT));
    let ops = [MultiOp::Create(inner), MultiOp::Create(outer), MultiOp::Delete(delete("/c"))];
    client.reply(&MultiRequest::new(&ops)).await;
    let failing = [MultiOp::Create(outer), MultiOp::Delete(delete("/none"))];
    client.reply(&MultiRequest::new(&failing)).await;
    server.expire(client.session);

    let history = server.history();
    let told: Vec<_> =
        history.iter().map(|it| (it.zxid.0, it.change, it.path.as_str(), it.session)).collect();
    let (client, other) = (Some(client.session), Some(other.session));
    assert_eq!(
        told,
        [
            (3, Change::Created, "/a", client),
            (4, Change::DataSet, "/a", other),
            (6, Change::AclSet, "/a", client),
            (7, Change::Created, "/a/b", client),
            (7, Change::Created, "/c", client),
            (7, Change::Deleted, "/c", client),
            (9, Change::Deleted, "/a/b", client),
        ]
    );
    assert_eq!(history[1].time - history[0].time, Duration::from_millis(1500));
}

#[tokio::test(start_paused = true)]
async fn there_is_no_history_unless_it_is_kept() {
    let server = Server::in_memory(Config::new());
    RawClient::open(&server).await.reply(&create("/a", CreateMode::PERSISTENT)).await;
    assert_eq!(server.history(), []);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_has_is_seen_without_a_client() {
    let server = Server::in_memory(Config::new());
    let client = Client::builder().connector(server.connector()).connect("memory").await.unwrap();
    let session = client.session().unwrap().id;
    client.create("/a", b"x", &CreateOptions::ephemeral()).await.unwrap();
    assert_eq!(server.data("/a").as_deref(), Some(&b"x"[..]));
    assert_eq!(server.stat("/a").map(|stat| stat.ephemeral_owner), Some(session));
    assert_eq!((server.data("/b"), server.stat("/b")), (None, None));

    let _data = client.get_data_and_watch("/a").await.unwrap();
    let _exists = client.exists_and_watch("/b").await.unwrap();
    let _child = client.get_children_and_watch("/").await.unwrap();
    let _stream = client.watch("/a", WatchMode::Persistent).await.unwrap();
    let watches = server.watches();
    let seen = watches.iter().map(|watch| (watch.path.as_str(), watch.kind)).collect::<Vec<_>>();
    let persistent = ("/a", WatcherType::PERSISTENT);
    let data = [("/a", WatcherType::DATA), persistent, ("/b", WatcherType::DATA)];
    assert_eq!(seen, [&[("/", WatcherType::CHILDREN)][..], &data].concat());
    assert!(watches.iter().all(|watch| watch.session == session));

    assert!(server.partition(session));
    let deadline = server.session_deadline(session).unwrap();
    tokio::time::sleep_until(deadline.into()).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!((server.sessions(), server.session_deadline(session)), (vec![], None));
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_until_its_deadline() {
    let server = Server::in_memory(Config::new());
    let client = Client::builder().connector(server.connector()).connect("memory").await.unwrap();
    let session = client.session().unwrap().id;
    server.partition(session);
    let deadline = server.session_deadline(session).unwrap();
    tokio::time::sleep_until((deadline - Duration::from_millis(1)).into()).await;
    assert_eq!(server.sessions(), [session]);
}
