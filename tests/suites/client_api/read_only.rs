//! Servers that serve only reads: which clients they accept, which requests they refuse, and how a
//! client leaves for a server that serves writes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::DuplexStream;
use zk_client::{
    Client, ClientBuilder, CreateOptions, ErrorCode, Host, Outcome, SessionState, WatchMode,
};
use zk_embedded::{Config, Server};
use zk_proto::{
    ConnectRequest, ConnectResponse, CreateMode, CreateRequest, GetDataRequest, List, SessionId,
    SyncRequest,
};
use zk_test_support::explore::{in_virtual_time, settle};
use zk_test_support::peer::{
    Bench, Clock, Network, TIMEOUT, created, data, password, payload, welcome,
};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();
const MS: Duration = Duration::from_millis(1);

/// Two servers that act as one ensemble: `zk1` is cut off from it, `zk2` is not.
struct Members {
    cut_off: Arc<Server>,
    other: Arc<Server>,
}

impl Members {
    fn new() -> Self {
        let member = || Arc::new(Server::in_memory(Config::new().local_sessions(true)));
        Self { cut_off: member(), other: member() }
    }

    fn builder(&self) -> ClientBuilder {
        let (cut_off, other) = (self.cut_off.connector(), self.other.connector());
        let connect = move |host: &Host| -> io::Result<DuplexStream> {
            if host.name == "zk1" { cut_off(host) } else { other(host) }
        };
        Client::builder().connector(connect).session_timeout(Duration::from_secs(6)).seed(1)
    }

    /// Creates the same nodes on both servers.
    async fn fill(&self) {
        for server in ["zk1", "zk2"] {
            let client = self.builder().connect(server).await.unwrap();
            client.create("/a", b"1", &PERSISTENT).await.unwrap();
            client.close().await;
        }
    }
}

async fn reach(client: &Client, state: SessionState) {
    client.states().wait_for(|now| *now == state).await.unwrap();
}

#[test]
fn a_client_is_read_only_if_it_was_allowed_to_and_its_writes_are_refused_at_once() {
    in_virtual_time(async {
        let members = Members::new();
        members.fill().await;
        members.cut_off.set_read_only(true);
        let strict =
            members.builder().connect_timeout(Duration::from_secs(30)).connect("zk1").await;
        assert!(strict.is_err(), "nobody asked for reads alone");

        let client = members.builder().allow_read_only(true).connect("zk1").await.unwrap();
        assert_eq!(client.state(), SessionState::ConnectedReadOnly);
        assert_eq!(client.get_data("/a").await.unwrap().data, "1");
        let clock = Clock::start();
        for error in [
            client.set_data("/a", b"2", None).await.unwrap_err(),
            client.sync("/a").await.unwrap_err(),
            client.create("/b", b"", &PERSISTENT).await.unwrap_err(),
        ] {
            assert_eq!(error.code(), Some(ErrorCode::NOT_READ_ONLY));
            assert_eq!(error.outcome(), Outcome::NotApplied);
        }
        assert_eq!(clock.elapsed(), Duration::ZERO);
        assert_eq!(client.session(), None, "no other server knows it");
        assert_eq!(client.detach().await, None);
    });
}

#[test]
fn a_client_leaves_for_a_server_that_serves_writes_and_takes_its_watches_along() {
    in_virtual_time(async {
        let members = Members::new();
        members.fill().await;
        members.cut_off.set_read_only(true);
        members.other.set_serving(false);
        let builder = members.builder().allow_read_only(true);
        let client = builder.connect("zk1,zk2").await.unwrap();
        assert_eq!(client.state(), SessionState::ConnectedReadOnly);
        let (_, mut watch) = client.get_data_and_watch("/a").await.unwrap();
        let mut changes = client.watch("/a", WatchMode::Persistent).await.unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(client.state(), SessionState::ConnectedReadOnly);
        members.other.set_serving(true);
        let clock = Clock::start();
        reach(&client, SessionState::Connected).await;
        // The client searches after 100, 300, 700 ms and so on, up to 25.5 s.
        assert!(clock.elapsed() < Duration::from_secs(7), "{:?}", clock.elapsed());
        assert!(client.session().is_some());
        client.set_data("/a", b"2", None).await.unwrap();
        assert_eq!(watch.changed().await.unwrap().path, "/a");
        changes.next().await.unwrap();
        members.cut_off.set_read_only(false);
        assert!(members.cut_off.sessions().is_empty());
    });
}

