//! A running `zk`, and what it prints.

use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use zk_embedded::Server;

/// A program that runs, with its output.
pub(crate) struct Program {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    pub(crate) output: Lines<BufReader<ChildStdout>>,
}

/// What a program has printed, and its exit status.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Starts `zk` with a server to connect to.
pub(crate) fn start(server: &Server, arguments: &[&str]) -> Program {
    start_program(env!("CARGO_BIN_EXE_zk"), server, arguments)
}

/// Starts a program that will be `zk`, with a server to connect to.
pub(crate) fn start_program(program: &str, server: &Server, arguments: &[&str]) -> Program {
    start_command(Command::new(program).args(arguments).env("ZK_CONNECT", server.address()))
}

/// Starts a command with pipes to it.
pub(crate) fn start_command(command: &mut Command) -> Program {
    let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.kill_on_drop(true).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    Program { input: child.stdin.take(), output, child }
}

/// Runs `zk` to its end.
pub(crate) async fn run(server: &Server, arguments: &[&str]) -> Ended {
    start(server, arguments).end().await
}

impl Program {
    pub(crate) async fn line(&mut self) -> String {
        self.output.next_line().await.unwrap().expect("another line")
    }

    /// Waits for the end of the program, and of all processes that have its output.
    pub(crate) async fn end(mut self) -> Ended {
        drop(self.input.take());
        let (mut output, mut errors) = (String::new(), String::new());
        let mut stderr = self.child.stderr.take().unwrap();
        // A program that prints much waits until it is read.
        let read_output = async {
            while let Some(line) = self.output.next_line().await.unwrap() {
                output += &line;
                output.push('\n');
            }
        };
        let (_, read) = tokio::join!(read_output, stderr.read_to_string(&mut errors));
        read.unwrap();
        let status = self.child.wait().await.unwrap();
        let status = status.code().unwrap_or_else(|| -status.signal().unwrap());
        Ended { status, output, errors }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = self.child.id().expect("a program that runs");
        kill_process(Pid::from_raw(id.try_into().unwrap()).unwrap(), signal).unwrap();
    }
}

/// A process that a command has told the number of.
pub(crate) struct Process(OwnedFd);

impl Process {
    pub(crate) fn new(number: &str) -> Self {
        let number = number.trim().parse().ok().and_then(Pid::from_raw).expect("a number");
        Self::of(number).expect("a process that runs")
    }

    /// `None` if it has ended, and was waited for.
    pub(crate) fn of(number: Pid) -> Option<Self> {
        pidfd_open(number, PidfdFlags::empty()).ok().map(Self)
    }

    /// True if it runs. One that has ended and was not waited for does not.
    pub(crate) fn is_alive(&self) -> bool {
        self.poll(Some(&Timespec::default())) == 0
    }

    /// Waits until it has ended. Nothing else goes on in this thread meanwhile.
    pub(crate) fn end(&self) {
        assert_eq!(self.poll(None), 1);
    }

    fn poll(&self, time: Option<&Timespec>) -> usize {
        loop {
            match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], time) {
                Err(Errno::INTR) => {}
                polled => return polled.unwrap(),
            }
        }
    }
}
