//! A client of a claim: at most one connection and one session, and the events that came.
//!
//! It hides nothing: each answer is a line, and each frame is kept if a report is to have them.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::BytesMut;
use zk_proto::any::Frame;
use zk_proto::*;

use super::answer;
use super::request::{Request, Words};
use crate::connection::{Connection, End};

/// The session timeout that clients ask for, in milliseconds.
const TIMEOUT: i32 = 30_000;

/// How long to wait for the end of a session, at the most.
const LONG: Duration = Duration::from_secs(25);

/// A session, and how to resume it.
pub(super) type Own = (SessionId, Password);

pub(super) struct Client {
    pub(super) name: String,
    address: String,
    patience: Duration,
    connection: Option<Connection>,
    pub(super) session: Option<Own>,
    /// The last xid that was used.
    xid: i32,
    /// Requests without an answer.
    asked: VecDeque<(OpCode, Xid)>,
    /// Whether the session was closed.
    pub(super) is_over: bool,
    /// Events that no step has taken yet.
    events: VecDeque<String>,
    /// Every frame, as a line.
    pub(super) frames: Vec<String>,
}

impl Client {
    pub(super) fn new(name: &str, address: &str, patience: Duration) -> Self {
        Self {
            name: name.to_owned(),
            address: address.to_owned(),
            patience,
            connection: None,
            session: None,
            xid: 0,
            asked: VecDeque::new(),
            is_over: false,
            events: VecDeque::new(),
            frames: Vec::new(),
        }
    }

    /// A handshake over a new connection. `other` is the session to resume.
    pub(super) async fn connect(
        &mut self,
        words: &Words<'_>,
        other: Option<Own>,
    ) -> Result<String> {
        let (mut session, password) = other.unwrap_or((SessionId(0), Password::ZERO));
        if let Some(id) = words.value("session") {
            session = SessionId(id.parse()?);
        }
        let password: Option<Vec<u8>> = match words.value("password") {
            None => Some(password.expose().to_vec()),
            Some("null") => None,
            Some(length) => Some(vec![b'?'; length.parse()?]),
        };
        let seen = match words.value("seen") {
            Some(zxid) => Zxid(zxid.parse()?),
            None => Zxid(0),
        };
        let read_only: Option<u8> = match words.value("readOnly") {
            Some("absent") => None,
            Some(byte) => Some(byte.parse()?),
            None => Some(0),
        };
        let mut wire = BytesMut::new();
        let (version, timeout) = (words.number("protocol", 0)?, words.number("timeout", TIMEOUT)?);
        let trailing = if words.has("trailing") { &b"and more"[..] } else { b"" };
        // A ConnectRequest, except that its password may have any length.
        frame::encode(&mut wire, frame::SERVER_FRAME_LIMIT, |writer| {
            i32::encode(&version, writer);
            seen.encode(writer);
            i32::encode(&timeout, writer);
            session.encode(writer);
            password.as_deref().encode(writer);
            writer.put(read_only.as_slice());
            writer.put(trailing);
        })?;
        self.dial().await?;
        self.note('>', Frame::connect_request(wire.get(frame::PREFIX..).unwrap_or_default()));
        self.write(&wire).await;
        let payload = match self.frame().await? {
            Ok(payload) => payload,
            Err(end) => return Ok(told(end)),
        };
        self.note('<', Frame::connect_response(&payload));
        let (line, response) = answer::welcome(&payload);
        if let Some(response) = response.filter(|response| !response.is_expired()) {
            self.session = Some((response.session_id, response.password));
        }
        Ok(line)
    }

    /// A new connection in place of the one before.
    pub(super) async fn dial(&mut self) -> Result<()> {
        self.asked.clear();
        self.events.clear();
        self.connection = Some(Connection::open(&self.address, self.patience).await?);
        Ok(())
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        if let Some(connection) = &mut self.connection {
            connection.send(bytes).await;
        }
    }

    /// Sends a request, whose reply is read later.
    pub(super) async fn send(&mut self, request: &Request) -> Result<()> {
        let xid = match (request.xid, request.op) {
            (Some(xid), _) => Xid(xid),
            (None, OpCode::PING) => Xid::PING,
            (None, OpCode::AUTH) => Xid::AUTH,
            (None, _) => {
                self.xid += 1;
                Xid(self.xid)
            }
        };
        let mut wire = BytesMut::new();
        frame::encode(&mut wire, usize::MAX, |writer| {
            RequestHeader { xid, op: request.op }.encode(writer);
            writer.put(&request.body);
        })?;
        self.note('>', Frame::request(wire.get(frame::PREFIX..).unwrap_or_default()));
        // Whatever number a ping has, its reply has this one.
        let answered = if request.op == OpCode::PING { Xid::PING } else { xid };
        self.asked.push_back((request.op, answered));
        self.write(&wire).await;
        Ok(())
    }

