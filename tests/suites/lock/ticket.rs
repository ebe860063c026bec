//! A lock that is left to the next process, a folder that is created again when its sequence
//! numbers end, and a term that has no end.

use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use zk_client::{Acl, Client, Ended, ErrorCode, Id, OpCode, Perms, SessionState};
use zk_embedded::{Config, Fault, Server};
use zk_recipes::{Error, ErrorKind, Guard, Lock, LockState, LockTicket, Options, Release};
use zk_test_support::explore::{poll_once, settle};

const PATH: &str = "/locks/one";

fn builder(server: &Server) -> zk_client::ClientBuilder {
    Client::builder().connector(server.connector()).session_timeout(Duration::from_secs(4))
}

async fn connect(server: &Server) -> Client {
    builder(server).connect("zk").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_came_too_late_is_no_lock() {
    let server = Server::in_memory(Config::new());
    let old = connect(&server).await;
    let guard = Lock::new(&old, PATH).unwrap().acquire().await.unwrap();
    let ticket = guard.into_ticket().unwrap();
    old.detach().await;
    drop(old);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(server.children(PATH), Vec::<String>::new());
    let refused = builder(&server).session(ticket.session()).connect("zk").await.unwrap_err();
    assert!(refused.is_session_over(), "{refused}");

    let stranger = connect(&server).await;
    let refused = Lock::new(&stranger, PATH).unwrap().resume(&ticket).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidTicket);
}

#[tokio::test(start_paused = true)]
async fn a_ticket_is_good_for_its_node_and_folder_alone() {
    let server = Server::in_memory(Config::new());
    let (old, other) = (connect(&server).await, connect(&server).await);
    let first = Lock::new(&old, PATH).unwrap().acquire().await.unwrap();
    let second = Lock::new(&old, "/locks/two").unwrap().acquire().await.unwrap();
    let (first, second) = (first.into_ticket().unwrap(), second.into_ticket().unwrap());
    old.detach().await;
    drop(old);
    other.delete(first.node(), None).await.unwrap();

    let new = builder(&server).session(first.session()).connect("zk").await.unwrap();
    let lock = Lock::new(&new, PATH).unwrap();
    let gone = lock.resume(&first).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::Lost);
    let wrong = lock.resume(&second).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::InvalidTicket);
    // The failed attempt changed nothing.
    assert!(server.has_node(second.node()));
    let guard = Lock::new(&new, "/locks/two").unwrap().resume(&second).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

/// A lock that was left to the next process, as the text of its ticket.
async fn left(server: &Server, options: Options) -> String {
    let old = connect(server).await;
    let lock = Lock::with_options(&old, PATH, options).unwrap();
    let ticket = lock.acquire().await.unwrap().into_ticket().unwrap();
    assert!(old.detach().await.is_some());
    ticket.to_secret()
}

/// A process that has read the text of a ticket.
async fn successor(server: &Server, secret: &str, seed: u64) -> (Client, LockTicket) {
    let ticket = secret.parse::<LockTicket>().unwrap();
    let client = builder(server).session(ticket.session()).seed(seed);
    (client.connect("zk").await.unwrap(), ticket)
}

async fn resume(client: &Client, ticket: &LockTicket) -> Result<Guard, Error> {
    Lock::new(client, PATH).unwrap().resume(ticket).await
}

/// Checks that the ticket is refused, because it was used before.
async fn is_used(client: &Client, ticket: &LockTicket) {
    let refused = resume(client, ticket).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TicketUsed, "{refused}");
}

/// A server with a lock that was left and taken over: the text of its ticket, the client of the
/// successor, and the ticket that it has read.
async fn handed_on(options: Options) -> (Server, String, Client, LockTicket) {
    let server = Server::in_memory(Config::new());
    let secret = left(&server, options).await;
    let (client, ticket) = successor(&server, &secret, 1).await;
    (server, secret, client, ticket)
}

/// Checks that the guard still has the lock and that no other process takes its session.
async fn undisturbed(server: &Server, client: &Client, guard: &Guard) {
    settle().await;
    guard.verify().await.ok();
    guard.verify().await.unwrap();
    let connections = client.stats().totals.connections;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(client.stats().totals.connections, connections, "somebody takes the session away");
    assert_eq!(guard.state(), LockState::Held);
    assert!(server.has_node(guard.node()));
}

