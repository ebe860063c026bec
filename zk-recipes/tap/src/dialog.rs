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

/// A request without a reply.
#[derive(Debug)]
pub(crate) struct Asked {
    xid: Xid,
    pub(crate) op: OpCode,
    pub(crate) path: Option<String>,
    pub(crate) at: Stamp,
}

/// A connection.
#[derive(Debug, Default)]
pub(crate) struct Dialog {
    client_has_spoken: bool,
    server_has_spoken: bool,
    asked: VecDeque<Asked>,
}

impl Dialog {
    /// Decodes the next frame of a side, and returns with it the request that it answers.
    pub(crate) fn frame<'a>(
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
                    let path = frame.as_ref().ok().and_then(Frame::path).map(str::to_owned);
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
                    let place = self.asked.iter().position(|asked| asked.xid == xid)?;
                    answered = self.asked.remove(place);
                    answered.as_ref().map(|asked| asked.op)
                });
                (frame, answered)
            }
        }
    }
}
