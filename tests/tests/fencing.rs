//! What is written under a lock whose session has ended elsewhere.

use zk_client::{Client, CreateOptions, Op, OpCode, Outcome, Stat};
use zk_embedded::{Config, Fault, Server};
use zk_recipes::{ErrorKind, Lock, RwLock};

const WRITE: Op<'static, Stat> = Op::set_data("/balance", b"70", None);

/// A server, and a client of it whose writes go to `/balance`.
async fn stage() -> (Server, Client) {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    client.create("/balance", b"100", &CreateOptions::persistent()).await.unwrap();
    (server, client)
}

async fn connect(server: &Server) -> Client {
    Client::builder().connector(server.connector()).connect("zk").await.unwrap()
}

/// Ends the session of the client, and waits until it knows.
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

/// The end of the session says nothing of a write that was on its way before.
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

#[tokio::test]
async fn the_example_runs_to_its_end() -> anyhow::Result<()> {
    let said = zk_tests::tour::run("fencing", &[]).await?;
    assert!(said.ends_with("both still say what the second wrote: 70\n"), "{said}");
    Ok(())
}
