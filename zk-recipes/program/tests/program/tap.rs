//! `zk tap` and `zk replay`.

use rustix::process::Signal;
use zk_client::{Client, CreateOptions};
use zk_embedded::Server;

use crate::program::{run, start};

#[tokio::test]
async fn a_session_is_shown_recorded_and_played_again() {
    let server = Server::start().await.unwrap();
    let file = std::env::temp_dir().join(format!("zk-tap-{}.jsonl", std::process::id()));
    let file = file.to_str().unwrap();
    let mut tap = start(&server, &["tap", "127.0.0.1:0", server.address(), "--record", file]);
    let first = tap.line().await;
    let (address, target) = first.split_once(" to ").unwrap();
    assert_eq!(target, server.address());

    let client = Client::connect(address).await.unwrap();
    client.create("/a", b"1", &CreateOptions::persistent()).await.unwrap();
    client.close().await;
    // The lines are flushed when nothing waits, so the last frame comes without a signal.
    while !tap.line().await.contains("< 2: closeSession Ok") {}
    tap.signal(Signal::INT);
    let ended = tap.end().await;
    assert_eq!((ended.status, &*ended.errors), (0, ""), "{ended:?}");
    assert!(ended.output.contains("create2 /a"), "{ended:?}");
    assert!(ended.output.contains("2 replies, 0 watch events"), "{ended:?}");

    let again = run(&server, &["replay", file, "--to", server.address()]).await;
    assert_eq!(again.status, 1, "{again:?}");
    assert!(again.output.contains("received create2 NodeExists"), "{again:?}");
    let fresh = Server::start().await.unwrap();
    let again = run(&fresh, &["replay", file, "--to", fresh.address()]).await;
    assert_eq!(again.status, 0, "{again:?}");

    // One that ends within a line is played up to there.
    let recorded = std::fs::read(file).unwrap();
    std::fs::write(file, &recorded[..recorded.len() - 3]).unwrap();
    let again = run(&fresh, &["replay", file, "--to", fresh.address()]).await;
    assert!(again.errors.contains("ends within a line"), "{again:?}");

    // A recording is never replaced.
    let refused = run(&server, &["tap", "127.0.0.1:0", "nowhere:1", "--record", file]).await;
    assert!(refused.errors.contains("exists"), "{refused:?}");
    std::fs::remove_file(file).unwrap();
}
