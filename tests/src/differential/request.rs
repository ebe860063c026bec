//! Requests at random: every operation, well formed or not.

use std::fmt::Debug;

use bytes::BytesMut;
use zk_proto::*;

use super::step::Request;
use super::universe::{AUTHS, ODD_ACLS, ODD_NAMES, OPEN, PLAIN_ACLS, WORLD};

/// Operations and how often they are asked for, none of which may end the connection.
const STEADY: [(u32, OpCode); 25] = [
    (80, OpCode::CREATE),
    (120, OpCode::CREATE2),
    (30, OpCode::CREATE_CONTAINER),
    (40, OpCode::CREATE_TTL),
    (130, OpCode::DELETE),
    (80, OpCode::EXISTS),
    (80, OpCode::GET_DATA),
    (110, OpCode::SET_DATA),
    (40, OpCode::GET_ACL),
    (50, OpCode::SET_ACL),
    (50, OpCode::GET_CHILDREN),
    (50, OpCode::GET_CHILDREN2),
    (20, OpCode::SYNC),
    (110, OpCode::MULTI),
    (40, OpCode::MULTI_READ),
    (30, OpCode::CHECK_WATCHES),
    (40, OpCode::REMOVE_WATCHES),
    (60, OpCode::ADD_WATCH),
    (30, OpCode::SET_WATCHES),
    (30, OpCode::SET_WATCHES2),
    (30, OpCode::GET_EPHEMERALS),
    (30, OpCode::GET_ALL_CHILDREN_NUMBER),
    (20, OpCode::WHO_AM_I),
    (8, OpCode::RECONFIG),
    (10, OpCode::PING),
];

/// Operations that no server has, or none takes from a client.
const UNKNOWN: [i32; 9] = [0, 10, 23, 50, 99, 108, 1000, -2, i32::MIN];

/// Makes requests.
pub(super) struct Requests {
    pub(super) rng: fastrand::Rng,
    /// The node that holds this seed's world.
    top: String,
    xid: Xid,
}

