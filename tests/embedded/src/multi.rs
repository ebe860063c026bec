//! Several operations as one: writes that all happen or none, and reads that each have their own
//! result.

use std::sync::Arc;

use bytes::Bytes;
use zk_proto::{
    Acl, Create2Response, CreateMode, CreateRequest, CreateResponse, ErrorCode, GetChildrenRequest,
    GetChildrenResponse, GetDataRequest, GetDataResponse, List, MultiOp, MultiRequest, MultiResult,
    OpCode, SetDataResponse, Stat,
};

use crate::access::Identities;
use crate::config::Release;
use crate::create::Created;
use crate::store::{Caller, Store};
use crate::tree::Moment;

/// How one entry of a multi went.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Answered with the path alone.
    Path(Arc<str>),
    Created(Created),
    Deleted,
    Written(Stat),
    Checked,
    Failed(ErrorCode),
}

/// How one entry of a multiRead went.
#[derive(Debug)]
pub(crate) enum Read<'s> {
    Data(Option<&'s [u8]>, Stat),
    Children(Vec<&'s str>),
    Failed(ErrorCode),
}

impl Outcome {
    pub(crate) fn wire(&self) -> MultiResult<'_> {
        match self {
            Self::Path(path) => MultiResult::Create(CreateResponse { path }),
            Self::Created(Created { path, stat }) => {
                MultiResult::Create2(Create2Response { path, stat: *stat })
            }
            Self::Deleted => MultiResult::Delete(()),
            Self::Written(stat) => MultiResult::SetData(SetDataResponse { stat: *stat }),
            Self::Checked => MultiResult::Check(()),
            Self::Failed(code) => MultiResult::Error(*code),
        }
    }
}

impl Read<'_> {
    pub(crate) fn wire(&self) -> MultiResult<'_> {
        match self {
            Self::Data(data, stat) => {
                MultiResult::GetData(GetDataResponse { data: *data, stat: *stat })
            }
            Self::Children(names) => {
                MultiResult::GetChildren(GetChildrenResponse { children: List::new(names) })
            }
            Self::Failed(code) => MultiResult::Error(*code),
        }
    }
}

impl Store {
    /// A multi: the result of each entry. If one fails, nothing was changed: those before it say
    /// `OK` and those behind it [`ErrorCode::RUNTIME_INCONSISTENCY`]. An error is one of the whole
    /// request.
    pub(crate) fn multi(
        &mut self,
        caller: Caller<'_>,
        request: MultiRequest<'_>,
        now: Moment,
    ) -> Result<Vec<Outcome>, ErrorCode> {
        let mut outcomes = Vec::new();
        let mut failed = None;
        for op in request.iter() {
            match self.multi_op(caller, op, now) {
                Ok(outcome) => outcomes.push(outcome),
                Err(code) => {
                    failed = Some((outcomes.len(), code));
                    break;
                }
            }
        }
        let Some((index, code)) = failed else {
            return Ok(outcomes);
        };
        self.roll_back();
        if code == ErrorCode::MARSHALLING_ERROR {
            return Err(code);
        }
        let outcome = |at: usize| match at.cmp(&index) {
            std::cmp::Ordering::Less => ErrorCode::OK,
            std::cmp::Ordering::Equal => code,
            std::cmp::Ordering::Greater => ErrorCode::RUNTIME_INCONSISTENCY,
        };
        let entries = request.iter().enumerate();
        Ok(entries.map(|(at, _)| Outcome::Failed(outcome(at))).collect())
    }

    fn multi_op(
        &mut self,
        caller: Caller<'_>,
        op: MultiOp<'_>,
        now: Moment,
    ) -> Result<Outcome, ErrorCode> {
        match op {
            MultiOp::Create(request) => self.multi_create(caller, OpCode::CREATE, request, now),
            MultiOp::Create2(request) => self.multi_create(caller, OpCode::CREATE2, request, now),
            MultiOp::CreateContainer(request) => {
                self.multi_create(caller, OpCode::CREATE_CONTAINER, request, now)
            }
            MultiOp::CreateTtl(request) => match request.mode {
                CreateMode::PERSISTENT_WITH_TTL | CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL => {
                    self.create_ttl(caller, request, now).map(Outcome::Created)
                }
                mode => {
                    let (path, data, acl) = (request.path, request.data, request.acl);
                    let request = CreateRequest { path, data, acl, mode };
                    self.multi_create(caller, OpCode::CREATE, request, now)
                }
            },
            MultiOp::Delete(request) => {
                self.delete(caller, request, now).map(|()| Outcome::Deleted)
            }
            MultiOp::SetData(request) => self.set_data(caller, request, now).map(Outcome::Written),
            MultiOp::Check(request) => self.check(caller, request).map(|()| Outcome::Checked),
            _ => Err(ErrorCode::MARSHALLING_ERROR),
        }
    }

    /// A create inside of a multi, where the mode makes a container.
    fn multi_create(
        &mut self,
        caller: Caller<'_>,
        op: OpCode,
        request: CreateRequest<'_>,
        now: Moment,
    ) -> Result<Outcome, ErrorCode> {
        let op = match (request.mode, self.release) {
            (CreateMode::CONTAINER, _) => OpCode::CREATE_CONTAINER,
            // Java trips over what it does not expect here.
            (CreateMode::PERSISTENT_WITH_TTL | CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL, _) => {
                return Err(ErrorCode::MARSHALLING_ERROR);
            }
            // Which of the operations it was is forgotten before 3.8.2 (ZOOKEEPER-3905).
            (_, Release::V3_8) => OpCode::CREATE,
            (_, Release::V3_9) => op,
        };
        let created = self.create(caller, op, request, now)?;
        Ok(if op == OpCode::CREATE {
            Outcome::Path(created.path)
        } else {
            Outcome::Created(created)
        })
    }

    /// One entry of a multiRead; `None` if it is no read.
    pub(crate) fn multi_read(&self, op: MultiOp<'_>, identities: &Identities) -> Option<Read<'_>> {
        let read = match op {
            MultiOp::GetData(GetDataRequest { path, .. }) => self
                .readable(path, Acl::READ, identities)
                .map(|node| Read::Data(node.data.as_ref().map(Bytes::as_ref), node.stat())),
            MultiOp::GetChildren(GetChildrenRequest { path, .. }) => self
                .readable(path, Acl::READ, identities)
                .map(|node| Read::Children(node.children.iter().map(|name| &**name).collect())),
            _ => return None,
        };
        Some(read.unwrap_or_else(Read::Failed))
    }
}

/// True if an entry may be in a multi. Since 3.9 a mode that does not exist spoils the whole
/// request.
pub(crate) fn is_write(op: MultiOp<'_>, release: Release) -> bool {
    match op {
        MultiOp::Create(CreateRequest { mode, .. })
        | MultiOp::Create2(CreateRequest { mode, .. })
        | MultiOp::CreateContainer(CreateRequest { mode, .. })
            if release == Release::V3_9 =>
        {
            (CreateMode::PERSISTENT..=CreateMode::CONTAINER).contains(&mode)
        }
        _ => !op.is_read(),
    }
}
