//! A keeper: one session after another, each reported with its number, until the keeper is closed.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use zk_client::{
    Client, ClientBuilder, CreateOptions, ErrorKind, Host, KeptSession, RequestCounts,
    SessionKeeper, SessionState, Totals,
};
use zk_embedded::{Config, Server};
use zk_proto::OpCode;
use zk_test_support::explore::{in_virtual_time, poll_once, settle, sweep};
use zk_test_support::peer::{Clock, Network};

const TIMEOUT: Duration = Duration::from_secs(6);

fn server() -> Server {
    Server::in_memory(Config::new().tick_time(Duration::from_secs(1)))
}

fn builder(server: &Server) -> ClientBuilder {
    Client::builder().connector(server.connector()).session_timeout(TIMEOUT).seed(1)
}

fn keep(server: &Server) -> SessionKeeper {
    builder(server).keep_lazily("zk").unwrap()
}

fn expire(server: &Server, client: &Client) {
    assert!(server.expire(client.session().unwrap().id));
}

fn kind<T>(result: Result<T, zk_client::Error>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Polls `polls` times, and in between lets all other tasks run that need no time to pass.
async fn drop_after<F: Future>(polls: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let std::task::Poll::Ready(output) = poll_once(future.as_mut()) {
            return Some(output);
        }
        settle().await;
    }
    None
}

#[test]
fn each_session_is_told_of_with_its_number() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server);
        let mut sessions = keeper.sessions();
        let mut ids = Vec::new();
        for number in 1..=3 {
            let KeptSession { client, number: told, .. } = sessions.next().await.unwrap();
            assert_eq!(told, number);
            client.create("/here", b"", &CreateOptions::ephemeral()).await.unwrap();
            ids.push(client.session().unwrap().id);
            assert_eq!(keeper.client().await.unwrap().session(), client.session());
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!(server.has_node("/here"));
            expire(&server, &client);
            client.states().wait_for(|state| state.ended().is_some()).await.unwrap();
        }
        ids.dedup();
        assert_eq!(ids.len(), 3);
    });
}

#[test]
fn whoever_is_late_is_told_of_the_newest_session_and_how_many_passed() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server);
        let (mut prompt, mut late) = (keeper.sessions(), keeper.sessions());
        assert_eq!(late.next().await.unwrap().number, 1);
        for number in 1..=4 {
            let session = prompt.next().await.unwrap();
            assert_eq!(session.number, number);
            if number < 4 {
                expire(&server, &session.client);
            }
        }
        assert_eq!(late.next().await.unwrap().number, 4);
        assert_eq!(keeper.sessions().next().await.unwrap().number, 4, "the current one counts");
        let mut none = pin!(late.next());
        assert!(poll_once(none.as_mut()).is_pending(), "each is told of once");
    });
}

#[test]
fn between_two_sessions_there_is_no_client_and_a_reconnect_is_none() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server);
        let mut sessions = keeper.sessions();
        let first = sessions.next().await.unwrap().client;
        server.disconnect_all();
        let same = keeper.client().await.unwrap();
        assert_eq!(same.session(), first.session());
        assert!(same.exists("/").await.is_ok_and(|stat| stat.is_some()));

        expire(&server, &first);
        server.set_serving(false);
        // The client learns of the expiry only when a server serves again.
        first.states().wait_for(|state| *state == SessionState::Disconnected).await.unwrap();
        assert_eq!(keeper.client().await.unwrap().session(), first.session());
        first.states().wait_for(|state| state.ended().is_some()).await.unwrap();
        let mut waiting = pin!(keeper.client());
        for _ in 0..10 {
            assert!(poll_once(waiting.as_mut()).is_pending());
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        server.set_serving(true);
        let second = waiting.await.unwrap();
        assert_eq!(second.state(), SessionState::Connected);
        assert_ne!(second.session(), first.session());
        assert_eq!(sessions.next().await.unwrap().number, 2);
    });
}

#[test]
fn a_session_to_take_up_is_asked_for_once() {
    in_virtual_time(async {
        let server = server();
        let before = builder(&server).seed(2).connect("zk").await.unwrap();
        before.create("/here", b"", &CreateOptions::ephemeral()).await.unwrap();
        let left = before.detach().await.unwrap();
        let keeper = builder(&server).session(left).keep_lazily("zk").unwrap();
        let mut sessions = keeper.sessions();
        let first = sessions.next().await.unwrap();
        assert_eq!((first.number, first.client.session()), (1, Some(left)));
        assert!(server.has_node("/here"));
        expire(&server, &first.client);
        let second = sessions.next().await.unwrap();
        assert_eq!(second.number, 2);
        assert_ne!(second.client.session(), Some(left));

        let keeper = builder(&server).session(left).keep_lazily("zk").unwrap();
        let session = keeper.sessions().next().await.unwrap();
        assert_eq!(session.number, 2, "the one that was to be taken up is over, and that is told");
    });
}

