//! Groups: one member for an id, takeovers, what observers see, and that nothing is left behind.

use std::collections::BTreeSet;
use std::future::pending;
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use zk_client::{Client, CreateOptions, ErrorCode, Zxid};
use zk_embedded::{Change, Fault, OpCode};
use zk_recipes::{Error, ErrorKind, Group, LockState, Loss, Members, Release, View};
use zk_test_support::explore::{Script, actor, explore, poll_once, settle, sweep};
use zk_test_support::locks::{LOCK, READ_FAULTS, TIMEOUT, World};

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
async fn a_view_names_the_node_the_session_and_the_token_of_a_member() {
    let world = World::new();
    let client = world.client().await;
    let ana = group(&client).join("ana", "1").await.unwrap();
    let view = new_group(&world).await.members().await.unwrap();
    let [member] = &view.members[..] else { panic!("{view:?}") };
    assert_eq!(member.node, ana.node());
    assert_eq!(member.session, client.session().unwrap().id);
    assert_eq!(member.czxid, Zxid(ana.token().czxid()));
    assert_eq!(member.mzxid, member.czxid);
    assert!(view.epoch >= member.czxid);
    assert_eq!((member.id.as_str(), ana.id()), ("ana", "ana"));
    ana.set_data("2").await.unwrap();
    let view = group(&client).members().await.unwrap();
    let [member] = &view.members[..] else { panic!("{view:?}") };
    assert_eq!(member.czxid, Zxid(ana.token().czxid()), "it is the same membership");
    assert!(member.mzxid > member.czxid && view.epoch >= member.mzxid);
}

