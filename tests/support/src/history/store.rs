//! The resource behind a lock, as a server on 127.0.0.1 that records everything.
//!
//! Requests are lines, so that holders may be programs in any language:
//!
//! ```text
//! enter WRITER TOKEN            -> ok
//! share WRITER TOKEN            -> ok
//! write WRITER TOKEN            -> ok | refused
//! leave WRITER TOKEN            -> ok
//! lost WRITER TOKEN             -> ok
//! ```
//!
//! Any other line ends the connection.

use std::net::Ipv4Addr;

use anyhow::{Result, bail};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use zk_recipes::FencingToken;

use super::{Entry, Event, History};

/// How a store treats writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Refuses a token that is older than the newest one of any write.
    Fenced,
    /// Accepts everything.
    Recording,
}

/// A running store, until it is dropped.
#[derive(Debug)]
pub struct Store {
    address: String,
    history: watch::Sender<History>,
    _server: JoinSet<()>,
}

impl Store {
    /// Starts a store on a free port.
    pub async fn start(mode: Mode) -> Result<Self> {
        Self::listen(Ipv4Addr::LOCALHOST, mode).await
    }

    /// Starts a store on a free port of this address.
    pub async fn listen(address: Ipv4Addr, mode: Mode) -> Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?.to_string();
        let history = watch::Sender::new(History::new());
        let sender = history.clone();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, mode, sender.clone()));
            }
        });
        Ok(Self { address, history, _server: server })
    }

    /// Where holders connect: `127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Records that this writer has been stopped, which it cannot report itself.
    pub fn paused(&self, writer: &str) {
        record(&self.history, Mode::Recording, writer.to_owned(), Event::Paused);
    }

    /// All entries so far.
    pub fn history(&self) -> History {
        self.history.borrow().clone()
    }

    /// Waits until the history fulfils a condition.
    pub async fn wait_for(&self, condition: impl FnMut(&History) -> bool) -> Result<()> {
        self.history.subscribe().wait_for(condition).await?;
        Ok(())
    }
}

/// A holder's connection to a store.
#[derive(Debug)]
pub struct Ledger {
    writer: String,
    answers: Lines<BufReader<TcpStream>>,
}

impl Ledger {
    /// Connects to the store at `address` as `writer`, a unique name without spaces.
    pub async fn connect(address: &str, writer: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { writer: writer.to_owned(), answers: BufReader::new(stream).lines() })
    }

    /// Sends one of the words, and returns false if the store refused a write.
    pub async fn tell(&mut self, word: &str, token: FencingToken) -> Result<bool> {
        let line = format!("{word} {} {token}\n", self.writer);
        self.answers.get_mut().write_all(line.as_bytes()).await?;
        match self.answers.next_line().await?.as_deref() {
            Some("ok") => Ok(true),
            Some("refused") => Ok(false),
            answer => bail!("the store answered {answer:?} to {line:?}"),
        }
    }
}

/// Answers and records the lines of one connection, and then records its end.
async fn serve(stream: TcpStream, mode: Mode, history: watch::Sender<History>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut requests = BufReader::new(stream).lines();
    let mut known = None;
    // The connection of a killed holder is reset, which is treated as its end.
    while let Ok(Some(line)) = requests.next_line().await {
        let Some((writer, event)) = parse(&line) else { break };
        known = Some(writer.clone());
        let answer = if record(&history, mode, writer, event) { "ok\n" } else { "refused\n" };
        if requests.get_mut().write_all(answer.as_bytes()).await.is_err() {
            break;
        }
    }
    if let Some(writer) = known {
        record(&history, mode, writer, Event::Gone);
    }
    Ok(())
}

/// The writer and the event, unless it is another line.
fn parse(line: &str) -> Option<(String, Event)> {
    let [word, writer, token] = line.split(' ').collect::<Vec<_>>().try_into().ok()?;
    let token = token.parse().ok()?;
    let event = match word {
        "enter" => Event::Enter(token),
        "share" => Event::EnterShared(token),
        "leave" => Event::Leave(token),
        "lost" => Event::Lost(token),
        "write" => Event::Write { token, accepted: true },
        _ => return None,
    };
    Some((writer.to_owned(), event))
}

/// Decides about the event and records it in one step. Returns whether it is accepted.
fn record(history: &watch::Sender<History>, mode: Mode, writer: String, mut event: Event) -> bool {
    history.send_modify(|history| {
        if let Event::Write { token, accepted } = &mut event {
            let is_newer = |entry: &Entry| match entry.event {
                Event::Write { token: seen, .. } => seen > *token,
                _ => false,
            };
            *accepted = mode == Mode::Recording || !history.iter().any(is_newer);
        }
        history.push(Entry { writer, event });
    });
    !matches!(event, Event::Write { accepted: false, .. })
}
