//! Random requests: every operation, well formed or not.

use std::fmt::Debug;
use std::sync::LazyLock;

use bytes::BytesMut;
use zk_proto::*;

use super::step::Request;
use super::world::{OPEN, World};

/// Operations and their weights. None of them may end the connection.
static STEADY: LazyLock<Vec<(u32, OpCode)>> =
    LazyLock::new(|| OpCode::ALL.iter().map(|op| (weight(*op), *op)).collect());

/// How often an operation is chosen.
fn weight(op: OpCode) -> u32 {
    match op {
        // They end the connection, or no client may send them alone.
        OpCode::NOTIFICATION | OpCode::ERROR | OpCode::CHECK | OpCode::DELETE_CONTAINER => 0,
        OpCode::AUTH | OpCode::SASL | OpCode::CREATE_SESSION | OpCode::CLOSE_SESSION => 0,
        OpCode::RECONFIG | OpCode::PING => 10,
        OpCode::CREATE2 | OpCode::DELETE | OpCode::SET_DATA | OpCode::MULTI => 120,
        OpCode::CREATE | OpCode::EXISTS | OpCode::GET_DATA => 80,
        OpCode::SET_ACL | OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 | OpCode::ADD_WATCH => 50,
        _ => 30,
    }
}

/// Operations that no server has, or that none accepts from a client.
const UNKNOWN: [i32; 9] = [0, 10, 23, 50, 99, 108, 1000, -2, i32::MIN];

/// Makes requests.
pub(super) struct Requests {
    pub(super) world: World,
    xid: Xid,
}

impl Requests {
    pub(super) fn new(world: World) -> Self {
        Self { world, xid: Xid(0) }
    }

    /// The requests that create the first nodes.
    pub(super) fn ground(&mut self) -> Vec<Request> {
        let roof = self.world.roof().to_owned();
        let roof = (roof != self.world.top).then_some(roof);
        let nodes = ["", "/a", "/b"].map(|node| self.world.top.clone() + node);
        let create = |path: String| {
            let (acl, mode) = (List::new(&OPEN), CreateMode::PERSISTENT);
            let record = CreateRequest { path: &path, data: None, acl, mode };
            self.build(OpCode::CREATE2, &record)
        };
        roof.into_iter().chain(nodes).map(create).collect()
    }

    /// A request that changes nothing.
    pub(super) fn read(&mut self) -> Request {
        let reads = [OpCode::EXISTS, OpCode::GET_DATA, OpCode::GET_ACL, OpCode::GET_CHILDREN2];
        let op = self.world.one_of(&reads);
        self.request(op)
    }

    /// Any request at all.
    pub(super) fn any(&mut self) -> Request {
        let mut request = match self.world.rng.u32(..100) {
            0 => self.request(OpCode::SASL),
            1 | 2 => self.request(OpCode::AUTH),
            3 if self.world.one_in(2) => {
                let op = OpCode(self.world.one_of(&UNKNOWN));
                self.build(op, &())
            }
            _ => self.steady(),
        };
        if self.world.one_in(40) {
            request.xid =
                Xid(self.world.choose(&[(1, 0), (1, -2), (1, -4), (1, -8), (1, i32::MIN)]));
        }
        request
    }

    /// A request that leaves the connection as it is.
    pub(super) fn steady(&mut self) -> Request {
        if !self.world.hasty && self.world.one_in(40) {
            return self.safe_auth();
        }
        let op = match self.world.choose(&STEADY) {
            OpCode::SET_ACL if self.world.hasty => OpCode::GET_ACL,
            op => op,
        };
        let mut request = self.request(op);
        if self.world.one_in(25) {
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
                let (path, version) = (self.world.doomed_path(), self.world.version());
                self.build(op, &DeleteRequest { path: &path, version })
            }
            OpCode::EXISTS | OpCode::GET_DATA | OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => {
                let (path, watch) = (self.world.path(), self.world.rng.bool());
                // All four have the same layout.
                self.build(op, &ExistsRequest { path: &path, watch })
            }
            OpCode::SET_DATA => {
                let (path, data, version) =
                    (self.world.path(), self.world.data(), self.world.version());
                self.build(op, &SetDataRequest { path: &path, data: data.as_deref(), version })
            }
            OpCode::SET_ACL => {
                let path = self.world.path();
                let (acl, version) = (self.world.acl(&path), self.world.version());
                let acl = if self.world.one_in(60) { List::NULL } else { List::new(&acl) };
                self.build(op, &SetAclRequest { path: &path, acl, version })
            }
            OpCode::MULTI => self.multi(),
            OpCode::MULTI_READ => self.multi_read(),
            OpCode::CHECK_WATCHES | OpCode::REMOVE_WATCHES => {
                let path = self.world.path();
                let kind = self.world.one_of(&[1, 2, 3, 3, 4, 5, 1, 2, 3, 3, 0, 6, -1]);
                let kind = WatcherType(kind);
                self.build(op, &RemoveWatchesRequest { path: &path, kind })
            }
            OpCode::ADD_WATCH => {
                let path = self.world.path();
                let mode = AddWatchMode(self.world.choose(&[(9, 0), (9, 1), (1, 2), (1, -1)]));
                self.build(op, &AddWatchRequest { path: &path, mode })
            }
            OpCode::SET_WATCHES | OpCode::SET_WATCHES2 => self.set_watches(op),
            OpCode::GET_EPHEMERALS => {
                let prefix = self.world.choose(&[(2, ""), (1, "/"), (1, " "), (3, "/s"), (1, "x")]);
                let node = self.world.node();
                let node = node.get(..self.world.rng.usize(1..=node.len())).unwrap_or(&node);
                let prefix_path = if self.world.one_in(3) { prefix } else { node };
                self.build(op, &GetEphemeralsRequest { prefix_path: prefix_path.into() })
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
            OpCode::AUTH => {
                let (scheme, auth) = self.world.auth(false);
                self.auth(scheme, auth)
            }
            OpCode::SASL => {
                let token =
                    self.world.choose(&[(1, None), (1, Some(&b""[..])), (1, Some(&b"x"[..]))]);
                let mut request = self.build(op, &token);
                request.text = format!("{token:?}");
                request
            }
            op if op.has_path() => {
                let path = self.world.path();
                self.build(op, &GetAclRequest { path: &path })
            }
            _ => self.build(op, &()),
        }
    }

