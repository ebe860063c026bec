//! What launchers, shells and containers do to `zk`: signal masks, closed files, few descriptors,
//! orphans.

use std::process::Stdio;

use rustix::process::Signal;
use tokio::process::Command;
use zk_client::{Client, CreateOptions};
use zk_embedded::Server;

use crate::lock::UNTIL_STOPPED;
use crate::program::{Ended, Process, run, start, start_program};

const ZK: &str = env!("CARGO_BIN_EXE_zk");

/// Runs a shell script in which `$0` is `zk`.
async fn run_script(server: &Server, script: &str) -> Ended {
    start_program("bash", server, &["-c", script, ZK]).end().await
}

#[tokio::test]
async fn signals_that_the_launcher_blocked_are_heard() {
    let server = Server::start().await.unwrap();
    let block = ["--block-signal=CHLD,TERM,USR1", ZK, "lock", "/lock", "--", "sh", "-c"];
    let ended = start_program("env", &server, &[&block[..], &["exit 7"]].concat()).end().await;
    assert_eq!(ended.status, 7, "{ended:?}");

    let mut program = start_program("env", &server, &[&block[..], &[UNTIL_STOPPED]].concat());
    let command = Process::new(&program.line().await);
    program.signal(Signal::TERM);
    assert_eq!(program.end().await.output, "stopped\n");
    assert!(!command.is_alive());

    // The command has a clean mask.
    let mask = "grep SigBlk /proc/self/status";
    let ended = start_program("env", &server, &[&block[..], &[mask]].concat()).end().await;
    assert_eq!(ended.output, "SigBlk:\t0000000000000000\n");
}

/// Starts 500 processes that leave the group and end as orphans, and waits until no child of `zk`
/// is a zombie.
const ORPHANS: &str = "
    zk=$PPID
    for i in $(seq 500); do (setsid true &); done
    zombies() { cat /proc/[0-9]*/stat 2>/dev/null | grep -c \") Z $zk \"; }
    for look in $(seq 2000); do
        [ \"$(zombies)\" = 0 ] && echo none && exit 3
    done
    echo \"$(zombies) zombies\"";

#[tokio::test]
async fn orphans_that_are_handed_over_are_waited_for() {
    let server = Server::start().await.unwrap();
    let ended = run(&server, &["lock", "/lock", "--", "bash", "-c", ORPHANS]).await;
    assert_eq!((ended.status, &*ended.output), (3, "none\n"), "{ended:?}");
}

#[tokio::test]
async fn the_first_process_of_a_container_waits_for_orphans_and_passes_signals_on() {
    let server = Server::start().await.unwrap();
    let namespace = ["--pid", "--fork", "--kill-child", "--mount-proc", "--"];
    let possible =
        Command::new("unshare").args(namespace).arg("true").stderr(Stdio::null()).status();
    if !possible.await.is_ok_and(|status| status.success()) {
        println!("not run: this user or machine has no process namespaces");
        return;
    }
    let lock = ["bash", "-c", "exec \"$0\" \"$@\"", ZK, "lock", "/lock", "--", "bash", "-c"];
    let start =
        |script| start_program("unshare", &server, &[&namespace[..], &lock, &[script]].concat());
    let ended = start(ORPHANS).end().await;
    assert_eq!((ended.status, &*ended.output), (3, "none\n"), "{ended:?}");
    let ended =
        start("echo $PPID; kill -USR1 1; trap 'exit 9' USR1; while :; do :; done").end().await;
    assert!(ended.output == "1\n" && [9, 138].contains(&ended.status), "{ended:?}");
}

#[tokio::test]
async fn a_closed_standard_input_is_no_data() {
    let server = Server::start().await.unwrap();
    assert_eq!(run(&server, &["create", "/d", "kept"]).await.status, 0);
    let refused = run_script(&server, "\"$0\" set --stdin /d <&-").await;
    assert_eq!((refused.status, refused.errors.contains("closed")), (1, true), "{refused:?}");
    assert_eq!(run(&server, &["get", "/d"]).await.output, "kept\n");
    assert_eq!(run_script(&server, "\"$0\" set --stdin /d </dev/null").await.status, 0);
    assert_eq!(run(&server, &["get", "/d"]).await.output, "");
}

#[tokio::test]
async fn a_full_disk_and_too_few_descriptors_are_told() {
    let server = Server::start().await.unwrap();
    assert_eq!(run_script(&server, "\"$0\" --help >/dev/full").await.status, 1);
    assert_eq!(run_script(&server, "\"$0\" lock --help >/dev/full").await.status, 125);
    let few = run_script(&server, "ulimit -n 6; \"$0\" ls /").await;
    assert_eq!(few.status, 1, "{few:?}");
    assert!(few.errors.starts_with("zk: ") && few.errors.contains("ulimit"), "{few:?}");
}

#[tokio::test]
async fn a_wait_goes_on_in_a_new_session() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    let own = client.session().unwrap().id;
    for (folder, what) in [
        ("/lock", &["lock", "/lock", "--wait", "1000", "--"] as &[&str]),
        ("/sem/leases", &["sem", "/sem", "--permits", "1", "--"]),
    ] {
        let mut holder = start(&server, &[what, &["sh", "-c", UNTIL_STOPPED]].concat());
        Process::new(&holder.line().await);
        let before = server.sessions();
        let waiter = start(&server, &[what, &["echo", "mine"]].concat());
        let (mut contenders, mut more) = client.get_children_and_watch(folder).await.unwrap();
        while contenders.names.len() < 2 {
            more.changed().await.unwrap();
            (contenders, more) = client.get_children_and_watch(folder).await.unwrap();
        }
        let now = server.sessions();
        let waiting = now.into_iter().find(|it| *it != own && !before.contains(it)).unwrap();
        assert!(server.expire(waiting));
        holder.signal(Signal::TERM);
        assert_eq!(holder.end().await.status, 0);
        let ended = waiter.end().await;
        assert_eq!((ended.status, &*ended.output), (0, "mine\n"), "{ended:?}");
        assert!(ended.errors.contains("the next one is opened"), "{ended:?}");
    }
}

#[tokio::test]
async fn a_watch_looks_again_and_goes_on_in_a_new_session() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(server.address()).await.unwrap();
    client.create("/a", b"", &CreateOptions::persistent()).await.unwrap();
    for options in [&[] as &[&str], &["-R"]] {
        let before = server.sessions();
        let mut once = start(&server, &[&["watch", "--once", "/a"], options].concat());
        let mut all = start(&server, &[&["watch", "/a"], options].concat());
        assert_eq!(once.line().await, "Armed /a");
        assert_eq!(all.line().await, "Armed /a");
        let others = server.sessions().into_iter().filter(|it| !before.contains(it));
        let others = others.collect::<Vec<_>>();
        others.iter().for_each(|session| assert!(server.partition(*session)));
        client.set_data("/a", b"x", None).await.unwrap();
        others.iter().for_each(|session| assert!(server.expire(*session)));
        server.heal();
        assert_eq!(all.line().await, "Rearmed /a");
        assert_eq!(once.end().await.output, "Rearmed /a\nChanged /a\n");
        all.signal(Signal::TERM);
        all.end().await;
    }
}
