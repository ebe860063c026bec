//! Transactions: operations that all happen or none, and what came of each.
//!
//! Creates go out under the original opcode, which is answered with the path alone. What a create2
//! inside a multi answers depends on the server (ZOOKEEPER-4026), so it is never asked, and no
//! state of a new node is told. Knows neither sessions nor claims.

use std::fmt;

use zk_proto::{
    CheckVersionRequest, Create2Response, CreateMode, CreateRequest, CreateResponse, DecodeError,
    DeleteRequest, List, MultiOp, MultiRequest, MultiResponse, MultiResult, OpCode, SetDataRequest,
    SetDataResponse, Stat,
};

use crate::acl::Acl;
use crate::error::{Error, Failure, Fault};
use crate::link::Completion;
use crate::node::CreateOptions;
use crate::path::{self, Chroot};
use crate::reply::Call;

/// Any version will do.
const ANY_VERSION: i32 = -1;

/// What a server appends to a sequential name.
const DIGITS: usize = 10;

/// One operation of a [`multi`](crate::Client::multi).
///
/// Each sees what those before it have done: a child can follow its parent.
#[derive(Clone, Copy)]
pub struct Op<'a>(Action<'a>);

#[derive(Clone, Copy)]
enum Action<'a> {
    Create { path: &'a str, data: &'a [u8], options: CreateOptions<'a>, owned: bool },
    Delete { path: &'a str, version: Option<i32> },
    SetData { path: &'a str, data: &'a [u8], version: Option<i32> },
    Check { path: &'a str, version: Option<i32> },
}

impl<'a> Op<'a> {
    /// Creates a node, as [`Client::create`](crate::Client::create) does.
    pub const fn create(path: &'a str, data: &'a [u8], options: &CreateOptions<'a>) -> Self {
        Self(Action::Create { path, data, options: *options, owned: false })
    }

    /// Creates an ephemeral sequential node that the client must not forget, as
    /// [`Client::create_owned`](crate::Client::create_owned) does. For
    /// [`multi_owned`](crate::Client::multi_owned).
    ///
    /// `stem` is the path up to the digits, and must be unique for ever.
    pub const fn create_owned(stem: &'a str, data: &'a [u8], acl: &'a [Acl]) -> Self {
        let options = CreateOptions::ephemeral().sequential().with_acl(acl);
        Self(Action::Create { path: stem, data, options, owned: true })
    }

    /// The same for a node with this very path. For [`multi_owned`](crate::Client::multi_owned).
    ///
    /// The path must end in ten digits, as if a server had appended them, and be unique for ever
    /// up to them.
    pub const fn create_owned_at(path: &'a str, data: &'a [u8], acl: &'a [Acl]) -> Self {
        let options = CreateOptions::ephemeral().with_acl(acl);
        Self(Action::Create { path, data, options, owned: true })
    }

    /// Deletes a node that has no children, if it is at `version` or that is `None`.
    pub const fn delete(path: &'a str, version: Option<i32>) -> Self {
        Self(Action::Delete { path, version })
    }

    /// Replaces a node's data, if it is at `version` or that is `None`.
    pub const fn set_data(path: &'a str, data: &'a [u8], version: Option<i32>) -> Self {
        Self(Action::SetData { path, data, version })
    }

    /// Changes nothing, and fails the multi unless the node exists and is at `version` or that is
    /// `None`. It takes the permission to read the node.
    pub const fn check(path: &'a str, version: Option<i32>) -> Self {
        Self(Action::Check { path, version })
    }

    pub(crate) const fn is_owned(&self) -> bool {
        matches!(self.0, Action::Create { owned: true, .. })
    }

    /// As the caller wrote it.
    pub(crate) const fn path(&self) -> &'a str {
        match self.0 {
            Action::Create { path, .. }
            | Action::Delete { path, .. }
            | Action::SetData { path, .. }
            | Action::Check { path, .. } => path,
        }
    }

    fn op(&self) -> OpCode {
        match self.0 {
            Action::Create { options, .. } => options.op_in_multi(),
            Action::Delete { .. } => OpCode::DELETE,
            Action::SetData { .. } => OpCode::SET_DATA,
            Action::Check { .. } => OpCode::CHECK,
        }
    }

    /// The part of `path`, which is this operation's under a chroot, that nobody else uses.
    pub(crate) fn stem<'p>(&self, path: &'p str) -> &'p str {
        match self.0 {
            Action::Create { options, owned: true, .. } if !options.is_sequential() => {
                split_digits(path).unwrap_or(path)
            }
            _ => path,
        }
    }

    /// The access list that goes with it.
    fn acl(&self) -> Vec<zk_proto::Acl<'a>> {
        match self.0 {
            Action::Create { options, .. } => options.acl.iter().map(Into::into).collect(),
            _ => Vec::new(),
        }
    }

    /// The same operation at the server's path.
    fn at<'p>(&self, path: &'p str, acl: &'p [zk_proto::Acl<'p>]) -> MultiOp<'p>
    where
        'a: 'p,
    {
        match self.0 {
            Action::Create { data, options, .. } => {
                let (data, acl, mode) = (Some(data), List::new(acl), options.mode);
                let request = CreateRequest { path, data, acl, mode };
                match mode {
                    CreateMode::CONTAINER => MultiOp::CreateContainer(request),
                    _ => MultiOp::Create(request),
                }
            }
            Action::Delete { version, .. } => {
                MultiOp::Delete(DeleteRequest { path, version: wanted(version) })
            }
            Action::SetData { data, version, .. } => {
                let version = wanted(version);
                MultiOp::SetData(SetDataRequest { path, data: Some(data), version })
            }
            Action::Check { version, .. } => {
                MultiOp::Check(CheckVersionRequest { path, version: wanted(version) })
            }
        }
    }

    /// Refuses what no server would take, or what nobody could look for.
    fn validate(&self, index: usize, owned_too: bool) -> Result<(), Error> {
        let path = self.path();
        let invalid = |rule| {
            Err(Fault::InvalidOp { index, op: self.op(), path: path.to_owned(), rule }.into())
        };
        match self.0 {
            Action::Create { owned: true, .. } if !owned_too => {
                invalid("owned nodes are created by multi_owned")
            }
            Action::Create { options, owned: true, .. }
                if !options.is_sequential() && split_digits(path).is_none() =>
            {
                invalid("the path of an owned node ends in ten digits")
            }
            Action::Create { options, owned: false, .. } if options.is_sequential() => {
                path::check_sequential(path)
            }
            _ => path::check(path),
        }
    }
}

