//! Servers without a quorum: no recipe that reads believes one.
//!
//! The server that is read-only lacks every node that the other one has, and says so when it is
//! asked. Each recipe must wait for the other one's word.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use zk_client::{Client, ClientBuilder, CreateOptions, Host, SessionState};
use zk_embedded::{Config, Server};
use zk_recipes::{Barrier, Cached, Counter, Election, Freshness, Group, Lock, TreeCache};
use zk_test_support::locks::TIMEOUT;

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

/// `zk1` is cut off from the quorum, `zk2` is not, and can be reached once it is `open`.
struct Members {
    cut_off: Arc<Server>,
    other: Arc<Server>,
    open: Arc<AtomicBool>,
}

impl Members {
    fn new() -> Self {
        let member = || Arc::new(Server::in_memory(Config::new().local_sessions(true)));
        let (cut_off, other) = (member(), member());
        cut_off.set_read_only(true);
        Self { cut_off, other, open: Arc::default() }
    }

    fn builder(&self) -> ClientBuilder {
        let (cut_off, other) = (self.cut_off.connector(), self.other.connector());
        let open = Arc::clone(&self.open);
        let connect = move |host: &Host| -> io::Result<DuplexStream> {
            match host.name.as_str() {
                "zk1" => cut_off(host),
                _ if open.load(Ordering::Relaxed) => other(host),
                _ => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        };
        let builder = Client::builder().connector(connect).session_timeout(TIMEOUT);
        builder.allow_read_only(true)
    }
}

type Asked = Vec<(&'static str, JoinHandle<usize>)>;

/// Asks as a task of its own, and counts what is answered.
fn ask(asked: &mut Asked, what: &'static str, how: impl Future<Output = usize> + Send + 'static) {
    asked.push((what, tokio::spawn(how)));
}

/// Asks each recipe that reads. Behind a quorum each answer is 1.
async fn ask_all(client: &Client, builder: ClientBuilder) -> Asked {
    let mut asked = Asked::new();
    let barrier = Barrier::new(client, "/barrier").unwrap();
    let closed = async move { usize::from(!barrier.is_open().await.unwrap()) };
    ask(&mut asked, "Barrier::is_open", closed);
    let counter = Counter::new(client, "/counter").unwrap();
    let value = async move { usize::try_from(counter.get().await.unwrap()).unwrap() };
    ask(&mut asked, "Counter::get", value);
    let group = Group::new(client, "/group").unwrap();
    let mut views = group.watch();
    let members = async move { group.members().await.unwrap().members.len() };
    ask(&mut asked, "Group::members", members);
    let viewed = async move { views.next().await.unwrap().members.len() };
    ask(&mut asked, "Members::next", viewed);
    let election = Election::new(client, "/lock").unwrap();
    let mut leaders = election.observe();
    let led = async move { usize::from(leaders.next().await.unwrap().is_some()) };
    ask(&mut asked, "Leaders::next", led);
    let candidates = async move { election.candidates().await.unwrap().len() };
    ask(&mut asked, "Election::candidates", candidates);
    let lock = Lock::new(client, "/lock").unwrap();
    let contenders = async move { lock.contenders().await.unwrap().len() };
    ask(&mut asked, "Lock::contenders", contenders);

    let keeper = builder.keep("zk1,zk2").await.unwrap();
    let (mut values, following) = Cached::follow(&keeper, "/barrier").unwrap();
    tokio::spawn(following);
    let cached = async move {
        let current = values.wait_for(|cached| cached.freshness == Freshness::Current).await;
        usize::from(current.unwrap().node.is_some())
    };
    ask(&mut asked, "Cached", cached);
    let followed = TreeCache::follow(&keeper, "/barrier", Default::default()).unwrap();
    tokio::spawn(followed.1);
    let tree = async move {
        let mut status = followed.0.status();
        let current = status.wait_for(|status| status.freshness == Freshness::Current).await;
        current.unwrap().nodes
    };
    ask(&mut asked, "TreeCache", tree);
    asked
}

#[tokio::test(start_paused = true)]
async fn no_recipe_that_reads_believes_a_server_without_a_quorum() {
    let servers = Members::new();
    let other = servers.other.connector();
    let owner = Client::builder().connector(other).connect("zk2").await.unwrap();
    let closed = Barrier::new(&owner, "/barrier").unwrap();
    closed.close().await.unwrap();
    owner.create("/counter", &1_i64.to_be_bytes(), &PERSISTENT).await.unwrap();
    let group = Group::new(&owner, "/group").unwrap();
    let _member = group.join("one", "").await.unwrap();
    let _guard = Lock::new(&owner, "/lock").unwrap().acquire().await.unwrap();

    let client = servers.builder().connect("zk1,zk2").await.unwrap();
    assert_eq!(client.state(), SessionState::ConnectedReadOnly);
    let asked = ask_all(&client, servers.builder()).await;
    let barrier = Barrier::new(&client, "/barrier").unwrap();
    let waiting = tokio::spawn(async move { barrier.wait().await.unwrap() });
    sleep(3 * TIMEOUT).await;
    let believed = asked.iter().filter(|(_, answer)| answer.is_finished());
    assert_eq!(believed.map(|(what, _)| *what).collect::<Vec<_>>(), [""; 0]);
    assert!(!waiting.is_finished(), "Barrier::wait goes on");
    let mut members = Group::new(&client, "/group").unwrap().watch();
    let viewed = timeout(TIMEOUT, members.next()).await;
    assert!(viewed.is_err() && members.may_be_outdated());

    servers.open.store(true, Ordering::Relaxed);
    for (what, answer) in asked {
        assert_eq!(timeout(10 * TIMEOUT, answer).await.expect(what).unwrap(), 1, "{what}");
    }
    assert!(!waiting.is_finished(), "Barrier::wait goes on");
    closed.open().await.unwrap();
    timeout(TIMEOUT, waiting).await.unwrap().unwrap();
}
