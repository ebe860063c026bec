//! `zk elect` and `zk sem`: a command in each term, leaders as others see them, and permits.

use rustix::process::Signal;
use zk_client::Client;
use zk_embedded::Server;

use crate::program::{Process, run, start};

/// Prints the number of its process, and runs until its input ends.
const UNTIL_INPUT_ENDS: &str = "echo $$; read line; exit 4";

#[tokio::test]
async fn the_command_runs_again_in_the_next_term() {
    let server = Server::start().await.unwrap();
    let command = ["elect", "/leader", "--", "sh", "-c", UNTIL_INPUT_ENDS];
    let mut candidate = start(&server, &command);
    let first = Process::new(&candidate.line().await);
    // Somebody removes the leader.
    let client = Client::connect(server.address()).await.unwrap();
    let node = format!("/leader/{}", server.children("/leader")[0]);
    client.delete(&node, None).await.unwrap();
    let second = Process::new(&candidate.line().await);
    assert!(!first.is_alive() && second.is_alive());
    // The session of the leader expires.
    let sessions = server.sessions();
    server.expire(
        *sessions.iter().find(|id| Some(**id) != client.session().map(|own| own.id)).unwrap(),
    );
    let third = Process::new(&candidate.line().await);
    assert!(!second.is_alive() && third.is_alive());
    let ended = candidate.end().await;
    assert_eq!((ended.status, ended.errors.lines().count()), (4, 3), "{ended:?}");
    assert_eq!(server.children("/leader"), [""; 0]);
}

#[tokio::test]
async fn an_observer_sees_each_leader_and_its_data() {
    let server = Server::start().await.unwrap();
    let mut observer = start(&server, &["elect", "/leader", "--watch"]);
    let mut machine = start(&server, &["elect", "/leader", "--watch", "--json"]);
    assert_eq!(observer.line().await, "nobody");
    assert_eq!(machine.line().await, "{\"node\":null}");
    let script = ["--", "sh", "-c", "echo $ZK_LOCK_NODE $ZK_LOCK_TOKEN; read line"];
    let mut leader = start(&server, &[&["elect", "/leader", "-d", "a\nn\\"], &script[..]].concat());
    let line = leader.line().await;
    let (node, token) = line.split_once(' ').unwrap();
    assert_eq!(observer.line().await, format!("{node}\ta\\nn\\\\"));
    let object = format!("{{\"node\":\"{node}\",\"token\":\"{token}\",\"data\":\"a\\nn\\\\\"}}");
    assert_eq!(machine.line().await, object);
    leader.end().await;
    assert_eq!(observer.line().await, "nobody");
    for program in [observer, machine] {
        program.signal(Signal::TERM);
        assert_eq!(program.end().await.status, 143);
    }
}

#[tokio::test]
async fn an_election_needs_a_command_or_to_be_watched() {
    let server = Server::start().await.unwrap();
    assert_eq!(run(&server, &["elect", "/leader"]).await.status, 125);
    assert_eq!(run(&server, &["elect", "/leader", "--watch", "--", "true"]).await.status, 125);
}

#[tokio::test]
async fn as_many_commands_run_as_there_are_permits() {
    let server = Server::start().await.unwrap();
    let sem = ["sem", "/sem", "--permits", "2"];
    let hold = [&sem[..], &["--", "sh", "-c", UNTIL_INPUT_ENDS]].concat();
    let (mut first, mut second) = (start(&server, &hold), start(&server, &hold));
    let (_, command) = (first.line().await, Process::new(&second.line().await));
    let third = [&sem[..], &["--try", "--", "true"]].concat();
    assert_eq!(run(&server, &third).await.status, 124);
    let in_time = [&sem[..], &["--wait", "0.05", "--", "true"]].concat();
    assert_eq!(run(&server, &in_time).await.status, 124);
    assert_eq!(first.end().await.status, 4);
    assert_eq!(run(&server, &third).await.status, 0);
    // One permit of the two is free.
    for how in [&["--try"][..], &["--wait", "0.05"]] {
        let both = [&sem[..], &["--take", "2"], how, &["--", "true"]].concat();
        assert_eq!(run(&server, &both).await.status, 124);
    }
    let more = [&sem[..], &["--take", "3", "--", "true"]].concat();
    assert_eq!(run(&server, &more).await.status, 125);
    // A permit is watched over as a lock is.
    second.signal(Signal::KILL);
    command.end();
}
