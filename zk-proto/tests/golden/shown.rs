//! Each record as JSON, under the protocol's own field names: buffers in hex, null as null.
//!
//! Spelled out field by field and independent of the codec's tables, so that a field in the wrong
//! place shows.

use serde_json::{Value, json};
use zk_proto::*;

fn hex(bytes: &[u8]) -> Value {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

fn buffer(buffer: Option<&[u8]>) -> Value {
    buffer.map_or(Value::Null, hex)
}

fn text(text: Text<'_>) -> Value {
    match text.as_bytes() {
        None => Value::Null,
        Some(bytes) => std::str::from_utf8(bytes).unwrap().into(),
    }
}

fn list<'a, T: Decode<'a> + Copy>(list: List<'a, T>, item: fn(T) -> Value) -> Value {
    if list.is_null() { Value::Null } else { list.iter().map(item).collect() }
}

fn paths<'a>(paths: List<'a, &'a str>) -> Value {
    list(paths, Value::from)
}

fn read_only(read_only: Option<bool>) -> Value {
    read_only.map_or("absent".into(), Value::from)
}

fn acl<'a>(acl: List<'a, Acl<'a>>) -> Value {
    list(acl, |Acl { perms, id }| {
        let id = json!({ "scheme": text(id.scheme), "id": text(id.id) });
        json!({ "perms": perms, "id": id })
    })
}

fn stat(stat: &Stat) -> Value {
    json!({
        "czxid": stat.czxid.0,
        "mzxid": stat.mzxid.0,
        "ctime": stat.ctime,
        "mtime": stat.mtime,
        "version": stat.version,
        "cversion": stat.cversion,
        "aversion": stat.aversion,
        "ephemeralOwner": stat.ephemeral_owner.0,
        "dataLength": stat.data_length,
        "numChildren": stat.num_children,
        "pzxid": stat.pzxid.0,
    })
}

pub(crate) fn request_header(header: &RequestHeader) -> Value {
    json!({ "xid": header.xid.0, "type": header.op.0 })
}

pub(crate) fn reply_header(header: &ReplyHeader) -> Value {
    json!({ "xid": header.xid.0, "zxid": header.zxid.0, "err": header.error.0 })
}

pub(crate) fn connect_request(record: &ConnectRequest) -> Value {
    json!({
        "protocolVersion": record.protocol_version,
        "lastZxidSeen": record.last_zxid_seen.0,
        "timeOut": record.timeout,
        "sessionId": record.session_id.0,
        "passwd": hex(record.password.expose()),
        "readOnly": read_only(record.read_only),
    })
}

pub(crate) fn connect_response(record: &ConnectResponse) -> Value {
    json!({
        "protocolVersion": record.protocol_version,
        "timeOut": record.timeout,
        "sessionId": record.session_id.0,
        "passwd": hex(record.password.expose()),
        "readOnly": read_only(record.read_only),
    })
}

pub(crate) fn create_request(record: &CreateRequest<'_>) -> Value {
    json!({
        "path": record.path,
        "data": buffer(record.data),
        "acl": acl(record.acl),
        "flags": record.mode.0,
    })
}

pub(crate) fn create_ttl_request(record: &CreateTtlRequest<'_>) -> Value {
    json!({
        "path": record.path,
        "data": buffer(record.data),
        "acl": acl(record.acl),
        "flags": record.mode.0,
        "ttl": record.ttl,
    })
}

pub(crate) fn create_response(record: &CreateResponse<'_>) -> Value {
    json!({ "path": record.path })
}

pub(crate) fn create2_response(record: &Create2Response<'_>) -> Value {
    json!({ "path": record.path, "stat": stat(&record.stat) })
}

pub(crate) fn delete_request(record: &DeleteRequest<'_>) -> Value {
    json!({ "path": record.path, "version": record.version })
}

pub(crate) fn exists_request(record: &ExistsRequest<'_>) -> Value {
    json!({ "path": record.path, "watch": record.watch })
}

pub(crate) fn exists_response(record: &ExistsResponse) -> Value {
    json!({ "stat": stat(&record.stat) })
}

