//! The barrier: nobody passes while it is closed, everybody does when it is opened, and no watch is
//! left.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_client::Client;
use zk_embedded::{Fault, OpCode};
use zk_recipes::{Barrier, Error};
use zk_test_support::explore::settle;
use zk_test_support::locks::World;

const PATH: &str = "/barriers/one";

fn of(client: &Client) -> Barrier {
    Barrier::new(client, PATH).unwrap()
}

async fn barrier(world: &World) -> Barrier {
    of(&world.client().await)
}

/// A task that waits at the barrier. It has come there when this returns.
async fn waits(barrier: &Barrier) -> JoinHandle<Result<(), Error>> {
    let barrier = barrier.clone();
    let task = tokio::spawn(async move { barrier.wait().await });
    settle().await;
    task
}

#[tokio::test(start_paused = true)]
async fn an_open_barrier_costs_one_request_and_leaves_no_watch() {
    let world = World::new();
    let barrier = barrier(&world).await;
    let (requests, passed) = world.requests(barrier.wait()).await;
    passed.unwrap();
    assert_eq!(requests, 1);
    assert!(barrier.is_open().await.unwrap());
    assert_eq!(world.server.watch_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_was_cut_off_while_it_was_open_goes_on_although_it_is_closed_again() {
    let world = World::new();
    let admin = barrier(&world).await;
    admin.close().await.unwrap();
    let client = world.client().await;
    let waiting = waits(&of(&client)).await;
    world.server.disconnect(client.session().unwrap().id);
    admin.open().await.unwrap();
    admin.close().await.unwrap();
    timeout(Duration::from_secs(1), waiting).await.expect("it is open").unwrap().unwrap();
    assert!(!admin.is_open().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_does_not_open_what_was_closed_anew() {
    let world = World::new();
    let (client, other) = (world.client().await, barrier(&world).await);
    of(&client).close().await.unwrap();
    world.server.inject(Fault::lose_reply().op(OpCode::DELETE));
    let barrier = of(&client);
    let closes_anew = async {
        client.states().wait_for(|state| !state.is_connected()).await.unwrap();
        other.close().await.unwrap();
    };
    let (opened, ()) = tokio::join!(barrier.open(), closes_anew);
    opened.unwrap();
    assert!(world.server.has_node(PATH));
}
