//! The claims about servers: all of them hold on zk-embedded, and a server that differs is named.

use std::future::{pending, ready};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_embedded::{Config, Ensemble, Manner, Server, ServerVersion};
use zk_fuzz_kit::conformance::{Allowed, Format, Like, Options, Plan, Release, Report, Verdict};
use zk_proto::any::{Frame, Message};
use zk_proto::{ErrorCode, EventType, OpCode};

use crate::server::{Asked, DEADLINE, relay};

/// How many claims hold at least, whatever the settings of a server are.
const CLAIMS: usize = 750;

/// Why a claim is not for an ensemble.
const TOO_HARSH: &str = "it can stop an ensemble";

async fn embedded(version: ServerVersion, extended_types: bool) -> Server {
    let config = Config::new()
        .server_version(version)
        .tick_time(Duration::from_millis(200))
        .extended_types(extended_types);
    Server::with(config).await.unwrap()
}

async fn report(options: Options) -> Report {
    let run = async { Plan::new(options).await.unwrap().run(pending()).await.unwrap() };
    timeout(DEADLINE, run).await.expect("it hangs")
}

/// Nothing is left of a run.
fn check_is_clean(server: &Server) {
    assert_eq!(server.children("/"), ["zookeeper"]);
    assert_eq!(server.sessions(), []);
}

#[tokio::test]
async fn all_claims_hold_on_the_embedded_server() {
    let cases = [(ServerVersion::V3_8, true), (ServerVersion::V3_9, false)];
    for (version, extended_types) in cases {
        let server = embedded(version, extended_types).await;
        let report = report(Options::new(server.address())).await;
        let text = report.print(Format::Text).unwrap();
        assert!(report.is_good(), "{text}");
        assert!(report.count(Verdict::AsExpected) >= CLAIMS, "{text}");
        let like = if version == ServerVersion::V3_8 { "apache-3.8.0" } else { "apache-3.9.3" };
        assert_eq!(report.like, like);
        check_is_clean(&server);
    }
}

/// A follower answers like a server that is alone. What could stop an ensemble is not sent to it.
#[tokio::test]
async fn all_claims_hold_on_a_follower_but_those_that_could_stop_an_ensemble() {
    let config = Config::new().tick_time(Duration::from_millis(200));
    let ensemble = Ensemble::start(config, 3).await.unwrap();
    let follower = (0..3).find(|member| *member != ensemble.leader()).unwrap();
    let report = report(Options::new(ensemble.address(follower))).await;
    assert!(report.is_good(), "{}", report.print(Format::Text).unwrap());
    let skipped = report.claims.iter().filter(|line| line.why.as_deref() == Some(TOO_HARSH));
    let skipped: Vec<_> = skipped.map(|line| line.number.to_string()).collect();
    assert_eq!(skipped, ["4.61", "4.63", "4.73", "5.22", "6.37", "15.92", "17.10"]);
    let left = ensemble.member(follower, |core| core.children("/"));
    assert_eq!(left.unwrap(), ["zookeeper"]);
    assert_eq!(ensemble.sessions(), []);
}

/// What a server of another maker does otherwise is listed, and nothing else is.
#[tokio::test]
async fn on_servers_of_other_makers_all_claims_hold_but_those_that_are_listed() {
    let soak = std::env::var_os("ZK_SOAK").is_some();
    // The first one is Apache's. Each claim that RaftKeeper leaves unanswered takes its time.
    let others = &Manner::ALL[1..if soak { Manner::ALL.len() } else { 2 }];
    for (name, manner) in others {
        let config = Config::new().tick_time(Duration::from_millis(200)).manner(*manner);
        let server = Server::with(config).await.unwrap();
        let mut options = Options::new(server.address());
        options.patience = Duration::from_secs(1);
        options.like = Some(name.parse().unwrap());
        let report = report(options).await;
        assert!(report.is_good(), "{}", report.print(Format::Text).unwrap());
        let known = include_str!("../../src/conformance/known/clickhouse-keeper.txt");
        let listed = known.lines().filter(|line| !line.starts_with('#')).count();
        let deviating = report.count(Verdict::Allowed);
        assert!(*name != "clickhouse-keeper" || deviating == listed, "{deviating} of {listed}");
    }
}

/// What a release does is not what another does: where the claims tell them apart, they say so.
#[tokio::test]
async fn a_server_of_one_release_deviates_from_another() {
    let server = embedded(ServerVersion::V3_8, false).await;
    let mut options = Options::new(server.address());
    options.like = Some("apache-3.9".parse().unwrap());
    let report = report(options).await;
    let found = report.numbers(Verdict::Unexpected);
    let deviations = "10.46 11.40 12.7 12.8 12.12 12.24 12.25 13.6 13.64 15.28";
    assert_eq!(found, deviations.split(' ').collect::<Vec<_>>());
    check_is_clean(&server);
}

