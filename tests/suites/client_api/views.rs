//! Views of one session: all paths are relative to the view's root.

use zk_client::{Client, CreateOptions, ErrorKind, Op, SessionState, StreamEvent, WatchMode};
use zk_embedded::{Config, Server};

const OWNED: CreateOptions<'_> = CreateOptions::ephemeral().sequential();
const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

/// A client of a server that has `/shop/orders`, and its views of both.
async fn views() -> (Server, Client, Client, Client) {
    let server = Server::in_memory(Config::new());
    let client = Client::builder().connector(server.connector()).connect("zk").await.unwrap();
    client.create("/shop", b"", &PERSISTENT).await.unwrap();
    client.create("/shop/orders", b"", &PERSISTENT).await.unwrap();
    let shop = client.chroot("/shop").unwrap();
    let orders = shop.chroot("/orders").unwrap();
    (server, client, shop, orders)
}

#[tokio::test(start_paused = true)]
async fn calls_name_nodes_from_the_root_of_their_view() {
    let (server, client, shop, orders) = views().await;
    let created = orders.create("/a", b"1", &PERSISTENT).await.unwrap();
    assert_eq!(created.path, "/a");
    assert!(server.has_node("/shop/orders/a"));
    let sequential = CreateOptions::persistent().sequential();
    let created = orders.create("/n-", b"", &sequential).await.unwrap();
    assert_eq!(created.path, "/n-0000000001");
    assert_eq!(shop.get_data("/orders/a").await.unwrap().data, "1");
    assert_eq!(shop.get_children("/").await.unwrap().names, ["orders"]);
    orders.set_data("/a", b"2", None).await.unwrap();
    orders.sync("/").await.unwrap();
    assert_eq!(client.get_data("/shop/orders/a").await.unwrap().data, "2");
    orders.delete("/a", None).await.unwrap();
    assert!(orders.exists("/a").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn watchers_and_streams_name_nodes_from_the_root_of_their_view() {
    let (_server, client, shop, orders) = views().await;
    let (_, mut in_orders) = orders.exists_and_watch("/a").await.unwrap();
    let (_, mut in_shop) = shop.exists_and_watch("/orders/a").await.unwrap();
    let mut listed = shop.watch_nodes(&["/orders"]).await.unwrap();
    let mode = WatchMode::PersistentRecursive;
    let mut changes = orders.watch("/", mode).await.unwrap();
    let mut all = client.watch("/shop", mode).await.unwrap();
    client.create("/shop/orders/a", b"", &PERSISTENT).await.unwrap();
    assert_eq!(in_orders.changed().await.unwrap().path, "/a");
    assert_eq!(in_shop.changed().await.unwrap().path, "/orders/a");
    let path = |event| match event {
        StreamEvent::Changed(event) => event.path,
        other => panic!("{other:?}"),
    };
    assert_eq!(path(changes.next().await.unwrap()), "/a");
    assert_eq!(path(all.next().await.unwrap()), "/shop/orders/a");
    client.set_data("/shop/orders", b"", None).await.unwrap();
    assert_eq!(path(changes.next().await.unwrap()), "/");
    assert_eq!(listed[0].changed().await.unwrap().path, "/orders");
}

#[tokio::test(start_paused = true)]
async fn transactions_and_owned_nodes_name_nodes_from_the_root_of_their_view() {
    let (server, client, _, orders) = views().await;
    let ops = (Op::create("/a", b"", &PERSISTENT), Op::check("/", None));
    let (created, ()) = orders.multi(ops).await.unwrap();
    assert_eq!(created.path, "/a");
    let refused = orders.multi((Op::check("/a", None), Op::delete("/b", None))).await.unwrap_err();
    assert_eq!(refused.failed_op(), Some(1));
    assert!(refused.to_string().contains("delete /b:"), "{refused}");

    let owned = orders.create_owned("/mine-", b"", &OWNED).await.unwrap();
    assert_eq!(owned.path(), "/mine-0000000001");
    assert!(server.has_node("/shop/orders/mine-0000000001"));
    owned.delete().await.unwrap();
    assert!(!server.has_node("/shop/orders/mine-0000000001"));
    for owned in orders.multi_owned([Op::create_owned("/two-", b"", &OWNED)]) {
        assert_eq!(owned.await.unwrap().path(), "/two-0000000002");
    }
    client.create("/shop/orders/e", b"", &CreateOptions::ephemeral()).await.unwrap();
    orders.adopt("/e").await.unwrap().delete().await.unwrap();
    assert!(!server.has_node("/shop/orders/e"));
}

#[tokio::test(start_paused = true)]
async fn errors_name_nodes_as_the_caller_did() {
    let (_server, client, _, orders) = views().await;
    let error = orders.get_data("/gone").await.unwrap_err().to_string();
    assert!(error.contains(" /gone:"), "{error}");
    let nowhere = client.chroot("/nowhere").unwrap();
    assert!(nowhere.create("/a", b"", &PERSISTENT).await.unwrap_err().is_no_node());
    for path in ["", "a", "/a/", "/a//b", "/../a"] {
        let error = client.chroot(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPath, "{path:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_view_of_the_root_is_the_same_client_and_all_views_share_one_session() {
    let (server, client, shop, orders) = views().await;
    let same = orders.chroot("/").unwrap();
    same.create("/a", b"", &PERSISTENT).await.unwrap();
    assert!(server.has_node("/shop/orders/a"));
    assert_eq!(server.sessions().len(), 1);
    drop((client, shop, orders));
    same.get_data("/a").await.unwrap();
    assert_eq!(same.state(), SessionState::Connected);
    drop(same);
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    assert!(server.sessions().is_empty(), "the last view is the last client");
}
