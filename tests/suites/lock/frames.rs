//! The lock, frame by frame: the test plays the server and counts the requests of each step.

use zk_client::{Client, ErrorCode, EventType, SessionId, SessionIdentity};
use zk_proto::{CreateMode, CreateRequest, GetChildren2Response, List, OpCode, SetWatches};
use zk_recipes::{Error, ErrorKind, Guard, Lock};
use zk_test_support::peer::{Network, Peer, SESSION, TIMEOUT, created, password, stat_of};

const FOLDER: &str = "/locks/one";

pub(crate) type Acquiring = tokio::task::JoinHandle<Result<Guard, Error>>;

pub(crate) async fn connected() -> (Network, Client, Peer) {
    let mut network = Network::new();
    let builder = Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1);
    let (client, peer) = tokio::join!(builder.connect("zk1:1"), network.attach());
    (network, client.unwrap(), peer)
}

pub(crate) fn acquire(client: &Client) -> Acquiring {
    let lock = Lock::new(client, FOLDER).unwrap();
    tokio::spawn(async move { lock.acquire().await })
}

/// Another contender's node.
fn other(number: u32) -> String {
    format!("_c_00000000-0000-0000-0000-000000000000-lock-{number:010}")
}

fn path(number: u32) -> String {
    format!("{FOLDER}/{}", other(number))
}

/// Reads the next request, and checks what it is.
async fn expect(peer: &mut Peer, op: OpCode, path: &str) {
    let request = peer.next().await.unwrap();
    assert_eq!((request.op(), request.path()), (op, path));
}

/// Refuses the next requests, one with each of these codes.
async fn refuse_next(peer: &mut Peer, codes: &[ErrorCode]) {
    for code in codes {
        peer.next().await.unwrap();
        peer.refuse(*code).await;
    }
}

/// Answers the create and the listing: our node gets the number 9, and the queue also holds
/// `others`. Returns our node's name.
async fn join_queue(peer: &mut Peer, others: &[u32]) -> String {
    let create = peer.next().await.unwrap();
    let CreateRequest { path: stem, mode, .. } = create.body();
    assert_eq!((create.op(), mode), (OpCode::CREATE2, CreateMode::EPHEMERAL_SEQUENTIAL));
    let name = format!("{}0000000009", stem.strip_prefix(FOLDER).unwrap().trim_start_matches('/'));
    peer.answer(&created(&format!("{FOLDER}/{name}"))).await;
    answer_list(peer, &name, others).await;
    name
}

async fn answer_list(peer: &mut Peer, own: &str, others: &[u32]) {
    expect(peer, OpCode::GET_CHILDREN2, FOLDER).await;
    let mut names = others.iter().map(|number| other(*number)).collect::<Vec<_>>();
    names.push(own.to_owned());
    let names = names.iter().map(String::as_str).collect::<Vec<_>>();
    let children = List::new(&names);
    peer.answer(&GetChildren2Response { children, stat: stat_of(SessionId(0)) }).await;
}

/// Reads the request that watches `others` and our node.
async fn arming(peer: &mut Peer, own: Option<&str>, others: &[u32]) {
    let arm = peer.next().await.unwrap();
    assert_eq!(arm.op(), OpCode::SET_WATCHES);
    let SetWatches { data, .. } = arm.body();
    let own = own.map(|name| format!("{FOLDER}/{name}"));
    let expected = others.iter().map(|number| path(*number)).chain(own).collect::<Vec<_>>();
    assert_eq!(data.iter().collect::<Vec<_>>(), expected);
}

/// Reads the same request and answers it.
async fn arm(peer: &mut Peer, own: Option<&str>, others: &[u32]) {
    arming(peer, own, others).await;
    peer.answer(&()).await;
}

