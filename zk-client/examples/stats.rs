//! The counters of a client, as a service would export them, over a loss of its connection.

use std::time::Duration;

use zk_client::{Client, CreateOptions, WatchMode};
use zk_embedded::Server;

fn export(client: &Client) {
    let stats = client.stats();
    let server = stats.server.as_ref().map(ToString::to_string);
    println!("{:?} to {}", stats.state, server.as_deref().unwrap_or("nobody"));
    println!("  zk_in_flight {}", stats.in_flight);
    println!("  zk_queued_bytes {}", stats.queued_bytes);
    println!("  zk_watches {}", stats.watches + stats.streams);
    println!("  zk_reconnects_total {}", stats.reconnects());
    println!("  zk_bytes_sent_total {}", stats.totals.bytes_sent);
    println!("  zk_bytes_received_total {}", stats.totals.bytes_received);
    println!("  zk_last_zxid {}", stats.last_zxid);
    if let Some(time) = stats.last_round_trip {
        println!("  zk_round_trip_seconds {:.6}", time.as_secs_f64());
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(server.address()).await?;
    client.create("/a", b"1", &CreateOptions::persistent()).await?;
    let (_, watcher) = client.get_data_and_watch("/a").await?;
    let stream = client.watch("/a", WatchMode::Persistent).await?;
    export(&client);
    let stats = client.stats();
    assert_eq!((stats.watches, stats.streams, stats.totals.connections), (1, 1, 1));

    // The connection breaks, and the watches are set again on the next one.
    server.disconnect_all();
    let reconnected = async {
        while client.stats().reconnects() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), reconnected).await?;
    client.sync("/").await?;
    export(&client);

    drop((watcher, stream));
    client.sync("/").await?;
    let stats = client.stats();
    assert_eq!((stats.watches, stats.streams, stats.in_flight), (0, 0, 0));
    client.close().await;
    Ok(())
}
