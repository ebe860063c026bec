//! The `tracing` events of a client: they match the table in its documentation and hold no secret.
//!
//! When a call site is first reached, `tracing` records for the whole process whether it has a
//! subscriber. So every test of this program subscribes at its beginning, and the program holds no
//! other test.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::Level;
use zk_client::session::{Event, Session};
use zk_client::{
    Client, CreateOptions, Credential, ErrorCode, EventType, Op, SessionConfig, SessionIdentity,
    WatchMode,
};
use zk_embedded::{Config, Server};
use zk_proto::{
    ConnectRequest, CreateMode, CreateRequest, GetDataRequest, List, OpCode, Password, SessionId,
    Xid, Zxid,
};
use zk_recipes::{Lock, Options, Semaphore};
use zk_test_support::capture::{Capture, Told};
use zk_test_support::locks::{LOCK, World};
use zk_test_support::peer::{Bench, Network, SESSION, TIMEOUT, data, reply};
use zk_test_support::raw::{RawClient, hello};

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();

const CONNECTION: &str = "zk_client::connection";
const SESSIONS: &str = "zk_client::session";
const REQUEST: &str = "zk_client::request";
const WATCH: &str = "zk_client::watch";
const HELD: &str = "zk_recipes::lock";

/// Lets every task run until it waits.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

fn field<'a>(told: &'a Told, name: &str) -> &'a str {
    told.fields.get(name).map_or("", String::as_str)
}

/// The only event with this target and message.
#[track_caller]
fn one(capture: &Capture, target: &str, message: &str) -> Told {
    let told = capture.of(target, message);
    assert_eq!(told.len(), 1, "{target} {message}: {told:?}");
    told[0].clone()
}

/// A real server writes a line of this, too. Without it nobody knows why the client never connects.
#[tokio::test(start_paused = true)]
async fn a_server_warns_of_a_client_that_is_ahead_of_it() {
    const WARNING: &str = "refused a client that has seen later transactions than this server";
    let (capture, server) = (Capture::new(), Server::in_memory(Config::new()));
    let ahead = |last_zxid_seen| ConnectRequest { last_zxid_seen, ..hello(TIMEOUT) };
    // The server has opened a session, and done nothing else.
    RawClient::attach(&server, hello(TIMEOUT)).await;
    assert!(RawClient::connect(&server).greet(ahead(Zxid(1))).await.is_some());
    assert_eq!(capture.of("zk_embedded::handshake", WARNING), []);
    assert!(RawClient::connect(&server).greet(ahead(Zxid(7))).await.is_none());
    let told = capture.of("zk_embedded::handshake", WARNING);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].level, Level::WARN);
    assert_eq!((field(&told[0], "seen"), field(&told[0], "last")), ("0x7", "0x2"));
    assert!(told[0].fields.contains_key("peer"));
}

