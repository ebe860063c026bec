//! What must hold whatever callers, servers and clocks do: the body of the fuzz target.
//!
//! It lives in the library so that a stable test runs the same claims over the committed corpus. A
//! claim that does not hold is a failed assertion.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zk_proto::{
    ConnectRequest, ConnectResponse, Create2Response, CreateMode, CreateRequest, Decode, Encode,
    ErrorCode, EventType, ExistsRequest, ExistsResponse, GetChildrenRequest, GetChildrenResponse,
    GetDataRequest, KeeperState, List, OpCode, Password, Reader, ReplyHeader, RequestHeader,
    SessionId, SetDataRequest, Stat, WatcherEvent, Writer, Xid, Zxid, frame,
};

use crate::config::{SessionConfig, SessionCredentials};
use crate::error::{Failure, Hangup, Rejected};
use crate::event::{StreamEvent, WatchMode};
use crate::session::{ClaimId, Event, Session, Watch, WatchId, WatchKind};

/// What a byte of the input does, modulo [`STEPS`]; the bytes that follow are its arguments.
pub const STEPS: u8 = 20;

const OWN: SessionId = SessionId(7);
const TIMEOUT: Duration = Duration::from_secs(12);

/// More than any one frame of the session's own takes, beside paths.
const OVERHEAD: usize = 64;

/// Runs `data` as a program of callers, a server and a clock around one session.
///
/// The first byte chooses the settings, the others are steps. Claimed of every program:
///
/// * Every request that was accepted is completed exactly once, and no other.
/// * It is told as sent exactly if it was; the reply to its number is the one that it gets.
/// * Every watch fires at most once, and not when it was forgotten; a stream hears of its own path
///   alone, from its reply until it was forgotten.
/// * Nothing is said behind the last state but hangups, and nothing is sent.
/// * A number goes on the wire once; only a handshake goes before the answer to it.
/// * What is sent is bounded by what was asked for.
/// * Once the time was handled, the next deadline is in the future.
/// * A session that is over holds nothing.
pub fn session(data: &[u8]) {
    let Some((settings, steps)) = data.split_first() else {
        return;
    };
    let mut world = World::new(*settings);
    let mut input = Input(steps);
    while let Some(step) = input.next() {
        world.step(step, &mut input);
        world.listen();
    }
    world.finish();
}

/// The bytes of a program; behind its end there are zeros.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn byte(&mut self) -> u8 {
        self.next().unwrap_or_default()
    }

    fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        head
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let byte = usize::from(self.byte());
        of.get(byte.checked_rem(of.len())?).copied()
    }
}

/// A request that the server has read and not answered.
struct Asked {
    xid: Xid,
    op: OpCode,
    path: String,
}

/// A session, and everything around it.
struct World {
    session: Session<u32, u32>,
    now: Instant,
    zxid: i64,
    /// Tokens and watchers are numbered together.
    numbered: u32,
    /// Accepted and not completed.
    waiting: BTreeSet<u32>,
    /// Of those, the ones whose request carries its token as path: whether it was sent.
    sent: BTreeMap<u32, bool>,
    /// Watches that may fire.
    watching: BTreeMap<u32, (WatchId, String)>,
    claims: Vec<ClaimId>,
    /// On this connection.
    asked: VecDeque<Asked>,
    /// Numbers that were on the wire, ever.
    numbers: BTreeSet<Xid>,
    link: Link,
    /// Whether the handshake was read, which a server may answer without reading it.
    met: bool,
    /// Bytes that the session may still send.
    allowance: usize,
    over: bool,
    completed: Vec<u32>,
}

/// The connection, as the server sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Down,
    /// The handshake was not answered.
    Up,
    /// Answered, and nothing has gone wrong since.
    Serving,
    /// The session has said that it hangs up.
    Broken,
}