#[test]
fn a_keeper_begins_with_a_session_or_with_an_error() {
    in_virtual_time(async {
        let server = server();
        let keeper = tokio::spawn(builder(&server).keep("zk")).await.unwrap().unwrap();
        let client = keeper.client().await.unwrap();
        assert_eq!(client.state(), SessionState::Connected);
        assert_eq!(kind(builder(&server).keep("zk/none").await), Some(ErrorKind::ChrootNotFound));

        // If the session to resume is over, a new one follows.
        let left = builder(&server).seed(2).connect("zk").await.unwrap().detach().await.unwrap();
        assert!(server.expire(left.id));
        let next = builder(&server).session(left).keep("zk").await.unwrap();
        assert_eq!(next.sessions().next().await.unwrap().number, 2);

        server.set_serving(false);
        let limit = Duration::from_secs(3);
        let before = client.clock().now();
        let error = builder(&server).connect_timeout(limit).keep("zk").await.unwrap_err();
        let took = client.clock().now() - before;
        assert_eq!((error.kind(), took), (ErrorKind::NoServer, limit));
        assert!(error.to_string().contains("zk"), "{error}");
        server.set_serving(true);
        keeper.close().await;
        next.close().await;
        settle().await;
        assert!(server.sessions().is_empty(), "a keeper that did not begin has left a session");
    });
}

#[test]
fn close_ends_the_session_and_tells_everybody() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server);
        let mut sessions = keeper.sessions();
        let session = sessions.next().await.unwrap();
        keeper.close().await;
        assert!(server.sessions().is_empty());
        assert_eq!(session.client.state(), SessionState::Closed);
        assert_eq!(kind(keeper.client().await), Some(ErrorKind::Closed));
        for _ in 0..2 {
            assert_eq!(kind(sessions.next().await), Some(ErrorKind::Closed));
        }
        assert_eq!(kind(keeper.sessions().next().await), Some(ErrorKind::Closed));
        keeper.close().await;
    });
}

#[test]
fn close_returns_while_no_server_answers_and_between_two_sessions() {
    in_virtual_time(async {
        let server = server();
        server.set_serving(false);
        let keeper = keep(&server);
        settle().await;
        let clock = Clock::start();
        keeper.close().await;
        assert!(clock.elapsed() <= TIMEOUT, "{:?}", clock.elapsed());
        assert_eq!(kind(keeper.client().await), Some(ErrorKind::Closed));

        server.set_serving(true);
        let keeper = keep(&server);
        let client = keeper.client().await.unwrap();
        expire(&server, &client);
        client.states().wait_for(|state| state.ended().is_some()).await.unwrap();
        keeper.close().await;
        tokio::time::sleep(TIMEOUT).await;
        assert!(server.sessions().is_empty(), "none was opened afterwards");
    });
}

#[test]
fn a_client_that_is_closed_ends_the_keeper() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server);
        let mut sessions = keeper.sessions();
        let session = sessions.next().await.unwrap();
        session.client.close().await;
        assert_eq!(kind(sessions.next().await), Some(ErrorKind::Closed));
        assert_eq!(kind(keeper.client().await), Some(ErrorKind::Closed));
    });
}

/// Every later session would be refused in the same way.
#[test]
fn credentials_that_are_refused_end_the_keeper_for_good_and_it_says_so() {
    type Ask = fn(ClientBuilder) -> ClientBuilder;
    let none: Ask = |builder| builder;
    let scheme: Ask = |builder| builder.auth("plug-in", b"ticket");
    let user: Ask = |builder| builder.sasl_digest_md5("ann", "secret");
    let asks = [(none, true, "plug-in"), (scheme, false, "plug-in"), (user, false, "SASL")];
    for (ask, later, why) in asks {
        in_virtual_time(async move {
            let server = server();
            let (connect, dials) = (server.connector(), Arc::new(AtomicU32::new(0)));
            let counting = Arc::clone(&dials);
            let connector = move |host: &Host| {
                counting.fetch_add(1, Ordering::Relaxed);
                connect(host)
            };
            let keeper = ask(builder(&server).connector(connector)).keep_lazily("zk").unwrap();
            let mut sessions = keeper.sessions();
            if later {
                let client = sessions.next().await.unwrap().client;
                let refused = client.add_auth("plug-in", b"ticket").await;
                assert_eq!(kind(refused), Some(ErrorKind::AuthFailed));
            }
            let over = loop {
                match sessions.next().await {
                    // The server lets the session in before it looks at the credentials.
                    Ok(session) => assert_eq!(session.number, 1),
                    Err(over) => break over,
                }
            };
            assert!(over.to_string().contains(why), "{over}");
            for closed in [false, true] {
                tokio::time::sleep(TIMEOUT * 10).await;
                assert_eq!(kind(sessions.next().await), Some(ErrorKind::AuthFailed));
                assert_eq!(kind(keeper.sessions().next().await), Some(ErrorKind::AuthFailed));
                assert_eq!(kind(keeper.client().await), Some(ErrorKind::AuthFailed));
                if !closed {
                    keeper.close().await;
                }
            }
            assert_eq!(dials.load(Ordering::Relaxed), 1, "no other session was asked for");
            assert!(server.sessions().is_empty());
        });
    }
}

