//! The lines of commands: how they are read, from standard input and from connections, and
//! answered.
//!
//! Lines are bounded, and so is the number of connections. A connection ends at the first unknown
//! command: a web page can send bytes to a port of this machine, and must not get beyond its
//! `POST / HTTP/1.1`.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader, Stdout};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::commands::{Answer, Then, answer};
use crate::target::{Servers, Target};

/// The longest line, in bytes.
const MAX_LINE: usize = 64 * 1024;

/// The largest number of connections at once.
const MAX_CONNECTIONS: usize = 100;

/// How long to wait before accepting again after accepting a connection has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What all who send commands share.
pub(crate) struct Control {
    servers: Servers,
    keeps_history: bool,
    quit: Notify,
}

/// A line of input.
enum Line {
    Whole,
    /// It was too long, and was dropped.
    TooLong,
    /// The input has ended.
    End,
}

impl Control {
    pub(crate) fn new(servers: Servers, keeps_history: bool) -> Self {
        Self { servers, keeps_history, quit: Notify::new() }
    }

    /// Waits for the command to end the program.
    pub(crate) async fn quits(&self) {
        self.quit.notified().await;
    }

    /// Serves standard input until it ends, or nobody reads the answers.
    pub(crate) async fn serve_input(&self, output: Stdout) {
        // Both errors mean that whoever sent commands has gone.
        drop(self.serve(BufReader::new(tokio::io::stdin()), output, false).await);
    }

    /// Answers lines until their end, until `quit` or, if they are not trusted, until one that is
    /// no command.
    async fn serve(
        &self,
        mut input: impl AsyncBufRead + Unpin,
        mut output: impl AsyncWrite + Unpin,
        is_suspicious: bool,
    ) -> io::Result<()> {
        let mut line = Vec::new();
        let Self { servers, keeps_history, .. } = self;
        let target = Target { servers, keeps_history: *keeps_history, member: None };
        loop {
            let answer = match next_line(&mut input, &mut line).await? {
                Line::End => return Ok(()),
                Line::TooLong => {
                    let text = format!("error the line is longer than {MAX_LINE} bytes\n");
                    Answer { text, then: Then::Distrust }
                }
                Line::Whole => match std::str::from_utf8(&line).map(str::trim_ascii) {
                    Ok("") => continue,
                    Ok(line) => answer(target, line),
                    Err(_) => {
                        let text = "error the line is not UTF-8\n".to_owned();
                        Answer { text, then: Then::Distrust }
                    }
                },
            };
            output.write_all(answer.text.as_bytes()).await?;
            output.flush().await?;
            match answer.then {
                Then::Distrust if is_suspicious => return Ok(()),
                Then::Distrust | Then::Continue => {}
                Then::Quit => {
                    self.quit.notify_one();
                    return Ok(());
                }
            }
        }
    }
}

/// Serves connections until it is dropped.
pub(crate) async fn accept(listener: TcpListener, control: Arc<Control>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                while connections.try_join_next().is_some() {}
                if connections.len() < MAX_CONNECTIONS {
                    let control = Arc::clone(&control);
                    connections.spawn(async move {
                        let (input, output) = stream.into_split();
                        control.serve(BufReader::new(input), output, true).await
                    });
                }
            }
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Reads a line without its end. The last line may lack its end.
async fn next_line(
    input: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<Line> {
    line.clear();
    let (mut is_too_long, mut is_empty) = (false, true);
    loop {
        let bytes = input.fill_buf().await?;
        let part = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let (is_last, at_end) = (part.len() < bytes.len(), bytes.is_empty());
        is_empty &= at_end;
        is_too_long |= line.len() + part.len() > MAX_LINE;
        if !is_too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(is_last);
        input.consume(used);
        if is_last || at_end {
            return Ok(match (is_empty, is_too_long) {
                (true, _) => Line::End,
                (false, true) => Line::TooLong,
                (false, false) => Line::Whole,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_embedded::{Config, Server};

    use super::*;

    /// What is answered to these bytes.
    async fn say(bytes: &[u8], is_suspicious: bool) -> String {
        let server = Arc::new(Server::in_memory(Config::new()));
        let control = Control::new(Servers::Alone(server), false);
        let mut output = Vec::new();
        // A small buffer, so that lines come in parts.
        let input = BufReader::with_capacity(7, bytes);
        control.serve(input, &mut output, is_suspicious).await.unwrap();
        String::from_utf8(output).unwrap()
    }

    #[tokio::test]
    async fn each_line_has_its_answer() {
        assert_eq!(
            say(b"pending\n\n  \r\nzxid\r\nexists /", false).await,
            "ok 0\nok 0x0\nok true\n"
        );
        assert_eq!(say(b"", false).await, "");
        assert_eq!(say(b"quit\npending\n", false).await, "ok\n");
    }

    #[tokio::test]
    async fn bad_lines_are_refused_and_the_next_is_served() {
        let long = [&b"exists /"[..], &vec![b'a'; MAX_LINE], b"\npending\n"].concat();
        let text = "error the line is longer than 65536 bytes\n";
        assert_eq!(say(&long, false).await, format!("{text}ok 0\n"));
        assert_eq!(say(&long, true).await, text);
        let longest = [&b"exists /"[..], &vec![b'a'; MAX_LINE - 8], b"\npending\n"].concat();
        assert_eq!(say(&longest, false).await, "ok false\nok 0\n");
        assert_eq!(say(b"\xff\npending\n", false).await, "error the line is not UTF-8\nok 0\n");
    }

    #[tokio::test]
    async fn a_web_page_cannot_send_commands() {
        let post = b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nquit\r\n";
        assert_eq!(say(post, true).await, "error no command POST, see help\n");
    }
}
