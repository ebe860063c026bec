//! The server's side of the protocol, played by a test and checked to the last byte.
//!
//! [`Bench`] is at the other end of a [`Session`] without I/O, with a clock of its own. [`Network`]
//! is what a whole client connects to: the test gets each attempt as a [`Dial`], and plays the
//! server over a [`Peer`]. What goes either way is compared as text, such as `getData#1 /a` for a
//! request and `7 saw NodeDeleted /a` for an event; see [`Request`] and [`Bench::said`].
//!
//! All three fail a test that leaves something unread behind.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use zk_client::session::{Event, Session};
use zk_client::{Connecting, Connector, Failure, Host, SessionConfig, Transport};
use zk_proto::{
    ConnectRequest, ConnectResponse, Create2Response, CreateRequest, Decode, Encode, ErrorCode,
    EventType, ExistsResponse, GetChildren2Response, GetDataResponse, KeeperState, List, OpCode,
    Password, Reader, ReplyHeader, RequestHeader, SessionId, SetDataResponse, SetWatches, Stat,
    SyncRequest, SyncResponse, Text, WatcherEvent, Writer, Xid, Zxid, frame,
};

/// The session that every test is given.
pub const SESSION: SessionId = SessionId(0x100_0000_0000_0001);

/// The session timeout of every test that does not say otherwise: its thirds are whole seconds.
pub const TIMEOUT: Duration = Duration::from_secs(12);

/// The password of [`SESSION`].
pub fn password() -> Password {
    Password::new(b"0123456789abcdef").expect("16 bytes")
}

/// A moment to count from: the clock of tokio, which a test may have paused.
#[expect(clippy::disallowed_methods, reason = "tests start and read clocks")]
fn now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Measures what passes on tokio's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock(tokio::time::Instant);

impl Clock {
    /// From now on.
    pub fn start() -> Self {
        Self(now())
    }

    /// Until now.
    pub fn elapsed(&self) -> Duration {
        now() - self.0
    }
}

/// A record as the payload of a frame.
pub fn payload(record: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    record.encode(&mut Writer::new(&mut out, usize::MAX));
    out.freeze()
}

/// A reply as the payload of a frame.
pub fn reply(xid: Xid, zxid: i64, error: ErrorCode, body: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    let mut writer = Writer::new(&mut out, usize::MAX);
    ReplyHeader { xid, zxid: Zxid(zxid), error }.encode(&mut writer);
    body.encode(&mut writer);
    out.freeze()
}

/// A watch event as the payload of a frame.
pub fn notification(zxid: i64, kind: EventType, path: &str) -> Bytes {
    let event = WatcherEvent { kind, state: KeeperState::SYNC_CONNECTED, path };
    reply(Xid::NOTIFICATION, zxid, ErrorCode::OK, &event)
}

/// The answer to a handshake that lets [`SESSION`] in.
pub fn welcome(timeout: Duration) -> ConnectResponse {
    ConnectResponse {
        protocol_version: 0,
        timeout: timeout.as_millis() as i32,
        session_id: SESSION,
        password: password(),
        read_only: Some(false),
    }
}

/// The answer to a handshake for a session that is over.
pub fn expired() -> ConnectResponse {
    ConnectResponse {
        timeout: 0,
        session_id: SessionId(0),
        password: Password::ZERO,
        ..welcome(TIMEOUT)
    }
}

/// The state of a node that belongs to `owner`.
pub fn stat_of(owner: SessionId) -> Stat {
    Stat {
        czxid: Zxid(0x77),
        mzxid: Zxid(0x77),
        ctime: 0,
        mtime: 0,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: owner,
        data_length: 0,
        num_children: 0,
        pzxid: Zxid(0x77),
    }
}

/// The answer to a create.
pub fn created(path: &str) -> Create2Response<'_> {
    Create2Response { path, stat: stat_of(SESSION) }
}

