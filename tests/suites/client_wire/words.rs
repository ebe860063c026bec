//! Four-letter words, sent by a client's builder.

use std::time::Duration;

use zk_client::{Client, ErrorKind, Host};
use zk_embedded::{Config, Server};

#[tokio::test(start_paused = true)]
async fn a_server_answers_a_word_without_a_session() {
    let server = Server::in_memory(Config::new());
    let builder = Client::builder().connector(server.connector());
    let report = builder.four_letter_word("zk", "srvr").await.unwrap();
    assert!(report.contains("Mode: standalone"), "{report}");
    assert_eq!(builder.four_letter_word("zk", "ruok").await.unwrap(), "imok");
    assert!(server.sessions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_word_is_four_letters_for_one_server() {
    let builder =
        Client::builder().connector(|_: &Host| -> std::io::Result<tokio::io::DuplexStream> {
            panic!("nothing is sent");
        });
    for (server, word, kind) in [
        ("zk", "stats", ErrorKind::InvalidSetting),
        ("zk", "", ErrorKind::InvalidSetting),
        ("zk", "rüo", ErrorKind::InvalidSetting),
        ("zk1,zk2", "ruok", ErrorKind::InvalidConnectString),
        ("zk/app", "ruok", ErrorKind::InvalidConnectString),
        ("", "ruok", ErrorKind::InvalidConnectString),
    ] {
        let error = builder.four_letter_word(server, word).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{server:?} {word:?}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_a_word_is_given_up() {
    let (here, _there) = tokio::io::duplex(64);
    let once = std::sync::Mutex::new(Some(here));
    let builder =
        Client::builder().connect_timeout(Duration::from_secs(3)).connector(move |_: &Host| {
            let here = once.lock().unwrap().take();
            here.ok_or_else(|| std::io::ErrorKind::ConnectionRefused.into())
        });
    for expected in
        ["no answer within 3s, although the connection was accepted", "connection refused"]
    {
        let error = builder.four_letter_word("zk", "ruok").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoServer);
        let [attempt] = error.attempts() else { panic!("{error}") };
        assert_eq!(attempt.server, "zk:2181");
        assert!(attempt.why.starts_with(expected), "{}", attempt.why);
    }
}
