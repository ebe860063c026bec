//! A running `zk-embedded`, and what it prints.

use std::future::Future;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use zk_client::Client;

/// How long the program may take for anything. Only a broken one does.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const ZK_EMBEDDED: &str = env!("CARGO_BIN_EXE_zk-embedded");

/// Waits, but not for ever.
pub(crate) async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait).await.expect("an answer within a minute")
}

/// A program that runs, with commands on its standard input. Dropping it kills it.
pub(crate) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    /// Where clients connect.
    pub(crate) address: String,
}

/// What a program that has ended has printed.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: Option<i32>,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Program {
    /// Starts the program on a free port.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        Self::try_start(arguments).await.expect("an address to connect to")
    }

    /// Starts the program, unless it ends at once.
    pub(crate) async fn try_start(arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new(ZK_EMBEDDED);
        command.args(["--port", "0", "--stdin"]).args(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let input = child.stdin.take();
        let mut program = Self { child, input, output, address: String::new() };
        let first = soon(program.output.next_line()).await.unwrap()?;
        program.address = first.strip_prefix("listening on ")?.to_owned();
        Some(program)
    }

    /// The address in the next line of the output.
    pub(crate) async fn announced(&mut self, what: &str) -> String {
        let line = self.line().await;
        line.strip_prefix(what).unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    pub(crate) async fn line(&mut self) -> String {
        soon(self.output.next_line()).await.unwrap().expect("another line")
    }

    /// The answer to a command.
    pub(crate) async fn ask(&mut self, command: &str) -> String {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        self.line().await
    }

    /// The value that is the answer to a command.
    pub(crate) async fn value(&mut self, command: &str) -> String {
        let answer = self.ask(command).await;
        match answer.strip_prefix("ok") {
            Some(value) => value.trim_start().to_owned(),
            None => panic!("{command}: {answer}"),
        }
    }

    /// Gives a command that answers nothing.
    pub(crate) async fn tell(&mut self, command: &str) {
        assert_eq!(self.ask(command).await, "ok", "{command}");
    }

    pub(crate) async fn client(&self) -> Client {
        soon(Client::connect(&self.address)).await.unwrap()
    }

    /// Closes the input, and waits for the end.
    pub(crate) async fn end(mut self) {
        self.input = None;
        self.ended(Some(0)).await;
    }

    /// Waits for the end.
    pub(crate) async fn ended(&mut self, status: Option<i32>) {
        let ended: ExitStatus = soon(self.child.wait()).await.unwrap();
        assert_eq!(ended.code(), status, "{ended}");
    }

    /// Kills it without an end.
    pub(crate) async fn kill(mut self) {
        soon(self.child.kill()).await.unwrap();
    }

    /// The number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id().expect("a program that runs")
    }
}

/// Runs the program to its end. It must come by itself.
pub(crate) async fn run(arguments: &[&str]) -> Ended {
    let mut command = Command::new(ZK_EMBEDDED);
    run_command(command.args(arguments)).await
}

/// Runs a command to its end.
pub(crate) async fn run_command(command: &mut Command) -> Ended {
    let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = pipes.kill_on_drop(true).spawn().unwrap();
    let output = soon(child.wait_with_output()).await.unwrap();
    Ended {
        status: output.status.code(),
        output: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Reads a node, again if the connection was cut meanwhile.
pub(crate) async fn read(client: &Client, path: &str) -> Vec<u8> {
    let read = async {
        loop {
            match client.get_data(path).await {
                Ok(node) => return node.data.to_vec(),
                Err(error) => assert!(!error.is_session_over(), "{error}"),
            }
        }
    };
    soon(read).await
}

/// Sends bytes to an address, and returns everything that comes back.
pub(crate) async fn exchange(address: &str, bytes: &[u8]) -> String {
    soon(async {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    })
    .await
}

/// A path as a word of a command, or as an argument.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