pub(crate) fn get_data_request(record: &GetDataRequest<'_>) -> Value {
    json!({ "path": record.path, "watch": record.watch })
}

pub(crate) fn get_data_response(record: &GetDataResponse<'_>) -> Value {
    json!({ "data": buffer(record.data), "stat": stat(&record.stat) })
}

pub(crate) fn set_data_request(record: &SetDataRequest<'_>) -> Value {
    json!({ "path": record.path, "data": buffer(record.data), "version": record.version })
}

pub(crate) fn set_data_response(record: &SetDataResponse) -> Value {
    json!({ "stat": stat(&record.stat) })
}

pub(crate) fn get_acl_request(record: &GetAclRequest<'_>) -> Value {
    json!({ "path": record.path })
}

pub(crate) fn get_acl_response(record: &GetAclResponse<'_>) -> Value {
    json!({ "acl": acl(record.acl), "stat": stat(&record.stat) })
}

pub(crate) fn set_acl_request(record: &SetAclRequest<'_>) -> Value {
    json!({ "path": record.path, "acl": acl(record.acl), "version": record.version })
}

pub(crate) fn set_acl_response(record: &SetAclResponse) -> Value {
    json!({ "stat": stat(&record.stat) })
}

pub(crate) fn get_children_request(record: &GetChildrenRequest<'_>) -> Value {
    json!({ "path": record.path, "watch": record.watch })
}

pub(crate) fn get_children_response(record: &GetChildrenResponse<'_>) -> Value {
    json!({ "children": paths(record.children) })
}

pub(crate) fn get_children2_request(record: &GetChildren2Request<'_>) -> Value {
    json!({ "path": record.path, "watch": record.watch })
}

pub(crate) fn get_children2_response(record: &GetChildren2Response<'_>) -> Value {
    json!({ "children": paths(record.children), "stat": stat(&record.stat) })
}

pub(crate) fn sync_request(record: &SyncRequest<'_>) -> Value {
    json!({ "path": text(record.path) })
}

pub(crate) fn sync_response(record: &SyncResponse<'_>) -> Value {
    json!({ "path": text(record.path) })
}

pub(crate) fn check_version_request(record: &CheckVersionRequest<'_>) -> Value {
    json!({ "path": record.path, "version": record.version })
}

pub(crate) fn reconfig_request(record: &ReconfigRequest<'_>) -> Value {
    json!({
        "joiningServers": text(record.joining_servers),
        "leavingServers": text(record.leaving_servers),
        "newMembers": text(record.new_members),
        "curConfigId": record.cur_config_id,
    })
}

pub(crate) fn get_ephemerals_request(record: &GetEphemeralsRequest<'_>) -> Value {
    json!({ "prefixPath": text(record.prefix_path) })
}

pub(crate) fn get_ephemerals_response(record: &GetEphemeralsResponse<'_>) -> Value {
    json!({ "ephemerals": paths(record.ephemerals) })
}

pub(crate) fn get_all_children_number_request(record: &GetAllChildrenNumberRequest<'_>) -> Value {
    json!({ "path": record.path })
}

pub(crate) fn get_all_children_number_response(record: &GetAllChildrenNumberResponse) -> Value {
    json!({ "totalNumber": record.total_number })
}

pub(crate) fn who_am_i_response(record: &WhoAmIResponse<'_>) -> Value {
    let info = list(
        record.client_info,
        |info| json!({ "authScheme": text(info.auth_scheme), "user": text(info.user) }),
    );
    json!({ "clientInfo": info })
}

pub(crate) fn auth_packet(record: &AuthPacket<'_>) -> Value {
    json!({
        "type": record.kind,
        "scheme": text(record.scheme),
        "auth": buffer(record.auth.expose()),
    })
}

pub(crate) fn get_sasl_request(record: &GetSaslRequest<'_>) -> Value {
    json!({ "token": buffer(record.token.expose()) })
}

pub(crate) fn set_sasl_response(record: &SetSaslResponse<'_>) -> Value {
    json!({ "token": buffer(record.token.expose()) })
}

