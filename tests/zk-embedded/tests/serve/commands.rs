//! Commands: each does to clients what it says, and answers one line.

use zk_client::{CreateOptions, Outcome, SessionState};

use crate::program::{Program, exchange, read, soon};

#[tokio::test]
async fn faults_strike_the_requests_that_they_wait_for() {
    let mut program = Program::start(&[]).await;
    let client = program.client().await;
    for path in ["/a", "/b", "/a b"] {
        client.create(path, b"0", &CreateOptions::persistent()).await.unwrap();
    }
    program.tell("lose-reply op=setData path=/a%20b after=1").await;
    assert_eq!(program.value("pending").await, "1");
    client.set_data("/a", b"1", None).await.unwrap();
    client.set_data("/a b", b"1", None).await.unwrap();
    let error = soon(client.set_data("/a b", b"2 %", None)).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown);
    assert_eq!(program.value("pending").await, "0");
    assert_eq!(program.value("data /a%20b").await, "2%20%25");

    program.tell("refuse ThrottledOp op=exists").await;
    assert!(soon(client.exists("/a")).await.is_err());
    program.tell("lose-request op=setData").await;
    assert!(soon(client.set_data("/a", b"lost", None)).await.is_err());
    assert_eq!(program.value("data /a").await, "1");
    read(&client, "/a").await;
    program.tell("expire-session path=/b").await;
    assert!(soon(client.get_data("/b")).await.unwrap_err().is_session_over());
    assert_eq!(program.value("sessions").await, "");
    program.end().await;
}

#[tokio::test]
async fn questions_are_answered() {
    let mut program = Program::start(&["--history"]).await;
    let client = program.client().await;
    let session = program.value("sessions").await;
    assert_eq!(session, client.session().unwrap().id.to_string());
    client.create("/a", b"one", &CreateOptions::persistent()).await.unwrap();
    client.create("/a/x y", b"", &CreateOptions::ephemeral()).await.unwrap();
    client.set_data("/a", b"four", None).await.unwrap();

    assert_eq!(program.value("exists /a").await, "true");
    assert_eq!(program.value("exists /b").await, "false");
    assert_eq!(program.value("children /a").await, "x%20y");
    assert_eq!(program.value("children /a/x%20y").await, "");
    assert_eq!(program.ask("children /b").await, "error no node at /b");
    assert_eq!(program.value("data /a").await, "four");
    assert_eq!(program.value("zxid").await, "0x4");
    let stat = program.value("stat /a").await;
    let expected = [
        "czxid=0x2",
        "mzxid=0x4",
        "version=1",
        "cversion=1",
        "aversion=0",
        "ephemeralOwner=0x0",
        "dataLength=4",
        "numChildren=1",
        "pzxid=0x3",
    ];
    let times = |word: &&str| word.starts_with("ctime=") || word.starts_with("mtime=");
    let words: Vec<_> = stat.split(' ').filter(|word| !times(word)).collect();
    assert_eq!(words, expected);

    let history = program.value("history").await;
    let expected =
        format!("0x2,{session},created,/a 0x3,{session},created,/a/x%20y 0x4,{session},dataSet,/a");
    assert_eq!(history, expected);
    assert_eq!(program.value("history 0x3").await, format!("0x4,{session},dataSet,/a"));

    let (_, _watcher) = client.get_data_and_watch("/a").await.unwrap();
    assert_eq!(program.value("watches").await, format!("{session},data,/a"));
    program.end().await;
}

#[tokio::test]
async fn the_server_stops_and_starts_with_its_data_and_its_sessions() {
    let mut program = Program::start(&[]).await;
    let client = program.client().await;
    client.create("/a", b"one", &CreateOptions::ephemeral()).await.unwrap();
    let session = program.value("sessions").await;
    let mut states = client.states();
    program.tell("stop").await;
    soon(states.wait_for(|state| *state == SessionState::Disconnected)).await.unwrap();
    assert_eq!(program.value("exists /a").await, "true");
    program.tell("start").await;
    assert_eq!(&read(&client, "/a").await[..], b"one");
    assert_eq!(program.value("sessions").await, session);

    program.tell(&format!("disconnect {session}")).await;
    read(&client, "/a").await;
    program.tell("disconnect-all").await;
    read(&client, "/a").await;
    program.tell(&format!("expire {session}")).await;
    assert_eq!(program.value("exists /a").await, "false");
    soon(states.wait_for(|state| *state == SessionState::Expired)).await.unwrap();
    let answer = program.ask(&format!("expire {session}")).await;
    assert_eq!(answer, format!("error session {session} is over, or has no connection"));
    program.end().await;
}

#[tokio::test]
async fn counters_are_preset_and_containers_reaped() {
    let mut program = Program::start(&[]).await;
    let client = program.client().await;
    client.create("/q", b"", &CreateOptions::persistent()).await.unwrap();
    program.tell("sequence /q 2147483646").await;
    let created =
        client.create("/q/n-", b"", &CreateOptions::persistent().sequential()).await.unwrap();
    assert_eq!(created.path, "/q/n-2147483646");
    program.tell("version /q 2147483647").await;
    assert_eq!(client.set_data("/q", b"", None).await.unwrap().version, i32::MIN);
    assert_eq!(program.ask("version /none 1").await, "error no node at /none");

    client.create("/box", b"", &CreateOptions::container()).await.unwrap();
    client.create("/box/a", b"", &CreateOptions::persistent()).await.unwrap();
    client.delete("/box/a", None).await.unwrap();
    program.tell("reap").await;
    assert_eq!(program.value("exists /box").await, "false");
    program.end().await;
}

#[tokio::test]
async fn connections_for_commands_are_answered_and_end_at_what_is_no_command() {
    let mut program = Program::start(&["--control", "0"]).await;
    let control = program.announced("control on ").await;
    let post = b"POST / HTTP/1.1\r\n\r\nquit\n";
    assert_eq!(exchange(&control, post).await, "error no command POST, see help\n");
    assert_eq!(program.value("exists /").await, "true");
    assert_eq!(exchange(&control, b"zxid\nquit\nzxid\n").await, "ok 0x0\nok\n");
    program.ended(Some(0)).await;
}

#[tokio::test]
async fn quit_ends_it() {
    let mut program = Program::start(&[]).await;
    assert_eq!(program.ask("quit now").await, "error usage: quit");
    program.tell("quit").await;
    program.ended(Some(0)).await;
}