#[test]
fn dropping_all_handles_lets_the_last_session_end_with_its_clients() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server);
        let mut sessions = keeper.clone().sessions();
        let session = sessions.next().await.unwrap();
        drop(keeper);
        tokio::time::sleep(TIMEOUT * 3).await;
        session.client.exists("/").await.unwrap();
        drop(session);
        assert_eq!(kind(sessions.next().await), Some(ErrorKind::Closed));
        assert!(server.sessions().is_empty());

        let (keeper, running) = builder(&server).keep_split("zk").unwrap();
        let mut sessions = keeper.sessions();
        drop(running);
        assert_eq!(kind(sessions.next().await), Some(ErrorKind::Closed));
        assert_eq!(kind(keeper.client().await), Some(ErrorKind::Closed));
        keeper.close().await;
    });
}

#[test]
fn sessions_that_end_at_once_are_opened_ever_more_slowly() {
    let waits = |seed| {
        in_virtual_time(async move {
            let server = server();
            let keeper = builder(&server).seed(seed).keep_lazily("zk").unwrap();
            let mut sessions = keeper.sessions();
            let mut waits = Vec::new();
            for _ in 0..8 {
                let session = sessions.next().await.unwrap();
                let clock = Clock::start();
                expire(&server, &session.client);
                drop(session);
                sessions.next().await.unwrap();
                waits.push(clock.elapsed());
                let session = keeper.client().await.unwrap();
                expire(&server, &session);
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
            let session = keeper.client().await.unwrap();
            let mut sessions = keeper.sessions();
            sessions.next().await.unwrap();
            let clock = Clock::start();
            expire(&server, &session);
            sessions.next().await.unwrap();
            (waits, clock.elapsed())
        })
    };
    let (ever_longer, after_a_long_one) = waits(1);
    assert!(ever_longer[0] < Duration::from_millis(400), "{ever_longer:?}");
    assert!(ever_longer[4..].iter().all(|wait| *wait >= Duration::from_millis(500)));
    assert!(ever_longer.iter().all(|wait| *wait <= Duration::from_millis(1200)));
    assert!(after_a_long_one < Duration::from_millis(200), "{after_a_long_one:?}");
    assert_eq!(waits(1), waits(1), "the seed decides");
    assert_ne!(waits(1), waits(2));
}

#[test]
fn two_sessions_of_one_seed_make_different_names() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server);
        let mut sessions = keeper.sessions();
        let first = sessions.next().await.unwrap().client;
        let name = first.unique();
        expire(&server, &first);
        assert_ne!(sessions.next().await.unwrap().client.unique(), name);
    });
}

/// Whichever future is dropped, after any poll, no caller waits for ever and nothing stays open.
#[test]
fn a_future_that_is_dropped_after_any_poll_loses_nothing() {
    for call in 0..4 {
        let places = sweep(|polls| async move {
            let server = server();
            let keeper = keep(&server);
            let mut sessions = keeper.sessions();
            let mut early = true;
            match call {
                0 => early = drop_after(polls, keeper.client()).await.is_none(),
                1 => match drop_after(polls, sessions.next()).await {
                    Some(session) => (early, sessions) = (session.is_err(), keeper.sessions()),
                    None => settle().await,
                },
                2 => early = drop_after(polls, keeper.close()).await.is_none(),
                _ => {
                    let first = sessions.next().await.unwrap().client;
                    expire(&server, &first);
                    drop(first);
                    let again = drop_after(polls, sessions.next()).await;
                    early = again.is_none();
                    if !early {
                        sessions = keeper.sessions();
                    }
                }
            }
            if call == 2 {
                // The keeper is closed although no caller waited for it, whether the future was
                // polled or not.
                assert_eq!(kind(sessions.next().await), Some(ErrorKind::Closed));
            } else {
                let session = sessions.next().await.unwrap();
                session.client.exists("/").await.unwrap();
                drop(session);
                drop(keeper);
                assert_eq!(kind(sessions.next().await), Some(ErrorKind::Closed));
            }
            settle().await;
            assert!(server.sessions().is_empty());
            early
        });
        assert!(places > 0, "call {call} was never dropped early");
    }
}