#[test]
fn the_move_costs_no_request_its_answer() {
    in_virtual_time(async {
        let members = Members::new();
        members.fill().await;
        members.cut_off.set_read_only(true);
        members.other.set_serving(false);
        let builder = members.builder().allow_read_only(true);
        let client = builder.connect("zk1,zk2").await.unwrap();
        members.other.set_serving(true);
        let mut replies = Vec::new();
        while client.state() != SessionState::Connected {
            replies.push(client.get_data("/a"));
            replies.push(client.get_data("/a"));
            tokio::time::sleep(MS).await;
            assert!(replies.len() < 10_000, "it never moves");
        }
        assert!(replies.len() > 10);
        for reply in replies {
            assert_eq!(reply.await.unwrap().data, "1");
        }
    });
}

#[test]
fn without_a_session_of_the_ensemble_there_is_none_to_expire() {
    in_virtual_time(async {
        let members = Members::new();
        members.fill().await;
        members.cut_off.set_read_only(true);
        let client = members.builder().allow_read_only(true).connect("zk1").await.unwrap();
        members.cut_off.set_serving(false);
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(client.state(), SessionState::Disconnected);
        let waiting = client.get_data("/a");
        members.cut_off.set_serving(true);
        assert_eq!(waiting.await.unwrap().data, "1");
        assert_eq!(client.state(), SessionState::ConnectedReadOnly);
        // The same server now has a quorum, so the client gets its first session of the ensemble.
        members.cut_off.set_read_only(false);
        reach(&client, SessionState::Connected).await;
        client.create("/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
        let session = client.session();
        members.cut_off.disconnect_all();
        client.get_data("/a").await.ok();
        reach(&client, SessionState::Connected).await;
        assert_eq!(client.session(), session);
        assert!(members.cut_off.has_node("/mine"));
    });
}

#[test]
fn a_session_of_the_ensemble_is_kept_and_expires_if_no_server_takes_it_in() {
    in_virtual_time(async {
        let server = Server::in_memory(Config::new());
        let builder = Client::builder().connector(server.connector()).allow_read_only(true);
        let client = builder.session_timeout(Duration::from_secs(6)).connect("zk").await.unwrap();
        let session = client.session();
        server.set_read_only(true);
        let clock = Clock::start();
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!((client.state(), client.session()), (SessionState::Disconnected, session));
        reach(&client, SessionState::Expired).await;
        assert!(clock.elapsed() >= Duration::from_secs(7), "{:?}", clock.elapsed());
    });
}

/// The client sends the four-letter word on a connection of its own, and only the answer `rw` means
/// that the server serves writes.
#[tokio::test(start_paused = true)]
async fn servers_are_asked_ever_more_slowly() {
    let mut network = Network::new();
    let builder = Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1);
    let client = builder.allow_read_only(true).connect_lazily("zk1:1").unwrap();
    let mut peer = network.dial().await.accept();
    assert_eq!(peer.handshake().await.read_only, Some(true));
    let answer = ConnectResponse { read_only: Some(true), ..welcome(TIMEOUT) };
    peer.send(&payload(&answer)).await;
    let served = peer.serve();
    let mut waits = Vec::new();
    for answer in
        ["ro", "null", "isro is not executed", "", "ro", "ro", "ro", "ro", "ro", "ro", "ro", "rw"]
    {
        let clock = Clock::start();
        let mut asked = network.dial().await.accept();
        waits.push(clock.elapsed().as_millis());
        assert_eq!(asked.word().await, "isro");
        asked.raw(answer.as_bytes()).await;
    }
    assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 51200, 60000, 60000]);
    let mut peer = network.dial().await.accept();
    let ConnectRequest { session_id, password, .. } = peer.handshake().await;
    assert_eq!((session_id, password), (SessionId(0), zk_proto::Password::ZERO));
    assert!(served.await.is_ok());
    drop(client);
}

