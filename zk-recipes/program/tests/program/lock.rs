//! `zk lock`: exclusion, exit statuses, and the end of the command in time.

use std::time::Duration;

use rustix::process::Signal;
use zk_client::Client;
use zk_embedded::{Config, Manner, Server};
use zk_recipes::Lock;

use crate::program::{Ended, Process, Program, run, start, start_program};

/// Prints the number of its process, and runs until it is asked to stop.
pub(crate) const UNTIL_STOPPED: &str =
    "trap 'echo stopped; exit 0' TERM; echo $$; sleep 1000 & wait";

/// A server whose sessions can be short.
async fn server() -> Server {
    Server::with(Config::new().tick_time(Duration::from_millis(100))).await.unwrap()
}

/// Starts a program that holds the lock until it is asked to stop. Returns it, and the
/// process of its command.
async fn hold(server: &Server, options: &[&str]) -> (Program, Process) {
    let command = ["/lock", "--", "sh", "-c", UNTIL_STOPPED];
    let mut program = start(server, &[&["lock"], options, &command].concat());
    let command = Process::new(&program.line().await);
    (program, command)
}

/// Checks the exit status of `zk lock` with these arguments.
#[track_caller]
fn check_status(status: i32, ended: Ended) {
    assert_eq!(ended.status, status, "{ended:?}");
    // What went wrong is one line.
    assert_eq!(
        ended.errors.lines().count(),
        usize::from((123..128).contains(&status)),
        "{ended:?}"
    );
}

#[tokio::test]
async fn the_exit_status_is_that_of_the_command_or_tells_why_there_is_none() {
    let server = server().await;
    let sh = |script| ["lock", "/lock", "--", "sh", "-c", script];
    check_status(0, run(&server, &sh("exit 0")).await);
    check_status(7, run(&server, &sh("exit 7")).await);
    check_status(143, run(&server, &sh("kill -TERM $$")).await);
    check_status(137, run(&server, &sh("kill -KILL $$")).await);
    check_status(127, run(&server, &["lock", "/lock", "--", "/no/such/program"]).await);
    check_status(126, run(&server, &["lock", "/lock", "--", "/"]).await);
    check_status(125, run(&server, &["lock", "no path", "--", "true"]).await);
    let nobody = ["lock", "-c", "127.0.0.1:1", "--connect-timeout", "0.1", "/lock", "--", "true"];
    check_status(125, run(&server, &nobody).await);
    assert_eq!(run(&server, &["lock", "/lock"]).await.status, 125);
    assert_eq!(run(&server, &["lock", "--help"]).await.status, 0);
    assert_eq!(server.children("/lock"), [""; 0]);
    assert_eq!(server.sessions(), []);
}

#[tokio::test]
async fn the_command_knows_what_it_holds() {
    let server = server().await;
    let script = "echo $ZK_LOCK_PATH; echo $ZK_LOCK_NODE; echo $ZK_LOCK_TOKEN; \
                  echo $ZK_LOCK_DEADLINE; cut -d' ' -f1 /proc/uptime";
    let ended = run(&server, &["lock", "/a/lock", "--", "sh", "-c", script]).await;
    let lines = ended.output.lines().collect::<Vec<_>>();
    let [path, node, token, deadline, now] = lines[..] else { panic!("{ended:?}") };
    assert_eq!(path, "/a/lock");
    assert!(node.starts_with("/a/lock/_c_"), "{node}");
    token.parse::<zk_recipes::FencingToken>().unwrap();
    let left = deadline.parse::<f64>().unwrap() - now.parse::<f64>().unwrap();
    assert!((0.0..10.0).contains(&left), "{left}");
}

#[tokio::test]
async fn a_lock_that_is_not_free_is_a_conflict() {
    let server = server().await;
    let (holder, _) = hold(&server, &[]).await;
    for options in [&["--try"] as &[&str], &["--wait", "0.05"]] {
        let command = ["/lock", "--", "echo", "both"];
        let ended = run(&server, &[&["lock"], options, &command].concat()).await;
        assert_eq!((ended.status, &*ended.output), (124, ""), "{ended:?}");
        let chosen = [&["lock", "-E", "9"], options, &command].concat();
        assert_eq!(run(&server, &chosen).await.status, 9);
    }
    holder.signal(Signal::TERM);
    holder.end().await;
    check_status(0, run(&server, &["lock", "--try", "/lock", "--", "true"]).await);
}

#[tokio::test]
async fn the_next_command_starts_when_the_last_has_ended() {
    let server = server().await;
    let (first, command) = hold(&server, &[]).await;
    let second = start(&server, &["lock", "/lock", "--", "echo", "mine"]);
    let client = Client::connect(server.address()).await.unwrap();
    let lock = Lock::new(&client, "/lock").unwrap();
    while lock.contenders().await.unwrap().len() < 2 {
        let (_, mut more) = client.get_children_and_watch("/lock").await.unwrap();
        if lock.contenders().await.unwrap().len() < 2 {
            more.changed().await.unwrap();
        }
    }
    first.signal(Signal::TERM);
    assert_eq!(first.end().await.output, "stopped\n");
    assert!(!command.is_alive());
    assert_eq!(second.end().await.output, "mine\n");
}

