//! Transactions: operations that all happen or none, and results of the operations' own types.
//!
//! A list of operations is flattened on its way out, whatever shape it has, and the results are
//! put back into that shape. Knows neither sessions nor owned nodes.

use std::fmt;
use std::vec::IntoIter;

use zk_proto::{
    Create2Response, CreateResponse, DecodeError, MultiRequest, MultiResponse, MultiResult, OpCode,
    SetDataResponse, Zxid,
};

use crate::driver::reply_slot::Completion;
use crate::error::{Error, Failure};
use crate::handles::reply::Call;
use crate::model::node::Created;
use crate::model::path::Chroot;
use crate::multi::op::{Action, Op, OpResult};
use crate::multi::shapes::shapes;

/// What [`Client::multi`](crate::Client::multi) takes: operations in any shape, whose results come
/// back in the same one. Those of one list have one type, for which there is [`Op::any`].
///
/// | operations | results |
/// |---|---|
/// | an [`Op<R>`](Op) | an `R` |
/// | a tuple of up to twelve | a tuple |
/// | an array | an array |
/// | a slice or a `Vec` | a `Vec` |
/// | a reference to one of them | the same |
///
/// They nest: `(Op::check("/open", None), ops)` puts a check in front of a list and comes to
/// `((), Vec<_>)`.
///
/// Sealed: it cannot be implemented elsewhere.
pub trait Operations: sealed::Sealed {
    /// What they come to.
    type Results: 'static;

    /// Adds the operations to the list, and tells how to read what comes of them.
    #[doc(hidden)]
    fn enlist<'s>(&'s self, list: &mut Listed<'s>) -> Reader<Self::Results>;

    /// How many operations they are.
    fn count(&self) -> usize {
        let mut list = Listed::default();
        drop(self.enlist(&mut list));
        list.0.len()
    }
}

/// Operations in the order in which they go out.
#[derive(Default)]
pub struct Listed<'s>(Vec<Action<'s>>);

impl fmt::Debug for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(Action::path)).finish()
    }
}

/// Takes as many results as there were operations, and makes them what the caller wants.
pub(crate) type Reader<R> = Box<dyn FnOnce(&mut IntoIter<OpResult>) -> Option<R> + Send>;

mod sealed {
    /// Only for what is a list of operations here.
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

/// Operations that go out together, and how their results are read.
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

/// The operations of a multi by name, for its answer and its errors.
pub(crate) struct Named(Vec<(OpCode, String)>);

impl Named {
    /// The operations, if all of them can be sent; owned ones only for those who can own.
    pub(crate) fn new(actions: &[Action<'_>], owned_too: bool) -> Result<Self, Error> {
        for (index, action) in actions.iter().enumerate() {
            action.validate(index, owned_too)?;
        }
        Ok(Self(actions.iter().map(|action| (action.op(), action.path().to_owned())).collect()))
    }

    /// What the operations came to.
    pub(crate) fn results<R>(
        &self,
        call: &Call,
        completion: Completion,
        read: Reader<R>,
    ) -> Result<R, Error> {
        let answer = completion.map_err(|failure| self.failed(call, failure))?;
        let response: MultiResponse<'_> = call.decode(&answer)?;
        if let Some((index, code)) = response.failure() {
            return Err(self.failed(call, Failure::OpRefused { index, code }));
        }
        let (operations, results) = (self.0.len(), response.iter().count());
        if results != operations {
            return Err(call.undecodable(DecodeError::MultiLength { operations, results }));
        }
        let results = self.0.iter().zip(response.iter()).map(|((op, _), result)| {
            let mismatch = DecodeError::MultiMismatch { operation: op.0, result: result.op().0 };
            result_of(*op, result, answer.zxid, &call.chroot).ok_or(mismatch)
        });
        let results = results.collect::<Result<Vec<_>, _>>();
        let results = results.map_err(|source| call.undecodable(source))?;
        // Each is of its operation's type by now, so there is one for everybody who reads.
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

/// Makes a request of operations, below a chroot.
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
