//! All forms of create.

use std::sync::Arc;

use zk_proto::{Acl, CreateMode, CreateRequest, CreateTtlRequest, ErrorCode, List, OpCode, Stat};

use crate::history::Change;
use crate::node::{Kind, Stamp};
use crate::store::{Caller, NULL_PATH, Store, valid};
use crate::tree::parent_of;

/// The longest time to live, in milliseconds: the bits that are left in the 64 bits of a session
/// id.
const MAX_TTL: i64 = 0xff_ffff_ffff;

/// A node that was created.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) path: Arc<str>,
    pub(crate) stat: Stat,
}

impl Store {
    /// create, create2 or createContainer, as `op` says.
    pub(crate) fn create(
        &mut self,
        caller: Caller<'_>,
        op: OpCode,
        request: CreateRequest<'_>,
        now: Stamp,
    ) -> Result<Created, ErrorCode> {
        let CreateRequest { path, data, acl, mode } = request;
        let kind = match mode {
            CreateMode::PERSISTENT | CreateMode::PERSISTENT_SEQUENTIAL => Kind::Persistent,
            CreateMode::EPHEMERAL | CreateMode::EPHEMERAL_SEQUENTIAL => {
                Kind::Ephemeral(caller.session)
            }
            // Here real servers accept the mode and ignore its meaning.
            CreateMode::CONTAINER => Kind::Persistent,
            CreateMode::PERSISTENT_WITH_TTL | CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL => {
                return Err(self.without_ttl());
            }
            _ => return Err(ErrorCode::BAD_ARGUMENTS),
        };
        let kind = if op == OpCode::CREATE_CONTAINER { Kind::Container } else { kind };
        self.add(caller, New { path, data, acl, kind, sequential: mode.is_sequential() }, now)
    }

    pub(crate) fn create_ttl(
        &mut self,
        caller: Caller<'_>,
        request: CreateTtlRequest<'_>,
        now: Stamp,
    ) -> Result<Created, ErrorCode> {
        let CreateTtlRequest { path, data, acl, mode, ttl } = request;
        let has_ttl = matches!(
            mode,
            CreateMode::PERSISTENT_WITH_TTL | CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL
        );
        if has_ttl && !self.extended_types {
            return Err(ErrorCode::UNIMPLEMENTED);
        }
        if !has_ttl || !(1..=MAX_TTL).contains(&ttl) {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let kind = Kind::Ttl(ttl);
        self.add(caller, New { path, data, acl, kind, sequential: mode.is_sequential() }, now)
    }

    /// The error for a mode with a time to live in a request that has none.
    fn without_ttl(&self) -> ErrorCode {
        if self.extended_types { ErrorCode::BAD_ARGUMENTS } else { ErrorCode::UNIMPLEMENTED }
    }

    fn add(&mut self, caller: Caller<'_>, new: New<'_>, now: Stamp) -> Result<Created, ErrorCode> {
        let New { path, data, acl, kind, sequential } = new;
        if path == NULL_PATH {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        if !path.contains('/') || path.contains('\0') {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let acl = caller.identities.access_list(acl)?;
        let parent_path = parent_of(path);
        let parent = self.readable(parent_path, Acl::CREATE, caller.identities)?;
        let number = self.tree.next_number(parent_path).ok_or(ErrorCode::NO_NODE)?;
        let path: Arc<str> = match sequential {
            // Ten characters, including the sign.
            true => format!("{path}{number:010}").into(),
            false => path.into(),
        };
        valid(&path)?;
        if self.tree.get(&path).is_some() {
            return Err(ErrorCode::NODE_EXISTS);
        }
        if matches!(parent.kind, Kind::Ephemeral(_)) {
            return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        }
        self.tree.create(&path, data.map(Box::from), acl, kind, now);
        self.tell(Change::Created, &path);
        let stat = self.tree.node(&path)?.stat();
        Ok(Created { path, stat })
    }
}

/// A node to create.
struct New<'a> {
    path: &'a str,
    data: Option<&'a [u8]>,
    acl: List<'a, Acl<'a>>,
    kind: Kind,
    sequential: bool,
}
