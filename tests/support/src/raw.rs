//! A client of bare frames, of the embedded server or of any other.
//!
//! It sends frames that no proper client sends, and shows every byte of the reply. Frames are shown
//! as text: `3 ok` and `3 NoNode` for the replies to request 3, `NodeCreated /a` for an event,
//! `closed`.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zk_client::Transport;
use zk_embedded::Server;
use zk_proto::*;

use crate::peer::{frame_of, next_frame, payload};

/// One connection.
pub struct RawClient {
    io: Box<dyn Transport>,
    input: BytesMut,
    xid: i32,
    /// The session, once there is one.
    pub session: SessionId,
    /// The session's password.
    pub password: Password,
}

/// A handshake that asks for a new session.
pub fn hello(timeout: Duration) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: timeout.as_millis() as i32,
        session_id: SessionId(0),
        password: Password::ZERO,
        read_only: Some(false),
    }
}

/// A create with an open access list.
pub fn create(path: &str, mode: CreateMode) -> CreateRequest<'_> {
    CreateRequest { path, data: Some(b"x"), acl: List::new(&[Acl::OPEN]), mode }
}

/// A setData of any version.
pub fn set_data(path: &str) -> SetDataRequest<'_> {
    SetDataRequest { path, data: Some(b"y"), version: -1 }
}

/// A delete of any version.
pub fn delete(path: &str) -> DeleteRequest<'_> {
    DeleteRequest { path, version: -1 }
}

/// A getData with or without a watch.
pub fn get_data(path: &str, watch: bool) -> GetDataRequest<'_> {
    GetDataRequest { path, watch }
}

/// An exists with or without a watch.
pub fn exists(path: &str, watch: bool) -> ExistsRequest<'_> {
    ExistsRequest { path, watch }
}

/// A getChildren with or without a watch.
pub fn get_children(path: &str, watch: bool) -> GetChildrenRequest<'_> {
    GetChildrenRequest { path, watch }
}

/// A request as a frame.
pub fn request(xid: i32, op: OpCode, body: &impl Encode) -> Bytes {
    let header = RequestHeader { xid: Xid(xid), op };
    frame_of(&[payload(&header), payload(body)].concat())
}

/// A record as a frame.
pub fn framed(record: &impl Encode) -> Bytes {
    frame_of(&payload(record))
}

impl RawClient {
    /// A connection in memory that has sent nothing yet.
    pub fn connect(server: &Server) -> Self {
        Self::over(server.connect())
    }

    /// A connection over TCP to any server that has sent nothing yet.
    pub async fn dial(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self::over(stream))
    }

    /// A connection over these bytes that has sent nothing yet.
    pub fn over(io: impl Transport + 'static) -> Self {
        Self {
            io: Box::new(io),
            input: BytesMut::new(),
            xid: 0,
            session: SessionId(0),
            password: Password::ZERO,
        }
    }

    /// A connection with a new session.
    ///
    /// Its timeout is 4 s, within the server's limits.
    pub async fn open(server: &Server) -> Self {
        Self::attach(server, hello(Duration::from_secs(4))).await
    }

    /// A connection with the session that this handshake asks for.
    pub async fn attach(server: &Server, request: ConnectRequest) -> Self {
        let mut client = Self::connect(server);
        let answer = client.greet(request).await.expect("a server that lets it in");
        assert!(!answer.is_expired(), "the session is over");
        client
    }

    /// The handshake that resumes this client's session.
    pub fn resume(&self) -> ConnectRequest {
        let hello = hello(Duration::from_secs(4));
        ConnectRequest { session_id: self.session, password: self.password, ..hello }
    }

    /// Sends a handshake and returns its reply, unless the server closes the connection.
    pub async fn greet(&mut self, request: ConnectRequest) -> Option<ConnectResponse> {
        self.write(&framed(&request)).await;
        let frame = self.frame().await?;
        let answer = ConnectResponse::decode_exact(&frame).expect("an answer to a handshake");
        (self.session, self.password) = (answer.session_id, answer.password);
        Some(answer)
    }

    /// Sends bytes as they are. That the server has closed the connection shows in a later read.
    pub async fn write(&mut self, bytes: &[u8]) {
        drop(self.io.write_all(bytes).await);
    }

    /// Sends a request with the next xid, which it returns.
    pub async fn send<O: Operation>(&mut self, body: &O) -> i32 {
        self.send_as(body.op(), body).await
    }

    /// Sends a request with another opcode than its own.
    pub async fn send_as(&mut self, op: OpCode, body: &impl Encode) -> i32 {
        self.xid += 1;
        self.write(&request(self.xid, op, body)).await;
        self.xid
    }

    /// Sends a request and returns the frames up to its reply, as text. A reply `ok` is left out.
    pub async fn ask<O: Operation>(&mut self, body: &O) -> Vec<String> {
        let xid = self.send(body).await;
        let mut heard = Vec::new();
        let is_last = |text: &String| text == "closed" || text.starts_with(&format!("{xid} "));
        while !heard.last().is_some_and(is_last) {
            heard.push(self.hear().await);
        }
        heard.pop_if(|text| *text == format!("{xid} ok"));
        heard
    }

    /// Sends a ping and returns the next frame as text.
    pub async fn ping(&mut self) -> String {
        self.write(&request(Xid::PING.0, OpCode::PING, &())).await;
        self.hear().await
    }

    /// Sends a request that succeeds without an event before its reply, and returns the reply.
    pub async fn reply<O: Operation>(&mut self, body: &O) -> Bytes {
        let xid = self.send(body).await;
        let frame = self.frame().await.expect("a reply");
        assert_eq!(text(&frame), format!("{xid} ok"));
        frame.slice(16..)
    }

    /// The next frame's payload, or `None` at the end of the connection.
    pub async fn frame(&mut self) -> Option<Bytes> {
        let frame = next_frame(&mut self.io, &mut self.input).await;
        let is_whole = frame.is_some() || self.input.is_empty();
        assert!(is_whole, "it ends in a frame: {:?}", self.input);
        frame
    }

    /// The next frame as text.
    pub async fn hear(&mut self) -> String {
        self.frame().await.map_or_else(|| "closed".to_owned(), |frame| text(&frame))
    }

    /// All bytes until the server closes the connection.
    pub async fn bytes(&mut self) -> Bytes {
        while let Ok(1..) = self.io.read_buf(&mut self.input).await {}
        self.input.split().freeze()
    }

    /// All frames until no task has anything left to do.
    ///
    /// Tokio's clock must be paused; it advances by a millisecond.
    pub async fn heard(&mut self) -> Vec<String> {
        let mut heard = Vec::new();
        while heard.last().is_none_or(|text| text != "closed")
            && let Ok(text) = timeout(Duration::from_millis(1), self.hear()).await
        {
            heard.push(text);
        }
        heard
    }
}

fn text(frame: &[u8]) -> String {
    let mut reader = Reader::new(frame);
    let header = ReplyHeader::decode(&mut reader).expect("a header");
    if header.xid == Xid::NOTIFICATION {
        let event = WatcherEvent::decode(&mut reader).expect("an event");
        return format!("{} {}", event.kind, event.path);
    }
    match header.error {
        ErrorCode::OK => format!("{} ok", header.xid),
        code => format!("{} {code}", header.xid),
    }
}
