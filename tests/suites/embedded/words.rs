//! The four-letter words, against a known state.

use std::time::Duration;

use zk_embedded::{Config, Server, ServerVersion};
use zk_proto::{ConnectRequest, CreateMode};
use zk_test_support::raw::{RawClient, create, exists, framed, get_children, hello};

const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests\n";

/// The whole answer to a four-letter word.
async fn answer(server: &Server, word: &[u8]) -> String {
    let mut client = RawClient::connect(server);
    client.write(word).await;
    String::from_utf8(client.bytes().await.to_vec()).unwrap()
}

/// A server that two clients have used: the first has a node, two data watches and a child watch.
async fn used(config: Config) -> (Server, [RawClient; 2]) {
    let server = Server::in_memory(config);
    let mut clients = [RawClient::open(&server).await, RawClient::open(&server).await];
    let [first, _] = &mut clients;
    first.reply(&create("/mine", CreateMode::EPHEMERAL)).await;
    first.reply(&exists("/mine", true)).await;
    first.ask(&exists("/none", true)).await;
    first.reply(&get_children("/", true)).await;
    (server, clients)
}

#[tokio::test(start_paused = true)]
async fn health_and_writability_are_told_without_a_newline() {
    let server = Server::in_memory(Config::new());
    assert_eq!(answer(&server, b"ruok").await, "imok");
    assert_eq!(answer(&server, b"isro").await, "rw");
    server.set_read_only(true);
    assert_eq!(answer(&server, b"isro").await, "ro");
    server.set_serving(false);
    assert_eq!(answer(&server, b"isro").await, "null");
    assert_eq!(answer(&server, b"ruok").await, "imok");
}

#[tokio::test(start_paused = true)]
async fn all_that_tell_of_the_server_say_that_it_does_not_serve() {
    let server = Server::in_memory(Config::new());
    server.set_serving(false);
    for word in [
        b"srvr", b"stat", b"mntr", b"conf", b"cons", b"crst", b"dirs", b"dump", b"srst", b"wchc",
        b"wchp", b"wchs",
    ] {
        assert_eq!(answer(&server, word).await, NOT_SERVING);
    }
    assert_eq!(answer(&server, b"hash").await, NOT_SERVING.trim_end());
    assert!(answer(&server, b"envi").await.starts_with("Environment:\n"));
    assert_eq!(answer(&server, b"gtmk").await, "306");
}

#[tokio::test(start_paused = true)]
async fn srvr_and_stat_count() {
    let (server, _clients) = used(Config::new()).await;
    let counts = |received, connections| {
        format!(
            "Latency min/avg/max: 0/0.0/0\nReceived: {received}\nSent: {}\n\
             Connections: {connections}\nOutstanding: 0\nZxid: 0x3\nMode: standalone\n\
             Node count: 6\n",
            // All packets except this answer.
            received - 1
        )
    };
    let version = "Zookeeper version: 3.9.3-embedded, built on 1970-01-01 00:00 UTC\n";
    assert_eq!(answer(&server, b"srvr").await, format!("{version}{}", counts(7, 3)));
    assert_eq!(
        answer(&server, b"stat").await,
        format!(
            "{version}Clients:\n /127.0.0.1:49153[1](queued=0,recved=5,sent=5)\n \
             /127.0.0.1:49154[1](queued=0,recved=1,sent=1)\n \
             /127.0.0.1:49156[0](queued=0,recved=1,sent=0)\n\n{}",
            counts(8, 3)
        )
    );
    for word in [b"ruok", b"isro"] {
        answer(&server, word).await;
    }
    assert!(answer(&server, b"srvr").await.contains("Received: 11\n"), "each word is one");

    server.set_read_only(true);
    assert!(answer(&server, b"srvr").await.contains("Mode: read-only\n"));
    let server = Server::in_memory(Config::new().server_version(ServerVersion::V3_8));
    let version = "Zookeeper version: 3.8.0-";
    assert!(answer(&server, b"srvr").await.starts_with(version));
}

#[tokio::test(start_paused = true)]
async fn mntr_tells_key_and_value() {
    let (server, clients) = used(Config::new()).await;
    tokio::time::sleep(Duration::from_millis(1234)).await;
    let told = answer(&server, b"mntr").await;
    for line in [
        "version\t3.9.3-embedded, built on 1970-01-01 00:00 UTC",
        "server_state\tstandalone",
        "avg_latency\t0.0",
        "packets_received\t7",
        "packets_sent\t6",
        "num_alive_connections\t3",
        "open_file_descriptor_count\t3",
        "max_file_descriptor_count\t1048576",
        "znode_count\t6",
        "watch_count\t3",
        "ephemerals_count\t1",
        "approximate_data_size\t50",
        "global_sessions\t2",
        "uptime\t1234",
        "connection_rejected\t0",
        "commit_count\t0",
        "watch_bytes\t0",
        "avg_fsynctime\t0.0",
        "p99_readlatency\t0",
    ] {
        assert!(told.contains(&format!("zk_{line}\n")), "{line} in {told}");
    }
    server.expire(clients[0].session);
    let after = answer(&server, b"mntr").await;
    for line in ["zk_watch_count\t0\n", "zk_ephemerals_count\t0\n", "zk_global_sessions\t1\n"] {
        assert!(after.contains(line), "{after}");
    }
}