#[tokio::test(start_paused = true)]
async fn the_second_process_with_a_ticket_is_refused_and_the_first_keeps_the_lock() {
    let (server, secret, first, ticket) = handed_on(Options::new()).await;
    let guard = resume(&first, &ticket).await.unwrap();

    let (second, ticket) = successor(&server, &secret, 2).await;
    is_used(&second, &ticket).await;
    let mut states = second.states();
    let ended = states.wait_for(|state| state.ended().is_some()).await.unwrap().ended();
    assert_eq!(ended, Some(Ended::Closed), "it leaves the session alone");
    // Dropping the client does not end the session either.
    drop((states, second));
    undisturbed(&server, &first, &guard).await;
    assert_eq!(guard.release().await.unwrap(), Release::Released);
}

#[tokio::test(start_paused = true)]
async fn of_two_processes_with_one_ticket_one_gets_the_lock_whatever_is_lost() {
    let mut firsts = [0; 2];
    for seed in 0..20 {
        for fault in [
            None,
            Some(Fault::lose_reply().op(OpCode::SET_ACL)),
            Some(Fault::lose_request().op(OpCode::SET_ACL)),
            Some(Fault::lose_reply().op(OpCode::GET_ACL)),
            Some(Fault::lose_reply().op(OpCode::EXISTS).path(PATH)),
            Some(Fault::lose_reply().op(OpCode::SYNC)),
        ] {
            let server = Server::in_memory(Config::new());
            let secret = left(&server, Options::new()).await;
            let faulty = fault.is_some();
            fault.into_iter().for_each(|fault| server.inject(fault.after(seed as u32 % 2)));
            let process = |seed| {
                let (server, secret) = (&server, &secret);
                async move {
                    let (client, ticket) = successor(server, secret, seed).await;
                    let resumed = resume(&client, &ticket).await;
                    (client, resumed)
                }
            };
            let (one, two) = tokio::join!(process(2 * seed + 1), process(2 * seed + 2));
            let (nth, (client, guard), (other, refused)) = match (one, two) {
                ((one, Ok(guard)), (two, Err(error))) => (0, (one, guard), (two, error)),
                ((one, Err(error)), (two, Ok(guard))) => (1, (two, guard), (one, error)),
                (one, two) => panic!("{:?} and {:?}, seed {seed}, {faulty}", one.1, two.1),
            };
            firsts[nth] += 1;
            assert_eq!(refused.kind(), ErrorKind::TicketUsed, "{refused}");
            drop(other);
            undisturbed(&server, &client, &guard).await;
        }
    }
    assert!(firsts.iter().all(|firsts| *firsts > 0), "{firsts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_resume_may_be_dropped_at_any_moment_and_done_again() {
    for cut in [false, true] {
        let mut polls = 0;
        while !is_done_after(polls, cut).await {
            polls += 1;
        }
        assert!(polls >= 3, "{polls}");
    }
}

/// Drops a resume after `polls` polls and resumes again. If `cut` is set, the last poll comes while
/// the server is down. Returns true if the first resume was done by then.
async fn is_done_after(polls: u32, cut: bool) -> bool {
    let (server, secret, client, ticket) = handed_on(Options::new()).await;
    let lock = Lock::new(&client, PATH).unwrap();
    let mut resumed = Poll::Pending;
    {
        let mut resuming = pin!(lock.resume(&ticket));
        for poll in 0..=polls {
            if poll == polls && cut {
                settle().await;
                server.set_serving(false);
                settle().await;
            }
            resumed = poll_once(resuming.as_mut());
            if resumed.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    settle().await;
    server.set_serving(true);
    client.sync("/").await.unwrap();
    assert!(server.has_node(ticket.node()), "after {polls} polls");
    let is_done = resumed.is_ready();
    let guard = match resumed {
        Poll::Ready(resumed) => resumed.unwrap(),
        // Another process must not resume in between, but a clone of the ticket may.
        Poll::Pending => resume(&client, &ticket.clone()).await.unwrap(),
    };
    let (second, ticket) = successor(&server, &secret, 2).await;
    is_used(&second, &ticket).await;
    undisturbed(&server, &client, &guard).await;
    is_done
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_was_used_here_costs_nothing() {
    let (server, secret, client, ticket) = handed_on(Options::new()).await;
    let guard = resume(&client, &ticket).await.unwrap();
    for again in [ticket.clone(), secret.parse().unwrap()] {
        is_used(&client, &again).await;
        assert_eq!(client.state(), SessionState::Connected);
    }
    undisturbed(&server, &client, &guard).await;

    // The next ticket is a different one, even for the same client.
    let next = guard.into_ticket().unwrap();
    assert_ne!(next, ticket);
    for old in [ticket.clone(), secret.parse().unwrap()] {
        is_used(&client, &old).await;
    }
    let next = next.to_secret();
    client.detach().await;
    let (third, ticket) = successor(&server, &next, 3).await;
    let guard = resume(&third, &ticket).await.unwrap();
    let (late, ticket) = successor(&server, &secret, 4).await;
    is_used(&late, &ticket).await;
    undisturbed(&server, &third, &guard).await;
}

#[tokio::test(start_paused = true)]
async fn a_resume_leaves_the_data_and_a_request_to_revoke() {
    for revokes in [false, true] {
        let server = Server::in_memory(Config::new());
        let other = connect(&server).await;
        let secret = left(&server, Options::new().data(b"host 7")).await;
        let lock = Lock::new(&other, PATH).unwrap();
        if revokes {
            assert_eq!(lock.revoke().await.unwrap(), 1);
        }
        let data = lock.contenders().await.unwrap()[0].data.clone();
        let (client, ticket) = successor(&server, &secret, 1).await;
        let guard = resume(&client, &ticket).await.unwrap();
        assert_eq!(lock.contenders().await.unwrap()[0].data, data);
        let asked = guard.revoke_requested();
        let asked = tokio::time::timeout(Duration::from_secs(1), asked).await;
        assert_eq!(asked.is_ok(), revokes);
        // A later request to revoke does not make the ticket valid again either.
        lock.revoke().await.unwrap();
        let (second, ticket) = successor(&server, &secret, 2).await;
        is_used(&second, &ticket).await;
        undisturbed(&server, &client, &guard).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_not_change_the_access_list_cannot_resume_and_the_ticket_stays_good() {
    let admin = Acl::new(Perms::ALL, Id::digest("ops", "secret"));
    let read = Acl::new(Perms::READ, Id::ANYONE);
    let options = Options::new().acl(&[admin.clone(), read.clone()]);
    let (server, _, client, ticket) = handed_on(options).await;
    let refused = resume(&client, &ticket).await.unwrap_err();
    assert_eq!(refused.client().and_then(zk_client::Error::code), Some(ErrorCode::NO_AUTH));
    client.add_auth("digest", b"ops:secret").await.unwrap();
    let guard = resume(&client, &ticket).await.unwrap();
    let list = client.get_acl(guard.node()).await.unwrap();
    assert_eq!(list.acl[..2], [admin, read]);
    assert_eq!((list.acl.len(), list.acl[2].perms), (3, Perms::NONE));
    undisturbed(&server, &client, &guard).await;
}

/// Checks that a future is pending, however often it is polled.
async fn waits(mut future: Pin<&mut impl Future>) {
    for _ in 0..5 {
        assert!(poll_once(future.as_mut()).is_pending());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_comes_late_to_a_folder_that_was_made_anew_queues_up_there() {
    let server = Server::in_memory(Config::new());
    let (client, other) = (connect(&server).await, connect(&server).await);
    let rotating = |client| Lock::with_options(client, PATH, Options::new().rotate(true)).unwrap();
    let (late, early) = (rotating(&client), rotating(&other));
    early.acquire().await.unwrap().release().await.unwrap();
    assert!(server.preset_sequence(PATH, i32::MAX - 65_536));
    let last = early.acquire().await.unwrap();
    let mut late = Box::pin(late.acquire());
    waits(late.as_mut()).await;
    last.release().await.unwrap();
    let guard = early.acquire().await.unwrap();
    assert!(guard.node().ends_with("-lock-0000000000"), "{}", guard.node());
    waits(late.as_mut()).await;
    let waiting = server.children(PATH).len() - 1;
    assert_eq!(waiting, 1, "it waits behind the holder, not for an empty queue");
    drop(guard);
    let guard = late.await.unwrap();
    assert!(guard.node().ends_with("-lock-0000000001"), "{}", guard.node());
}

#[tokio::test(start_paused = true)]
async fn a_rotation_survives_lost_connections() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server).await;
    let lock = Lock::with_options(&client, PATH, Options::new().rotate(true)).unwrap();
    for fault in [Fault::lose_reply(), Fault::lose_request()] {
        lock.acquire().await.unwrap().release().await.unwrap();
        assert!(server.preset_sequence(PATH, i32::MAX - 10));
        server.inject(fault.op(OpCode::DELETE).path(PATH));
        let guard = lock.acquire().await.unwrap();
        assert_eq!(server.pending_faults(), 0);
        assert!(guard.node().ends_with("-lock-0000000000"), "{}", guard.node());
        guard.release().await.unwrap();
    }
}