/// The keeper's own future, dropped at any moment of its life.
#[test]
fn a_keeper_that_is_dropped_after_any_poll_tells_that_it_is_over() {
    let places = sweep(|polls| async move {
        let server = server();
        let (keeper, running) = builder(&server).keep_split("zk").unwrap();
        let mut sessions = keeper.sessions();
        let mut running = Box::pin(running);
        let mut seen = 0;
        for _ in 0..polls {
            assert!(poll_once(running.as_mut()).is_pending());
            tokio::time::sleep(Duration::from_millis(20)).await;
            if let std::task::Poll::Ready(session) = poll_once(pin!(sessions.next()).as_mut()) {
                seen += 1;
                if let Some(session) = session.unwrap().client.session() {
                    server.expire(session.id);
                }
            }
        }
        drop(running);
        assert_eq!(kind(sessions.next().await), Some(ErrorKind::Closed));
        assert_eq!(kind(keeper.client().await), Some(ErrorKind::Closed));
        keeper.close().await;
        seen < 3
    });
    assert!(places > 5, "{places}");
}

/// The sum over three sessions, of which the first two expired and the last was closed, is that of
/// what each of them counted.
#[test]
fn a_keeper_adds_up_its_sessions_and_counts_none_twice() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server);
        let mut sessions = keeper.sessions();
        let mut clients = Vec::new();
        for number in 1..=3 {
            let KeptSession { client, .. } = sessions.next().await.unwrap();
            for _ in 0..number {
                client.get_data("/none").await.unwrap_err();
            }
            let stats = keeper.stats();
            assert_eq!(stats.sessions, number);
            let reads = stats.totals.requests.iter().find(|counts| counts.op == OpCode::GET_DATA);
            assert_eq!(reads.map(|counts| counts.refused), Some((1..=number).sum()));
            if number < 3 {
                expire(&server, &client);
            }
            clients.push(client);
        }
        keeper.close().await;
        let stats = keeper.stats();
        assert_eq!(stats, keeper.stats());
        assert_eq!(stats.sessions, 3);
        let counts: [fn(&Totals) -> u64; 8] = [
            |totals| totals.attempts,
            |totals| totals.connections,
            |totals| totals.frames_sent,
            |totals| totals.bytes_sent,
            |totals| totals.frames_received,
            |totals| totals.bytes_received,
            |totals| totals.requests.iter().map(RequestCounts::total).sum(),
            |totals| totals.latencies.count(),
        ];
        for (at, count) in counts.into_iter().enumerate() {
            let each = clients.iter().map(|client| count(&client.stats().totals));
            assert_eq!((count(&stats.totals), at), (each.sum(), at));
            assert!(count(&stats.totals) > 0, "{at}");
        }
        let closed = stats.totals.requests.iter().find(|counts| counts.op == OpCode::CLOSE_SESSION);
        assert_eq!(closed.map(|counts| counts.succeeded), Some(1), "the last one is not lost");
    });
}

#[test]
fn a_close_at_a_server_that_is_silent_is_told_at_once_and_soon_done() {
    in_virtual_time(async {
        let mut network = Network::new();
        let builder = Client::builder().connector(network.dialer()).seed(1);
        let keeper = builder.session_timeout(Duration::from_secs(60)).keep_lazily("zk").unwrap();
        let mut silent = network.dial().await.accept();
        silent.next().await.unwrap();
        let (clock, mut sessions) = (Clock::start(), keeper.sessions());
        let (mut client, mut session) = (pin!(keeper.client()), pin!(sessions.next()));
        let work = |_| async { Ok::<_, zk_client::Error>(()) };
        let mut work = pin!(keeper.run_each(work));
        assert!(poll_once(client.as_mut()).is_pending());
        assert!(poll_once(session.as_mut()).is_pending());
        assert!(poll_once(work.as_mut()).is_pending());
        let closing = keeper.close();
        assert_eq!(kind(client.await), Some(ErrorKind::Closed));
        assert_eq!(kind(session.await), Some(ErrorKind::Closed));
        assert_eq!(kind(work.await), Some(ErrorKind::Closed));
        assert_eq!(clock.elapsed(), Duration::ZERO, "those who wait are told at once");
        closing.await;
        assert!(clock.elapsed() <= Duration::from_secs(1), "{:?}", clock.elapsed());
    });
}