#[tokio::test(start_paused = true)]
async fn cons_tells_the_last_request_of_each() {
    let (server, [first, second]) = used(Config::new()).await;
    tokio::time::sleep(Duration::from_millis(70)).await;
    let latencies = "llat=0,minlat=0,avglat=0,maxlat=0";
    let told = answer(&server, b"cons").await;
    let opened = told.split(",est=").nth(1).and_then(|rest| rest.split_once(',')).unwrap().0;
    assert!(opened.parse::<u64>().unwrap() > 1_700_000_000_000, "since 1970: {told}");
    assert_eq!(
        told,
        format!(
            " /127.0.0.1:49153[1](queued=0,recved=5,sent=5,sid={},lop=GETC,est={opened},to=4000,\
             lcxid=0x4,lzxid=0x3,lresp=0,{latencies})\n \
             /127.0.0.1:49154[1](queued=0,recved=1,sent=1,sid={},lop=SESS,est={opened},to=4000,\
             lcxid=0x0,lzxid=0x2,lresp=0,{latencies})\n \
             /127.0.0.1:49155[0](queued=0,recved=1,sent=0)\n\n",
            first.session, second.session
        )
    );
}

#[tokio::test(start_paused = true)]
async fn dump_tells_who_owns_what() {
    let (server, clients) = used(Config::new()).await;
    let [first, second] = clients.each_ref().map(|client| client.session);
    let dump = answer(&server, b"dump").await;
    // A set each for those with a session and for those without one.
    let set = |start: &str| {
        let found = dump.lines().skip_while(|line| !line.starts_with("Connections"));
        let found = found.filter(|line| line.starts_with(start)).collect::<Vec<_>>();
        assert!(found.len() == 1 && found[0].contains(" UTC "), "{dump}");
        found[0].to_owned()
    };
    let (served, sessionless) = (set("2 expire at "), set("1 expire at "));
    let mut lines = dump.lines();
    assert_eq!(lines.next(), Some("SessionTracker dump:"));
    assert_eq!(lines.next(), Some("Session Sets (1)/(2):"));
    assert!(lines.next().unwrap().starts_with("2 expire at "), "{dump}");
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            format!("\t{first}"),
            format!("\t{second}"),
            "ephemeral nodes dump:".to_owned(),
            "Sessions with Ephemerals (1):".to_owned(),
            format!("{first}:"),
            "\t/mine".to_owned(),
            "Connections dump:".to_owned(),
            "Connections Sets (2)/(3):".to_owned(),
            served,
            format!("\tip: /127.0.0.1:49153 sessionId: {first}"),
            format!("\tip: /127.0.0.1:49154 sessionId: {second}"),
            sessionless,
            "\tip: /127.0.0.1:49155 sessionId: 0x0".to_owned(),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn wchs_counts_data_watches_alone() {
    let (server, [first, _second]) = used(Config::new()).await;
    let counted = "1 connections watching 2 paths\nTotal watches:2\n";
    assert_eq!(answer(&server, b"wchs").await, counted);
    drop(first);
    let none = "0 connections watching 0 paths\nTotal watches:0\n";
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(answer(&server, b"wchs").await, none);
}

#[tokio::test(start_paused = true)]
async fn wchp_names_who_watches_each_path() {
    let (server, [first, _second]) = used(Config::new()).await;
    let mut session = server.sessions().into_iter().map(|id| format!("\t0x{:x}", id.0));
    let session = session.next().unwrap();
    let told = answer(&server, b"wchp").await;
    let lines = told.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 5, "{told}");
    assert!(lines[0].starts_with('/') && lines[2].starts_with('/'), "{told}");
    assert_eq!((lines[1], lines[3], lines[4]), (&*session, &*session, ""));
    drop(first);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(answer(&server, b"wchp").await, "\n");
}

#[tokio::test(start_paused = true)]
async fn wchc_names_the_paths_that_each_session_watches() {
    let (server, [first, _second]) = used(Config::new()).await;
    let told = format!("{}\n\t/mine\n\t/none\n\n", first.session);
    assert_eq!(answer(&server, b"wchc").await, told);
    drop(first);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(answer(&server, b"wchc").await, "\n");
}

