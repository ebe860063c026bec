//! Ensembles: their members, and the commands for them.

use zk_client::{Client, CreateOptions, SessionState};

use crate::program::{Program, exchange, read, soon};

/// A client of one member.
async fn client(address: &str) -> Client {
    soon(Client::connect(address)).await.unwrap()
}

#[tokio::test]
async fn each_member_has_its_port_and_its_own_view() {
    let mut program = Program::start(&["--members", "3", "--history"]).await;
    let addresses = program.address.clone();
    let addresses: Vec<_> = addresses.split(',').collect();
    assert_eq!(addresses.len(), 3, "{addresses:?}");
    assert_eq!(program.value("leader").await, "0");
    let (writer, reader) = (client(addresses[0]).await, client(addresses[1]).await);

    program.tell("at 1 lag never").await;
    let (_, zxid) =
        soon(writer.create("/a", b"", &CreateOptions::persistent()).with_zxid()).await.unwrap();
    assert!(soon(reader.exists("/a")).await.unwrap().is_none());
    assert_eq!(program.value("exists /a").await, "true");
    assert_eq!(program.value("at 1 exists /a").await, "false");
    assert_eq!(program.value("at 0 zxid").await, zxid.to_string());
    program.tell("at 1 catch-up").await;
    assert!(soon(reader.exists("/a")).await.unwrap().is_some());
    assert_eq!(program.value("at 1 zxid").await, zxid.to_string());
    assert!(program.value("history").await.ends_with(",created,/a"));
    program.end().await;
}

#[tokio::test]
async fn a_session_moves_when_its_member_stops_and_lives_through_an_election() {
    let mut program = Program::start(&["--members", "3"]).await;
    let client = program.client().await;
    client.create("/a", b"one", &CreateOptions::ephemeral()).await.unwrap();
    let session = program.value("sessions").await;
    for member in ["1", "2", "0"] {
        program.tell(&format!("at {member} elect")).await;
        assert_eq!(program.value("leader").await, member);
        assert_eq!(&read(&client, "/a").await[..], b"one");
    }
    for member in ["1", "2"] {
        program.tell(&format!("at {member} stop")).await;
        assert_eq!(&read(&client, "/a").await[..], b"one");
        program.tell(&format!("at {member} start")).await;
    }
    program.tell("at 0 stop").await;
    let nobody = program.ask("leader").await;
    assert!(nobody.starts_with("error no member leads"), "{nobody}");
    program.tell("at 0 start").await;
    program.tell("at 0 elect").await;
    assert_eq!(program.value("leader").await, "0");
    assert_eq!(program.value("sessions").await, session);
    // The client is connected again from here on.
    assert_eq!(&read(&client, "/a").await[..], b"one");
    program.tell(&format!("disconnect {session}")).await;
    assert_eq!(&read(&client, "/a").await[..], b"one");

    program.tell("at 1 stop").await;
    program.tell("at 2 cut").await;
    let refused = program.ask("at 0 elect").await;
    assert!(refused.starts_with("error the member cannot lead"), "{refused}");
    program.tell("at 1 heal").await;
    program.tell("at 2 heal").await;
    program.tell("at 0 elect").await;
    program.tell(&format!("expire {session}")).await;
    let mut states = client.states();
    soon(states.wait_for(|state| *state == SessionState::Expired)).await.unwrap();
    program.end().await;
}

#[tokio::test]
async fn a_fault_strikes_at_its_member_alone() {
    let mut program = Program::start(&["--members", "2"]).await;
    let addresses = program.address.clone();
    let (first, second) = addresses.split_once(',').unwrap();
    let (first, second) = (client(first).await, client(second).await);
    program.tell("at 1 refuse ThrottledOp op=exists").await;
    program.tell("at 1 delay 1").await;
    assert_eq!(program.value("at 1 pending").await, "2");
    assert_eq!(program.value("at 0 pending").await, "0");
    assert!(soon(first.exists("/")).await.is_ok());
    assert!(soon(second.exists("/")).await.is_err());
    program.tell("at 1 clear").await;
    assert_eq!(program.value("at 1 pending").await, "0");
    program.end().await;
}

#[tokio::test]
async fn its_members_are_on_the_ports_behind_the_first() {
    // Ports that nobody has now. Another program may take one, so try again then.
    for _ in 0..20 {
        let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        drop(taken);
        let arguments = ["--members", "2", "--port", &port.to_string()];
        let Some(program) = Program::try_start(&arguments).await else { continue };
        let expected = format!("127.0.0.1:{port},127.0.0.1:{}", port + 1);
        assert_eq!(program.address, expected);
        for address in expected.split(',') {
            assert_eq!(exchange(address, b"ruok").await, "imok");
        }
        return program.end().await;
    }
    panic!("no two ports in a row are free");
}

#[tokio::test]
async fn what_is_for_all_members_is_refused_at_one() {
    let mut program = Program::start(&["--members", "3", "--history"]).await;
    let commands = ["expire 0x1", "disconnect 0x1", "sessions", "history", "leader", "quit"];
    for command in commands.into_iter().chain(["read-only on"]) {
        let answer = program.ask(&format!("at 0 {command}")).await;
        assert_eq!(answer, "error this is not for one member", "{command}");
    }
    program.end().await;
}

#[tokio::test]
async fn without_a_quorum_it_serves_reads_if_it_is_told_to() {
    let times = ["--local-sessions", "--tick", "10", "--max-session-timeout", "30000"];
    let mut program = Program::start(&[&["--members", "3"][..], &times].concat()).await;
    for command in ["read-only on", "at 1 stop", "at 2 stop"] {
        program.tell(command).await;
    }
    let client = Client::builder().allow_read_only(true);
    let client = soon(client.connect(&program.address)).await.unwrap();
    assert_eq!(*client.states().borrow(), SessionState::ConnectedReadOnly);
    assert!(soon(client.exists("/")).await.unwrap().is_some());
    program.end().await;
}
