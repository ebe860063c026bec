//! The other end of a whole client.

use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::io::InspectWriter;
use zk_client::{Connecting, Connector, Host, Transport};
use zk_proto::*;

use crate::explore::poll_once;
use crate::peer::frames::*;

/// How long to wait for a client. Its pings alone would go on for ever.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// All servers that a client can reach. None of them exists until the test plays it.
///
/// Dropping it fails the test if an attempt was not handled.
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

    /// The connector for the client.
    pub fn dialer(&self) -> Dialer {
        Dialer(self.dialing.clone())
    }

    /// Waits for the client's next attempt.
    pub async fn dial(&mut self) -> Dial {
        self.dials.recv().await.expect("the network holds a sender")
    }

    /// Waits for the client's next attempt, and accepts its session.
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
            assert_eq!(dial.map(|dial| dial.host), None, "nobody looked at this attempt");
        }
    }
}

impl Connector for Dialer {
    fn connect<'a>(&'a self, host: &'a Host) -> Connecting<'a> {
        let (answer, answered) = oneshot::channel();
        let dial = Dial { host: host.to_string(), answer };
        // Without a network there is nobody to answer.
        self.0.send(dial).ok();
        Box::pin(async {
            let answer = answered.await;
            answer.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionRefused.into()))
        })
    }
}

impl Dial {
    /// Lets the client connect.
    pub fn accept(self) -> Peer {
        let (client, server) = tokio::io::duplex(1 << 20);
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&writes);
        let client = InspectWriter::new(client, move |_: &[u8]| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        // The client may have given up the attempt: then this connection has no client.
        drop(self.answer.send(Ok(Box::new(client))));
        Peer { io: server, input: BytesMut::new(), asked: VecDeque::new(), zxid: 0, writes }
    }

    /// Refuses the connection.
    pub fn refuse(self, why: io::ErrorKind) {
        drop(self.answer.send(Err(why.into())));
    }

    /// Waits until the client gives up the attempt.
    pub async fn ignore(mut self) {
        self.answer.closed().await;
    }
}

/// A server at the other end of one connection.
///
/// Dropping it cuts the connection, and fails the test if a request was not read.
#[derive(Debug)]
pub struct Peer {
    io: DuplexStream,
    input: BytesMut,
    /// Requests that were read and not answered.
    asked: VecDeque<Xid>,
    zxid: i64,
    writes: Arc<AtomicUsize>,
}

impl Peer {
    /// How often the client has written to the transport.
    pub fn writes(&self) -> usize {
        self.writes.load(Ordering::Relaxed)
    }

    /// Reads the next frame, or returns `None` if the client has closed the connection.
    pub async fn frame(&mut self) -> Option<Bytes> {
        // A client that closes the connection may cut a frame short.
        let frame = next_frame(&mut self.io, &mut self.input).await?;
        assert!(frame.len() <= frame::SERVER_FRAME_LIMIT, "{} bytes", frame.len());
        Some(frame)
    }

    /// Reads the four-letter word that comes in place of a handshake.
    pub async fn word(&mut self) -> String {
        let mut word = [0; 4];
        self.io.read_exact(&mut word).await.expect("a word");
        String::from_utf8_lossy(&word).into_owned()
    }

    /// Reads the handshake.
    pub async fn handshake(&mut self) -> ConnectRequest {
        let frame = self.frame().await.expect("a handshake");
        ConnectRequest::decode_exact(&frame).expect("a handshake")
    }

    /// Reads the handshake and accepts the session, with the timeout that it asks for.
    pub async fn attach(&mut self) -> ConnectRequest {
        let request = self.handshake().await;
        let wanted = Duration::from_millis(request.timeout.unsigned_abs().into());
        self.send(&payload(&welcome(wanted))).await;
        request
    }

    /// Sends a frame. A client that has closed the connection does not read it.
    pub async fn send(&mut self, payload: &[u8]) {
        send_frame(&mut self.io, payload).await;
    }

    /// Sends bytes as they are. A client that has closed the connection does not read them.
    pub async fn raw(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.ok();
    }

    /// Reads the next request. Pings before it are answered.
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

    /// Checks that the next request is this one. Pings before it are answered.
    pub async fn expect(&mut self, text: &str) -> Request {
        let request = timeout(PATIENCE, self.next()).await.expect(text);
        let got = request.as_ref().map(Request::to_string);
        assert_eq!(got.as_deref(), Some(text));
        request.expect("just compared")
    }

    /// Checks that the client closes the connection without another request.
    pub async fn expect_hangup(&mut self) {
        let request = timeout(PATIENCE, self.next()).await.expect("a hangup");
        let request = request.map(|request| request.to_string());
        assert_eq!(request, None, "instead of a hangup");
    }

    async fn reply(&mut self, code: ErrorCode, body: &impl Encode) {
        self.zxid += 1;
        let xid = self.asked.pop_front().expect("there is something to answer");
        self.send(&reply(xid, self.zxid, code, body)).await;
    }

    /// Answers the oldest request that was read.
    pub async fn answer(&mut self, body: &impl Encode) {
        self.reply(ErrorCode::OK, body).await;
    }

    /// Answers the oldest request, a search for ephemeral nodes of the session, with these paths.
    pub async fn answer_ephemerals(&mut self, paths: &[&str]) {
        self.answer(&GetEphemeralsResponse { ephemerals: List::new(paths) }).await;
    }

    /// Refuses the oldest request that was read.
    pub async fn refuse(&mut self, code: ErrorCode) {
        self.reply(code, &()).await;
    }

    /// Fires a watch.
    pub async fn fire(&mut self, kind: EventType, path: &str) {
        self.zxid += 1;
        self.send(&notification(self.zxid, kind, path)).await;
    }

    /// Answers every request with success, until the client closes its session or the connection.
    ///
    /// Every node exists, whatever was deleted before. Returns the requests.
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
                        self.answer(&SyncResponse { path }).await;
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
        while let Poll::Ready(Some(payload)) =
            poll_once(pin!(next_frame(&mut self.io, &mut self.input)))
        {
            let request = Request(payload);
            assert!(request.0.len() < 8 || request.op() == OpCode::PING, "unread: {request}");
        }
    }
}
