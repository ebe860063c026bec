//! A server that differs from zk-embedded in one field.

use std::collections::HashMap;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_embedded::{Config, Server};
use zk_fuzz_kit::differential::{Case, Pair, Scope, super_digest};
use zk_fuzz_kit::server::{Campaign, Report};
use zk_proto::any::{Frame, Message, Reply};
use zk_proto::{Xid, frame};

/// Longer than any of these tests may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) async fn embedded() -> Server {
    let config = Config::new()
        .tick_time(Duration::from_millis(200))
        .max_session_timeout(Duration::from_secs(3600))
        .extended_types(true)
        .super_digest(super_digest())
        .max_connections_per_host(0);
    Server::with(config).await.unwrap()
}

/// The operations of requests, by their numbers.
pub(crate) type Asked = HashMap<Xid, zk_proto::OpCode>;

/// Passes on everything, but a setData that makes version 2 says that it made version 3. Returns
/// its address.
pub(crate) async fn planted(target: String, tasks: &mut JoinSet<()>) -> String {
    let change = |payload: &[u8], asked: &Asked| {
        Some(changed(payload, asked).unwrap_or_else(|| payload.to_vec()))
    };
    relay(target, tasks, change).await
}

/// Passes on everything, but each frame of the server as `change` has it, if at all. Returns its
/// address.
pub(crate) async fn relay(
    target: String,
    tasks: &mut JoinSet<()>,
    change: impl Fn(&[u8], &Asked) -> Option<Vec<u8>> + Clone + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (client, _) = listener.accept().await.unwrap();
            let server = TcpStream::connect(&target).await.unwrap();
            let change = change.clone();
            // A client that goes is no error.
            connections.spawn(async move { drop(pass(client, server, change).await) });
        }
    });
    address
}

async fn pass(
    client: TcpStream,
    server: TcpStream,
    change: impl Fn(&[u8], &Asked) -> Option<Vec<u8>>,
) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut client_in, mut client_out) = client.into_split();
    let (mut server_in, mut server_out) = server.into_split();
    let (mut up, mut down) = (BytesMut::new(), BytesMut::new());
    let mut asked = HashMap::new();
    loop {
        let seen = up.len();
        tokio::select! {
            read = client_in.read_buf(&mut up) => {
                if read? == 0 {
                    server_out.shutdown().await?;
                    // The server closes the connection in its turn.
                    tokio::io::copy(&mut server_in, &mut client_out).await?;
                    return client_out.shutdown().await;
                }
                server_out.write_all(&up[seen..]).await?;
                while let Ok(Some(payload)) = frame::split(&mut up, usize::MAX) {
                    if let Ok(request) = Frame::request(&payload) {
                        asked.extend(request.xid().zip(request.op()));
                    }
                }
            }
            read = server_in.read_buf(&mut down) => {
                if read? == 0 {
                    // Not frames, but the answer to a four-letter word.
                    client_out.write_all(&down).await?;
                    return client_out.shutdown().await;
                }
                while let Ok(Some(payload)) = frame::split(&mut down, usize::MAX) {
                    if let Some(payload) = change(&payload, &asked) {
                        let length = (payload.len() as i32).to_be_bytes();
                        client_out.write_all(&[&length[..], &payload].concat()).await?;
                    }
                }
            }
        }
    }
}

fn changed(payload: &[u8], asked: &Asked) -> Option<Vec<u8>> {
    let frame = Frame::from_server(payload, |xid| asked.get(&xid).copied()).ok()?;
    let Message::Reply(_, Reply::SetData(reply)) = frame.message() else { return None };
    let fields = frame.fields();
    let version = fields.iter().find(|field| field.name.to_string() == "version")?;
    let mut payload = payload.to_vec();
    if reply.stat.version == 2 {
        payload[version.offset + 3] = 3;
    }
    Some(payload)
}

async fn campaign(folder: Option<std::path::PathBuf>) -> Report {
    let (one, two) = (embedded().await, embedded().await);
    let mut tasks = JoinSet::new();
    let address = planted(two.address().to_owned(), &mut tasks).await;
    let mut campaign = Campaign::new([("right", one.address()), ("planted", &address)]);
    campaign.seeds = 0..=2;
    // The planted difference is the only one, whatever the requests are.
    campaign.odd = 5;
    campaign.folder = folder;
    timeout(DEADLINE, campaign.run(|_| {})).await.expect("it hangs").unwrap()
}

