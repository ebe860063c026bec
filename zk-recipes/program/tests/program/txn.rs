//! `zk txn`: all operations of a transaction or none.

use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use zk_client::{Client, CreateOptions, OpCode};
use zk_embedded::{Config, Fault, Server};

use crate::program::{Ended, run, start};

/// A server with the nodes `/a` and `/b`, and a folder for files.
struct Place {
    server: Server,
    folder: TempDir,
}

impl Place {
    async fn new() -> Self {
        let server = Server::with(Config::new().extended_types(true)).await.unwrap();
        let client = Client::connect(server.address()).await.unwrap();
        for path in ["/a", "/b"] {
            client.create(path, b"old", &CreateOptions::persistent()).await.unwrap();
        }
        client.close().await;
        Self { server, folder: tempfile::tempdir().unwrap() }
    }

    /// Runs `zk txn` on a file of these lines.
    async fn run(&self, lines: impl AsRef<[u8]>, options: &[&str]) -> Ended {
        let file = self.folder.path().join("changes");
        std::fs::write(&file, lines).unwrap();
        run(&self.server, &[&["txn", file.to_str().unwrap()], options].concat()).await
    }

    /// Checks that it fails with this status and one line on stderr, and that nothing was changed.
    async fn check_refused(&self, status: i32, lines: &str, why: &str) {
        let before = self.server.last_zxid();
        let ended = self.run(lines, &[]).await;
        assert_eq!((ended.status, &*ended.output), (status, ""), "{ended:?}");
        assert_eq!(ended.errors.lines().count(), 1, "{ended:?}");
        assert!(ended.errors.contains(why) && ended.errors.contains("changed"), "{why}: {ended:?}");
        assert_eq!(self.server.children("/"), ["a", "b", "zookeeper"], "{lines}");
        for path in ["/a", "/b"] {
            assert_eq!(self.server.data(path).unwrap(), "old", "{lines}");
        }
        // A refused transaction has a number as well, and so have sessions.
        assert!(self.server.last_zxid().0 - before.0 <= 3, "{lines}");
    }
}

#[tokio::test]
async fn all_operations_are_carried_out_in_their_order() {
    let place = Place::new().await;
    let mut txn = start(&place.server, &["txn"]);
    let lines = "# A comment, an empty line, CRLF, and no end of the last line.\r\n\r\n\
                 check /a\r\nset --version 0 /a 'new data'\n  check -v 1 /a\n\
                 create --ttl 1000 /c \"\\x00\\xff\\n\"\ncreate --acl world:anyone:r /c/d\n\
                 create --sequential /c/n- x\nrm /b\ncreate --container '/b' -- -1";
    txn.input.take().unwrap().write_all(lines.as_bytes()).await.unwrap();
    let ended = txn.end().await;
    let created = "/c\n/c/d\n/c/n-0000000001\n/b\n";
    assert_eq!((ended.status, &*ended.output, &*ended.errors), (0, created, ""));
    let data = |path| place.server.data(path).unwrap();
    assert_eq!(data("/a"), "new data");
    assert_eq!(data("/c"), &b"\x00\xff\n"[..]);
    assert_eq!((data("/c/d"), data("/b")), ("".into(), "-1".into()));
    let list = run(&place.server, &["acl", "/c/d"]).await.output;
    assert_eq!(list, "world:anyone:r\n");
    assert_eq!(place.server.sessions(), []);
}

#[tokio::test]
async fn json_is_an_object_an_operation() {
    let place = Place::new().await;
    let lines = "check /a\n\ncreate /c\nset /c x\nrm /c\n";
    let ended = place.run(lines, &["--json"]).await;
    let objects = ended.output.lines().map(|line| serde_json::from_str(line).unwrap());
    let objects = objects.collect::<Vec<serde_json::Value>>();
    let czxid = place.server.last_zxid().0 - 1;
    assert_eq!(objects[0], json!({"line": 1, "op": "check", "path": "/a"}));
    assert_eq!(objects[1], json!({"line": 3, "op": "create", "path": "/c", "czxid": czxid}));
    assert_eq!((&objects[2]["op"], &objects[2]["stat"]["version"]), (&"set".into(), &1.into()));
    assert_eq!((&objects[3]["op"], &objects[3]["deleted"]), (&"rm".into(), &1.into()));
    assert_eq!(objects.len(), 4);

    // A dry run asks no server.
    let dry = place.run("rm /a\nset /b ''", &["--dry-run", "-c", "127.0.0.1:1"]).await;
    assert_eq!((dry.status, &*dry.output, &*dry.errors), (0, "rm /a\nset /b\n", ""));
    let dry = place.run("rm /a", &["-n", "-j", "-c", "127.0.0.1:1"]).await;
    assert_eq!(dry.output, "{\"would\":\"rm\",\"path\":\"/a\"}\n");
    assert_eq!(place.server.data("/a").unwrap(), "old");
}