/// The answer to exists.
pub fn there() -> ExistsResponse {
    ExistsResponse { stat: stat_of(SessionId(0)) }
}

/// The answer to getData.
pub fn data(data: &[u8]) -> GetDataResponse<'_> {
    GetDataResponse { data: Some(data), stat: stat_of(SessionId(0)) }
}

/// A request as it came. Its text is `getData#1 /a`: operation, xid and path.
#[derive(Clone, Debug)]
pub struct Request(Bytes);

impl Request {
    fn header(&self) -> RequestHeader {
        RequestHeader::decode(&mut Reader::new(&self.0)).expect("a request has a header")
    }

    /// Comes back in the reply.
    pub fn xid(&self) -> Xid {
        self.header().xid
    }

    /// What it asks for.
    pub fn op(&self) -> OpCode {
        self.header().op
    }

    /// The record.
    pub fn body<'a, T: Decode<'a>>(&'a self) -> T {
        T::decode_exact(&self.0[8..]).expect("the request decodes")
    }

    /// The path, which is the first field of most requests.
    pub fn path(&self) -> &str {
        Decode::decode(&mut Reader::new(&self.0[8..])).expect("the request begins with a path")
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestHeader { xid, op } = self.header();
        match op {
            OpCode::PING => write!(f, "ping"),
            OpCode::CLOSE_SESSION => write!(f, "closeSession#{xid}"),
            OpCode::SET_WATCHES => {
                let SetWatches { relative_zxid, data, exist, child } = self.body();
                write!(f, "setWatches#{xid} since {relative_zxid}: {data:?} {exist:?} {child:?}")
            }
            op => write!(f, "{op}#{xid} {}", self.path()),
        }
    }
}

/// A session on the bench: the test is its transport, its server and its clock.
///
/// Dropping it fails the test if the session has something left to say or to send.
#[derive(Debug)]
pub struct Bench {
    /// What is tested.
    pub session: Session<u32, u32>,
    /// The virtual time.
    pub now: Instant,
    start: Instant,
    zxid: i64,
}

impl Bench {
    /// A session with these settings that has met no server.
    pub fn new(config: SessionConfig) -> Self {
        let start = now().into_std();
        Self { session: Session::new(config), now: start, start, zxid: 0 }
    }

    /// The settings of most tests: [`TIMEOUT`] and three servers.
    pub fn config() -> SessionConfig {
        SessionConfig::new(TIMEOUT, 3)
    }

    /// A new session that is connected.
    pub fn attached() -> Self {
        let mut bench = Self::new(Self::config());
        bench.attach();
        bench
    }

    /// Begins a connection and takes the handshake off the wire.
    pub fn connect(&mut self) -> ConnectRequest {
        self.session.handle_connecting(self.now);
        self.session.handle_connected(self.now);
        let frames = self.frames();
        let [frame] = frames.as_slice() else {
            panic!("{} frames instead of a handshake", frames.len());
        };
        ConnectRequest::decode_exact(frame).expect("a handshake")
    }

    /// Connects, and is let in.
    pub fn attach(&mut self) {
        self.connect();
        self.frame(payload(&welcome(TIMEOUT)));
        assert_eq!(self.said(), ["Connected"]);
    }

    /// Lets the connection break, and forgets nothing of what that says.
    pub fn cut(&mut self) {
        self.session.handle_disconnected(self.now);
    }

    /// Hands a frame to the session.
    pub fn frame(&mut self, payload: Bytes) {
        self.session.handle_frame(self.now, payload);
    }

    /// Answers a request with the next transaction.
    pub fn answer(&mut self, xid: i32, body: &impl Encode) {
        self.zxid += 1;
        self.frame(reply(Xid(xid), self.zxid, ErrorCode::OK, body));
    }

    /// Refuses a request.
    pub fn refuse(&mut self, xid: i32, code: ErrorCode) {
        self.zxid += 1;
        self.frame(reply(Xid(xid), self.zxid, code, &()));
    }

