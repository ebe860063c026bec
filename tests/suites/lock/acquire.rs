//! Joining the queue: missing folders, refusals, lost replies, and sessions that were replaced.

use std::rc::Rc;
use std::time::Duration;

use zk_client::{Acl, Client, CreateOptions, Ended, ErrorCode as Code, Id, Perms, SessionId};
use zk_embedded::{Config, ErrorCode, Fault, OpCode};
use zk_proto::{
    CreateRequest, ExistsResponse, GetChildren2Response, GetDataResponse, List, SyncResponse, Text,
};
use zk_recipes::{
    Election, ErrorKind, Layout, Lock, LockState, Loss, Options, Release, RwLock, Semaphore, retry,
};
use zk_test_support::explore::{Script, actor, explore};
use zk_test_support::locks::{LOCK, TIMEOUT, World, settle};
use zk_test_support::peer::{Clock, SESSION, stat_of};
use zk_test_support::raw::{RawClient, delete};

use crate::frames::{acquire, connected};

/// Takes the lock, checks that the guard is the owner, and releases it.
async fn turn(world: &World, lock: &Lock) {
    let guard = lock.acquire().await.unwrap();
    world.is_owner(&guard);
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_was_reaped_begins_anew_with_a_greater_token() {
    let world = World::new();
    let lock = world.lock().await;
    let guard = lock.acquire().await.unwrap();
    let token = guard.token();
    guard.release().await.unwrap();
    world.server.reap();
    assert!(!world.server.has_node(LOCK), "it is a container");
    let guard = lock.acquire().await.unwrap();
    assert!(guard.node().ends_with("-lock-0000000000"), "{}", guard.node());
    assert!(guard.token() > token);
    world.is_owner(&guard);
    guard.release().await.unwrap();
    turn(&world, &lock).await;
    drop(lock);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_create_that_is_refused_is_told_whatever_the_list_says() {
    let world = World::new();
    let lock = world.lock().await;
    turn(&world, &lock).await;
    for code in [ErrorCode::THROTTLED_OP, ErrorCode::QUOTA_EXCEEDED, ErrorCode::NO_AUTH] {
        world.server.inject(Fault::refuse(code).op(OpCode::CREATE2));
        let error = lock.acquire().await.unwrap_err();
        assert_eq!(error.client().and_then(zk_client::Error::code), Some(code));
        assert_eq!(error.is_transient(), code == ErrorCode::THROTTLED_OP);
        assert_eq!(world.queue(), [""; 0]);
    }
    turn(&world, &lock).await;
}

/// Makes the folder, for which everybody has all permissions but this one.
async fn make_folder_without(client: &Client, permission: Perms) {
    let acl = [Acl::new(Perms::ALL.without(permission), Id::ANYONE)];
    client.create("/locks", b"", &CreateOptions::persistent()).await.unwrap();
    client.create(LOCK, b"", &CreateOptions::persistent().with_acl(&acl)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_may_not_be_listed_is_left_again() {
    let world = World::new();
    let client = world.client().await;
    make_folder_without(&client, Perms::READ).await;
    let error = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap_err();
    assert_eq!(error.client().and_then(zk_client::Error::code), Some(Code::NO_AUTH));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_refused_is_told_and_lasts_until_the_session_ends() {
    let world = World::new();
    let client = world.client().await;
    make_folder_without(&client, Perms::DELETE).await;
    let guard = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.client().and_then(zk_client::Error::code), Some(Code::NO_AUTH));
    assert_eq!(world.queue().len(), 1, "nobody can get in");
    client.close().await;
    assert_eq!(world.queue(), [""; 0], "and that ends it");
}

/// The server carries out the create of this lock only after the client has looked for the node.
fn create_late(world: &World, by: Duration) {
    world.server.inject(Fault::serve_late(by).op(OpCode::CREATE2).path(LOCK));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_behind_a_node_of_its_own_that_came_late() {
    let world = World::new();
    let lock = world.lock().await;
    world.lock().await.acquire().await.unwrap().release().await.unwrap();
    create_late(&world, Duration::from_millis(100));
    // The listing holds no node, and its reply arrives only after the node was created.
    let look = Fault::delay(Duration::from_millis(200)).op(OpCode::GET_EPHEMERALS);
    world.server.inject(look);
    let guard = tokio::time::timeout(Duration::from_secs(1), lock.acquire()).await;
    let guard = guard.expect("waits for itself").unwrap();
    assert_eq!(world.server.pending_faults(), 0);
    world.is_owner(&guard);
    assert_eq!(world.queue().len(), 1);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_of_an_earlier_session_is_a_strangers() {
    let world = World::new();
    // A process dies without closing its session, and the next process generates the same names.
    let seeded = || world.builder().seed(7);
    let (client, driver) = seeded().split("zk").unwrap();
    let driving = tokio::spawn(driver);
    let old = Lock::new(&client, LOCK).unwrap().acquire().await.unwrap();
    driving.abort();
    settle().await;
    let client = seeded().connect("zk").await.unwrap();
    let lock = Lock::new(&client, LOCK).unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none(), "{old:?} is there");
    // The same holds if the create's reply is lost and the client looks for its node among both.
    world.server.inject(Fault::lose_reply().op(OpCode::CREATE2));
    let guard = lock.acquire().await.unwrap();
    assert_eq!(world.server.sessions().len(), 1, "the old session had to end first");
    world.is_owner(&guard);
    assert!(matches!(old.state(), LockState::Lost(_)));
}

#[tokio::test(start_paused = true)]
async fn another_session_in_place_of_the_own_one_is_its_end() {
    let world = World::new();
    let (client, lock, guard) = world.holder().await;
    world.server.inject(Fault::swap_session());
    world.server.disconnect(client.session().unwrap().id);
    assert_eq!(guard.lost().await, Loss::SessionOver(Ended::Expired));
    assert!(lock.acquire().await.is_err());
    assert_eq!(guard.release().await.unwrap(), Release::AlreadyLost);
}

#[tokio::test(start_paused = true)]
async fn nobody_gets_in_by_what_a_read_only_server_shows() {
    let world = World::new();
    let lock = world.lock().await;
    turn(&world, &lock).await;
    world.server.set_read_only(true);
    let waiting = tokio::spawn(async move { lock.acquire().await.map(drop) });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!waiting.is_finished() || waiting.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn persistent_folders_are_not_reaped() {
    let persistent = Options::new().persistent_folder(true);
    let kazoo = Options::new().layout(Layout::KAZOO);
    for options in [persistent, kazoo] {
        let world = World::with(Config::new());
        let client = world.client().await;
        turn(&world, &Lock::with_options(&client, LOCK, options.clone()).unwrap()).await;
        drop(RwLock::with_options(&client, "/rw/a", options.clone()).unwrap().read().await);
        let election = Election::with_options(&client, "/elect/a", options.clone()).unwrap();
        drop(election.campaign().await);
        drop(Semaphore::with_options(&client, "/many/a", 2, options).unwrap().acquire().await);
        settle().await;
        for _ in 0..3 {
            world.server.reap();
        }
        for folder in [LOCK, "/rw/a", "/elect/a", "/many/a"] {
            assert!(world.server.has_node(folder), "{folder}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_a_busy_server_shed_is_done_again_after_a_pause() {
    let world = World::new();
    let lock = world.lock().await;
    turn(&world, &lock).await;
    for _ in 0..3 {
        world.server.inject(Fault::refuse(ErrorCode::THROTTLED_OP).op(OpCode::CREATE2));
    }
    let clock = Clock::start();
    let guard = retry(|| lock.acquire()).await.unwrap();
    world.is_owner(&guard);
    assert!(clock.elapsed() >= Duration::from_secs(3), "a pause each time: {:?}", clock.elapsed());
}

/// The create of a free lock is answered so late that the grant needs a proof. Meanwhile somebody
/// deletes the node, and the server is too busy to have it read.
#[tokio::test(start_paused = true)]
async fn a_grant_waits_until_its_node_could_be_read() {
    let world = World::new();
    world.make_folder().await;
    let lock = world.lock().await;
    world.server.inject(Fault::delay(TIMEOUT * 6 / 10).op(OpCode::CREATE2));
    for _ in 0..8 {
        world.server.inject(Fault::refuse(ErrorCode::THROTTLED_OP).op(OpCode::GET_DATA));
    }
    let acquiring = tokio::spawn(async move { lock.acquire().await });
    tokio::time::sleep(TIMEOUT / 10).await;
    let queue = world.queue();
    let [node] = &queue[..] else { panic!("{queue:?}") };
    world.client().await.delete(&format!("{LOCK}/{node}"), None).await.unwrap();
    let acquired = tokio::time::timeout(5 * TIMEOUT, acquiring).await.unwrap().unwrap();
    assert_eq!(acquired.unwrap_err().kind(), ErrorKind::NodeVanished);
}

#[tokio::test(start_paused = true)]
async fn of_two_creates_that_show_up_late_one_is_kept() {
    let (mut network, client, mut peer) = connected().await;
    let acquiring = acquire(&client);
    let mut nodes = Vec::new();
    // The connection breaks after each create. The first listing does not show a node yet.
    for number in [3, 4] {
        let create = peer.next().await.unwrap();
        assert_eq!(create.op(), OpCode::CREATE2);
        let CreateRequest { path, .. } = create.body();
        nodes.push(format!("{path}{number:010}"));
        assert_eq!(peer.next().await.unwrap().op(), OpCode::GET_CHILDREN2);
        drop(peer);
        peer = network.attach().await;
        assert_eq!(peer.next().await.unwrap().op(), OpCode::SYNC);
        peer.answer(&SyncResponse { path: Text::new(LOCK) }).await;
        assert_eq!(peer.next().await.unwrap().op(), OpCode::GET_EPHEMERALS);
        let paths = nodes.iter().map(String::as_str).collect::<Vec<_>>();
        peer.answer_ephemerals(if paths.len() == 1 { &[] } else { &paths }).await;
    }
    // Both nodes exist now. The client reads the node that it waits with, and deletes the other.
    let mut deleted = Vec::new();
    loop {
        let request = peer.next().await.unwrap();
        match request.op() {
            OpCode::EXISTS => {
                peer.answer(&ExistsResponse { stat: stat_of(SESSION) }).await;
            }
            OpCode::GET_DATA => {
                peer.answer(&GetDataResponse { data: None, stat: stat_of(SESSION) }).await;
            }
            OpCode::DELETE => {
                deleted.push(request.path().to_owned());
                peer.answer(&()).await;
            }
            OpCode::GET_CHILDREN2 => {
                let left = nodes.iter().filter(|node| !deleted.contains(node));
                let names = left.map(|node| node.rsplit('/').next().unwrap()).collect::<Vec<_>>();
                let children = List::new(&names);
                peer.answer(&GetChildren2Response { children, stat: stat_of(SessionId(0)) }).await;
                if deleted.len() == 1 {
                    break;
                }
            }
            OpCode::SET_WATCHES => peer.answer(&()).await,
            OpCode::MULTI => peer.refuse(Code::NO_AUTH).await,
            op => panic!("{op}"),
        }
    }
    let serving = peer.serve();
    let guard = acquiring.await.unwrap().unwrap();
    let node = guard.node().to_owned();
    assert!(nodes.contains(&node) && !deleted.contains(&node));
    drop(guard);
    client.close().await;
    serving.await.unwrap();
}

#[test]
fn a_folder_that_is_removed_at_any_moment_is_made_again() {
    let runs = explore(|script: Script| async move {
        let world = Rc::new(World::new());
        let lock = world.lock().await;
        let mut remover = RawClient::open(&world.server).await;
        let here = Rc::clone(&world);
        let acquires = actor(async move {
            for _ in 0..2 {
                match lock.acquire().await {
                    Ok(guard) => {
                        here.is_owner(&guard);
                        guard.release().await.unwrap();
                    }
                    // The contender's node was in a folder that was removed.
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NodeVanished),
                }
            }
        });
        let removes = actor(async move {
            for _ in 0..2 {
                // The delete fails while the folder has a contender.
                remover.ask(&delete(LOCK)).await;
                settle().await;
            }
        });
        script.interleave(6, vec![acquires, removes]).await;
        world.is_empty().await;
    });
    assert!(runs > 500, "{runs} runs");
}
