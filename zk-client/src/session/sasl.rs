//! SASL on a connection: after the handshake, and before anything else.
//!
//! Servers would accept other requests in between, but without an identity, and servers that insist
//! on SASL hang up on them. So all queued requests wait, and no ping is sent. The deadline of the
//! attempt still applies.

use std::time::Instant;

use tracing::debug;
use zk_proto::{
    Decode, Encode, ErrorCode, GetSaslRequest, Operation, Reader, ReplyHeader, RequestHeader,
    Secret, SetSaslResponse, Xid,
};

use crate::auth::failure::AuthFailure;
use crate::auth::sasl::{Sasl, SaslError, SaslStart, SaslStep};
use crate::error::{Ended, Hangup, ProtocolError};
use crate::session::state::{Phase, Session};
use crate::trace;

impl<T, W, S: Clone> Session<T, W, S> {
    /// The mechanism of SASL that every connection needs, if any.
    pub fn sasl(&self) -> Option<&Sasl> {
        self.config.sasl.as_ref()
    }

    /// Sets the SASL exchange of the next connection, as the [mechanism](Self::sasl) started it.
    ///
    /// If the session has a mechanism, call this before each
    /// [`handle_connected`](Self::handle_connected), which otherwise hangs up.
    pub fn begin_sasl(&mut self, start: SaslStart) {
        self.exchange = Some(start);
    }

    /// Begins to serve, after SASL if an exchange was begun.
    pub(super) fn authenticate(&mut self, now: Instant, read_only: bool) {
        match self.exchange.as_mut().map(|start| std::mem::take(&mut start.token)) {
            None => self.serve(now, read_only),
            Some(token) => self.send_token(&token, read_only),
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
        // Behind an error there is a null token.
        if header.error != ErrorCode::OK {
            self.end(Ended::AuthFailed(AuthFailure::SaslUser));
            return Ok(());
        }
        let SetSaslResponse { token } = Decode::decode(&mut reader)?;
        let Some(SaslStart { exchange, .. }) = &mut self.exchange else {
            // The client's last token was accepted. Real servers send a null token then.
            return match token.expose() {
                None | Some([]) => {
                    self.serve(now, read_only);
                    Ok(())
                }
                Some(_) => Err(ProtocolError::Sasl("a token follows the client's last one")),
            };
        };
        let Some(token) = token.expose() else {
            self.end(Ended::AuthFailed(AuthFailure::SaslUnsupported));
            return Ok(());
        };
        match exchange.step(token) {
            Ok(SaslStep::Answer(token)) => self.send_token(&token, read_only),
            Ok(SaslStep::Last(token)) => {
                self.exchange = None;
                self.send_token(&token, read_only);
            }
            Ok(SaslStep::Done) => {
                self.exchange = None;
                self.serve(now, read_only);
            }
            Err(SaslError::Server) => self.end(Ended::AuthFailed(AuthFailure::SaslServer)),
            Err(SaslError::Malformed(why)) => return Err(ProtocolError::Sasl(why)),
            Err(error @ (SaslError::Credential(_) | SaslError::Unavailable(_))) => {
                debug!(target: trace::CONNECTION, why = %error, "SASL failed");
                self.hang_up(Hangup::Sasl);
            }
        }
        Ok(())
    }
}