    /// Fires a watch at the next transaction.
    pub fn fire(&mut self, kind: EventType, path: &str) {
        self.zxid += 1;
        self.frame(notification(self.zxid, kind, path));
    }

    /// Lets time pass, and tells the session.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.session.handle_timeout(self.now);
    }

    /// How long it is to the next deadline.
    pub fn due_in(&self) -> Option<Duration> {
        self.session.poll_timeout().map(|at| at.saturating_duration_since(self.now))
    }

    /// How long this bench has existed, on its own clock.
    pub fn age(&self) -> Duration {
        self.now - self.start
    }

    /// The frames that the session sends now.
    pub fn frames(&mut self) -> Vec<Bytes> {
        let mut out = BytesMut::new();
        let any = self.session.poll_transmit(self.now, &mut out);
        assert_eq!(any, !out.is_empty());
        let mut frames = Vec::new();
        while let Some(payload) = frame::split(&mut out, frame::SERVER_FRAME_LIMIT).expect("frames")
        {
            frames.push(payload);
        }
        assert!(out.is_empty(), "half a frame was sent");
        frames
    }

    /// The requests that the session sends now.
    pub fn requests(&mut self) -> Vec<Request> {
        self.frames().into_iter().map(Request).collect()
    }

    /// The same as text.
    pub fn sent(&mut self) -> Vec<String> {
        self.requests().iter().map(Request::to_string).collect()
    }

    /// What the session has to say, as text: `1 ok`, `1 NoNode`, `1 lost, sent` and `1 lost, unsent`,
    /// `1 over, sent: ..`, `7 saw NodeDeleted /a` with `at` a zxid and `, missed`, `7 unwatched`, the
    /// name of a state, or `hangup: ..`.
    pub fn said(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.session.poll_event()).map(text).collect()
    }
}

fn text(event: Event<u32, u32>) -> String {
    let sent = |sent| if sent { "sent" } else { "unsent" };
    match event {
        Event::Completed { token, result: Ok(_) } => format!("{token} ok"),
        Event::Completed { token, result: Err(failure) } => match failure {
            Failure::Refused(code) => format!("{token} {code}"),
            Failure::ConnectionLoss { sent: was, .. } => format!("{token} lost, {}", sent(was)),
            Failure::Ended { sent: was, ended } => {
                format!("{token} over, {}: {ended:?}", sent(was))
            }
            other => format!("{token} {other:?}"),
        },
        Event::Watched { watcher, event } => {
            let at = event.zxid.map(|zxid| format!(" at {zxid}")).unwrap_or_default();
            let missed = if event.missed { ", missed" } else { "" };
            format!("{watcher} saw {} {}{at}{missed}", event.kind, event.path)
        }
        Event::Unwatched { watcher } => format!("{watcher} unwatched"),
        Event::State(state) => format!("{state:?}"),
        Event::Hangup(why) => format!("hangup: {why}"),
        other => format!("{other:?}"),
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(self.said(), [""; 0], "the session had something left to say");
            assert_eq!(self.sent(), [""; 0], "the session had something left to send");
        }
    }
}

/// Every server that a client can reach: none is there until the test plays it.
///
/// Dropping it fails the test if an attempt was not looked at.
#[derive(Debug)]
pub struct Network {
    dialing: mpsc::UnboundedSender<Dial>,
    dials: mpsc::UnboundedReceiver<Dial>,
}

/// The client's end of a [`Network`].
#[derive(Clone, Debug)]
pub struct Dialer(mpsc::UnboundedSender<Dial>);

/// A client's attempt at a server. Dropping it refuses the connection.
pub struct Dial {
    /// The server, as the connect string names it.
    pub host: String,
    answer: oneshot::Sender<io::Result<Box<dyn Transport>>>,
}

impl Network {
    /// A network without a client.
    #[expect(clippy::new_without_default, reason = "there is no default network")]
    pub fn new() -> Self {
        let (dialing, dials) = mpsc::unbounded_channel();
        Self { dialing, dials }
    }