pub(crate) fn check_watches_request(record: &CheckWatchesRequest<'_>) -> Value {
    json!({ "path": record.path, "type": record.kind.0 })
}

pub(crate) fn remove_watches_request(record: &RemoveWatchesRequest<'_>) -> Value {
    json!({ "path": record.path, "type": record.kind.0 })
}

pub(crate) fn add_watch_request(record: &AddWatchRequest<'_>) -> Value {
    json!({ "path": record.path, "mode": record.mode.0 })
}

pub(crate) fn error_response(record: &ErrorResponse) -> Value {
    json!({ "err": record.error.0 })
}

pub(crate) fn watcher_event(record: &WatcherEvent<'_>) -> Value {
    json!({ "type": record.kind.0, "state": record.state.0, "path": record.path })
}

pub(crate) fn set_watches(record: &SetWatches<'_>) -> Value {
    json!({
        "relativeZxid": record.relative_zxid.0,
        "dataWatches": paths(record.data),
        "existWatches": paths(record.exist),
        "childWatches": paths(record.child),
    })
}

pub(crate) fn set_watches2(record: &SetWatches2<'_>) -> Value {
    json!({
        "relativeZxid": record.relative_zxid.0,
        "dataWatches": paths(record.data),
        "existWatches": paths(record.exist),
        "childWatches": paths(record.child),
        "persistentWatches": paths(record.persistent),
        "persistentRecursiveWatches": paths(record.persistent_recursive),
    })
}

/// One entry of a multi; those without a body have a header alone.
fn entry(op: OpCode, error: i32, body: Option<(&str, Value)>) -> Value {
    let header = json!({ "type": op.0, "done": false, "err": error });
    match body {
        None => json!({ "header": header }),
        Some((record, body)) => json!({ "header": header, "record": record, "body": body }),
    }
}

fn terminated(entries: impl Iterator<Item = Value>) -> Value {
    let end = json!({ "header": { "type": -1, "done": true, "err": -1 } });
    entries.chain([end]).collect()
}

pub(crate) fn multi_request(record: &MultiRequest<'_>) -> Value {
    terminated(record.iter().map(|op| {
        let body = match &op {
            MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
                ("CreateRequest", create_request(body))
            }
            MultiOp::CreateTtl(body) => ("CreateTTLRequest", create_ttl_request(body)),
            MultiOp::Delete(body) => ("DeleteRequest", delete_request(body)),
            MultiOp::SetData(body) => ("SetDataRequest", set_data_request(body)),
            MultiOp::Check(body) => ("CheckVersionRequest", check_version_request(body)),
            MultiOp::GetData(body) => ("GetDataRequest", get_data_request(body)),
            MultiOp::GetChildren(body) => ("GetChildrenRequest", get_children_request(body)),
            other => panic!("an entry without its JSON: {other:?}"),
        };
        entry(op.op(), -1, Some(body))
    }))
}

pub(crate) fn multi_response(record: &MultiResponse<'_>) -> Value {
    terminated(record.iter().map(|result| match &result {
        MultiResult::Create(body) => {
            entry(result.op(), 0, Some(("CreateResponse", create_response(body))))
        }
        MultiResult::Create2(body) => {
            entry(result.op(), 0, Some(("Create2Response", create2_response(body))))
        }
        MultiResult::SetData(body) => {
            entry(result.op(), 0, Some(("SetDataResponse", set_data_response(body))))
        }
        MultiResult::GetData(body) => {
            entry(result.op(), 0, Some(("GetDataResponse", get_data_response(body))))
        }
        MultiResult::GetChildren(body) => {
            entry(result.op(), 0, Some(("GetChildrenResponse", get_children_response(body))))
        }
        MultiResult::Delete(()) | MultiResult::Check(()) => entry(result.op(), 0, None),
        MultiResult::Error(code) => {
            entry(result.op(), code.0, Some(("ErrorResponse", json!({ "err": code.0 }))))
        }
        other => panic!("a result without its JSON: {other:?}"),
    }))
}
