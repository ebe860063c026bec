//! Metrics for Prometheus: of a client, of all its sessions, and of its locks.
//!
//! `cargo run --release -p zk-recipes --example metrics -- HOST:PORT 127.0.0.1:9464` takes a lock
//! every second and serves `http://127.0.0.1:9464/metrics`. Without arguments, a ZooKeeper server
//! in this process serves for three turns, and the program reads its own page and prints it.

use std::fmt::Display;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use zk_client::{Client, KeeperStats, Latencies, SessionKeeper, Stats};
use zk_recipes::{Error, Lock, LockMeter, LockStats, Options, retry};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let server = zk_embedded::Server::start().await?;
    let (servers, turns, pause) = match arguments.next() {
        Some(servers) => (servers, u64::MAX, Duration::from_secs(1)),
        None => (server.address().to_owned(), 3, Duration::ZERO),
    };
    let listen = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());

    let keeper = Client::builder().keep(&servers).await?;
    let meter = LockMeter::new();
    let locks = vec![("invoices".to_owned(), meter.clone())];
    let metrics = Arc::new(Metrics { keeper: keeper.clone(), locks });
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    eprintln!("http://{address}/metrics");
    tokio::spawn(serve(metrics, listener));

    tokio::select! {
        worked = run(&keeper, &meter, turns, pause) => worked?,
        _ = tokio::signal::ctrl_c() => {}
    }
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    println!("{}", answer.split_once("\r\n\r\n").map_or(&*answer, |(_, page)| page));
    keeper.close().await;
    Ok(())
}

/// Takes the lock so many times, in one session after another.
pub(crate) async fn run(
    keeper: &SessionKeeper,
    meter: &LockMeter,
    turns: u64,
    pause: Duration,
) -> Result<(), Error> {
    let work = |client: Client| async move {
        // The meter counts on in the next session, where the lock is another one.
        let options = Options::new().meter(meter);
        let lock = Lock::with_options(&client, "/locks/invoices", options)?;
        let turn = || async { lock.acquire().await?.release().await.map(drop) };
        while meter.stats().acquired < turns {
            retry(turn).await?;
            sleep(pause).await;
        }
        Ok(())
    };
    keeper.run_each(work).await
}

/// What is exported: the sessions of a keeper, and the locks of each name.
pub(crate) struct Metrics {
    pub(crate) keeper: SessionKeeper,
    pub(crate) locks: Vec<(String, LockMeter)>,
}

/// Serves the page to anybody who connects, and nothing else.
pub(crate) async fn serve(metrics: Arc<Metrics>, listener: TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let metrics = Arc::clone(&metrics);
        tokio::spawn(timeout(Duration::from_secs(5), async move {
            answer(&metrics, stream).await.ok(); // the reader has gone
        }));
    }
}

