//! Streams of a whole client on an embedded server in memory: lost connections, overruns, old
//! servers, and the watches that stay on the server when no caller watches any more.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::task::coop::poll_proceed;
use zk_client::{
    Client, CreateOptions, ErrorKind, SessionState, StreamEvent, WatchMode, WatchStream,
};
use zk_embedded::{Config, ErrorCode, Fault, OpCode, Server, ServerVersion};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();
const RECURSIVE: WatchMode = WatchMode::PersistentRecursive;

async fn connect(server: &Server, servers: &str) -> Client {
    let builder = Client::builder().session_timeout(Duration::from_secs(6));
    builder.connector(server.connector()).connect(servers).await.unwrap()
}

/// The events that are in the stream now.
async fn heard(stream: &mut WatchStream) -> Vec<String> {
    let mut heard = Vec::new();
    while let Poll::Ready(event) = poll_fn(|cx| Poll::Ready(stream.poll_next(cx))).await {
        heard.push(match event.unwrap() {
            StreamEvent::Changed(event) => format!("{} {}", event.kind, event.path),
            event => format!("{event:?}"),
        });
    }
    heard
}

/// Breaks the client's connection, and waits for the next.
async fn cut(server: &Server, client: &Client) {
    server.inject(Fault::lose_request());
    client.sync("/").await.unwrap_err();
    client.sync("/").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_a_cut_a_stream_says_so_and_goes_on() {
    for version in [ServerVersion::V3_8, ServerVersion::V3_9] {
        let server = Server::in_memory(Config::new().server_version(version));
        let (client, other) = (connect(&server, "zk").await, connect(&server, "zk").await);
        client.create("/w", b"", &PERSISTENT).await.unwrap();
        let mut node = client.watch("/w", WatchMode::Persistent).await.unwrap();
        let mut tree = client.watch("/w", RECURSIVE).await.unwrap();
        let (_, mut once) = client.get_children_and_watch("/w").await.unwrap();
        other.create("/w/before", b"", &PERSISTENT).await.unwrap();
        assert!(!once.changed().await.unwrap().missed);
        let (_, mut once) = client.get_children_and_watch("/w").await.unwrap();
        cut(&server, &client).await;
        other.create("/w/after", b"", &PERSISTENT).await.unwrap();
        client.sync("/").await.unwrap();
        let told = heard(&mut tree).await;
        assert_eq!(told, ["NodeCreated /w/before", "Rearmed", "NodeCreated /w/after"]);
        let told = heard(&mut node).await;
        let changed = "NodeChildrenChanged /w";
        assert_eq!(
            (told.first().unwrap().as_str(), told.last().unwrap().as_str()),
            (changed, changed)
        );
        assert!(told.contains(&"Rearmed".to_owned()), "{told:?}");
        once.changed().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_in_a_chroot_names_nodes_as_its_client_does() {
    let server = Server::in_memory(Config::new());
    let outside = connect(&server, "zk").await;
    for path in ["/app", "/application"] {
        outside.create(path, b"", &PERSISTENT).await.unwrap();
    }
    let inside = connect(&server, "zk/app").await;
    let mut stream = inside.watch("/", RECURSIVE).await.unwrap();
    inside.create("/a", b"", &PERSISTENT).await.unwrap();
    outside.set_data("/app", b"", None).await.unwrap();
    outside.set_data("/application", b"", None).await.unwrap();
    inside.sync("/").await.unwrap();
    assert_eq!(heard(&mut stream).await, ["NodeCreated /a", "NodeDataChanged /"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_reads_counts_what_it_drops_and_holds_up_nobody() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server, "zk").await;
    let path = &*format!("/{}", "w".repeat(1000));
    let mut unread = client.watch(path, RECURSIVE).await.unwrap();
    let mut read = client.watch(path, RECURSIVE).await.unwrap();
    client.create(path, b"", &PERSISTENT).await.unwrap();
    assert_eq!(heard(&mut read).await, [format!("NodeCreated {path}")]);
    let changed = format!("NodeDataChanged {path}");
    let full = WatchStream::CAPACITY.div_ceil(path.len() + 64);
    for _ in 1..full + 5 {
        client.set_data(path, b"", None).await.unwrap();
        assert_eq!(heard(&mut read).await, [changed.as_str()], "each at once");
    }
    let told = heard(&mut unread).await;
    assert_eq!(told.len(), full + 1);
    assert_eq!(told.last().unwrap(), "Lagged(5)");
    client.set_data(path, b"", None).await.unwrap();
    assert_eq!(heard(&mut unread).await, [changed]);
}

#[tokio::test(start_paused = true)]
async fn the_server_watches_only_what_somebody_waits_for() {
    for version in [ServerVersion::V3_8, ServerVersion::V3_9] {
        let server = Server::in_memory(Config::new().server_version(version));
        let client = connect(&server, "zk").await;
        client.create("/w", b"", &PERSISTENT).await.unwrap();
        let streams = (
            client.watch("/w", RECURSIVE).await.unwrap(),
            client.watch("/w", WatchMode::Persistent).await.unwrap(),
            client.watch("/w", RECURSIVE).await.unwrap(),
        );
        let (_, data) = client.get_data_and_watch("/w").await.unwrap();
        let (_, children) = client.get_children_and_watch("/w").await.unwrap();
        drop(streams);
        drop(data);
        client.sync("/").await.unwrap();
        assert!(server.watch_count() > 0, "the last one still waits");
        drop(children);
        client.sync("/").await.unwrap();
        assert_eq!(server.watch_count(), 0);

        // The callers leave before the reply.
        drop(client.watch("/w", RECURSIVE));
        drop(client.exists_and_watch("/absent"));
        client.sync("/").await.unwrap();
        client.sync("/").await.unwrap();
        assert_eq!(server.watch_count(), 0);

        // A forgotten watch ends with its node.
        let (_, own) = client.get_data_and_watch("/w").await.unwrap();
        own.abandon();
        client.sync("/").await.unwrap();
        assert_eq!(server.watch_count(), 1);
        client.delete("/w", None).await.unwrap();
        assert_eq!(server.watch_count(), 0);
    }
}

/// Counts how often it is woken.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_wakers_the_last_one_is_woken() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server, "zk").await;
    let mut stream = client.watch("/w", RECURSIVE).await.unwrap();
    let woken = [(); 2].map(|()| Arc::new(Woken::default()));
    for one in &woken {
        let waker = Waker::from(Arc::clone(one));
        assert!(stream.poll_next(&mut Context::from_waker(&waker)).is_pending());
    }
    client.create("/w", b"", &PERSISTENT).await.unwrap();
    assert_eq!(woken.map(|woken| woken.0.load(Ordering::Relaxed)), [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_session_is_told_behind_all_that_came_before() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server, "zk").await;
    let mut stream = client.watch("/w", RECURSIVE).await.unwrap();
    client.create("/w", b"", &PERSISTENT).await.unwrap();
    server.expire(client.session().unwrap().id);
    let mut states = client.states();
    states.wait_for(|state| *state == SessionState::Expired).await.unwrap();
    assert!(matches!(stream.next().await, Ok(StreamEvent::Changed(_))));
    for _ in 0..2 {
        let error = stream.next().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionExpired);
    }
    assert_eq!(client.watch("/w", RECURSIVE).await.unwrap_err().kind(), ErrorKind::SessionExpired);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_no_streams_refuses_and_the_session_goes_on() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server, "zk").await;
    let session = client.session();
    server.inject(Fault::refuse(ErrorCode::UNIMPLEMENTED).op(OpCode::ADD_WATCH));
    let error = client.watch("/w", RECURSIVE).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UNIMPLEMENTED));
    let told = "addWatch /w: Unimplemented; the server has no such watches (Apache's have since \
                3.6), or the client's dialect says so, see ClientBuilder::dialect";
    assert_eq!(error.to_string(), told);
    client.sync("/").await.unwrap();
    assert_eq!((client.session(), server.watch_count()), (session, 0));
}

/// A caller that reads a stream until it is pending takes that for "nothing else has changed".
#[tokio::test(start_paused = true)]
async fn a_change_that_is_there_is_seen_by_a_task_that_shall_let_others_run() {
    let server = Server::in_memory(Config::new());
    let client = connect(&server, "zk").await;
    client.create("/w", b"", &PERSISTENT).await.unwrap();
    let mut changes = client.watch("/w", RECURSIVE).await.unwrap();
    client.set_data("/w", b"", None).await.unwrap();
    poll_fn(|cx| {
        while let Poll::Ready(coop) = poll_proceed(cx) {
            coop.made_progress();
        }
        assert!(pin!(changes.next()).poll(cx).is_ready());
        Poll::Ready(())
    })
    .await;
}