/// Runs the claims on a server whose answers are changed. Returns the numbers of those that it
/// breaks.
async fn broken(change: fn(&Frame<'_>, &mut Vec<u8>) -> bool) -> String {
    let server = embedded(ServerVersion::V3_9, true).await;
    let mut tasks = JoinSet::new();
    let target = server.address().to_owned();
    let changed = move |payload: &[u8], asked: &Asked| {
        let mut payload = payload.to_vec();
        let copy = payload.clone();
        let frame = Frame::from_server(&copy, |xid| asked.get(&xid).copied());
        let is_sent = frame.ok().is_none_or(|frame| change(&frame, &mut payload));
        is_sent.then_some(payload)
    };
    let address = relay(target, &mut tasks, changed).await;
    let mut options = Options::new(&address);
    options.patience = Duration::from_secs(1);
    let report = report(options).await;
    check_is_clean(&server);
    assert_eq!(report.count(Verdict::NotRun), 0);
    report.numbers(Verdict::Unexpected).join(" ")
}

/// Puts an error into a reply that has another one.
fn swap(frame: &Frame<'_>, payload: &mut [u8], from: ErrorCode, to: ErrorCode) -> bool {
    if let Message::Reply(header, _) = frame.message()
        && header.error == from
        && let Some(code) = payload.get_mut(12..16)
    {
        code.copy_from_slice(&to.0.to_be_bytes());
    }
    true
}

/// Each change breaks the claims that are about it, and no others.
#[tokio::test]
async fn a_server_that_differs_is_named() {
    let found = tokio::join!(
        broken(|frame, payload| swap(frame, payload, ErrorCode::NOT_EMPTY, ErrorCode::NO_NODE)),
        broken(|frame, payload| swap(frame, payload, ErrorCode::BAD_VERSION, ErrorCode::NO_NODE)),
        broken(|frame, payload| swap(frame, payload, ErrorCode::AUTH_FAILED, ErrorCode::OK)),
        broken(|frame, _| !is_event(frame, EventType::NODE_CHILDREN_CHANGED)),
    );
    let expected = (
        "5.4",
        "5.6 5.7 5.8 5.9 5.10 5.12 6.9 6.10 6.11 6.12 6.13 6.39 8.22 8.24 10.52 11.17 11.33 15.48 \
         15.49 15.50",
        "16.12 16.13 16.14 16.15 16.16 16.17",
        "10.15 10.16 10.21 10.22 10.31 10.32 10.39 10.40 10.43 10.44 10.54 10.58 11.9 11.10 11.18 \
         11.19 11.39 12.38 12.52 12.53 12.67 12.68",
    );
    let found = (&*found.0, &*found.1, &*found.2, &*found.3);
    assert_eq!(found, expected);
}

fn is_event(frame: &Frame<'_>, kind: EventType) -> bool {
    matches!(frame.message(), Message::Notification(_, event) if event.kind == kind)
}

#[tokio::test]
async fn an_interrupted_run_leaves_nothing_behind() {
    let server = embedded(ServerVersion::V3_9, false).await;
    let plan = Plan::new(Options::new(server.address())).await.unwrap();
    let report = timeout(DEADLINE, plan.run(ready(()))).await.expect("it hangs").unwrap();
    assert!(report.count(Verdict::NotRun) >= CLAIMS);
    assert!(!report.is_good());
    assert_eq!(server.children("/"), ["zookeeper"]);
}

/// A server that answers no multi at all: each of these claims ends, and so does the run.
#[tokio::test]
async fn a_server_that_falls_silent_ends_the_run() {
    let server = embedded(ServerVersion::V3_9, false).await;
    let mut tasks = JoinSet::new();
    let change = |payload: &[u8], asked: &Asked| {
        let frame = Frame::from_server(payload, |xid| asked.get(&xid).copied());
        let is_multi = frame.is_ok_and(|frame| frame.op() == Some(OpCode::MULTI));
        (!is_multi).then(|| payload.to_vec())
    };
    let address = relay(server.address().to_owned(), &mut tasks, change).await;
    let mut options = Options::new(&address);
    options.only = vec!["9.1".to_owned(), "13".to_owned()];
    options.patience = Duration::from_millis(100);
    options.limit = Duration::from_millis(500);
    let report = report(options).await;
    assert_eq!(report.numbers(Verdict::AsExpected), ["9.1"]);
    assert!(report.count(Verdict::Unexpected) > 0 && report.count(Verdict::NotRun) > 0);
    assert_eq!(server.children("/"), ["zookeeper"]);
}

#[tokio::test]
async fn a_server_that_never_answers_is_no_server() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut options = Options::new(&silent.local_addr().unwrap().to_string());
    options.patience = Duration::from_millis(50);
    let run = async { Plan::new(options).await?.run(pending()).await };
    assert!(timeout(DEADLINE, run).await.expect("it hangs").is_err());
}

/// What is known does not make a run fail; what is not known does.
#[tokio::test]
async fn deviations_can_be_allowed() {
    let server = embedded(ServerVersion::V3_8, false).await;
    let mut options = Options::new(server.address());
    options.like = Some("apache-3.9".parse().unwrap());
    options.only = vec!["12.7".to_owned(), "12.8".to_owned()];
    options.allowed = Allowed::parse("12.7 # it is old\n1.1").unwrap();
    let one = report(options.clone()).await;
    assert_eq!(one.numbers(Verdict::Allowed), ["12.7"]);
    assert_eq!(one.numbers(Verdict::Unexpected), ["12.8"]);
    assert!(!one.is_good());
    options.allowed = Allowed::parse("12.7\n12.8").unwrap();
    assert!(report(options.clone()).await.is_good());

    // So is what a server is known for.
    options.allowed = Allowed::parse("12.7").unwrap();
    let known = Allowed::parse("12.8 # read in its sources").unwrap();
    options.like = Some(Like::other("its-kind", Release::NEWEST, known));
    let report = report(options).await;
    assert!(report.is_good() && report.like == "its-kind");
    assert_eq!(report.claims[1].why.as_deref(), Some("read in its sources"));
}
