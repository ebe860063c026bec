//! SASL on a connection: after the handshake, and before anything else.
//!
//! Servers would accept other requests in between, but without an identity, and servers that insist
//! on SASL hang up on them. So all queued requests wait, and no ping is sent. The deadline of the
//! attempt still applies.

use std::time::Instant;

use zk_proto::{
    Decode, Encode, ErrorCode, GetSaslRequest, Operation, Reader, ReplyHeader, RequestHeader,
    Secret, SetSaslResponse, Xid,
};

use crate::auth::credentials::{Broken, Refusal, Step};
use crate::auth::sasl::Sasl;
use crate::error::{Ended, ProtocolError};
use crate::session::state::{Phase, Session};

impl<T, W, S: Clone> Session<T, W, S> {
    /// Begins to serve, after SASL if that is configured.
    pub(super) fn authenticate(&mut self, now: Instant, read_only: bool) {
        match self.config.sasl.as_mut().map(Sasl::begin) {
            None => self.serve(now, read_only),
            Some(token) => {
                self.send_token(&token, read_only);
            }
        }
    }

    fn send_token(&mut self, token: &[u8], read_only: bool) {
        let xid = self.pipeline.take_xid();
        self.phase = Phase::Authenticating { xid, read_only };
        let request = GetSaslRequest { token: Secret::new(Some(token)) };
        self.put_control(|writer| {
            RequestHeader { xid, op: request.op() }.encode(writer);
            request.encode(writer);
        });
    }

    /// A reply to a SASL token that was sent with `xid`.
    pub(super) fn handle_token(
        &mut self,
        now: Instant,
        frame: &[u8],
        xid: Xid,
        read_only: bool,
    ) -> Result<(), ProtocolError> {
        let mut reader = Reader::new(frame);
        let header = ReplyHeader::decode(&mut reader)?;
        if header.xid != xid {
            return Err(ProtocolError::WrongXid { expected: xid, got: header.xid });
        }
        let Some(sasl) = &mut self.config.sasl else {
            return Err(ProtocolError::Unasked(xid));
        };
        // Behind an error there is a null token.
        if header.error != ErrorCode::OK {
            self.end(Ended::AuthFailed(Refusal::SaslUser));
            return Ok(());
        }
        let SetSaslResponse { token } = Decode::decode(&mut reader)?;
        let Some(token) = token.expose() else {
            self.end(Ended::AuthFailed(Refusal::SaslUnsupported));
            return Ok(());
        };
        match sasl.step(token) {
            Ok(Step::Answer(token)) => self.send_token(&token, read_only),
            Ok(Step::Done) => self.serve(now, read_only),
            Err(Broken::Refused(refusal)) => self.end(Ended::AuthFailed(refusal)),
            Err(Broken::Nonsense(why)) => return Err(ProtocolError::Sasl(why)),
        }
        Ok(())
    }
}
