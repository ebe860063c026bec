//! Whole trees: dumps, loads, and what differs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use zk_client::{Acl, Client, CreateOptions, Id, OpCode, Perms};
use zk_embedded::{Config, Fault, Server};

use crate::program::{Ended, run, start};

/// How the dump of a tree with a node of every kind reads. Servers tell of ephemeral nodes alone.
const DUMP: &str = r#"{"path":"/","kind":"persistent","data":"root","acl":["world:anyone:cdrwa"]}
{"path":"/a","kind":"persistent","data":"","acl":["world:anyone:cdrwa"]}
{"path":"/a/binary","kind":"persistent","data_base64":"/wAK","acl":["world:anyone:cdrwa"]}
{"path":"/a/ü","kind":"persistent","data":"\"\\\n\u0000","acl":["world:anyone:cdrwa"]}
{"path":"/a!","kind":"persistent","data":"","acl":["world:anyone:cdrwa"]}
{"path":"/a!/b","kind":"persistent","data":"","acl":["world:anyone:cdrwa"]}
{"path":"/acl","kind":"persistent","data":"","acl":["world:anyone:r","ip:127.0.0.1:cdrwa"]}
{"path":"/ttl","kind":"persistent","data":"t","acl":["world:anyone:cdrwa"]}
{"end":true,"nodes":8}
"#;

/// Starts a server that knows times to live.
async fn serve() -> Server {
    Server::with(Config::new().extended_types(true)).await.unwrap()
}

async fn make_tree(client: &Client) {
    let persistent = CreateOptions::persistent();
    let list = [Acl::new(Perms::READ, Id::ANYONE), Acl::new(Perms::ALL, Id::ip("127.0.0.1"))];
    for (path, data, options) in [
        ("/t", &b"root"[..], persistent),
        ("/t/acl", b"", persistent.with_acl(&list)),
        ("/t/a!", b"", CreateOptions::container()),
        ("/t/a!/b", b"", persistent),
        ("/t/a", b"", persistent),
        ("/t/a/ü", b"\"\\\n\0", persistent),
        ("/t/a/binary", b"\xff\0\n", persistent),
        ("/t/a/mine", b"", CreateOptions::ephemeral()),
        ("/t/ttl", b"t", persistent.ttl(Duration::from_secs(86400))),
    ] {
        client.create(path, data, &options).await.unwrap();
    }
}

