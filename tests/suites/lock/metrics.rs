//! The example that exports metrics: its page is what Prometheus reads, and follows the locks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regex::Regex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_recipes::{Lock, LockMeter, Options};
use zk_test_support::explore::settle;
use zk_test_support::locks::{LOCK, World};

#[allow(dead_code, reason = "its main runs as an example")]
#[path = "../../../zk-recipes/examples/metrics.rs"]
pub(crate) mod example;

use example::Metrics;

/// Reads the samples of a page, each by its name and labels as they are written. Panics if the page
/// breaks a rule of its format.
fn parse(page: &str) -> BTreeMap<String, f64> {
    assert!(page.ends_with('\n'), "the last line has no end");
    let (mut families, mut samples) = (BTreeSet::new(), BTreeMap::new());
    let label = r#"[a-z_]+="(?:[^"\\]|\\[\\n"])*""#;
    for family in page.strip_prefix("# HELP ").expect("a help").split("\n# HELP ") {
        let (name, rest) = family.split_once(' ').expect("a text");
        assert!(families.insert(name), "twice: {name}");
        let (_, rest) = rest.split_once(&format!("\n# TYPE {name} ")).expect("a type");
        let (kind, lines) = rest.split_once('\n').unwrap_or((rest, ""));
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{name}: {kind}");
        assert!(kind != "counter" || name.ends_with("_total"), "{name}");
        let suffix = if kind == "histogram" { "_(?:bucket|sum|count)" } else { "" };
        let sample = format!(r"^({name}{suffix}(?:\{{{label}(?:,{label})*\}})?) ([0-9][0-9.e-]*)$");
        let sample = Regex::new(&sample).expect("a name");
        for line in lines.lines() {
            let found = sample.captures(line).unwrap_or_else(|| panic!("astray: {line}"));
            let value = found[2].parse().expect("a number");
            assert!(samples.insert(found[1].to_owned(), value).is_none(), "twice: {line}");
        }
        if kind == "histogram" {
            check_histogram(name, lines, &samples);
        }
    }
    samples
}

/// Buckets stand in the order of their bounds, grow, and end with the count.
fn check_histogram(name: &str, lines: &str, samples: &BTreeMap<String, f64>) {
    let bucket = Regex::new(r#"_bucket\{(.*?),?le="([^"]*)"\} (.*)"#).expect("a pattern");
    let mut series = BTreeMap::<_, Vec<[f64; 2]>>::new();
    for found in bucket.captures_iter(lines) {
        let (_, [labels, bound, count]) = found.extract();
        let numbers = [bound, count].map(|number| number.parse().expect("a number"));
        series.entry(labels).or_default().push(numbers);
    }
    assert!(!series.is_empty(), "{name} has no bucket");
    for (labels, buckets) in series {
        let grow =
            buckets.is_sorted_by(|[bound, count], [next, more]| bound < next && count <= more);
        assert!(grow, "{name} {labels}: {buckets:?}");
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let count = samples[&format!("{name}_count{labels}")];
        assert_eq!(buckets.last(), Some(&[f64::INFINITY, count]), "{name}{labels}");
        assert!(samples.contains_key(&format!("{name}_sum{labels}")), "{name}{labels}");
    }
}

async fn metrics(world: &World, name: &str) -> (Metrics, Lock) {
    let keeper = world.builder().keep("zk").await.unwrap();
    let (meter, idle) = (LockMeter::new(), LockMeter::new());
    let options = Options::new().meter(&meter);
    let lock = Lock::with_options(&keeper.client().await.unwrap(), LOCK, options).unwrap();
    let locks = vec![(name.to_owned(), meter), ("idle".to_owned(), idle)];
    (Metrics { keeper, locks }, lock)
}

#[tokio::test(start_paused = true)]
async fn the_page_follows_the_lock_and_the_session() {
    let world = World::new();
    let (metrics, lock) = metrics(&world, "one").await;
    let before = parse(&metrics.page().await);
    let acquired = r#"zk_lock_acquired_total{lock="one"}"#;
    assert_eq!(before[acquired], 0.0);

    let guard = lock.acquire().await.unwrap();
    let held = parse(&metrics.page().await);
    assert_eq!(held[acquired], 1.0);
    assert_eq!(held[r#"zk_lock_held{lock="one"}"#], 1.0);
    assert_eq!(held[r#"zk_lock_wait_seconds_count{lock="one"}"#], 1.0);
    assert_eq!(held[r#"zk_lock_held{lock="idle"}"#], 0.0);
    assert_eq!(held["zk_owned_nodes"], 1.0);

    let session = metrics.keeper.client().await.unwrap().session().unwrap();
    assert!(world.server.expire(session.id));
    guard.lost().await;
    metrics.keeper.client().await.unwrap();
    let lost = parse(&metrics.page().await);
    assert_eq!(lost[r#"zk_lock_lost_total{lock="one",reason="session_over"}"#], 1.0);
    assert_eq!(lost[r#"zk_lock_held{lock="one"}"#], 0.0);
    assert_eq!(lost["zk_sessions_total"], 2.0);
    let requests = |page: &BTreeMap<String, f64>| -> f64 {
        page.iter().filter(|(name, _)| name.starts_with("zk_requests_total{")).map(|it| it.1).sum()
    };
    assert!(requests(&before) < requests(&held) && requests(&held) <= requests(&lost));
}

#[tokio::test(start_paused = true)]
async fn a_page_is_served_although_no_server_is_reached() {
    let world = World::new();
    let (metrics, _) = metrics(&world, "one").await;
    let page = parse(&metrics.page().await);
    assert_eq!(page["zk_connected"], 1.0);
    world.server.set_serving(false);
    let client = metrics.keeper.client().await.unwrap();
    client.states().wait_for(|state| state.ended().is_some()).await.unwrap();
    settle().await;
    let page = parse(&metrics.page().await);
    assert_eq!(page["zk_connected"], 0.0);
}

#[tokio::test(start_paused = true)]
async fn names_are_escaped() {
    let world = World::new();
    let name = "a \"b\",le=\"1\"}\\\n\\n";
    let (metrics, _) = metrics(&world, name).await;
    let page = parse(&metrics.page().await);
    let escaped = r#"zk_lock_released_total{lock="a \"b\",le=\"1\"}\\\n\\n"}"#;
    assert_eq!(page[escaped], 0.0);
}

#[tokio::test]
async fn the_page_is_served_over_http_and_nothing_else_is() {
    let world = World::new();
    let (metrics, _) = metrics(&world, "one").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(example::serve(Arc::new(metrics), listener));
    let ask = async |path: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nAccept: text/plain\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        (head.to_owned(), body.to_owned())
    };
    let (head, page) = ask("/metrics").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    assert!(parse(&page).len() > 50);
    assert!(ask("/other").await.0.starts_with("HTTP/1.1 404 "));
}