#[test]
fn what_a_read_only_server_gives_is_asked_for_nowhere_else() {
    let mut config = Bench::config();
    config.allow_read_only = true;
    let mut bench = Bench::new(config);
    assert_eq!(bench.connect().read_only, Some(true));
    let answer = ConnectResponse { read_only: Some(true), ..welcome(TIMEOUT) };
    bench.frame(payload(&answer));
    assert_eq!(bench.said(), ["ConnectedReadOnly"]);
    assert_eq!(bench.session.identity(), None);
    bench.session.submit(&SyncRequest { path: "/a".into() }, 1).unwrap();
    assert_eq!(bench.sent(), ["sync#1 /a"]);
    bench.refuse(1, ErrorCode::NOT_READ_ONLY);
    assert_eq!(bench.said(), ["1 NotReadOnly"]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    assert_eq!(bench.due_in(), None, "nothing expires");
    bench.pass(TIMEOUT * 10);
    assert_eq!(bench.connect().session_id, SessionId(0));
    bench.frame(payload(&welcome(TIMEOUT)));
    assert_eq!(bench.said(), ["Connected"]);
    bench.session.submit(&GetDataRequest { path: "/a", watch: false }, 2).unwrap();
    assert_eq!(bench.sent(), ["getData#2 /a"]);
    bench.answer(2, &data(b""));
    assert_eq!(bench.said(), ["2 ok"]);

    // From here on the client has a session, and keeps it on whichever server it connects to.
    let session = bench.session.identity().unwrap();
    assert_eq!(session.password, password());
    for _ in 0..2 {
        bench.cut();
        assert_eq!(bench.said(), ["Disconnected"]);
        assert_eq!(bench.connect().session_id, session.id);
        bench.frame(payload(&answer));
        assert_eq!(bench.said(), ["ConnectedReadOnly"]);
        assert_eq!(bench.session.identity(), Some(session));
    }
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.pass(TIMEOUT * 4 / 3);
    assert_eq!(bench.said(), ["Expired"]);
}

/// The process may have been suspended, so that all deadlines have passed when it checks the clock.
#[test]
fn nothing_expires_however_long_nobody_looked() {
    let mut bench = Bench::new(Bench::config());
    bench.connect();
    bench.frame(payload(&ConnectResponse { read_only: Some(true), ..welcome(TIMEOUT) }));
    assert_eq!(bench.said(), ["ConnectedReadOnly"]);
    bench.pass(TIMEOUT * 10);
    let said = bench.said();
    assert!(said.len() == 1 && said[0].starts_with("hangup: "), "{said:?}");
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    assert_eq!(bench.due_in(), None);
}

/// The node belongs to a session of the ensemble, and must not outlive its owner.
#[test]
fn a_delete_that_a_read_only_server_refuses_is_asked_of_the_next() {
    let mut config = Bench::config();
    config.allow_read_only = true;
    let mut bench = Bench::new(config);
    bench.attach();
    let (acl, mode) = (List::new(&[]), CreateMode::EPHEMERAL_SEQUENTIAL);
    let create = CreateRequest { path: "/l/x-", data: None, acl, mode };
    let claim = bench.session.submit_owned(&create, 1).unwrap();
    assert_eq!(bench.sent(), ["create2#1 /l/x-"]);
    bench.answer(1, &created("/l/x-0000000007"));
    assert_eq!(bench.said(), ["1 ok"]);
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.connect();
    bench.frame(payload(&ConnectResponse { read_only: Some(true), ..welcome(TIMEOUT) }));
    assert_eq!(bench.said(), ["ConnectedReadOnly"]);
    bench.session.release(claim, Some(2)).unwrap();
    assert_eq!(bench.sent(), ["delete#2 /l/x-0000000007"]);
    bench.refuse(2, ErrorCode::NOT_READ_ONLY);
    assert_eq!(bench.said(), ["2 NotReadOnly"]);
    assert_eq!(bench.load(), (0, 0, 1), "it is not forgotten");
    bench.cut();
    assert_eq!(bench.said(), ["Disconnected"]);
    bench.attach();
    assert_eq!(bench.sent(), ["delete#3 /l/x-0000000007"]);
    bench.answer(3, &());
    assert_eq!(bench.load(), (0, 0, 0));
}

#[test]
fn closing_read_only_ends_without_a_session() {
    in_virtual_time(async {
        let members = Members::new();
        members.cut_off.set_read_only(true);
        let client = members.builder().allow_read_only(true).connect("zk1").await.unwrap();
        client.close().await;
        assert_eq!(client.state(), SessionState::Closed);
        assert!(members.cut_off.sessions().is_empty());
        let client = members.builder().allow_read_only(true).connect("zk1").await.unwrap();
        members.cut_off.set_serving(false);
        settle().await;
        let clock = Clock::start();
        client.close().await;
        assert_eq!(clock.elapsed(), Duration::ZERO, "there is nothing to close");
    });
}