/// Checks that the client has sent nothing more: its next request is the one that the test makes
/// now.
async fn nothing_more(client: &Client, peer: &mut Peer) {
    let probe = client.get_data("/probe");
    expect(peer, OpCode::GET_DATA, "/probe").await;
    peer.refuse(ErrorCode::NO_NODE).await;
    probe.await.unwrap_err();
}

/// A client that waits behind `others`, and watches `watched` and its own node. The last part of
/// the result is the name of that node.
async fn waiting(others: &[u32], watched: &[u32]) -> (Network, Client, Peer, Acquiring, String) {
    let (network, client, mut peer) = connected().await;
    let acquiring = acquire(&client);
    let own = join_queue(&mut peer, others).await;
    arm(&mut peer, Some(&own), watched).await;
    (network, client, peer, acquiring, own)
}

async fn owned(client: &Client, peer: &mut Peer, acquiring: Acquiring) {
    let guard = acquiring.await.unwrap().unwrap();
    nothing_more(client, peer).await;
    let node = guard.node().to_owned();
    drop(guard);
    expect(peer, OpCode::DELETE, &node).await;
    peer.answer(&()).await;
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_one_write_of_two_frames() {
    let (_network, client, mut peer) = connected().await;
    let before = peer.writes();
    let acquiring = acquire(&client);
    join_queue(&mut peer, &[]).await;
    let guard = acquiring.await.unwrap().unwrap();
    assert_eq!(peer.writes() - before, 1);
    let released = guard.release();
    assert_eq!(peer.next().await.unwrap().op(), OpCode::DELETE);
    peer.answer(&()).await;
    released.await.unwrap();
    assert_eq!(peer.writes() - before, 2);
}

#[tokio::test(start_paused = true)]
async fn a_missing_folder_costs_one_more_write() {
    let (_network, client, mut peer) = connected().await;
    let before = peer.writes();
    let acquiring = acquire(&client);
    refuse_next(&mut peer, &[ErrorCode::NO_NODE; 2]).await;
    expect(&mut peer, OpCode::CREATE_CONTAINER, FOLDER).await;
    peer.refuse(ErrorCode::NODE_EXISTS).await;
    join_queue(&mut peer, &[]).await;
    assert_eq!(peer.writes() - before, 2);
    owned(&client, &mut peer, acquiring).await;
}

/// A server may remove an empty container right before its first child is created.
#[tokio::test(start_paused = true)]
async fn an_ancestor_that_goes_again_is_made_again() {
    let (_network, client, mut peer) = connected().await;
    let mut acquiring = acquire(&client);
    let (there, gone) = (ErrorCode::NODE_EXISTS, ErrorCode::NO_NODE);
    // The create and the listing find no folder, and the folder finds no parent. Of the containers
    // only the first exists then, and is gone by the next request, so both are created again.
    let alone = [gone, gone, gone, gone, gone];
    for code in alone.into_iter().chain([there, gone, gone, gone, there, there]) {
        tokio::select! {
            ended = &mut acquiring => panic!("{:?}", ended.unwrap()),
            request = peer.next() => drop(request.unwrap()),
        }
        peer.refuse(code).await;
    }
    join_queue(&mut peer, &[]).await;
    owned(&client, &mut peer, acquiring).await;
}

/// If the root is missing, the client retries a limited number of times.
#[tokio::test(start_paused = true)]
async fn a_folder_that_cannot_be_made_is_given_up() {
    let (_network, client, mut peer) = connected().await;
    let mut acquiring = acquire(&client);
    let mut refused = 0;
    let error = loop {
        tokio::select! {
            ended = &mut acquiring => break ended.unwrap().unwrap_err(),
            request = peer.next() => {
                request.unwrap();
                peer.refuse(ErrorCode::NO_NODE).await;
                refused += 1;
            }
        }
    };
    assert_eq!(error.client().and_then(zk_client::Error::code), Some(ErrorCode::NO_NODE));
    assert!(refused < 30, "{refused} requests");
}

#[tokio::test(start_paused = true)]
async fn the_holders_delete_is_the_hand_over_and_costs_no_frame() {
    let (_network, client, mut peer, acquiring, _) = waiting(&[3], &[3]).await;
    nothing_more(&client, &mut peer).await;
    assert!(!acquiring.is_finished());
    peer.fire(EventType::NODE_DELETED, &path(3)).await;
    owned(&client, &mut peer, acquiring).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_gone_before_it_is_watched_is_as_good_as_the_event() {
    let (_network, client, mut peer) = connected().await;
    let acquiring = acquire(&client);
    let own = join_queue(&mut peer, &[3]).await;
    arming(&mut peer, Some(&own), &[3]).await;
    peer.fire(EventType::NODE_DELETED, &path(3)).await;
    peer.answer(&()).await;
    owned(&client, &mut peer, acquiring).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_ahead_that_leaves_is_no_hand_over() {
    let (_network, client, mut peer, acquiring, _) = waiting(&[3, 5], &[5, 3]).await;
    peer.fire(EventType::NODE_DELETED, &path(5)).await;
    nothing_more(&client, &mut peer).await;
    assert!(!acquiring.is_finished());
    peer.fire(EventType::NODE_DELETED, &path(3)).await;
    owned(&client, &mut peer, acquiring).await;
}

#[tokio::test(start_paused = true)]
async fn a_long_queue_costs_one_list_ahead_of_the_hand_over() {
    let (_network, client, mut peer, acquiring, own) = waiting(&[1, 2, 3, 4, 5], &[5, 4]).await;
    // 1 to 3 went in order and without an event. The client watches the two directly ahead.
    peer.fire(EventType::NODE_DELETED, &path(4)).await;
    answer_list(&mut peer, &own, &[5]).await;
    nothing_more(&client, &mut peer).await;
    peer.fire(EventType::NODE_DELETED, &path(5)).await;
    owned(&client, &mut peer, acquiring).await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_of_the_own_session_is_confirmed_by_a_list() {
    let (_network, client, mut peer) = connected().await;
    let acquiring = acquire(&client);
    let create = peer.next().await.unwrap();
    let stem = create.path().rsplit('/').next().unwrap();
    let (own, sibling) = (format!("{stem}0000000009"), format!("{stem}0000000003"));
    peer.answer(&created(&format!("{FOLDER}/{own}"))).await;
    let stat = stat_of(SessionId(0));
    peer.next().await.unwrap();
    let children = [sibling.as_str(), &own];
    peer.answer(&GetChildren2Response { children: List::new(&children), stat }).await;
    assert_eq!(peer.next().await.unwrap().op(), OpCode::SET_WATCHES);
    peer.answer(&()).await;
    nothing_more(&client, &mut peer).await;
    peer.fire(EventType::NODE_DELETED, &format!("{FOLDER}/{sibling}")).await;
    answer_list(&mut peer, &own, &[]).await;
    owned(&client, &mut peer, acquiring).await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_within_a_session_that_was_taken_up_is_confirmed_by_a_list() {
    let mut network = Network::new();
    let builder = Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1);
    let builder = builder.session(SessionIdentity::new(SESSION, password()));
    let (client, mut peer) = tokio::join!(builder.connect("zk1:1"), network.attach());
    let client = client.unwrap();
    let acquiring = acquire(&client);
    // Whatever its name, the holder's node may belong to this session, for instance if it was
    // resumed from a ticket.
    let own = join_queue(&mut peer, &[3]).await;
    arm(&mut peer, Some(&own), &[3]).await;
    nothing_more(&client, &mut peer).await;
    peer.fire(EventType::NODE_DELETED, &path(3)).await;
    answer_list(&mut peer, &own, &[]).await;
    owned(&client, &mut peer, acquiring).await;
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_that_was_missed_is_confirmed_by_a_list() {
    let (mut network, client, mut peer, acquiring, own) = waiting(&[3], &[3]).await;
    nothing_more(&client, &mut peer).await;
    drop(peer);
    let mut peer = network.attach().await;
    assert_eq!(peer.next().await.unwrap().op(), OpCode::SET_WATCHES);
    peer.fire(EventType::NODE_DELETED, &path(3)).await;
    peer.answer(&()).await;
    answer_list(&mut peer, &own, &[]).await;
    // While a lock is held, the session sends a probe to prove that the ensemble keeps it.
    assert_eq!(peer.next().await.unwrap().op(), OpCode::MULTI);
    peer.refuse(ErrorCode::NO_AUTH).await;
    owned(&client, &mut peer, acquiring).await;
}

#[tokio::test(start_paused = true)]
async fn a_contender_that_may_not_be_read_is_waited_for_by_its_folder() {
    let (_network, client, mut peer, acquiring, own) = waiting(&[3], &[3]).await;
    // The client gets no event about its deletion, so it reads the node after one session timeout.
    let mut read = peer.next().await.unwrap();
    while read.op() == OpCode::PING {
        peer.answer(&()).await;
        read = peer.next().await.unwrap();
    }
    assert_eq!(read.op(), OpCode::GET_DATA);
    assert_eq!(read.path(), path(3));
    peer.refuse(ErrorCode::NO_AUTH).await;
    answer_list(&mut peer, &own, &[3]).await;
    answer_list(&mut peer, &own, &[3]).await;
    nothing_more(&client, &mut peer).await;
    peer.fire(EventType::NODE_CHILDREN_CHANGED, FOLDER).await;
    answer_list(&mut peer, &own, &[]).await;
    // After that time the ensemble must confirm that it keeps the session.
    assert_eq!(peer.next().await.unwrap().op(), OpCode::MULTI);
    peer.answer(&()).await;
    // The folder still exists, and its watch is removed.
    expect(&mut peer, OpCode::REMOVE_WATCHES, FOLDER).await;
    peer.answer(&()).await;
    // The watch on its own node has told nothing, so that is not read.
    owned(&client, &mut peer, acquiring).await;
}

#[tokio::test(start_paused = true)]
async fn without_containers_a_server_that_stays_is_asked_for_plain_nodes_too() {
    let (_network, client, mut peer) = connected().await;
    let acquiring = acquire(&client);
    let unknown = ErrorCode::UNIMPLEMENTED;
    let no_node = ErrorCode::NO_NODE;
    // The folder as a container, and as a plain node whose parent is missing.
    let answers = [no_node, no_node, unknown, no_node, no_node, no_node, no_node, no_node];
    refuse_next(&mut peer, &answers).await;
    for expected in ["/locks", FOLDER] {
        assert_eq!(peer.next().await.unwrap().path(), expected);
        peer.answer(&created(expected)).await;
    }
    join_queue(&mut peer, &[]).await;
    owned(&client, &mut peer, acquiring).await;
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_sequence_is_refused() {
    let (_network, client, mut peer) = connected().await;
    for number in ["2147483647", "-2147483648", "2147418112"] {
        let acquiring = acquire(&client);
        let create = peer.next().await.unwrap();
        peer.answer(&created(&format!("{}{number}", create.path()))).await;
        assert_eq!(peer.next().await.unwrap().op(), OpCode::GET_CHILDREN2);
        peer.refuse(ErrorCode::NO_NODE).await;
        assert_eq!(peer.next().await.unwrap().op(), OpCode::DELETE);
        peer.answer(&()).await;
        let error = acquiring.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SequenceExhausted, "{number}");
    }
}

#[test]
fn clients_locks_and_their_futures_go_wherever_they_are_needed() {
    fn everywhere<T: Clone + Send + Sync + 'static>() {}
    fn send<T: Send>(_: &T) {}
    everywhere::<Client>();
    everywhere::<Lock>();
    let _ = |lock: Lock, guard: Guard| {
        send(&guard);
        send(&lock.acquire());
        send(&guard.release());
    };
}
