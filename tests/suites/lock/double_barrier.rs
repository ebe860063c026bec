//! The double barrier: rounds of exactly so many parties that begin together and end together,
//! whatever is lost, and nothing of one round is left for the next.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_client::{Client, CreateOptions, ErrorCode, Op, Zxid};
use zk_embedded::{Change, Fault, OpCode};
use zk_recipes::{DoubleBarrier, Error, ErrorKind, LockState, Loss, Round};
use zk_test_support::explore::{Script, explore, poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};

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

fn leaves(mut round: Round) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(async move { round.leave().await })
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
async fn all_enter_when_enough_have_come_and_all_leave_when_all_have_left() {
    for leaving in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let world = World::new();
        let mut entering = Vec::new();
        for _ in 0..2 {
            entering.push(comes(barrier(&world, 3).await).await);
        }
        tokio::time::sleep(3 * TIMEOUT).await;
        assert!(entering.iter().all(|one| !one.is_finished()));
        entering.push(comes(barrier(&world, 3).await).await);
        let mut rounds = Vec::new();
        for one in entering {
            rounds.push(Some(at_once(one).await.unwrap()));
        }
        let numbers = rounds.iter().flatten().map(Round::number).collect::<Vec<_>>();
        assert!(numbers.iter().all(|number| *number == numbers[0] && *number > Zxid(0)));
        assert!(rounds.iter().flatten().all(|round| round.state() == LockState::Held));
        let mut left = Vec::new();
        for one in leaving {
            assert!(left.iter().all(|one: &JoinHandle<_>| !one.is_finished()), "one is inside");
            left.push(leaves(rounds[one].take().unwrap()));
            tokio::time::sleep(2 * TIMEOUT).await;
        }
        for one in left {
            at_once(one).await.unwrap();
        }
        world.is_empty().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_entered_again_at_once_and_nobody_is_a_round_ahead() {
    const ROUNDS: usize = 6;
    let world = World::new();
    let inside = Rc::new(RefCell::new(Vec::new()));
    let local = tokio::task::LocalSet::new();
    for _ in 0..3 {
        let (barrier, inside) = (barrier(&world, 3).await, Rc::clone(&inside));
        local.spawn_local(async move {
            for turn in 0..ROUNDS {
                let mut round = barrier.enter().await.unwrap();
                inside.borrow_mut().push((turn, round.number()));
                round.run(settle()).await.unwrap();
                round.leave().await.unwrap();
                // All have been inside before one has left.
                assert!(inside.borrow().len() >= 3 * (turn + 1));
            }
        });
    }
    local.await;
    let inside = inside.take();
    for (turn, three) in inside.chunks(3).enumerate() {
        assert!(three.iter().all(|entered| *entered == (turn, three[0].1)), "{inside:?}");
    }
    assert!(inside.is_sorted_by_key(|(_, number)| *number), "{inside:?}");
    assert_eq!(sizes(&world), [3; ROUNDS]);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn one_who_comes_while_a_round_is_under_way_is_in_the_next_one() {
    let world = World::new();
    let one = comes(barrier(&world, 2).await).await;
    let two = comes(barrier(&world, 2).await).await;
    let (one, two) = (at_once(one).await.unwrap(), at_once(two).await.unwrap());
    let three = comes(barrier(&world, 2).await).await;
    assert!(!three.is_finished());
    // Nobody waits for those of another round.
    let one = leaves(one);
    settle().await;
    let four = comes(barrier(&world, 2).await).await;
    let (three, four) = (at_once(three).await.unwrap(), at_once(four).await.unwrap());
    assert_eq!(three.number(), four.number());
    assert!(three.number() > two.number());
    assert!(!one.is_finished(), "two is inside");
    at_once(leaves(two)).await.unwrap();
    at_once(one).await.unwrap();
    let (three, four) = (leaves(three), leaves(four));
    at_once(three).await.unwrap();
    at_once(four).await.unwrap();
    assert_eq!(sizes(&world), [2, 2]);
    world.is_empty().await;
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
async fn one_whose_session_ends_while_it_waits_does_not_count() {
    let world = World::new();
    let client = world.client().await;
    let one = comes(of(&client, 2)).await;
    assert!(world.server.expire(client.session().unwrap().id));
    assert!(at_once(one).await.unwrap_err().is_session_over());
    let two = comes(barrier(&world, 2).await).await;
    assert!(!two.is_finished(), "it is alone");
    let three = comes(barrier(&world, 2).await).await;
    drop((at_once(two).await.unwrap(), at_once(three).await.unwrap()));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_round_that_crashed_lets_nobody_in() {
    let world = World::new();
    let (one, two) = (world.client().await, world.client().await);
    let entering = [comes(of(&one, 2)).await, comes(of(&two, 2)).await];
    let mut rounds = Vec::new();
    for task in entering {
        rounds.push(at_once(task).await.unwrap());
    }
    for client in [one, two] {
        assert!(world.server.expire(client.session().unwrap().id));
    }
    let three = comes(barrier(&world, 2).await).await;
    tokio::time::sleep(2 * TIMEOUT).await;
    assert!(!three.is_finished());
    for mut round in rounds {
        let error = round.leave().await.unwrap_err();
        assert!(matches!(error.loss(), Some(Loss::SessionOver(_))), "{error}");
    }
    let four = comes(barrier(&world, 2).await).await;
    drop((at_once(three).await.unwrap(), at_once(four).await.unwrap()));
    world.is_empty().await;
}

/// A round of two, with the client of the second.
async fn two_inside(world: &World) -> (Round, Round, Client) {
    let client = world.client().await;
    let one = comes(barrier(world, 2).await).await;
    let two = comes(of(&client, 2)).await;
    (at_once(one).await.unwrap(), at_once(two).await.unwrap(), client)
}

#[tokio::test(start_paused = true)]
async fn a_party_that_is_lost_inside_has_left_for_the_others_and_is_told() {
    for expires in [true, false] {
        let world = World::new();
        let (one, mut two, client) = two_inside(&world).await;
        let one = leaves(one);
        settle().await;
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

#[tokio::test(start_paused = true)]
async fn the_one_that_leaves_last_is_told_if_it_is_lost_before_the_others_leave() {
    for expires in [true, false] {
        let world = World::new();
        let (one, client) = (world.client().await, world.client().await);
        let entering = [comes(of(&one, 2)).await, comes(of(&client, 2)).await];
        let mut rounds = Vec::new();
        for task in entering {
            rounds.push(at_once(task).await.unwrap());
        }
        let node = rounds[0].node().to_owned();
        let second = rounds.pop().unwrap();
        let first = leaves(rounds.pop().unwrap());
        settle().await;
        assert!(!first.is_finished());
        match expires {
            true => assert!(world.server.expire(one.session().unwrap().id)),
            false => client.delete(&node, None).await.unwrap(),
        }
        let loss = at_once(first).await.unwrap_err().loss().expect("it is lost");
        assert_eq!(matches!(loss, Loss::SessionOver(_)), expires, "{loss}");
        at_once(leaves(second)).await.unwrap();
        world.is_empty().await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_has_left_and_waits_is_told_of_the_end_of_its_session() {
    let world = World::new();
    let (one, two, client) = two_inside(&world).await;
    let two = leaves(two);
    settle().await;
    assert_eq!(world.queue().len(), 1, "it has left, and waits");
    assert!(world.server.expire(client.session().unwrap().id));
    assert!(at_once(two).await.unwrap_err().is_session_over());
    at_once(leaves(one)).await.unwrap();
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_one_whose_session_ends_over_its_delete_is_told() {
    let world = World::new();
    let client = world.client().await;
    let mut round = of(&client, 1).enter().await.unwrap();
    let session = client.session().unwrap().id;
    world.server.inject(Fault::lose_request().op(OpCode::DELETE));
    let leaving = tokio::spawn(async move { round.leave().await });
    settle().await;
    assert_eq!(world.queue().len(), 1, "it has not left");
    assert!(world.server.expire(session));
    assert!(at_once(leaving).await.unwrap_err().is_session_over());
}

#[tokio::test(start_paused = true)]
async fn one_that_leaves_does_not_wait_for_those_in_a_folder_that_was_made_anew() {
    let world = World::new();
    let (one, mut two, client) = two_inside(&world).await;
    let mut leaving = Box::pin(two.leave());
    while world.queue().len() == 2 {
        assert!(poll_once(leaving.as_mut()).is_pending());
        settle().await;
    }
    assert!(poll_once(leaving.as_mut()).is_pending(), "it waits for the other one");
    // The other one leaves, and the folder goes, before this one looks again.
    drop(one);
    settle().await;
    client.delete(LOCK, None).await.unwrap();
    let next = comes(barrier(&world, 2).await).await;
    assert!(world.queue()[0].ends_with("__enter__0000000000"), "{:?}", world.queue());
    timeout(Duration::from_secs(1), leaving).await.expect("all have left").unwrap();
    assert!(!next.is_finished());
    next.abort();
}

#[tokio::test(start_paused = true)]
async fn a_party_that_is_cut_off_knows_that_it_is_lost_before_the_others_go_on() {
    let world = World::new();
    let (one, two, client) = two_inside(&world).await;
    let one = leaves(one);
    // Pings are answered all the same.
    world.server.partition(client.session().unwrap().id);
    timeout(3 * TIMEOUT, one).await.expect("its session ends").unwrap().unwrap();
    assert_eq!(two.state(), LockState::Lost(Loss::Deadline));
}

#[tokio::test(start_paused = true)]
async fn a_party_that_knows_that_it_is_lost_is_told_so_though_it_is_cut_off() {
    let world = World::new();
    let (_one, mut two, _) = two_inside(&world).await;
    world.server.set_serving(false);
    assert_eq!(two.lost().await, Loss::Deadline);
    let told = timeout(Duration::from_millis(1), two.leave()).await.expect("it waits for nobody");
    assert_eq!(told.unwrap_err().loss(), Some(Loss::Deadline));
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_is_told_if_its_node_is_deleted_or_hidden() {
    let world = World::new();
    let (admin, one) = (world.client().await, comes(barrier(&world, 2).await).await);
    admin.delete(&format!("{LOCK}/{}", world.queue()[0]), None).await.unwrap();
    assert_eq!(at_once(one).await.unwrap_err().kind(), ErrorKind::NodeVanished);
    let two = comes(barrier(&world, 2).await).await;
    world.hide(&format!("{LOCK}/{}", world.queue()[0])).await;
    // Changing the access list sends no event.
    let error = timeout(2 * TIMEOUT, two).await.expect("it looks again").unwrap().unwrap_err();
    assert_eq!(error.client().unwrap().code(), Some(ErrorCode::NO_AUTH));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_writes_to_a_node_keeps_nobody_out_and_lets_nobody_in() {
    for data in ["", "x", "0000000000-0000000009", "0000000007-0000000009"] {
        let world = World::new();
        let raw = world.client().await;
        let one = comes(barrier(&world, 3).await).await;
        let two = comes(barrier(&world, 3).await).await;
        let first = format!("{LOCK}/{}", world.queue()[0]);
        let forged = data.starts_with("0000000000");
        raw.set_data(&first, data.as_bytes(), None).await.unwrap();
        settle().await;
        if forged {
            // Whoever forges what a party would write is believed.
            drop(at_once(one).await.unwrap());
            continue;
        }
        assert!(!one.is_finished() && !two.is_finished());
        assert_eq!(world.queue().len(), 2, "it has come anew");
        let three = comes(barrier(&world, 3).await).await;
        for task in [one, two, three] {
            drop(at_once(task).await.unwrap());
        }
        assert_eq!(sizes(&world), [1, 3]);
        world.is_empty().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_a_stranger_wrote_to_before_the_last_one_comes_is_left_out() {
    let world = World::new();
    let raw = world.client().await;
    world.make_folder().await;
    let node = CreateOptions::ephemeral().sequential();
    // None of the ranges has the node's own number.
    for data in ["", "x", "0000000009-0000000010", "0000000000-0000000001", "5-0"] {
        let made = raw.create(&format!("{LOCK}/x__enter__"), b"", &node).await.unwrap();
        raw.set_data(&made.path, data.as_bytes(), None).await.unwrap();
    }
    for other in ["config", "ready", "__enter__"] {
        raw.create(&format!("{LOCK}/{other}"), b"", &CreateOptions::ephemeral()).await.unwrap();
    }
    let one = comes(barrier(&world, 2).await).await;
    assert!(!one.is_finished());
    let two = comes(barrier(&world, 2).await).await;
    let (one, two) = (at_once(one).await.unwrap(), at_once(two).await.unwrap());
    let one = leaves(one);
    at_once(leaves(two)).await.unwrap();
    at_once(one).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_party_that_stops_after_it_has_come_is_let_in_by_the_others() {
    let world = World::new();
    let one = comes(barrier(&world, 2).await).await;
    let raw = world.client().await;
    let node = CreateOptions::ephemeral().sequential();
    raw.create(&format!("{LOCK}/stopped__enter__"), b"", &node).await.unwrap();
    settle().await;
    assert!(!one.is_finished(), "the other one was to open the round");
    let round = timeout(2 * TIMEOUT, one).await.expect("it looks again").unwrap().unwrap();
    assert_eq!(sizes(&world), [2]);
    drop(round);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_sheds_is_sent_again() {
    let world = World::new();
    let one = comes(barrier(&world, 2).await).await;
    for op in [OpCode::GET_CHILDREN2, OpCode::MULTI, OpCode::GET_DATA] {
        world.server.inject(Fault::refuse(ErrorCode::THROTTLED_OP).op(op));
    }
    let two = comes(barrier(&world, 2).await).await;
    let (one, two) = (at_once(one).await.unwrap(), at_once(two).await.unwrap());
    for op in [OpCode::GET_CHILDREN2, OpCode::GET_DATA] {
        world.server.inject(Fault::refuse(ErrorCode::THROTTLED_OP).op(op));
    }
    let one = leaves(one);
    at_once(leaves(two)).await.unwrap();
    at_once(one).await.unwrap();
    assert_eq!(world.server.pending_faults(), 0);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_breaks_each_connection_is_given_up() {
    for (op, parties) in [(OpCode::MULTI, 1), (OpCode::GET_DATA, 2)] {
        let world = World::new();
        for _ in 0..6 {
            world.server.inject(Fault::lose_request().op(op));
        }
        let client = world.client().await;
        let error = timeout(10 * TIMEOUT, of(&client, parties).enter()).await;
        assert!(error.expect("it is given up").unwrap_err().client().unwrap().is_connection_loss());
        assert_eq!(world.server.pending_faults(), 0);
        // The delete is repeated until it is answered.
        client.sync("/").await.unwrap();
        world.is_empty().await;
    }
}

#[test]
fn leaving_may_be_dropped_and_called_again() {
    let runs = explore(|script: Script| async move {
        let world = World::new();
        let (mut rounds, first) = (Vec::new(), script.choose(2));
        let (one, two, _client) = two_inside(&world).await;
        rounds.extend([one, two]);
        let mut ours = rounds.remove(first);
        let mut theirs = Some(rounds.remove(0));
        let mut other = None;
        for _ in 0..7 {
            let mut leaving = Box::pin(ours.leave());
            match script.choose(3) {
                0 => settle().await,
                1 => {
                    if poll_once(leaving.as_mut()).is_ready() {
                        assert!(theirs.is_none());
                        break;
                    }
                    settle().await;
                }
                _ => other = theirs.take().map(leaves).or(other),
            }
        }
        other = theirs.take().map(leaves).or(other);
        timeout(TIMEOUT, ours.leave()).await.expect("all have left").unwrap();
        at_once(other.expect("it leaves")).await.unwrap();
        world.is_empty().await;
    });
    assert!(runs > 500, "{runs} runs");
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
    async fn leave(round: Round) -> JoinHandle<Result<(), Error>> {
        let left = leaves(round);
        settle().await;
        left
    }
    let (requests, two) = world.requests(leave(two)).await;
    assert_eq!(requests, 3, "a list, a delete and a read with a watch");
    let (requests, one) = world.requests(leave(one)).await;
    assert_eq!(requests, 3, "a list, a read with a watch, and one of its own node");
    let (requests, three) = world.requests(leave(three)).await;
    assert_eq!(requests, 3 + 2 + 2, "as the second one; a list and a delete; two lists");
    for left in [one, two, three] {
        at_once(left).await.unwrap();
    }
    world.is_empty().await;
}
