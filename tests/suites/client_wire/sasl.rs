//! How a client starts SASL, which may block or fail, on a paused clock.

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use zk_client::{
    Client, ClientBuilder, ErrorKind, SaslError, SaslExchange, SaslMechanism, SaslStart, SaslStep,
};
use zk_proto::{Secret, SetSaslResponse};
use zk_test_support::peer::{Clock, Network, Peer, TIMEOUT, data};

const PATIENCE: Duration = Duration::from_secs(60);

/// A mechanism that fails until its script of errors is used up, and then sends the host's name.
struct Scripted {
    errors: Arc<Mutex<Vec<SaslError>>>,
    blocks: bool,
    /// The thread of the test, on which the client runs, too.
    home: ThreadId,
}

impl Scripted {
    fn new(errors: impl IntoIterator<Item = SaslError>, blocks: bool) -> Self {
        let errors = errors.into_iter().collect();
        let errors = Arc::new(Mutex::new(errors));
        Self { errors, blocks, home: thread::current().id() }
    }
}

impl SaslMechanism for Scripted {
    fn name(&self) -> &str {
        "SCRIPTED"
    }

    fn start(&self, host: &str) -> Result<SaslStart, SaslError> {
        let runs_here = thread::current().id() == self.home;
        assert_ne!(runs_here, self.blocks, "on the thread of the runtime, nothing may block");
        match self.errors.lock().unwrap().pop() {
            Some(error) => Err(error),
            None => Ok(SaslStart::new(host.as_bytes().to_owned(), Accepting)),
        }
    }

    fn may_block(&self) -> bool {
        self.blocks
    }
}

struct Accepting;

impl SaslExchange for Accepting {
    fn step(&mut self, _challenge: &[u8]) -> Result<SaslStep, SaslError> {
        Ok(SaslStep::Done)
    }
}

fn builder(network: &Network, mechanism: Scripted) -> ClientBuilder {
    let builder = Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1);
    builder.connect_timeout(PATIENCE).sasl(mechanism)
}

fn credential() -> SaslError {
    SaslError::Credential("the ticket has expired".to_owned())
}

fn unavailable() -> SaslError {
    SaslError::Unavailable("no KDC".to_owned())
}

/// Accepts the session and its first token, which must be this one.
async fn accept(mut peer: Peer, first: &str) -> Peer {
    peer.attach().await;
    peer.expect(first).await;
    peer.answer(&SetSaslResponse { token: Secret::new(Some(b"")) }).await;
    peer
}

#[tokio::test(start_paused = true)]
async fn every_connection_starts_anew_with_the_name_of_its_server() {
    for blocks in [false, true] {
        let mut network = Network::new();
        let connecting =
            tokio::spawn(builder(&network, Scripted::new([], blocks)).connect("zk1:7"));
        let peer = accept(network.dial().await.accept(), "sasl#1 zk1").await;
        let client = connecting.await.unwrap().unwrap();
        drop(peer);
        let mut peer = accept(network.dial().await.accept(), "sasl#2 zk1").await;
        let reply = client.get_data("/a");
        peer.expect("getData#3 /a").await;
        peer.answer(&data(b"")).await;
        reply.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_credential_is_an_error_at_once() {
    for blocks in [false, true] {
        let mut network = Network::new();
        let mechanism = Scripted::new([credential(), credential()], blocks);
        let connecting = tokio::spawn(builder(&network, mechanism).connect("zk1:1,zk2:1"));
        let clock = Clock::start();
        for _ in 0..2 {
            let mut peer = network.dial().await.accept();
            peer.expect_hangup().await;
        }
        let error = connecting.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AuthFailed);
        assert_eq!(error.attempts().len(), 2);
        let text = error.to_string();
        assert!(text.contains("zk1:1: SCRIPTED: the ticket has expired"), "{text}");
        assert!(clock.elapsed() < PATIENCE / 2, "{:?}", clock.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_tried_again_until_the_time_is_over() {
    let mut network = Network::new();
    let mechanism = Scripted::new([unavailable(), unavailable()], true);
    let connecting = tokio::spawn(builder(&network, mechanism).connect("zk1:1"));
    for _ in 0..2 {
        network.dial().await.accept().expect_hangup().await;
    }
    let _peer = accept(network.dial().await.accept(), "sasl#1 zk1").await;
    let _client = connecting.await.unwrap().unwrap();

    let mut network = Network::new();
    let mechanism = Scripted::new(vec![unavailable(); 1000], true);
    let connecting = tokio::spawn(builder(&network, mechanism).connect("zk1:1"));
    let clock = Clock::start();
    let serving = tokio::spawn(async move {
        loop {
            network.dial().await.accept().expect_hangup().await;
        }
    });
    let error = connecting.await.unwrap().unwrap_err();
    serving.abort();
    assert_eq!((error.kind(), clock.elapsed()), (ErrorKind::NoServer, PATIENCE));
    let text = error.to_string();
    assert!(text.contains("zk1:1: SCRIPTED: no KDC"), "{text}");
}

/// A ticket may be renewed while the session lives.
#[tokio::test(start_paused = true)]
async fn a_client_whose_credential_expires_is_connected_again_once_it_is_renewed() {
    let mut network = Network::new();
    let mechanism = Scripted::new([], true);
    let errors = Arc::clone(&mechanism.errors);
    let connecting = tokio::spawn(builder(&network, mechanism).connect("zk1:1"));
    let peer = accept(network.dial().await.accept(), "sasl#1 zk1").await;
    let client = connecting.await.unwrap().unwrap();
    *errors.lock().unwrap() = vec![credential(); 3];
    drop(peer);
    let reply = client.get_data("/a");
    for _ in 0..3 {
        network.dial().await.accept().expect_hangup().await;
    }
    let mut peer = accept(network.dial().await.accept(), "sasl#3 zk1").await;
    peer.expect("getData#2 /a").await;
    peer.answer(&data(b"")).await;
    reply.await.unwrap();
}
