//! Work that is done anew in each session of a keeper.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::unbounded_channel;
use zk_client::{Client, CreateOptions, Error, ErrorKind, Outcome, SessionKeeper};
use zk_embedded::{Config, Fault, OpCode, Server};
use zk_test_support::explore::{in_virtual_time, settle};

const TIMEOUT: Duration = Duration::from_secs(6);

async fn keep(server: &Server) -> SessionKeeper {
    let builder = Client::builder().connector(server.connector()).session_timeout(TIMEOUT).seed(1);
    builder.keep("zk").await.unwrap()
}

fn server() -> Server {
    Server::in_memory(Config::new().tick_time(Duration::from_secs(1)))
}

async fn register(client: &Client) -> Result<(), Error> {
    client.create("/here", b"", &CreateOptions::ephemeral()).await.map(drop)
}

#[test]
fn the_work_is_dropped_with_its_session_and_begins_again_in_the_next() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server).await;
        let at_work = Arc::new(());
        let (tell, mut begun) = unbounded_channel();
        let running = tokio::spawn({
            let (keeper, at_work) = (keeper.clone(), Arc::clone(&at_work));
            async move {
                let work = |client: Client| {
                    let (tell, at_work) = (tell.clone(), Arc::clone(&at_work));
                    async move {
                        register(&client).await?;
                        tell.send(client.session().unwrap().id).unwrap();
                        let () = pending().await;
                        drop(at_work);
                        Ok::<_, Error>(())
                    }
                };
                keeper.run_each(work).await
            }
        });
        let mut sessions = Vec::new();
        for _ in 0..3 {
            let session = begun.recv().await.unwrap();
            assert!(server.has_node("/here"));
            assert_eq!(Arc::strong_count(&at_work), 3, "the work of one session");
            sessions.push(session);
            assert!(server.expire(session));
        }
        sessions.dedup();
        assert_eq!(sessions.len(), 3);
        begun.recv().await.unwrap();
        keeper.close().await;
        assert_eq!(running.await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(Arc::strong_count(&at_work), 1);
        assert!(!server.has_node("/here"));
    });
}

#[test]
fn work_that_is_done_ends_it_and_so_does_an_error_while_the_session_lives() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server).await;
        let done = keeper.run_each(async |client| register(&client).await.map(|()| 7));
        assert_eq!(done.await.unwrap(), 7);
        let refused = keeper.run_each(async |client| register(&client).await);
        assert!(refused.await.unwrap_err().is_node_exists());

        // The connection breaks, and the session lives on.
        server.inject(Fault::lose_reply().op(OpCode::SET_DATA));
        let broken =
            keeper.run_each(async |client| client.set_data("/here", b"", None).await.map(drop));
        assert!(broken.await.unwrap_err().is_connection_loss());
        assert!(server.has_node("/here"));
        keeper.close().await;
    });
}

#[test]
fn an_error_that_comes_of_the_end_of_the_session_does_not_end_it() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server).await;
        let sessions = AtomicU32::new(0);
        let last = keeper.run_each(async |client| {
            if sessions.fetch_add(1, Ordering::Relaxed) < 5 {
                server.expire(client.session().unwrap().id);
            }
            // Fails as soon as the session is over.
            while client.exists("/").await?.is_some() {
                if sessions.load(Ordering::Relaxed) == 6 {
                    return Ok(client.session().unwrap().id);
                }
            }
            Err(Error::from(zk_client::Ended::Expired))
        });
        let last = last.await.unwrap();
        assert_eq!(sessions.load(Ordering::Relaxed), 6);
        assert_eq!(server.sessions(), [last]);
        keeper.close().await;
    });
}

