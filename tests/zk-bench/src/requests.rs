//! The requests that clients are compared by, each a loop as in our own bench.
//!
//! A peer is a package of its own, which `tests/figures --peers` builds: it implements [`Peer`] and
//! calls [`main`].

use std::env;

use crate::loops::{self, Result};
use crate::options::{self, Options};
use crate::server::Server;

/// The node that every loop writes or watches.
pub const NODE: &str = "/bench";

/// The client of another project. Each request has its own reply before the function returns.
pub trait Peer: Clone + Send + Sync + Sized + 'static {
    /// Opens a session.
    fn connect(address: &str) -> impl Future<Output = Result<Self>> + Send;

    /// Creates a persistent node that anybody may do anything with. An error if it exists.
    fn create(&self, path: &str, data: &[u8]) -> impl Future<Output = Result<()>> + Send;

    /// Writes a node, whatever its version is.
    fn set(&self, path: &str, data: &[u8]) -> impl Future<Output = Result<()>> + Send;

    /// Deletes a node, whatever its version is.
    fn delete(&self, path: &str) -> impl Future<Output = Result<()>> + Send;

    /// Reads a node and watches it, writes it, and waits for the event.
    fn event(&self, path: &str, data: &[u8]) -> impl Future<Output = Result<()>> + Send;
}

/// The program of a peer.
pub fn main<P: Peer>() -> Result<()> {
    let options = Options::parse(options::CLIENT, env::args().skip(1))?;
    options.pin_client()?;
    let work = match options.workload.as_deref() {
        Some("set") => Work::Set,
        Some("create-delete") => Work::CreateDelete,
        Some("event") => Work::Event,
        _ => return Err("the workloads are set, create-delete and event".into()),
    };
    let server = Server::start(&options)?;
    options.runtime()?.block_on(async {
        let peer = P::connect(server.address()).await?;
        let data = vec![b'x'; options.payload];
        // It may exist. If it does not, the loop fails.
        let _ = peer.create(NODE, &data).await;
        let task =
            |n| Task { work, peer: peer.clone(), own: format!("{NODE}/{n}"), data: data.clone() };
        let outcome = loops::run(task, &server, &options).await?;
        let name = options.workload.as_deref().unwrap_or_default();
        Ok(outcome.report(name, &options).print()?)
    })
}

#[derive(Clone, Copy)]
enum Work {
    Set,
    CreateDelete,
    Event,
}

struct Task<P> {
    work: Work,
    peer: P,
    /// A node that no other task touches.
    own: String,
    data: Vec<u8>,
}

impl<P: Peer> loops::Work for Task<P> {
    async fn operate(&self) -> Result<()> {
        let Self { work, peer, own, data } = self;
        match work {
            Work::Set => peer.set(NODE, data).await,
            Work::CreateDelete => {
                peer.create(own, b"").await?;
                peer.delete(own).await
            }
            Work::Event => peer.event(NODE, data).await,
        }
    }
}
