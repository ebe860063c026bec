//! Views: the parts of a service share one session, and each sees its own part of the tree.

use zk_client::{Client, CreateOptions, Op, StreamEvent, WatchMode};
use zk_embedded::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(server.address()).await?;
    let persistent = CreateOptions::persistent();

    // A view does not check that its root exists, so the view can create it.
    let shop = client.chroot("/shop")?;
    shop.create("/", b"", &persistent).await?;
    let orders = shop.chroot("/orders")?;
    orders.create("/", b"", &persistent).await?;

    let mut changes = client.watch("/shop", WatchMode::PersistentRecursive).await?;
    let created = orders.create("/7", b"tea", &persistent).await?;
    println!("the orders call it {}", created.path);
    if let StreamEvent::Changed(event) = changes.next().await? {
        println!("the whole client calls it {}", event.path);
        assert_eq!(event.path, "/shop/orders/7");
    }

    // The same holds within a transaction, and for errors.
    orders.multi(&[Op::check("/7", Some(0)), Op::delete("/7", None)]).await?;
    let error = orders.get_data("/7").await.map(drop);
    println!("{error:?}");
    assert!(error.is_err_and(|error| error.is_no_node() && error.to_string().contains(" /7:")));

    // All views share one session, so it ends for all of them.
    assert_eq!(orders.session(), client.session());
    shop.close().await;
    assert!(client.state().ended().is_some());
    Ok(())
}