/// Makes a file.
fn write(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn name(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs `zk` to its end, and checks its exit status.
async fn check(server: &Server, status: i32, arguments: &[&str]) -> Ended {
    let ended = run(server, arguments).await;
    assert_eq!(ended.status, status, "{arguments:?}: {ended:?}");
    ended
}

#[tokio::test]
async fn a_tree_is_dumped_and_loaded_elsewhere() {
    let server = serve().await;
    let client = Client::connect(server.address()).await.unwrap();
    make_tree(&client).await;
    let dumped = check(&server, 0, &["dump", "/t"]).await;
    assert_eq!((&*dumped.output, &*dumped.errors), (DUMP, ""));
    let all = check(&server, 0, &["dump", "--ephemerals", "/t"]).await.output;
    let line = "{\"path\":\"/a/mine\",\"kind\":\"ephemeral\",\"data\":\"\",\"acl\":";
    assert!(all.contains(line) && all.ends_with("{\"end\":true,\"nodes\":9}\n"), "{all}");
    let bare = check(&server, 0, &["dump", "--no-acls", "/t"]).await.output;
    assert!(!bare.contains("acl\":[") && bare.contains("{\"path\":\"/acl\","), "{bare}");

    let mut load = start(&server, &["load", "/copies/of/t"]);
    load.input.take().unwrap().write_all(all.as_bytes()).await.unwrap();
    let loaded = load.end().await;
    let summary = "/copies/of/t: 8 created, 1 ephemeral left out\n";
    assert_eq!((loaded.status, &*loaded.output, &*loaded.errors), (0, summary, ""));
    assert_eq!(check(&server, 0, &["dump", "/copies/of/t"]).await.output, DUMP);
    let same = check(&server, 0, &["diff", "zk:///t", "zk:///copies/of/t"]).await;
    assert_eq!((&*same.output, &*same.errors), ("", ""));
    let place = format!("zk://{}/copies/of", server.address());
    check(&server, 1, &["diff", "zk:///t", &place]).await;
    // Loaded again, it changes nothing.
    let folder = tempfile::tempdir().unwrap();
    let file = write(&folder, "dump", DUMP);
    let stat = async || client.get_data("/copies/of/t/a").await.unwrap().stat;
    let before = stat().await;
    let again = check(&server, 0, &["load", "--json", "/copies/of/t", name(&file)]).await.output;
    let counts = "\"created\":0,\"changed\":0,\"deleted\":0,\"equal\":8,\"extra\":0";
    assert!(again.contains(counts), "{again}");
    assert_eq!(stat().await, before);
    check(&server, 1, &["dump", "/missing"]).await;
}

#[tokio::test]
async fn a_whole_server_is_dumped_without_its_own_nodes() {
    let server = serve().await;
    let client = Client::connect(server.address()).await.unwrap();
    make_tree(&client).await;
    let dumped = check(&server, 0, &["dump", "/"]).await.output;
    assert_eq!((dumped.lines().count(), dumped.contains("/zookeeper")), (10, false), "{dumped}");
    let chroot = format!("{}/zookeeper", server.address());
    client.create("/t/zookeeper", b"", &CreateOptions::persistent()).await.unwrap();
    let own = format!("{}/t", server.address());
    let dumped = check(&server, 0, &["dump", "/", "-c", &own]).await.output;
    assert!(dumped.contains("{\"path\":\"/zookeeper\""), "{dumped}");
    assert!(check(&server, 0, &["dump", "/", "-c", &chroot]).await.output.contains("/quota"));
}

#[tokio::test]
async fn a_load_says_what_differs_and_deletes_only_if_it_is_asked() {
    let server = serve().await;
    let client = Client::connect(server.address()).await.unwrap();
    make_tree(&client).await;
    let folder = tempfile::tempdir().unwrap();
    let file = write(&folder, "dump", DUMP);
    let persistent = CreateOptions::persistent();
    // Nodes more, one less, other data, and another list.
    for (path, options) in [
        ("/t/a/x", persistent),
        ("/t/a/x/y", persistent),
        ("/t/a/x/y/z", persistent),
        ("/t/a/kept", persistent),
        ("/t/a/kept/mine", CreateOptions::ephemeral()),
    ] {
        client.create(path, b"", &options).await.unwrap();
    }
    client.delete("/t/a/ü", None).await.unwrap();
    client.set_data("/t/a/binary", b"other", None).await.unwrap();
    client.set_acl("/t/acl", Acl::OPEN, None).await.unwrap();
    let differs = "! /a/binary data\n> /a/kept\n> /a/x\n> /a/x/y\n> /a/x/y/z\n< /a/ü\n\
                   ! /acl acl\n";
    let trees = ["diff", name(&file), "zk:///t"];
    let diff = async |status| check(&server, status, &trees).await.output;
    assert_eq!(diff(1).await, differs);
    let json = check(&server, 1, &["diff", "--json", name(&file), "zk:///t"]).await.output;
    let object = "{\"path\":\"/a/binary\",\"differs\":[\"data\"]}\n\
                  {\"path\":\"/a/kept\",\"only\":\"second\"}\n";
    assert!(json.starts_with(object), "{json}");

    let load = ["load", "/t", name(&file)];
    let plan = check(&server, 0, &[&load[..], &["--dry-run", "--prune"]].concat()).await.output;
    let expected = "change /a/binary data\n> /a/kept\ndelete /a/x/y/z\ndelete /a/x/y\n\
                    delete /a/x\ncreate /a/ü\nchange /acl acl\n\
                    /t: would be 1 created, 2 changed, 3 deleted, 5 equal before, 1 not in the \
                    dump and left\n";
    assert_eq!(plan, expected);
    assert_eq!(diff(1).await, differs, "after the dry run");

    let loaded = check(&server, 0, &load).await.output;
    let expected = "> /a/kept\n> /a/x\n> /a/x/y\n> /a/x/y/z\n\
                    /t: 1 created, 2 changed, 5 equal before, 4 not in the dump and left\n";
    assert_eq!(loaded, expected);
    let pruned = check(&server, 0, &[&load[..], &["--prune"]].concat()).await.output;
    let expected = "> /a/kept\n/t: 3 deleted, 8 equal before, 1 not in the dump and left\n";
    assert_eq!(pruned, expected);
    assert!(client.exists("/t/a/mine").await.unwrap().is_some());
    assert_eq!(diff(1).await, "> /a/kept\n");
}

#[tokio::test]
async fn a_dump_that_is_not_complete_deletes_nothing_behind_its_end() {
    let server = serve().await;
    let client = Client::connect(server.address()).await.unwrap();
    make_tree(&client).await;
    let folder = tempfile::tempdir().unwrap();
    let lines = DUMP.lines().collect::<Vec<_>>();
    for (text, error) in [
        (lines[..5].join("\n"), "ends early"),
        (String::new(), "has no node"),
        (format!("{}\n{}", lines[1], lines[8]), "the first node is not /"),
        ([lines[0], lines[2], lines[1], lines[8]].join("\n"), "line 3: /a comes after /a/binary"),
        (format!("{}\n{{}}", lines[0]), "line 2: there is no \"path\""),
        (format!("{}\nnothing", lines[0]), "line 2: "),
        (lines[0].replace("cdrwa", "q"), "line 1: "),
        (lines[0].replace("persistent", "other"), "line 1: \"other\" is no kind"),
    ] {
        let file = write(&folder, "dump", &text);
        let ended = check(&server, 1, &["load", "--prune", "/t", name(&file)]).await;
        assert!(ended.errors.contains(error), "{error}: {ended:?}");
        check(&server, 2, &["diff", name(&file), "zk:///t"]).await;
    }
    assert_eq!(check(&server, 0, &["dump", "/t"]).await.output, DUMP);
    check(&server, 2, &["diff", "-", "-"]).await;
    check(&server, 2, &["diff", "/missing", "zk:///t"]).await;
    check(&server, 2, &["diff", "zk:///t"]).await;
}

#[tokio::test]
async fn a_load_that_was_killed_is_finished_by_the_next_one() {
    const NODES: usize = 3000;
    let server = serve().await;
    let client = Client::connect(server.address()).await.unwrap();
    let mut dump = "{\"path\":\"/\"}\n".to_owned();
    for number in 0..NODES {
        let path = format!("/{:02}/{number:04}", number / 100);
        if number % 100 == 0 {
            dump += &format!("{{\"path\":\"/{:02}\"}}\n", number / 100);
        }
        dump += &format!("{{\"path\":\"{path}\",\"data\":\"{number}\"}}\n");
    }
    let lines = dump.lines().count();
    dump += &format!("{{\"end\":true,\"nodes\":{lines}}}\n");
    let folder = tempfile::tempdir().unwrap();
    let file = write(&folder, "dump", &dump);
    // It gets half of the dump, and is killed while it waits for more.
    let mut load = start(&server, &["load", "/t"]);
    let half = dump.len() / 2;
    load.input.as_mut().unwrap().write_all(&dump.as_bytes()[..half]).await.unwrap();
    while client.exists("/t/10").await.unwrap().is_none() {
        let (_, mut more) = client.get_children_and_watch("/").await.unwrap();
        tokio::select! {
            event = more.changed() => drop(event.unwrap()),
            () = tokio::task::yield_now() => {}
        }
    }
    load.child.kill().await.unwrap();
    check(&server, 1, &["diff", name(&file), "zk:///t"]).await;
    let loaded = check(&server, 0, &["load", "/t", name(&file)]).await.output;
    assert!(loaded.contains(" created, ") && loaded.contains(" equal before"), "{loaded}");
    assert_eq!(check(&server, 0, &["diff", name(&file), "zk:///t"]).await.output, "");
    assert_eq!(check(&server, 0, &["dump", "/t"]).await.output.lines().count(), lines + 1);
}

#[tokio::test]
async fn a_load_goes_on_after_broken_connections() {
    let server = serve().await;
    let mut dump = "{\"path\":\"/\"}\n".to_owned();
    for number in 0..1000 {
        dump += &format!("{{\"path\":\"/{number:03}\"}}\n{{\"path\":\"/{number:03}/x\"}}\n");
    }
    dump += "{\"end\":true}\n";
    let folder = tempfile::tempdir().unwrap();
    let file = write(&folder, "dump", &dump);
    let faults = [Fault::lose_request, Fault::lose_reply];
    for (number, fault) in (100..1000).step_by(100).zip(faults.iter().cycle()) {
        server.inject(fault().op(OpCode::CREATE2).path(format!("/t/{number}")));
    }
    let ended = check(&server, 0, &["load", "/t", name(&file)]).await;
    assert_eq!(ended.errors, "", "{ended:?}");
    assert_eq!(server.pending_faults(), 0);
    assert_eq!(check(&server, 0, &["diff", "--no-acls", name(&file), "zk:///t"]).await.output, "");
}

#[tokio::test]
async fn kinds_that_servers_do_not_tell_are_loaded_from_an_edited_dump() {
    let config = Config::new().extended_types(true);
    let interval = Duration::from_millis(20);
    let server = Server::with(config.container_check_interval(interval)).await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = write(
        &folder,
        "dump",
        "{\"path\":\"/\",\"kind\":\"container\"}\n\
         {\"path\":\"/a\",\"kind\":\"ttl\",\"ttl_ms\":1}\n{\"end\":true}\n",
    );
    let dry = check(&server, 0, &["load", "-n", "/t", name(&file)]).await.output;
    assert_eq!(dry, "create /\ncreate /a\n/t: would be 2 created\n");
    check(&server, 0, &["load", "/t", name(&file)]).await;
    // The server deletes both by itself, the one below first.
    if let (Some(_), mut gone) = client.exists_and_watch("/t").await.unwrap() {
        gone.changed().await.unwrap();
        assert_eq!(client.exists("/t").await.unwrap(), None);
    }
}

#[tokio::test]
async fn hidden_digests_are_not_dumped_as_if_they_were_real() {
    let server = serve().await;
    let auth = ["--auth", "digest:ann:secret"];
    let list = ["create", "/d", "--acl", "auth::cdrwa,world:anyone:r"];
    check(&server, 0, &[&list[..], &auth].concat()).await;
    let hidden = check(&server, 1, &["dump", "/d"]).await;
    assert!(hidden.errors.contains("hides digest:ann:x"), "{hidden:?}");
    let dumped = check(&server, 0, &[&["dump", "/d"], &auth[..]].concat()).await;
    assert!(dumped.output.contains("\"digest:ann:") && !dumped.output.contains(":x:"));
    check(&server, 0, &["dump", "--no-acls", "/d"]).await;
}

/// A line that is missing in the middle, or was edited wrongly, must not pass for a tree.
#[tokio::test]
async fn a_dump_with_a_hole_or_a_wrong_line_deletes_nothing() {
    let server = Server::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump");
    let load = async |text: &str| {
        std::fs::write(&file, text).unwrap();
        run(&server, &["load", "--prune", "/x", file.to_str().unwrap()]).await
    };
    let whole = "{\"path\":\"/\",\"data\":\"\"}\n{\"path\":\"/a\",\"data\":\"1\"}\n\
                 {\"path\":\"/b\",\"data\":\"2\"}\n{\"end\":true,\"nodes\":3}\n";
    assert_eq!(load(whole).await.status, 0);
    let a = "{\"path\":\"/a\",\"data\":\"1\"}\n";
    let broken = [
        (whole.replace(a, ""), "2 nodes came before it"),
        (whole.replace("\"2\"", "\"2\",\"dada\":\"3\""), "a node has no \"dada\""),
    ];
    for (text, why) in broken {
        let ended = load(&text).await;
        assert_eq!(ended.status, 1, "{ended:?}");
        assert!(ended.errors.contains(why), "{ended:?}");
        assert_eq!(server.children("/x"), ["a", "b"]);
        assert_eq!(server.data("/x/b").unwrap(), "2");
    }
}

/// A pipe can be read only once, whatever its name is.
#[tokio::test]
async fn a_dump_comes_from_a_pipe_too() {
    let server = serve().await;
    let mut load = start(&server, &["load", "--prune", "/x", "/dev/stdin"]);
    load.input.take().unwrap().write_all(DUMP.as_bytes()).await.unwrap();
    let ended = load.end().await;
    assert_eq!(ended.status, 0, "{ended:?}");
    assert_eq!(server.children("/x").len(), 4);
}

/// Both have found that nothing is there.
#[tokio::test]
async fn two_loads_at_the_same_time_lead_to_the_same_end() {
    let server = serve().await;
    let client = Client::connect(server.address()).await.unwrap();
    let mut late = start(&server, &["load", "/t"]);
    let lines = DUMP.split_inclusive('\n').collect::<Vec<_>>();
    let input = late.input.as_mut().unwrap();
    input.write_all(lines[..2].concat().as_bytes()).await.unwrap();
    if let (None, mut made) = client.exists_and_watch("/t").await.unwrap() {
        made.changed().await.unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let other = DUMP.replace("\"/wAK\"", "\"/w==\"").replace("anyone:r\"", "anyone:rw\"");
    let file = write(&folder, "dump", &other);
    check(&server, 0, &["load", "/t", name(&file)]).await;
    client.create("/t/a/mine", b"", &CreateOptions::ephemeral()).await.unwrap();
    late.input.as_mut().unwrap().write_all(lines[2..].concat().as_bytes()).await.unwrap();
    let ended = late.end().await;
    let counts = "/t: 1 created, 2 changed, 5 equal before\n";
    assert_eq!((ended.status, &*ended.output, &*ended.errors), (0, counts, ""));
    assert_eq!(check(&server, 0, &["dump", "/t"]).await.output, DUMP);
}

#[tokio::test]
async fn an_ephemeral_node_in_the_place_of_one_of_the_dump_is_left() {
    let server = serve().await;
    let client = Client::connect(server.address()).await.unwrap();
    client.create("/t", b"root", &CreateOptions::persistent()).await.unwrap();
    client.create("/t/a!", b"mine", &CreateOptions::ephemeral()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = write(&folder, "dump", DUMP);
    // A list that servers hide from the program does not matter here.
    let list =
        [Acl::new(Perms::ALL, Id::digest("ann", "secret")), Acl::new(Perms::READ, Id::ANYONE)];
    client.create("/t/other", b"", &CreateOptions::ephemeral().with_acl(&list)).await.unwrap();
    let ended = check(&server, 1, &["load", "/t", name(&file)]).await;
    assert!(ended.output.starts_with("! /a! kind data\n"), "{ended:?}");
    assert!(ended.output.ends_with("5 created, 1 equal before, 2 failed\n"), "{ended:?}");
    assert!(ended.errors.contains("/t/a!: the node that is there is ephemeral"), "{ended:?}");
    assert_eq!(server.data("/t/a!").unwrap(), "mine");
}

#[tokio::test]
async fn the_servers_own_nodes_are_never_loaded() {
    let server = serve().await;
    let folder = tempfile::tempdir().unwrap();
    let end = "{\"end\":true}\n";
    let root = "{\"path\":\"/\"}\n{\"path\":\"/a\"}\n";
    let harmless = write(&folder, "harmless", &[root, end].concat());
    let own = "{\"path\":\"/zookeeper\"}\n{\"path\":\"/zookeeper/quota\",\"data\":\"x\"}\n";
    let harmful = write(&folder, "harmful", &[root, own, end].concat());
    let chroot = format!("{}/zookeeper", server.address());
    let zxid = server.last_zxid();
    for arguments in [
        &["load", "/zookeeper", name(&harmless)] as &[&str],
        &["load", "/zookeeper/quota/x", name(&harmless)],
        &["load", "/", name(&harmless), "--connect", &chroot],
        &["load", "/x", name(&harmless), "--connect", &chroot],
        &["load", "/", name(&harmful)],
    ] {
        let ended = check(&server, 1, arguments).await;
        assert!(ended.errors.contains("one of the servers' own nodes"), "{ended:?}");
        assert_eq!(server.last_zxid(), zxid, "no session was opened: {arguments:?}");
    }
    // A pipe is not read ahead: what comes before is loaded and counted, and nothing behind it.
    let client = Client::connect(server.address()).await.unwrap();
    for path in ["/0", "/zz"] {
        client.create(path, b"", &CreateOptions::persistent()).await.unwrap();
    }
    let behind = "{\"path\":\"/zz/b\"}\n";
    for count in ["1 created, 1 deleted, 1 equal before", "2 equal before"] {
        let mut load = start(&server, &["load", "--prune", "/"]);
        let lines = [root, own, behind, end].concat();
        load.input.take().unwrap().write_all(lines.as_bytes()).await.unwrap();
        let ended = load.end().await;
        assert_eq!((ended.status, ended.output), (1, format!("/: {count}\n")), "{}", ended.errors);
        let error = "/zookeeper: one of the servers' own nodes";
        assert!(ended.errors.contains(error), "{}", ended.errors);
        assert_eq!(server.children("/"), ["a", "zookeeper", "zz"]);
        assert!(server.children("/zz").is_empty());
        assert_eq!(server.data("/zookeeper/quota").unwrap(), "");
    }
    // Below another node it is a name like any other.
    check(&server, 0, &["load", "/x", name(&harmful)]).await;
    assert_eq!(server.data("/x/zookeeper/quota").unwrap(), "x");
}

#[tokio::test]
async fn what_a_line_lacks_is_left_as_it_is() {
    let server = serve().await;
    let client = Client::connect(server.address()).await.unwrap();
    make_tree(&client).await;
    let folder = tempfile::tempdir().unwrap();
    let lines = "{\"path\":\"/\"}\n{\"path\":\"/acl\",\"data\":\"x\"}\n{\"path\":\"/new\"}\n";
    let file = write(&folder, "dump", &format!("{lines}{{\"end\":true}}\n"));
    let loaded = check(&server, 0, &["load", "/t", name(&file)]).await.output;
    assert!(loaded.contains("/t: 1 created, 1 changed, 1 equal before"), "{loaded}");
    assert_eq!(server.data("/t").unwrap(), "root");
    assert_eq!(server.data("/t/new").unwrap(), "");
    assert_eq!(client.get_acl("/t/acl").await.unwrap().acl.len(), 2);
    let null = write(&folder, "null", &format!("{{\"path\":\"/\",\"data\":null}}\n{lines}"));
    let ended = check(&server, 1, &["load", "/t", name(&null)]).await;
    assert!(ended.errors.contains("line 1: \"data\" is not a text"), "{ended:?}");
}

#[tokio::test]
async fn a_tree_is_drawn() {
    let server = serve().await;
    let client = Client::connect(server.address()).await.unwrap();
    make_tree(&client).await;
    let drawn = check(&server, 0, &["tree", "/t"]).await;
    let expected = "/t\n├── a\n│   ├── binary\n│   ├── mine\n│   └── ü\n├── a!\n│   └── b\n\
                    ├── acl\n└── ttl\n\n9 nodes, 1 of them ephemeral\n";
    assert_eq!((&*drawn.output, &*drawn.errors), (expected, ""));
    let session = client.session().unwrap().id.0;
    let long = check(&server, 0, &["tree", "-l", "-L", "1", "/t"]).await.output;
    let expected = "/t  [data 4, children 4]\n├── a  [data 0, children 3]\n\
                    ├── a!  [data 0, children 1]\n├── acl  [data 0, children 0]\n\
                    └── ttl  [data 1, children 0]\n\n5 nodes\n";
    assert_eq!(long, expected);
    let mine = check(&server, 0, &["tree", "--long", "/t/a/mine"]).await.output;
    assert_eq!(mine, format!("/t/a/mine  [data 0, ephemeral {session:#x}]\n\n1 node\n"));
    let json = check(&server, 0, &["tree", "--json", "--depth", "0", "/t"]).await.output;
    let stat = check(&server, 0, &["stat", "--json", "/t"]).await.output;
    assert_eq!(json, format!("{stat}{{\"end\":true,\"nodes\":1}}\n"));
    let whole = check(&server, 0, &["tree", "/"]).await.output;
    assert!(whole.starts_with("/\n├── t\n│   ├── a\n") && whole.contains("└── zookeeper\n"));
    check(&server, 1, &["tree", "/missing"]).await;
}

#[tokio::test]
async fn a_drawing_goes_on_where_nodes_are_hidden() {
    let server = serve().await;
    let client = Client::connect(server.address()).await.unwrap();
    let hidden = [Acl::new(Perms::CREATE, Id::ANYONE)];
    let persistent = CreateOptions::persistent();
    client.create("/t", b"", &persistent).await.unwrap();
    client.create("/t/a", b"", &persistent.with_acl(&hidden)).await.unwrap();
    client.create("/t/a/b", b"", &persistent).await.unwrap();
    client.create("/t/c", b"", &persistent).await.unwrap();
    let drawn = check(&server, 1, &["tree", "/t"]).await.output;
    let expected = "/t\n├── a  [hidden from this client, see --auth]\n└── c\n\n3 nodes\n";
    assert_eq!(drawn, expected);
    check(&server, 1, &["dump", "/t"]).await;
}