#[tokio::test(start_paused = true)]
async fn a_life_is_told_with_the_names_and_fields_of_the_table() {
    let capture = Capture::new();
    let mut network = Network::new();
    let builder = Client::builder().connector(network.dialer()).session_timeout(TIMEOUT).seed(1);
    let client = builder.connect_lazily("zk7:2182").unwrap();
    network.dial().await.refuse(std::io::ErrorKind::ConnectionRefused);
    let mut peer = network.attach().await;

    let reading = client.get_data_and_watch("/a");
    peer.expect("getData#1 /a").await;
    tokio::time::sleep(TIMEOUT / 100).await;
    peer.answer(&data(b"text")).await;
    let (_, mut watcher) = reading.await.unwrap();
    let proving = client.add_auth("digest", b"ann:secret");
    assert_eq!(peer.next().await.unwrap().op(), OpCode::AUTH);
    peer.answer(&()).await;
    proving.await.unwrap();
    let refused = client.delete("/b", None);
    peer.expect("delete#2 /b").await;
    peer.refuse(ErrorCode::NO_NODE).await;
    refused.await.unwrap_err();
    let watching = client.watch("/a", WatchMode::Persistent);
    peer.expect("addWatch#3 /a persistent").await;
    peer.answer(&()).await;
    let stream = watching.await.unwrap();
    // After this event the session sends a request of its own, because a persistent watch stands
    // beside a one-shot one.
    peer.fire(EventType::NODE_DATA_CHANGED, "/a").await;
    watcher.changed().await.unwrap();
    let lost = client.get_data("/lost");
    settle().await;
    while peer.next().await.unwrap().op() != OpCode::GET_DATA {}
    drop(peer);
    lost.await.unwrap_err();
    let mut peer = network.attach().await;
    for op in [OpCode::AUTH, OpCode::SET_WATCHES2] {
        assert_eq!(peer.next().await.unwrap().op(), op);
        peer.answer(&()).await;
    }
    settle().await;
    tokio::time::sleep(TIMEOUT / 2).await;
    let closing = client.close();
    peer.expect("closeSession#5").await;
    peer.answer(&()).await;
    closing.await;
    settle().await;
    drop(stream);

    let mut seen = capture.told().iter().map(Told::to_string).collect::<Vec<_>>();
    seen.retain(|told| told.contains("zk_client") && !told.contains("due: timer"));
    seen.sort();
    seen.dedup();
    let expected = [
        "DEBUG zk_client::connection attempt failed: server why",
        "DEBUG zk_client::connection connecting: server",
        "DEBUG zk_client::session authenticated: scheme",
        "DEBUG zk_client::watch rearmed: ",
        "DEBUG zk_client::watch rearming: requests streams watches",
        "INFO zk_client::connection connected: connections read_only server session timeout_ms",
        "INFO zk_client::connection lost: lived_ms server why",
        "INFO zk_client::session over: session why",
        "TRACE zk_client::request answered: bytes error latency_us op path xid zxid",
        "TRACE zk_client::request answered: bytes error latency_us op xid zxid",
        "TRACE zk_client::request ping answered: latency_us",
        "TRACE zk_client::request queued: op path xid",
        "TRACE zk_client::request queued: op xid",
        "TRACE zk_client::request sent: op path xid",
        "TRACE zk_client::request sent: op xid",
        "TRACE zk_client::request unanswered: failure op path xid",
        "TRACE zk_client::watch event: kind missed path streams watchers zxid",
    ];
    assert_eq!(seen, expected);

    let connected = capture.of(CONNECTION, "connected");
    assert_eq!(connected.len(), 2);
    assert_eq!(field(&connected[0], "server"), "zk7:2182");
    assert_eq!(field(&connected[0], "session"), SESSION.to_string());
    assert_eq!(field(&connected[0], "timeout_ms"), "12000");
    assert_eq!(field(&connected[1], "connections"), "2");
    let lost = one(&capture, CONNECTION, "lost");
    assert_eq!(field(&lost, "why"), "the server closed the connection");
    assert_eq!(field(&one(&capture, SESSIONS, "over"), "why"), "the client is closed");

    let answered = capture.of(REQUEST, "answered");
    let [read, _, refused, ..] = answered.as_slice() else { panic!("{answered:?}") };
    assert_eq!((field(read, "xid"), field(read, "op")), ("1", "getData"));
    assert_eq!((field(read, "path"), field(read, "error")), ("/a", "Ok"));
    assert_eq!(field(read, "latency_us"), "120000");
    assert_eq!(field(read, "bytes"), (4 + 4 + 68).to_string());
    assert_eq!((field(refused, "path"), field(refused, "error")), ("/b", "NoNode"));
    let unanswered = one(&capture, REQUEST, "unanswered");
    assert_eq!((field(&unanswered, "op"), field(&unanswered, "path")), ("getData", "/lost"));

    let event = one(&capture, WATCH, "event");
    assert_eq!((field(&event, "kind"), field(&event, "path")), ("NodeDataChanged", "/a"));
    assert_eq!((field(&event, "watchers"), field(&event, "streams")), ("1", "1"));

    // All events except those of the callers are in the session's span, which has the session's id
    // once it is known.
    let told = capture.told();
    let first = told.iter().position(|told| *told == connected[0]).unwrap();
    for (at, told) in told.iter().enumerate().filter(|(_, told)| told.message != "queued") {
        let span = told.span.as_ref();
        assert!(span.is_some(), "{told}");
        let session = span.and_then(|fields| fields.get("session"));
        let named = (at >= first).then(|| SESSION.to_string());
        assert_eq!(session, named.as_ref(), "{told}");
    }
}

