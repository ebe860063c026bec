//! A payload taken apart by [`any`], with its fields under the protocol's own names.
//!
//! The vectors were written by another decoder, so a field in the wrong place shows.

use bytes::BytesMut;
use serde_json::{Map, Value, json};
use zk_proto::any::{self, Field, Message, Name};
use zk_proto::*;

use crate::frames::{Direction, Frame};

/// What a payload holds.
pub(crate) struct Dissected<'a> {
    pub(crate) frame: any::Frame<'a>,
    /// Record name to fields, as in the vectors.
    pub(crate) json: Map<String, Value>,
    /// The records encoded again.
    pub(crate) wire: BytesMut,
}

/// Decodes a payload as what `frame` says it is.
pub(crate) fn decode<'a>(frame: &Frame, payload: &'a [u8]) -> Result<any::Frame<'a>, DecodeError> {
    match (frame.direction, frame.opcode) {
        (Direction::Request, None) => any::Frame::connect_request(payload),
        (Direction::Request, Some(_)) => any::Frame::request(payload),
        (Direction::Reply, None) => any::Frame::connect_response(payload),
        (Direction::Reply, Some(op)) => any::Frame::reply(payload, OpCode(op)),
        (Direction::Notification, _) => any::Frame::notification(payload),
    }
}

/// Reads a payload as what `frame` says it is; bytes left over are an error.
pub(crate) fn dissect<'a>(frame: &Frame, payload: &'a [u8]) -> Result<Dissected<'a>, DecodeError> {
    let seen = decode(frame, payload)?.exposing_secrets();
    if !seen.trailing().is_empty() {
        return Err(DecodeError::TrailingBytes(seen.trailing().len()));
    }
    if let (Direction::Request, Some(op)) = (frame.direction, frame.opcode) {
        assert_eq!(seen.op(), Some(OpCode(op)), "{}", frame.name);
    }
    let is_request = frame.direction == Direction::Request;
    let mut json = Map::new();
    for (field, inside) in siblings(&seen.fields()) {
        let record = match field.value {
            // Records without a byte have no name in the vectors.
            any::Value::Record(_) if field.length == 0 => continue,
            any::Value::Record(record) => record,
            any::Value::List(_) if is_request => "Multi",
            any::Value::List(_) => "MultiResponse",
            other => panic!("{}: {other:?} without a record", frame.name),
        };
        json.insert(record_name(record), shown(record, field, inside));
    }
    Ok(Dissected { frame: seen, json, wire: encoded(seen.message()) })
}

pub(crate) fn encoded(value: &impl Encode) -> BytesMut {
    let mut wire = BytesMut::new();
    value.encode(&mut Writer::new(&mut wire, usize::MAX));
    wire
}

/// The entries of a decoded multi are encoded one by one and not copied; they must come to the
/// same.
pub(crate) fn assert_entries_encode_alike(frame: &any::Frame<'_>) {
    match frame.message() {
        Message::Request(_, any::Request::Multi(list) | any::Request::MultiRead(list)) => {
            let entries: Vec<_> = list.iter().collect();
            assert_eq!(encoded(list), encoded(&MultiList::new(&entries)), "{frame}");
            assert_eq!(Some(list.op()), frame.op(), "{frame}");
        }
        Message::Reply(_, any::Reply::Multi(list) | any::Reply::MultiRead(list)) => {
            let entries: Vec<_> = list.iter().collect();
            assert_eq!(encoded(list), encoded(&MultiList::new(&entries)), "{frame}");
        }
        _ => {}
    }
}

/// The fields of the least depth, each with those inside it.
pub(crate) fn siblings<'f, 'a>(
    mut fields: &'f [Field<'a>],
) -> Vec<(&'f Field<'a>, &'f [Field<'a>])> {
    let mut siblings = Vec::new();
    while let Some((first, rest)) = fields.split_first() {
        let inside = rest.iter().take_while(|field| field.depth > first.depth).count();
        siblings.push((first, &rest[..inside]));
        fields = &rest[inside..];
    }
    siblings
}

/// A field of `record` as JSON, with those inside it.
fn shown(record: &str, field: &Field<'_>, inside: &[Field<'_>]) -> Value {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match field.value {
        any::Value::Record("Entry") => entry(inside),
        any::Value::Record(record) => Value::Object(
            siblings(inside)
                .into_iter()
                .map(|(field, inside)| (field_name(record, field), shown(record, field, inside)))
                .collect(),
        ),
        any::Value::List(None) => Value::Null,
        any::Value::List(Some(_)) => siblings(inside)
            .into_iter()
            .filter(|(field, _)| field.name != Name::Field("count"))
            .map(|(field, inside)| match field.name {
                Name::Field("end") => json!({ "header": shown(record, field, inside) }),
                _ => shown(record, field, inside),
            })
            .collect(),
        any::Value::Number(number) | any::Value::Hex(number) => number.into(),
        any::Value::Code(code, _) => code.into(),
        any::Value::Bool(value) => value.into(),
        any::Value::Text(text) => {
            text.as_bytes().map_or(Value::Null, |text| str::from_utf8(text).unwrap().into())
        }
        any::Value::Buffer(buffer) => buffer.map_or(Value::Null, |buffer| hex(buffer).into()),
        any::Value::Absent => "absent".into(),
        other => panic!("{record}: {other:?}"),
    }
}

/// An entry of a multi; those without a body have a header alone.
fn entry(inside: &[Field<'_>]) -> Value {
    match &siblings(inside)[..] {
        [(header, fields)] => json!({ "header": shown("", header, fields) }),
        [(header, fields), (body, inside)] => {
            let (record, body) = match body.value {
                any::Value::Record(record) => (record, shown(record, body, inside)),
                any::Value::Code(code, _) => ("ErrorResponse", json!({ "err": code })),
                other => panic!("an entry with {other:?}"),
            };
            json!({
                "header": shown("", header, fields), "record": record_name(record), "body": body
            })
        }
        other => panic!("an entry of {other:?}"),
    }
}

/// ZooKeeper's own name of a record.
fn record_name(record: &str) -> String {
    ["Acl", "Ttl", "Sasl"]
        .iter()
        .fold(record.to_owned(), |name, short| name.replace(short, &short.to_uppercase()))
}

/// ZooKeeper's own name of a field.
fn field_name(record: &str, field: &Field<'_>) -> String {
    let name = field.name.to_string();
    let own = match (record, &*name) {
        (_, "timeout") => "timeOut",
        (_, "password") => "passwd",
        (_, "op" | "kind") => "type",
        (_, "error") => "err",
        ("CreateRequest" | "CreateTtlRequest", "mode") => "flags",
        (record, name) => {
            let mut words = name.split('_');
            let mut own = words.next().unwrap().to_owned();
            for word in words {
                let (first, rest) = word.split_at(1);
                own.extend([&first.to_uppercase(), rest]);
            }
            if record.starts_with("SetWatches") && name != "relative_zxid" {
                own.push_str("Watches");
            }
            return own;
        }
    };
    own.to_owned()
}
