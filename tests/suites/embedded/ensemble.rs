//! Several embedded servers with one store: members that are behind, cut off or down, leaders that
//! change, and sessions that move.

use std::time::Duration;

use zk_client::{
    Acl, Client, ClientBuilder, CreateOptions, ErrorKind, EventType, Op, Outcome, SessionState,
    StreamEvent, WatchMode,
};
use zk_embedded::{Config, Core, Ensemble, ErrorCode, Fault, OpCode, SessionId, Zxid};
use zk_proto::{
    CloseSessionRequest, ConnectRequest, CreateMode, Decode, Reader, ReplyHeader, SyncRequest, Text,
};
use zk_test_support::peer::Clock;
use zk_test_support::raw::{RawClient, create, exists, get_data, hello, set_data};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();
const MS: fn(u64) -> Duration = Duration::from_millis;
const TIMEOUT: Duration = Duration::from_secs(6);

/// Until a test says otherwise.
const FOR_EVER: Duration = Duration::MAX;

/// How long a member that is cut off goes on: five ticks of 2 s.
const NOTICED: Duration = Duration::from_secs(10);

fn ensemble(members: usize) -> Ensemble {
    Ensemble::in_memory(Config::new().keep_history(true), members)
}

fn builder(ensemble: &Ensemble) -> ClientBuilder {
    Client::builder().connector(ensemble.connector()).session_timeout(TIMEOUT).seed(1)
}

/// A client of this member alone.
async fn at(ensemble: &Ensemble, member: usize) -> Client {
    builder(ensemble).connect(ensemble.address(member)).await.unwrap()
}

/// A client that begins at the first of these members and may move to the others.
async fn moving(ensemble: &Ensemble, members: &[usize], timeout: Duration) -> Client {
    for member in &members[1..] {
        ensemble.stop(*member);
    }
    let all: Vec<_> = members.iter().map(|member| ensemble.address(*member)).collect();
    let all = all.join(",");
    let client = builder(ensemble).session_timeout(timeout).connect(&all).await.unwrap();
    for member in &members[1..] {
        ensemble.heal(*member);
    }
    client
}

/// A connection of bare frames to a member, with a session.
async fn raw(ensemble: &Ensemble, member: usize, request: ConnectRequest) -> Option<RawClient> {
    let mut client = RawClient::over(ensemble.connect(member));
    client.greet(request).await.filter(|answer| !answer.is_expired()).map(|_| client)
}

async fn settle() {
    tokio::time::sleep(MS(1)).await;
}

fn zxid(ensemble: &Ensemble, member: usize) -> Zxid {
    ensemble.member(member, Core::last_zxid).unwrap()
}

fn has(ensemble: &Ensemble, member: usize, path: &str) -> bool {
    ensemble.member(member, |server| server.has_node(path)).unwrap()
}

/// Everything in a member's tree.
fn tree(ensemble: &Ensemble, member: usize) -> Vec<String> {
    fn walk(server: &Core, path: &str, found: &mut Vec<String>) {
        found.push(format!("{path} {:?} {:?}", server.data(path), server.stat(path)));
        for name in server.children(path) {
            walk(server, &format!("{}/{name}", path.trim_end_matches('/')), found);
        }
    }
    let mut found = Vec::new();
    ensemble.member(member, |server| walk(server, "/", &mut found)).unwrap();
    found
}