impl Requests {
    pub(super) fn new(seed: u64, top: String) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed), top, xid: Xid(0) }
    }

    /// The requests that everything else rests on.
    pub(super) fn world(&mut self) -> Vec<Request> {
        ["", "/a", "/b"]
            .map(|node| {
                let path = self.top.clone() + node;
                let record = CreateRequest {
                    path: &path,
                    data: None,
                    acl: List::new(&OPEN),
                    mode: CreateMode::PERSISTENT,
                };
                self.build(OpCode::CREATE2, &record)
            })
            .into()
    }

    /// Any request at all.
    pub(super) fn any(&mut self) -> Request {
        let mut request = match self.rng.u32(..100) {
            0 => self.request(OpCode::SASL),
            1 | 2 => self.request(OpCode::AUTH),
            3 if self.one_in(2) => {
                let op = OpCode(UNKNOWN[self.rng.usize(..UNKNOWN.len())]);
                self.build(op, &())
            }
            _ => self.steady(),
        };
        if self.one_in(40) {
            request.xid = Xid(self.choose(&[(1, 0), (1, -2), (1, -4), (1, -8), (1, i32::MIN)]));
        }
        request
    }

    /// A request that leaves the connection as it is.
    pub(super) fn steady(&mut self) -> Request {
        if self.one_in(40) {
            return self.identity(true);
        }
        let op = self.choose(&STEADY);
        let mut request = self.request(op);
        if self.one_in(25) {
            self.distort(&mut request);
        }
        request
    }

    /// A request of this kind.
    pub(super) fn request(&mut self, op: OpCode) -> Request {
        match op {
            OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
                self.create(op)
            }
            OpCode::DELETE => {
                let (path, version) = (self.below(), self.version());
                self.build(op, &DeleteRequest { path: &path, version })
            }
            OpCode::EXISTS | OpCode::GET_DATA | OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => {
                let (path, watch) = (self.path(), self.rng.bool());
                // The four have one layout.
                self.build(op, &ExistsRequest { path: &path, watch })
            }
            OpCode::SET_DATA => {
                let (path, data, version) = (self.path(), self.data(), self.version());
                self.build(op, &SetDataRequest { path: &path, data: data.as_deref(), version })
            }
            OpCode::GET_ACL | OpCode::SYNC | OpCode::GET_ALL_CHILDREN_NUMBER => {
                let path = self.path();
                self.build(op, &GetAclRequest { path: &path })
            }
            OpCode::SET_ACL => {
                let path = self.path();
                let (acl, version) = (self.acl(&path), self.version());
                let acl = if self.one_in(60) { List::NULL } else { List::new(&acl) };
                self.build(op, &SetAclRequest { path: &path, acl, version })
            }
            OpCode::MULTI => self.multi(),
            OpCode::MULTI_READ => self.multi_read(),
            OpCode::CHECK_WATCHES | OpCode::REMOVE_WATCHES => {
                let path = self.path();
                let kind = [1, 2, 3, 3, 4, 5, 1, 2, 3, 3, 0, 6, -1];
                let kind = WatcherType(kind[self.rng.usize(..kind.len())]);
                self.build(op, &RemoveWatchesRequest { path: &path, kind })
            }
            OpCode::ADD_WATCH => {
                let path = self.path();
                let mode = AddWatchMode(self.choose(&[(9, 0), (9, 1), (1, 2), (1, -1)]));
                self.build(op, &AddWatchRequest { path: &path, mode })
            }
            OpCode::SET_WATCHES | OpCode::SET_WATCHES2 => self.set_watches(op),
            OpCode::GET_EPHEMERALS => {
                let prefix = self.choose(&[(2, ""), (1, "/"), (1, " "), (3, "/s"), (1, "x")]);
                let node = self.node();
                let node = node.get(..self.rng.usize(1..=node.len())).unwrap_or(&node);
                let prefix_path = if self.one_in(3) { prefix } else { node };
                self.build(op, &GetEphemeralsRequest { prefix_path })
            }
            OpCode::RECONFIG => self.build(
                op,
                &ReconfigRequest {
                    joining_servers: "server.2=127.0.0.1:1:2;3".into(),
                    leaving_servers: Text::NULL,
                    new_members: Text::NULL,
                    cur_config_id: -1,
                },
            ),
            OpCode::AUTH => self.identity(false),
            OpCode::SASL => {
                let token = self.choose(&[(1, None), (1, Some(&b""[..])), (1, Some(&b"x"[..]))]);
                let mut request = self.build(op, &token);
                request.text = format!("{token:?}");
                request
            }
            // whoAmI, ping and closeSession have no body.
            _ => self.build(op, &()),
        }
    }

    fn create(&mut self, op: OpCode) -> Request {
        let (path, data, mode) = (self.new_path(), self.data(), self.mode(op));
        let acl = self.acl(&path);
        let acl = if self.one_in(60) { List::NULL } else { List::new(&acl) };
        let data = data.as_deref();
        if op == OpCode::CREATE_TTL {
            let ttl = self.ttl();
            return self.build(op, &CreateTtlRequest { path: &path, data, acl, mode, ttl });
        }
        self.build(op, &CreateRequest { path: &path, data, acl, mode })
    }

    fn mode(&mut self, op: OpCode) -> CreateMode {
        CreateMode(match op {
            OpCode::CREATE_TTL => self.choose(&[(5, 5), (3, 6), (1, 7), (1, -1)]),
            OpCode::CREATE_CONTAINER => {
                self.choose(&[(8, 4), (1, 0), (1, 1), (1, 2), (1, 3), (1, 5), (1, 7)])
            }
            _ => self.choose(&[
                (30, 0),
                (20, 1),
                (8, 2),
                (8, 3),
                (2, 4),
                (1, 5),
                (1, 6),
                (1, 7),
                (1, -1),
            ]),
        })
    }

    fn ttl(&mut self) -> i64 {
        let day = 86_400_000;
        self.choose(&[(12, day), (1, 0), (1, -1), (1, 1 << 40), (1, (1 << 40) - 1), (1, i64::MAX)])
    }

    /// A multi in one of three moods: steps that build on each other, anything at all, or
    /// something that no multi may hold.
    fn multi(&mut self) -> Request {
        let mut multi = Multi::default();
        match self.rng.u32(..10) {
            0..5 => self.coherent(&mut multi),
            _ => {
                for _ in 0..self.choose(&[(1, 0), (5, 1), (6, 2), (4, 3), (2, 5)]) {
                    self.entry(&mut multi);
                }
            }
        }
        if self.one_in(15) {
            let path = self.node();
            match self.rng.u32(..4) {
                0 => multi.push(MultiOp::GetData(GetDataRequest { path: &path, watch: false })),
                1 => multi.raw(OpCode::EXISTS, &ExistsRequest { path: &path, watch: false }),
                2 => multi.raw(OpCode(77), &()),
                _ => multi.push(MultiOp::Create(CreateRequest {
                    path: &path,
                    data: None,
                    acl: List::new(&OPEN),
                    mode: CreateMode(9),
                })),
            }
        }
        if self.one_in(15) {
            multi.text += " without an end";
        } else {
            multi.end();
        }
        self.sealed(OpCode::MULTI, multi)
    }

    /// Creates a node and goes on with it, sometimes too far.
    fn coherent(&mut self, multi: &mut Multi) {
        let path = self.inner();
        let child = format!("{path}/m");
        let data = self.data();
        let (acl, mode) = (List::new(&OPEN), CreateMode::PERSISTENT);
        let create = |path| CreateRequest { path, data: data.as_deref(), acl, mode };
        if !self.one_in(3) {
            multi.push(MultiOp::Create2(create(&path)));
        }
        for _ in 0..self.rng.usize(1..6) {
            let version = self.version();
            multi.push(match self.rng.u32(..12) {
                0 | 1 => MultiOp::Create(create(&child)),
                2 => MultiOp::Create2(create(&child)),
                3 => MultiOp::Delete(DeleteRequest { path: &child, version: -1 }),
                4 => MultiOp::Delete(DeleteRequest { path: &path, version: -1 }),
                5 | 6 => MultiOp::SetData(SetDataRequest { path: &path, data: None, version: -1 }),
                7 => MultiOp::SetData(SetDataRequest { path: &path, data: None, version }),
                8 => MultiOp::Check(CheckVersionRequest { path: &path, version: -1 }),
                9 => MultiOp::Check(CheckVersionRequest { path: &path, version }),
                10 => MultiOp::Create2(CreateRequest {
                    mode: CreateMode::EPHEMERAL_SEQUENTIAL,
                    ..create(&child)
                }),
                _ => MultiOp::Create(CreateRequest {
                    mode: CreateMode::PERSISTENT_SEQUENTIAL,
                    ..create(&child)
                }),
            });
        }
    }

    /// Any one entry.
    fn entry(&mut self, multi: &mut Multi) {
        let (path, data, version) = (self.below(), self.data(), self.version());
        let (data, new_path) = (data.as_deref(), self.new_path());
        let acl = self.acl(&new_path);
        let acl = List::new(&acl);
        let create = |mode| CreateRequest { path: &new_path, data, acl, mode };
        multi.push(match self.rng.u32(..16) {
            0..3 => MultiOp::Create(create(self.mode(OpCode::CREATE))),
            3..6 => MultiOp::Create2(create(self.mode(OpCode::CREATE2))),
            6 => MultiOp::CreateContainer(create(self.mode(OpCode::CREATE_CONTAINER))),
            7 => {
                let (mode, ttl) = (self.mode(OpCode::CREATE_TTL), self.ttl());
                MultiOp::CreateTtl(CreateTtlRequest { path: &new_path, data, acl, mode, ttl })
            }
            8..11 => MultiOp::Delete(DeleteRequest { path: &path, version }),
            11..14 => MultiOp::SetData(SetDataRequest { path: &path, data, version }),
            _ => MultiOp::Check(CheckVersionRequest { path: &path, version }),
        });
    }

    fn multi_read(&mut self) -> Request {
        let mut multi = Multi::default();
        for _ in 0..self.rng.usize(..5) {
            let (path, watch) = (self.path(), self.rng.bool());
            if self.one_in(30) {
                multi.raw(OpCode::EXISTS, &ExistsRequest { path: &path, watch });
            } else if self.rng.bool() {
                multi.push(MultiOp::GetData(GetDataRequest { path: &path, watch }));
            } else {
                multi.push(MultiOp::GetChildren(GetChildrenRequest { path: &path, watch }));
            }
        }
        multi.end();
        self.sealed(OpCode::MULTI_READ, multi)
    }

    fn sealed(&mut self, op: OpCode, multi: Multi) -> Request {
        let mut request = self.build(op, &());
        request.body = multi.body.to_vec();
        request.text = multi.text;
        request
    }

    fn set_watches(&mut self, op: OpCode) -> Request {
        let lists: Vec<Vec<String>> =
            (0..5).map(|_| (0..self.rng.usize(..4)).map(|_| self.path()).collect()).collect();
        let views: Vec<Vec<&str>> =
            lists.iter().map(|list| list.iter().map(String::as_str).collect()).collect();
        let null = if self.one_in(20) { self.rng.usize(..5) } else { usize::MAX };
        let list = |n: usize| if n == null { List::NULL } else { List::new(&views[n]) };
        let relative_zxid = Zxid(0);
        let (data, exist, child) = (list(0), list(1), list(2));
        let mut request = match op {
            OpCode::SET_WATCHES => {
                self.build(op, &SetWatches { relative_zxid, data, exist, child })
            }
            _ => {
                let (persistent, persistent_recursive) = (list(3), list(4));
                let record = SetWatches2 {
                    relative_zxid,
                    data,
                    exist,
                    child,
                    persistent,
                    persistent_recursive,
                };
                self.build(op, &record)
            }
        };
        let missed = self.rng.i64(1..40);
        let long_ago = i64::MIN / 2;
        request.since = Some(self.choose(&[(6, -missed), (4, 0), (1, 5), (1, long_ago)]));
        request
    }

    /// An auth packet; a `welcome` one is never refused.
    fn identity(&mut self, welcome: bool) -> Request {
        let (scheme, auth) = loop {
            let (weight, scheme, auth, good) = AUTHS[self.rng.usize(..AUTHS.len())];
            if self.rng.u32(..10) < weight && (good || !welcome) {
                break (scheme.map_or(Text::NULL, Text::new), auth);
            }
        };
        let packet = AuthPacket { kind: 0, scheme, auth: Secret::new(auth) };
        let mut request = self.build(OpCode::AUTH, &packet);
        request.text = format!("{scheme:?} {:?}", auth.map(|auth| auth.escape_ascii().to_string()));
        request.xid = Xid::AUTH;
        request
    }

    /// Makes a request that a server cannot read, or should not.
    fn distort(&mut self, request: &mut Request) {
        let body = &mut request.body;
        // Servers take null for addWatch's path, and then cannot close the connection any more.
        let has_path = request.since.is_none()
            && request.op != OpCode::ADD_WATCH
            && body.first_chunk().is_some_and(|len| {
                let len = i32::from_be_bytes(*len);
                len > 0 && body.get(4) == Some(&b'/')
            });
        let what = self.rng.u32(..8);
        if what < 2 {
            body.extend_from_slice(b"and more");
            request.text += ", and 8 bytes more";
        } else if !has_path || what < 5 {
            let len = self.rng.usize(..=body.len());
            body.truncate(len);
            request.text += &format!(", cut to {len} bytes");
        } else {
            let len = i32::from_be_bytes(*body.first_chunk().expect("just seen")) as usize;
            if what == 5 {
                body[len + 3] = 0xff;
                request.text += ", with 0xff for the path's last byte";
            } else {
                body.splice(..len + 4, [0xff; 4]);
                request.text += ", with null for the path";
            }
        }
    }

    fn build(&mut self, op: OpCode, record: &(impl Encode + Debug)) -> Request {
        self.xid = self.xid.next();
        let mut body = BytesMut::new();
        record.encode(&mut Writer::new(&mut body, usize::MAX));
        let text = format!("{record:?}").replace(&format!("{OPEN:?}"), "OPEN");
        // The operation says what record it is.
        let (_, fields) = text.split_once(' ').unwrap_or_default();
        Request { xid: self.xid, op, body: body.to_vec(), since: None, text: fields.to_owned() }
    }

    /// A node of the world, there or not.
    fn node(&mut self) -> String {
        self.top.clone() + WORLD[self.rng.usize(..WORLD.len())]
    }

    /// A path to delete. Rarely the top, without which every request ends the same.
    fn below(&mut self) -> String {
        let path = self.path();
        if path == self.top && !self.one_in(10) { self.below() } else { path }
    }

    /// A node of the world below its top.
    pub(super) fn inner(&mut self) -> String {
        self.top.clone() + WORLD[self.rng.usize(1..WORLD.len())]
    }

    /// A path to create: some end as sequential names begin.
    fn new_path(&mut self) -> String {
        let node = self.node();
        match self.rng.u32(..10) {
            0 => node + "/n-",
            1 => self.path(),
            _ => node,
        }
    }

    /// A path to ask for, mostly sensible.
    fn path(&mut self) -> String {
        let node = self.node();
        match self.rng.u32(..100) {
            0..82 => node,
            82..92 => format!("{node}/n-{:010}", self.rng.u32(..8)),
            92..95 => {
                let roots = ["/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"];
                roots[self.rng.usize(..roots.len())].to_owned()
            }
            _ => match ODD_NAMES[self.rng.usize(..ODD_NAMES.len())] {
                (name, true) => node + name,
                (path, false) => path.to_owned(),
            },
        }
    }

    fn version(&mut self) -> i32 {
        let small = self.rng.i32(0..6);
        self.choose(&[(12, -1), (5, 0), (3, 1), (2, small), (1, -2), (1, i32::MAX)])
    }

    fn data(&mut self) -> Option<Vec<u8>> {
        let len = self.rng.usize(1..12);
        match self.choose(&[(2, None), (3, Some(0)), (14, Some(len)), (1, Some(500))]) {
            None => None,
            Some(len) => Some((0..len).map(|_| self.rng.u8(b'a'..=b'z')).collect()),
        }
    }

    /// An access list. What outlives the seed stays open to everybody.
    fn acl(&mut self, path: &str) -> Vec<Acl<'static>> {
        if self.one_in(12) {
            return ODD_ACLS[self.rng.usize(..ODD_ACLS.len())].to_vec();
        }
        let shared = path.strip_prefix(&self.top).is_none_or(|below| !below.starts_with('/'));
        if shared || !self.one_in(4) {
            return OPEN.to_vec();
        }
        PLAIN_ACLS[self.rng.usize(..PLAIN_ACLS.len())].to_vec()
    }

    pub(super) fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(..n) == 0
    }

    /// One of the options, each as likely as its weight says.
    pub(super) fn choose<T: Copy>(&mut self, options: &[(u32, T)]) -> T {
        let sum: u32 = options.iter().map(|(weight, _)| weight).sum();
        let mut left = self.rng.u32(..sum);
        for (weight, option) in options {
            match left.checked_sub(*weight) {
                Some(rest) => left = rest,
                None => return *option,
            }
        }
        unreachable!("`left` is below the sum of the weights")
    }
}

/// The body of a multi, entry by entry.
#[derive(Default)]
struct Multi {
    body: BytesMut,
    text: String,
}

impl Multi {
    fn push(&mut self, entry: MultiOp<'_>) {
        entry.encode(&mut Writer::new(&mut self.body, usize::MAX));
        let text = format!("{entry:?}").replace(&format!("{OPEN:?}"), "OPEN");
        self.text += &format!("\n          {text}");
    }

    /// An entry under a type that it may not have.
    fn raw(&mut self, op: OpCode, record: &(impl Encode + Debug)) {
        let mut writer = Writer::new(&mut self.body, usize::MAX);
        MultiHeader { op, done: false, error: ErrorCode(-1) }.encode(&mut writer);
        record.encode(&mut writer);
        self.text += &format!("\n          {op} as an entry: {record:?}");
    }

    fn end(&mut self) {
        let mut writer = Writer::new(&mut self.body, usize::MAX);
        MultiHeader { op: OpCode::ERROR, done: true, error: ErrorCode(-1) }.encode(&mut writer);
    }
}
