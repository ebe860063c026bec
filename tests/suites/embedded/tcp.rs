//! The embedded server as its users run it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(target_os = "linux")]
use std::task::{Context, Waker};
use std::time::Duration;

use zk_client::{Client, CreateOptions, Host, SessionState};
use zk_embedded::{Config, Fault, Server};

#[tokio::test]
async fn a_client_talks_to_it_over_tcp() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    let created = client.create("/a", b"x", &CreateOptions::persistent()).await.unwrap();
    assert_eq!(created.path, "/a");
    client.close().await;
    assert_eq!(server.sessions(), []);
}

/// `Duration::MAX` may mean never.
#[tokio::test(start_paused = true)]
async fn times_without_measure_are_cut() {
    let never = Duration::MAX;
    let config = Config::new().container_check_interval(never).min_session_timeout(never);
    assert_eq!(Config::new().tick_time(never).session_timeouts().0.as_millis(), i32::MAX as u128);
    assert_eq!(Config::new().tick_time(Duration::ZERO).session_timeouts().0.as_millis(), 2);
    let server = Server::in_memory(config);
    let client = Client::builder().connector(server.connector()).connect("zk").await.unwrap();
    client.create("/a", b"", &CreateOptions::container()).await.unwrap();
    server.inject(Fault::delay(never));
    let late = client.get_data("/a");
    let waited = tokio::time::timeout(Duration::from_secs(1), late).await;
    assert!(waited.is_err(), "{waited:?}");
}

/// The number of connections that wait in the kernel for the listener of this port to accept.
#[cfg(target_os = "linux")]
fn waiting(port: u16) -> usize {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let of_listener = |line: &&str| line.contains(&format!(":{port:04X} 00000000:0000 0A"));
    let line = sockets.lines().find(of_listener).expect("the listener");
    let queues = line.split_whitespace().nth(4).expect("its queues");
    usize::from_str_radix(queues.split_once(':').unwrap().1, 16).unwrap()
}

/// The limit is Java's default of 50, and the one more that Linux adds.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_more_connections_wait_to_be_accepted_than_at_a_real_server() {
    for (config, backlog) in [(Config::new(), 50), (Config::new().listen_backlog(7), 7)] {
        let server = Server::with(config).await.unwrap();
        let address: SocketAddr = server.address().parse().unwrap();
        let connect = || Box::pin(tokio::net::TcpStream::connect(address));
        let mut attempts: Vec<_> = (0..backlog + 10).map(|_| connect()).collect();
        // The server's task does not run meanwhile.
        let mut context = Context::from_waker(Waker::noop());
        for attempt in &mut attempts {
            assert!(attempt.as_mut().poll(&mut context).is_pending());
        }
        assert_eq!(waiting(address.port()), backlog + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn no_server_takes_a_session_of_another_for_its_own() {
    let servers = [Server::in_memory(Config::new()), Server::in_memory(Config::new())];
    let connectors = servers.each_ref().map(Server::connector::<Host>);
    let which = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&which);
    let connector = move |host: &Host| connectors[now.load(Ordering::Relaxed)](host);
    let client = Client::builder().connector(connector).connect("zk").await.unwrap();
    let other = Client::builder().connector(servers[1].connector()).connect("zk").await.unwrap();
    which.store(1, Ordering::Relaxed);
    servers[0].disconnect_all();
    client.states().wait_for(|state| state.ended().is_some()).await.unwrap();
    assert_eq!(client.state(), SessionState::Expired);
    assert!(other.exists("/").await.unwrap().is_some());
}

#[tokio::test]
async fn behind_a_shutdown_the_address_is_free() {
    let server = Server::start().await.unwrap();
    let address: SocketAddr = server.address().parse().unwrap();
    server.shutdown().await;
    let server = Server::with(Config::new().listen(address)).await.unwrap();
    assert_eq!(server.address(), address.to_string());
}

/// This happens with a server that several tests share.
#[test]
fn a_server_serves_clients_of_other_runtimes() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let home = runtime();
    let server = home.block_on(Server::start()).unwrap();
    for connector in [true, false] {
        runtime().block_on(async {
            let builder = Client::builder();
            let client = match connector {
                true => builder.connector(server.connector()).connect("zk").await,
                false => builder.connect(server.address()).await,
            };
            client.unwrap().get_data("/").await.unwrap();
        });
    }
}
