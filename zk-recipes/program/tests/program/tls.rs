//! Encrypted connections of the program.

use std::sync::Arc;

use rustix::process::Signal;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::rustls::ALL_VERSIONS;
use zk_embedded::Server;
use zk_test_support::tls::{Authority, Front};

use crate::program::{Ended, Program, start};

/// An encrypted port of a server, certificates, and the options that make `zk` use them.
struct Encrypted {
    _tasks: JoinSet<()>,
    files: TempDir,
    connect: String,
}

impl Encrypted {
    /// The server's certificate is for this name. Clients have to show one.
    async fn new(server: &Arc<Server>, name: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let authority = Authority::new("an authority").unwrap();
        let shown = authority.sign("a server", &[name]).unwrap();
        let client = authority.sign("a client", &[]).unwrap();
        let (ca, cert, key) = (authority.root(), &client.certificate, &client.key);
        for (name, pem) in [("ca", &ca), ("cert", cert), ("key", key)] {
            std::fs::write(files.path().join(name), pem).unwrap();
        }
        let front = Front::new(server, &shown, Some(&authority), ALL_VERSIONS).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = listener.local_addr().unwrap().to_string();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (mut outer, _) = listener.accept().await.unwrap();
                let mut inner = front.open();
                tokio::spawn(async move {
                    // A client that goes is no error.
                    tokio::io::copy_bidirectional(&mut outer, &mut inner).await.ok();
                });
            }
        });
        Self { _tasks: tasks, files, connect }
    }

    async fn run(&self, server: &Server, arguments: &[&str], options: &[&str]) -> Ended {
        self.start(server, arguments, options).end().await
    }

    fn start(&self, server: &Server, arguments: &[&str], options: &[&str]) -> Program {
        let mut all = arguments.to_vec();
        all.extend(["--connect", &self.connect]);
        let files: Vec<_> = options
            .iter()
            .map(|option| match *option {
                "ca" | "cert" | "key" => self.files.path().join(option).display().to_string(),
                option => option.to_owned(),
            })
            .collect();
        all.extend(files.iter().map(String::as_str));
        start(server, &all)
    }
}

const CA: [&str; 2] = ["--tls-ca", "ca"];
const IDENTITY: [&str; 4] = ["--tls-cert", "cert", "--tls-key", "key"];

#[tokio::test]
async fn connections_are_encrypted_with_an_authority() {
    let server = Arc::new(Server::start().await.unwrap());
    let encrypted = Encrypted::new(&server, "127.0.0.1").await;
    let options = [&CA[..], &IDENTITY].concat();
    let created = encrypted.run(&server, &["create", "/a"], &options).await;
    assert_eq!((created.status, &*created.output, &*created.errors), (0, "/a\n", ""));
    assert!(server.has_node("/a"));

    let word = encrypted.run(&server, &["words", "ruok"], &options).await;
    assert_eq!((word.status, &*word.output), (0, "imok\n"), "{word:?}");

    // The server wants to know who this is.
    let nobody = encrypted.run(&server, &["get", "/a"], &CA).await;
    assert_eq!(nobody.status, 1, "{nobody:?}");
    assert!(nobody.errors.contains("certificate"), "{nobody:?}");
    // Options without those that they need, and a file that is not there.
    for (options, status) in [
        (&IDENTITY[..], 2),
        (&[&CA[..], &IDENTITY[..2]].concat(), 2),
        (&["--tls-name", "x"], 2),
        (&["--tls-ca", "/nowhere"], 1),
    ] {
        let refused = encrypted.run(&server, &["get", "/a"], options).await;
        assert_eq!((refused.status, &*refused.output), (status, ""), "{refused:?}");
    }
}

#[tokio::test]
async fn a_server_has_the_name_that_is_expected() {
    let server = Arc::new(Server::start().await.unwrap());
    let encrypted = Encrypted::new(&server, "zk.example").await;
    let options = [&CA[..], &IDENTITY].concat();
    let refused = encrypted.run(&server, &["ls", "/"], &options).await;
    assert_eq!(refused.status, 1, "{refused:?}");
    assert!(refused.errors.contains("name"), "{refused:?}");
    let named = [&options[..], &["--tls-name", "zk.example"]].concat();
    assert_eq!(encrypted.run(&server, &["ls", "/"], &named).await.output, "zookeeper\n");
}

/// Whoever replaces files may do so while a session ends.
#[tokio::test]
async fn an_election_goes_on_with_the_last_files_that_can_be_used() {
    let server = Arc::new(Server::start().await.unwrap());
    let encrypted = Encrypted::new(&server, "127.0.0.1").await;
    let options = [&CA[..], &IDENTITY].concat();
    let mut observer = encrypted.start(&server, &["elect", "/leader", "--watch"], &options);
    assert_eq!(observer.line().await, "nobody");
    std::fs::write(encrypted.files.path().join("key"), "half a k").unwrap();
    for session in server.sessions() {
        server.expire(session);
    }
    assert_eq!(observer.line().await, "nobody");
    observer.signal(Signal::TERM);
    assert_eq!(observer.end().await.status, 143);
}