/// The work and the client run on two threads. A request can fail there before the state says that
/// the session is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_end_of_a_session_is_told_from_other_errors_on_several_threads() {
    for _ in 0..5 {
        let server = Server::in_memory(Config::new());
        let keeper = Client::builder().connector(server.connector()).keep("zk").await.unwrap();
        let sessions = AtomicU32::new(0);
        let work = async |client: Client| {
            if sessions.fetch_add(1, Ordering::Relaxed) == 1 {
                return Ok(());
            }
            server.set_serving(false);
            server.expire(client.session().unwrap().id);
            client.states().wait_for(|state| !state.is_connected()).await.unwrap();
            // The first of them fails while the others are still to be answered.
            let replies = (0..50_000).map(|_| client.exists("/")).collect::<Vec<_>>();
            server.set_serving(true);
            for reply in replies {
                reply.await?;
            }
            Ok(())
        };
        let done: Result<(), Error> = keeper.run_each(work).await;
        done.unwrap();
        assert_eq!(sessions.load(Ordering::Relaxed), 2);
        keeper.close().await;
    }
}

#[test]
fn an_error_while_cut_off_waits_for_what_has_become_of_the_session() {
    in_virtual_time(async {
        for is_over in [false, true] {
            let server = server();
            let keeper = keep(&server).await;
            let sessions = AtomicU32::new(0);
            let running = keeper.run_each(async |client: Client| {
                if sessions.fetch_add(1, Ordering::Relaxed) == 1 {
                    return Ok(());
                }
                let session = client.session().unwrap().id;
                server.inject(Fault::lose_reply().op(OpCode::EXISTS));
                let lost = client.exists("/").await.map(drop);
                if is_over {
                    server.expire(session);
                }
                lost
            });
            let ran = running.await;
            assert_eq!(ran.is_ok(), is_over, "{ran:?}");
            assert!(ran.err().is_none_or(|error| error.is_connection_loss()));
            assert_eq!(sessions.load(Ordering::Relaxed), 1 + u32::from(is_over));
            keeper.close().await;
        }
    });
}

#[test]
fn dropping_it_drops_the_work_and_leaves_the_session() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server).await;
        let client = keeper.client().await.unwrap();
        let running = tokio::spawn({
            let keeper = keeper.clone();
            async move {
                let work = async |client: Client| {
                    let node = CreateOptions::ephemeral().sequential();
                    let node = client.create_owned("/mine-", b"", &node);
                    let _owned = node.await?;
                    pending::<Result<(), Error>>().await
                };
                keeper.run_each(work).await
            }
        });
        settle().await;
        let owned = || server.children("/").iter().filter(|name| name.starts_with("mine-")).count();
        assert_eq!(owned(), 1);
        running.abort();
        drop(running.await);
        settle().await;
        assert_eq!(owned(), 0, "what the work owned is deleted");
        assert!(client.state().is_connected());
        keeper.close().await;
    });
}

#[test]
fn nothing_runs_when_the_keeper_is_over() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server).await;
        keeper.close().await;
        let ran = keeper.run_each(async |_| Ok::<_, Error>(()));
        assert_eq!(ran.await.unwrap_err().kind(), ErrorKind::Closed);
    });
}

/// As a server does whose session expires while a request is on its way.
#[test]
fn a_request_that_is_refused_since_the_session_is_expired_is_no_error_of_the_work() {
    in_virtual_time(async {
        let server = server();
        let keeper = keep(&server).await;
        server.inject(Fault::expire_session().op(OpCode::CREATE2));
        let tried = AtomicU32::new(0);
        let tried = &tried;
        let work = |client: Client| async move {
            tried.fetch_add(1, Ordering::Relaxed);
            let registered = register(&client).await;
            if let Err(error) = &registered {
                assert!(error.is_session_over(), "{error}");
                assert_eq!(error.kind(), ErrorKind::SessionExpired);
                assert_eq!(error.outcome(), Outcome::NotApplied);
            }
            registered
        };
        keeper.run_each(work).await.unwrap();
        assert_eq!(tried.load(Ordering::Relaxed), 2);
        assert!(server.has_node("/here"));
        // The first session has ended by the reply, and the client has left its connection.
        assert_eq!(server.sessions().len(), 1);
    });
}
