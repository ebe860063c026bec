//! Groups: one member for an id, takeovers, what observers see, and that nothing is left behind.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_client::{Client, CreateOptions, ErrorCode};
use zk_embedded::{Fault, OpCode};
use zk_recipes::{Error, ErrorKind, Group, Loss, Members, Membership, Release, View};
use zk_test_support::explore::{poll_once, settle};
use zk_test_support::locks::{LOCK, TIMEOUT, World};

use crate::election::lose_looks;

fn group(client: &Client) -> Group {
    Group::new(client, LOCK).unwrap()
}

async fn new_group(world: &World) -> Group {
    group(&world.client().await)
}

/// The view as text: `ana=1 ben=2`.
fn text(view: &View) -> String {
    let member = |member: &zk_recipes::Member| {
        format!("{}={}", member.id, String::from_utf8_lossy(&member.data))
    };
    view.members.iter().map(member).collect::<Vec<_>>().join(" ")
}

/// The next view, or `None` if nothing changes.
async fn next(members: &mut Members) -> Option<String> {
    let view = timeout(TIMEOUT / 2, members.next()).await.ok()?.unwrap();
    Some(text(&view))
}

fn shows(expected: &str) -> Option<String> {
    Some(expected.to_owned())
}

/// An observer with a client of its own, whose first view is this one.
async fn observe(world: &World, expected: &str) -> (Client, Members) {
    let client = world.client().await;
    let mut members = group(&client).watch();
    assert_eq!(next(&mut members).await, shows(expected));
    (client, members)
}

