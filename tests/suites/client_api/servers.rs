//! A server list that changes under a connected client: the client moves if it must, and loses
//! nothing.

use std::io;
use std::time::Duration;

use tokio::io::DuplexStream;
use zk_client::{
    Client, ClientBuilder, CreateOptions, ErrorKind, Host, SessionState, StreamEvent, WatchMode,
};
use zk_embedded::{Config, Server};
use zk_test_support::explore::{in_virtual_time, settle, sweep};
use zk_test_support::peer::{Network, SESSION, TIMEOUT, data};

const MS: Duration = Duration::from_millis(1);

fn builder(network: &Network) -> ClientBuilder {
    Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1)
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_server_is_gone_moves_once_it_has_its_answers() {
    let mut network = Network::new();
    let connecting = builder(&network).connect("zk1:1");
    let (client, mut peer) = tokio::join!(connecting, network.attach());
    let client = client.unwrap();
    let before = client.get_data("/a");
    peer.expect("getData#1 /a").await;
    client.set_servers("zk2:2,zk3:3").unwrap();
    let after = client.get_data("/b");
    settle().await;
    assert_eq!(client.state(), SessionState::Connected, "an answer is owed");
    peer.answer(&data(b"1")).await;
    assert_eq!(before.await.unwrap().data, "1");
    peer.expect_hangup().await;
    let dial = network.dial().await;
    assert!(["zk2:2", "zk3:3"].contains(&dial.host.as_str()), "{}", dial.host);
    let mut peer = dial.accept();
    assert_eq!(peer.attach().await.session_id, SESSION);
    peer.expect("getData#2 /b").await;
    peer.answer(&data(b"2")).await;
    assert_eq!(after.await.unwrap().data, "2");
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_server_stays_stays_if_servers_are_removed() {
    let mut network = Network::new();
    let connecting = builder(&network).connect("zk1:1,zk2:2,zk3:3");
    let attaching = async {
        let dial = network.dial().await;
        let host = dial.host.clone();
        let mut peer = dial.accept();
        peer.attach().await;
        (host, peer)
    };
    let (client, (host, peer)) = tokio::join!(connecting, attaching);
    let client = client.unwrap();
    peer.serve();
    client.set_servers(&format!("{host},zk9:9")).unwrap();
    client.set_servers(&host).unwrap();
    tokio::time::sleep(TIMEOUT * 2).await;
    assert_eq!(client.state(), SessionState::Connected);
    client.get_data("/a").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_that_looks_for_a_server_looks_among_the_new_ones() {
    let mut network = Network::new();
    let client = builder(&network).connect_lazily("zk1:1").unwrap();
    let reading = client.get_data("/a");
    let dial = network.dial().await;
    client.set_servers("zk2:2").unwrap();
    dial.ignore().await;
    let dial = network.dial().await;
    assert_eq!(dial.host, "zk2:2");
    // An attempt at a server that is still in the list is not given up.
    client.set_servers("zk3:3,zk2:2").unwrap();
    let mut peer = dial.accept();
    peer.attach().await;
    peer.serve();
    reading.await.unwrap();
    // The client is closed while it waits before the next attempt.
    drop(network);
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn servers_that_are_none_change_nothing() {
    let mut network = Network::new();
    let connecting = builder(&network).connect("zk1:1");
    let (client, peer) = tokio::join!(connecting, network.attach());
    let client = client.unwrap();
    peer.serve();
    for (servers, rule) in [("zk2:2/shop", "a chroot stays"), ("", "missing"), ("zk2:x", "port")] {
        let error = client.set_servers(servers).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConnectString);
        assert!(error.to_string().contains(rule), "{error}");
    }
    client.set_servers("zk1:1/").unwrap();
    settle().await;
    assert_eq!(client.state(), SessionState::Connected);
}

/// A connector that leads every host name to the same single server.
fn dial(server: &Server) -> impl Fn(&Host) -> io::Result<DuplexStream> + Send + Sync + 'static {
    server.connector()
}

/// Under load, at whatever moment the servers change, every request is answered in order, every
/// change is reported, and ephemeral nodes stay.
#[test]
fn a_move_under_load_loses_nothing() {
    const REQUESTS: u32 = 40;
    let places = sweep(|at| async move {
        let server = Server::in_memory(Config::new());
        let builder = Client::builder().connector(dial(&server)).seed(1);
        let client = builder.connect("zk1").await.unwrap();
        client.create("/n", b"", &CreateOptions::ephemeral()).await.unwrap();
        let mut changes = client.watch("/n", WatchMode::Persistent).await.unwrap();
        let session = client.session();
        let mut states = client.states();
        let mut replies = Vec::new();
        for n in 0..REQUESTS {
            if n == at {
                client.set_servers("zk2,zk3").unwrap();
            }
            replies.push(client.set_data("/n", n.to_string().as_bytes(), Some(n as i32)));
            if n % 3 == 0 {
                tokio::task::yield_now().await;
            }
            if n % 7 == 0 {
                tokio::time::sleep(MS * 10).await;
            }
        }
        for (n, reply) in replies.into_iter().enumerate() {
            let stat = reply.await.unwrap_or_else(|error| panic!("request {n}: {error}"));
            assert_eq!(stat.version, n as i32 + 1);
        }
        let moved = states.has_changed().unwrap();
        assert_eq!(moved, at < REQUESTS);
        states.wait_for(|state| state.is_connected()).await.unwrap();
        assert_eq!(client.session(), session);
        assert!(server.has_node("/n"));
        // Changes during the move are reported as a watch that was set again.
        assert!(matches!(
            changes.next().await.unwrap(),
            StreamEvent::Changed(_) | StreamEvent::Rearmed
        ));
        moved
    });
    assert_eq!(places, REQUESTS);
}

#[test]
fn two_of_five_clients_move_when_three_servers_become_five() {
    in_virtual_time(async {
        let server = Server::in_memory(Config::new().max_connections_per_host(0));
        let mut clients = Vec::new();
        for seed in 0..200 {
            let builder = Client::builder().connector(server.connector()).seed(seed);
            clients.push(builder.connect("zk1,zk2,zk3").await.unwrap());
        }
        let states: Vec<_> = clients.iter().map(Client::states).collect();
        for client in &clients {
            client.set_servers("zk1,zk2,zk3,zk4,zk5").unwrap();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let moved = states.iter().filter(|states| states.has_changed().unwrap()).count();
        assert!((65..=95).contains(&moved), "{moved} of 200");
        assert!(clients.iter().all(|client| client.state() == SessionState::Connected));
        assert_eq!(server.sessions().len(), 200);
    });
}

#[test]
fn the_sessions_of_a_keeper_know_the_servers_of_the_last() {
    in_virtual_time(async {
        let server = Server::in_memory(Config::new());
        let connect = dial(&server);
        let (telling, mut dialed) = tokio::sync::mpsc::unbounded_channel();
        let connector = move |host: &Host| {
            telling.send(host.name.clone()).unwrap();
            connect(host)
        };
        let keeper = Client::builder().connector(connector).seed(1).keep_lazily("zk1").unwrap();
        let mut sessions = keeper.sessions();
        let client = sessions.next().await.unwrap().client;
        client.set_servers("zk2").unwrap();
        settle().await;
        tokio::time::sleep(MS * 100).await;
        server.expire(client.session().unwrap().id);
        sessions.next().await.unwrap();
        assert_eq!(dialed.recv().await.unwrap(), "zk1");
        while let Ok(host) = dialed.try_recv() {
            assert_eq!(host, "zk2");
        }
    });
}