#[tokio::test]
async fn a_planted_difference_is_found_and_made_small() {
    let folder = tempfile::tempdir().unwrap();
    let report = campaign(Some(folder.path().to_owned())).await;
    assert_eq!((report.seeds, report.ended_early.as_deref()), (3, None));
    let finding = &report.findings[0];
    let fields = finding.difference.fields();
    let value = |text: &str| text.to_owned();
    assert_eq!(fields, [(value("version"), [value("2"), value("3")])], "{finding}");
    // Three nodes below each other, a setData for version 1, and one for version 2.
    assert_eq!(finding.case.requests(), 5, "{finding}");

    // The case is a file that runs again, also on servers that have had other requests before.
    let file = finding.file.as_ref().unwrap();
    let case = Case::read(std::io::BufReader::new(std::fs::File::open(file).unwrap())).unwrap();
    assert_eq!(case, finding.case);
    let (one, two) = (embedded().await, embedded().await);
    let mut tasks = JoinSet::new();
    let address = planted(two.address().to_owned(), &mut tasks).await;
    let patience = Duration::from_secs(5);
    let mut pair = Pair::new([("right", one.address()), ("planted", &address)], patience);
    let other = Case::of_seed(77, Scope::Own, 20, 0);
    for case in [&case, &case, &other, &case] {
        let found = timeout(DEADLINE, pair.run(case)).await.expect("it hangs").unwrap();
        assert_eq!(found.is_some(), case != &other);
        // Nothing stays behind.
        assert_eq!(one.children("/"), ["zookeeper"]);
    }
    // Beside it are what people read, and a recording for `zk replay`.
    let seed = finding.case.seed();
    for end in ["txt", "planted.frames.txt", "planted.recording.jsonl"] {
        let file = folder.path().join(format!("server-{seed}.{end}"));
        assert!(std::fs::metadata(&file).unwrap().len() > 0, "{}", file.display());
    }
    let recording = folder.path().join(format!("server-{seed}.planted.recording.jsonl"));
    let recording = std::io::BufReader::new(std::fs::File::open(recording).unwrap());
    assert!(zk_tap::recording::read(recording).unwrap().len() > 6);
}

#[tokio::test]
async fn the_same_seeds_find_the_same() {
    let (one, two) = (campaign(None).await, campaign(None).await);
    assert_eq!(one.kinds, two.kinds);
    assert_eq!(one.requests, two.requests);
    let steps = |report: &Report| {
        let steps = report.findings.iter().map(|finding| finding.case.to_string());
        steps.collect::<Vec<_>>()
    };
    assert_eq!(steps(&one), steps(&two));
}

/// Random values in fields bring no difference between two servers of one kind, whatever one of
/// them has had before.
#[tokio::test]
async fn a_server_does_not_differ_from_itself() {
    let (one, two, other) = (embedded().await, embedded().await, embedded().await);
    let patience = Duration::from_secs(5);
    let mut pair = Pair::new([("two", two.address()), ("other", other.address())], patience);
    for seed in 20..23 {
        let case = Case::of_seed(seed, Scope::Everything, 100, 0);
        assert_eq!(timeout(DEADLINE, pair.run(&case)).await.expect("it hangs").unwrap(), None);
    }
    assert_ne!(one.stat("/").unwrap().cversion, two.stat("/").unwrap().cversion);
    let mut campaign = Campaign::new([("one", one.address()), ("two", two.address())]);
    campaign.seeds = 0..=29;
    campaign.odd = 3;
    let report = timeout(DEADLINE, campaign.run(|_| {})).await.expect("it hangs").unwrap();
    assert_eq!(report.seeds, 30);
    assert!(report.findings.is_empty(), "{}", report.findings[0]);
}

#[tokio::test]
async fn a_server_that_does_not_answer_ends_the_campaign() {
    let one = embedded().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let mut campaign = Campaign::new([("right", one.address()), ("silent", &address)]);
    campaign.patience = Duration::from_millis(50);
    let ended = timeout(DEADLINE, campaign.run(|_| {})).await.expect("it hangs");
    assert!(ended.is_err());
}

/// What is committed can be read, and runs: of two servers of one kind, both answer alike.
#[tokio::test]
async fn the_committed_cases_run() {
    let (one, two) = (embedded().await, embedded().await);
    let patience = Duration::from_secs(5);
    let mut pair = Pair::new([("one", one.address()), ("two", two.address())], patience);
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("findings");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        let case = Case::read(std::io::BufReader::new(file)).unwrap();
        assert_eq!(timeout(DEADLINE, pair.run(&case)).await.expect("it hangs").unwrap(), None);
        count += 1;
    }
    assert!(count >= 4);
}