/// Shows no data.
impl fmt::Debug for Op<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owned = if self.is_owned() { " owned" } else { "" };
        write!(f, "Op({}{owned} {:?})", self.op(), self.path())
    }
}

/// What came of one operation of a [`multi`](crate::Client::multi).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpResult {
    /// The node was created. Its `czxid` is that of all nodes of this multi; more is not told,
    /// since servers before 3.7.2, 3.8.2 and 3.9.0 do not tell it.
    #[non_exhaustive]
    Created {
        /// Its path, with the digits of a sequential one.
        path: String,
    },
    /// The node is deleted.
    Deleted,
    /// The node's state behind the write.
    DataSet(Stat),
    /// The node is as expected.
    Checked,
}

/// The operations of a multi by name, for its answer and its errors.
pub(crate) struct Named(Vec<(OpCode, String)>);

impl Named {
    /// The operations, if all of them can be sent; owned ones only for those who can own.
    pub(crate) fn new(ops: &[Op<'_>], owned_too: bool) -> Result<Self, Error> {
        for (index, op) in ops.iter().enumerate() {
            op.validate(index, owned_too)?;
        }
        Ok(Self(ops.iter().map(|op| (op.op(), op.path().to_owned())).collect()))
    }

    /// What each operation came to.
    pub(crate) fn results(
        &self,
        call: &Call,
        completion: Completion,
    ) -> Result<Vec<OpResult>, Error> {
        let answer = completion.map_err(|failure| self.failed(call, failure))?;
        let response: MultiResponse<'_> = call.decode(&answer)?;
        if let Some((index, code)) = response.failure() {
            return Err(self.failed(call, Failure::OpRefused { index, code }));
        }
        let results = response.iter().map(|result| match result {
            MultiResult::Create(CreateResponse { path })
            | MultiResult::Create2(Create2Response { path, .. }) => {
                Ok(OpResult::Created { path: call.chroot.strip(path).to_owned() })
            }
            MultiResult::Delete(()) => Ok(OpResult::Deleted),
            MultiResult::SetData(SetDataResponse { stat }) => Ok(OpResult::DataSet(stat)),
            MultiResult::Check(()) => Ok(OpResult::Checked),
            other => Err(DecodeError::UnknownMultiEntry(other.op().0)),
        });
        let results = results.collect::<Result<Vec<_>, _>>();
        let results = results.map_err(|source| call.undecodable(source))?;
        if results.len() != self.0.len() {
            let (operations, results) = (self.0.len(), results.len());
            return Err(call.undecodable(DecodeError::MultiLength { operations, results }));
        }
        Ok(results)
    }

    /// The failure as an error that names the operation, or the whole request.
    pub(crate) fn failed(&self, call: &Call, failure: Failure) -> Error {
        let refused = match failure {
            Failure::OpRefused { index, .. } => self.0.get(index),
            _ => None,
        };
        match refused {
            Some((op, path)) => Error::failed(*op, path, failure),
            None => call.failed(failure),
        }
    }
}

/// Stands for all of them where an error has room for one path.
impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("of nothing"),
            [(_, path)] => f.write_str(path),
            [(_, path), rest @ ..] => write!(f, "{path} and {} more", rest.len()),
        }
    }
}

/// Makes a request of operations, below a chroot.
pub(crate) fn request<R>(
    ops: &[Op<'_>],
    chroot: &Chroot,
    send: impl FnOnce(&MultiRequest<'_>) -> R,
) -> R {
    let paths = ops.iter().map(|op| chroot.apply(op.path())).collect::<Vec<_>>();
    let lists = ops.iter().map(Op::acl).collect::<Vec<_>>();
    let entries = ops.iter().zip(&paths).zip(&lists).map(|((op, path), acl)| op.at(path, acl));
    let entries = entries.collect::<Vec<_>>();
    send(&MultiRequest::new(&entries))
}

const fn wanted(version: Option<i32>) -> i32 {
    match version {
        Some(version) => version,
        None => ANY_VERSION,
    }
}

/// What stands before the ten digits of a sequential name.
fn split_digits(path: &str) -> Option<&str> {
    let (stem, digits) = path.split_at_checked(path.len().checked_sub(DIGITS)?)?;
    let is_sequence = digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_sequence && digits.parse::<i32>().is_ok()).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_digits_are_what_a_server_appends() {
        assert_eq!(split_digits("/a/x-0000000003"), Some("/a/x-"));
        assert_eq!(split_digits("/a/x-2147483647"), Some("/a/x-"));
        for path in ["/a/x-2147483648", "/a/x-000000003", "/a/x-+000000003", "/a", "/a/ééééé!"]
        {
            assert_eq!(split_digits(path), None, "{path}");
        }
    }
}
