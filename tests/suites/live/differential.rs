//! Servers compared: both must give the same answers.

use std::fs::{self, File};
use std::io::BufReader;
use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use zk_embedded::{Config, Server, ServerVersion};
use zk_fuzz_kit::differential::{Case, Pair, Summary, compare, report, super_digest};
use zk_fuzz_kit::server::Campaign;
use zk_proto::{
    AuthPacket, ConnectResponse, CreateMode, Decode, Encode, GetSaslRequest, MultiOp, MultiRequest,
    OpCode, Secret,
};
use zk_test_support::raw::{RawClient, create, delete, exists, get_data, hello};
use zk_test_support::server::{ServerConfig, Standalone, four_letter};

/// Requests for each seed, not counting those that reconnect and clean up.
const REQUESTS: usize = 410;
const SEEDS: u64 = 25;

/// The outcomes that a full run must have seen, whatever the seeds.
const OUTCOMES: [&str; 45] = [
    "handshake: welcome",
    "handshake: expired",
    "auth: Ok",
    "auth: AuthFailed",
    "sasl: Ok",
    "whoAmI: Ok",
    "closeSession: Ok",
    "unknown (50): Unimplemented",
    "create: Ok",
    "create2: Ok",
    "create2: BadArguments",
    "create2: InvalidACL",
    "create2: MarshallingError",
    "create2: NoAuth",
    "create2: NoChildrenForEphemerals",
    "create2: NoNode",
    "create2: NodeExists",
    "createContainer: Ok",
    "createTTL: Ok",
    "delete: Ok",
    "delete: BadVersion",
    "delete: NotEmpty",
    "getACL: NoAuth",
    "setACL: Ok",
    "setACL: BadVersion",
    "multi: Ok",
    "multi: MarshallingError",
    "entry create: Ok",
    "entry delete: Ok",
    "entry setData: Ok",
    "entry check: Ok",
    "entry error: NoNode",
    "entry error: RuntimeInconsistency",
    "entry getChildren: Ok",
    "checkWatches: Ok",
    "checkWatches: NoWatcher",
    "removeWatches: Ok",
    "removeWatches: NoWatcher",
    "addWatch: Ok",
    "setWatches2: Ok",
    "reconfig: ReconfigDisabled",
    "event: NodeCreated",
    "event: NodeDeleted",
    "event: NodeDataChanged",
    "event: NodeChildrenChanged",
];

const TICK: Duration = Duration::from_millis(200);
const MIN_SESSION_TIMEOUT: Duration = Duration::from_secs(600);
const MAX_SESSION_TIMEOUT: Duration = Duration::from_secs(3600);
const CONTAINER_CHECK_INTERVAL: Duration = Duration::from_secs(86_400);

/// A server that does not end sessions or delete nodes by itself while the test runs.
async fn real_server() -> Result<Standalone> {
    let property = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let check_interval = CONTAINER_CHECK_INTERVAL.as_millis().to_string();
    Standalone::with(&ServerConfig {
        tick_time: TICK,
        min_session_timeout: Some(MIN_SESSION_TIMEOUT),
        max_session_timeout: Some(MAX_SESSION_TIMEOUT),
        properties: vec![
            property("zookeeper.extendedTypesEnabled", "true"),
            property("zookeeper.DigestAuthenticationProvider.superDigest", &super_digest()),
            property("znode.container.checkIntervalMs", &check_interval),
            // Java up to 17 decodes identities with this encoding.
            property("file.encoding", "UTF-8"),
        ],
        ..ServerConfig::default()
    })
    .await
}

/// The embedded server with the same settings as [`real_server`] and of the same version.
async fn embedded_server(version: ServerVersion) -> Result<Server> {
    let config = Config::new()
        .server_version(version)
        .tick_time(TICK)
        .min_session_timeout(MIN_SESSION_TIMEOUT)
        .max_session_timeout(MAX_SESSION_TIMEOUT)
        .extended_types(true)
        .super_digest(super_digest())
        .container_check_interval(CONTAINER_CHECK_INTERVAL)
        .max_connections_per_host(0);
    Ok(Server::with(config).await?)
}

/// The version of a real server.
async fn server_version(server: &Standalone) -> Result<ServerVersion> {
    let answer = server.four_letter("srvr").await?;
    let version = answer.strip_prefix("Zookeeper version: ").context("`srvr` tells no version")?;
    Ok(if version.starts_with("3.8.") { ServerVersion::V3_8 } else { ServerVersion::V3_9 })
}

