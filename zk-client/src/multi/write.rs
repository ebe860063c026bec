//! Transactions: operations of which all or none are carried out, with typed results.
//!
//! A list of operations in any shape is flattened for the request, and the results are put back
//! into that shape. This module knows neither sessions nor owned nodes.

use std::fmt;
use std::vec::IntoIter;

use zk_proto::{
    Create2Response, CreateResponse, DecodeError, MultiRequest, MultiResponse, MultiResult, OpCode,
    SetDataResponse, Zxid,
};

use crate::driver::shared_session::Completion;
use crate::error::{Error, Failure};
use crate::handles::client::Call;
use crate::model::node::Created;
use crate::model::path::Chroot;
use crate::multi::op::{Action, Op, OpResult};
use crate::multi::shapes::shapes;

/// The argument of [`Client::multi`](crate::Client::multi): operations in any shape.
///
/// The results come back in the same shape. The operations of one list have one type; use
/// [`Op::any`] for operations of different types.
///
/// | operations | results |
/// |---|---|
/// | an [`Op<R>`](Op) | an `R` |
/// | a tuple of up to twelve | a tuple |
/// | an array | an array |
/// | a slice or a `Vec` | a `Vec` |
/// | a reference to one of them | the same |
///
/// Shapes nest: `(Op::check("/open", None), ops)` puts a check in front of a list and has the
/// results `((), Vec<_>)`.
///
/// Sealed: it cannot be implemented elsewhere.
pub trait Operations: sealed::Sealed {
    /// The results, in the shape of the operations.
    type Results: 'static;

    /// Adds the operations to the list. Returns the function that reads their results.
    #[doc(hidden)]
    fn enlist<'s>(&'s self, list: &mut Listed<'s>) -> Reader<Self::Results>;

    /// The number of operations.
    fn count(&self) -> usize {
        let mut list = Listed::default();
        drop(self.enlist(&mut list));
        list.0.len()
    }
}

/// Operations in the order in which they are sent.
#[derive(Default)]
pub struct Listed<'s>(Vec<Action<'s>>);

impl fmt::Debug for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(Action::path)).finish()
    }
}

/// Takes one result for each operation, and builds the caller's results from them.
pub(crate) type Reader<R> = Box<dyn FnOnce(&mut IntoIter<OpResult>) -> Option<R> + Send>;

mod sealed {
    /// Implemented only for the shapes of this module.
    pub trait Sealed {}
}

impl<R> sealed::Sealed for Op<'_, R> {}

impl<R: 'static> Operations for Op<'_, R> {
    type Results = R;

    fn enlist<'s>(&'s self, list: &mut Listed<'s>) -> Reader<R> {
        list.0.push(self.action());
        let read = self.reader();
        Box::new(move |results| read(results.next()?))
    }
}

shapes!(Operations, Listed, Reader);

/// The operations of a request, and the function that reads their results.
pub(crate) struct Transaction<'s, R> {
    pub(crate) actions: Vec<Action<'s>>,
    pub(crate) read: Reader<R>,
}

impl<'s, R: 'static> Transaction<'s, R> {
    pub(crate) fn new(ops: &'s impl Operations<Results = R>) -> Self {
        let mut list = Listed::default();
        let read = ops.enlist(&mut list);
        Self { actions: list.0, read }
    }
}

/// The operations of a multi by name, for its reply and its errors.
pub(crate) struct Named(Vec<(OpCode, String)>);

impl Named {
    /// The names, if all operations can be sent. `owned_too` allows operations for owned nodes.
    pub(crate) fn new(actions: &[Action<'_>], owned_too: bool) -> Result<Self, Error> {
        for (index, action) in actions.iter().enumerate() {
            action.validate(index, owned_too)?;
        }
        Ok(Self(actions.iter().map(|action| (action.op(), action.path().to_owned())).collect()))
    }

    /// The results of the operations.
    pub(crate) fn results<R>(
        &self,
        call: &Call,
        completion: Completion,
        read: Reader<R>,
    ) -> Result<R, Error> {
        let reply = completion.map_err(|failure| self.failed(call, failure))?;
        let response: MultiResponse<'_> = call.decode(&reply)?;
        if let Some((index, code)) = response.failure() {
            return Err(self.failed(call, Failure::OpRefused { index, code }));
        }
        let (operations, results) = (self.0.len(), response.iter().count());
        if results != operations {
            return Err(call.undecodable(DecodeError::MultiLength { operations, results }));
        }
        let results = self.0.iter().zip(response.iter()).map(|((op, _), result)| {
            let mismatch = DecodeError::MultiMismatch { operation: op.0, result: result.op().0 };
            result_of(*op, result, reply.zxid, &call.chroot).ok_or(mismatch)
        });
        let results = results.collect::<Result<Vec<_>, _>>();
        let results = results.map_err(|source| call.undecodable(source))?;
        // Each result has its operation's type by now, so every reader finds one.
        let missing = || call.undecodable(DecodeError::MultiLength { operations, results: 0 });
        read(&mut results.into_iter()).ok_or_else(missing)
    }

    /// The failure as an error that names the operation, or the whole request.
    pub(crate) fn failed(&self, call: &Call, failure: Failure) -> Error {
        let refused = match failure {
            Failure::OpRefused { index, .. } => self.0.get(index),
            _ => None,
        };
        match refused {
            Some((op, path)) => Error::failed(*op, path, failure).below(call.chroot.as_str()),
            None => call.failed(failure),
        }
    }
}

/// Names all operations where an error has room for one path.
impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("of nothing"),
            [(_, path)] => f.write_str(path),
            [(_, path), rest @ ..] => write!(f, "{path} and {} more", rest.len()),
        }
    }
}

/// The result of an operation in the transaction `zxid`. `None` if it is not one of that operation.
fn result_of(op: OpCode, result: MultiResult<'_>, zxid: Zxid, chroot: &Chroot) -> Option<OpResult> {
    match (op, result) {
        (
            OpCode::CREATE | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL,
            MultiResult::Create(CreateResponse { path })
            | MultiResult::Create2(Create2Response { path, .. }),
        ) => {
            let path = chroot.strip(path).to_owned();
            Some(OpResult::Created(Created { path, czxid: zxid, stat: None }))
        }
        (OpCode::DELETE, MultiResult::Delete(())) => Some(OpResult::Deleted),
        (OpCode::SET_DATA, MultiResult::SetData(SetDataResponse { stat })) => {
            Some(OpResult::DataSet(stat))
        }
        (OpCode::CHECK, MultiResult::Check(())) => Some(OpResult::Checked),
        _ => None,
    }
}

/// Builds a request from operations, below a chroot.
pub(crate) fn request<R>(
    actions: &[Action<'_>],
    chroot: &Chroot,
    send: impl FnOnce(&MultiRequest<'_>) -> R,
) -> R {
    let paths = actions.iter().map(|action| chroot.apply(action.path())).collect::<Vec<_>>();
    let lists = actions.iter().map(Action::acl).collect::<Vec<_>>();
    let entries = actions.iter().zip(&paths).zip(&lists);
    let entries = entries.map(|((action, path), acl)| action.at(path, acl)).collect::<Vec<_>>();
    send(&MultiRequest::new(&entries))
}
