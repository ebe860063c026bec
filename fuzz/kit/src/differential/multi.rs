//! Random multis: some whose entries build on each other, some of any entries, some that no server
//! accepts.

use std::fmt::Debug;

use bytes::BytesMut;
use zk_proto::*;

use super::request::{Requests, described};
use super::step::Request;
use super::world::OPEN;

impl Requests {
    /// A multi of one of three kinds: steps that build on each other, any entries, or an entry that
    /// no multi may have.
    pub(super) fn multi(&mut self) -> Request {
        let mut multi = Multi::default();
        match self.world.rng.u32(..10) {
            0..5 => self.coherent(&mut multi),
            _ => {
                for _ in 0..self.world.choose(&[(1, 0), (5, 1), (6, 2), (4, 3), (2, 5)]) {
                    self.entry(&mut multi);
                }
            }
        }
        if self.world.one_in(15) {
            let path = self.world.node();
            match self.world.rng.u32(..4) {
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
        if self.world.one_in(15) {
            multi.text += " without an end";
        } else {
            multi.end();
        }
        self.sealed(OpCode::MULTI, multi)
    }

    /// Creates a node and continues with it, sometimes too far.
    fn coherent(&mut self, multi: &mut Multi) {
        let path = self.world.inner();
        let child = format!("{path}/m");
        let data = self.world.data();
        let (acl, mode) = (List::new(&OPEN), CreateMode::PERSISTENT);
        let create = |path| CreateRequest { path, data: data.as_deref(), acl, mode };
        if !self.world.one_in(3) {
            multi.push(MultiOp::Create2(create(&path)));
        }
        for _ in 0..self.world.rng.usize(1..6) {
            let version = self.world.version();
            multi.push(match self.world.rng.u32(..12) {
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
    ///
    /// Two things are avoided here, although a real server does them right everywhere else: in a
    /// multi it corrupts characters above U+FFFF in an access list, and denies children to a
    /// container that was created with an ephemeral mode in the same multi.
    fn entry(&mut self, multi: &mut Multi) {
        let (path, data, version) =
            (self.world.doomed_path(), self.world.data(), self.world.version());
        let (data, new_path) = (data.as_deref(), self.world.new_path());
        let acl = self.world.acl(&new_path);
        // The scheme `auth` stands for the client's identities, which may have such characters.
        let spoiled = |Acl { id, .. }: &Acl<'_>| {
            let is_pair = |char| char > '\u{ffff}';
            id.scheme == "auth".into() || id.id.to_string_lossy().chars().any(is_pair)
        };
        let acl = List::new(if acl.iter().any(spoiled) { &OPEN } else { &acl });
        let create = |mode| CreateRequest { path: &new_path, data, acl, mode };
        multi.push(match self.world.rng.u32(..16) {
            0..3 => MultiOp::Create(create(self.world.mode(OpCode::CREATE))),
            3..6 => MultiOp::Create2(create(self.world.mode(OpCode::CREATE2))),
            6 => match self.world.mode(OpCode::CREATE_CONTAINER) {
                mode if mode.is_ephemeral() => {
                    MultiOp::CreateContainer(create(CreateMode::CONTAINER))
                }
                mode => MultiOp::CreateContainer(create(mode)),
            },
            7 => {
                let (mode, ttl) = (self.world.mode(OpCode::CREATE_TTL), self.world.ttl());
                MultiOp::CreateTtl(CreateTtlRequest { path: &new_path, data, acl, mode, ttl })
            }
            8..11 => MultiOp::Delete(DeleteRequest { path: &path, version }),
            11..14 => MultiOp::SetData(SetDataRequest { path: &path, data, version }),
            _ => MultiOp::Check(CheckVersionRequest { path: &path, version }),
        });
    }

    pub(super) fn multi_read(&mut self) -> Request {
        let mut multi = Multi::default();
        if self.world.one_in(15) {
            for _ in 0..self.world.rng.usize(1..3) {
                self.entry(&mut multi);
            }
            multi.end();
            return self.sealed(OpCode::MULTI_READ, multi);
        }
        for _ in 0..self.world.rng.usize(..5) {
            let (path, watch) = (self.world.path(), self.world.rng.bool());
            if self.world.one_in(30) {
                multi.raw(OpCode::EXISTS, &ExistsRequest { path: &path, watch });
            } else if self.world.rng.bool() {
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
        self.text += &format!("\n          {}", described(&entry));
    }

    /// An entry with an opcode that it may not have.
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
