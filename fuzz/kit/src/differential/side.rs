//! Runs steps against one server and records the result of each.
//!
//! After a step every other client sends a ping. Everything that arrives before the ping's reply
//! was sent because of the step: a server queues the events of a write before it answers the write.
//! So an event is never mistaken for the next step's, and no fixed wait is needed.

use std::collections::VecDeque;
use std::mem;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use zk_proto::*;

use super::show::Witness;
use super::step::{CLIENTS, Deed, Handshake, IDENTITIES, Proof, Request, Step};
use crate::connection::Connection;

/// One server, and the clients that take turns on it.
pub(super) struct Side {
    address: String,
    /// How long the server may be silent before the silence counts as its reply.
    patience: Duration,
    clients: [Client; CLIENTS],
    pub(super) witness: Witness,
    /// How many requests were sent, without the pings that only collect events.
    pub(super) requests: usize,
    /// The lines of the current step so far.
    lines: Vec<String>,
}

#[derive(Default)]
struct Client {
    connection: Option<Connection>,
    session: Option<(SessionId, Password)>,
    closed: Option<(SessionId, Password)>,
}

impl Side {
    pub(super) fn new(address: &str, patience: Duration) -> Self {
        Self {
            address: address.to_owned(),
            patience,
            clients: Default::default(),
            witness: Witness::default(),
            requests: 0,
            lines: Vec::new(),
        }
    }

    /// Makes three new clients of a server that had other requests before, and counts transactions
    /// from the last one. Returns it: no two calls return the same, since a session opens with a
    /// transaction.
    pub(super) async fn start_anew(&mut self) -> Result<Zxid> {
        self.clients = Default::default();
        self.knock(0, &Handshake { seen: None, ..Handshake::DECENT }).await?;
        ensure!(self.clients[0].connection.is_some(), "the server lets nobody in");
        self.ask_one(0, &request(&ExistsRequest { path: "/", watch: false })).await?;
        self.ask_one(0, &request(&CloseSessionRequest)).await?.context("no answer")?;
        let base = self.witness.last_zxid();
        self.clients = Default::default();
        self.lines.clear();
        self.witness.start_anew(base);
        Ok(base)
    }

    /// Runs the steps and returns the result of each. Ends early when the server cannot be used any
    /// more.
    pub(super) async fn run(&mut self, steps: &[Step]) -> Vec<Vec<String>> {
        let mut answers = Vec::with_capacity(steps.len());
        for step in steps {
            self.witness.begin_step();
            let outcome = self.step(step).await;
            self.witness.end_step();
            let mut lines = mem::take(&mut self.lines);
            let go_on = *outcome.as_ref().unwrap_or(&false);
            lines.extend(outcome.err().map(|error| format!("STUCK: {error:#}")));
            answers.push(lines);
            if !go_on {
                break;
            }
        }
        answers
    }

    /// Runs one step. Returns whether it is useful to continue.
    async fn step(&mut self, Step { client, deed }: &Step) -> Result<bool> {
        let client = *client;
        let begun = self.lines.len();
        match deed {
            Deed::Cut => {
                if let Some(connection) = self.clients[client].connection.take() {
                    connection.cut().await?;
                }
            }
            Deed::Knock(handshake) => self.knock(client, handshake).await?,
            Deed::Ask(_) | Deed::Clear(_) | Deed::Garbage(_) => self.be_connected(client).await?,
        }
        match deed {
            Deed::Cut | Deed::Knock(_) => {}
            Deed::Ask(requests) => {
                self.ask(client, requests).await?;
                self.settle(|other| other != client).await?;
                if requests.iter().any(|request| request.op == OpCode::CLOSE_SESSION) {
                    // The order in which a session's ephemeral nodes are deleted is undefined.
                    let is_event = |line: &String| line.contains(": event ");
                    self.lines[begun..]
                        .chunk_by_mut(|one, two| is_event(one) && is_event(two))
                        .for_each(<[_]>::sort);
                }
            }
            Deed::Clear(path) => {
                self.clear(client, path).await?;
                self.settle(|other| other != client).await?;
            }
            Deed::Garbage(bytes) => {
                self.send(client, bytes).await;
                self.hear_out(client).await?;
            }
        }
        Ok(!self.lines.iter().any(|line| line.ends_with("Silent")))
    }

