//! The client of a keeper now or not at all, and never one that is known to be dead.

use std::pin::pin;
use std::time::Duration;

use zk_client::{Client, ErrorKind, SessionState};
use zk_embedded::{Config, Server};
use zk_test_support::explore::{in_virtual_time, poll_once};

fn server() -> Server {
    Server::in_memory(Config::new().tick_time(Duration::from_secs(1)))
}

#[test]
fn there_is_one_while_a_session_lives_whether_or_not_it_is_connected() {
    in_virtual_time(async {
        let server = server();
        let keeper = Client::builder().connector(server.connector()).keep_lazily("zk").unwrap();
        assert!(keeper.try_client().is_none(), "no server has accepted the session yet");
        let first = keeper.client().await.unwrap();
        assert_eq!(keeper.try_client().unwrap().session(), first.session());

        assert!(server.expire(first.session().unwrap().id));
        server.set_serving(false);
        first.states().wait_for(|state| *state == SessionState::Disconnected).await.unwrap();
        assert_eq!(keeper.try_client().unwrap().session(), first.session());
        first.states().wait_for(|state| state.ended().is_some()).await.unwrap();
        assert!(keeper.try_client().is_none(), "the session is over");
        server.set_serving(true);
        let second = keeper.client().await.unwrap();
        assert_eq!(keeper.try_client().unwrap().session(), second.session());

        drop(keeper.close());
        assert!(keeper.try_client().is_none(), "the keeper is over");
    });
}

#[test]
fn a_client_that_is_being_closed_is_not_handed_out() {
    in_virtual_time(async {
        let server = server();
        let keeper = Client::builder().connector(server.connector()).keep("zk").await.unwrap();
        let client = keeper.client().await.unwrap();
        let closing = client.close();
        assert!(client.state().ended().is_none(), "the server has not confirmed it");
        assert!(keeper.try_client().is_none());
        let mut sessions = keeper.sessions();
        {
            let (mut one, mut all) = (pin!(keeper.client()), pin!(sessions.next()));
            assert!(poll_once(one.as_mut()).is_pending());
            assert!(poll_once(all.as_mut()).is_pending());
        }
        closing.await;
        assert_eq!(keeper.client().await.unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(sessions.next().await.unwrap_err().kind(), ErrorKind::Closed);
        assert!(keeper.try_client().is_none());
    });
}
