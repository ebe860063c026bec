//! The subcommands that read and write nodes: what they print, and how they fail.

use std::pin::pin;
use std::process::Stdio;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::process::Command;
use zk_client::{Client, CreateOptions};
use zk_embedded::Server;

use crate::program::{Ended, run, start};

/// Checks that `zk` succeeds and prints this.
async fn check(server: &Server, arguments: &[&str], output: &str) {
    let ended = run(server, arguments).await;
    let expected = Ended { status: 0, output: output.to_owned(), errors: String::new() };
    assert_eq!(ended, expected, "{arguments:?}");
}

/// Checks that `zk` fails with one line on stderr that contains this.
async fn check_error(server: &Server, arguments: &[&str], status: i32, error: &str) {
    let ended = run(server, arguments).await;
    assert_eq!((ended.status, &*ended.output), (status, ""), "{ended:?}");
    assert_eq!(ended.errors.lines().count(), 1, "{ended:?}");
    assert!(ended.errors.starts_with("zk: ") && ended.errors.contains(error), "{ended:?}");
}

#[tokio::test]
async fn nodes_are_written_read_and_deleted() {
    let server = Server::start().await.unwrap();
    check(&server, &["create", "/a", "one"], "/a\n").await;
    check(&server, &["create", "-p", "/b/c/d"], "/b/c/d\n").await;
    check(&server, &["create", "-s", "/b/n-"], "/b/n-0000000001\n").await;
    check(&server, &["get", "/a"], "one\n").await;
    check(&server, &["set", "-v", "0", "/a", "two"], "").await;
    check(&server, &["get", "/a"], "two\n").await;
    check(&server, &["ls", "/b"], "c\nn-0000000001\n").await;
    check(&server, &["ls", "-R", "/b"], "/b\n/b/c\n/b/n-0000000001\n/b/c/d\n").await;
    check(&server, &["rm", "-v", "1", "/a"], "").await;
    check(&server, &["rm", "-r", "/b"], "").await;
    check(&server, &["ls", "/"], "zookeeper\n").await;
    assert_eq!(server.sessions(), []);
}

#[tokio::test]
async fn json_is_an_object_a_line() {
    let server = Server::start().await.unwrap();
    check(&server, &["create", "-j", "/a", "x"], "{\"path\":\"/a\",\"czxid\":2}\n").await;
    check(&server, &["ls", "-j", "/a"], "").await;
    check(&server, &["create", "/a/b"], "/a/b\n").await;
    check(&server, &["ls", "-j", "/a"], "{\"name\":\"b\",\"path\":\"/a/b\"}\n").await;
    let acl = "{\"scheme\":\"world\",\"id\":\"anyone\",\"perms\":\"cdrwa\"}\n";
    check(&server, &["acl", "-j", "/a"], acl).await;
    check(&server, &["rm", "-jr", "/a/b"], "{\"path\":\"/a/b\",\"deleted\":1}\n").await;

    let client = Client::connect(server.address()).await.unwrap();
    let stat = client.get_data("/a").await.unwrap().stat;
    let stat = format!(
        "{{\"czxid\":{},\"ctime\":{},\"mzxid\":{},\"mtime\":{},\"pzxid\":{},\"cversion\":2,\
         \"version\":0,\"aversion\":0,\"ephemeral_owner\":\"0x0\",\"data_length\":1,\
         \"num_children\":0}}",
        stat.czxid.0, stat.ctime, stat.mzxid.0, stat.mtime, stat.pzxid.0
    );
    let node = format!("{{\"path\":\"/a\",\"data\":\"x\",\"stat\":{stat}}}\n");
    check(&server, &["get", "-j", "/a"], &node).await;
    check(&server, &["stat", "-j", "/a"], &format!("{{\"path\":\"/a\",\"stat\":{stat}}}\n")).await;
}