#[tokio::test(start_paused = true)]
async fn an_id_has_one_member_and_others_wait_for_it_unseen() {
    let world = World::new();
    let first = new_group(&world).await.join("ana", "1").await.unwrap();
    let observed = new_group(&world).await;
    let mut members = observed.watch();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    assert!(new_group(&world).await.try_join("ana", "x").await.unwrap().is_none());
    let waits = new_group(&world).await;
    let waiting = tokio::spawn(async move { waits.join("ana", "2").await.unwrap() });
    settle().await;
    assert_eq!(next(&mut members).await, None, "one who waits is no member");
    assert_eq!(text(&observed.members().await.unwrap()), "ana=1");
    assert!(!waiting.is_finished());
    first.leave().await.unwrap();
    let second = waiting.await.unwrap();
    assert!(second.token() > first.token());
    assert_eq!(next(&mut members).await, shows("ana=2"));
    drop((second, members));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn ids_that_end_alike_are_different_members() {
    let world = World::new();
    let group = new_group(&world).await;
    let mut joined = Vec::new();
    for id in ["a", "b-a", "-a", "_a", "a__party__", "__party__", "10.0.0.7:80", "0"] {
        joined.push(group.try_join(id, "").await.unwrap().expect(id));
    }
    let view = group.members().await.unwrap();
    assert_eq!(view.members.len(), joined.len());
    let ids = view.members.iter().map(|member| member.id.as_str()).collect::<Vec<_>>();
    assert!(ids.is_sorted(), "{ids:?}");
    drop(joined);
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
async fn after_a_takeover_the_earlier_membership_is_lost_and_does_no_harm() {
    let world = World::new();
    let observed = new_group(&world).await;
    let old = new_group(&world).await.join("ana", "old").await.unwrap();
    let mut members = observed.watch();
    assert_eq!(next(&mut members).await, shows("ana=old"));
    let lost = old.lost();
    let mut lost = Box::pin(lost);
    assert!(poll_once(lost.as_mut()).is_pending());
    let new = new_group(&world).await.take_over("ana", "new").await.unwrap();
    assert_eq!(lost.as_mut().await, Loss::NodeDeleted);
    assert_eq!(old.set_data("late").await.unwrap_err().loss(), Some(Loss::NodeDeleted));
    assert!(old.token() < new.token());
    drop(lost);
    drop(old);
    settle().await;
    assert_eq!(next(&mut members).await, shows("ana=new"));
    assert_eq!(new.state(), LockState::Held);
    new.verify().await.unwrap();
    drop((new, members));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn an_earlier_member_that_has_not_heard_of_the_takeover_cannot_write_or_undo_it() {
    let world = World::new();
    let client = world.client().await;
    let old = group(&client).join("ana", "old").await.unwrap();
    let new = new_group(&world).await.take_over("ana", "new").await.unwrap();
    // It has never asked for its state, so nothing watches its node.
    assert_eq!(old.set_data("late").await.unwrap_err().loss(), Some(Loss::NodeDeleted));
    assert_eq!(old.leave().await.unwrap(), Release::AlreadyLost);
    settle().await;
    assert_eq!(text(&group(&client).members().await.unwrap()), "ana=new");
    assert_eq!(new.state(), LockState::Held);
}

/// How many members the group had after each transaction from the first member on.
fn sizes(world: &World) -> Vec<usize> {
    let mut nodes = BTreeSet::new();
    let (mut sizes, mut last) = (Vec::new(), None);
    for commit in world.server.history() {
        let is_member = commit.path.contains("__party__");
        let changed = match commit.change {
            Change::Created if is_member => nodes.insert(commit.path),
            Change::Deleted if is_member => nodes.remove(&commit.path),
            _ => false,
        };
        if changed {
            if last == Some(commit.zxid) {
                sizes.pop();
            }
            last = Some(commit.zxid);
            sizes.push(nodes.len());
        }
    }
    sizes
}

#[tokio::test(start_paused = true)]
async fn a_takeover_leaves_no_moment_without_the_member_or_with_two() {
    let world = World::new();
    let mut joined = vec![new_group(&world).await.take_over("ana", "0").await.unwrap()];
    for data in ["1", "2", "3"] {
        joined.push(new_group(&world).await.take_over("ana", data).await.unwrap());
    }
    assert_eq!(sizes(&world), [1, 1, 1, 1]);
    assert_eq!(joined.pop().unwrap().state(), LockState::Held);
    for earlier in joined {
        assert_eq!(earlier.lost().await, Loss::NodeDeleted);
    }
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_takeover_also_ends_those_who_wait_for_the_id_and_leaves_other_ids_alone() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "").await.unwrap();
    let ben = new_group(&world).await.join("ben", "").await.unwrap();
    let waits = new_group(&world).await;
    let waiting = tokio::spawn(async move { waits.join("ana", "").await });
    settle().await;
    let new = new_group(&world).await.take_over("ana", "new").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().kind(), ErrorKind::NodeVanished);
    assert_eq!(ana.lost().await, Loss::NodeDeleted);
    assert_eq!(ben.state(), LockState::Held);
    assert_eq!(world.queue().len(), 2);
    assert_eq!(sizes(&world), [1, 2, 3, 2], "in one transaction");
    drop((new, ben));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_takeover_leaves_ids_alone_that_begin_or_end_like_its_own() {
    let world = World::new();
    let others = new_group(&world).await;
    let mut joined = Vec::new();
    for id in ["a-b", "b-a", "ab", "ba", "__party__a", "a"] {
        joined.push(others.join(id, "").await.unwrap());
    }
    let new = new_group(&world).await.take_over("a", "new").await.unwrap();
    assert_eq!(joined.pop().unwrap().lost().await, Loss::NodeDeleted);
    for other in &joined {
        other.verify().await.unwrap();
    }
    drop((new, joined));
    world.is_empty().await;
}

#[test]
fn one_who_joins_during_a_takeover_and_the_new_member_are_never_both_members() {
    let runs = explore(|script: Script| async move {
        let world = World::new();
        let old = new_group(&world).await.join("ana", "old").await.unwrap();
        let (tell, mut told) = unbounded_channel();
        let (takes, joins) = (new_group(&world).await, new_group(&world).await);
        let (tell_too, leaves) = (tell.clone(), script.choose(2) == 1);
        let taking = actor(async move { tell.send(takes.take_over("ana", "1").await).unwrap() });
        let joining = actor(async move {
            match timeout(TIMEOUT, joins.join("ana", "2")).await {
                Ok(joined) => tell_too.send(joined).unwrap(),
                Err(_) => drop(tell_too),
            }
        });
        let leaving = actor(async move {
            if leaves {
                drop(old);
            } else {
                old.lost().await;
            }
        });
        script.interleave(5, vec![taking, joining, leaving]).await;
        let mut valid = Vec::new();
        while let Some(ended) = told.recv().await {
            match ended {
                Ok(member) => valid.push(member),
                // It waited, or had not yet looked at its own node, when it was replaced.
                Err(error) => assert_eq!(error.kind(), ErrorKind::NodeVanished),
            }
        }
        settle().await;
        let queue = world.queue();
        assert_eq!(queue.len(), 1, "{queue:?}");
        let mut members = 0;
        for member in &valid {
            let is_member = member.node().ends_with(&queue[0]);
            assert_eq!(member.verify().await.is_ok(), is_member);
            members += u32::from(is_member);
        }
        assert_eq!(members, 1);
        drop(valid);
        world.is_empty().await;
    });
    assert!(runs > 500, "{runs} runs");
}

#[test]
fn two_takeovers_at_once_leave_one_member() {
    let runs = explore(|script: Script| async move {
        let world = World::new();
        let old = new_group(&world).await.join("ana", "old").await.unwrap();
        let (tell, mut told) = unbounded_channel();
        let mut actors = Vec::new();
        for data in ["1", "2"] {
            let (group, tell) = (new_group(&world).await, tell.clone());
            actors.push(actor(async move {
                match group.take_over("ana", data).await {
                    Ok(member) => tell.send(member).unwrap(),
                    // The other one has taken over before this one has looked at its own node.
                    Err(error) => assert_eq!(error.kind(), ErrorKind::NodeVanished),
                }
            }));
        }
        drop(tell);
        script.interleave(6, actors).await;
        let mut valid = Vec::new();
        while let Some(member) = told.recv().await {
            valid.push(member);
        }
        settle().await;
        let queue = world.queue();
        assert_eq!(queue.len(), 1);
        for member in &valid {
            let is_member = member.node().ends_with(&queue[0]);
            assert_eq!(member.verify().await.is_ok(), is_member);
        }
        assert_eq!(old.lost().await, Loss::NodeDeleted);
        drop(valid);
        world.is_empty().await;
    });
    assert!(runs > 50, "{runs} runs");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_leave_does_not_end_the_next_member_with_the_id() {
    let world = World::new();
    let client = world.client().await;
    let first = group(&client).join("ana", "1").await.unwrap();
    let next = new_group(&world).await;
    world.server.inject(Fault::lose_reply().op(OpCode::DELETE));
    let leaving = first.leave();
    let second = next.join("ana", "2").await.unwrap();
    assert_eq!(leaving.await.unwrap_err().kind(), ErrorKind::Unconfirmed);
    client.sync("/").await.unwrap();
    assert_eq!(world.server.pending_faults(), 0);
    second.verify().await.unwrap();
    drop(second);
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn while_the_observer_is_cut_off_the_last_view_stays_and_is_doubtful() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let client = world.client().await;
    let mut members = group(&client).watch();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    world.server.set_serving(false);
    client.states().wait_for(|state| !state.is_connected()).await.unwrap();
    assert!(members.may_be_outdated());
    assert!(timeout(TIMEOUT / 4, members.next()).await.is_err(), "no view comes of a cut");
    assert_eq!(members.last().map(text), shows("ana=1"));
    assert!(matches!(ana.state(), LockState::Suspended { .. }));
    assert!(ana.remaining() > Duration::ZERO);
    world.server.set_serving(true);
    client.states().wait_for(|state| state.is_connected()).await.unwrap();
    assert!(members.may_be_outdated(), "nobody has looked again");
    assert_eq!(next(&mut members).await, None, "nothing has changed");
    assert!(!members.may_be_outdated());
    assert_eq!(ana.state(), LockState::Held);
}

#[tokio::test(start_paused = true)]
async fn a_view_that_is_read_after_a_reconnect_is_not_doubtful() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let client = world.client().await;
    let mut members = group(&client).watch();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    world.server.disconnect(client.session().unwrap().id);
    client.states().wait_for(|state| !state.is_connected()).await.unwrap();
    // It waits while the client is cut off, and the member leaves meanwhile.
    drop(ana);
    assert_eq!(next(&mut members).await, shows(""));
    assert!(!members.may_be_outdated());
}

#[tokio::test(start_paused = true)]
async fn after_a_reconnect_the_observer_lists_the_group_though_no_watch_has_fired() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let client = world.client().await;
    let mut members = group(&client).watch();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    world.server.inject(Fault::delay(Duration::ZERO).op(OpCode::GET_CHILDREN2));
    world.server.disconnect(client.session().unwrap().id);
    assert!(timeout(TIMEOUT / 4, members.next()).await.is_err(), "nothing has changed");
    assert_eq!(world.server.pending_faults(), 0, "it has listed");
    drop(ana);
    assert_eq!(next(&mut members).await, shows(""));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_behind_the_list_makes_the_view_doubtful() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let client = world.client().await;
    let session = client.session().unwrap().id;
    // The members are read on the next connection.
    let cut = Fault::cut_reply(usize::MAX).op(OpCode::GET_CHILDREN2);
    world.server.inject(cut.session(session));
    let listed = Fault::delay(Duration::ZERO).op(OpCode::GET_CHILDREN2);
    world.server.inject(listed.session(session));
    let mut members = group(&client).watch();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    assert_eq!(world.server.pending_faults(), 1, "it was listed once");
    assert!(members.may_be_outdated());
    assert_eq!(next(&mut members).await, None, "nothing has changed");
    assert_eq!(world.server.pending_faults(), 0, "it was listed again");
    drop(ana);
}

/// An observer that asks for its first view, and is answered late.
async fn sees_late(world: &World, watches: bool) -> JoinHandle<View> {
    let client = world.client().await;
    let late = Fault::delay(Duration::from_millis(50)).op(OpCode::GET_CHILDREN2);
    world.server.inject(late.session(client.session().unwrap().id));
    let observed = group(&client);
    let seeing = tokio::spawn(async move {
        match watches {
            true => observed.watch().next().await.unwrap(),
            false => observed.members().await.unwrap(),
        }
    });
    settle().await;
    seeing
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_replaced_between_the_list_and_the_read_is_in_each_view() {
    for watches in [true, false] {
        let world = World::new();
        let mut joined = vec![new_group(&world).await.join("ana", "old").await.unwrap()];
        let seeing = sees_late(&world, watches).await;
        joined.push(new_group(&world).await.take_over("ana", "new").await.unwrap());
        assert!(!seeing.is_finished());
        assert_eq!(text(&seeing.await.unwrap()), "ana=new");
        assert_eq!(world.server.pending_faults(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_joins_while_the_folder_is_found_missing_is_in_the_first_view() {
    for watches in [true, false] {
        let world = World::new();
        let seeing = sees_late(&world, watches).await;
        assert_eq!(world.server.pending_faults(), 0, "the folder was missing");
        let ana = new_group(&world).await.join("ana", "1").await.unwrap();
        assert!(!seeing.is_finished());
        let view = seeing.await.unwrap();
        assert_eq!(text(&view), "ana=1");
        assert!(view.epoch >= Zxid(ana.token().czxid()));
    }
}

#[test]
fn a_list_of_the_members_is_whole_past_a_fault_at_any_request() {
    for fault in READ_FAULTS {
        let places = sweep(|at| async move {
            let world = World::new();
            let others = new_group(&world).await;
            let ana = others.join("ana", "1").await.unwrap();
            let ben = others.join("ben", "2").await.unwrap();
            let client = world.client().await;
            world.server.inject(fault().session(client.session().unwrap().id).after(at));
            assert_eq!(text(&group(&client).members().await.unwrap()), "ana=1 ben=2");
            drop((ana, ben));
            world.server.pending_faults() == 0
        });
        assert_eq!(places, 3, "a list and two reads");
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_each_connection_is_given_up() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let observed = new_group(&world).await;
    let mut members = observed.watch();
    let lose = || {
        for _ in 0..6 {
            world.server.inject(Fault::lose_reply().op(OpCode::GET_CHILDREN2));
        }
    };
    for watches in [true, false] {
        lose();
        let error = match watches {
            true => members.next().await.unwrap_err(),
            false => observed.members().await.unwrap_err(),
        };
        assert!(error.client().unwrap().is_connection_loss());
        assert_eq!(world.server.pending_faults(), 0);
    }
    assert!(members.may_be_outdated());
    assert_eq!(next(&mut members).await, shows("ana=1"));
    drop(ana);
}

/// As if the member at each read had gone since it was listed.
fn lose_members(world: &World, client: &Client, times: u32) {
    for _ in 0..times {
        let gone = Fault::refuse(ErrorCode::NO_NODE).op(OpCode::GET_DATA);
        world.server.inject(gone.session(client.session().unwrap().id));
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_go_before_they_are_read_are_listed_again_ten_times() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let client = world.client().await;
    lose_members(&world, &client, 10);
    assert_eq!(text(&group(&client).members().await.unwrap()), "ana=1");
    assert_eq!(world.server.pending_faults(), 0);
    lose_members(&world, &client, 11);
    let error = group(&client).members().await.unwrap_err();
    assert_eq!(error.client().unwrap().code(), Some(ErrorCode::NO_NODE));
    assert_eq!(world.server.pending_faults(), 0);
    drop(ana);
}

#[tokio::test(start_paused = true)]
async fn an_observer_of_members_that_go_before_they_are_read_rests_between_its_lists() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let client = world.client().await;
    lose_members(&world, &client, 100);
    let mut members = group(&client).watch();
    let begun = client.clock().now();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    assert_eq!(world.server.pending_faults(), 0);
    let time = client.clock().now() - begun;
    assert!(time >= Duration::from_millis(500), "100 lists within {time:?}");
    drop(ana);
}

#[tokio::test(start_paused = true)]
async fn two_lists_with_one_epoch_have_one_set_of_members_whose_data_may_differ() {
    let world = World::new();
    let client = world.client().await;
    let observed = group(&client);
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let first = observed.members().await.unwrap();
    let late = Fault::delay(Duration::from_millis(50)).op(OpCode::GET_CHILDREN2);
    world.server.inject(late.session(client.session().unwrap().id));
    let changing = async {
        settle().await;
        ana.set_data("2").await.unwrap();
    };
    let (second, ()) = tokio::join!(observed.members(), changing);
    let second = second.unwrap();
    assert_eq!((text(&first).as_str(), text(&second).as_str()), ("ana=1", "ana=2"));
    assert_eq!(first.epoch, second.epoch, "nobody has come or gone");
    let (before, after) = (&first.members[0], &second.members[0]);
    assert_eq!((&before.node, before.czxid), (&after.node, after.czxid));
    assert!(before.mzxid <= first.epoch && second.epoch < after.mzxid);
}

#[tokio::test(start_paused = true)]
async fn connections_that_break_now_and_then_do_not_end_an_observer() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let client = world.client().await;
    let mut members = group(&client).watch();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    {
        let mut waiting = Box::pin(members.next());
        for _ in 0..10 {
            // The list once in a session timeout.
            let lost = Fault::lose_reply().op(OpCode::GET_CHILDREN2);
            world.server.inject(lost.session(client.session().unwrap().id));
            assert!(timeout(2 * TIMEOUT, waiting.as_mut()).await.is_err(), "nothing has changed");
            assert_eq!(world.server.pending_faults(), 0, "it has listed");
        }
    }
    drop(ana);
    assert_eq!(next(&mut members).await, shows(""));
}

#[test]
fn an_observer_may_be_dropped_at_any_await_and_asked_again() {
    let runs = explore(|script: Script| async move {
        let world = World::new();
        let others = new_group(&world).await;
        let ana = others.join("ana", "1").await.unwrap();
        let mut members = new_group(&world).await.watch();
        assert_eq!(next(&mut members).await, shows("ana=1"));
        ana.set_data("2").await.unwrap();
        let ben = others.join("ben", "3").await.unwrap();
        for _ in 0..4 {
            let mut waiting = Box::pin(members.next());
            for _ in 0..script.choose(4) {
                if poll_once(waiting.as_mut()).is_ready() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
        }
        drop(next(&mut members).await);
        assert_eq!(members.last().map(text), shows("ana=2 ben=3"));
        drop((ana, ben, members));
        world.is_empty().await;
    });
    assert!(runs > 50, "{runs} runs");
}

#[tokio::test(start_paused = true)]
async fn changes_that_come_together_make_one_view() {
    let world = World::new();
    let mut joined = Vec::new();
    for id in ["a", "b", "c", "d", "e"] {
        joined.push(new_group(&world).await.join(id, "").await.unwrap());
    }
    let mut members = new_group(&world).await.watch();
    assert_eq!(next(&mut members).await, shows("a= b= c= d= e="));
    let leaving = async {
        for member in joined {
            tokio::time::sleep(Duration::from_micros(500)).await;
            drop(member);
        }
        pending::<Option<String>>().await
    };
    let seen = tokio::select! {
        seen = next(&mut members) => seen,
        seen = leaving => seen,
    };
    assert_eq!(seen, shows(""));
}

#[tokio::test(start_paused = true)]
async fn changes_of_several_kinds_that_come_together_make_one_view() {
    let world = World::new();
    let others = new_group(&world).await;
    let ana = others.join("ana", "1").await.unwrap();
    let ben = others.join("ben", "1").await.unwrap();
    let mut members = new_group(&world).await.watch();
    assert_eq!(next(&mut members).await, shows("ana=1 ben=1"));
    let changing = async {
        let eva = others.join("eva", "1").await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        ana.set_data("2").await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        drop(ben);
        eva
    };
    let (view, eva) = tokio::join!(next(&mut members), changing);
    assert_eq!(view, shows("ana=2 eva=1"));
    assert_eq!(next(&mut members).await, None, "it was all in one view");
    drop((ana, eva, members));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn data_that_changes_before_the_group_is_listed_is_in_the_view() {
    let world = World::new();
    let others = new_group(&world).await;
    let ana = others.join("ana", "1").await.unwrap();
    let (client, driver) = world.builder().split("zk").unwrap();
    let mut driver = Box::pin(driver);
    let mut members = group(&client).watch();
    macro_rules! driven {
        ($future:expr) => {
            tokio::select! {
                view = $future => view.unwrap(),
                _ = driver.as_mut() => panic!("the client is there"),
            }
        };
    }
    assert_eq!(text(&driven!(members.next())), "ana=1");
    let ben = others.join("ben", "2").await.unwrap();
    let view = {
        let mut next = Box::pin(members.next());
        drop(timeout(Duration::from_millis(1), async { driven!(next.as_mut()) }).await);
        // It asks for the list, which is not sent before the data has changed.
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert!(poll_once(next.as_mut()).is_pending());
        ana.set_data("2").await.unwrap();
        driven!(next)
    };
    assert_eq!(text(&view), "ana=2 ben=2");
    assert!(view.epoch >= view.members[0].mzxid);
    let more = async { driven!(members.next()) };
    assert!(timeout(TIMEOUT / 2, more).await.is_err(), "it was all in one view");
    drop((ana, ben));
}

#[tokio::test(start_paused = true)]
async fn a_view_of_data_that_is_newer_than_the_list_has_an_epoch_of_its_own() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let client = world.client().await;
    let mut members = group(&client).watch();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    let before = members.last().unwrap().epoch;
    // The list in each session timeout, with the event of a later change right behind it.
    let late = Fault::delay(Duration::from_millis(50)).op(OpCode::GET_CHILDREN2);
    world.server.inject(late.session(client.session().unwrap().id));
    let changing = async {
        while world.server.pending_faults() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        ana.set_data("2").await.unwrap();
    };
    let (view, ()) = tokio::join!(members.next(), changing);
    let view = view.unwrap();
    assert_eq!(text(&view), "ana=2");
    assert!(view.epoch > before, "{view:?} after {before}");
    assert_eq!(next(&mut members).await, None, "it was all in one view");
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
    let late = Fault::delay(Duration::from_millis(50)).op(OpCode::GET_CHILDREN2);
    world.server.inject(late.session(client.session().unwrap().id));
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
async fn a_member_that_comes_while_the_others_are_read_is_in_the_next_view() {
    let world = World::new();
    let others = new_group(&world).await;
    let ana = others.join("ana", "1").await.unwrap();
    let client = world.client().await;
    // The event comes right behind the reply.
    let late = Fault::delay(Duration::from_millis(50)).op(OpCode::GET_DATA);
    world.server.inject(late.session(client.session().unwrap().id));
    let mut members = group(&client).watch();
    let coming = async {
        while world.server.pending_faults() > 0 {
            settle().await;
        }
        others.join("ben", "2").await.unwrap()
    };
    let (first, ben) = tokio::join!(next(&mut members), coming);
    assert_eq!(first, shows("ana=1"));
    assert_eq!(next(&mut members).await, shows("ana=1 ben=2"));
    drop((ana, ben));
}

#[tokio::test(start_paused = true)]
async fn a_view_is_doubtful_from_a_sign_of_a_change_until_the_group_is_listed() {
    let world = World::new();
    let mut members = new_group(&world).await.watch();
    assert_eq!(next(&mut members).await, shows(""));
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    settle().await;
    assert!(poll_once(Box::pin(members.next()).as_mut()).is_pending());
    assert!(members.may_be_outdated());
    assert_eq!(members.last().map(text), shows(""));
    assert_eq!(next(&mut members).await, shows("ana=1"));
    assert!(!members.may_be_outdated());
    drop(ana);
}

#[tokio::test(start_paused = true)]
async fn a_change_costs_an_observer_a_list_and_a_read() {
    let world = World::new();
    let others = new_group(&world).await;
    let mut joined = Vec::new();
    for id in 0..20 {
        joined.push(others.join(&id.to_string(), "").await.unwrap());
    }
    let mut members = new_group(&world).await.watch();
    members.next().await.unwrap();
    let (requests, ()) = world
        .requests(async {
            joined[7].set_data("x").await.unwrap();
            members.next().await.unwrap();
        })
        .await;
    assert_eq!(requests, 1 + 2, "a write, a list and a read");
    let (requests, joined_late) = world
        .requests(async {
            let late = others.join("late", "").await.unwrap();
            members.next().await.unwrap();
            late
        })
        .await;
    assert_eq!(requests, 2 + 2, "a create with its list, a list and a read");
    let (requests, ()) = world
        .requests(async {
            drop(joined_late);
            members.next().await.unwrap();
        })
        .await;
    assert_eq!(requests, 1 + 1, "a delete and a list");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_ends_its_member_its_wait_and_its_observer() {
    let world = World::new();
    let mut watching = new_group(&world).await.watch();
    assert_eq!(next(&mut watching).await, shows(""));
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
async fn a_member_whose_node_is_deleted_stops_its_work() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    let node = ana.node().to_owned();
    let admin = world.client().await;
    let deleting = async {
        settle().await;
        admin.delete(&node, None).await.unwrap();
        pending::<()>().await;
    };
    assert_eq!(ana.run(deleting).await.unwrap_err().loss(), Some(Loss::NodeDeleted));
    world.is_empty().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_knows_that_it_is_lost_before_the_others_see_it_go() {
    let world = World::new();
    let client = world.client().await;
    let ana = group(&client).join("ana", "1").await.unwrap();
    let mut members = new_group(&world).await.watch();
    assert_eq!(next(&mut members).await, shows("ana=1"));
    // Pings are answered all the same.
    world.server.partition(client.session().unwrap().id);
    let view = members.next().await.unwrap();
    assert_eq!(text(&view), "");
    assert_eq!(ana.state(), LockState::Lost(Loss::Deadline));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_an_observer_may_not_read_is_an_error_and_no_empty_view() {
    let world = World::new();
    let ana = new_group(&world).await.join("ana", "1").await.unwrap();
    world.hide(ana.node()).await;
    let observed = new_group(&world).await;
    let refused = |error: Error| {
        assert_eq!(error.client().unwrap().code(), Some(ErrorCode::NO_AUTH));
    };
    refused(observed.members().await.unwrap_err());
    refused(observed.watch().next().await.unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_may_no_longer_list_the_group_is_told_so() {
    let world = World::new();
    world.make_folder().await;
    let mut members = new_group(&world).await.watch();
    assert_eq!(next(&mut members).await, shows(""));
    // Changing the access list sends no event.
    world.hide(LOCK).await;
    let refused = timeout(2 * TIMEOUT, members.next()).await.expect("it looks again");
    assert_eq!(refused.unwrap_err().client().unwrap().code(), Some(ErrorCode::NO_AUTH));
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_is_polled_with_a_short_tick_lists_again_all_the_same() {
    let world = World::new();
    world.make_folder().await;
    let mut members = new_group(&world).await.watch();
    assert_eq!(next(&mut members).await, shows(""));
    world.hide(LOCK).await;
    let ticking = async {
        loop {
            if let Ok(seen) = timeout(TIMEOUT / 8, members.next()).await {
                return seen;
            }
        }
    };
    let refused = timeout(2 * TIMEOUT, ticking).await.expect("it looks again");
    assert_eq!(refused.unwrap_err().client().unwrap().code(), Some(ErrorCode::NO_AUTH));
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_the_server_removes_is_an_empty_group_until_somebody_joins() {
    let world = World::new();
    let group = new_group(&world).await;
    group.join("ana", "1").await.unwrap().leave().await.unwrap();
    let mut members = new_group(&world).await.watch();
    assert_eq!(next(&mut members).await, shows(""));
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

#[tokio::test(start_paused = true)]
async fn members_of_kazoos_party_are_members_and_other_children_are_not() {
    let world = World::new();
    world.make_folder().await;
    let raw = world.client().await;
    let hex = "00112233445566778899aabbccddeeff";
    let node = CreateOptions::ephemeral();
    raw.create(&format!("{LOCK}/{hex}__party__"), b"theirs", &node).await.unwrap();
    for other in ["config", "x~a__party__", "x~__party__0000000001", "_c_x-lock-0000000001"] {
        raw.create(&format!("{LOCK}/{other}"), b"", &node).await.unwrap();
    }
    let group = new_group(&world).await;
    let ana = group.try_join("a", "1").await.unwrap().expect("nobody has the id");
    let expected = format!("{hex}=theirs a=1");
    assert_eq!(text(&group.members().await.unwrap()), expected);
    assert_eq!(next(&mut group.watch()).await, Some(expected));
    drop(ana);
}

#[tokio::test(start_paused = true)]
async fn a_group_ignores_nodes_of_locks_and_is_not_made_anew() {
    let world = World::new();
    world.make_folder().await;
    let raw = world.client().await;
    let node = CreateOptions::ephemeral().sequential();
    for foreign in ["x__lock__", "_c_x-lock-"] {
        raw.create(&format!("{LOCK}/{foreign}"), b"", &node).await.unwrap();
    }
    let group = Group::new(&world.client().await, LOCK).unwrap();
    let ana = group.join("ana", "1").await.expect("foreign nodes are ignored");
    assert_eq!(text(&group.members().await.unwrap()), "ana=1");
    let new = group.take_over("ana", "2").await.unwrap();
    assert_eq!(next(&mut group.watch()).await, shows("ana=2"));
    // The folder is not made anew, since others are members.
    assert!(world.server.preset_sequence(LOCK, i32::MAX - 1000));
    let refused = timeout(TIMEOUT, group.join("ben", "")).await.expect("it waits for nobody");
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::SequenceExhausted);
    drop((ana, new));
}

#[tokio::test(start_paused = true)]
async fn a_keeper_registers_the_member_again_in_each_session() {
    let world = World::new();
    let keeper = world.builder().keep("zk").await.unwrap();
    let mut members = new_group(&world).await.watch();
    assert_eq!(next(&mut members).await, shows(""));
    let registered = tokio::spawn({
        let keeper = keeper.clone();
        async move {
            keeper
                .run_each(|client| async move {
                    let member = group(&client).join("ana", "1").await?;
                    member.run(pending::<()>()).await
                })
                .await
        }
    });
    for _ in 0..3 {
        let mut view = members.next().await.unwrap();
        while view.members.is_empty() {
            view = members.next().await.unwrap();
        }
        assert_eq!(text(&view), "ana=1");
        assert!(world.server.expire(view.members[0].session));
        let gone = members.next().await.unwrap();
        assert!(gone.members.iter().all(|member| member.session != view.members[0].session));
        if !gone.members.is_empty() {
            // It was registered again within the time that coalesces changes.
            world.server.expire(gone.members[0].session);
        }
    }
    registered.abort();
    keeper.close().await;
}