#[tokio::test(start_paused = true)]
async fn all_members_have_the_same_tree_and_any_of_them_takes_writes() {
    let ensemble = ensemble(3);
    let mut clients = Vec::new();
    for member in 0..3 {
        clients.push(at(&ensemble, member).await);
    }
    let owned = CreateOptions::ephemeral().sequential();
    for client in &clients {
        let name = client.create("/n-", b"1", &PERSISTENT.sequential()).await.unwrap().path;
        client.create(&format!("{name}/e-"), b"", &owned).await.unwrap();
        client.set_data(&name, b"2", None).await.unwrap();
        client.set_acl(&name, Acl::READ_ONLY, None).await.unwrap();
        let ops = (
            Op::create("/m", b"1", &PERSISTENT),
            Op::set_data("/m", b"2", Some(0)),
            Op::delete("/m", Some(1)),
            Op::create("/m", b"3", &CreateOptions::ephemeral()),
            Op::create("/kept-", b"4", &PERSISTENT.sequential()),
        );
        client.multi(ops).await.unwrap();
        client.multi(&[Op::delete("/m", None), Op::check("/none", None)]).await.unwrap_err();
        client.delete("/m", None).await.unwrap();
        client.delete("/none", None).await.unwrap_err();
    }
    let leader = tree(&ensemble, 0);
    assert_eq!(leader.len(), 4 + 3 * 3);
    for (member, client) in clients.iter().enumerate() {
        assert_eq!(zxid(&ensemble, member), zxid(&ensemble, 0));
        assert_eq!(tree(&ensemble, member), leader, "member {member}");
        let first = client.session().unwrap().id.0 >> 56;
        assert_eq!(first, member as i64 + 1, "a session's id begins with that of its server");
    }
    for client in &clients {
        client.close().await;
    }
    let leader = tree(&ensemble, 0);
    assert_eq!((leader.len(), ensemble.sessions()), (4 + 2 * 3, vec![]));
    assert!((1..3).all(|member| tree(&ensemble, member) == leader));
    assert!(!ensemble.history().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_behind_shows_the_past_until_its_client_syncs() {
    let ensemble = ensemble(3);
    let (writer, reader) = (at(&ensemble, 0).await, at(&ensemble, 1).await);
    writer.create("/a", b"old", &PERSISTENT).await.unwrap();
    ensemble.set_lag(1, MS(700));
    let clock = Clock::start();
    writer.set_data("/a", b"new", None).await.unwrap();
    assert_eq!(&reader.get_data("/a").await.unwrap().data[..], b"old");
    assert_eq!(clock.elapsed(), MS(0));
    reader.sync("/").await.unwrap();
    assert_eq!(clock.elapsed(), MS(700), "it is answered when the member has caught up");
    assert_eq!(&reader.get_data("/a").await.unwrap().data[..], b"new");
}

#[tokio::test(start_paused = true)]
async fn a_write_is_answered_when_the_member_of_its_client_has_applied_it() {
    let ensemble = ensemble(3);
    let client = at(&ensemble, 1).await;
    ensemble.set_lag(1, MS(300));
    let clock = Clock::start();
    let write = client.create("/a", b"", &PERSISTENT);
    let read = client.exists("/a");
    settle().await;
    assert!(has(&ensemble, 0, "/a") && has(&ensemble, 2, "/a") && !has(&ensemble, 1, "/a"));
    write.await.unwrap();
    assert_eq!(clock.elapsed(), MS(300));
    assert!(read.await.unwrap().is_some(), "a read waits for the write before it");
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_client_makes_its_write_seen() {
    let ensemble = ensemble(3);
    let (writer, reader) = (at(&ensemble, 0).await, at(&ensemble, 1).await);
    ensemble.set_lag(1, MS(200));
    let (_, zxid) = writer.create("/a", b"", &PERSISTENT).with_zxid().await.unwrap();
    assert!(reader.exists("/a").await.unwrap().is_none());
    reader.wait_for_zxid(zxid).await.unwrap();
    assert!(reader.exists("/a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_read_after_a_move_to_a_member_that_was_behind() {
    let ensemble = ensemble(3);
    assert!(ensemble.elect(2));
    let client = moving(&ensemble, &[0, 1], TIMEOUT).await;
    let session = client.session();
    ensemble.set_lag(1, FOR_EVER);
    client.create("/own", b"", &PERSISTENT).await.unwrap();
    ensemble.stop(0);
    settle().await;
    let read = tokio::spawn(client.exists("/own"));
    tokio::time::sleep(MS(2000)).await;
    assert!(!read.is_finished(), "the only member that is left has not seen the write");
    assert_eq!(client.state(), SessionState::Disconnected);
    ensemble.catch_up(1);
    assert!(read.await.unwrap().unwrap().is_some());
    assert_eq!(client.session(), session);
}

#[tokio::test(start_paused = true)]
async fn a_member_refuses_a_client_that_has_seen_more() {
    let ensemble = ensemble(3);
    let seen = zxid(&ensemble, 0);
    let last = |zxid| ConnectRequest { last_zxid_seen: zxid, ..hello(TIMEOUT) };
    let client = raw(&ensemble, 1, last(seen)).await.unwrap();
    ensemble.set_lag(1, FOR_EVER);
    let writer = at(&ensemble, 0).await;
    writer.create("/a", b"", &PERSISTENT).await.unwrap();
    let next = Zxid(zxid(&ensemble, 1).0 + 1);
    assert!(next <= zxid(&ensemble, 0), "a transaction that happened");
    let resume = ConnectRequest { last_zxid_seen: next, ..client.resume() };
    assert!(raw(&ensemble, 1, resume).await.is_none());
    assert!(raw(&ensemble, 0, resume).await.is_some());
    ensemble.catch_up(1);
    assert!(raw(&ensemble, 1, resume).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_watch_fires_at_another_member_for_a_change_during_the_move() {
    let ensemble = ensemble(3);
    assert!(ensemble.elect(2));
    let writer = at(&ensemble, 2).await;
    writer.create("/a", b"", &PERSISTENT).await.unwrap();
    let client = moving(&ensemble, &[0, 1], TIMEOUT).await;
    let (_, mut watcher) = client.get_data_and_watch("/a").await.unwrap();
    let mut stream = client.watch("/a", WatchMode::PersistentRecursive).await.unwrap();
    ensemble.stop(0);
    writer.set_data("/a", b"1", None).await.unwrap();
    let event = watcher.changed().await.unwrap();
    assert_eq!((event.kind, &*event.path), (EventType::NODE_DATA_CHANGED, "/a"));
    assert_eq!(ensemble.member(1, Core::watch_count), Some(1), "the recursive one is set there");
    writer.create("/a/b", b"", &PERSISTENT).await.unwrap();
    loop {
        if let StreamEvent::Changed(event) = stream.next().await.unwrap()
            && event.kind == EventType::NODE_CREATED
        {
            break assert_eq!(event.path, "/a/b");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_fires_when_its_member_has_applied_the_change() {
    let ensemble = ensemble(3);
    let (writer, watching) = (at(&ensemble, 0).await, at(&ensemble, 1).await);
    let (_, mut watcher) = watching.exists_and_watch("/a").await.unwrap();
    ensemble.set_lag(1, MS(400));
    let clock = Clock::start();
    writer.create("/a", b"", &PERSISTENT).await.unwrap();
    watcher.changed().await.unwrap();
    assert_eq!(clock.elapsed(), MS(400));
}

#[tokio::test(start_paused = true)]
async fn a_session_survives_a_change_of_the_leader() {
    let ensemble = ensemble(3);
    let client = builder(&ensemble).connect(&ensemble.connect_string()).await.unwrap();
    let session = client.session();
    client.create("/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
    let before = client.last_zxid();
    ensemble.set_lag(1, FOR_EVER);
    drop(client.create("/late", b"", &PERSISTENT));
    settle().await;
    assert!(ensemble.elect(1));
    assert_eq!(ensemble.leader(), 1);
    settle().await;
    assert_eq!(client.state(), SessionState::Disconnected, "real members close all connections");
    let stat = client.set_data("/mine", b"", None).await.unwrap();
    assert_eq!(client.session(), session);
    assert_eq!((before.0 >> 32, stat.mzxid), (1, Zxid((2 << 32) + 1)));
    assert!((0..3).all(|member| has(&ensemble, member, "/mine")));
    assert!((0..3).all(|member| has(&ensemble, member, "/late")), "the new leader has all");
}

#[tokio::test(start_paused = true)]
async fn all_sessions_begin_their_timeouts_anew_with_a_leader() {
    let ensemble = ensemble(3);
    let client = raw(&ensemble, 0, hello(TIMEOUT)).await.unwrap();
    for leader in [1, 1, 2, 0] {
        tokio::time::sleep(TIMEOUT - MS(100)).await;
        assert_eq!(ensemble.sessions(), [client.session]);
        assert!(ensemble.elect(leader));
    }
    tokio::time::sleep(TIMEOUT + MS(2000)).await;
    assert_eq!(ensemble.sessions(), []);
    assert!(raw(&ensemble, 1, client.resume()).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_write_over_the_old_connection_of_a_moved_session_closes_it() {
    for (old, new) in [(1, 2), (0, 1), (1, 0)] {
        let ensemble = ensemble(3);
        let mut before = raw(&ensemble, old, hello(TIMEOUT)).await.unwrap();
        before.reply(&create("/a", CreateMode::EPHEMERAL)).await;
        let mut after = raw(&ensemble, new, before.resume()).await.unwrap();
        assert_eq!(after.session, before.session);

        // The old member does not know, and reads change nothing.
        before.reply(&exists("/a", false)).await;
        before.reply(&SyncRequest { path: Text::new("/") }).await;
        assert_eq!(before.ask(&set_data("/a")).await, ["closed"]);
        after.reply(&set_data("/a")).await;
        let stat = ensemble.member(new, |server| server.stat("/a")).unwrap().unwrap();
        assert_eq!((stat.version, stat.ephemeral_owner), (1, after.session));
        // The refused write has used up a zxid.
        assert_eq!(stat.mzxid.0, stat.czxid.0 + 2);
    }
}

/// As in real servers, which know a waiting request by its session and its xid.
#[tokio::test(start_paused = true)]
async fn two_clients_of_one_session_may_take_each_other_s_answers() {
    let ensemble = ensemble(3);
    let mut before = raw(&ensemble, 1, hello(TIMEOUT)).await.unwrap();
    let mut after = raw(&ensemble, 2, before.resume()).await.unwrap();
    ensemble.set_call_lag(1, MS(500));
    let clock = Clock::start();
    let xid = before.send(&create("/before", CreateMode::PERSISTENT)).await;
    settle().await;
    assert_eq!(after.send(&create("/after", CreateMode::PERSISTENT)).await, xid);
    let answer = before.frame().await.unwrap();
    assert_eq!(after.frame().await.unwrap(), answer);
    assert!(clock.elapsed() < MS(500));
    // Its own request arrives later, and is refused.
    assert_eq!(before.hear().await, "closed");
    assert_eq!(clock.elapsed(), MS(500));
    assert!(has(&ensemble, 0, "/after") && !has(&ensemble, 0, "/before"));
}

#[tokio::test(start_paused = true)]
async fn a_member_reports_the_sessions_that_it_has_heard_every_half_tick() {
    let ensemble = ensemble(3);
    let mut client = raw(&ensemble, 1, hello(TIMEOUT)).await.unwrap();
    let clock = Clock::start();
    let session = client.session;
    let deadline = || ensemble.member(0, |leader| leader.session_deadline(session)).unwrap();
    let (opened, lag) = (deadline(), MS(1500));
    ensemble.set_call_lag(1, lag);
    tokio::time::sleep(MS(2200)).await;
    client.ping().await;
    tokio::time::sleep(MS(800) + lag - MS(1)).await;
    assert_eq!((clock.elapsed(), deadline()), (MS(4499), opened));
    tokio::time::sleep(MS(2)).await;
    assert_eq!(deadline(), opened.map(|at| at + MS(4000)));
}

#[tokio::test(start_paused = true)]
async fn a_member_may_refuse_by_itself_what_its_own_access_list_forbids() {
    for is_eager in [false, true] {
        let ensemble = ensemble(3);
        let writer = at(&ensemble, 0).await;
        let closed = PERSISTENT.with_acl(Acl::READ_ONLY);
        writer.create("/closed", b"", &closed).await.unwrap();
        let mut client = raw(&ensemble, 1, hello(TIMEOUT)).await.unwrap();
        ensemble.set_eager_acl_check(is_eager);
        ensemble.set_call_lag(1, MS(500));
        let allowed = client.send(&create("/open", CreateMode::PERSISTENT)).await;
        let forbidden = [
            client.send(&create("/closed/a", CreateMode::PERSISTENT)).await,
            client.send(&set_data("/closed")).await,
        ];
        let mut order = Vec::new();
        for _ in 0..3 {
            let frame = client.frame().await.unwrap();
            let header = ReplyHeader::decode(&mut Reader::new(&frame)).unwrap();
            let is_refused = header.error == ErrorCode::NO_AUTH;
            assert_eq!(is_refused, forbidden.contains(&header.xid.0));
            assert_eq!(header.zxid == Zxid(0), is_refused && is_eager);
            order.push(header.xid.0);
        }
        let place = if is_eager { 2 } else { 0 };
        assert_eq!(order.iter().position(|xid| *xid == allowed), Some(place));
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_at_the_same_member_closes_the_old_connection_there() {
    let ensemble = ensemble(3);
    let mut before = raw(&ensemble, 1, hello(TIMEOUT)).await.unwrap();
    let mut after = raw(&ensemble, 1, before.resume()).await.unwrap();
    assert_eq!(before.hear().await, "closed");
    after.reply(&create("/a", CreateMode::PERSISTENT)).await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_loses_its_connections_at_all_members() {
    let ensemble = ensemble(3);
    let mut before = raw(&ensemble, 1, hello(TIMEOUT)).await.unwrap();
    let mut after = raw(&ensemble, 2, before.resume()).await.unwrap();
    after.reply(&create("/e", CreateMode::EPHEMERAL)).await;
    ensemble.set_lag(1, MS(500));
    after.reply(&CloseSessionRequest).await;
    assert_eq!(after.hear().await, "closed");
    // Its member has not heard of the end.
    before.reply(&exists("/e", false)).await;
    let clock = Clock::start();
    assert_eq!(before.hear().await, "closed");
    assert_eq!(clock.elapsed(), MS(500));
    assert_eq!(ensemble.sessions(), []);

    let mut client = raw(&ensemble, 2, hello(TIMEOUT)).await.unwrap();
    assert!(ensemble.expire(client.session) && !ensemble.expire(client.session));
    assert_eq!(client.hear().await, "closed");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_answers_reads_and_pings_and_its_sessions_expire() {
    let ensemble = ensemble(3);
    let mut inside = raw(&ensemble, 1, hello(TIMEOUT)).await.unwrap();
    inside.reply(&create("/e", CreateMode::EPHEMERAL)).await;
    let writer = at(&ensemble, 0).await;
    ensemble.cut(1);
    for _ in 0..4 {
        tokio::time::sleep(MS(2200)).await;
        inside.ping().await;
        inside.reply(&get_data("/e", false)).await;
    }
    assert!(!has(&ensemble, 0, "/e") && has(&ensemble, 1, "/e"));
    assert!(!ensemble.sessions().contains(&inside.session));
    writer.create("/a", b"", &PERSISTENT).await.unwrap();
    ensemble.heal(1);
    assert_eq!(inside.hear().await, "closed");
    assert!(has(&ensemble, 1, "/a") && !has(&ensemble, 1, "/e"));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_at_a_member_that_is_cut_off_is_carried_out_later() {
    let ensemble = ensemble(3);
    let client = at(&ensemble, 1).await;
    ensemble.cut(1);
    let write = tokio::spawn(client.create("/a", b"", &PERSISTENT));
    tokio::time::sleep(MS(1000)).await;
    assert!(!write.is_finished() && !has(&ensemble, 0, "/a"));
    ensemble.heal(1);
    write.await.unwrap().unwrap();
    assert!((0..3).all(|member| has(&ensemble, member, "/a")));
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_gives_up_after_five_ticks() {
    let ensemble = ensemble(3);
    for time in [NOTICED, MS(300)] {
        let mut inside = raw(&ensemble, 1, hello(TIMEOUT)).await.unwrap();
        ensemble.cut(1);
        let clock = Clock::start();
        assert_eq!(inside.hear().await, "closed");
        assert_eq!(clock.elapsed(), time);
        assert!(raw(&ensemble, 1, hello(TIMEOUT)).await.is_none());
        ensemble.heal(1);
        assert!(raw(&ensemble, 1, hello(TIMEOUT)).await.is_some());
        ensemble.set_give_up_after(MS(300));
    }
    ensemble.set_give_up_after(Duration::MAX);
    ensemble.cut(1);
    assert!(raw(&ensemble, 1, hello(TIMEOUT)).await.is_none(), "no quorum opens a session");
    ensemble.heal(1);
    assert!(raw(&ensemble, 1, hello(TIMEOUT)).await.is_some(), "it has not given up");
}

#[tokio::test(start_paused = true)]
async fn a_client_of_a_member_that_is_cut_off_finds_another_in_time() {
    let ensemble = ensemble(3);
    let client = moving(&ensemble, &[1, 2], TIMEOUT).await;
    let session = client.session();
    client.create("/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
    ensemble.cut(1);
    let error = client.set_data("/mine", b"", None).await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::ConnectionLoss, Outcome::Unknown));
    client.set_data("/mine", b"", None).await.unwrap();
    assert_eq!(client.session(), session, "a write without a reply is noticed in time");
    // The write that was lost waits at the old member, where it is too late.
    ensemble.heal(1);
    settle().await;
    assert_eq!(client.exists("/mine").await.unwrap().unwrap().version, 1);
}

#[tokio::test(start_paused = true)]
async fn without_a_quorum_nothing_is_written_and_all_give_up() {
    let ensemble = ensemble(3);
    // Long enough that the client keeps its connection, whose pings wait behind its write.
    let client = moving(&ensemble, &[0, 1], MS(40_000)).await;
    let session = client.session().unwrap().id;
    client.create("/e", b"", &CreateOptions::ephemeral()).await.unwrap();
    ensemble.cut(1);
    ensemble.stop(2);
    let before = zxid(&ensemble, 0);
    let write = tokio::spawn(client.create("/a", b"", &PERSISTENT));
    assert!(!ensemble.elect(0), "nobody follows it");
    assert!(!ensemble.expire(session), "nobody can end a session");
    tokio::time::sleep(NOTICED + MS(1)).await;
    let error = write.await.unwrap().unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(zxid(&ensemble, 0), before);
    assert!(raw(&ensemble, 0, hello(TIMEOUT)).await.is_none());
    ensemble.heal(1);
    assert!(raw(&ensemble, 0, hello(TIMEOUT)).await.is_none(), "nobody leads");
    assert!(!ensemble.elect(2) && ensemble.elect(1));
    assert!(client.exists("/e").await.unwrap().is_some(), "no leader has ended the session");
    assert!(client.exists("/a").await.unwrap().is_none(), "it was never carried out");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_shows_the_past_while_others_go_on() {
    let ensemble = ensemble(3);
    let mut inside = raw(&ensemble, 0, hello(TIMEOUT)).await.unwrap();
    inside.reply(&create("/a", CreateMode::PERSISTENT)).await;
    ensemble.cut(0);
    assert!(ensemble.elect(1));
    let outside = at(&ensemble, 2).await;
    outside.delete("/a", None).await.unwrap();
    inside.reply(&exists("/a", false)).await;
    inside.send(&create("/lost", CreateMode::PERSISTENT)).await;
    ensemble.heal(0);
    assert_eq!(inside.hear().await, "closed", "it follows another leader now");
    assert_eq!(zxid(&ensemble, 0), zxid(&ensemble, 1));
    assert!(!has(&ensemble, 0, "/a") && !has(&ensemble, 1, "/lost"));
    let mut inside = raw(&ensemble, 0, inside.resume()).await.unwrap();
    assert!(inside.ask(&exists("/a", false)).await[0].ends_with("NoNode"));
}

#[tokio::test(start_paused = true)]
async fn members_without_a_quorum_serve_reads_if_they_may() {
    let ensemble = Ensemble::in_memory(Config::new().local_sessions(true), 3);
    let client = at(&ensemble, 1).await;
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    ensemble.set_read_only_mode(true);
    ensemble.cut(1);
    tokio::time::sleep(NOTICED + MS(1)).await;
    assert!(raw(&ensemble, 1, hello(TIMEOUT)).await.is_none(), "it wants to write");
    let reads = ConnectRequest { read_only: Some(true), ..hello(TIMEOUT) };
    let mut reader = raw(&ensemble, 1, reads).await.unwrap();
    reader.reply(&get_data("/a", false)).await;
    let refused = reader.ask(&set_data("/a")).await;
    assert!(refused[0].ends_with("NotReadOnly"), "{refused:?}");
    ensemble.heal(1);
    assert_eq!(reader.hear().await, "closed");
    let mut writer = raw(&ensemble, 1, hello(TIMEOUT)).await.unwrap();
    writer.reply(&set_data("/a")).await;
}

#[tokio::test(start_paused = true)]
async fn faults_strike_at_the_member_that_reads_the_request() {
    let ensemble = ensemble(3);
    let (one, other) = (at(&ensemble, 0).await, at(&ensemble, 1).await);
    ensemble.inject(1, Fault::lose_reply().op(OpCode::CREATE2));
    one.create("/a", b"", &PERSISTENT).await.unwrap();
    let error = other.create("/b", b"", &PERSISTENT).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert!(has(&ensemble, 0, "/b"), "it was carried out");
    ensemble.inject(1, Fault::serve_late(MS(500)).op(OpCode::CREATE2));
    other.create("/c", b"", &PERSISTENT).await.unwrap_err();
    assert!(!has(&ensemble, 0, "/c"));
    tokio::time::sleep(MS(501)).await;
    assert!(has(&ensemble, 0, "/c"));
    ensemble.inject(1, Fault::expire_session());
    assert!(other.exists("/a").await.unwrap_err().is_session_over());
    assert_eq!(ensemble.sessions().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_client_has_proven_counts_at_the_leader() {
    let ensemble = ensemble(3);
    let client = builder(&ensemble).auth("digest", b"me:secret");
    let client = client.connect(ensemble.address(1)).await.unwrap();
    client.create("/mine", b"", &PERSISTENT.with_acl(Acl::CREATOR_ALL)).await.unwrap();
    client.set_data("/mine", b"1", None).await.unwrap();
    let stranger = at(&ensemble, 0).await;
    assert!(stranger.get_data("/mine").await.is_err());
    assert!(client.get_data("/mine").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_client_can_ask_for_a_member_that_does_not_exist() {
    let ensemble = ensemble(2);
    assert_eq!(ensemble.address(2), "");
    assert_eq!(RawClient::over(ensemble.connect(2)).hear().await, "closed");
    assert!(ensemble.member(2, Core::last_zxid).is_none() && !ensemble.elect(2));
    ensemble.set_lag(2, MS(1));
    ensemble.heal(2);
    let session = at(&ensemble, 1).await.session().unwrap().id;
    assert!(ensemble.disconnect(session) && !ensemble.disconnect(SessionId(1)));
    drop(ensemble);
}

#[tokio::test]
async fn members_listen_each_on_a_port() {
    let ensemble = Ensemble::start(Config::new(), 3).await.unwrap();
    let client = Client::connect(&ensemble.connect_string()).await.unwrap();
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    for member in 0..3 {
        let client = Client::connect(ensemble.address(member)).await.unwrap();
        client.sync("/").await.unwrap();
        assert!(client.exists("/a").await.unwrap().is_some());
    }
}
