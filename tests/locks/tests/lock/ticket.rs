//! A lock that is left to the next process, a folder that is made anew when its numbers end, and a
//! term that has no end.

use std::time::Duration;

use zk_client::{Client, Ended, OpCode};
use zk_embedded::{Config, Fault, Server};
use zk_recipes::{ErrorKind, Lock, LockState, LockTicket, Options, Release};

const PATH: &str = "/locks/one";

fn builder(server: &Server) -> zk_client::ClientBuilder {
    Client::builder().connector(server.connector()).session_timeout(Duration::from_secs(4))
}

async fn connect(server: &Server) -> Client {
    builder(server).connect("zk").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lock_survives_a_restart_of_its_process() {
    let server = Server::in_memory(Config::new());
    let (old, other) = (connect(&server).await, connect(&server).await);
    let guard = Lock::new(&old, PATH).unwrap().acquire().await.unwrap();
    let (token, node) = (guard.token(), guard.node().to_owned());
    let waiting = Lock::new(&other, PATH).unwrap();
    let waiting = tokio::spawn(async move { waiting.acquire().await });

    let secret = guard.into_ticket().unwrap().to_secret();
    assert!(old.detach().await.is_some());
    drop(old);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(server.has_node(&node));
    assert!(!waiting.is_finished());

    let ticket = secret.parse::<LockTicket>().unwrap();
    let new = builder(&server).session(ticket.session()).connect("zk").await.unwrap();
    let lock = Lock::new(&new, PATH).unwrap();
    let guard = lock.resume(&ticket).await.unwrap();
    assert_eq!((guard.token(), guard.node(), guard.state()), (token, &*node, LockState::Held));
    // It is kept alive, and released like any other.
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(guard.state(), LockState::Held);
    guard.verify().await.unwrap();
    assert!(!waiting.is_finished());
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    assert!(waiting.await.unwrap().unwrap().token() > token);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_came_too_late_is_no_lock() {
    let server = Server::in_memory(Config::new());
    let old = connect(&server).await;
    let guard = Lock::new(&old, PATH).unwrap().acquire().await.unwrap();
    let ticket = guard.into_ticket().unwrap();
    old.detach().await;
    drop(old);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(server.children(PATH), Vec::<String>::new());
    let refused = builder(&server).session(ticket.session()).connect("zk").await.unwrap_err();
    assert!(refused.is_session_over(), "{refused}");

    let stranger = connect(&server).await;
    let refused = Lock::new(&stranger, PATH).unwrap().resume(&ticket).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidTicket);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_good_for_its_node_and_folder_alone() {
    let server = Server::in_memory(Config::new());
    let (old, other) = (connect(&server).await, connect(&server).await);
    let first = Lock::new(&old, PATH).unwrap().acquire().await.unwrap();
    let second = Lock::new(&old, "/locks/two").unwrap().acquire().await.unwrap();
    let (first, second) = (first.into_ticket().unwrap(), second.into_ticket().unwrap());
    old.detach().await;
    drop(old);
    other.delete(first.node(), None).await.unwrap();

    let new = builder(&server).session(first.session()).connect("zk").await.unwrap();
    let lock = Lock::new(&new, PATH).unwrap();
    let gone = lock.resume(&first).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Lost);
    let wrong = lock.resume(&second).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidTicket);
    // Trying that has cost nothing.
    assert!(server.has_node(second.node()));
    let guard = Lock::new(&new, "/locks/two").unwrap().resume(&second).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_was_left_is_released_by_closing_and_not_by_dropping() {
    let server = Server::in_memory(Config::new());
    let old = connect(&server).await;
    let guard = Lock::new(&old, PATH).unwrap().acquire().await.unwrap();
    let ticket = guard.into_ticket().unwrap();
    old.sync("/").await.unwrap();
    assert!(server.has_node(ticket.node()));
    old.close().await;
    assert!(!server.has_node(ticket.node()));

    let lost = connect(&server).await;
    let guard = Lock::new(&lost, PATH).unwrap().acquire().await.unwrap();
    lost.close().await;
    let error = guard.into_ticket().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(error.loss(), Some(zk_recipes::Loss::SessionOver(Ended::Closed)));
}

#[tokio::test(start_paused = true)]
async fn a_folder_whose_numbers_end_is_made_anew_when_it_is_empty() {
    let server = Server::in_memory(Config::new());
    let (client, other) = (connect(&server).await, connect(&server).await);
    let options = Options::new().rotate(true);
    let lock = Lock::with_options(&client, PATH, options.clone()).unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    assert!(server.preset_sequence(PATH, i32::MAX - 65_536));

    // The last good number; then one that is refused, until nobody is in the folder.
    let last = Lock::new(&other, PATH).unwrap().acquire().await.unwrap();
    let refused = Lock::new(&other, PATH).unwrap().acquire().await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::SequenceExhausted);
    let mut rotating = Vec::new();
    for client in [&client, &other] {
        let lock = Lock::with_options(client, PATH, options.clone()).unwrap();
        rotating.push(tokio::spawn(async move { lock.acquire().await?.release().await }));
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(rotating.iter().all(|task| !task.is_finished()));
    last.verify().await.unwrap();
    let token = last.token();
    last.release().await.unwrap();
    for task in rotating {
        assert_eq!(task.await.unwrap().unwrap(), Release::Released);
    }
    let next = lock.acquire().await.unwrap();
    assert!(next.node().ends_with("-lock-0000000002"), "{}", next.node());
    assert!(next.token() > token);
}

#[tokio::test(start_paused = true)]
async fn a_rotation_survives_lost_connections() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    let lock = Lock::with_options(&client, PATH, Options::new().rotate(true)).unwrap();
    for fault in [Fault::lose_reply(), Fault::lose_request()] {
        lock.acquire().await.unwrap().release().await.unwrap();
        assert!(server.preset_sequence(PATH, i32::MAX - 10));
        server.inject(fault.op(OpCode::DELETE).path(PATH));
        let guard = lock.acquire().await.unwrap();
        assert_eq!(server.pending_faults(), 0);
        assert!(guard.node().ends_with("-lock-0000000000"), "{}", guard.node());
        guard.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_term_without_end_has_none_for_whoever_waited_either() {
    let server = Server::in_memory(Config::new());
    let (client, other) = (connect(&server).await, connect(&server).await);
    let held = Lock::new(&other, PATH).unwrap().acquire().await.unwrap();
    let lock = Lock::with_options(&client, PATH, Options::new().term(Duration::MAX)).unwrap();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    held.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().state(), LockState::Held);
}
