//! Fenced writes under a lock whose session was ended by the server.

use std::future::pending;

use zk_client::{Client, CreateOptions, Op, OpCode, Outcome, Stat};
use zk_embedded::{Config, Fault, Server};
use zk_recipes::{ErrorKind, Lock, RwLock};

const WRITE: Op<'static, Stat> = Op::set_data("/balance", b"70", None);

/// A server, and a client that writes to `/balance`.
async fn stage() -> (Server, Client) {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    client.create("/balance", b"100", &CreateOptions::persistent()).await.unwrap();
    (server, client)
}

async fn connect(server: &Server) -> Client {
    Client::builder().connector(server.connector()).connect("zk").await.unwrap()
}

/// Ends the client's session, and waits until the client knows.
async fn expire(server: &Server, client: &Client) {
    assert!(server.expire(client.session().unwrap().id));
    client.states().wait_for(|state| state.ended().is_some()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_of_a_session_that_is_over_finds_the_lock_lost() {
    let (server, client) = stage().await;
    let guard = Lock::new(&client, "/lock").unwrap().acquire().await.unwrap();
    expire(&server, &client).await;
    assert_eq!(guard.fenced(WRITE).await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_release_with_a_write_brings_no_guard_back_that_is_lost() {
    let (server, client) = stage().await;
    let guard = Lock::new(&client, "/lock").unwrap().acquire().await.unwrap();
    expire(&server, &client).await;
    let late = guard.release_with(WRITE).await.unwrap_err();
    assert_eq!(late.error.kind(), ErrorKind::Lost);
    assert!(late.guard.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_brings_no_guard_back_that_is_lost() {
    let (server, client) = stage().await;
    let guard = RwLock::new(&client, "/lock").unwrap().write().await.unwrap();
    expire(&server, &client).await;
    let late = guard.downgrade().await.unwrap_err();
    assert_eq!(late.error.kind(), ErrorKind::Lost);
    assert!(late.guard.is_none());
}

/// The end of the session does not show whether a write that was in flight before was carried out.
#[tokio::test(start_paused = true)]
async fn a_write_whose_reply_is_lost_with_the_session_stays_open() {
    let (server, client) = stage().await;
    let guard = Lock::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let other = connect(&server).await;
    let (_, mut written) = other.get_data_and_watch("/balance").await.unwrap();
    server.inject(Fault::lose_reply().op(OpCode::MULTI));
    let write = guard.fenced(WRITE);
    written.changed().await.unwrap();
    expire(&server, &client).await;
    let error = write.await.unwrap_err();
    assert_eq!(&other.get_data("/balance").await.unwrap().data[..], b"70");
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_is_one_question_for_who_holds_and_who_waits() {
    let (server, client) = stage().await;
    let other = connect(&server).await;
    let held = Lock::new(&client, "/held").unwrap().acquire().await.unwrap();
    let deleted = Lock::new(&client, "/deleted").unwrap().acquire().await.unwrap();
    other.delete(deleted.node(), None).await.unwrap();
    let error = deleted.run(pending::<()>()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_session_over()), (ErrorKind::Lost, false));

    let _taken = Lock::new(&other, "/lock").unwrap().acquire().await.unwrap();
    let lock = Lock::new(&client, "/lock").unwrap();
    let (holds, waits, ()) =
        tokio::join!(held.run(pending::<()>()), lock.acquire(), expire(&server, &client));
    let error = holds.unwrap_err();
    assert_eq!((error.kind(), error.is_session_over()), (ErrorKind::Lost, true));
    let error = waits.unwrap_err();
    assert_eq!((error.kind(), error.is_session_over()), (ErrorKind::Client, true));
}

#[tokio::test]
async fn the_example_runs_to_its_end() {
    let said = zk_test_support::tour::run("fencing", &[]).await.unwrap();
    assert!(said.ends_with("both still say what the second wrote: 70\n"), "{said}");
}