impl World {
    fn new(settings: u8) -> Self {
        let mut config = SessionConfig::new(TIMEOUT, 3);
        if settings & 1 != 0 {
            config.limits.max_requests = 4;
        }
        if settings & 2 != 0 {
            config.limits.max_request = 40;
        }
        if settings & 4 != 0 {
            config.limits.max_queued_bytes = 100;
        }
        if settings & 8 != 0 {
            config.resume = Some(SessionCredentials::new(OWN, Password::ZERO));
        }
        Self {
            session: Session::new(config),
            now: start(),
            zxid: 0,
            numbered: 0,
            waiting: BTreeSet::new(),
            sent: BTreeMap::new(),
            watching: BTreeMap::new(),
            claims: Vec::new(),
            asked: VecDeque::new(),
            numbers: BTreeSet::new(),
            link: Link::Down,
            met: false,
            allowance: 0,
            over: false,
            completed: Vec::new(),
        }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % STEPS {
            0 => self.call(|session, path, token| {
                session.submit(&GetDataRequest { path, watch: false }, token)
            }),
            1 => self.call(|session, path, token| {
                let data: &[u8] = &[7; 20];
                session.submit(&SetDataRequest { path, data: Some(data), version: -1 }, token)
            }),
            2 => self.watch(input),
            3 => self.create(),
            4 => self.release(input),
            5 => {
                let watchers: Vec<u32> = self.watching.keys().copied().collect();
                if let Some(watcher) = input.pick(&watchers)
                    && let Some((id, path)) = self.watching.get(&watcher).cloned()
                {
                    // The server may have to be told.
                    self.allowance += OVERHEAD;
                    self.session.unwatch(id, &path);
                }
            }
            6 => self.session.close(),
            7 => self.connect(),
            8 => self.welcome(input),
            9 => {
                self.session.handle_disconnected(self.now);
                self.asked.clear();
                self.link = Link::Down;
            }
            10 | 11 => {
                self.now += Duration::from_millis(u64::from(input.byte()) * 50);
                self.session.handle_timeout(self.now);
                self.allowance += OVERHEAD;
                self.check_deadline();
            }
            12 => self.transmit(),
            13 | 14 => self.answer(input),
            15 => {
                let length = usize::from(input.byte());
                self.frame(Bytes::copy_from_slice(input.take(length)));
            }
            16 => self.event(input),
            17 => {
                let reasons = [Hangup::Eof, Hangup::Io(std::io::ErrorKind::BrokenPipe)];
                let error = input.pick(&reasons).unwrap_or(Hangup::Eof);
                self.session.hang_up(error);
            }
            18 => {
                // Out of order, unless it is the oldest by chance.
                let asked = self.asked.remove(usize::from(input.byte() % 4));
                let errors = [ErrorCode::UNIMPLEMENTED, ErrorCode::OK];
                let error = input.pick(&errors).unwrap_or(ErrorCode::OK);
                self.reply(asked.map_or(Xid::PING, |asked| asked.xid), error, &());
            }
            // A whole reconnect in one byte, so that short programs get far.
            _ => {
                self.session.handle_disconnected(self.now);
                self.asked.clear();
                self.link = Link::Down;
                self.listen();
                self.connect();
                self.transmit();
                self.welcome(&mut Input(&[]));
                self.listen();
                self.transmit();
            }
        }
    }

    fn number(&mut self) -> u32 {
        self.numbered += 1;
        self.numbered
    }

    /// Submits a request whose path is its token.
    fn call(
        &mut self,
        submit: impl FnOnce(&mut Session<u32, u32>, &str, u32) -> Result<(), Rejected>,
    ) {
        let token = self.number();
        let accepted = submit(&mut self.session, &format!("/{token}"), token);
        if self.accepted(token, accepted.is_ok()) {
            self.sent.insert(token, false);
        }
    }

