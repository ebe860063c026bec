//! Requests of every kind for so few paths that they affect each other.

use bytes::BytesMut;
use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, CheckWatchesRequest,
    CreateMode, CreateRequest, CreateTtlRequest, DeleteContainerRequest, DeleteRequest, Encode,
    ExistsRequest, GetAclRequest, GetAllChildrenNumberRequest, GetChildren2Request,
    GetChildrenRequest, GetDataRequest, GetEphemeralsRequest, GetSaslRequest, Id, List, MultiList,
    MultiOp, OpCode, ReconfigRequest, RemoveWatchesRequest, RequestHeader, Secret, SetAclRequest,
    SetDataRequest, SetWatches, SetWatches2, SyncRequest, Text, WatcherType, Writer, Xid, Zxid,
    frame,
};

use crate::fuzz::input::Input;

/// Every path that is ever used. Those that a node can have come first.
pub const PATHS: &[&str] = &[
    "/a",
    "/b",
    "/a/b",
    "/a/c",
    "/a/b/c",
    "/a/n-",
    "/a/n-0000000000",
    "/c",
    "/c/d",
    "/",
    "/zookeeper",
    "/zookeeper/config",
    "/zookeeper/quota",
    "/a/",
    "",
    "a",
    "//",
    "/a//b",
    "/a/.",
    "/a/\u{e000}",
    "/a/\0",
];

/// Opcodes that no operation has.
const UNKNOWN: [OpCode; 2] = [OpCode(10), OpCode(99)];

const DATA: &[Option<&[u8]>] = &[Some(b"x"), Some(b""), None, Some(&[7; 40])];

/// The superuser, if the settings have one.
pub(crate) const SUPER: &[u8] = b"super:test";

const VERSIONS: &[i32] = &[-1, 0, 1, 2, i32::MAX, i32::MIN, -2];

const TIMES_TO_LIVE: &[i64] = &[1, 1000, 60_000, 0, -1, 0xff_ffff_ffff, 1 << 40];

const LISTS: &[&[Acl<'static>]] = &[
    &[Acl::OPEN],
    &[grant(Acl::READ, "world", "anyone")],
    &[grant(Acl::ALL, "auth", "")],
    &[grant(Acl::READ | Acl::CREATE, "world", "anyone"), grant(Acl::ADMIN, "ip", "127.0.0.1")],
    &[grant(Acl::ALL, "digest", "ann:x"), Acl::OPEN, Acl::OPEN],
    &[grant(Acl::ALL, "ip", "10.0.0.0/8")],
    &[grant(Acl::ALL, "nobody", "knows")],
    &[],
];

const fn grant(perms: i32, scheme: &'static str, id: &'static str) -> Acl<'static> {
    Acl { perms, id: Id { scheme: Text::new(scheme), id: Text::new(id) } }
}

