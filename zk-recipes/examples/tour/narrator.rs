//! Tells every frame that passes, by listening to the connection.
//!
//! A connector of the client's own kind, which hands out TCP connections with an ear on both
//! directions. It needs nothing of the client's inside: zk-proto decodes what passes.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use zk_client::{Connecting, Connector, Host, TcpConnector, Transport};
use zk_proto::{
    ConnectResponse, Create2Response, CreateMode, CreateRequest, Decode, DecodeError,
    DeleteRequest, ErrorCode, EventType, GetChildren2Response, GetDataRequest, OpCode, Reader,
    RemoveWatchesRequest, ReplyHeader, RequestHeader, WatcherEvent, Xid, frame,
};

/// How wide the story is.
const WIDTH: usize = 92;

/// Prints a paragraph.
pub(crate) fn say(text: &str) {
    println!();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + word.len() >= WIDTH {
            println!("{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    println!("{line}");
}

/// Makes connections that tell what passes over them.
#[derive(Debug)]
pub(crate) struct Narrator {
    name: &'static str,
    waiting: watch::Sender<bool>,
}

impl Narrator {
    /// The channel says whether the contender has watches set and nothing left to ask.
    pub(crate) fn new(name: &'static str) -> (Self, watch::Receiver<bool>) {
        let (waiting, told) = watch::channel(false);
        (Self { name, waiting }, told)
    }
}

impl Connector for Narrator {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        Box::pin(async move {
            let io = TcpConnector.connect(host).await?;
            Ok(Box::new(Tap {
                io,
                sent: BytesMut::new(),
                received: BytesMut::new(),
                story: Story {
                    name: self.name,
                    waiting: self.waiting.clone(),
                    connected: false,
                    asked: VecDeque::new(),
                    own: None,
                    nearest: None,
                    watches: 0,
                },
            }) as Box<dyn Transport>)
        })
    }
}

/// A connection with an ear on it.
struct Tap {
    io: Box<dyn Transport>,
    sent: BytesMut,
    received: BytesMut,
    story: Story,
}

impl AsyncRead for Tap {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
        this.received.extend_from_slice(buf.filled().get(before..).unwrap_or_default());
        this.story.listen(&mut this.received, Story::received);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tap {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let n = ready!(Pin::new(&mut this.io).poll_write(cx, buf))?;
        this.sent.extend_from_slice(buf.get(..n).unwrap_or_default());
        this.story.listen(&mut this.sent, Story::sent);
        Poll::Ready(Ok(n))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

/// One contender's side of the story.
struct Story {
    name: &'static str,
    waiting: watch::Sender<bool>,
    connected: bool,
    /// Requests without a reply: replies do not say what they answer.
    asked: VecDeque<OpCode>,
    /// The contender's own node, while it is in the queue.
    own: Option<String>,
    /// The node of the contender right ahead, while it is waited for.
    nearest: Option<String>,
    watches: usize,
}

impl Story {
    /// Tells every whole frame in `bytes`.
    fn listen(
        &mut self,
        bytes: &mut BytesMut,
        tell: fn(&mut Self, &[u8]) -> Result<(), DecodeError>,
    ) {
        loop {
            let told = match frame::split(bytes, frame::CLIENT_FRAME_LIMIT) {
                Ok(Some(frame)) => tell(self, &frame),
                Ok(None) => break,
                Err(error) => {
                    bytes.advance(bytes.len());
                    Err(error)
                }
            };
            if let Err(error) = told {
                println!("  ??    a frame of {}'s that does not decode: {error}", self.name);
            }
        }
        let waiting = self.watches > 0 && self.asked.is_empty();
        self.waiting.send_if_modified(|before| std::mem::replace(before, waiting) != waiting);
    }

    fn sent(&mut self, frame: &[u8]) -> Result<(), DecodeError> {
        if !self.connected {
            self.line("->", "hello", "opens a session");
            return Ok(());
        }
        let mut reader = Reader::new(frame);
        let RequestHeader { xid, op } = Decode::decode(&mut reader)?;
        if xid == Xid::PING {
            return Ok(());
        }
        self.asked.push_back(op);
        let what = op.to_string();
        match op {
            OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
                let request = CreateRequest::decode(&mut reader)?;
                let meaning = match request.mode {
                    CreateMode::CONTAINER => "make the folder, or find it there",
                    _ => "a node for me, ephemeral, with the next number",
                };
                self.line("->", &format!("{what} {}", short(request.path)), meaning);
            }
            OpCode::DELETE => {
                let request = DeleteRequest::decode(&mut reader)?;
                self.own = None;
                self.nearest = None;
                self.line("->", &format!("{what} {}", short(request.path)), "I leave the queue");
            }
            OpCode::GET_DATA => {
                let request = GetDataRequest::decode(&mut reader)?;
                let meaning = if self.own.as_deref() == Some(request.path) {
                    "watch my own node"
                } else if self.nearest.is_none() {
                    self.nearest = Some(request.path.to_owned());
                    "watch the one right ahead: I wait for that"
                } else {
                    "watch the one before"
                };
                self.line("->", &format!("{what} {}", short(request.path)), meaning);
            }
            OpCode::REMOVE_WATCHES => {
                let RemoveWatchesRequest { path, .. } = Decode::decode(&mut reader)?;
                self.line("->", &format!("{what} {}", short(path)), "I no longer wait for that");
            }
            OpCode::GET_CHILDREN2 => self.line("->", &what, "and who is in the folder?"),
            // Only so that the tour waits for what went before.
            OpCode::SYNC => {}
            OpCode::CLOSE_SESSION => self.line("->", &what, "I am done"),
            _ => self.line("->", &what, ""),
        }
        Ok(())
    }

    fn received(&mut self, frame: &[u8]) -> Result<(), DecodeError> {
        let mut reader = Reader::new(frame);
        if !self.connected {
            let hello = ConnectResponse::decode(&mut reader)?;
            self.connected = true;
            let meaning = format!("a session that lives {} ms without a word", hello.timeout);
            self.line("<-", "welcome", &meaning);
            return Ok(());
        }
        let ReplyHeader { xid, error, .. } = Decode::decode(&mut reader)?;
        match xid {
            Xid::PING => return Ok(()),
            Xid::NOTIFICATION => return self.event(&mut reader),
            _ => {}
        }
        let op = self.asked.pop_front();
        match (op, error) {
            (Some(OpCode::CREATE2), ErrorCode::OK) => {
                let created = Create2Response::decode(&mut reader)?;
                self.own = Some(created.path.to_owned());
                let meaning = format!("mine, created by transaction {}", created.stat.czxid);
                self.line("<-", &short(created.path), &meaning);
            }
            (Some(OpCode::CREATE2), ErrorCode::NO_NODE) => {
                self.line("<-", "NoNode", "there is no folder yet");
            }
            (Some(OpCode::GET_CHILDREN2), ErrorCode::NO_NODE) => {
                self.line("<-", "NoNode", "and so nothing to list");
            }
            (Some(OpCode::CREATE_CONTAINER), ErrorCode::NODE_EXISTS) => {
                self.line("<-", "NodeExists", "it was there");
            }
            (Some(OpCode::CREATE_CONTAINER), ErrorCode::OK) => self.line("<-", "ok", "made"),
            (Some(OpCode::GET_CHILDREN2), ErrorCode::OK) => {
                let list = GetChildren2Response::decode(&mut reader)?;
                let mut names = list.children.iter().map(short).collect::<Vec<_>>();
                names.sort_by(|a, b| a.rsplit('-').next().cmp(&b.rsplit('-').next()));
                self.line("<-", &format!("in the folder: {}", names.join(", ")), "");
            }
            (Some(OpCode::GET_DATA), ErrorCode::OK) => {
                self.watches += 1;
                self.line("<-", "ok", "it is there, and watched");
            }
            (Some(OpCode::GET_DATA), ErrorCode::NO_NODE) => {
                self.line("<-", "NoNode", "it has gone meanwhile, which is as good as the event");
            }
            (Some(OpCode::REMOVE_WATCHES), ErrorCode::OK) => {
                self.watches = self.watches.saturating_sub(1);
                self.line("<-", "ok", "no longer watched");
            }
            (Some(OpCode::DELETE), ErrorCode::OK) => self.line("<-", "ok", "deleted"),
            (Some(OpCode::SYNC), ErrorCode::OK) => {}
            (Some(OpCode::CLOSE_SESSION), ErrorCode::OK) => {
                self.line("<-", "ok", "session closed, and every node of it gone");
            }
            (_, error) => self.line("<-", &error.to_string(), ""),
        }
        Ok(())
    }

    fn event(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let event = WatcherEvent::decode(reader)?;
        self.watches = self.watches.saturating_sub(1);
        let meaning = if event.kind != EventType::NODE_DELETED {
            "the watch fires"
        } else if self.own.as_deref() == Some(event.path) {
            "my own node is gone"
        } else if self.nearest.as_deref() == Some(event.path) {
            self.nearest = None;
            "the one right ahead is gone"
        } else if self.own.is_some() {
            "one further ahead is gone: noted"
        } else {
            "a watch of before, which nobody waits for any more"
        };
        self.line("<-", &format!("{} {}", event.kind, short(event.path)), meaning);
        Ok(())
    }

    fn line(&self, arrow: &str, what: &str, meaning: &str) {
        println!("{}", format!("  {} {arrow} {what:<40} {meaning}", self.name).trim_end());
    }
}

/// A contender's name without its 128 random bits.
fn short(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name.strip_prefix("_c_").and_then(|rest| rest.split_once("-lock-")) {
        Some((unique, digits)) => {
            format!("_c_{}..-lock-{digits}", unique.chars().take(4).collect::<String>())
        }
        None => path.to_owned(),
    }
}