    fn accepted(&mut self, token: u32, accepted: bool) -> bool {
        assert!(!(accepted && self.over), "a session that is over takes nothing");
        if accepted {
            self.waiting.insert(token);
            self.allowance += OVERHEAD;
        }
        accepted
    }

    fn watch(&mut self, input: &mut Input<'_>) {
        let token = self.number();
        let path = format!("/{token}");
        let kinds = [WatchKind::Data, WatchKind::Exist, WatchKind::Child];
        let byte = input.byte();
        let kind = kinds.get(usize::from(byte % 3)).copied().unwrap_or(WatchKind::Data);
        let watch = Watch { kind, path: path.clone(), watcher: token };
        let session = &mut self.session;
        let (path, flag) = (path.as_str(), true);
        let accepted = match kind {
            _ if byte & 0x80 != 0 => {
                let mode = match byte & 1 {
                    0 => WatchMode::Persistent,
                    _ => WatchMode::PersistentRecursive,
                };
                session.submit_stream(path, mode, token, token)
            }
            WatchKind::Data => {
                session.submit_watching(&GetDataRequest { path, watch: flag }, token, watch)
            }
            WatchKind::Exist => {
                session.submit_watching(&ExistsRequest { path, watch: flag }, token, watch)
            }
            WatchKind::Child => {
                session.submit_watching(&GetChildrenRequest { path, watch: flag }, token, watch)
            }
        };
        if self.accepted(token, accepted.is_ok()) {
            self.sent.insert(token, false);
        }
        if let Ok(id) = accepted {
            self.watching.insert(token, (id, path.to_owned()));
        }
    }

    fn create(&mut self) {
        let token = self.number();
        let path = format!("/c{token}-");
        let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
        let request = CreateRequest { path: &path, data: None, acl: List::new(&[]), mode };
        let accepted = self.session.submit_owned(&request, token);
        self.accepted(token, accepted.is_ok());
        self.claims.extend(accepted.ok());
    }

    fn release(&mut self, input: &mut Input<'_>) {
        if let Some(claim) = input.pick(&self.claims) {
            let token = input.byte().is_multiple_of(2).then(|| self.number());
            let accepted = self.session.release(claim, token).is_ok();
            // The path of the delete is the server's, and its frame was counted when it came.
            self.allowance += OVERHEAD;
            if let Some(token) = token {
                self.accepted(token, accepted);
            }
        }
    }

    fn connect(&mut self) {
        self.session.handle_connecting(self.now);
        self.session.handle_connected(self.now);
        if self.link == Link::Down {
            self.link = Link::Up;
            self.met = false;
            self.allowance += OVERHEAD;
        }
    }

    /// Answers the handshake: well, or with one of the ways to go wrong.
    fn welcome(&mut self, input: &mut Input<'_>) {
        let variant = input.byte();
        let answer = ConnectResponse {
            protocol_version: 0,
            timeout: if variant == 1 { 0 } else { TIMEOUT.as_millis() as i32 + i32::from(variant) },
            session_id: if variant == 2 { SessionId(8) } else { OWN },
            password: Password::ZERO,
            read_only: [Some(false), Some(true), None]
                .get(usize::from(variant % 3))
                .copied()
                .flatten(),
        };
        self.frame(encoded(|writer| answer.encode(writer)));
    }

    fn event(&mut self, input: &mut Input<'_>) {
        let watchers: Vec<u32> = self.watching.keys().copied().collect();
        let path = format!("/{}", input.pick(&watchers).unwrap_or_default());
        let kind = EventType(i32::from(input.byte() % 6));
        let state = KeeperState::SYNC_CONNECTED;
        self.reply(Xid::NOTIFICATION, ErrorCode::OK, &WatcherEvent { kind, state, path: &path });
    }