#[tokio::test]
async fn the_metadata_is_printed_as_zkcli_prints_it() {
    let server = Server::start().await.unwrap();
    check(&server, &["create", "/a", "abc"], "/a\n").await;
    let ended = run(&server, &["stat", "/a"]).await;
    let without_times = ended.output.lines().filter(|line| !line.contains("time"));
    let expected = [
        "cZxid = 0x2",
        "mZxid = 0x2",
        "pZxid = 0x2",
        "cversion = 0",
        "dataVersion = 0",
        "aclVersion = 0",
        "ephemeralOwner = 0x0",
        "dataLength = 3",
        "numChildren = 0",
    ];
    assert_eq!(without_times.collect::<Vec<_>>(), expected);
    let both = run(&server, &["get", "-s", "/a"]).await;
    assert_eq!(both.output, format!("abc\n{}", ended.output));
}

#[tokio::test]
async fn data_is_passed_on_byte_for_byte() {
    let server = Server::start().await.unwrap();
    let mut create = start(&server, &["create", "--stdin", "/a"]);
    create.input.take().unwrap().write_all(b"\xff\x00\n").await.unwrap();
    assert_eq!(create.end().await.status, 0);
    let client = Client::connect(server.address()).await.unwrap();
    assert_eq!(&client.get_data("/a").await.unwrap().data[..], b"\xff\x00\n");
    let mut get = Command::new(env!("CARGO_BIN_EXE_zk"));
    let get = get.args(["get", "/a", "-c", server.address()]).output().await.unwrap();
    assert_eq!(get.stdout, b"\xff\x00\n");
    let json = run(&server, &["get", "-j", "/a"]).await;
    assert!(json.output.contains("\"data_hex\":\"ff000a\""), "{json:?}");
}

#[tokio::test]
async fn an_access_list_is_replaced_and_obeyed() {
    let server = Server::start().await.unwrap();
    check(&server, &["create", "/a", "--acl", "world:anyone:ra"], "/a\n").await;
    check(&server, &["acl", "/a"], "world:anyone:ra\n").await;
    check_error(&server, &["set", "/a", "x"], 1, "/a: ").await;
    let list = "ip:127.0.0.1:cdrwa,world:anyone:r";
    check(&server, &["acl", "/a", "--set", list, "-v", "0"], "").await;
    check(&server, &["acl", "/a"], "ip:127.0.0.1:cdrwa\nworld:anyone:r\n").await;
    check(&server, &["set", "/a", "x"], "").await;
    let auth = ["--auth", "digest:ann:secret", "create", "/b", "--acl", "auth::cdrwa"];
    let auth = [&auth[2..], &auth[..2]].concat();
    check(&server, &auth, "/b\n").await;
    check_error(&server, &["get", "/b"], 1, "/b: ").await;
    check(&server, &["get", "/b", "--auth", "digest:ann:secret"], "").await;
}

#[tokio::test]
async fn a_failure_is_one_sentence_and_a_status() {
    let server = Server::start().await.unwrap();
    for subcommand in ["get", "ls", "stat", "rm", "acl"] {
        check_error(&server, &[subcommand, "/none"], 1, "/none: ").await;
    }
    check_error(&server, &["create", "/none/child"], 1, "see zk create --parents").await;
    check_error(&server, &["get", "no path"], 1, "no path: ").await;
    check(&server, &["create", "/a"], "/a\n").await;
    check_error(&server, &["create", "/a"], 1, "/a: ").await;
    check_error(&server, &["set", "-v", "7", "/a", "x"], 1, "/a: ").await;
    check_error(&server, &["rm", "-v", "7", "/a"], 1, "/a: ").await;
    let nobody = ["get", "/a", "-c", "127.0.0.1:1", "--connect-timeout", "0.1"];
    check_error(&server, &nobody, 1, "127.0.0.1:1").await;
    for wrong in [&["get"] as &[&str], &["set", "/a"], &["nothing"], &["acl", "/a", "--set", "x"]] {
        assert_eq!(run(&server, wrong).await.status, 2, "{wrong:?}");
    }
}

