//! The null server and the floors, as the benches use them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use zk_bench::null::{Config, NullServer};
use zk_bench::options::{self, Kind, Options};
use zk_bench::server::Server;
use zk_bench::{BURST, BURST_FOLDER, raw, sketch};
use zk_client::{Client, CreateOptions, ErrorCode, EventType, StreamEvent, WatchMode};

fn start(config: &Config) -> String {
    NullServer::start(config).unwrap().address().to_string()
}

#[tokio::test]
async fn the_client_takes_its_answers_for_those_of_a_server() {
    let client = Client::connect(&start(&Config { data: 7, children: 3 })).await.unwrap();
    assert_eq!(&client.get_data("/a").await.unwrap().data[..], b"xxxxxxx");
    assert_eq!(client.get_children("/a").await.unwrap().names.len(), 3);
    assert_eq!(client.exists("/a").await.unwrap().unwrap().data_length, 7);
    let created = client.create("/a/b", b"", &CreateOptions::ephemeral()).await.unwrap();
    assert_eq!(created.path, "/a/b");
    client.create("/a/c", b"", &CreateOptions::container()).await.unwrap();
    client.set_data("/a", b"new", None).await.unwrap();
    client.delete("/a", None).await.unwrap();
    client.get_acl("/a").await.unwrap();
    client.sync("/a").await.unwrap();
    client.add_auth("digest", b"user:password").await.unwrap();
    let unknown = client.who_am_i().await.unwrap_err();
    assert_eq!(unknown.code(), Some(ErrorCode::UNIMPLEMENTED));
    client.close().await;
}

#[tokio::test]
async fn a_burst_fires_watches_of_both_kinds() {
    const EVENTS: usize = 1000;
    let client = Client::connect(&start(&Config::default())).await.unwrap();
    let mut watchers = Vec::new();
    for n in 0..EVENTS {
        watchers.push(client.get_data_and_watch(&format!("{BURST_FOLDER}/{n}")).await.unwrap().1);
    }
    let mut changes = client.watch(BURST_FOLDER, WatchMode::PersistentRecursive).await.unwrap();
    client.set_data(&format!("{BURST}/{EVENTS}"), b"", None).await.unwrap();
    for (n, mut watcher) in watchers.into_iter().enumerate() {
        assert_eq!(watcher.changed().await.unwrap().kind, EventType::NODE_DATA_CHANGED);
        match changes.next().await.unwrap() {
            StreamEvent::Changed(event) => assert_eq!(event.path, format!("{BURST_FOLDER}/{n}")),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_floor_counts_what_the_server_counts() {
    let address = start(&Config::default());
    let arguments = ["raw", "--depth", "16", "--ops", "1600", "--connect", &address];
    let options = Options::parse(options::CLIENT, arguments.map(str::to_owned)).unwrap();
    assert_eq!(options.server, Kind::At(address.clone()));
    let (ops, _, latencies) = raw::get(&address, "/a", &options).unwrap();
    assert_eq!(ops, 1600);
    assert!(latencies.is_none());
    let server = Server::start(&options).unwrap();
    assert_eq!(server.received(), Some(160 + 1600), "the first tenth is not measured");
}

#[tokio::test]
async fn the_sketch_counts_what_the_server_counts() {
    let address = start(&Config::default());
    let arguments = ["sketch", "--depth", "16", "--ops", "1600", "--connect", &address];
    let options = Options::parse(options::CLIENT, arguments.map(str::to_owned)).unwrap();
    let server = Server::start(&options).unwrap();
    let outcome = sketch::get(&server, "/a", &options).await.unwrap();
    assert_eq!(outcome.ops, 1600);
    assert_eq!(server.received(), Some(160 + 1600), "the first tenth is not measured");
}

#[tokio::test]
async fn a_server_that_hangs_up_ends_the_sketch() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            assert_ne!(stream.read(&mut [0; 1000]).unwrap(), 0);
            // The least that is a frame; a real reply is longer.
            stream.write_all(&[0; 4]).unwrap();
        }
    });
    let options = Options { server: Kind::At(address), ..Options::default() };
    let server = Server::start(&options).unwrap();
    sketch::get(&server, "/a", &options).await.unwrap_err();
}

#[test]
fn what_is_not_understood_is_said() {
    for (arguments, said) in [
        (&["get", "--depth"][..], "missing argument for option '--depth'"),
        (&["get", "--depth", "many"], "cannot parse argument \"many\""),
        (&["--depth", "0"], "at least 1"),
        (&["get", "set"], "unexpected argument \"set\""),
        (&["--fast"], "invalid option '--fast'"),
        (&["--tasks", "2"], "invalid option '--tasks'"),
        (&["--server", "real"], "real is no server"),
        (&["--seconds", "-1"], "-1"),
    ] {
        let arguments = arguments.iter().map(|&argument| argument.to_owned());
        let error = Options::parse(options::CLIENT, arguments).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn help_tells_the_options_that_are_taken() {
    let client = options::help(options::CLIENT);
    assert_eq!(client.lines().count(), options::CLIENT.len(), "{client}");
    let race = options::help(options::RACE);
    assert_eq!(race.lines().count(), options::RACE.len() - 1, "without --contender: {race}");
    assert!(!race.contains("--ops"));
}
