//! One operation of a transaction, and its result.
//!
//! Creates are sent under the original opcode, whose reply holds only the path. The reply to a
//! create2 inside a multi depends on the server's version (ZOOKEEPER-4026), so none is sent, and
//! the result has no state of the new node. This module knows neither sessions nor owned nodes.

use std::fmt;

use zk_proto::{
    CheckVersionRequest, CreateMode, CreateRequest, CreateTtlRequest, DeleteRequest, List, MultiOp,
    OpCode, SetDataRequest, Stat,
};

use crate::error::{Cause, Error};
use crate::model::node::{CreateOptions, Created};
use crate::model::path;

/// The number of digits that a server appends to a sequential name.
const DIGITS: usize = 10;

/// One operation of a [`multi`](crate::Client::multi), with a result of type `R`.
///
/// Operations with different results go into one list by [`any`](Self::any). Each operation sees
/// what those before it have done: a child can follow its parent.
pub struct Op<'a, R = OpResult> {
    action: Action<'a>,
    result: fn(OpResult) -> Option<R>,
}

impl<'a> Op<'a, Created> {
    /// Creates a node, as [`Client::create`](crate::Client::create) does.
    ///
    /// All nodes of one multi have the same [`czxid`](Created::czxid). [`Created::stat`] is `None`,
    /// because servers before 3.7.2, 3.8.2 and 3.9.0 do not send it (ZOOKEEPER-4026).
    pub const fn create(path: &'a str, data: &'a [u8], options: &CreateOptions<'a>) -> Self {
        Self::creating(Action::Create { path, data, options: *options, owned: false })
    }

    /// Creates an ephemeral node as [`Client::create_owned`](crate::Client::create_owned) does.
    ///
    /// It is for [`multi_owned`](crate::Client::multi_owned). The path must be unique for ever up
    /// to its ten digits. For a sequential create the server appends ten digits; for any other,
    /// `path` must already end in ten digits.
    pub const fn create_owned(path: &'a str, data: &'a [u8], options: &CreateOptions<'a>) -> Self {
        Self::creating(Action::Create { path, data, options: *options, owned: true })
    }

    const fn creating(action: Action<'a>) -> Self {
        let result = |result| match result {
            OpResult::Created(created) => Some(created),
            _ => None,
        };
        Self { action, result }
    }
}

impl<'a> Op<'a, Stat> {
    /// Replaces a node's data. The result is the node's new state.
    ///
    /// The data is replaced if the node is at `version`, or always if that is `None`.
    pub const fn set_data(path: &'a str, data: &'a [u8], version: Option<i32>) -> Self {
        let result = |result| match result {
            OpResult::DataSet(stat) => Some(stat),
            _ => None,
        };
        Self { action: Action::SetData { path, data, version }, result }
    }
}

impl<'a> Op<'a, ()> {
    /// Deletes a node that has no children, if it is at `version`, or always if that is `None`.
    pub const fn delete(path: &'a str, version: Option<i32>) -> Self {
        let result = |result| matches!(result, OpResult::Deleted).then_some(());
        Self { action: Action::Delete { path, version }, result }
    }

    /// Fails the multi unless the node exists and is at `version`. Changes nothing.
    ///
    /// With `None`, any version passes. This needs the permission to read the node.
    pub const fn check(path: &'a str, version: Option<i32>) -> Self {
        let result = |result| matches!(result, OpResult::Checked).then_some(());
        Self { action: Action::Check { path, version }, result }
    }
}

impl<'a, R> Op<'a, R> {
    /// The same operation with a result that names its kind.
    ///
    /// So operations of different kinds go into one list.
    pub const fn any(self) -> Op<'a> {
        Op { action: self.action, result: Some }
    }

    pub(crate) const fn action(&self) -> Action<'a> {
        self.action
    }

    /// The function that reads the result.
    pub(crate) const fn reader(&self) -> fn(OpResult) -> Option<R> {
        self.result
    }
}

impl<R> Clone for Op<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Op<'_, R> {}

/// Does not show the data.
impl<R> fmt::Debug for Op<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owned = if self.action.is_owned() { " owned" } else { "" };
        write!(f, "Op({}{owned} {:?})", self.action.op(), self.action.path())
    }
}