    /// What the client connects with.
    pub fn dialer(&self) -> Dialer {
        Dialer(self.dialing.clone())
    }

    /// The client's next attempt.
    pub async fn dial(&mut self) -> Dial {
        self.dials.recv().await.expect("the network holds a sender")
    }

    /// The client's next attempt, which this server lets in.
    pub async fn attach(&mut self) -> Peer {
        let mut peer = self.dial().await.accept();
        peer.attach().await;
        peer
    }

    /// Refuses every attempt from now on, until the task is aborted.
    pub fn refuse_all(mut self) -> JoinHandle<()> {
        tokio::spawn(async move {
            while let Some(dial) = self.dials.recv().await {
                dial.refuse(io::ErrorKind::ConnectionRefused);
            }
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let dial = self.dials.try_recv().ok().filter(|dial| !dial.answer.is_closed());
            assert!(dial.is_none(), "nobody looked at {dial:?}");
        }
    }
}

impl Connector for Dialer {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        let (answer, answered) = oneshot::channel();
        let dial = Dial { host: host.to_string(), answer };
        let dialed = self.0.send(dial);
        Box::pin(async move {
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            dialed.map_err(|_| refused())?;
            answered.await.map_err(|_| refused())?
        })
    }
}

impl Dial {
    /// Lets the client connect.
    pub fn accept(self) -> Peer {
        let (client, server) = tokio::io::duplex(1 << 20);
        let writes = Arc::new(AtomicUsize::new(0));
        let client = Counted { io: client, writes: Arc::clone(&writes) };
        // An attempt that the client has given up is a connection without a client.
        drop(self.answer.send(Ok(Box::new(client))));
        Peer { io: server, input: BytesMut::new(), asked: VecDeque::new(), zxid: 0, writes }
    }

    /// Refuses the connection.
    pub fn refuse(self, why: io::ErrorKind) {
        drop(self.answer.send(Err(why.into())));
    }

    /// Waits until the client gives the attempt up.
    pub async fn ignore(mut self) {
        self.answer.closed().await;
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an attempt at {}", self.host)
    }
}