/// The next path of the program.
pub(crate) fn path(input: &mut Input<'_>) -> &'static str {
    input.pick(PATHS).unwrap_or("/")
}

/// The next operation of the program: that of an opcode of one byte, or for any other byte one of
/// all operations: so a new one changes no program that names its operations.
pub(crate) fn op(input: &mut Input<'_>) -> OpCode {
    let byte = input.byte();
    let op = OpCode(i32::from(byte.cast_signed()));
    let is_meant = op.info().is_some() || UNKNOWN.contains(&op);
    if is_meant { op } else { Input(&[byte]).pick(OpCode::ALL).unwrap_or(op) }
}

/// Appends a request whose record matches its operation.
pub(crate) fn request(input: &mut Input<'_>, xid: Xid, out: &mut BytesMut) {
    let op = op(input);
    let header = RequestHeader { xid, op };
    match op {
        OpCode::CREATE | OpCode::CREATE2 | OpCode::CREATE_CONTAINER => {
            append(out, header, &create(input));
        }
        OpCode::CREATE_TTL => append(out, header, &create_ttl(input)),
        OpCode::DELETE => append(out, header, &delete(input)),
        OpCode::EXISTS => {
            append(out, header, &ExistsRequest { path: path(input), watch: flag(input) });
        }
        OpCode::GET_DATA => append(out, header, &get_data(input)),
        OpCode::SET_DATA => append(out, header, &set_data(input)),
        OpCode::GET_ACL => append(out, header, &GetAclRequest { path: path(input) }),
        OpCode::SET_ACL => {
            let (path, acl, version) = (path(input), acl(input), version(input));
            append(out, header, &SetAclRequest { path, acl, version });
        }
        OpCode::GET_CHILDREN => append(out, header, &get_children(input)),
        OpCode::GET_CHILDREN2 => {
            append(out, header, &GetChildren2Request { path: path(input), watch: flag(input) });
        }
        OpCode::SYNC => append(out, header, &SyncRequest { path: Text::new(path(input)) }),
        OpCode::CHECK => append(out, header, &check(input)),
        OpCode::MULTI => {
            let entries: Vec<_> = (0..input.below(6)).map(|_| write(input)).collect();
            append(out, header, &MultiList::new(&entries));
        }
        OpCode::MULTI_READ => {
            let entries: Vec<_> = (0..input.below(6)).map(|_| read(input)).collect();
            append(out, header, &MultiList::new(&entries));
        }
        OpCode::RECONFIG => {
            let new_members = Text::new(path(input));
            let (joining_servers, leaving_servers) = (Text::NULL, Text::NULL);
            let record =
                ReconfigRequest { joining_servers, leaving_servers, new_members, cur_config_id: 0 };
            append(out, header, &record);
        }
        OpCode::CHECK_WATCHES => {
            append(out, header, &CheckWatchesRequest { path: path(input), kind: kind(input) });
        }
        OpCode::REMOVE_WATCHES => {
            append(out, header, &RemoveWatchesRequest { path: path(input), kind: kind(input) });
        }
        OpCode::DELETE_CONTAINER => {
            append(out, header, &DeleteContainerRequest { path: Text::new(path(input)) });
        }
        OpCode::AUTH => {
            let scheme = input.pick(&["digest", "digest", "ip", "world", ""]).map(Text::new);
            let auth = Secret::new(input.pick(&[b"ann:secret", SUPER, b"\xff"]));
            let scheme = scheme.unwrap_or_default();
            append(out, header, &AuthPacket { kind: 0, scheme, auth });
        }
        OpCode::SET_WATCHES => {
            let paths = paths(input);
            let SetWatches2 { relative_zxid, data, exist, child, .. } = set_watches(input, &paths);
            append(out, header, &SetWatches { relative_zxid, data, exist, child });
        }
        OpCode::SET_WATCHES2 => {
            let paths = paths(input);
            append(out, header, &set_watches(input, &paths));
        }
        OpCode::SASL => append(out, header, &GetSaslRequest { token: Secret::new(None) }),
        OpCode::GET_EPHEMERALS => {
            append(out, header, &GetEphemeralsRequest { prefix_path: Text::new(path(input)) });
        }
        OpCode::GET_ALL_CHILDREN_NUMBER => {
            append(out, header, &GetAllChildrenNumberRequest { path: path(input) });
        }
        OpCode::ADD_WATCH => {
            let (path, mode) = (path(input), AddWatchMode(i32::from(input.byte() % 3)));
            append(out, header, &AddWatchRequest { path, mode });
        }
        _ => append(out, header, &()),
    }
}

/// Appends a request of any operation with any body.
pub(crate) fn raw(input: &mut Input<'_>, xid: Xid, out: &mut BytesMut) {
    let op = op(input);
    let length = usize::from(input.byte());
    append(out, RequestHeader { xid, op }, &Raw(input.take(length)));
}

/// Bytes that need not be a record.
struct Raw<'a>(&'a [u8]);

