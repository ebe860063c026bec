//! One connection as the observer sees it: which frame is what, and which request a reply answers.
//!
//! Nearly all replies come in the order of their requests, so the requests are a queue. Those of
//! pings and of auth packets may overtake, so a reply answers the first request with its xid.

use std::collections::VecDeque;

use zk_proto::any::Frame;
use zk_proto::{DecodeError, OpCode, Xid};

use crate::queue::{Side, Stamp};

/// How many requests are kept without a reply; older ones are forgotten.
const IN_FLIGHT: usize = 1 << 16;

/// How many characters of a path are kept: a peer may send paths of any length.
const PATH: usize = 256;

/// A request without a reply.
#[derive(Debug)]
#[non_exhaustive]
pub struct Asked {
    xid: Xid,
    /// Its operation.
    pub op: OpCode,
    /// Its path, if it has one, or the beginning of a very long one.
    pub path: Option<String>,
    /// When it passed.
    pub at: Stamp,
}

/// A connection, whose frames are decoded in their order.
#[derive(Debug, Default)]
pub struct Dialog {
    client_has_spoken: bool,
    server_has_spoken: bool,
    asked: VecDeque<Asked>,
}

impl Dialog {
    /// Takes the next frame of this side for no handshake: the first frames are not known.
    pub fn begin_late(&mut self, side: Side) {
        match side {
            Side::Client => self.client_has_spoken = true,
            Side::Server => self.server_has_spoken = true,
        }
    }

    /// Decodes the next frame of a side, and returns with it the request that it answers.
    ///
    /// # Errors
    ///
    /// The payload is not a frame of that side.
    pub fn frame<'a>(
        &mut self,
        side: Side,
        at: Stamp,
        payload: &'a [u8],
    ) -> (Result<Frame<'a>, DecodeError>, Option<Asked>) {
        match side {
            Side::Client => {
                if !std::mem::replace(&mut self.client_has_spoken, true) {
                    return (Frame::connect_request(payload), None);
                }
                let frame = Frame::request(payload);
                if let Ok(Some((xid, op))) = frame.as_ref().map(|f| f.xid().zip(f.op())) {
                    if self.asked.len() == IN_FLIGHT {
                        self.asked.pop_front();
                    }
                    let path = frame.as_ref().ok().and_then(Frame::path).map(beginning);
                    self.asked.push_back(Asked { xid, op, path, at });
                }
                (frame, None)
            }
            Side::Server => {
                if !std::mem::replace(&mut self.server_has_spoken, true) {
                    return (Frame::connect_response(payload), None);
                }
                let mut answered = None;
                let frame = Frame::from_server(payload, |xid| {
                    answered = self.take(xid);
                    answered.as_ref().map(|asked| asked.op)
                });
                (frame, answered)
            }
        }
    }

    /// Takes the request with this xid. Those ahead of it whose replies come in order have had a
    /// reply that was dropped.
    fn take(&mut self, xid: Xid) -> Option<Asked> {
        let place = self.asked.iter().position(|asked| asked.xid == xid)?;
        let answered = self.asked.remove(place);
        if xid.0 > 0 && place > 0 {
            let later = self.asked.split_off(place);
            self.asked.retain(|asked| asked.xid.0 <= 0);
            self.asked.extend(later);
        }
        answered
    }
}

/// A path, or as much of it as is kept.
fn beginning(path: &str) -> String {
    match path.len() <= PATH {
        true => path.to_owned(),
        false => path.chars().take(PATH).chain("...".chars()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use zk_proto::{DeleteRequest, Encode, RequestHeader, frame};

    use super::*;

    fn request(xid: i32, path: &str) -> BytesMut {
        let mut framed = BytesMut::new();
        frame::encode(&mut framed, usize::MAX, |out| {
            RequestHeader { xid: Xid(xid), op: OpCode::DELETE }.encode(out);
            DeleteRequest { path, version: -1 }.encode(out);
        })
        .unwrap();
        // Without the length.
        framed.split_off(4)
    }

    #[test]
    fn a_reply_forgets_the_requests_ahead_of_it_whose_replies_were_dropped() {
        let mut dialog = Dialog { client_has_spoken: true, ..Dialog::default() };
        for xid in [1, 2, -2, 3, 4] {
            dialog.frame(Side::Client, Stamp::ZERO, &request(xid, "/a")).0.unwrap();
        }
        assert_eq!(dialog.take(Xid(3)).unwrap().xid, Xid(3));
        let left = dialog.asked.iter().map(|asked| asked.xid.0).collect::<Vec<_>>();
        assert_eq!(left, [-2, 4]);
    }

    #[test]
    fn only_the_beginning_of_a_long_path_is_kept() {
        let mut dialog = Dialog { client_has_spoken: true, ..Dialog::default() };
        let path = format!("/{}", "n".repeat(1 << 20));
        dialog.frame(Side::Client, Stamp::ZERO, &request(1, &path)).0.unwrap();
        let kept = dialog.take(Xid(1)).unwrap().path.unwrap();
        assert!(kept.len() < 2 * PATH && kept.starts_with("/nnn"), "{} bytes", kept.len());
    }
}