async fn answer(metrics: &Metrics, mut stream: TcpStream) -> io::Result<()> {
    let mut request = String::new();
    let mut head = BufReader::new(&mut stream).take(8 * 1024);
    while head.read_line(&mut request).await? > 2 {} // up to the empty line
    let (status, page) = match request.starts_with("GET /metrics ") {
        true => ("200 OK", metrics.page().await),
        false => ("404 Not Found", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        page.len(),
    );
    stream.write_all((head + &page).as_bytes()).await?;
    stream.shutdown().await
}

impl Metrics {
    /// All metrics in the text format of Prometheus.
    pub(crate) async fn page(&self) -> String {
        let mut page = Page::default();
        // Between two sessions there is no client, and nothing to tell of one.
        let client = timeout(Duration::from_millis(100), self.keeper.client()).await;
        page.client(client.ok().and_then(Result::ok).map(|client| client.stats()));
        page.sessions(&self.keeper.stats());
        let locks = self.locks.iter().map(|(name, meter)| (&**name, meter.stats()));
        page.locks(&locks.collect::<Vec<_>>());
        page.0
    }
}

/// A page in the text format. All samples of a family stand together.
#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.0.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let escape =
            |text: &str| text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"");
        let label = |(name, value): &(&str, &str)| format!("{name}=\"{}\"", escape(value));
        let labels = labels.iter().map(label).collect::<Vec<_>>().join(",");
        let labels = if labels.is_empty() { labels } else { format!("{{{labels}}}") };
        self.0.push_str(&format!("{name}{labels} {value}\n"));
    }

    /// A family with one sample.
    fn single(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], times: &Latencies) {
        let bucket = format!("{name}_bucket");
        let bounds = times.cumulative().map(|(le, count)| (le.as_secs_f64().to_string(), count));
        for (le, count) in bounds.chain([("+Inf".to_owned(), times.count())]) {
            self.sample(&bucket, &[labels, &[("le", &*le)]].concat(), count);
        }
        self.sample(&format!("{name}_sum"), labels, times.sum().as_secs_f64());
        self.sample(&format!("{name}_count"), labels, times.count());
    }

    /// What is true of the current session.
    fn client(&mut self, stats: Option<Stats>) {
        let is_connected = stats.as_ref().is_some_and(|stats| stats.state.is_connected());
        self.single("zk_connected", "gauge", "Whether a server is reached.", is_connected as u8);
        let Some(stats) = stats else {
            return;
        };
        if let Some(server) = &stats.server {
            self.family("zk_server_info", "gauge", "The server of the connection.");
            self.sample("zk_server_info", &[("server", &*server.to_string())], 1);
        }
        for (name, help, value) in [
            ("zk_requests_in_flight", "Requests without a reply.", stats.in_flight),
            ("zk_requests_queued", "Requests that wait to be sent.", stats.queued),
            ("zk_queued_bytes", "Bytes of the queued requests.", stats.queued_bytes),
            ("zk_watches", "Watches and streams that are set.", stats.watches + stats.streams),
            ("zk_owned_nodes", "Nodes that the client owns.", stats.owned_nodes),
        ] {
            self.single(name, "gauge", help, value);
        }
    }

    /// What all sessions have done together.
    fn sessions(&mut self, stats: &KeeperStats) {
        for (name, help, value) in [
            ("zk_sessions_total", "Sessions that were begun.", stats.sessions),
            ("zk_connections_total", "Connections that were made.", stats.totals.connections),
            ("zk_attempts_total", "Attempts to connect.", stats.totals.attempts),
            ("zk_sent_bytes_total", "Bytes that were sent.", stats.totals.bytes_sent),
            ("zk_received_bytes_total", "Bytes that were received.", stats.totals.bytes_received),
            ("zk_events_total", "Events of watches.", stats.totals.events_received),
        ] {
            self.single(name, "counter", help, value);
        }
        let name = "zk_requests_total";
        self.family(name, "counter", "Requests by operation and outcome.");
        for counts in &stats.totals.requests {
            let op = counts.op.to_string();
            for (outcome, count) in [
                ("succeeded", counts.succeeded),
                ("refused", counts.refused),
                ("too_large", counts.too_large),
                ("unanswered", counts.unanswered),
                ("not_sent", counts.not_sent),
                ("withdrawn", counts.withdrawn),
            ] {
                self.sample(name, &[("op", &*op), ("outcome", outcome)], count);
            }
        }
        let name = "zk_request_duration_seconds";
        self.family(name, "histogram", "From the send of a request to its reply.");
        self.histogram(name, &[], &stats.totals.latencies);
    }

    /// What the locks of each name have done.
    fn locks(&mut self, locks: &[(&str, LockStats)]) {
        type Family<T> = (&'static str, &'static str, fn(&LockStats) -> T);
        let families: [Family<u64>; 6] = [
            ("joined", "Contenders that joined a queue.", |stats| stats.joined),
            ("waited", "Contenders that found others ahead.", |stats| stats.waited),
            ("ahead", "Contenders ahead of those, added up.", |stats| stats.ahead),
            ("acquired", "Locks that were acquired.", |stats| stats.acquired),
            ("released", "Locks that were released.", |stats| stats.released),
            ("timed_out", "Acquires that took too long.", |stats| stats.timed_out),
        ];
        for (name, help, read) in families {
            let name = format!("zk_lock_{name}_total");
            self.family(&name, "counter", help);
            for (lock, stats) in locks {
                self.sample(&name, &[("lock", lock)], read(stats));
            }
        }
        let name = "zk_lock_handed_over_total";
        self.family(name, "counter", "Locks that were handed over, by whom.");
        for (lock, stats) in locks {
            self.sample(name, &[("lock", lock), ("by", "server")], stats.handed_over);
            self.sample(name, &[("lock", lock), ("by", "process")], stats.handed_over_locally);
        }
        let name = "zk_lock_lost_total";
        self.family(name, "counter", "Locks that were lost, by the reason.");
        for (lock, LockStats { lost, .. }) in locks {
            for (reason, count) in [
                ("session_over", lost.session_over),
                ("node_deleted", lost.node_deleted),
                ("deadline", lost.deadline),
                ("term_over", lost.term_over),
            ] {
                self.sample(name, &[("lock", lock), ("reason", reason)], count);
            }
        }
        self.family("zk_lock_held", "gauge", "Locks that are held.");
        for (lock, stats) in locks {
            self.sample("zk_lock_held", &[("lock", lock)], stats.held());
        }
        let histograms: [Family<Latencies>; 2] = [
            ("zk_lock_wait_seconds", "How long acquires waited.", |stats| stats.waits),
            ("zk_lock_hold_seconds", "How long locks were held.", |stats| stats.holds),
        ];
        for (name, help, read) in histograms {
            self.family(name, "histogram", help);
            for (lock, stats) in locks {
                self.histogram(name, &[("lock", lock)], &read(stats));
            }
        }
    }
}