    /// Answers the oldest request: with what it asks for, with an error, or with something else.
    fn answer(&mut self, input: &mut Input<'_>) {
        let Some(Asked { xid, op, path }) = self.asked.pop_front() else {
            return;
        };
        let variant = input.byte();
        let serving = self.link == Link::Serving;
        let own = if variant & 64 == 0 { OWN } else { SessionId(9) };
        let stat = stat(own);
        match variant % 8 {
            0 => self.reply(xid, ErrorCode(-i32::from(input.byte())), &()),
            1 => self.reply(xid, ErrorCode::NO_NODE, &()),
            2 => self.reply(xid, ErrorCode::OK, &()),
            3 if op == OpCode::CREATE2 => {
                // A server that names nodes as it likes.
                let path = "/".repeat(usize::from(input.byte()));
                self.reply(xid, ErrorCode::OK, &Create2Response { path: &path, stat });
            }
            _ => match op {
                OpCode::CREATE2 => {
                    let path = format!("{path}{:010}", xid.0);
                    self.reply(xid, ErrorCode::OK, &Create2Response { path: &path, stat });
                }
                OpCode::GET_CHILDREN => {
                    let names: Vec<String> = (0..=self.numbered)
                        .filter(|n| variant & 32 == 0 || n % 2 == 0)
                        .map(|n| format!("c{n}-0000000001"))
                        .collect();
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    let children = List::new(&names);
                    self.reply(xid, ErrorCode::OK, &GetChildrenResponse { children });
                }
                OpCode::EXISTS => self.reply(xid, ErrorCode::OK, &ExistsResponse { stat }),
                _ => self.reply(xid, ErrorCode::OK, &()),
            },
        }
        self.completed.clear();
        self.listen();
        if serving && let Some(token) = token_of(&path) {
            assert_eq!(self.completed, [token], "the reply to {path} is the caller's");
        }
    }

    fn reply(&mut self, xid: Xid, error: ErrorCode, body: &impl Encode) {
        self.zxid += 1;
        let zxid = Zxid(self.zxid);
        self.frame(encoded(|writer| {
            ReplyHeader { xid, zxid, error }.encode(writer);
            body.encode(writer);
        }));
    }

    /// Hands a frame to the session. It may make a claim ask for something, once; if it lets the
    /// session in, watches and claims ask for more.
    fn frame(&mut self, frame: Bytes) {
        self.allowance += frame.len() + OVERHEAD;
        let (_, watches, claims) = self.session.load();
        self.session.handle_frame(self.now, frame);
        if self.link == Link::Up && self.session.state().is_connected() {
            self.link = Link::Serving;
            self.allowance += (watches + 4 * claims + 1) * OVERHEAD;
        }
    }

    /// Moves what the session sends to the server, and checks it.
    fn transmit(&mut self) {
        let mut out = BytesMut::new();
        let any = self.session.poll_transmit(self.now, &mut out);
        assert_eq!(any, !out.is_empty());
        assert!(!(any && self.over), "a session that is over sends nothing");
        assert!(out.len() <= self.allowance, "{} bytes, {} at most", out.len(), self.allowance);
        self.allowance -= out.len();

        while let Ok(Some(payload)) = frame::split(&mut out, frame::SERVER_FRAME_LIMIT) {
            let reader = &mut Reader::new(&payload);
            if !self.met {
                assert!(ConnectRequest::decode_exact(&payload).is_ok(), "the handshake is first");
                self.met = true;
                continue;
            }
            let header = RequestHeader::decode(reader);
            assert!(header.is_ok(), "a request has a header");
            let Ok(RequestHeader { xid, op }) = header else {
                return;
            };
            assert!(matches!(self.link, Link::Serving | Link::Broken), "{op} before the handshake");
            if xid == Xid::PING {
                continue;
            }
            assert!(xid == Xid::SET_WATCHES || self.numbers.insert(xid), "{op} #{xid} again");
            let path = match op {
                OpCode::SET_WATCHES
                | OpCode::SET_WATCHES2
                | OpCode::REMOVE_WATCHES
                | OpCode::CLOSE_SESSION => String::new(),
                _ => <&str>::decode(reader).unwrap_or_default().to_owned(),
            };
            if let Some(sent) = token_of(&path).and_then(|token| self.sent.get_mut(&token)) {
                *sent = true;
            }
            self.asked.push_back(Asked { xid, op, path });
        }
        assert!(out.is_empty(), "half a frame");
    }