#[tokio::test]
async fn a_refused_operation_is_named_and_nothing_is_changed() {
    let place = Place::new().await;
    for (lines, why) in [
        ("set /a new\n\ncheck --version 7 /b", "changes, line 3: check /b: "),
        ("set /a new\nset -v 1 /b x", "line 2: setData /b: "),
        ("rm /a\n# \ncreate /b", "line 3: create /b: "),
        ("create /c\ncreate /d/e", "see zk create --parents"),
        ("rm /b\ncheck /b", "line 2: check /b: "),
        ("rm /a\nrm /", "line 2"),
    ] {
        place.check_refused(1, lines, why).await;
    }
}

#[tokio::test]
async fn a_line_that_cannot_be_read_is_named_and_nothing_is_sent() {
    let place = Place::new().await;
    for (line, why) in [
        ("delete /a", "line 2: unrecognized subcommand 'delete'"),
        ("set /a", "required arguments were not provided: <DATA>"),
        ("set /a b c", "unexpected argument 'c'"),
        ("set /a -1", "use '-- -1'"),
        ("rm --recursive /a", "unexpected argument '--recursive'"),
        ("create --parents /x/y", "unexpected argument '--parents'"),
        ("create --container --ttl 1 /c", "cannot be used with"),
        ("create --acl none /c", "is not SCHEME:ID:PERMISSIONS"),
        ("rm -v x /a", "invalid value 'x'"),
        ("create --help", "unexpected argument '--help'"),
        ("help", "unrecognized subcommand 'help'"),
        ("rm a", "path \"a\": "),
        ("rm /a/", "path \"/a/\": "),
        ("create -s x", "path \"x\": "),
        ("set /a 'b", "a ' has no other one"),
        ("set /a #b", "a comment has a line of its own"),
        ("set /a b\\ c", "a backslash"),
    ] {
        place.check_refused(1, &format!("set /a new\n{line}"), why).await;
    }
    place.check_refused(1, "set /a new\nrm \"\\xff\"", "line 2: ").await;
    let empty = place.run("\n# nothing\n", &[]).await;
    assert_eq!(empty.status, 1, "{empty:?}");
    assert!(empty.errors.contains("has no operation"), "{empty:?}");
    let missing = run(&place.server, &["txn", "/missing"]).await;
    assert_eq!(missing.status, 1, "{missing:?}");
}

/// A request that is larger than servers take would end the connection.
#[tokio::test]
async fn what_does_not_fit_one_request_is_refused_with_the_limit() {
    let place = Place::new().await;
    let line = format!("set /a {}\n", "x".repeat(600_000));
    place.check_refused(1, &[&*line, &*line].concat(), "line 2: the operations up to here").await;
    // One that is too large by what is sent beside the words.
    let line = format!("set /a {}\n", "x".repeat(1_048_575 - 8));
    place.check_refused(1, &line, "above the limit of 1048575; see --max-request").await;
    let small = place.run("set /a 0123456789", &["--max-request", "40"]).await;
    assert!(small.errors.contains("above the limit of 40"), "{small:?}");
}

#[tokio::test]
async fn an_unknown_outcome_is_told() {
    let place = Place::new().await;
    for (fault, data) in [(Fault::lose_request(), "old"), (Fault::lose_reply(), "new")] {
        place.server.inject(fault.op(OpCode::MULTI));
        let ended = place.run("set /a new\nset /b new", &[]).await;
        assert_eq!((ended.status, &*ended.output), (3, ""), "{ended:?}");
        assert!(
            ended.errors.contains("it is not known whether the changes were made"),
            "{ended:?}"
        );
        assert_eq!(place.server.data("/b").unwrap(), data);
    }
}