/// A server with one member, and an observer that has seen it.
async fn observed_ana() -> (World, Membership, Client, Members) {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let (client, members) = observe(&world, "ana=1").await;
    (world, ana, client, members)
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_members_come_change_and_go_in_growing_epochs() {
    let world = World::new();
    let mut members = new_group(&world).await.watch();
    assert!(members.may_be_outdated());
    assert_eq!(next(&mut members).await, shows(""), "there is no folder yet");
    assert!(!members.may_be_outdated());
    let mut epochs = vec![members.last().unwrap().epoch];
    let mut see = async |expected: &str| {
        assert_eq!(next(&mut members).await, shows(expected));
        epochs.push(members.last().unwrap().epoch);
    };
    let ben = new_group(&world).await.join("ben", "2").await.unwrap();
    see("ben=2").await;
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    see("ana=1 ben=2").await;
    ben.set_data("two").await.unwrap();
    see("ana=1 ben=two").await;
    drop(ana);
    see("ben=two").await;
    assert_eq!(ben.leave().await.unwrap(), Release::Released);
    see("").await;
    assert!(epochs.is_sorted_by(|one, next| one < next), "{epochs:?}");
    assert_eq!(next(&mut members).await, None, "nothing changes");
    drop(members);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn an_id_has_one_member_and_others_wait_for_it_unseen() {
    let world = World::new();
    let first = new_group(&world).await.join("ana", "1").await.unwrap();
    let observed = new_group(&world).await;
    let mut members = observed.watch();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    assert!(new_group(&world).await.try_join("ana", "x").await.unwrap().is_none());
    let mut behind = Vec::new();
    // Their names are listed in any order.
    for data in ["2", "3", "4", "5"] {
        let group = new_group(&world).await;
        behind.push(tokio::spawn(async move { group.join("ana", data).await.unwrap() }));
        settle().await;
    }
    let waiting = behind.remove(0);
    assert_eq!(next(&mut members).await, None, "one who waits is no member");
    assert_eq!(text(&observed.members().await.unwrap()), "ana=1");
    assert!(!waiting.is_finished());
    first.leave().await.unwrap();
    let second = waiting.await.unwrap();
    assert!(second.token() > first.token());
    assert_eq!(next(&mut members).await, shows("ana=2"));
    behind.iter().for_each(JoinHandle::abort);
    drop((second, members));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn an_id_that_fits_into_no_name_is_refused() {
    let world = World::new();
    let group = new_group(&world).await;
    let check = |error: Error| assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    for id in ["", "a/b", "/", "a~b", "a\0"] {
        check(group.join(id, "").await.unwrap_err());
        check(group.try_join(id, "").await.unwrap_err());
        check(group.take_over(id, "").await.unwrap_err());
    }
    assert!(Group::new(&world.client().await, "no/path").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_view_that_is_read_after_a_reconnect_is_not_doubtful() {
    let (world, ana, client, mut members) = observed_ana().await;
    world.server.disconnect(client.session().unwrap().id);
    client.states().wait_for(|state| !state.is_connected()).await.unwrap();
    // It waits while the client is cut off, and the member leaves meanwhile.
    drop(ana);
    assert_eq!(next(&mut members).await, shows(""));
    assert!(!members.may_be_outdated());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_behind_the_list_makes_the_view_doubtful() {
    let world = World::new();
    let _ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let client = world.client().await;
    // The members are read on the next connection.
    for fault in [Fault::cut_reply(usize::MAX), Fault::delay(Duration::ZERO)] {
        world.inject_for(&client, fault.op(OpCode::GET_CHILDREN2));
    }
    let mut members = group(&client).watch();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    assert_eq!(world.server.pending_faults(), 1, "it was listed once");
    assert!(members.may_be_outdated());
    assert_eq!(next(&mut members).await, None, "nothing has changed");
    assert_eq!(world.server.pending_faults(), 0, "it was listed again");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_each_connection_is_given_up() {
    let world = World::new();
    let _ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let observed = new_group(&world).await;
    let mut members = observed.watch();
    for watches in [true, false] {
        world.inject(6, &Fault::lose_reply().op(OpCode::GET_CHILDREN2));
        let error = match watches {
            true => members.next().await.unwrap_err(),
            false => observed.members().await.unwrap_err(),
        };
        assert!(error.client().unwrap().is_connection_loss());
        assert_eq!(world.server.pending_faults(), 0);
    }
    assert!(members.may_be_outdated());
    assert_eq!(next(&mut members).await, shows("ana=1"));
}

/// As if the member at each read had gone since it was listed.
fn lose_members(world: &World, client: &Client, times: usize) {
    let gone = Fault::refuse(ErrorCode::NO_NODE).op(OpCode::GET_DATA);
    world.inject(times, &gone.session(client.session().unwrap().id));
}

#[tokio::test(start_paused = true)]
async fn members_that_go_before_they_are_read_are_listed_again_ten_times() {
    let world = World::new();
    let _ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let client = world.client().await;
    lose_members(&world, &client, 10);
    assert_eq!(text(&group(&client).members().await.unwrap()), "ana=1");
    assert_eq!(world.server.pending_faults(), 0);
    lose_members(&world, &client, 11);
    let error = group(&client).members().await.unwrap_err();
    assert_eq!(error.client().unwrap().code(), Some(ErrorCode::NO_NODE));
    assert_eq!(world.server.pending_faults(), 0);
}

#[tokio::test(start_paused = true)]
async fn connections_that_break_now_and_then_do_not_end_an_observer() {
    let (world, ana, client, mut members) = observed_ana().await;
    lose_looks((&world, &client), OpCode::GET_CHILDREN2, members.next()).await;
    drop(ana);
    assert_eq!(next(&mut members).await, shows(""));
}

/// Nothing is written between the two lists but the data: the member is one of kazoo's, and needs
/// no proof that it lives.
#[tokio::test(start_paused = true)]
async fn two_views_of_one_observer_have_different_epochs_though_only_data_has_changed() {
    let world = World::new();
    world.make_folder().await;
    let raw = world.client().await;
    let node = format!("{LOCK}/00112233445566778899aabbccddeeff__party__");
    raw.create(&node, b"1", &CreateOptions::ephemeral()).await.unwrap();
    let client = world.client().await;
    let mut members = group(&client).watch();
    let before = members.next().await.unwrap();
    // The list in each session timeout, with the event of a later change right behind it.
    world.inject_for(&client, Fault::delay(Duration::from_millis(50)).op(OpCode::GET_CHILDREN2));
    let changing = async {
        while world.server.pending_faults() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        raw.set_data(&node, b"2", None).await.unwrap();
    };
    let (after, ()) = tokio::join!(members.next(), changing);
    let after = after.unwrap();
    assert_eq!(after.members[0].data, b"2");
    assert!(after.epoch > before.epoch, "{after:?} after {before:?}");
}

#[tokio::test(start_paused = true)]
async fn a_view_is_doubtful_from_a_sign_of_a_change_until_the_group_is_listed() {
    let world = World::new();
    let (_client, mut members) = observe(&world, "").await;
    let _ana = new_group(&world).await.join("ana", "1").await.unwrap();
    settle().await;
    assert!(poll_once(Box::pin(members.next()).as_mut()).is_pending());
    assert!(members.may_be_outdated());
    assert_eq!(members.last().map(text), shows(""));
    assert_eq!(next(&mut members).await, shows("ana=1"));
    assert!(!members.may_be_outdated());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_ends_its_member_its_wait_and_its_observer() {
    let world = World::new();
    let (_client, mut watching) = observe(&world, "").await;
    let client = world.client().await;
    let ana = group(&client).join("ana", "1").await.unwrap();
    assert_eq!(next(&mut watching).await, shows("ana=1"));
    let waits = group(&client);
    let waiting = tokio::spawn(async move { waits.join("ana", "2").await });
    let mut observer = group(&client).watch();
    assert_eq!(next(&mut observer).await, shows("ana=1"));
    let observing = tokio::spawn(async move { observer.next().await });
    settle().await;
    assert!(world.server.expire(client.session().unwrap().id));
    assert!(matches!(ana.lost().await, Loss::SessionOver(_)));
    assert!(ana.set_data("x").await.unwrap_err().is_session_over());
    assert!(waiting.await.unwrap().unwrap_err().is_session_over());
    assert!(observing.await.unwrap().unwrap_err().is_session_over());
    assert_eq!(next(&mut watching).await, shows(""));
    drop(watching);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_the_server_removes_is_an_empty_group_until_somebody_joins() {
    let world = World::new();
    let group = new_group(&world).await;
    group.join("ana", "1").await.unwrap().leave().await.unwrap();
    let (_client, mut members) = observe(&world, "").await;
    world.server.reap();
    world.server.reap();
    assert!(!world.server.has_node(LOCK), "containers were removed");
    assert_eq!(next(&mut members).await, None, "it was empty before");
    assert_eq!(text(&group.members().await.unwrap()), "");
    let ben = group.join("ben", "2").await.unwrap();
    assert_eq!(next(&mut members).await, shows("ben=2"));
    drop((ben, members));
    world.is_empty().await;
}
