//! An ensemble that grows and moves, while its clients go on working.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use zk_client::{Client, CreateOptions, Host};
use zk_embedded::{Config, Server};

const CLIENTS: usize = 50;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Every name leads to the one server here; the example counts which client goes where.
    let server = Server::in_memory(Config::new());
    let connect = server.connector();
    let arrived = Arc::new([const { AtomicUsize::new(0) }; 6]);
    let counts = Arc::clone(&arrived);
    let connector = move |host: &Host| {
        let number = host.name.trim_start_matches("zk").parse().unwrap_or(0);
        counts.get(number).map(|count: &AtomicUsize| count.fetch_add(1, Ordering::Relaxed));
        connect(host)
    };
    let builder = Client::builder().connector(connector);

    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(builder.clone().connect("zk1,zk2,zk3").await?);
    }
    let outsider = builder.connect("zk1").await?;
    outsider.create("/counter", b"", &CreateOptions::persistent()).await?;
    let sessions: Vec<_> = clients.iter().map(Client::session).collect();

    // With two more servers, about two of five clients move, and each of the five servers has its
    // share.
    let mut states: Vec<_> = clients.iter().map(Client::states).collect();
    clients.iter().try_for_each(|client| client.set_servers("zk1,zk2,zk3,zk4,zk5"))?;
    // Requests are answered as before, by any server.
    for client in &clients {
        client.set_data("/counter", b"", None).await?;
    }
    let moved = states.iter().filter(|states| states.has_changed().unwrap_or(true)).count();
    println!("from 3 servers to 5: {moved} of {CLIENTS} clients move");
    assert!((1..CLIENTS).contains(&moved));

    // All servers are replaced: every client moves, and no write is lost.
    states.iter_mut().for_each(|states| states.mark_unchanged());
    for client in &clients {
        let before = client.set_data("/counter", b"", None);
        client.set_servers("zk0")?;
        let after = client.set_data("/counter", b"", None);
        before.await?;
        after.await?;
    }
    assert!(states.iter().all(|states| states.has_changed().unwrap_or(true)));
    assert_eq!(sessions, clients.iter().map(Client::session).collect::<Vec<_>>());
    let stat = outsider.exists("/counter").await?.ok_or("the node is there")?;
    println!("all servers replaced: {} writes, none lost, every session goes on", stat.version);
    assert_eq!(stat.version as usize, 3 * CLIENTS);
    println!("connections made, by server: {arrived:?}");
    Ok(())
}
