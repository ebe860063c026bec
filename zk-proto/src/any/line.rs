//! A frame in one line, and as a tree.
//!
//! The line is made of the fields, so it needs no rule for each operation: a path stands alone, a
//! flag is its name, and of lists, buffers and Stats there is a number.

use std::fmt::{self, Write};

use crate::any::frame::{Frame, Message};
use crate::codes::{ErrorCode, KeeperState};
use crate::connect::SessionId;
use crate::jute::{Field, Name, Value};

/// How many bytes the line of a frame has at most.
pub const LINE_LIMIT: usize = 1024;

/// Ends a line that was cut.
const CUT: &str = "...";

/// One line without its end: what is asked, answered or reported.
///
/// A request is its operation and its fields: `create2 /lock/x- data=0B acl=1 mode=ephemeral`. A
/// reply adds the result: `create2 Ok zxid=0x5 /lock/x-0000000007 version=0`. Of a Stat there is
/// only the version, of a list the number of items, and of a buffer the number of bytes.
impl fmt::Display for Frame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line { out: f, left: LINE_LIMIT - CUT.len(), is_cut: false };
        match self.write_line(&mut line) {
            Err(_) if line.is_cut => f.write_str(CUT),
            result => result,
        }
    }
}

impl<'a> Frame<'a> {
    /// Returns the fields as a tree: a line for each, with its offset, its length, its name and its
    /// value.
    ///
    /// ```
    /// use zk_proto::any::Frame;
    ///
    /// let frame = Frame::request(b"\0\0\0\x07\0\0\0\x02\0\0\0\x02/a\xff\xff\xff\xff")?;
    /// let tree = "   0    8  header: RequestHeader
    ///    0    4    xid: 7
    ///    4    4    op: delete
    ///    8   10  body: DeleteRequest
    ///    8    6    path: /a
    ///   14    4    version: -1
    /// ";
    /// assert_eq!(frame.tree().to_string(), tree);
    /// # Ok::<(), zk_proto::DecodeError>(())
    /// ```
    pub fn tree(&self) -> Tree<'a> {
        Tree(self.fields())
    }

    fn write_line(&self, line: &mut Line<'_, '_>) -> fmt::Result {
        match self.message() {
            Message::ConnectRequest(connect) => {
                write!(line, "connect timeout={}", connect.timeout)?;
                match connect.session_id {
                    SessionId(0) => line.write_str(" session=new"),
                    id => write!(line, " session={id} last_zxid_seen={}", connect.last_zxid_seen),
                }?;
                self.write_trailing(line)
            }
            Message::ConnectResponse(connected) if connected.is_expired() => {
                line.write_str("expired")?;
                self.write_trailing(line)
            }
            Message::ConnectResponse(connected) => {
                let id = connected.session_id;
                write!(line, "connected timeout={} session={id}", connected.timeout)?;
                self.write_trailing(line)
            }
            Message::Notification(_, event) => {
                write!(line, "event {} {}", event.kind, Value::Text(event.path.into()))?;
                if event.state != KeeperState::SYNC_CONNECTED {
                    write!(line, " state={}", event.state)?;
                }
                self.write_trailing(line)
            }
            Message::Request(header, _) => {
                write!(line, "{}", header.op)?;
                self.write_body(line)
            }
            Message::Reply(header, _) => {
                match self.op().and_then(|op| op.name()) {
                    Some(name) => write!(line, "{name} {}", header.error)?,
                    None => write!(line, "reply {}", header.error)?,
                }
                if header.error == ErrorCode::OK && header.zxid.0 > 0 {
                    write!(line, " zxid={}", header.zxid)?;
                }
                self.write_body(line)
            }
        }
    }

    fn write_trailing(&self, line: &mut Line<'_, '_>) -> fmt::Result {
        match self.trailing().len() {
            0 => Ok(()),
            len => write!(line, " trailing={len}B"),
        }
    }

    fn write_body(&self, line: &mut Line<'_, '_>) -> fmt::Result {
        let mut body = Body::default();
        let mut result = Ok(());
        self.visit(&mut |field| {
            if result.is_ok() {
                result = body.write(line, &field);
            }
            result.is_ok()
        });
        result
    }
}

/// Where in a body the fields are that come next.
#[derive(Default)]
struct Body {
    /// Whether the body is a list of entries, each with a header and a body of its own.
    is_multi: bool,
    /// Whether the fields are those of a header.
    in_header: bool,
    /// Whether the fields are those of a Stat.
    in_stat: bool,
}

impl Body {
    fn write(&mut self, line: &mut Line<'_, '_>, field: &Field<'_>) -> fmt::Result {
        if let (0, Value::List(_)) = (field.depth, field.value) {
            self.is_multi = true;
            return line.write_str(" [");
        }
        // The depth of the fields that a record has.
        let depth = if self.is_multi { 3 } else { 1 };
        match (field.depth, field.name) {
            (0, _) if matches!(field.value, Value::Unknown(_)) => write_field(line, field),
            (1, Name::Item(0)) if self.is_multi => Ok(()),
            (1, Name::Item(_)) if self.is_multi => line.write_str(";"),
            (1, Name::Field("end")) if self.is_multi => line.write_str(" ]"),
            (at, Name::Field("header")) if at + 1 == depth => {
                self.in_header = true;
                Ok(())
            }
            (at, Name::Field("body")) if at + 1 == depth => {
                self.in_header = false;
                // The body of a failed entry is its error.
                if field.is_leaf() { write!(line, " {}", field.value) } else { Ok(()) }
            }
            (at, name) if at == depth && self.in_header => match name {
                Name::Field("op") if self.is_multi => write!(line, " {}", field.value),
                _ => Ok(()),
            },
            (at, _) if at == depth => {
                self.in_stat = matches!(field.value, Value::Record(_));
                write_field(line, field)
            }
            (at, Name::Field("version")) if at == depth + 1 && self.in_stat => {
                write_field(line, field)
            }
            _ => Ok(()),
        }
    }
}

fn write_field(line: &mut Line<'_, '_>, field: &Field<'_>) -> fmt::Result {
    let name = field.name;
    match field.value {
        Value::Record(_) | Value::Bool(false) => Ok(()),
        Value::Bool(true) => write!(line, " {name}"),
        Value::Text(_) if name == Name::Field("path") => write!(line, " {}", field.value),
        Value::List(Some(len)) => write!(line, " {name}={len}"),
        Value::Buffer(Some(bytes)) | Value::Unknown(bytes) => {
            write!(line, " {name}={}B", bytes.len())
        }
        value => write!(line, " {name}={value}"),
    }
}

/// Takes text until the line is full.
struct Line<'l, 'f> {
    out: &'l mut fmt::Formatter<'f>,
    left: usize,
    is_cut: bool,
}

impl Write for Line<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut fitting = (0..=self.left.min(text.len())).rev();
        let len = fitting.find(|len| text.is_char_boundary(*len)).unwrap_or(0);
        let (fits, rest) = text.split_at(len);
        self.out.write_str(fits)?;
        self.left -= len;
        self.is_cut = !rest.is_empty();
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

/// The fields of a frame as a tree: see [`Frame::tree`].
#[derive(Clone, Debug)]
pub struct Tree<'a>(Vec<Field<'a>>);

impl fmt::Display for Tree<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|Field { name, value, offset, length, depth }| {
            writeln!(f, "{offset:4} {length:4}  {:indent$}{name}: {value}", "", indent = depth * 2)
        })
    }
}
