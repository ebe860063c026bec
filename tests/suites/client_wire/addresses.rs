//! The kinds of server addresses in a connect string, over real sockets.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use zk_client::{Client, CreateOptions, ErrorKind};
use zk_embedded::{Config, Server};

/// This fails on a machine without the address `::1`, since no other test shows that IPv6 works.
async fn serve_v6() -> Server {
    let config = Config::new().listen((Ipv6Addr::LOCALHOST, 0));
    Server::with(config).await.expect("these tests need the IPv6 loopback address ::1")
}

#[tokio::test]
async fn a_client_connects_over_ipv6_and_comes_back() {
    let server = serve_v6().await;
    let address: SocketAddr = server.address().parse().unwrap();
    assert_eq!(server.address(), format!("[::1]:{}", address.port()));
    let client = Client::connect(server.address()).await.unwrap();
    let told = client.stats().server.map(|host| host.to_string());
    assert_eq!(told.as_deref(), Some(server.address()));
    client.create("/a", b"", &CreateOptions::ephemeral()).await.unwrap();
    let session = client.session();
    server.disconnect_all();
    client.states().wait_for(|state| !state.is_connected()).await.unwrap();
    client.sync("/").await.unwrap();
    assert_eq!(client.session(), session);
    assert!(server.has_node("/a"));
    client.close().await;
}

#[tokio::test]
async fn a_chroot_follows_an_ipv6_address() {
    let server = serve_v6().await;
    let whole = Client::connect(server.address()).await.unwrap();
    whole.create("/app", b"", &CreateOptions::persistent()).await.unwrap();
    let client = Client::connect(&format!("{}/app", server.address())).await.unwrap();
    client.create("/a", b"", &CreateOptions::persistent()).await.unwrap();
    assert!(server.has_node("/app/a"));
}

#[tokio::test]
async fn servers_of_both_families_stand_side_by_side() {
    let server = serve_v6().await;
    // The port of the other family is bound, and no server listens on it.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let refusing = socket.local_addr().unwrap();
    for servers in [format!("{refusing},{}", server.address()), server.address().to_owned()] {
        let client = Client::connect(&servers).await.unwrap();
        client.get_data("/").await.unwrap();
    }
}

#[tokio::test]
async fn an_ipv6_server_that_is_not_there_is_named_in_brackets() {
    let socket = tokio::net::TcpSocket::new_v6().unwrap();
    socket
        .bind((Ipv6Addr::LOCALHOST, 0).into())
        .expect("these tests need the IPv6 loopback address ::1");
    let address = socket.local_addr().unwrap().to_string();
    let builder = Client::builder().connect_timeout(Duration::from_millis(300));
    let error = builder.connect(&address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoServer);
    let [attempt] = error.attempts() else { panic!("{error}") };
    assert_eq!(attempt.server, address);
    assert!(attempt.why.contains("refused"), "{}", attempt.why);
}