#[test]
fn a_refused_credential_is_a_warning() {
    let capture = Capture::new();
    let mut bench = Bench::attached();
    bench.session.add_auth(Credential::new("digest", b"ann:secret"), 1).unwrap();
    assert_eq!(bench.frames().len(), 1);
    bench.refuse(Xid::AUTH.0, ErrorCode::AUTH_FAILED);
    assert!(!bench.said().is_empty());
    let refused = one(&capture, SESSIONS, "authentication refused");
    assert_eq!((refused.level, field(&refused, "scheme")), (Level::WARN, "digest"));
    assert_eq!(one(&capture, SESSIONS, "over").level, Level::WARN);
}

#[test]
fn an_old_server_is_one_warning() {
    let capture = Capture::new();
    let mut bench = Bench::attached();
    let create =
        CreateRequest { path: "/a", data: None, acl: List::new(&[]), mode: CreateMode::PERSISTENT };
    for token in [1, 2] {
        bench.session.submit(&create, token).unwrap();
    }
    assert_eq!(bench.sent(), ["create2#1 /a", "create2#2 /a"]);
    for xid in [1, 2] {
        bench.frame(reply(Xid(xid), -1, ErrorCode::UNIMPLEMENTED, &()));
    }
    bench.session.submit(&create, 3).unwrap();
    assert_eq!(bench.said(), ["1 Unimplemented", "2 Unimplemented", "3 Unimplemented"]);
    let old = one(&capture, SESSIONS, "the server is older than 3.5");
    assert_eq!(old.level, Level::WARN);
}

#[test]
fn an_expiry_is_a_warning() {
    let capture = Capture::new();
    let mut bench = Bench::attached();
    bench.cut();
    bench.pass(TIMEOUT * 2);
    assert_eq!(bench.said(), ["Disconnected", "Expired"]);
    let over = one(&capture, SESSIONS, "over");
    assert_eq!(over.level, Level::WARN);
    assert_eq!(field(&over, "why"), "the session is expired");
}

#[test]
fn a_ping_is_told_with_its_latency() {
    let capture = Capture::new();
    let mut bench = Bench::attached();
    bench.pass(TIMEOUT / 3);
    assert_eq!(bench.sent(), ["ping"]);
    bench.pass(Duration::from_millis(3));
    bench.frame(reply(Xid::PING, 0, ErrorCode::OK, &()));
    assert_eq!(field(&one(&capture, REQUEST, "ping answered"), "latency_us"), "3000");
}

/// Level, target, message and, in order, the names of the fields: of each row of the table in the
/// documentation of zk-recipes.
fn documented() -> BTreeSet<String> {
    let page = recipes().join("lib.rs");
    let text = fs::read_to_string(page).unwrap();
    let table = text.split("//! # ").find(|part| part.starts_with("Seeing inside")).unwrap();
    let mut target = "";
    let mut rows = BTreeSet::new();
    for row in table.lines().filter_map(|line| line.strip_prefix("//! | ")).skip(1) {
        let cells = row.split('|').map(str::trim).collect::<Vec<_>>();
        let [named, level, message, fields, _] = cells[..] else { panic!("{row}") };
        if !named.is_empty() {
            target = named.trim_matches('`');
        }
        let message = message.split('`').nth(1).unwrap();
        rows.insert(told(level, target, message, fields.split('`').skip(1).step_by(2)));
    }
    rows
}

fn told<'f>(
    level: &str,
    target: &str,
    message: &str,
    fields: impl Iterator<Item = &'f str>,
) -> String {
    let mut fields = fields.collect::<Vec<_>>();
    fields.sort_unstable();
    format!("{} {target} {message}: {}", level.to_uppercase(), fields.join(" "))
}

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../zk-recipes/src")
}

