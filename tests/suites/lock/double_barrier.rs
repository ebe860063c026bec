//! The double barrier: rounds of exactly so many parties that begin together and end together,
//! whatever is lost, and nothing of one round is left for the next.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_client::{Client, Op, Perms, Zxid};
use zk_embedded::{Change, Fault, OpCode};
use zk_recipes::{DoubleBarrier, Error, ErrorKind, LockState, Loss, Round};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};

use super::losses::jumping;
use super::refused_deletes::permit;

fn of(client: &Client, parties: u32) -> DoubleBarrier {
    DoubleBarrier::new(client, LOCK, parties).unwrap()
}

async fn barrier(world: &World, parties: u32) -> DoubleBarrier {
    of(&world.client().await, parties)
}

type Entering = JoinHandle<Result<Round, Error>>;

/// A task that enters. It has come there when this returns.
async fn comes(barrier: DoubleBarrier) -> Entering {
    let task = tokio::spawn(async move { barrier.enter().await });
    settle().await;
    task
}

/// The result of a task that is not to wait any more.
async fn at_once<T>(task: JoinHandle<Result<T, Error>>) -> Result<T, Error> {
    timeout(Duration::from_secs(1), task).await.expect("it waits for nobody").unwrap()
}

/// A task that leaves. It has asked to when this returns.
async fn leaves(mut round: Round) -> JoinHandle<Result<(), Error>> {
    let task = tokio::spawn(async move { round.leave().await });
    settle().await;
    task
}

/// How many nodes each round had, by the server's history.
fn sizes(world: &World) -> Vec<usize> {
    let mut rounds = BTreeMap::<Zxid, usize>::new();
    for commit in world.server.history() {
        if commit.path.contains("__enter__") && matches!(commit.change, Change::DataSet) {
            *rounds.entry(commit.zxid).or_default() += 1;
        }
    }
    rounds.into_values().collect()
}

#[tokio::test(start_paused = true)]
async fn one_party_is_a_round_of_its_own_and_no_party_is_none() {
    let world = World::new();
    let alone = barrier(&world, 1).await;
    for _ in 0..3 {
        let mut round = alone.enter().await.unwrap();
        round.leave().await.unwrap();
        round.leave().await.unwrap();
        assert_eq!(round.state(), LockState::Lost(Loss::Released));
    }
    assert_eq!(sizes(&world), [1; 3]);
    world.is_empty().await;
    let client = world.client().await;
    let error = DoubleBarrier::new(&client, LOCK, 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(DoubleBarrier::new(&client, "no/path", 1).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_round_that_crashed_lets_nobody_in() {
    let world = World::new();
    let (one, two, clients) = two_inside(&world).await;
    for client in clients {
        assert!(world.server.expire(client.session().unwrap().id));
    }
    let three = comes(barrier(&world, 2).await).await;
    tokio::time::sleep(2 * TIMEOUT).await;
    assert!(!three.is_finished());
    for mut round in [one, two] {
        let error = round.leave().await.unwrap_err();
        assert!(matches!(error.loss(), Some(Loss::SessionOver(_))), "{error}");
    }
    let four = comes(barrier(&world, 2).await).await;
    drop((at_once(three).await.unwrap(), at_once(four).await.unwrap()));
    world.is_empty().await;
}

/// A round of two, with their clients.
async fn two_inside(world: &World) -> (Round, Round, [Client; 2]) {
    let clients = [world.client().await, world.client().await];
    let one = comes(of(&clients[0], 2)).await;
    let two = comes(of(&clients[1], 2)).await;
    (at_once(one).await.unwrap(), at_once(two).await.unwrap(), clients)
}

#[tokio::test(start_paused = true)]
async fn a_party_that_is_lost_inside_has_left_for_the_others_and_is_told() {
    for expires in [true, false] {
        let world = World::new();
        let (one, mut two, [_, client]) = two_inside(&world).await;
        let one = leaves(one).await;
        assert!(!one.is_finished());
        match expires {
            true => assert!(world.server.expire(client.session().unwrap().id)),
            false => client.delete(two.node(), None).await.unwrap(),
        }
        at_once(one).await.unwrap();
        let loss = two.leave().await.unwrap_err().loss().expect("it is lost");
        assert_eq!(matches!(loss, Loss::SessionOver(_)), expires, "{loss}");
        assert_eq!(two.fenced(Op::check("/", None)).await.unwrap_err().loss(), Some(loss));
        world.is_empty().await;
    }
}

/// It stood still while it left, lost its delete, and may delete only later.
#[tokio::test(start_paused = true)]
async fn nobody_has_left_whose_node_is_still_there() {
    let world = World::new();
    let (admin, (client, suspended)) = (world.client().await, jumping(&world).await);
    let mut round = of(&client, 1).enter().await.unwrap();
    permit(&admin, &[LOCK], Perms::ALL.without(Perms::DELETE)).await;
    world.server.inject(Fault::go_silent().op(OpCode::DELETE));
    let mut leave = pin!(round.leave());
    assert!(poll_once(leave.as_mut()).is_pending(), "the list is sent");
    suspended.fetch_add(TIMEOUT.as_secs(), Ordering::Relaxed);
    let ended = timeout(3 * TIMEOUT, leave.as_mut()).await;
    assert!(ended.is_err(), "it has left: {ended:?}");
    assert_eq!(world.server.pending_faults(), 0);
    permit(&admin, &[LOCK], Perms::ALL).await;
    timeout(2 * TIMEOUT, leave).await.expect("it leaves").unwrap();
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_round_costs_each_party_a_few_requests() {
    let world = World::new();
    world.make_folder().await;
    let (a, b) = (barrier(&world, 3).await, barrier(&world, 3).await);
    let c = barrier(&world, 3).await;
    let (requests, one) = world.requests(comes(a.clone())).await;
    assert_eq!(requests, 3, "a create, a list, and a read with a watch");
    let two = comes(b.clone()).await;
    let (requests, three) = world.requests(comes(c.clone())).await;
    assert_eq!(requests, 3 + 2, "a create, a list and a transaction; and a read of each other one");
    let (one, two) = (at_once(one).await.unwrap(), at_once(two).await.unwrap());
    let three = at_once(three).await.unwrap();
    let (requests, two) = world.requests(leaves(two)).await;
    assert_eq!(requests, 3, "a list, a delete and a read with a watch");
    let (requests, one) = world.requests(leaves(one)).await;
    assert_eq!(requests, 3, "a list, a read with a watch, and one of its own node");
    let (requests, three) = world.requests(leaves(three)).await;
    assert_eq!(requests, 3 + 2 + 2, "as the second one; a list and a delete; two lists");
    for left in [one, two, three] {
        at_once(left).await.unwrap();
    }
    world.is_empty().await;
}
