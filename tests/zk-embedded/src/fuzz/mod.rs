//! The body of the fuzz target: what must hold whatever clients, faults and clocks do.
//!
//! It lives in the library so that a stable test runs the same claims over the committed corpus. A
//! claim that does not hold is a failed assertion.

mod input;
mod requests;
pub mod steps;

mod client;
mod shadow;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use zk_proto::{ConnectRequest, ErrorCode, Password, SessionId, Zxid, digest};

use crate::config::{Config, ServerVersion};
use crate::core::Core;
use crate::fault::Fault;
use crate::fuzz::client::Client;
use crate::fuzz::input::Input;
use crate::fuzz::requests::{SUPER, op, path, raw, request};
use crate::fuzz::shadow::Shadow;
use crate::node::{Kind, Node};
use crate::store::wire_acl;

pub use crate::fuzz::requests::PATHS;

/// How many connections there may be at a time.
const CLIENTS: usize = 6;

const WORDS: &[&[u8; 4]] =
    &[b"ruok", b"isro", b"srvr", b"stat", b"mntr", b"cons", b"dump", b"wchs", b"none", b"wchc"];

const SEQUENCES: &[i32] = &[i32::MAX - 1, i32::MAX, i32::MAX - 2, 7, 0, -1, i32::MIN];

/// More bytes than a reply or an event takes, beside the data of the tree in it.
const OVERHEAD: usize = 1024;

/// Runs `data` as a program of clients, an operator and a clock around one server.
///
/// The first byte chooses the settings, the others are [`steps`]. After every step of every program
/// these claims are checked:
///
/// * The server takes only whole frames off the input.
/// * What the server sends can be decoded: a session, then a reply to each request, in their order
///   and with the body that belongs to the operation, and events between them. Nothing follows the
///   end.
/// * A connection that has something to receive is named, once. A connection that must be closed is
///   closed.
/// * The number of bytes sent is bounded by the requests and by the size of the tree.
/// * The tree is consistent, and the history records every change of it.
/// * Watches, sessions and connections agree with each other.
/// * Once the time was handled, the next deadline is in the future.
///
/// At the end of a program all sessions expire, and nothing is left of them.
pub fn server(data: &[u8]) {
    run(data);
}

/// The same. Returns how many requests were sent, so that a test knows what its program does.
pub fn run(data: &[u8]) -> usize {
    let Some((settings, steps)) = data.split_first() else {
        return 0;
    };
    let mut world = World::new(*settings);
    let mut input = Input(steps);
    while let Some(step) = input.next() {
        let before = world.measure();
        world.step(step, &mut input);
        world.settle(before);
    }
    let requests = world.requests;
    world.finish();
    requests
}

/// A server, and everything around it.
struct World {
    core: Core,
    start: Instant,
    now: Instant,
    clients: Vec<Client>,
    /// Every session that was ever opened.
    sessions: Vec<(SessionId, Password)>,
    shadow: Shadow,
    /// Whether clients keep a closed connection until a later step ends it.
    lazy: bool,
    /// Bytes that the server was sent in this step.
    sent: usize,
    /// Requests that clients sent, or a part of them.
    requests: usize,
}

/// The numbers that bound the output of a step.
#[derive(Clone, Copy)]
struct Measure {
    /// Bytes that wait to be sent.
    unsent: usize,
    /// Bytes of requests that wait to be served.
    held: usize,
    nodes: usize,
    /// An upper bound of the bytes of one reply.
    size: usize,
}

impl World {
    fn new(settings: u8) -> Self {
        let has = |bit: u8| settings & (1 << bit) != 0;
        let mut config = Config::new()
            .server_version(if has(0) { ServerVersion::V3_8 } else { ServerVersion::V3_9 })
            .extended_types(has(1))
            .local_sessions(!has(7))
            .keep_history(true);
        if has(2) {
            config = config.max_buffer(150);
        }
        if has(3) {
            config = config.max_connections_per_host(2);
        }
        if has(5) {
            config = config.super_digest(digest(SUPER));
        }
        if has(6) {
            config = config
                .tick_time(Duration::from_millis(70))
                .container_check_interval(Duration::from_millis(100));
        }
        let now = start();
        let core = Core::new(config, now, Duration::from_secs(1_700_000_000));
        let shadow = Shadow::new(&core);
        let (clients, sessions, lazy) = (Vec::new(), Vec::new(), has(4));
        Self { core, start: now, now, clients, sessions, shadow, lazy, sent: 0, requests: 0 }
    }