    /// Resumes the client's session, or opens one if it has none.
    async fn be_connected(&mut self, client: usize) -> Result<()> {
        if self.clients[client].connection.is_some() {
            return Ok(());
        }
        self.knock(client, &Handshake::DECENT).await?;
        if self.clients[client].session.is_none() {
            self.knock(client, &Handshake::DECENT).await?;
        }
        ensure!(self.clients[client].connection.is_some(), "no way in");
        if let Some(identity) = IDENTITIES[client] {
            let auth = Secret::new(Some(identity.as_bytes()));
            let record = AuthPacket { kind: 0, scheme: "digest".into(), auth };
            self.ask_one(client, &Request { xid: Xid::AUTH, ..request(&record) }).await?;
        }
        Ok(())
    }

    /// Makes one handshake over a new connection. If it succeeds, the client continues with that
    /// connection.
    async fn knock(&mut self, client: usize, handshake: &Handshake) -> Result<()> {
        let mine = &self.clients[client];
        let known = |(id, password): (SessionId, Password)| (id, Some(password.expose().to_vec()));
        let (session_id, password) = match (handshake.proof, mine.session, mine.closed) {
            (Proof::Own, Some(own), _) | (Proof::Closed, _, Some(own)) => known(own),
            (Proof::WrongPassword(len), Some((id, _)), _) => (id, len.map(|len| vec![b'?'; len])),
            (Proof::UnknownId, ..) => known((SessionId(0x7777_0000_0000_0001), Password::ZERO)),
            _ if mine.session.is_none() => (SessionId(0), handshake.blank.map(|len| vec![0; len])),
            // A client that never closed a session has none to name.
            _ => return Ok(()),
        };
        let seen = handshake.seen.map_or(0, |ahead| self.witness.last_zxid().0 + ahead);
        let mut connection = Connection::open(&self.address, self.patience).await?;
        let mut wire = BytesMut::new();
        // A ConnectRequest, except that its password may have any length.
        frame::encode(&mut wire, frame::SERVER_FRAME_LIMIT, |writer| {
            handshake.protocol_version.encode(writer);
            Zxid(seen).encode(writer);
            handshake.timeout.encode(writer);
            session_id.encode(writer);
            password.as_deref().encode(writer);
            if let Some(read_only) = handshake.read_only {
                read_only.encode(writer);
            }
        })?;
        connection.send(&wire).await;
        self.requests += 1;
        match connection.frame().await? {
            Err(end) => self.tell(client, format_args!("handshake: {end:?}")),
            Ok(payload) => {
                let (text, response) = self.witness.welcome(&payload);
                self.tell(client, format_args!("handshake: {text}"));
                let response = response.context("a handshake that nobody can read")?;
                if response.is_expired() {
                    let end = connection.frame().await?.err();
                    self.tell(client, format_args!("handshake: then {end:?}"));
                    let mine = &mut self.clients[client];
                    mine.session =
                        mine.session.filter(|own| known(*own) != (session_id, password.clone()));
                } else {
                    // The server closes the connection that had the session.
                    self.settle(|other| other == client).await?;
                    self.clients[client].session = Some((response.session_id, response.password));
                    self.clients[client].connection = Some(connection);
                }
            }
        }
        // Even a failed attempt may have closed the session's connection.
        self.settle(|other| other == client).await
    }

    /// Sends requests at once and reads until each has its reply, or the connection ends.
    async fn ask(&mut self, client: usize, requests: &[Request]) -> Result<()> {
        let mut wire = BytesMut::new();
        for request in requests {
            encode(&mut wire, request, self.witness.last_zxid())?;
        }
        self.requests += requests.len();
        self.send(client, &wire).await;
        // The thread that reads handles identities, so their replies come ahead of requests in
        // flight.
        let (mut early, mut owed): (VecDeque<_>, VecDeque<_>) =
            requests.iter().partition(|request| request.op == OpCode::AUTH);
        let mut early_texts = Vec::new();
        while !owed.is_empty() || !early.is_empty() {
            let Some((xid, payload)) = self.frame(client).await? else { break };
            if early.front().is_some_and(|auth| auth.xid == xid) {
                early.pop_front();
                early_texts.push(self.witness.reply(OpCode::AUTH, &payload));
            } else if let Some(request) = owed.pop_front() {
                let text = self.witness.reply(request.op, &payload);
                self.tell(client, format_args!("{text}"));
            } else {
                self.tell(client, format_args!("UNASKED {payload:02x?}"));
            }
        }
        for text in early_texts {
            self.tell(client, format_args!("{text}"));
        }
        if self.witness.said_goodbye() {
            self.hear_out(client).await?;
        }
        if requests.iter().any(|request| request.op == OpCode::CLOSE_SESSION) {
            let mine = &mut self.clients[client];
            mine.closed = mine.session.take().or(mine.closed);
        }
        Ok(())
    }