#[tokio::test]
async fn readers_share_the_lock_and_a_writer_is_alone() {
    let server = server().await;
    let (reader, _) = hold(&server, &["--shared"]).await;
    check_status(0, run(&server, &["lock", "-ns", "/lock", "--", "true"]).await);
    check_status(124, run(&server, &["lock", "-n", "--write", "/lock", "--", "true"]).await);
    // The other kind of lock would not exclude it.
    check_status(125, run(&server, &["lock", "-n", "/lock", "--", "true"]).await);
    reader.signal(Signal::TERM);
    reader.end().await;
    check_status(0, run(&server, &["lock", "-n", "--write", "/lock", "--", "true"]).await);
}

#[tokio::test]
async fn a_signal_is_passed_on_to_the_command() {
    let server = server().await;
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::USR1, "USR1"), (Signal::USR2, "USR2")] {
        let script = format!("trap 'echo {name}; exit 5' {name}; echo ready; sleep 1000 & wait");
        let mut program = start(&server, &["lock", "/lock", "--", "sh", "-c", &script]);
        assert_eq!(program.line().await, "ready");
        program.signal(signal);
        let ended = program.end().await;
        assert_eq!((ended.status, &*ended.output), (5, &*format!("{name}\n")), "{ended:?}");
    }
}

#[tokio::test]
async fn a_signal_that_is_ignored_stays_ignored() {
    let server = server().await;
    let script = "trap 'echo TERM; exit 5' TERM; trap 'echo HUP' HUP; echo $$; sleep 1000 & wait";
    let program = env!("CARGO_BIN_EXE_zk");
    let shell = "trap '' HUP; exec \"$0\" lock /lock -- sh -c \"$1\"";
    let mut program = start_program("sh", &server, &["-c", shell, program, script]);
    program.line().await;
    program.signal(Signal::HUP);
    program.signal(Signal::TERM);
    let ended = program.end().await;
    assert_eq!((ended.status, &*ended.output), (5, "TERM\n"), "{ended:?}");
}

#[tokio::test]
async fn a_signal_ends_the_wait_and_leaves_the_queue() {
    let server = server().await;
    let (holder, _) = hold(&server, &[]).await;
    let waiter = start(&server, &["lock", "/lock", "--", "echo", "both"]);
    let client = Client::connect(server.address()).await.unwrap();
    let lock = Lock::new(&client, "/lock").unwrap();
    let (_, mut more) = client.get_children_and_watch("/lock").await.unwrap();
    if lock.contenders().await.unwrap().len() < 2 {
        more.changed().await.unwrap();
    }
    waiter.signal(Signal::TERM);
    let ended = waiter.end().await;
    assert_eq!((ended.status, &*ended.output), (143, ""), "{ended:?}");
    assert_eq!(lock.contenders().await.unwrap().len(), 1);
    holder.signal(Signal::TERM);
    assert_eq!(holder.end().await.status, 0);
}

#[tokio::test]
async fn a_killed_zk_leaves_no_process_behind() {
    let server = server().await;
    // It ignores all that can be ignored, and has children of its own.
    let script = "trap '' TERM INT HUP PIPE; sleep 1000 & echo $$ $!; wait";
    let mut program = start(&server, &["lock", "/lock", "--", "sh", "-c", script]);
    let processes = program.line().await.split(' ').map(Process::new).collect::<Vec<_>>();
    program.signal(Signal::KILL);
    // The end of the output is the end of all that could write to it.
    assert_eq!(program.end().await.status, -9);
    for process in processes {
        process.end();
    }
}

#[tokio::test]
async fn what_the_command_leaves_behind_is_killed() {
    let server = server().await;
    let script = "(trap '' TERM HUP; sleep 1000) & echo $!; read line";
    let mut program = start(&server, &["lock", "/lock", "--", "sh", "-c", script]);
    let left = Process::new(&program.line().await);
    assert!(left.is_alive());
    // The end of the input ends the command alone.
    assert_eq!(program.end().await.status, 1);
    assert!(!left.is_alive());
}