#[tokio::test]
async fn a_reader_that_has_gone_ends_the_program_in_silence() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    client.create("/a", b"", &CreateOptions::persistent()).await.unwrap();
    let mut watch = start(&server, &["watch", "/a"]);
    assert_eq!(watch.line().await, "Armed /a");
    drop(watch.output);
    // A program that another test starts in this moment has a copy of the pipe until it runs, so
    // that one more line may be written without an error.
    let mut ended = pin!(watch.child.wait_with_output());
    let ended = loop {
        tokio::select! {
            ended = &mut ended => break ended.unwrap(),
            set = client.set_data("/a", b"x", None) => set.unwrap(),
        };
    };
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), &b""[..]));
}

#[tokio::test]
async fn changes_are_printed_as_they_happen() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    client.create("/a", b"", &CreateOptions::persistent()).await.unwrap();
    let mut once = start(&server, &["watch", "--once", "/a"]);
    let mut all = start(&server, &["watch", "-jR", "/a"]);
    assert_eq!(once.line().await, "Armed /a");
    assert_eq!(all.line().await, "{\"event\":\"Armed\",\"path\":\"/a\"}");
    client.create("/a/b", b"", &CreateOptions::persistent()).await.unwrap();
    client.set_data("/a", b"x", None).await.unwrap();
    assert_eq!(all.line().await, "{\"event\":\"NodeCreated\",\"path\":\"/a/b\"}");
    assert_eq!(all.line().await, "{\"event\":\"NodeDataChanged\",\"path\":\"/a\"}");
    assert_eq!(once.end().await.output, "NodeChildrenChanged /a\n");
    all.signal(rustix::process::Signal::TERM);
    assert_eq!(all.end().await.status, 143);
}

#[tokio::test]
async fn each_server_answers_a_word() {
    let server = Server::start().await.unwrap();
    check(&server, &["words", "ruok"], "imok\n").await;
    let object = format!("{{\"server\":\"{}\",\"answer\":\"imok\"}}\n", server.address());
    check(&server, &["words", "-j", "ruok"], &object).await;
    check_error(&server, &["words", "hello"], 1, "hello").await;

    // One that does not answer this word.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let refusing = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        let answer = b"ruok is not executed because it is not in the whitelist.\n";
        connection.write_all(answer).await.unwrap();
    };
    let words = ["words", "ruok", "-c", &address];
    let (asked, ()) = tokio::join!(run(&server, &words), refusing);
    assert_eq!((asked.status, &*asked.output), (1, ""), "{asked:?}");
    assert!(asked.errors.contains("not in the whitelist"), "{asked:?}");
}

#[tokio::test]
async fn every_shell_has_a_script_and_every_subcommand_has_help() {
    let server = Server::start().await.unwrap();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ended = run(&server, &["completion", shell]).await;
        assert!(ended.output.contains("conflict-exit-code"), "{shell}");
    }
    let bash = Command::new("bash")
        .args(["-n", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut bash = bash.unwrap();
    let script = run(&server, &["completion", "bash"]).await.output;
    bash.stdin.take().unwrap().write_all(script.as_bytes()).await.unwrap();
    let ended = bash.wait_with_output().await.unwrap();
    assert!(ended.status.success(), "{ended:?}");
    for subcommand in [
        "lock", "elect", "sem", "who", "get", "set", "create", "txn", "ls", "tree", "stat",
        "watch", "rm", "acl", "dump", "load", "diff", "words",
    ] {
        let help = run(&server, &[subcommand, "--help"]).await;
        assert!(help.status == 0 && help.output.contains("--connect"), "{help:?}");
        let runs_a_command = ["lock", "elect", "sem"].contains(&subcommand);
        assert_eq!(help.output.contains("Exit status:\n  that of the command"), runs_a_command);
        // A leader that loses goes on as a candidate.
        let may_lose = ["lock", "sem"].contains(&subcommand);
        assert_eq!(help.output.contains("123  it was lost"), may_lose, "{help:?}");
    }
}
