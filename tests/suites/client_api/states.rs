//! States as a stream: each state in order, or the number of missed states.

use zk_client::{Client, SessionState, StateEvent, StateStream};
use zk_embedded::{Config, Server};
use zk_test_support::explore::{in_virtual_time, settle, sweep};

use SessionState::{Closed, Connected, Connecting, Disconnected, Expired};

async fn told(states: &mut StateStream, expected: &[SessionState]) {
    for state in expected {
        assert_eq!(states.next().await, Some(StateEvent::Entered(*state)));
    }
}

#[test]
fn every_state_is_told_in_order_however_late() {
    in_virtual_time(async {
        let server = Server::in_memory(Config::new());
        let client = Client::builder().connector(server.connector()).connect_lazily("zk").unwrap();
        let (mut prompt, mut late) = (client.state_stream(), client.state_stream());
        told(&mut prompt, &[Connecting, Connected]).await;
        let mut new = client.state_stream();
        for _ in 0..3 {
            server.disconnect_all();
            told(&mut prompt, &[Disconnected, Connected]).await;
        }
        server.expire(client.session().unwrap().id);
        told(&mut prompt, &[Disconnected, Expired]).await;
        let rest = [Disconnected, Connected, Disconnected, Connected, Disconnected, Connected];
        told(&mut late, &[Connecting, Connected]).await;
        told(&mut new, &[Connected]).await;
        for states in [&mut late, &mut new] {
            told(states, &rest).await;
            told(states, &[Disconnected, Expired]).await;
        }
        for mut states in [prompt, late, new] {
            assert_eq!(states.next().await, None);
            assert_eq!(states.next().await, None);
        }
        told(&mut client.state_stream(), &[Expired]).await;
    });
}

#[test]
fn who_falls_behind_is_told_by_how_much_and_of_the_end() {
    in_virtual_time(async {
        const CUTS: usize = StateStream::CAPACITY;
        let server = Server::in_memory(Config::new());
        let client = Client::builder().connector(server.connector()).connect("zk").await.unwrap();
        let (mut prompt, mut late) = (client.state_stream(), client.state_stream());
        told(&mut prompt, &[Connected]).await;
        for _ in 0..CUTS {
            server.disconnect_all();
            told(&mut prompt, &[Disconnected, Connected]).await;
        }
        client.close().await;
        told(&mut prompt, &[Closed]).await;
        let all = 2 * CUTS + 2;
        let missed = (all - StateStream::CAPACITY) as u64;
        assert_eq!(late.next().await, Some(StateEvent::Lagged(missed)));
        let mut states = Vec::new();
        while let Some(event) = late.next().await {
            states.push(event);
        }
        assert_eq!(states.len(), StateStream::CAPACITY);
        assert_eq!(states.last(), Some(&StateEvent::Entered(Closed)));
    });
}

#[test]
fn a_wait_that_is_dropped_after_any_poll_loses_nothing() {
    sweep(|polls| async move {
        let server = Server::in_memory(Config::new());
        let client = Client::builder().connector(server.connector()).connect_lazily("zk").unwrap();
        let mut states = client.state_stream();
        let mut seen = Vec::new();
        for n in 0..polls {
            let mut next = std::pin::pin!(states.next());
            if let std::task::Poll::Ready(event) =
                zk_test_support::explore::poll_once(next.as_mut())
            {
                seen.extend(event);
            }
            if n == 3 {
                server.disconnect_all();
            }
            settle().await;
        }
        client.close().await;
        while let Some(event) = states.next().await {
            seen.push(event);
        }
        let mut expected = vec![Connecting, Connected];
        if polls > 3 {
            expected.extend([Disconnected, Connected]);
        }
        expected.push(Closed);
        let expected = expected.into_iter().map(StateEvent::Entered).collect::<Vec<_>>();
        // A close may come before the client has connected or reconnected.
        let told = seen.iter().filter(|event| expected.contains(event)).count();
        assert_eq!(told, seen.len());
        assert_eq!(seen.first(), expected.first());
        assert_eq!(seen.last(), expected.last());
        polls < 12
    });
}
