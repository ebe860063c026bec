//! A whole service: an election, jobs under a lock, a live configuration, metrics, and its end.
//!
//! `cargo run -p zk-recipes --example service -- HOST:PORT`, in any number of processes: one leads
//! and writes a job every second, and all take turns to do them. A job is done once, whatever is
//! lost: one transaction, which only the holder of the lock can carry out, writes its result and
//! deletes it. Without an address, a server in this process serves for three jobs.

use std::time::Duration;

use tokio::sync::watch::{Receiver, Sender};
use zk_client::{Client, CreateOptions, Op, SessionKeeper};
use zk_recipes::{Cached, Election, Error, Guard, Lock, retry};

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = zk_embedded::Server::start().await?;
    let given = std::env::args().nth(1);
    let jobs = if given.is_some() { u64::MAX } else { 3 };
    let keeper = Client::builder().keep(given.as_deref().unwrap_or(server.address())).await?;
    let service = Service::new(keeper)?;
    let mut jobs_done = service.jobs_done.subscribe();
    tokio::select! {
        served = service.run() => served?,
        _ = tokio::signal::ctrl_c() => {}
        _ = jobs_done.wait_for(|done| *done >= jobs) => {}
    }
    println!("{}", service.metrics().await?);
    service.keeper.close().await; // The leadership and the lock are free at once.
    Ok(())
}

pub(crate) struct Service {
    pub(crate) keeper: SessionKeeper,
    pub(crate) config: Receiver<Cached>,
    pub(crate) jobs_done: Sender<u64>,
    pub(crate) pause: Duration, // between two jobs
}

impl Service {
    pub(crate) fn new(keeper: SessionKeeper) -> Result<Self, Error> {
        let (config, following) = Cached::follow(&keeper, "/service/config")?;
        tokio::spawn(following); // ends with the service
        Ok(Self { keeper, config, jobs_done: Sender::default(), pause: Duration::from_secs(1) })
    }

    /// Serves in one session after another, until the future is dropped.
    pub(crate) async fn run(&self) -> Result<(), Error> {
        let serve = |client: Client| async move {
            for node in ["/service/jobs", "/service/done", "/service/next"] {
                retry(|| client.ensure(node, &PERSISTENT)).await?;
            }
            let election = Election::new(&client, "/service/leader")?;
            let lead = || async { election.lead(|term| self.write_jobs(&client, term)).await? };
            tokio::try_join!(retry(lead), retry(|| self.do_jobs(&client))).map(drop)
        };
        self.keeper.run_each(serve).await
    }

    /// Writes jobs while this process leads. A version counts them, so none is written twice.
    async fn write_jobs(&self, client: &Client, term: std::sync::Arc<Guard>) -> Result<(), Error> {
        loop {
            let count = client.get_data("/service/next").await?.stat.version;
            let job = format!("/service/jobs/{count:010}");
            let count = Op::set_data("/service/next", b"", Some(count));
            term.fenced((count, Op::create(&job, b"", &PERSISTENT))).await?;
            tokio::time::sleep(self.pause).await;
        }
    }

    async fn do_jobs(&self, client: &Client) -> Result<(), Error> {
        let lock = Lock::new(client, "/service/worker")?;
        loop {
            let guard = lock.acquire().await?;
            let (jobs, mut more) = client.get_children_and_watch("/service/jobs").await?;
            let Some(job) = jobs.names.iter().min() else {
                drop(guard);
                more.changed().await?;
                continue;
            };
            let (open, done) = (format!("/service/jobs/{job}"), format!("/service/done/{job}"));
            let config = self.config.borrow().node.as_ref().map(|node| node.data.to_vec());
            let work = async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                [job.as_bytes(), b" for ", &*config.unwrap_or_default()].concat()
            };
            let result = guard.run(work).await?; // stops when the lock is lost
            let write = (Op::delete(&open, None), Op::create(&done, &result, &PERSISTENT));
            guard.fenced(write).await?; // only if the lock is still ours
            self.jobs_done.send_modify(|done| *done += 1);
        }
    }

    /// Metrics in the text form of Prometheus.
    pub(crate) async fn metrics(&self) -> Result<String, Error> {
        let (jobs, stats) = (*self.jobs_done.borrow(), self.keeper.client().await?.stats());
        Ok(format!("jobs_done_total {jobs}\nreconnects_total {}", stats.reconnects()))
    }
}
