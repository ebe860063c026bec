//! The current request, and the ways to answer it.

use std::time::Duration;

use zk_proto::{Decode, Encode, ErrorCode, OpCode, Reader, ReplyHeader, SessionId, Xid, Zxid};

use crate::connection::ConnectionId;
use crate::state::State;
use crate::store::{Caller, Store};

/// A request: its caller, its operation and its time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) now: Duration,
    pub(crate) connection: ConnectionId,
    pub(crate) session: SessionId,
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
}

impl State {
    /// Answers with an error. If the request was a write, the last zxid is its own.
    pub(crate) fn fail(&mut self, asked: Asked, code: ErrorCode) {
        let zxid = self.store.last_zxid();
        self.answer(asked, asked.xid, zxid, code, &());
    }

    pub(crate) fn answer(
        &mut self,
        to: Asked,
        xid: Xid,
        zxid: Zxid,
        error: ErrorCode,
        body: &impl Encode,
    ) {
        self.connections.reply(to.connection, ReplyHeader { xid, zxid, error }, body);
    }

    /// The header of a successful reply.
    pub(crate) fn header(&self, asked: Asked) -> ReplyHeader {
        ReplyHeader { xid: asked.xid, zxid: self.store.last_zxid(), error: ErrorCode::OK }
    }

    pub(crate) fn ok(&mut self, asked: Asked, body: &impl Encode) -> Result<(), ErrorCode> {
        let header = self.header(asked);
        self.connections.reply(asked.connection, header, body);
        Ok(())
    }

    /// The caller, with the store beside it, so that both can be used at once.
    pub(crate) fn caller(&mut self, asked: Asked) -> Result<(Caller<'_>, &mut Store), ErrorCode> {
        let connection = self.connections.get(asked.connection);
        let identities = &connection.ok_or(ErrorCode::SESSION_EXPIRED)?.identities;
        Ok((Caller { session: asked.session, identities }, &mut self.store))
    }
}

/// Decodes a record of a request that changes nothing.
pub(crate) fn read<'f, R: Decode<'f>>(reader: &mut Reader<'f>) -> Result<R, ErrorCode> {
    R::decode(reader).map_err(|_| ErrorCode::MARSHALLING_ERROR)
}