    fn step(&mut self, step: u8, input: &mut Input<'_>) {
        match step % steps::COUNT {
            steps::ASK..=steps::ASK_END => self.ask(input, request),
            steps::ASK_RAW => self.ask(input, raw),
            steps::CONNECT => self.connect(input),
            steps::ARRIVE => {
                self.connect(input);
                self.hello(
                    self.clients.len().saturating_sub(1),
                    ConnectRequest { timeout: 6000, ..HELLO },
                );
            }
            steps::RETURN => self.reattach(input),
            steps::HELLO => {
                let at = self.client(input);
                let timeout = i32::from(input.byte()) * 300 - 1000;
                let read_only = [Some(false), Some(true), None];
                let read_only = input.pick(&read_only).flatten();
                self.hello(at, ConnectRequest { timeout, read_only, ..HELLO });
            }
            steps::RAW => {
                let at = self.client(input);
                let length = input.below(40);
                let bytes = input.take(length);
                self.write(at, usize::MAX, |client| client.outgoing.extend_from_slice(bytes));
            }
            steps::WORD => {
                let at = self.client(input);
                let word = input.pick(WORDS).unwrap_or(b"ruok");
                self.write(at, usize::MAX, |client| client.outgoing.extend_from_slice(word));
            }
            steps::FLUSH => {
                let (at, bytes) = (self.client(input), usize::from(input.byte()));
                self.write(at, bytes, |_| {});
            }
            steps::LEAVE => {
                let at = self.client(input);
                if at < self.clients.len() {
                    let client = self.clients.remove(at);
                    self.core.handle_disconnected(client.id);
                }
            }
            steps::IGNORE => {
                let at = self.client(input);
                if let Some(client) = self.clients.get_mut(at) {
                    client.reads = !client.reads;
                    if client.reads {
                        client.read(&self.core);
                    }
                }
            }
            steps::WAIT => self.wait(Duration::from_millis(u64::from(input.byte()) * 100)),
            steps::WAIT_DUE => {
                let deadline = self.core.poll_timeout().unwrap_or(self.now);
                let early = Duration::from_nanos(u64::from(input.byte() % 2));
                self.wait(deadline.saturating_duration_since(self.now).saturating_sub(early));
            }
            steps::SLEEP => self.now += Duration::from_millis(u64::from(input.byte()) * 100),
            steps::FAULT => self.fault(input),
            steps::PARTITION => {
                let (session, _) = self.session(input);
                self.core.partition(session);
            }
            steps::HEAL => self.core.heal(self.now),
            steps::SWITCH => match input.byte() % 8 {
                0 => self.core.set_serving(self.now, false),
                1 => self.core.set_read_only(self.now, true),
                2 | 3 => {
                    let (served, sessions) = (self.core.state.serving, self.core.sessions());
                    self.core.set_serving(self.now, true);
                    self.core.handle_timeout(self.now);
                    assert!(served || self.core.sessions() == sessions, "all begin anew");
                }
                4 | 5 => self.core.set_read_only(self.now, false),
                6 => self.core.disconnect_all(),
                _ => self.core.clear_faults(),
            },
            steps::EXPIRE => {
                let (session, _) = self.session(input);
                if input.byte().is_multiple_of(2) {
                    self.core.expire(self.now, session);
                } else {
                    self.core.disconnect(session);
                }
            }
            steps::PRESET_SEQUENCE => {
                let (path, next) = (path(input), input.pick(SEQUENCES).unwrap_or_default());
                if self.core.preset_sequence(path, next) {
                    self.shadow.preset_sequence(path, next);
                }
            }
            steps::PRESET_VERSION => {
                let (path, version) = (path(input), input.pick(SEQUENCES).unwrap_or_default());
                if self.core.preset_version(path, version) {
                    self.shadow.preset_version(path, version);
                }
            }
            _ => self.reap(),
        }
    }

    /// The index of a client.
    fn client(&self, input: &mut Input<'_>) -> usize {
        input.below(self.clients.len())
    }

    fn session(&self, input: &mut Input<'_>) -> (SessionId, Password) {
        input.pick(&self.sessions).unwrap_or((SessionId(1), Password::ZERO))
    }

