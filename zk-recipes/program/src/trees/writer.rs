//! Lines for the standard output, written by a thread.
//!
//! A write may wait for long, if the reader of a pipe does. The session has to be kept alive
//! meanwhile, and so the task that reads the nodes waits for room in a channel instead.

use std::io::{self, BufWriter, Write};
use std::thread::JoinHandle;

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::failure::Failure;

/// How many lines wait at most.
const AHEAD: usize = 64;

/// The standard output.
#[derive(Debug)]
pub(crate) struct Writer {
    lines: Sender<String>,
    thread: JoinHandle<io::Result<()>>,
}

impl Writer {
    pub(crate) fn new() -> Self {
        let (lines, received) = channel(AHEAD);
        Self { lines, thread: std::thread::spawn(move || write(received)) }
    }

    /// Writes a line. False if it cannot be written: [`finish`](Self::finish) tells why.
    pub(crate) async fn line(&self, line: String) -> bool {
        self.lines.send(line).await.is_ok()
    }

    /// Waits until all is written.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        drop(self.lines);
        match self.thread.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::silent()),
            Ok(Err(error)) => Err(Failure::of("cannot write", error)),
            Err(_) => Err(Failure::of("cannot write", "the thread has ended")),
        }
    }
}

fn write(mut lines: Receiver<String>) -> io::Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    while let Some(line) = lines.blocking_recv() {
        output.write_all(line.as_bytes())?;
        output.write_all(b"\n")?;
        if lines.is_empty() {
            output.flush()?;
        }
    }
    output.flush()
}
