//! Owned nodes against an honest server whose connection breaks at any moment. Random histories are
//! checked for the promises of an owned node: no node outlives its owner, every caller is answered
//! once, and all that a caller learns about a node is true.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zk_client::Failure;
use zk_client::session::{Event, OwnedNodeId};
use zk_proto::{
    CreateMode, CreateRequest, ErrorCode, ExistsResponse, GetChildrenResponse, List, OpCode,
    SyncResponse, Text,
};
use zk_test_support::peer::{Bench, Request, SESSION, TIMEOUT, created, payload, stat_of, welcome};

const HISTORIES: u64 = 4_000;

/// Rounds in which everything is released and answered, so that a history ends.
const ENDING: usize = 600;

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % bound
    }
}

/// A server with one folder.
#[derive(Default)]
struct Server {
    nodes: Vec<String>,
    sequence: u32,
}

enum Answer {
    Created(String),
    Synced,
    Listed(Vec<String>),
    Named(Vec<String>),
    There,
    Done,
    Refused(ErrorCode),
}

impl Server {
    fn carry_out(&mut self, request: &Request) -> Answer {
        let there = self.nodes.iter().any(|node| node == request.path());
        match request.op() {
            OpCode::CREATE2 => {
                self.sequence += 1;
                let path = format!("{}{:010}", request.path(), self.sequence);
                self.nodes.push(path.clone());
                Answer::Created(path)
            }
            OpCode::SYNC => Answer::Synced,
            OpCode::GET_EPHEMERALS => Answer::Listed(self.nodes.clone()),
            // After three connections that ended on the request before, the session asks so.
            OpCode::GET_CHILDREN => {
                let names = self.nodes.iter().filter_map(|node| node.strip_prefix("/l/"));
                Answer::Named(names.map(str::to_owned).collect())
            }
            OpCode::EXISTS if there => Answer::There,
            OpCode::DELETE if there => {
                self.nodes.retain(|node| node != request.path());
                Answer::Done
            }
            OpCode::EXISTS | OpCode::DELETE => Answer::Refused(ErrorCode::NO_NODE),
            op => panic!("nobody asks for {op}"),
        }
    }
}

fn deliver(bench: &mut Bench, xid: i32, answer: Answer) {
    match answer {
        Answer::Created(path) => bench.answer(xid, &created(&path)),
        Answer::Synced => bench.answer(xid, &SyncResponse { path: Text::new("/l") }),
        Answer::Listed(paths) => {
            let paths = paths.iter().map(String::as_str).collect::<Vec<_>>();
            bench.answer_ephemerals(xid, "", &paths);
        }
        Answer::Named(names) => {
            let names = names.iter().map(String::as_str).collect::<Vec<_>>();
            bench.answer(xid, &GetChildrenResponse { children: List::new(&names) });
        }
        Answer::There => bench.answer(xid, &ExistsResponse { stat: stat_of(SESSION) }),
        Answer::Done => bench.answer(xid, &()),
        Answer::Refused(code) => bench.refuse(xid, code),
    }
}

/// One history: a session, its server, and the requests in flight between them.
struct History {
    seed: u64,
    random: Random,
    bench: Bench,
    server: Server,
    /// Requests that were sent and not carried out yet; `None` while there is no connection.
    wire: Option<VecDeque<Request>>,
    /// Owned nodes that are held, each with the token of its creator.
    held: Vec<(OwnedNodeId, u32)>,
    released: BTreeSet<u32>,
    /// The path of each creator's node, up to its digits.
    stems: BTreeMap<u32, String>,
    /// How often each token was answered.
    answered: BTreeMap<u32, u32>,
}