#[tokio::test]
async fn conf_tells_the_settings_and_dirs_that_nothing_is_on_disk() {
    let config = Config::new().tick_time(Duration::from_secs(1)).max_connections_per_host(7);
    let server = Server::with(config.listen_backlog(9)).await.unwrap();
    let port = server.address().strip_prefix("127.0.0.1:").unwrap();
    assert_eq!(
        answer(&server, b"conf").await,
        format!(
            "clientPort={port}\nsecureClientPort=-1\ndataDir=\ndataDirSize=0\ndataLogDir=\n\
             dataLogSize=0\ntickTime=1000\nmaxClientCnxns=7\nminSessionTimeout=2000\n\
             maxSessionTimeout=20000\nclientPortListenBacklog=9\nserverId=0\n"
        )
    );
    assert_eq!(answer(&server, b"dirs").await, "datadir_size: 0\nlogdir_size: 0\n");
    let server = Server::in_memory(Config::new());
    assert!(answer(&server, b"conf").await.contains("\nclientPortListenBacklog=-1\n"));
}

#[tokio::test(start_paused = true)]
async fn stmk_sets_what_gtmk_tells_and_hash_has_nothing_to_tell() {
    let server = Server::in_memory(Config::new());
    assert_eq!(answer(&server, b"gtmk").await, "306");
    let mask = [&b"stmk"[..], &(-7_i64).to_be_bytes()].concat();
    assert_eq!(answer(&server, &mask).await, "-7");
    assert_eq!(answer(&server, b"gtmk").await, "-7");
    // The server does not wait for a mask that has not arrived.
    assert_eq!(answer(&server, b"stmk").await, "");
    assert_eq!(answer(&server, b"stmk\0\0\0\0\0\0\0").await, "");
    assert_eq!(answer(&server, b"gtmk").await, "-7");
    assert_eq!(answer(&server, b"hash").await, "");
}

#[tokio::test(start_paused = true)]
async fn srst_and_crst_forget_what_was_counted() {
    let (server, [first, _second]) = used(Config::new()).await;
    assert_eq!(answer(&server, b"srst").await, "Server stats reset.\n");
    let counted = answer(&server, b"srvr").await;
    assert!(counted.contains("Received: 1\nSent: 1\n"), "{counted}");
    assert_eq!(answer(&server, b"crst").await, "Connection stats reset.\n");
    let counted = answer(&server, b"cons").await;
    let line = format!("recved=0,sent=0,sid={},lop=NA,", first.session);
    assert!(counted.contains(&line) && !counted.contains("lcxid"), "{counted}");
    assert!(counted.contains("lzxid=0xffffffffffffffff"), "{counted}");
}

#[tokio::test(start_paused = true)]
async fn a_read_only_server_says_so_and_which_sessions_are_its_own() {
    let server = Server::in_memory(Config::new().local_sessions(true));
    let _global = RawClient::open(&server).await;
    server.set_read_only(true);
    let hello = ConnectRequest { read_only: Some(true), ..hello(Duration::from_secs(4)) };
    let _local = RawClient::attach(&server, hello).await;
    for word in [b"srvr", b"stat"] {
        let told = answer(&server, word).await;
        let warning = "READ-ONLY mode; serving only read-only clients";
        assert_eq!(told.lines().nth(1), Some(warning), "{told}");
        assert!(told.contains("Mode: read-only\n"), "{told}");
    }
    let told = answer(&server, b"mntr").await;
    for line in ["zk_global_sessions\t1\n", "zk_local_sessions\t1\n"] {
        assert!(told.contains(line), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn envi_names_the_version() {
    let server = Server::in_memory(Config::new());
    let version = "Environment:\nzookeeper.version=3.9.3-embedded,";
    assert!(answer(&server, b"envi").await.starts_with(version));
}

#[tokio::test(start_paused = true)]
async fn a_word_is_four_letters_however_they_come_and_whatever_follows() {
    let server = Server::in_memory(Config::new());
    assert_eq!(answer(&server, b"ruok\n").await, "imok");
    assert_eq!(answer(&server, b"ruokruok").await, "imok");
    let mut client = RawClient::connect(&server);
    for byte in b"ruok" {
        client.write(&[*byte]).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(client.bytes().await, "imok");
}

#[tokio::test(start_paused = true)]
async fn what_is_no_word_is_hung_up_on() {
    let server = Server::in_memory(Config::new());
    for word in [b"none", b"RUOK", b"kill", b"\xff\xff\xff\xff"] {
        assert_eq!(answer(&server, word).await, "");
    }
}

#[tokio::test(start_paused = true)]
async fn a_word_is_one_before_the_handshake_alone() {
    // The server reads the letters as a length, that of a large frame.
    let server = Server::in_memory(Config::new().max_buffer(i32::MAX as usize));
    let mut client = RawClient::open(&server).await;
    client.write(b"ruok").await;
    assert_eq!(client.heard().await, [""; 0]);
    let server = Server::in_memory(Config::new());
    let mut client = RawClient::open(&server).await;
    client.write(b"ruok").await;
    assert_eq!(client.heard().await, ["closed"]);

    let hello = ConnectRequest { read_only: None, ..hello(Duration::from_secs(4)) };
    let mut client = RawClient::connect(&server);
    client.write(&[&b"isro"[..], &framed(&hello)].concat()).await;
    assert_eq!(client.bytes().await, "rw", "and nothing behind it counts");
    assert_eq!(server.sessions().len(), 1);
}