/// All events in the sources of zk-recipes.
fn reported() -> BTreeSet<String> {
    let trace = fs::read_to_string(recipes().join("trace.rs")).unwrap();
    let target_of = |name: &str| {
        let (_, rest) = trace.split_once(&format!("const {name}: &str = \"")).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let (mut folders, mut reported) = (vec![recipes()], BTreeSet::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            let text = fs::read_to_string(&entry).unwrap();
            for level in ["trace", "debug", "info", "warn", "error"] {
                for (_, rest) in text
                    .match_indices(&format!("{level}!("))
                    .map(|(at, macro_)| text.split_at(at + macro_.len()))
                {
                    // A message has no quotes in it, and no field a string.
                    let (fields, rest) = rest.split_once('"').unwrap();
                    let message = rest.split('"').next().unwrap();
                    let mut fields = fields.split(',').map(str::trim);
                    let target = fields.next().unwrap();
                    let target = target.strip_prefix("target: ").unwrap_or_else(|| {
                        panic!("{}: an event without a target", entry.display())
                    });
                    let names = fields.filter(|field| !field.is_empty()).map(|field| {
                        field.split(" = ").next().unwrap().trim_start_matches(['%', '?'])
                    });
                    reported.insert(told(level, &target_of(target), message, names));
                }
            }
        }
    }
    reported
}

