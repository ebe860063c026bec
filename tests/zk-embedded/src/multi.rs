//! Several operations in one request: writes that all happen or none, and reads that each have
//! their own result.

use std::sync::Arc;

use zk_proto::{
    Acl, Create2Response, CreateMode, CreateRequest, CreateResponse, ErrorCode, GetChildrenRequest,
    GetChildrenResponse, GetDataRequest, GetDataResponse, List, MultiOp, MultiRequest, MultiResult,
    OpCode, SetDataResponse, Stat,
};

use crate::access::Identities;
use crate::config::ServerVersion;
use crate::create::Created;
use crate::node::Stamp;
use crate::store::{Caller, NULL_PATH, Store};

/// The result of one entry of a multi.
#[derive(Debug)]
pub(crate) enum EntryResult {
    /// The reply has only the path.
    Path(Arc<str>),
    Created(Created),
    Deleted,
    Written(Stat),
    Checked,
    Failed(ErrorCode),
}

/// The result of one entry of a multiRead.
#[derive(Debug)]
pub(crate) enum Read<'s> {
    Data(Option<&'s [u8]>, Stat),
    Children(Vec<&'s str>),
    Failed(ErrorCode),
}

impl EntryResult {
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
    /// Carries out a multi, and returns the result of each entry. If an entry fails, nothing was
    /// changed: the entries before it return `OK`, and those behind it
    /// [`ErrorCode::RUNTIME_INCONSISTENCY`]. An error of this function is one of the whole request.
    pub(crate) fn multi(
        &mut self,
        caller: Caller<'_>,
        request: MultiRequest<'_>,
        now: Stamp,
    ) -> Result<Vec<EntryResult>, ErrorCode> {
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
        Ok(entries.map(|(at, _)| EntryResult::Failed(outcome(at))).collect())
    }

    fn multi_op(
        &mut self,
        caller: Caller<'_>,
        op: MultiOp<'_>,
        now: Stamp,
    ) -> Result<EntryResult, ErrorCode> {
        match op {
            MultiOp::Create(request) => self.multi_create(caller, OpCode::CREATE, request, now),
            MultiOp::Create2(request) => self.multi_create(caller, OpCode::CREATE2, request, now),
            MultiOp::CreateContainer(request) => {
                self.multi_create(caller, OpCode::CREATE_CONTAINER, request, now)
            }
            MultiOp::CreateTtl(request) => match request.mode {
                CreateMode::PERSISTENT_WITH_TTL | CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL => {
                    self.create_ttl(caller, request, now).map(EntryResult::Created)
                }
                mode => {
                    let (path, data, acl) = (request.path, request.data, request.acl);
                    let request = CreateRequest { path, data, acl, mode };
                    self.multi_create(caller, OpCode::CREATE, request, now)
                }
            },
            MultiOp::Delete(request) => {
                self.delete(caller, request, now).map(|()| EntryResult::Deleted)
            }
            MultiOp::SetData(request) => {
                self.set_data(caller, request, now).map(EntryResult::Written)
            }
            MultiOp::Check(request) => self.check(caller, request).map(|()| EntryResult::Checked),
            _ => Err(ErrorCode::MARSHALLING_ERROR),
        }
    }

    /// A create inside a multi, where the mode can make a container.
    fn multi_create(
        &mut self,
        caller: Caller<'_>,
        op: OpCode,
        request: CreateRequest<'_>,
        now: Stamp,
    ) -> Result<EntryResult, ErrorCode> {
        let op = match (request.mode, self.server_version) {
            (CreateMode::CONTAINER, _) => OpCode::CREATE_CONTAINER,
            // Java fails on modes that it does not expect here.
            (CreateMode::PERSISTENT_WITH_TTL | CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL, _) => {
                return Err(ErrorCode::MARSHALLING_ERROR);
            }
            // Before 3.8.2 a server forgets which of the operations it was (ZOOKEEPER-3905).
            (_, ServerVersion::V3_8) => OpCode::CREATE,
            (_, ServerVersion::V3_9) => op,
        };
        let created = self.create(caller, op, request, now)?;
        Ok(if op == OpCode::CREATE {
            EntryResult::Path(created.path)
        } else {
            EntryResult::Created(created)
        })
    }

    /// One entry of a multiRead; `None` if its path is null.
    pub(crate) fn multi_read(&self, op: MultiOp<'_>, identities: &Identities) -> Option<Read<'_>> {
        if op.path() == NULL_PATH {
            return None;
        }
        let read = match op {
            MultiOp::GetData(GetDataRequest { path, .. }) => self
                .readable(path, Acl::READ, identities)
                .map(|node| Read::Data(node.data.as_deref(), node.stat())),
            MultiOp::GetChildren(GetChildrenRequest { path, .. }) => self
                .readable(path, Acl::READ, identities)
                .map(|_| Read::Children(self.tree.listed(path))),
            _ => return None,
        };
        Some(read.unwrap_or_else(Read::Failed))
    }
}

/// What all entries of a request are, and whether any has a null path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Survey {
    pub(crate) all_reads: bool,
    pub(crate) all_writes: bool,
    pub(crate) any_null_path: bool,
}

impl Survey {
    /// Looks at each entry once.
    pub(crate) fn of(request: MultiRequest<'_>, server_version: ServerVersion) -> Self {
        let mut seen = Self { all_reads: true, all_writes: true, any_null_path: false };
        for op in request.iter() {
            seen.all_reads &= op.is_read();
            seen.all_writes &= is_write(op, server_version);
            seen.any_null_path |= op.path() == NULL_PATH;
        }
        seen
    }
}

/// True if an entry may be in a multi. Since 3.9 a mode that does not exist makes the whole request
/// invalid.
fn is_write(op: MultiOp<'_>, server_version: ServerVersion) -> bool {
    match op {
        MultiOp::Create(CreateRequest { mode, .. })
        | MultiOp::Create2(CreateRequest { mode, .. })
        | MultiOp::CreateContainer(CreateRequest { mode, .. })
            if server_version == ServerVersion::V3_9 =>
        {
            (CreateMode::PERSISTENT..=CreateMode::CONTAINER).contains(&mode)
        }
        _ => !op.is_read(),
    }
}