/// Cuts a holder off, and checks that its command has ended when another contender is let in.
async fn check_cut_off(options: &[&str], output: &str, cut: impl FnOnce(&Server, &Program)) {
    let server = server().await;
    let options = [&["--session-timeout", "1"], options].concat();
    let (program, command) = hold(&server, &options).await;
    cut(&server, &program);
    let client = Client::connect(server.address()).await.unwrap();
    let guard = Lock::new(&client, "/lock").unwrap().acquire().await.unwrap();
    assert!(!command.is_alive());
    program.signal(Signal::CONT);
    server.heal();
    let ended = program.end().await;
    assert_eq!((ended.status, &*ended.output), (123, output), "{ended:?}");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_command_is_asked_to_stop_before_the_lock_is_lost() {
    let cut = |server: &Server, _: &Program| assert!(server.partition(server.sessions()[0]));
    check_cut_off(&[], "stopped\n", cut).await;
}

#[tokio::test]
async fn a_command_that_does_not_follow_is_killed_before_the_lock_is_lost() {
    let cut = |server: &Server, _: &Program| assert!(server.partition(server.sessions()[0]));
    check_cut_off(&["--signal", "WINCH"], "", cut).await;
}

#[tokio::test]
async fn a_command_is_killed_before_the_lock_is_lost_even_if_zk_is_stopped() {
    check_cut_off(&[], "", |_, program| program.signal(Signal::STOP)).await;
}

/// Its session has ended with the connection, so the next one may be in already.
#[tokio::test]
async fn a_command_is_stopped_at_once_where_the_session_ends_with_the_connection() {
    let config = Config::new().manner(Manner::clickhouse_keeper());
    let server = Server::with(config).await.unwrap();
    let keeper = ["--dialect", "clickhouse-keeper", "--session-timeout", "30"];
    let (program, command) = hold(&server, &keeper).await;
    server.disconnect_all();
    let ended = tokio::time::timeout(Duration::from_secs(15), program.end()).await.unwrap();
    assert_eq!(ended.status, 123, "long before its deadline: {ended:?}");
    assert!(!command.is_alive());
}

/// There the session outlives its connection, and the next one gets the lock when it times out.
#[tokio::test]
async fn the_dialect_of_keeper_on_apaches_servers_is_safe_and_keeps_the_lock_taken() {
    let server = server().await;
    let keeper = ["--dialect", "clickhouse-keeper", "--session-timeout", "2"];
    let (program, command) = hold(&server, &keeper).await;
    server.disconnect_all();
    let ended = tokio::time::timeout(Duration::from_secs(15), program.end()).await.unwrap();
    assert_eq!(ended.status, 123, "{ended:?}");
    assert!(!command.is_alive());
    assert_eq!(server.children("/lock").len(), 1, "its session is kept");
    check_status(124, run(&server, &["lock", "--try", "/lock", "--", "true"]).await);
    check_status(0, run(&server, &["lock", "/lock", "--", "true"]).await);
}

/// Each session ends with the connection that the server ends at what it does not know.
#[tokio::test]
async fn a_wrong_dialect_is_named() {
    let server = Server::with(Config::new().manner(Manner::clickhouse_keeper())).await.unwrap();
    for what in [
        &["lock", "/lock"] as &[&str],
        &["lock", "--try", "--shared", "/lock"],
        &["sem", "--permits", "1", "/sem"],
        &["sem", "--permits", "1", "--try", "/sem"],
        &["elect", "/leader"],
    ] {
        let ended = run(&server, &[what, &["--", "true"]].concat()).await;
        assert_eq!(ended.status, 125, "{what:?}: {ended:?}");
        let last = ended.errors.lines().last().unwrap();
        for part in ["3 connections in a row ended", "does not know create", "see --dialect"] {
            assert!(last.contains(part), "{what:?}: {ended:?}");
        }
    }
}

#[tokio::test]
async fn a_command_is_killed_when_the_node_of_the_lock_is_deleted() {
    let server = server().await;
    let (program, command) = hold(&server, &["--signal", "WINCH"]).await;
    let client = Client::connect(server.address()).await.unwrap();
    let node = format!("/lock/{}", server.children("/lock")[0]);
    client.delete(&node, None).await.unwrap();
    assert_eq!(program.end().await.status, 123);
    assert!(!command.is_alive());
}

#[tokio::test]
async fn a_time_to_stop_that_the_session_does_not_leave_is_refused() {
    let server = server().await;
    let ended = run(&server, &["lock", "-k", "3", "/lock", "--", "true"]).await;
    assert_eq!(ended.status, 125);
    assert!(ended.errors.contains("--session-timeout"), "{ended:?}");
}

#[tokio::test]
async fn a_command_that_leaves_its_group_is_waited_for_and_gets_signals() {
    let server = server().await;
    let timeout = ["lock", "/lock", "--", "timeout", "100", "sh", "-c"];
    check_status(7, run(&server, &[&timeout[..], &["exit 7"]].concat()).await);

    let mut program = start(&server, &[&timeout[..], &[UNTIL_STOPPED]].concat());
    let command = Process::new(&program.line().await);
    program.signal(Signal::TERM);
    // Both get the signal. If timeout ends first, what it leaves behind is killed.
    program.end().await;
    assert!(!command.is_alive());
}

#[tokio::test]
async fn a_command_that_leaves_its_group_is_stopped_before_the_lock_is_lost() {
    let server = server().await;
    let command = ["lock", "--session-timeout", "1", "/lock", "--", "setsid", "sh", "-c"];
    let script = "trap '' TERM; echo $$; sleep 1000 & wait; wait";
    let mut program = start(&server, &[&command[..], &[script]].concat());
    let command = Process::new(&program.line().await);
    assert!(server.partition(server.sessions()[0]));
    let client = Client::connect(server.address()).await.unwrap();
    let guard = Lock::new(&client, "/lock").unwrap().acquire().await.unwrap();
    assert!(!command.is_alive());
    server.heal();
    assert_eq!(program.end().await.status, 123);
    guard.release().await.unwrap();
}