#[test]
fn the_table_of_the_recipes_has_every_event_of_their_sources_and_no_other() {
    let (documented, reported) = (documented(), reported());
    assert!(documented.len() > 10, "{documented:?}");
    assert_eq!(documented, reported);
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_told_from_its_queue_to_its_end() {
    let capture = Capture::new();
    let world = World::new();
    let (one, two) = (world.lock().await, world.lock().await);
    let held = one.acquire().await.unwrap();
    let mut waiting = Box::pin(two.acquire());
    let passing = async {
        settle().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        held.release().await.unwrap();
    };
    let (next, ()) = tokio::join!(&mut waiting, passing);
    let next = next.unwrap();
    let client = world.client().await;
    client.delete(next.node(), None).await.unwrap();
    next.lost().await;
    let brief = Options::new().max_hold(Duration::from_secs(3));
    let brief = Lock::with_options(&client, LOCK, brief).unwrap().acquire().await.unwrap();
    brief.lost().await;
    let permits = Semaphore::new(&client, "/permits", 1).unwrap();
    let permit = permits.acquire().await.unwrap();
    tokio::time::timeout(Duration::from_secs(1), permits.acquire()).await.unwrap_err();
    drop(permit);

    let mut seen = capture.told().iter().map(Told::to_string).collect::<BTreeSet<_>>();
    seen.retain(|told| told.contains("zk_recipes"));
    let unknown = seen.difference(&documented()).cloned().collect::<Vec<_>>();
    assert_eq!(unknown, [""; 0]);
    let expected = [
        "DEBUG zk_recipes::coordination no permit is free: folder",
        "DEBUG zk_recipes::lock acquired: node waited_us",
        "DEBUG zk_recipes::lock released: held_us node",
        "DEBUG zk_recipes::queue first: node",
        "DEBUG zk_recipes::queue joined: ahead node",
        "DEBUG zk_recipes::queue making the folder: folder",
        "INFO zk_recipes::lock lost: held_us loss node",
    ];
    assert_eq!(seen.iter().map(String::as_str).collect::<Vec<_>>(), expected);

    let joined = capture.of("zk_recipes::queue", "joined");
    assert_eq!((field(&joined[0], "ahead"), field(&joined[1], "ahead")), ("0", "1"));
    let acquired = capture.of(HELD, "acquired");
    assert_eq!(field(&acquired[1], "node"), field(&joined[1], "node"));
    let waited: u64 = field(&acquired[1], "waited_us").parse().unwrap();
    assert!((2_000_000..2_010_000).contains(&waited), "{waited}");
    let released = capture.of(HELD, "released");
    assert_eq!(field(&released[0], "node"), field(&acquired[0], "node"));
    let lost = capture.of(HELD, "lost");
    let why = |told: &Told| field(told, "loss").to_owned();
    let reasons = ["somebody deleted the node", "it was held for as long as was agreed"];
    assert_eq!(lost.iter().map(why).collect::<Vec<_>>(), reasons);
    assert_eq!(field(&lost[1], "held_us"), "3000000");
}

#[tokio::test(start_paused = true)]
async fn a_contender_of_another_layout_is_one_warning_that_names_it() {
    let capture = Capture::new();
    let world = World::new();
    let client = world.client().await;
    let persistent = CreateOptions::persistent();
    let lock = Lock::new(&client, LOCK).unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    let foreign = format!("{LOCK}/0123__lock__0000000001");
    client.create(&foreign, b"", &persistent).await.unwrap();
    for _ in 0..3 {
        lock.acquire().await.unwrap().release().await.unwrap();
    }
    let told = one(&capture, "zk_recipes::queue", "a contender of another layout is ignored");
    assert_eq!((told.level, field(&told, "node")), (Level::WARN, &*foreign));
    assert!(field(&told, "layout").contains("Layout::KAZOO"), "{told:?}");
}

/// The secret as bytes, as text and as numbers.
fn secrets() -> (Vec<u8>, [String; 4]) {
    let secret = b"SeCrEt-0123456789".to_vec();
    let listed = format!("{secret:?}");
    let hex = secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let shown = [
        "SeCrEt".to_owned(),
        listed[1..20].to_owned(),
        hex[..12].to_owned(),
        "U2VDckV0".to_owned(),
    ];
    (secret, shown)
}

#[tokio::test(start_paused = true)]
async fn no_secret_is_traced_or_shown() {
    let capture = Capture::new();
    let (secret, shown) = secrets();
    let mut debugs = Vec::new();
    let mut show = |value: &dyn Debug| debugs.extend([format!("{value:?}"), format!("{value:#?}")]);

    let password = Password::new(&secret[..16]).unwrap();
    let credentials = SessionIdentity::new(SessionId(7), password);
    show(&credentials);
    let mut config = SessionConfig::new(TIMEOUT, 1);
    config.resume = Some(credentials);
    show(&config);
    show(&Session::<u32, u32>::new(config));

    let server = Server::in_memory(Config::new());
    let resumed = Client::builder().connector(server.connector()).session(credentials);
    show(&resumed);
    let error = resumed.connect("zk").await.unwrap_err();
    assert!(error.is_session_over(), "nobody knows that session");
    show(&error);

    let client = Client::builder().connector(server.connector()).connect("zk").await.unwrap();
    client.add_auth("digest", &[b"ann:", &secret[..]].concat()).await.unwrap();
    show(&Credential::new("digest", &secret));
    let refused = Client::builder().connector(server.connector()).connect("zk").await.unwrap();
    let error = refused.add_auth("nonsense", &secret).await.unwrap_err();
    show(&error);
    show(&refused);
    let persistent = CreateOptions::persistent();
    let creating = client.create("/a", &secret, &persistent);
    show(&creating);
    creating.await.unwrap();
    let owned = client.create_owned("/a/x-", &secret, &OWNED).await.unwrap();
    show(&owned);
    show(&client.set_data("/a", &secret, Some(7)).await.unwrap_err());
    let (node, watcher) = client.get_data_and_watch("/a").await.unwrap();
    assert_eq!(node.data, secret, "it went over the wire");
    show(&watcher);
    let ops = (Op::set_data("/a", &secret, None), Op::create("/b", &secret, &persistent));
    show(&ops);
    show(&client.multi(ops).await.unwrap());
    show(&client);
    show(&client.stats());
    show(&client.session());
    server.disconnect_all();
    client.get_data("/a").await.err();
    client.sync("/").await.unwrap();
    drop(owned);
    client.close().await;

    let mut bench = Bench::attached();
    bench.session.submit(&GetDataRequest { path: "/a", watch: false }, 1).unwrap();
    show(&bench.session);
    assert_eq!(bench.sent().len(), 1);
    bench.answer(1, &data(&secret));
    let event = bench.session.poll_event().unwrap();
    assert!(matches!(event, Event::Completed { .. }));
    show(&event);

    let told = capture.told();
    assert!(told.len() > 50, "{} are few", told.len());
    for text in told.iter().map(|told| format!("{told:?}")).chain(debugs) {
        for secret in &shown {
            assert!(!text.contains(secret.as_str()), "{secret} is shown: {text}");
        }
    }
}
