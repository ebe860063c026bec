//! Requests with an odd value in one field.
//!
//! Some odd values are known to break a real server for good, and are left out: see `generate`.

use zk_proto::any::{Frame, Name, Value};
use zk_proto::{Encode, OpCode, RequestHeader, Writer};

use super::step::{Deed, Request, Step};
use crate::odd;

/// The bytes of a request in front of its body.
const HEADER: usize = 8;

/// Gives one in `odd` requests an odd value, the same for the same seed.
pub(super) fn mutate(steps: &mut [Step], seed: u64, odd: u32) {
    if odd == 0 {
        return;
    }
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x6f64_645f_6669_656c);
    for step in steps {
        // A burst must not have a request that may end the connection.
        if let Deed::Ask(requests) = &mut step.deed
            && let [request] = &mut requests[..]
            && rng.u32(..odd) == 0
        {
            mutate_request(request, &mut rng);
        }
    }
}

fn mutate_request(request: &mut Request, rng: &mut fastrand::Rng) {
    let payload = request.payload();
    let Ok(frame) = Frame::request(&payload) else { return };
    let op = request.op;
    let chosen = odd::choose(&frame.fields(), rng, |field| {
        field.offset >= HEADER
            // A watch on a null path makes a connection that cannot be closed any more.
            && !(sets_watches(op) && matches!(field.value, Value::Text(_)))
            // A mode without a time to live stops 3.9.3.
            && field.name != Name::Field("mode")
            // So may any entry of a multi be.
            && !(op == OpCode::MULTI && matches!(field.name, Name::Field("op")))
    });
    let Some(field) = chosen else { return };
    let (bytes, told) = odd::value(&field, rng);
    // These are paths of the root, which the servers need not have in common.
    let is_root = bytes.starts_with(&[0; 4]) || bytes.starts_with(b"\0\0\0\x01/");
    if matches!(field.value, Value::Text(_)) && is_root {
        return;
    }
    let mut payload = payload.clone();
    payload.splice(field.offset..field.offset + field.length, bytes);
    request.body = payload.split_off(HEADER);
    request.text += &format!(", with {told} for {}", field.name);
    // The bytes are sent as they are.
    if field.offset == HEADER && request.since.is_some() {
        request.since = None;
    }
}

fn sets_watches(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::ADD_WATCH
            | OpCode::EXISTS
            | OpCode::GET_DATA
            | OpCode::GET_CHILDREN
            | OpCode::GET_CHILDREN2
            | OpCode::SET_WATCHES
            | OpCode::SET_WATCHES2
            | OpCode::MULTI_READ
    )
}

impl Request {
    /// The request without the length in front of it.
    pub(super) fn payload(&self) -> Vec<u8> {
        let mut payload = bytes::BytesMut::new();
        let mut writer = Writer::new(&mut payload, usize::MAX);
        RequestHeader { xid: self.xid, op: self.op }.encode(&mut writer);
        writer.put(&self.body);
        payload.to_vec()
    }

    /// The request with the length in front of it.
    pub(super) fn frame(&self) -> Vec<u8> {
        let payload = self.payload();
        let length = i32::try_from(payload.len()).unwrap_or(i32::MAX);
        [&length.to_be_bytes()[..], &payload].concat()
    }
}

#[cfg(test)]
mod tests {
    use zk_proto::{Decode, Reader, Text, Xid};

    use super::*;

    #[test]
    fn no_odd_path_is_that_of_the_root() {
        for seed in 0..500 {
            let (op, body) = (OpCode::GET_ACL, b"\0\0\0\x01a".to_vec());
            let mut request = Request { xid: Xid(1), op, body, since: None, text: String::new() };
            mutate_request(&mut request, &mut fastrand::Rng::with_seed(seed));
            let path = Text::decode(&mut Reader::new(&request.body));
            let is_root = path.is_ok_and(|it| it == Text::new("") || it == Text::new("/"));
            assert!(!is_root, "seed {seed}: {}", request.text);
        }
    }
}
