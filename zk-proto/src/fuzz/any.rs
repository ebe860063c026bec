//! Any payload as any kind of frame: what decodes is shown, covered by its fields, compared and
//! encoded again.

use crate::any::{FIELD_LIMIT, Frame, LINE_LIMIT, Value};
use crate::fuzz::encoded::encoded;
use crate::operations::OpCode;

/// The bytes in front of the payload: the kind of frame, and the opcode of a reply.
pub const KIND: usize = 2;

/// The first byte chooses the kind of frame and the second is the opcode that a reply answers; the
/// others are the payload.
pub fn any(data: &[u8]) {
    let Some(([kind, op], payload)) = data.split_first_chunk::<KIND>() else {
        return;
    };
    let frame = match kind % 5 {
        0 => Frame::connect_request(payload),
        1 => Frame::connect_response(payload),
        2 => Frame::request(payload),
        3 => Frame::notification(payload),
        _ => Frame::reply(payload, OpCode(i32::from(op.cast_signed()))),
    };
    if let Ok(frame) = frame {
        check(&frame);
    }
}

fn check(frame: &Frame<'_>) {
    let payload = frame.payload();
    assert_eq!(encoded(frame), payload, "encoded again");
    assert!(payload.ends_with(frame.trailing()));
    let records = encoded(frame.message()).len() + frame.trailing().len();
    // A null password is encoded as an empty one, of the same length.
    assert_eq!(records, payload.len(), "each form of a record has the same length");

    let line = frame.to_string();
    assert!((4..=LINE_LIMIT).contains(&line.len()), "{line}");
    assert!(!line.contains(char::is_control), "{line:?}");

    let fields = frame.fields();
    assert!(fields.len() <= FIELD_LIMIT + 1);
    let mut at = 0;
    // The ends of the records and lists that the next field may be in.
    let mut ends = Vec::new();
    for field in &fields {
        assert!(field.depth <= ends.len(), "{field:?}");
        ends.truncate(field.depth);
        assert_eq!(field.offset, at, "{field:?}");
        let end = field.offset + field.length;
        // The bytes behind too many fields are outside of the lists that they belong to.
        let outer = ends.last().copied().unwrap_or(payload.len());
        assert!(end <= outer, "{field:?}");
        if field.is_leaf() {
            at = end;
        } else {
            ends.push(end);
        }
        let shown = field.value.to_string();
        assert!(!shown.contains(char::is_control) && shown.len() <= LINE_LIMIT * 2, "{shown}");
        assert!(!matches!(field.value, Value::Unknown([])), "{field:?}");
    }
    assert_eq!(at, payload.len(), "the leaves cover each byte once");
    assert_eq!(frame.tree().to_string().lines().count(), fields.len());

    assert_eq!(frame.differences(frame), []);
    assert_eq!(fields.len(), frame.exposing_secrets().fields().len());
}