/// The seeds to run: `ZK_DIFF_SEED` as `7` or `0..7`, else the first `count`.
fn seeds(count: u64) -> Result<RangeInclusive<u64>> {
    let Ok(chosen) = std::env::var("ZK_DIFF_SEED") else {
        return Ok(0..=count - 1);
    };
    let (first, last) = chosen.split_once("..").unwrap_or((&chosen, &chosen));
    let parse = |text: &str| text.parse().context("ZK_DIFF_SEED is a number, or two as in 0..7");
    Ok(parse(first)?..=parse(last)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_server_answers_like_a_real_one() -> Result<()> {
    let real = real_server().await?;
    let embedded = embedded_server(server_version(&real).await?).await?;
    let count = if std::env::var_os("ZK_SOAK").is_some() { 80 * SEEDS } else { SEEDS };
    let seeds = seeds(count)?;
    let servers = [("embedded", embedded.address()), ("real", &real.address())];
    let whole = seeds.clone().count() as u64 == count;
    let Summary { seeds, requests, tally, .. } = compare(servers, seeds, REQUESTS).await?;
    println!("{requests} requests in {seeds} seeds\n{tally:#?}");
    if whole {
        let enough = seeds as u64 == count && requests >= 400 * seeds;
        assert!(enough, "only {requests} requests in {seeds} seeds");
        let missing: Vec<_> = OUTCOMES.iter().filter(|it| !tally.contains_key(**it)).collect();
        assert!(missing.is_empty(), "never seen: {missing:?}");
    }
    Ok(())
}

/// Differences between two servers of one kind are chance, and must not count.
#[tokio::test]
async fn a_real_server_answers_like_another() -> Result<()> {
    let (one, two) = tokio::try_join!(real_server(), real_server())?;
    let servers = [("first", &*one.address()), ("second", &two.address())];
    compare(servers, seeds(5)?, REQUESTS).await?;
    Ok(())
}

/// The campaign that `zk-fuzz server` runs, on servers that are not new.
#[tokio::test]
async fn servers_that_are_not_new_are_compared_as_well() -> Result<()> {
    let real = real_server().await?;
    let embedded = embedded_server(server_version(&real).await?).await?;
    let address = real.address();
    let mut campaign = Campaign::new([("embedded", embedded.address()), ("real", &address)]);
    campaign.seeds = seeds(if std::env::var_os("ZK_SOAK").is_some() { 200 } else { 10 })?;
    campaign.odd = 10;
    let report = campaign.run(|_| {}).await?;
    println!("{} requests in {} seeds", report.requests, report.seeds);
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    ensure!(found.is_empty() && report.ended_early.is_none(), "{found:#?}");
    Ok(())
}

/// Each was a difference once.
#[tokio::test]
async fn the_cases_of_the_fuzz_kit_show_no_difference_any_more() -> Result<()> {
    let real = real_server().await?;
    let embedded = embedded_server(server_version(&real).await?).await?;
    let address = real.address();
    let servers = [("embedded", embedded.address()), ("real", &*address)];
    let mut count = 0;
    for entry in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/kit/findings"))? {
        let path = entry?.path();
        let case = Case::read(BufReader::new(File::open(&path)?))?;
        let difference = Pair::new(servers, Duration::from_secs(10)).run(&case).await?;
        let report = difference.map(|difference| report(&case, &difference));
        ensure!(report.is_none(), "{}: {report:#?}", path.display());
        count += 1;
    }
    assert!(count >= 5, "{count} cases");
    Ok(())
}

/// Requests that the random steps do not send.
#[tokio::test]
async fn the_embedded_server_answers_like_a_real_one_to_what_no_client_should_ask() -> Result<()> {
    let real = real_server().await?;
    let embedded = embedded_server(server_version(&real).await?).await?;
    let shown = odd_requests(&real.address()).await?;
    println!("{shown:#?}");
    for (embedded, real) in odd_requests(embedded.address()).await?.iter().zip(&shown) {
        assert_eq!(embedded, real);
    }
    Ok(())
}

async fn odd_requests(address: &str) -> Result<Vec<String>> {
    let mut client = RawClient::dial(address).await?;
    client.greet(hello(MIN_SESSION_TIMEOUT)).await.context("a welcome")?;
    client.reply(&create("/a", CreateMode::PERSISTENT)).await;
    let mut shown = Vec::new();

    // This is a request that servers send to each other.
    client.send_as(OpCode::CREATE_SESSION, &600_000_i32).await;
    let frame = client.frame().await.context("an answer to createSession")?;
    let welcome = ConnectResponse::decode_exact(&frame)?;
    shown.push(format!("{} {:?}", welcome.timeout, welcome.read_only));
    ensure!((welcome.session_id, welcome.password) == (client.session, client.password));
    client.send_as(OpCode::CREATE_SESSION, &()).await;
    shown.push(format!("{:?}", client.frame().await));

    // These entries are not allowed in a multiRead.
    let make = create("/b", CreateMode::PERSISTENT);
    let odd = create("/b", CreateMode(9));
    let read = MultiOp::GetData(get_data("/a", false));
    for ops in [
        &[MultiOp::Create(make)][..],
        &[MultiOp::Create(make), MultiOp::Delete(delete("/a"))],
        &[MultiOp::Create(odd)],
        &[read, MultiOp::Delete(delete("/a"))],
        &[MultiOp::Delete(delete("/a")), read],
        &[],
    ] {
        client.send_as(OpCode::MULTI_READ, &MultiRequest::new(ops)).await;
        shown.push(format!("{ops:?}: {:?}", client.frame().await));
    }

    client.reply(&exists("/a", true)).await;
    let session = format!("{}", client.session);
    for word in [
        "srst", "ruok", "isro", "conf", "dirs", "gtmk", "hash", "wchs", "wchp", "wchc", "stat",
        "cons", "crst", "cons", "srst", "srvr",
    ] {
        let told = four_letter(address, word).await?.replace(&session, "SESSION");
        shown.push(format!("{word}: {}", masked(&told)));
    }
    for mask in [&[0, 0, 0, 0, 0, 0, 0, 9][..], b"short"] {
        let mut word = RawClient::dial(address).await?;
        word.write(&[b"stmk", mask].concat()).await;
        shown.push(format!("stmk: {:?}", word.bytes().await));
    }
    shown.push(four_letter(address, "gtmk").await?);
    shown.push(four_letter(address, "kill").await?);
    Ok(shown)
}

/// The answer to a four-letter word without the parts that depend on the machine or on chance. The
/// lines are sorted, because connections come in no order.
fn masked(told: &str) -> String {
    const VOLATILE: [&str; 11] = [
        "Zookeeper version:",
        "Latency",
        "Connections:",
        "Sent:",
        "dataDir=",
        "dataDirSize=",
        "dataLogDir=",
        "dataLogSize=",
        "datadir_size:",
        "logdir_size:",
        "clientPort=",
    ];
    // For a connection these include the number of replies that the server has counted so far.
    const COUNTS: [&str; 8] =
        ["queued=", "sent=", "est=", "lresp=", "llat=", "minlat=", "avglat=", "maxlat="];
    let field = |field: &str| match COUNTS.iter().find(|name| field.starts_with(**name)) {
        Some(name) => format!("{name}?"),
        None => field.to_owned(),
    };
    let line = |line: &str| match VOLATILE.iter().find(|name| line.starts_with(**name)) {
        Some(name) => (*name).to_owned(),
        None => match line.trim_end_matches(')').split_once("](") {
            Some((_, fields)) => fields.split(',').map(field).collect::<Vec<_>>().join(","),
            None => line.to_owned(),
        },
    };
    let mut lines: Vec<_> = told.split('\n').map(line).collect();
    lines.sort();
    lines.join("\n")
}

/// True if a session with a timeout of 2 s survives 5 s of such requests.
async fn is_kept(address: &str, op: OpCode, body: &impl Encode) -> Result<bool> {
    let mut client = RawClient::dial(address).await?;
    client.greet(hello(Duration::from_secs(2))).await.context("a welcome")?;
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    for _ in 0..50 {
        pace.tick().await;
        client.send_as(op, body).await;
        if client.hear().await == "closed" {
            return Ok(false);
        }
    }
    Ok(true)
}

#[tokio::test]
async fn proofs_of_identity_keep_no_session_here_or_there() -> Result<()> {
    let config = ServerConfig { tick_time: TICK, ..ServerConfig::default() };
    let real = Standalone::with(&config).await?;
    let embedded = Server::with(Config::new().tick_time(TICK)).await?;
    for address in [&real.address(), embedded.address()] {
        let proof =
            AuthPacket { kind: 0, scheme: "digest".into(), auth: Secret::new(Some(b"a:b")) };
        let token = GetSaslRequest { token: Secret::new(Some(b"")) };
        let exists = exists("/", false);
        let (auth, sasl, read) = tokio::try_join!(
            is_kept(address, OpCode::AUTH, &proof),
            is_kept(address, OpCode::SASL, &token),
            is_kept(address, OpCode::EXISTS, &exists),
        )?;
        assert_eq!((auth, sasl, read), (false, false, true), "{address}");
    }
    Ok(())
}