    /// The reply to the oldest request that has none.
    pub(super) async fn reply(&mut self) -> Result<String> {
        let (op, xid) = self.asked.pop_front().context("nothing was asked")?;
        loop {
            let payload = match self.frame().await? {
                Ok(payload) => payload,
                Err(end) => return Ok(told(end)),
            };
            if self.is_event(&payload) {
                continue;
            }
            self.note('<', Frame::reply(&payload, op));
            let (line, events) = (answer::reply(&payload, op, xid), self.events.len());
            self.is_over |= op == OpCode::CLOSE_SESSION && line.starts_with("ok ");
            return Ok(format!("{line} events={events}"));
        }
    }

    /// Asks for everything that the server had to say until now, and returns the events of it.
    pub(super) async fn events(&mut self, barrier: &Request) -> Result<String> {
        self.send(barrier).await?;
        let reply = self.reply().await?;
        let mut events: Vec<_> = self.events.drain(..).collect();
        if !reply.starts_with("ok ") {
            events.push(reply);
        }
        if events.is_empty() {
            events.push("none".to_owned());
        }
        Ok(events.join(" ; "))
    }

    /// The next event, however long it takes until a session ends.
    pub(super) async fn event(&mut self) -> Result<String> {
        self.be_patient();
        while self.events.is_empty() {
            match self.frame().await? {
                Ok(payload) if self.is_event(&payload) => {}
                Ok(_) => return Ok("unasked".to_owned()),
                Err(end) => return Ok(told(end)),
            }
        }
        self.events.pop_front().context("an event")
    }

    /// Whether the server closes the connection.
    pub(super) async fn end(&mut self, is_late: bool) -> Result<String> {
        if is_late {
            self.be_patient();
        }
        loop {
            match self.frame().await? {
                Ok(payload) if self.is_event(&payload) => {}
                Ok(payload) => return Ok(format!("unasked body={}", payload.len())),
                Err(end) => return Ok(told(end)),
            }
        }
    }

    /// Closes the session, if there is a connection that has it, and then the connection.
    pub(super) async fn close(&mut self) -> Result<()> {
        const XID: Xid = Xid(i32::MAX);
        if self.session.is_none() || self.is_over {
            return Ok(());
        }
        self.send(&Request { op: OpCode::CLOSE_SESSION, xid: Some(XID.0), body: Vec::new() })
            .await?;
        while self.is_connected() {
            if let Ok(payload) = self.frame().await? {
                let header = ReplyHeader::decode(&mut Reader::new(&payload));
                self.is_over |= header.is_ok_and(|it| (it.xid, it.error) == (XID, ErrorCode::OK));
            }
        }
        Ok(())
    }

    /// Closes the connection, and waits until the server has noticed. The session stays.
    pub(super) async fn cut(&mut self) -> Result<()> {
        if let Some(connection) = self.connection.take() {
            connection.cut().await?;
        }
        Ok(())
    }

    /// The next frame, whatever it is.
    pub(super) async fn payload(&mut self) -> Result<String> {
        let frame = self.frame().await?;
        Ok(frame.map_or_else(told, |payload| format!("frame body={}", payload.len())))
    }

    /// Sends a four-letter word over a new connection, and returns what the server says.
    pub(super) async fn word(&mut self, bytes: &[u8]) -> Result<String> {
        self.dial().await?;
        self.write(bytes).await;
        self.frames.push(format!("{} > {}", self.name, bytes.escape_ascii()));
        self.text().await
    }

    /// What the server says until it closes the connection.
    pub(super) async fn text(&mut self) -> Result<String> {
        let connection = self.connection.take();
        let text = match connection.context("no connection")?.text().await {
            Ok(text) => answer::told(&text),
            Err(end) => told(end),
        };
        self.frames.push(format!("{} < {text}", self.name));
        Ok(text)
    }

    fn be_patient(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.patience = LONG;
        }
    }

    /// Keeps the payload if it is an event.
    fn is_event(&mut self, payload: &[u8]) -> bool {
        let is_event = Xid::decode(&mut Reader::new(payload)) == Ok(Xid::NOTIFICATION);
        if is_event {
            self.note('<', Frame::notification(payload));
            self.events.push_back(answer::event(payload));
        }
        is_event
    }

    async fn frame(&mut self) -> Result<Result<bytes::Bytes, End>> {
        let Some(connection) = &mut self.connection else { return Ok(Err(End::Closed)) };
        let frame = connection.frame().await?;
        if let Err(end) = frame {
            self.frames.push(format!("{} < {}", self.name, told(end)));
            if end == End::Closed {
                self.connection = None;
            }
        }
        Ok(frame)
    }

    fn note(&mut self, direction: char, frame: Result<Frame<'_>, DecodeError>) {
        let line = frame.map_or_else(|error| format!("({error})"), |frame| frame.to_string());
        self.frames.push(format!("{} {direction} {line}", self.name));
    }
}

fn told(end: End) -> String {
    match end {
        End::Closed => "closed".to_owned(),
        End::Silent => "silence".to_owned(),
    }
}