impl History {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            random: Random(seed.wrapping_mul(7919) + 3),
            bench: Bench::attached(),
            server: Server::default(),
            wire: Some(VecDeque::new()),
            held: Vec::new(),
            released: BTreeSet::new(),
            stems: BTreeMap::new(),
            answered: BTreeMap::new(),
        }
    }

    fn token(&mut self) -> u32 {
        let token = self.answered.len() as u32;
        self.answered.insert(token, 0);
        token
    }

    fn create(&mut self) {
        let token = self.token();
        let stem = format!("/l/n{token}-");
        let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
        let request = CreateRequest { path: &stem, data: None, acl: List::new(&[]), mode };
        let node = self.bench.session.submit_owned(&request, token).unwrap();
        self.stems.insert(token, stem);
        self.held.push((node, token));
    }

    fn release(&mut self, index: usize) {
        let (node, creator) = self.held.swap_remove(index);
        self.released.insert(creator);
        let token = self.token();
        self.bench.session.release(node, Some(token)).unwrap();
    }

    fn send(&mut self) {
        if let Some(wire) = &mut self.wire {
            wire.extend(self.bench.requests());
        }
    }

    fn serve(&mut self, may_throttle: bool) {
        if let Some(request) = self.wire.as_mut().and_then(VecDeque::pop_front) {
            let throttle = may_throttle && self.random.below(6) == 0;
            let answer = match throttle {
                true => Answer::Refused(ErrorCode::THROTTLED_OP),
                false => self.server.carry_out(&request),
            };
            deliver(&mut self.bench, request.xid().0, answer);
        }
    }

    /// The connection breaks. The server carries out some of the requests, and their replies are
    /// lost.
    fn cut(&mut self) {
        if self.random.below(2) == 0 {
            self.send();
        }
        if let Some(wire) = self.wire.take() {
            let reached = self.random.below(wire.len() + 1);
            for request in wire.iter().take(reached) {
                self.server.carry_out(request);
            }
            self.bench.cut();
        }
    }

    fn reconnect(&mut self) {
        if self.wire.is_none() {
            self.bench.connect();
            self.bench.frame(payload(&welcome(TIMEOUT)));
            self.wire = Some(VecDeque::new());
        }
    }

    fn listen(&mut self) {
        while let Some(event) = self.bench.session.poll_event() {
            let Event::Completed { token, result, .. } = event else { continue };
            *self.answered.get_mut(&token).unwrap() += 1;
            let Some(stem) = self.stems.get(&token) else { continue };
            let there = self.server.nodes.iter().any(|node| node.starts_with(stem.as_str()));
            match result {
                Ok(_) => {
                    let kept = !self.released.contains(&token);
                    assert!(there || !kept, "seed {}: {token} got what is not there", self.seed);
                }
                Err(Failure::Refused(_) | Failure::ConnectionLoss { sent: false, .. }) => {
                    assert!(!there, "seed {}: {token} hears that nothing is there", self.seed);
                }
                Err(_) => {}
            }
        }
    }

    fn run(mut self) {
        for _ in 0..5 + self.random.below(40) {
            match self.random.below(10) {
                0 | 1 => self.create(),
                2 if !self.held.is_empty() => {
                    let index = self.random.below(self.held.len());
                    self.release(index);
                }
                3 | 4 => self.send(),
                5..=7 => self.serve(true),
                8 => self.cut(),
                _ => self.reconnect(),
            }
            self.listen();
        }
        while !self.held.is_empty() {
            self.release(0);
        }
        for round in 0..ENDING {
            // A node that was not found is looked for on some more connections.
            if round % (ENDING / 12) == ENDING / 12 - 1 {
                self.cut();
            }
            self.reconnect();
            self.send();
            self.serve(false);
            self.listen();
        }
        let Self { seed, bench, server, answered, .. } = self;
        assert!(answered.values().all(|times| *times == 1), "seed {seed}: {answered:?}");
        assert_eq!(server.nodes, [""; 0], "seed {seed}: left behind");
        assert_eq!(bench.load(), (0, 0, 0), "seed {seed}");
    }
}

#[test]
fn claims_keep_their_promises_in_every_history() {
    for seed in 0..HISTORIES {
        History::new(seed).run();
    }
}
