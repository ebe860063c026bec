//! A server older than 3.5: the error that a client reports, and the cost of detecting it.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use zk_client::{Client, CreateOptions, Error, ErrorCode, ErrorKind, Op};
use zk_embedded::{Config, Server};
use zk_recipes::{Lock, MultiLock, Options};
use zk_test_support::old_server::OldServer;
use zk_test_support::peer::Clock;

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

/// Part of the text of every error that a create fails with.
const TOO_OLD: &str = "this server is older than ZooKeeper 3.5, which this client needs";

const PLAIN: CreateOptions<'_> = CreateOptions::persistent();

async fn connect() -> (OldServer, Client) {
    let server = OldServer::new(Server::in_memory(Config::new()));
    let client = Client::builder().connector(server.clone()).connect("zk").await.unwrap();
    (server, client)
}

#[track_caller]
fn says_so(error: &Error) {
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Refused, Some(ErrorCode::UNIMPLEMENTED)),
        "{error}"
    );
    assert!(error.to_string().contains(TOO_OLD), "{error}");
}

/// Panics if `future` never ends. A timeout would not notice, since nothing in it waits for time.
async fn bounded<F: Future>(future: F) -> F::Output {
    let (mut future, mut polls) = (pin!(future), 0);
    poll_fn(|cx| {
        polls += 1;
        assert!(polls < 1000, "it goes on for ever");
        future.as_mut().poll(cx)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn the_first_create_finds_out_and_the_next_ones_are_refused_at_no_cost() {
    let (server, client) = connect().await;
    says_so(&client.create("/a", b"", &PLAIN).await.unwrap_err());
    assert_eq!(client.exists("/a").await.unwrap(), None, "reads work");
    let connections = server.connections();
    assert_eq!(connections, 2, "the server closed the first one");

    says_so(&client.create("/a", b"", &PLAIN).await.unwrap_err());
    says_so(&client.create_owned("/x-", b"", &OWNED).await.unwrap_err());
    // The client sends no other operation that such a server cannot know, even if it never sent it
    // before.
    let unimplemented = Some(ErrorCode::UNIMPLEMENTED);
    let container = client.create("/c", b"", &CreateOptions::container()).await;
    assert_eq!(container.unwrap_err().code(), unimplemented);
    assert_eq!(client.who_am_i().await.unwrap_err().code(), unimplemented);
    assert_eq!(client.get_children("/").await.unwrap().names.len(), 1);
    assert_eq!(server.connections(), connections);
}

#[tokio::test(start_paused = true)]
async fn every_lock_says_so_at_once() {
    for persistent in [false, true] {
        let options = Options::new().persistent_folder(persistent);
        let (server, client) = connect().await;
        let clock = Clock::start();
        let lock = Lock::with_options(&client, "/locks/one", options.clone()).unwrap();
        says_so(lock.acquire().await.unwrap_err().client().unwrap());
        says_so(lock.try_acquire().await.unwrap_err().client().unwrap());
        client.sync("/").await.unwrap();
        assert_eq!(server.connections(), 2);

        // A multi-lock creates its nodes in a transaction, which such a server knows, but not its
        // folders.
        let (server, client) = connect().await;
        let lock =
            MultiLock::with_options(&client, ["/locks/a", "/locks/b"], options.clone()).unwrap();
        for _ in 0..2 {
            says_so(bounded(lock.acquire()).await.unwrap_err().client().unwrap());
        }
        client.sync("/").await.unwrap();
        assert!(server.connections() <= 3, "{} connections", server.connections());
        assert!(clock.elapsed() < Duration::from_secs(1), "{:?}", clock.elapsed());
    }
}

/// Operations that such a server knows keep working after the client has detected its version.
#[tokio::test(start_paused = true)]
async fn what_it_knows_works() {
    let (_, client) = connect().await;
    says_so(&client.create("/a", b"", &PLAIN).await.unwrap_err());
    client.multi(Op::create("/a", b"1", &PLAIN)).await.unwrap();
    assert_eq!(&client.get_data("/a").await.unwrap().data[..], b"1");
    client.delete("/a", None).await.unwrap();
}