    /// Reads until the server has closed the connection. Nothing is sent meanwhile: a server that
    /// is about to close it may, or may not, serve another request before.
    async fn hear_out(&mut self, client: usize) -> Result<()> {
        while let Some((_, payload)) = self.frame(client).await? {
            self.tell(client, format_args!("UNASKED {payload:02x?}"));
        }
        Ok(())
    }

    /// Deletes depth first, in the order of names.
    async fn clear(&mut self, client: usize, path: &str) -> Result<()> {
        let mut unseen = vec![path.to_owned()];
        let mut nodes = Vec::new();
        while let Some(path) = unseen.pop() {
            let list = request(&GetChildrenRequest { path: &path, watch: false });
            let mut children: Vec<_> = match self.ask_one(client, &list).await? {
                Some(payload) => {
                    let mut reader = Reader::new(&payload);
                    ReplyHeader::decode(&mut reader)?;
                    let names = List::<&str>::decode(&mut reader).unwrap_or(List::NULL);
                    names.iter().map(|name| format!("{path}/{name}")).collect()
                }
                None => return Ok(()),
            };
            children.sort();
            unseen.extend(children);
            nodes.push(path);
        }
        for path in nodes.iter().rev() {
            let delete = request(&DeleteRequest { path, version: -1 });
            if self.ask_one(client, &delete).await?.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends one request and returns its reply, or `None` if the connection ends.
    async fn ask_one(&mut self, client: usize, request: &Request) -> Result<Option<Bytes>> {
        let mut wire = BytesMut::new();
        encode(&mut wire, request, self.witness.last_zxid())?;
        self.requests += 1;
        self.send(client, &wire).await;
        let Some((_, payload)) = self.frame(client).await? else { return Ok(None) };
        let text = self.witness.reply(request.op, &payload);
        self.tell(client, format_args!("{text}"));
        Ok(Some(payload))
    }

    /// Pings over the open connections of the chosen clients, all at once, and reads up to the
    /// replies.
    async fn settle(&mut self, chosen: impl Fn(usize) -> bool) -> Result<()> {
        let ping = Request {
            xid: Xid::PING,
            op: OpCode::PING,
            body: vec![],
            since: None,
            text: "".into(),
        };
        let mut wire = BytesMut::new();
        encode(&mut wire, &ping, Zxid(0))?;
        let open: Vec<_> = (0..CLIENTS)
            .filter(|client| chosen(*client) && self.clients[*client].connection.is_some())
            .collect();
        for client in &open {
            self.send(*client, &wire).await;
        }
        for client in open {
            if let Some((_, payload)) = self.frame(client).await? {
                let text = self.witness.reply(OpCode::PING, &payload);
                self.tell(client, format_args!("{text}"));
            }
        }
        Ok(())
    }

    async fn send(&mut self, client: usize, bytes: &[u8]) {
        if let Some(connection) = &mut self.clients[client].connection {
            connection.send(bytes).await;
        }
    }

    /// The next frame that is not an event; events before it are recorded. `None` if the connection
    /// has ended, which is recorded too.
    async fn frame(&mut self, client: usize) -> Result<Option<(Xid, Bytes)>> {
        loop {
            let Some(connection) = &mut self.clients[client].connection else { return Ok(None) };
            match connection.frame().await? {
                Ok(payload) => {
                    let xid = Xid::decode(&mut Reader::new(&payload))?;
                    if xid != Xid::NOTIFICATION {
                        return Ok(Some((xid, payload)));
                    }
                    let text = self.witness.event(&payload);
                    self.tell(client, format_args!("{text}"));
                }
                Err(end) => {
                    self.clients[client].connection = None;
                    self.tell(client, format_args!("{end:?}"));
                    return Ok(None);
                }
            }
        }
    }

    fn tell(&mut self, client: usize, what: std::fmt::Arguments<'_>) {
        self.lines.push(format!("{client}: {what}"));
    }
}

/// A request that does not come from a step.
fn request<T: Operation + std::fmt::Debug>(record: &T) -> Request {
    let mut body = BytesMut::new();
    record.encode(&mut Writer::new(&mut body, usize::MAX));
    let text = format!("{record:?}");
    Request { xid: Xid::FIRST, op: record.op(), body: body.to_vec(), since: None, text }
}

fn encode(wire: &mut BytesMut, request: &Request, last: Zxid) -> Result<(), EncodeError> {
    let Request { xid, op, body, since, .. } = request;
    let mut body = body.clone();
    if let (Some(since), Some(zxid)) = (since, body.first_chunk_mut()) {
        *zxid = (last.0 + since).max(0).to_be_bytes();
    }
    frame::encode(wire, frame::SERVER_FRAME_LIMIT, |writer| {
        RequestHeader { xid: *xid, op: *op }.encode(writer);
        writer.put(&body);
    })
}
