//! How the program starts and ends: its options, its first line, signals and exit statuses.

use std::time::Duration;

use tokio::net::TcpListener;
use tokio::process::Command;
use zk_client::{Client, CreateOptions};

use crate::program::{Program, exchange, run, soon};

/// Checks that the program does not start, and says why in one line.
async fn check_refused(arguments: &[&str], status: i32, why: &str) {
    let ended = run(arguments).await;
    assert_eq!((ended.status, &*ended.output), (Some(status), ""), "{arguments:?}: {ended:?}");
    assert_eq!(ended.errors.lines().count(), 1, "{arguments:?}: {ended:?}");
    assert!(ended.errors.starts_with("zk-embedded: "), "{ended:?}");
    assert!(ended.errors.contains(why), "{arguments:?}: {ended:?}");
}

#[tokio::test]
async fn it_serves_on_the_port_that_it_prints() {
    let program = Program::start(&[]).await;
    assert!(program.address.starts_with("127.0.0.1:"), "{}", program.address);
    assert_eq!(exchange(&program.address, b"ruok").await, "imok");
    program.end().await;
}

#[tokio::test]
async fn wrong_arguments_are_named_and_end_it_with_2() {
    check_refused(&["--prot", "1"], 2, "--prot").await;
    check_refused(&["stray"], 2, "stray").await;
    check_refused(&["--port"], 2, "--port").await;
    check_refused(&["--port", "66000"], 2, "--port 66000").await;
    check_refused(&["--port", "80000"], 2, "from 0 to 65535").await;
    check_refused(&["--host", "here"], 2, "--host here: it is an IP address or localhost").await;
    check_refused(&["--release", "3.7"], 2, "it is 3.8 or 3.9").await;
    check_refused(&["--tick", "0"], 2, "at least 1").await;
    check_refused(&["--stdin=yes"], 2, "--stdin").await;
    check_refused(&["--super-digest", "bob:x"], 2, "super:").await;
    check_refused(&["--min-session-timeout", "9", "--max-session-timeout", "8"], 2, "below").await;
    check_refused(&["--tls-cert", "x"], 2, "tls").await;
    check_refused(&["--members", "0"], 2, "between 1 and 254").await;
    check_refused(&["--members", "255"], 2, "between 1 and 254").await;
    check_refused(&["--members", "3", "--save", "x"], 2, "--members goes without").await;
}

#[tokio::test]
async fn what_stands_in_its_way_is_named_and_ends_it_with_1() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check_refused(&["--port", &port], 1, &format!("127.0.0.1:{port}")).await;
    check_refused(&["--port", "0", "--control", &port], 1, "commands").await;
    check_refused(&["--port", "65535", "--members", "2"], 1, "65535").await;
    check_refused(&["--port", "0", "--load", "/none/x"], 1, "cannot read /none/x").await;
    // It must be there only if it is not the file that is written at the end.
    check_refused(&["--port", "0", "--load", "/none/x", "--save", "/none/y"], 1, "/none/x").await;
}

#[tokio::test]
async fn help_and_version_are_printed() {
    for name in ["--help", "-h"] {
        let ended = run(&[name]).await;
        assert_eq!((ended.status, &*ended.errors), (Some(0), ""));
        assert!(ended.output.contains("--control PORT"), "{}", ended.output);
        assert!(ended.output.lines().all(|line| line.len() <= 88), "{}", ended.output);
    }
    let version = format!("zk-embedded {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(run(&["-V"]).await.output, version);
}

#[cfg(unix)]
#[tokio::test]
async fn signals_end_it_with_success() {
    // Under nohup HUP is ignored, and stays so.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:\t"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or_default();
    let signals = if ignored & 1 == 0 { &["TERM", "INT", "HUP"][..] } else { &["TERM", "INT"] };
    for &signal in signals {
        let mut program = Program::start(&[]).await;
        let id = program.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status();
        assert!(soon(sent).await.unwrap().success());
        program.ended(Some(0)).await;
    }
}

#[tokio::test]
async fn it_runs_on_without_standard_input_unless_that_has_commands() {
    let mut command = Command::new(crate::program::ZK_EMBEDDED);
    command.args(["--port", "0", "--control", "0"]);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let output = tokio::io::BufReader::new(child.stdout.take().unwrap());
    let mut lines = tokio::io::AsyncBufReadExt::lines(output);
    let mut announced = async |what: &str| {
        let line = soon(lines.next_line()).await.unwrap().unwrap();
        line.strip_prefix(what).unwrap().to_owned()
    };
    let address = announced("listening on ").await;
    let control = announced("control on ").await;
    assert_eq!(exchange(&address, b"ruok").await, "imok");
    assert_eq!(exchange(&control, b"exists /\nquit\n").await, "ok true\nok\n");
    assert!(soon(child.wait()).await.unwrap().success());
}

#[tokio::test]
async fn the_settings_reach_the_server() {
    let digest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
    let arguments = [
        "--release=3.8",
        "--tick=500",
        "--min-session-timeout=70000",
        "--max-session-timeout=90000",
        "--max-connections=7",
        "--max-buffer=2000",
        "--extended-types",
        "--container-check=100000",
        "--history",
        "--super-digest",
        digest,
    ];
    let mut program = Program::start(&arguments).await;
    let conf = exchange(&program.address, b"conf").await;
    for line in
        ["tickTime=500", "minSessionTimeout=70000", "maxSessionTimeout=90000", "maxClientCnxns=7"]
    {
        assert!(conf.lines().any(|it| it == line), "{line}: {conf}");
    }
    let client = program.client().await;
    let lives = CreateOptions::persistent().ttl(Duration::from_secs(1000));
    client.create("/ttl", b"", &lives).await.unwrap();
    client.add_auth("digest", b"super:test").await.unwrap();
    let too_long = client.set_data("/ttl", &[0; 2001], None).await;
    assert!(too_long.is_err(), "{too_long:?}");
    assert!(program.value("history").await.ends_with("created,/ttl"));
    program.end().await;

    let mut program = Program::start(&["--read-only", "--local-sessions"]).await;
    let builder = Client::builder().allow_read_only(true);
    let client = soon(builder.connect(&program.address)).await.unwrap();
    assert!(client.create("/a", b"", &CreateOptions::persistent()).await.is_err());
    program.tell("read-only off").await;
    program.end().await;
}