impl Encode for Raw<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.put(self.0);
    }
}

fn append(out: &mut BytesMut, header: RequestHeader, body: &impl Encode) {
    let encoded = frame::encode(out, usize::MAX, |writer| {
        header.encode(writer);
        body.encode(writer);
    });
    assert!(encoded.is_ok(), "a small frame");
}

fn write(input: &mut Input<'_>) -> MultiOp<'static> {
    match input.byte() % 16 {
        0..3 => MultiOp::Create(create(input)),
        3..5 => MultiOp::Create2(create(input)),
        5 => MultiOp::CreateContainer(create(input)),
        6 => MultiOp::CreateTtl(create_ttl(input)),
        7..10 => MultiOp::Delete(delete(input)),
        10..13 => MultiOp::SetData(set_data(input)),
        13 | 14 => MultiOp::Check(check(input)),
        _ => read(input),
    }
}

fn read(input: &mut Input<'_>) -> MultiOp<'static> {
    match input.byte() % 8 {
        0..4 => MultiOp::GetData(get_data(input)),
        4..7 => MultiOp::GetChildren(get_children(input)),
        _ => MultiOp::Check(check(input)),
    }
}

fn create(input: &mut Input<'_>) -> CreateRequest<'static> {
    let (path, data) = (path(input), data(input));
    CreateRequest { path, data, acl: acl(input), mode: CreateMode(i32::from(input.byte() % 9)) }
}

fn create_ttl(input: &mut Input<'_>) -> CreateTtlRequest<'static> {
    let (path, data, acl) = (path(input), data(input), acl(input));
    let mode = CreateMode(5 + i32::from(input.byte() % 3));
    CreateTtlRequest { path, data, acl, mode, ttl: input.pick(TIMES_TO_LIVE).unwrap_or_default() }
}

fn delete(input: &mut Input<'_>) -> DeleteRequest<'static> {
    DeleteRequest { path: path(input), version: version(input) }
}

fn set_data(input: &mut Input<'_>) -> SetDataRequest<'static> {
    SetDataRequest { path: path(input), data: data(input), version: version(input) }
}

fn check(input: &mut Input<'_>) -> CheckVersionRequest<'static> {
    CheckVersionRequest { path: path(input), version: version(input) }
}

fn get_data(input: &mut Input<'_>) -> GetDataRequest<'static> {
    GetDataRequest { path: path(input), watch: flag(input) }
}

fn get_children(input: &mut Input<'_>) -> GetChildrenRequest<'static> {
    GetChildrenRequest { path: path(input), watch: flag(input) }
}

/// Lists that are suffixes of one list.
fn set_watches<'a>(input: &mut Input<'_>, paths: &'a [&'static str]) -> SetWatches2<'a> {
    let mut list = || match input.byte() {
        255 => List::NULL,
        from => List::new(paths.get(usize::from(from % 4)..).unwrap_or_default()),
    };
    SetWatches2 {
        data: list(),
        exist: list(),
        child: list(),
        persistent: list(),
        persistent_recursive: list(),
        relative_zxid: Zxid(input.byte().into()),
    }
}

fn paths(input: &mut Input<'_>) -> [&'static str; 3] {
    std::array::from_fn(|_| path(input))
}

fn data(input: &mut Input<'_>) -> Option<&'static [u8]> {
    input.pick(DATA).flatten()
}

fn acl(input: &mut Input<'_>) -> List<'static, Acl<'static>> {
    input.pick(LISTS).map_or(List::NULL, List::new)
}

fn version(input: &mut Input<'_>) -> i32 {
    input.pick(VERSIONS).unwrap_or(-1)
}

fn kind(input: &mut Input<'_>) -> WatcherType {
    WatcherType(1 + i32::from(input.byte() % 6))
}

fn flag(input: &mut Input<'_>) -> bool {
    input.byte() % 2 == 1
}
