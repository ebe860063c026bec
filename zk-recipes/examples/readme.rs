//! The program of the README, to be run on any server:
//! `cargo run -p zk-recipes --example readme -- HOST:PORT`.

use zk_client::{Client, CreateOptions, Op, SessionKeeper};
use zk_recipes::{Error, FencingToken, Lock, MultiLock, Owner, ReentrantLock, RwLock, retry};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // HOST:PORT, or several as in "zk1:2181,zk2:2181", and optionally a chroot behind the last one.
    let servers = std::env::args().nth(1).ok_or("which servers?")?;
    let keeper = Client::builder().keep(&servers).await?;

    let done = run(&keeper).await;

    // Ends the session, so that nothing stays behind until it expires.
    keeper.close().await;
    Ok(done?)
}

/// A session may expire at any time, and with it all that it held. Then `run_each` drops the work,
/// and begins it anew in the next session. A connection may break, and with it a request. Then
/// `retry` begins the work anew in the same session. Both go on until it is done.
pub(crate) async fn run(keeper: &SessionKeeper) -> Result<(), Error> {
    keeper.run_each(|client| async move { retry(|| work(&client)).await }).await
}

/// May begin anew at any place, so it looks at what is there before it writes.
async fn work(client: &Client) -> Result<(), Error> {
    // A node, and a watch on it. The write is refused if somebody else has written meanwhile.
    client.ensure("/motd", &CreateOptions::persistent()).await?;
    let (node, mut watch) = client.get_data_and_watch("/motd").await?;
    client.set_data("/motd", b"hello", Some(node.stat.version)).await?;
    println!("{}", watch.changed().await?.kind); // NodeDataChanged

    // A transaction: all or nothing. Each operation has a result of its own type.
    if client.exists("/done").await?.is_none() {
        // This node ends with the session.
        let create = Op::create("/done", b"7", &CreateOptions::ephemeral());
        let (done, motd) = client.multi((create, Op::set_data("/motd", b"bye", None))).await?;
        println!("made {}, and wrote version {}", done.path, motd.version);
    }

    // A lock: one round trip when it is free, more if its folder is missing; none at the hand-over.
    let lock = Lock::new(client, "/locks/invoices")?;
    let guard = lock.acquire().await?; // dropping the future leaves the queue
    guard.run(rebuild(guard.token())).await?; // stops the work when the lock is lost
    guard.fenced(Op::set_data("/motd", b"42", None)).await?; // only while we hold it
    guard.release().await?; // or drop it: its release is then sent in the background

    // Readers share a lock.
    let catalogue = RwLock::new(client, "/locks/catalogue")?;
    let shared = catalogue.write().await?.downgrade().await?;

    // Many tasks, one node: they hand the lock on among themselves without a request.
    let stock = ReentrantLock::new(client, "/locks/stock")?;
    let me = Owner::new();
    let outer = stock.acquire(&me).await?;
    let inner = stock.acquire(&me).await?; // depth 2, no round trip

    // Both locks or none. This does not deadlock with a caller that names them in another order,
    // or acquires them one by one in the order of their paths.
    let both = MultiLock::new(client, ["/locks/from", "/locks/to"])?.acquire().await?;
    drop((shared, inner, outer, both)); // released in the background
    Ok(())
}

/// The store refuses tokens that are older than one that it has seen.
async fn rebuild(token: FencingToken) {
    println!("written, with token {token}");
}