    /// Hears what the session says, and checks it.
    fn listen(&mut self) {
        while let Some(event) = self.session.poll_event() {
            let over = self.over;
            match event {
                Event::Completed { token, result } => {
                    assert!(!over, "{token} is completed behind the end");
                    assert!(self.waiting.remove(&token), "{token} was not waiting");
                    self.completed.push(token);
                    let was = self.sent.remove(&token);
                    if let (
                        Some(was),
                        Err(Failure::ConnectionLoss { sent, .. } | Failure::Ended { sent, .. }),
                    ) = (was, result)
                    {
                        assert_eq!(sent, was, "whether {token} was sent");
                    }
                }
                Event::Watched { watcher, event } => {
                    assert!(!over, "{watcher} fires behind the end");
                    let watched = self.watching.remove(&watcher);
                    assert_eq!(watched.map(|(_, path)| path), Some(event.path), "of {watcher}");
                }
                Event::Unwatched { watcher } => {
                    assert!(!over, "{watcher} is given back behind the end");
                    assert!(self.watching.remove(&watcher).is_some(), "{watcher} was not watching");
                }
                Event::State(state) => {
                    assert!(!over, "{state:?} behind the end");
                    assert_eq!(self.session.ended(), state.ended());
                    self.over = state.ended().is_some();
                }
                Event::Noticed { stream, event } => {
                    assert!(!over, "{stream} is told something behind the end");
                    let path = self.watching.get(&stream).map(|(_, path)| path.as_str());
                    assert!(path.is_some(), "{stream} was not watching");
                    if let StreamEvent::Changed(event) = event {
                        assert!(Some(event.path.as_str()) == path, "{stream} hears of {event:?}");
                    }
                }
                Event::Unstreamed { stream } => {
                    assert!(!over, "{stream} is given back behind the end");
                    assert!(self.watching.remove(&stream).is_some(), "{stream} was not watching");
                }
                Event::Leases => assert!(!over, "leases change behind the end"),
                Event::Hangup(_) => self.link = Link::Broken,
            }
        }
        assert_eq!(self.session.ended().is_some(), self.over, "the end is told");
    }

    fn check_deadline(&self) {
        let deadline = self.session.poll_timeout();
        assert!(deadline.is_none_or(|at| at > self.now), "a deadline in the past");
    }

    fn finish(mut self) {
        self.session.abandon();
        self.listen();
        assert!(self.over);
        assert!(self.waiting.is_empty(), "nobody answered {:?}", self.waiting);
        assert!(self.watching.is_empty(), "nobody gave back {:?}", self.watching);
        assert_eq!(self.session.load(), (0, 0, 0));
        assert_eq!(self.session.poll_timeout(), None);
        self.transmit();
        assert!(!format!("{:?}", self.session).is_empty());
    }
}

/// The token of a call, from its path.
fn token_of(path: &str) -> Option<u32> {
    path.strip_prefix('/')?.parse().ok()
}

fn stat(owner: SessionId) -> Stat {
    Stat {
        czxid: Zxid(1),
        mzxid: Zxid(1),
        ctime: 0,
        mtime: 0,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: owner,
        data_length: 0,
        num_children: 0,
        pzxid: Zxid(1),
    }
}

fn encoded(body: impl FnOnce(&mut Writer<'_>)) -> Bytes {
    let mut out = BytesMut::new();
    body(&mut Writer::new(&mut out, usize::MAX));
    out.freeze()
}

/// Where the virtual clock starts; what it says does not matter.
#[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
fn start() -> Instant {
    Instant::now()
}