/// Counts the writes of the client.
struct Counted {
    io: DuplexStream,
    writes: Arc<AtomicUsize>,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        if let Poll::Ready(Ok(_)) = written {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A server at the other end of one connection.
///
/// Dropping it cuts the connection, and fails the test if a request is left that was not read.
#[derive(Debug)]
pub struct Peer {
    io: DuplexStream,
    input: BytesMut,
    /// Read and not answered.
    asked: VecDeque<Xid>,
    zxid: i64,
    writes: Arc<AtomicUsize>,
}

impl Peer {
    /// How often the client has written to the transport.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    /// The next frame, or `None` if the client has hung up.
    pub async fn frame(&mut self) -> Option<Bytes> {
        loop {
            let limit = frame::SERVER_FRAME_LIMIT;
            if let Some(payload) = frame::split(&mut self.input, limit).expect("frames") {
                return Some(payload);
            }
            // A client that hangs up may cut a frame short.
            if self.io.read_buf(&mut self.input).await.expect("a duplex does not fail") == 0 {
                return None;
            }
        }
    }

    /// Reads the handshake.
    pub async fn handshake(&mut self) -> ConnectRequest {
        let frame = self.frame().await.expect("a handshake");
        ConnectRequest::decode_exact(&frame).expect("a handshake")
    }

    /// Reads the handshake and lets the session in, with the timeout that it wants.
    pub async fn attach(&mut self) -> ConnectRequest {
        let request = self.handshake().await;
        let wanted = Duration::from_millis(request.timeout.unsigned_abs().into());
        self.send(&payload(&welcome(wanted))).await;
        request
    }

    /// Sends a frame.
    pub async fn send(&mut self, payload: &[u8]) {
        let mut wire = BytesMut::new();
        frame::encode(&mut wire, usize::MAX, |writer| writer.put(payload)).expect("a frame");
        self.raw(&wire).await;
    }

    /// Sends bytes as they are. A client that has hung up does not read them.
    pub async fn raw(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.ok();
    }

    /// The next request. Pings are answered on the way.
    pub async fn next(&mut self) -> Option<Request> {
        loop {
            let request = Request(self.frame().await?);
            if request.op() == OpCode::PING {
                self.send(&reply(Xid::PING, self.zxid, ErrorCode::OK, &())).await;
                continue;
            }
            self.asked.push_back(request.xid());
            return Some(request);
        }
    }

    /// The next request must be this. Pings are answered on the way.
    pub async fn expect(&mut self, text: &str) -> Request {
        let request = self.next().await;
        let got = request.as_ref().map(Request::to_string);
        assert_eq!(got.as_deref(), Some(text));
        request.expect("just compared")
    }

    /// The client must hang up without another request.
    pub async fn expect_hangup(&mut self) {
        let request = self.next().await.map(|request| request.to_string());
        assert_eq!(request, None, "instead of a hangup");
    }

    fn oldest(&mut self) -> Xid {
        self.zxid += 1;
        self.asked.pop_front().expect("there is something to answer")
    }

    /// Answers the oldest request that was read.
    pub async fn answer(&mut self, body: &impl Encode) {
        let xid = self.oldest();
        let reply = reply(xid, self.zxid, ErrorCode::OK, body);
        self.send(&reply).await;
    }

    /// Refuses the oldest request that was read.
    pub async fn refuse(&mut self, code: ErrorCode) {
        let xid = self.oldest();
        let reply = reply(xid, self.zxid, code, &());
        self.send(&reply).await;
    }

    /// Fires a watch.
    pub async fn fire(&mut self, kind: EventType, path: &str) {
        self.zxid += 1;
        self.send(&notification(self.zxid, kind, path)).await;
    }

    /// Answers everything with success until the client hangs up or closes its session; nodes are
    /// there whatever was asked before. Gives back what was asked.
    pub fn serve(mut self) -> JoinHandle<Vec<String>> {
        tokio::spawn(async move {
            let mut log = Vec::new();
            while let Some(request) = self.next().await {
                log.push(request.to_string());
                let stat = stat_of(SESSION);
                match request.op() {
                    OpCode::CREATE2 => {
                        let CreateRequest { path, mode, .. } = request.body();
                        let digits = if mode.is_sequential() { "0000000007" } else { "" };
                        self.answer(&created(&format!("{path}{digits}"))).await;
                    }
                    OpCode::EXISTS => self.answer(&ExistsResponse { stat }).await,
                    OpCode::GET_DATA => self.answer(&data(b"data")).await,
                    OpCode::SET_DATA => self.answer(&SetDataResponse { stat }).await,
                    OpCode::GET_CHILDREN2 => {
                        let children = List::new(&["a", "b"]);
                        self.answer(&GetChildren2Response { children, stat }).await;
                    }
                    OpCode::SYNC => {
                        let SyncRequest { path } = request.body();
                        self.answer(&SyncResponse { path: Text::new(path) }).await;
                    }
                    OpCode::CLOSE_SESSION => {
                        self.answer(&()).await;
                        return log;
                    }
                    _ => self.answer(&()).await,
                }
            }
            log
        })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut cx = Context::from_waker(Waker::noop());
        let mut buffer = [0; 4096];
        loop {
            let mut read = ReadBuf::new(&mut buffer);
            match Pin::new(&mut self.io).poll_read(&mut cx, &mut read) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                    self.input.extend_from_slice(read.filled());
                }
                _ => break,
            }
        }
        while let Ok(Some(payload)) = frame::split(&mut self.input, usize::MAX) {
            let request = Request(payload);
            assert!(request.0.remaining() < 8 || request.op() == OpCode::PING, "unread: {request}");
        }
    }
}