    fn create(&mut self, op: OpCode) -> Request {
        let (path, data, mode) = (self.world.new_path(), self.world.data(), self.world.mode(op));
        let acl = self.world.acl(&path);
        let acl = if self.world.one_in(60) { List::NULL } else { List::new(&acl) };
        let data = data.as_deref();
        if op == OpCode::CREATE_TTL {
            let ttl = self.world.ttl();
            return self.build(op, &CreateTtlRequest { path: &path, data, acl, mode, ttl });
        }
        self.build(op, &CreateRequest { path: &path, data, acl, mode })
    }

    fn set_watches(&mut self, op: OpCode) -> Request {
        let lists: Vec<Vec<String>> = (0..5)
            .map(|_| (0..self.world.rng.usize(..4)).map(|_| self.world.path()).collect())
            .collect();
        let views: Vec<Vec<&str>> =
            lists.iter().map(|list| list.iter().map(String::as_str).collect()).collect();
        let null = if self.world.one_in(20) { self.world.rng.usize(..5) } else { usize::MAX };
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
        let missed = self.world.rng.i64(1..40);
        let long_ago = i64::MIN / 2;
        request.since = Some(self.world.choose(&[(6, -missed), (4, 0), (1, 5), (1, long_ago)]));
        request
    }

    /// An auth packet that is not refused.
    pub(super) fn safe_auth(&mut self) -> Request {
        let (scheme, auth) = self.world.auth(true);
        self.auth(scheme, auth)
    }

    /// An auth packet.
    pub(super) fn auth(&mut self, scheme: Option<&str>, auth: Option<&[u8]>) -> Request {
        let packet = AuthPacket {
            kind: 0,
            scheme: scheme.map_or(Text::NULL, Text::new),
            auth: Secret::new(auth),
        };
        let auth = auth.map(|auth| auth.escape_ascii().to_string());
        let text = format!("{scheme:?} {auth:?}");
        Request { xid: Xid::AUTH, text, ..self.build(OpCode::AUTH, &packet) }
    }

    /// Makes a request that a server cannot decode, or should not.
    fn distort(&mut self, request: &mut Request) {
        let body = &mut request.body;
        // Servers accept null as addWatch's path, and then cannot close the connection any more.
        let has_path = request.since.is_none()
            && request.op != OpCode::ADD_WATCH
            && body.first_chunk().is_some_and(|len| {
                let len = i32::from_be_bytes(*len);
                len > 0 && body.get(4) == Some(&b'/')
            });
        let what = self.world.rng.u32(..8);
        if what < 2 {
            body.extend_from_slice(b"and more");
            request.text += ", and 8 bytes more";
        } else if !has_path || what < 5 {
            let len = self.world.rng.usize(..=body.len());
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

    pub(super) fn build(&mut self, op: OpCode, record: &(impl Encode + Debug)) -> Request {
        self.xid = self.xid.next();
        let mut body = BytesMut::new();
        record.encode(&mut Writer::new(&mut body, usize::MAX));
        let text = described(record);
        // The operation already names the type of the record.
        let (_, fields) = text.split_once(' ').unwrap_or_default();
        Request { xid: self.xid, op, body: body.to_vec(), since: None, text: fields.to_owned() }
    }
}

/// A record as a short text.
pub(super) fn described(record: &impl Debug) -> String {
    let text = format!("{record:?}").replace(&format!("{OPEN:?}"), "OPEN");
    // Data is shown as a list of numbers there.
    let mut parts = text.split("Some([");
    let mut described = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (numbers, rest) = part.split_once("])").unwrap_or((part, ""));
        let bytes = numbers.split(", ").filter_map(|number| number.parse().ok());
        let bytes: Vec<u8> = bytes.collect();
        let shown = &bytes[..bytes.len().min(12)];
        described += &format!("{} bytes \"{}\"{rest}", bytes.len(), shown.escape_ascii());
    }
    described
}
