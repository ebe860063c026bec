//! Replies that are corrupted as a seed decides: their bytes, and what a client makes of them.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use zk_client::{Client, CreateOptions, Error, Op, Read};
use zk_embedded::{Config, Fault, OpCode, Server};
use zk_test_support::explore::in_virtual_time;
use zk_test_support::raw::{RawClient, exists, get_data};

/// How long a client may need for anything, with a session timeout of 6 s.
const PATIENCE: Duration = Duration::from_secs(120);

/// The bytes that a client gets for one read whose reply is corrupted.
async fn corrupted(seed: u64) -> Bytes {
    let server = Server::in_memory(Config::new());
    let mut client = RawClient::open(&server).await;
    server.inject(Fault::mutate(seed).op(OpCode::GET_DATA).path("/"));
    server.inject(Fault::lose_request().op(OpCode::EXISTS));
    client.send(&get_data("/", false)).await;
    client.send(&exists("/", false)).await;
    let bytes = client.bytes().await;
    let [mutation] = &server.mutations()[..] else { panic!("{:?}", server.mutations()) };
    assert_eq!((mutation.seed, mutation.session), (seed, client.session));
    assert_eq!(mutation.after, bytes, "what was sent");
    assert_ne!(mutation.before, bytes);
    assert_eq!(mutation.before.len(), 4 + 16 + 4 + 68, "a reply with no data");
    bytes
}

#[tokio::test(start_paused = true)]
async fn a_seed_decides_what_is_sent_in_place_of_a_reply() {
    let mut all = Vec::new();
    for seed in 0..60 {
        let bytes = corrupted(seed).await;
        assert_eq!(bytes, corrupted(seed).await, "seed {seed}");
        all.push(bytes);
    }
    all.sort();
    all.dedup();
    assert!(all.len() > 45, "{} of 60 differ", all.len());
}

#[tokio::test(start_paused = true)]
async fn only_the_reply_that_is_named_is_corrupted() {
    let server = Server::in_memory(Config::new());
    let mut one = RawClient::open(&server).await;
    let mut other = RawClient::open(&server).await;
    server.inject(Fault::mutate(1).session(one.session).op(OpCode::GET_DATA).after(1));
    for _ in 0..3 {
        other.reply(&get_data("/", false)).await;
    }
    one.reply(&exists("/", false)).await;
    one.reply(&get_data("/", false)).await;
    assert_eq!(server.mutations(), []);
    one.send(&get_data("/", false)).await;
    other.reply(&get_data("/", false)).await;
    assert_eq!((server.mutations().len(), server.pending_faults()), (1, 0));
}

/// Waits for a call, which must end.
async fn ends<T: Debug>(seed: u64, call: impl Future<Output = Result<T, Error>>) -> bool {
    let ended = tokio::time::timeout(PATIENCE, call).await;
    ended.unwrap_or_else(|_| panic!("seed {seed}: a call hangs")).is_ok()
}

/// One client, and for each of its calls a reply that is corrupted. Returns how many calls have
/// succeeded all the same.
async fn survives(seed: u64) -> usize {
    let server = Server::in_memory(Config::new());
    let builder = || {
        let builder = Client::builder().connector(server.connector()).seed(seed);
        builder.session_timeout(Duration::from_secs(6)).connect_timeout(PATIENCE / 4)
    };
    let operator = builder().connect("zk").await.unwrap();
    operator.create("/a", b"data", &CreateOptions::persistent()).await.unwrap();

    if seed.is_multiple_of(4) {
        server.inject(Fault::mutate(seed).op(OpCode::CREATE_SESSION));
    }
    let connected = tokio::time::timeout(PATIENCE, builder().connect("zk")).await;
    let Ok(client) = connected.unwrap_or_else(|_| panic!("seed {seed}: connect hangs")) else {
        return 0;
    };
    let session = server.sessions().last().copied().unwrap();
    let inject = |op| server.inject(Fault::mutate(seed).op(op).session(session));
    let mut well = 0;
    let fault = [OpCode::GET_DATA, OpCode::CREATE2, OpCode::GET_CHILDREN2, OpCode::MULTI];
    inject(fault[seed as usize % fault.len()]);
    well += usize::from(ends(seed, client.get_data("/a")).await);
    let owned = CreateOptions::ephemeral().sequential();
    well += usize::from(ends(seed, client.create("/a/b", b"", &owned)).await);
    well += usize::from(ends(seed, client.get_children("/a")).await);
    let ops = [Op::check("/a", None), Op::delete("/a", Some(7))];
    well += usize::from(ends(seed, client.multi(&ops)).await);
    inject(OpCode::MULTI_READ);
    well += usize::from(ends(seed, client.multi_read(Read::get_data("/a"))).await);
    inject(OpCode::EXISTS);
    let reads = (0..3).map(|_| client.exists("/a")).collect::<Vec<_>>();
    for read in reads {
        well += usize::from(ends(seed, read).await);
    }
    inject(OpCode::PING);
    tokio::time::sleep(Duration::from_secs(10)).await;
    well += usize::from(ends(seed, client.sync("/a")).await);
    let closed = tokio::time::timeout(PATIENCE, client.close()).await;
    assert!(closed.is_ok(), "seed {seed}: close hangs");
    operator.exists("/a").await.unwrap();
    well
}

#[test]
fn a_client_reports_an_error_or_goes_on_whatever_is_corrupted() {
    let mut well = 0;
    for seed in 0..400 {
        well += in_virtual_time(survives(seed));
    }
    assert!((400..3600).contains(&well), "{well} calls of 3600 have succeeded");
}