/// The result of [any](Op::any) operation of a [`multi`](crate::Client::multi).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpResult {
    /// The node was created.
    Created(Created),
    /// The node was deleted.
    Deleted,
    /// The node's data was replaced. This is its state after the write.
    DataSet(Stat),
    /// The check passed.
    Checked,
}

/// The action of an operation, without the type of its result.
#[derive(Clone, Copy)]
pub(crate) enum Action<'a> {
    Create { path: &'a str, data: &'a [u8], options: CreateOptions<'a>, owned: bool },
    Delete { path: &'a str, version: Option<i32> },
    SetData { path: &'a str, data: &'a [u8], version: Option<i32> },
    Check { path: &'a str, version: Option<i32> },
}

impl<'a> Action<'a> {
    pub(crate) const fn is_owned(&self) -> bool {
        matches!(self, Self::Create { owned: true, .. })
    }

    /// The path, as the caller wrote it.
    pub(crate) const fn path(&self) -> &'a str {
        match self {
            Self::Create { path, .. }
            | Self::Delete { path, .. }
            | Self::SetData { path, .. }
            | Self::Check { path, .. } => path,
        }
    }

    pub(crate) const fn op(&self) -> OpCode {
        match self {
            Self::Create { options, .. } => options.op_in_multi(),
            Self::Delete { .. } => OpCode::DELETE,
            Self::SetData { .. } => OpCode::SET_DATA,
            Self::Check { .. } => OpCode::CHECK,
        }
    }

    /// The unique part of `path`, which is the full path of this operation.
    pub(crate) fn stem<'p>(&self, path: &'p str) -> &'p str {
        match self {
            Self::Create { options, owned: true, .. } if !options.is_sequential() => {
                split_digits(path).unwrap_or(path)
            }
            _ => path,
        }
    }

    /// The access list of the operation.
    pub(crate) fn acl(&self) -> Vec<zk_proto::Acl<'a>> {
        match self {
            Self::Create { options, .. } => options.acl.iter().map(Into::into).collect(),
            _ => Vec::new(),
        }
    }

    /// The same operation at its full path.
    pub(crate) fn at<'p>(&self, path: &'p str, acl: &'p [zk_proto::Acl<'p>]) -> MultiOp<'p>
    where
        'a: 'p,
    {
        match *self {
            Self::Create { data, options, .. } => {
                let (data, acl, mode) = (Some(data), List::new(acl), options.mode());
                if let Some(ttl) = options.ttl_millis() {
                    return MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, mode, ttl });
                }
                let request = CreateRequest { path, data, acl, mode };
                match mode {
                    CreateMode::CONTAINER => MultiOp::CreateContainer(request),
                    _ => MultiOp::Create(request),
                }
            }
            Self::Delete { version, .. } => {
                let version = version.unwrap_or(Stat::ANY_VERSION);
                MultiOp::Delete(DeleteRequest { path, version })
            }
            Self::SetData { data, version, .. } => {
                let version = version.unwrap_or(Stat::ANY_VERSION);
                MultiOp::SetData(SetDataRequest { path, data: Some(data), version })
            }
            Self::Check { version, .. } => {
                let version = version.unwrap_or(Stat::ANY_VERSION);
                MultiOp::Check(CheckVersionRequest { path, version })
            }
        }
    }

    /// Refuses an operation that no server would accept, or whose node could not be found again.
    pub(crate) fn validate(&self, index: usize, owned_too: bool) -> Result<(), Error> {
        let (op, path) = (self.op(), self.path());
        let invalid =
            |rule| Err(Cause::InvalidOp { index, op, path: path.to_owned(), rule }.into());
        let Self::Create { options, owned, .. } = self else {
            return path::check(path);
        };
        match options.check() {
            _ if *owned && !owned_too => invalid("owned nodes are created by multi_owned"),
            _ if *owned && !options.is_ephemeral() => invalid("an owned node is ephemeral"),
            _ if *owned && !options.is_sequential() && split_digits(path).is_none() => {
                invalid("the path of an owned node ends in ten digits")
            }
            Err(rule) => invalid(rule),
            Ok(()) if options.is_sequential() && !owned => path::check_sequential(path),
            Ok(()) => path::check(path),
        }
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
