//! Contenders whose listings get no reply, as on a path that loses large packets: each wait ends
//! with an error that says so, and leaves no node behind.

use tokio::time::timeout;
use zk_client::ErrorKind;
use zk_embedded::Fault;
use zk_proto::OpCode;
use zk_recipes::{Lock, Options, retry};
use zk_test_support::locks::{LOCK, TIMEOUT, World};

use crate::refused_deletes::{WAITS, turn};

/// The servers accept no data of 2 kB: the third create ends the wait for good.
#[tokio::test(start_paused = true)]
async fn a_create_on_which_the_server_hangs_up_ends_a_wait_that_is_retried() {
    let world = World::new();
    let client = world.client().await;
    world.inject(1000, &Fault::lose_request().op(OpCode::CREATE2));
    let lock = Lock::with_options(&client, LOCK, Options::new().data(vec![7; 2000])).unwrap();
    let acquiring = retry(|| lock.acquire());
    let error = timeout(10 * TIMEOUT, acquiring).await.expect("it ends").unwrap_err();
    assert_eq!(error.client().unwrap().kind(), ErrorKind::NeverAnswered, "{error}");
    assert!(!error.is_transient() && !error.is_session_over(), "{error}");
    assert_eq!(world.server.pending_faults(), 1000 - 3);
}

/// Its session lives on by small packets, so the node of a wait that went on would block the others
/// for as long as the fault lasts. The create's reply is lost together with the first listing.
#[tokio::test(start_paused = true)]
async fn a_wait_whose_listings_never_arrive_ends_and_its_node_goes() {
    for name in WAITS {
        let world = World::new();
        world.make_folder().await;
        let client = world.client().await;
        let session = client.session().unwrap().id;
        for op in [OpCode::CREATE2, OpCode::MULTI] {
            world.server.inject(Fault::go_silent().op(op).path(LOCK).session(session));
        }
        for op in [OpCode::GET_CHILDREN, OpCode::GET_CHILDREN2] {
            world.inject(1000, &Fault::go_silent().op(op).session(session));
        }
        let waiting = timeout(20 * TIMEOUT, turn(name, &client, LOCK, "one"));
        let error = waiting.await.expect(name).unwrap_err();
        assert!(error.to_string().contains("the server was silent for"), "{name}: {error}");
        assert!(!error.is_session_over(), "{name}: {error}");
        // Listings are still lost when another contender gets its turn.
        let other = world.client().await;
        timeout(TIMEOUT, turn(name, &other, LOCK, "two")).await.expect(name).unwrap();
    }
}