    fn connect(&mut self, input: &mut Input<'_>) {
        if self.clients.len() < CLIENTS {
            let host = [127, 0, 0, 1 + input.byte() % 2];
            let id = self.core.handle_connection(self.now, (host, 50_000).into());
            self.clients.push(Client::new(id));
        }
    }

    fn hello(&mut self, at: usize, hello: ConnectRequest) {
        self.write(at, usize::MAX, |client| client.write_hello(&hello));
    }

    /// Writes something, and sends up to `bytes` bytes.
    fn write(&mut self, at: usize, bytes: usize, write: impl FnOnce(&mut Client)) {
        if let Some(client) = self.clients.get_mut(at) {
            write(client);
            self.sent += client.outgoing.len().min(bytes);
            client.send(&mut self.core, self.now, bytes);
        }
    }

    /// Sends a request at once, or leaves it for later.
    fn ask(
        &mut self,
        input: &mut Input<'_>,
        write: fn(&mut Input<'_>, zk_proto::Xid, &mut bytes::BytesMut),
    ) {
        let choice = input.byte();
        let at = usize::from(choice).checked_rem(self.clients.len()).unwrap_or_default();
        let bytes = if choice < 224 { usize::MAX } else { usize::from(choice - 224) };
        let mut requests = 0;
        self.write(at, bytes, |client| {
            requests = 1;
            let xid = client.next_xid();
            write(input, xid, &mut client.outgoing);
        });
        self.requests += requests;
    }

    /// Tries to resume a session, and checks that it is resumed exactly if all conditions are met.
    fn reattach(&mut self, input: &mut Input<'_>) {
        let (at, (session_id, password)) = (self.client(input), self.session(input));
        let variant = input.byte();
        let password = if variant % 4 == 3 { Password::ZERO } else { password };
        let last_zxid_seen = match variant / 4 % 4 {
            3 => Zxid(self.core.last_zxid().0 + 1),
            2 => self.core.last_zxid(),
            _ => Zxid(0),
        };
        let read_only = Some(variant / 16 % 4 == 3);
        let timeout = 6000;
        let hello =
            ConnectRequest { timeout, session_id, password, last_zxid_seen, read_only, ..HELLO };
        let Some(client) = self.clients.get(at).filter(|client| client.is_fresh(&self.core)) else {
            return self.hello(at, hello);
        };
        let (id, faults) = (client.id, self.core.pending_faults());
        self.core.handle_timeout(self.now);
        let state = &self.core.state;
        let is_local = state.sessions.get(session_id).is_some_and(|it| it.is_local);
        let entitled = state.serving
            && (!state.read_only || read_only == Some(true) && is_local)
            && last_zxid_seen <= self.core.last_zxid()
            && state.sessions.get(session_id).is_some_and(|it| it.password == password)
            && client.is_fresh(&self.core);
        self.hello(at, hello);
        let attached = self.core.state.attached.get(&session_id) == Some(&id);
        let swapped = self.core.pending_faults() < faults;
        assert_eq!(attached, entitled && !swapped, "{session_id} is back");
    }

    fn wait(&mut self, by: Duration) {
        self.now += by;
        self.core.handle_timeout(self.now);
        let deadline = self.core.poll_timeout();
        assert!(deadline.is_none_or(|at| at > self.now), "a deadline in the past");
    }

    fn reap(&mut self) {
        self.core.reap(self.now);
        let state = &self.core.state;
        let millis = state.millis(self.now.saturating_duration_since(self.start));
        let outlived = |node: &Node| match node.kind {
            Kind::Container => node.created > 0,
            Kind::Ttl(ttl) => node.mtime + ttl < millis,
            _ => false,
        };
        let left = |(_, node): &(&str, &Node)| node.children == 0 && outlived(node);
        let left = state.store.tree.iter().find(left);
        assert!(left.is_none() || !state.serving || state.read_only, "{left:?} is left");
    }

    fn fault(&mut self, input: &mut Input<'_>) {
        let codes =
            [ErrorCode::THROTTLED_OP, ErrorCode::CONNECTION_LOSS, ErrorCode::QUOTA_EXCEEDED];
        let mut fault = match input.byte() % 7 {
            0 => Fault::lose_request(),
            1 => Fault::lose_reply(),
            2 => Fault::cut_reply(usize::from(input.byte())),
            3 => Fault::go_silent(),
            4 => Fault::delay(Duration::from_millis(u64::from(input.byte()) * 10)),
            5 => Fault::refuse(input.pick(&codes).unwrap_or(ErrorCode::THROTTLED_OP)),
            _ => Fault::swap_session(),
        };
        let conditions = input.byte();
        if conditions & 1 != 0 {
            fault = fault.op(op(input));
        }
        if conditions & 2 != 0 {
            fault = fault.path(path(input));
        }
        if conditions & 4 != 0 {
            fault = fault.session(self.session(input).0);
        }
        self.core.inject(fault.after(u32::from(conditions >> 6)));
    }

    /// Measures the state before or after a step.
    fn measure(&self) -> Measure {
        let state = &self.core.state;
        let nodes = state.store.tree.iter().map(|(path, node)| {
            let grants = wire_acl(&node.acl);
            let texts = grants.iter().flat_map(|it| [it.id.scheme, it.id.id]);
            let grants: usize = texts.map(|it| it.as_bytes().map_or(0, <[u8]>::len)).sum();
            2 * path.len() + node.data.as_ref().map_or(0, |data| data.len()) + grants
        });
        let mut measure = Measure {
            unsent: 0,
            held: 0,
            nodes: state.store.tree.len(),
            size: nodes.sum::<usize>() + state.sessions.len() * 64,
        };
        for connection in state.connections.iter() {
            measure.unsent += connection.outbox.len();
            if let Some(partition) = &connection.partition {
                measure.unsent += partition.events.len();
                measure.held += partition.requests.iter().map(|frame| frame.len()).sum::<usize>();
            }
        }
        measure
    }

    /// Sends what is due, as a driver would, and checks everything.
    fn settle(&mut self, before: Measure) {
        let made = self.measure();
        let mut named = BTreeSet::new();
        while let Some(id) = self.core.poll_ready() {
            assert!(named.insert(id), "{id} is named twice");
        }
        for client in &mut self.clients {
            let due = self.core.poll_delay(client.id).is_some_and(|until| until <= self.now);
            let was_closed = client.closed;
            let is_named = due || named.contains(&client.id);
            let count = client.receive(&mut self.core, self.now);
            assert!(count == 0 || is_named, "{} is not told of {count} bytes", client.id);
            assert!(
                was_closed || !client.closed || is_named,
                "{} is not told of its end",
                client.id
            );
            client.check(&self.core, self.now);
            if let Some(session) = client.session
                && !self.sessions.contains(&session)
            {
                self.sessions.push(session);
            }
        }

        // Each request has more than eight bytes, and its reply is no larger than the tree. Each
        // node that is created or deleted is notified to every client, twice.
        let asked = (before.held + self.sent) / 8 + 2 * (before.nodes + made.nodes);
        let size = OVERHEAD + before.size.max(made.size);
        let bound = before.unsent + (asked + 1) * size * (self.clients.len() + 1);
        assert!(made.unsent <= bound, "{} bytes, {bound} at most", made.unsent);
        self.sent = 0;

        self.core.state.audit();
        self.shadow.follow(&self.core);
        if !self.lazy {
            self.clients.retain(|client| {
                if client.closed {
                    self.core.handle_disconnected(client.id);
                }
                !client.closed
            });
            self.core.state.audit();
        }
    }

    /// Closes all connections, and lets every session expire.
    fn finish(mut self) {
        for client in self.clients.drain(..) {
            self.core.handle_disconnected(client.id);
        }
        self.core.set_read_only(self.now, false);
        self.core.set_serving(self.now, true);
        // More than the longest time that a session can ask for.
        self.wait(Duration::from_secs(30 * 86_400));
        let before = self.measure();
        self.settle(before);
        assert_eq!(self.core.sessions(), [], "sessions that never end");
        assert_eq!(self.core.watch_count(), 0);
        assert_eq!(self.core.state.connections.len(), 0);
        assert_eq!(self.core.state.store.tree.owners().count(), 0, "ephemeral nodes of nobody");
        assert!(self.core.state.attached.is_empty());
        assert!(!format!("{:?}", self.core).is_empty());
    }
}

/// Asks for a new session.
const HELLO: ConnectRequest = ConnectRequest {
    protocol_version: 0,
    last_zxid_seen: Zxid(0),
    timeout: 6000,
    session_id: SessionId(0),
    password: Password::ZERO,
    read_only: Some(false),
};

/// Where the virtual clock starts. The value does not matter.
#[expect(clippy::disallowed_methods, reason = "there is no other way to make an instant")]
fn start() -> Instant {
    Instant::now()
}
