//! The example that exports metrics: its page is what Prometheus reads, and follows the locks.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use zk_recipes::{Lock, LockMeter, Options};
use zk_test_support::explore::settle;
use zk_test_support::locks::{LOCK, World};

#[allow(dead_code, reason = "its main runs as an example")]
#[path = "../../../zk-recipes/examples/metrics.rs"]
pub(crate) mod example;

use example::Metrics;

/// A sample: its name, and its labels in order.
type Key = (String, Vec<(String, String)>);

/// Reads a page as strictly as its format is documented. Panics if it breaks a rule.
fn parse(page: &str) -> BTreeMap<Key, f64> {
    assert!(page.ends_with('\n'), "the last line has no end");
    let mut samples = BTreeMap::new();
    let mut families = BTreeMap::new();
    let mut current = String::new();
    let mut helped = String::new();
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help.split_once(' ').expect("a text").0.to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').expect("a type");
            assert_eq!(helped, name, "a type comes behind its help");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kind != "counter" || name.ends_with("_total"), "{line}");
            assert!(families.insert(name.to_owned(), kind.to_owned()).is_none(), "twice: {line}");
            name.clone_into(&mut current);
        } else {
            let (key, value) = sample(line);
            let suffix = key.0.strip_prefix(&current).unwrap_or_else(|| panic!("astray: {line}"));
            let suffixes: &[&str] = match &*families[&current] {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(suffixes.contains(&suffix), "{line}");
            assert!(value >= 0.0, "{line}");
            assert!(samples.insert(key, value).is_none(), "twice: {line}");
        }
    }
    for name in families.iter().filter(|(_, kind)| *kind == "histogram").map(|(name, _)| name) {
        check_histogram(name, page, &samples);
    }
    samples
}

/// Buckets stand in the order of their bounds, grow, and end with the count.
fn check_histogram(name: &str, page: &str, samples: &BTreeMap<Key, f64>) {
    let mut last = BTreeMap::<Vec<(String, String)>, (f64, f64)>::new();
    for line in page.lines().filter(|line| line.starts_with(&format!("{name}_bucket"))) {
        let ((_, mut labels), count) = sample(line);
        let at = labels.iter().position(|(name, _)| name == "le").expect("a bound");
        let bound = labels.remove(at).1;
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
        if let Some((earlier, fewer)) = last.insert(labels, (bound, count)) {
            assert!(earlier < bound && fewer <= count, "{line}");
        }
    }
    assert!(!last.is_empty(), "{name} has no bucket");
    for (labels, (bound, count)) in last {
        assert_eq!(bound, f64::INFINITY);
        assert_eq!(samples[&(format!("{name}_count"), labels.clone())], count);
        assert!(samples.contains_key(&(format!("{name}_sum"), labels)));
    }
}

/// Reads one line with a sample.
fn sample(line: &str) -> (Key, f64) {
    let end = line.find(['{', ' ']).expect("a value");
    let (name, mut rest) = line.split_at(end);
    is_name(name);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, text) = rest.split_once("=\"").expect("a label");
            is_name(label);
            let (mut value, mut chars) = (String::new(), text.char_indices());
            let end = loop {
                match chars.next().expect("an end of the value") {
                    (at, '"') => break at + 1,
                    (_, '\\') => value.push(match chars.next().expect("what is escaped").1 {
                        'n' => '\n',
                        other @ ('\\' | '"') => other,
                        other => panic!("escaped: {other}"),
                    }),
                    (_, other) => value.push(other),
                }
            };
            labels.push((label.to_owned(), value));
            match text[end..].split_at(1) {
                (",", more) => rest = more,
                ("}", more) => {
                    rest = more;
                    break;
                }
                (other, _) => panic!("{other:?} behind a label: {line}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').expect("a value").parse().expect("a number");
    ((name.to_owned(), labels), value)
}

fn is_name(name: &str) {
    let mut chars = name.chars();
    assert!(chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_'));
    assert!(chars.all(|other| other.is_ascii_alphanumeric() || other == '_'), "{name}");
}

/// The value of a sample of this lock.
fn of(samples: &BTreeMap<Key, f64>, name: &str, lock: &str, more: &[(&str, &str)]) -> f64 {
    let labels = [&[("lock", lock)], more].concat();
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    samples[&(name.to_owned(), labels.iter().map(owned).collect())]
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
    assert_eq!(of(&before, "zk_lock_acquired_total", "one", &[]), 0.0);

    let guard = lock.acquire().await.unwrap();
    let held = parse(&metrics.page().await);
    assert_eq!(of(&held, "zk_lock_acquired_total", "one", &[]), 1.0);
    assert_eq!(of(&held, "zk_lock_held", "one", &[]), 1.0);
    assert_eq!(of(&held, "zk_lock_wait_seconds_count", "one", &[]), 1.0);
    assert_eq!(of(&held, "zk_lock_held", "idle", &[]), 0.0);
    assert_eq!(held[&("zk_owned_nodes".to_owned(), vec![])], 1.0);

    let session = metrics.keeper.client().await.unwrap().session().unwrap();
    assert!(world.server.expire(session.id));
    guard.lost().await;
    metrics.keeper.client().await.unwrap();
    let lost = parse(&metrics.page().await);
    let session_over = [("reason", "session_over")];
    assert_eq!(of(&lost, "zk_lock_lost_total", "one", &session_over), 1.0);
    assert_eq!(of(&lost, "zk_lock_held", "one", &[]), 0.0);
    assert_eq!(lost[&("zk_sessions_total".to_owned(), vec![])], 2.0);
    let requests = |page: &BTreeMap<Key, f64>| -> f64 {
        page.iter().filter(|((name, _), _)| name == "zk_requests_total").map(|it| it.1).sum()
    };
    assert!(requests(&before) < requests(&held) && requests(&held) <= requests(&lost));
}

#[tokio::test(start_paused = true)]
async fn a_page_is_served_although_no_server_is_reached() {
    let world = World::new();
    let (metrics, _) = metrics(&world, "one").await;
    let page = parse(&metrics.page().await);
    assert_eq!(page[&("zk_connected".to_owned(), vec![])], 1.0);
    world.server.set_serving(false);
    let client = metrics.keeper.client().await.unwrap();
    client.states().wait_for(|state| state.ended().is_some()).await.unwrap();
    settle().await;
    let page = parse(&metrics.page().await);
    assert_eq!(page[&("zk_connected".to_owned(), vec![])], 0.0);
}

#[tokio::test(start_paused = true)]
async fn names_are_escaped() {
    let world = World::new();
    let name = "a \"b\",le=\"1\"}\\\n\\n";
    let (metrics, _) = metrics(&world, name).await;
    let page = parse(&metrics.page().await);
    assert_eq!(of(&page, "zk_lock_released_total", name, &[]), 0.0);
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
