//! Reads of many nodes by one request, each with a result of its own.
//!
//! Unlike the operations of a transaction they fail one by one. This module knows neither sessions
//! nor watches.

use std::fmt;
use std::vec::IntoIter;

use zk_proto::{
    DecodeError, Encode, GetChildrenRequest, GetChildrenResponse, GetDataRequest, GetDataResponse,
    MultiOp, MultiRequest, MultiResponse, MultiResult, OpCode, Operation, Writer,
};

use crate::driver::shared_session::Completion;
use crate::error::{Error, Failure};
use crate::handles::client::Call;
use crate::model::child_names::Names;
use crate::model::node::Node;
use crate::model::path::{self, Chroot};
use crate::multi::shapes::shapes;
use crate::session::RawReply;

/// One read of a [`multi_read`](crate::Client::multi_read), with a result of type `R`.
///
/// Each read fails by itself.
pub struct Read<'a, R = ReadResult> {
    query: Query<'a>,
    result: fn(ReadResult) -> Option<R>,
}

impl<'a> Read<'a, Node> {
    /// A node's data and state.
    pub const fn get_data(path: &'a str) -> Self {
        let result = |result| match result {
            ReadResult::Data(node) => Some(node),
            ReadResult::Children(_) => None,
        };
        Self { query: Query { op: OpCode::GET_DATA, path }, result }
    }
}

impl<'a> Read<'a, Names> {
    /// The names of a node's children, without the node's path and in no order.
    ///
    /// Servers do not send the node's state with them here.
    pub const fn get_children(path: &'a str) -> Self {
        let result = |result| match result {
            ReadResult::Children(names) => Some(names),
            ReadResult::Data(_) => None,
        };
        Self { query: Query { op: OpCode::GET_CHILDREN, path }, result }
    }
}

impl<'a, R> Read<'a, R> {
    /// The same read with a result that names its kind.
    ///
    /// So reads of both kinds go into one list.
    pub const fn any(self) -> Read<'a> {
        Read { query: self.query, result: Some }
    }
}

impl<R> Clone for Read<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Read<'_, R> {}

impl<R> fmt::Debug for Read<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Query { op, path } = self.query;
        write!(f, "Read({op} {path:?})")
    }
}

/// The result of [any](Read::any) read of a [`multi_read`](crate::Client::multi_read).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadResult {
    /// The data and state of a node.
    Data(Node),
    /// The names of the children.
    Children(Names),
}

#[derive(Clone, Copy)]
struct Query<'a> {
    op: OpCode,
    path: &'a str,
}

/// The argument of [`Client::multi_read`](crate::Client::multi_read): reads in any shape.
///
/// The results come back in the same shape, as those of [`Operations`](crate::Operations) do. The
/// result of a [`Read<R>`](Read) is a `Result<R, Error>`.
///
/// Sealed: it cannot be implemented elsewhere.
pub trait Reads: sealed::Sealed {
    /// The results, in the shape of the reads.
    type Results: 'static;

    /// Adds the reads to the list. Returns the function that reads their results.
    #[doc(hidden)]
    fn enlist<'s>(&'s self, list: &mut Listed<'s>) -> Reader<Self::Results>;
}

/// Reads in the order in which they are sent.
#[derive(Default)]
pub struct Listed<'s>(Vec<Query<'s>>);

impl fmt::Debug for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|query| query.path)).finish()
    }
}

/// Takes one result for each read, and builds the caller's results from them.
pub(crate) type Reader<R> =
    Box<dyn FnOnce(&mut IntoIter<Result<ReadResult, Error>>) -> Option<R> + Send>;

mod sealed {
    /// Implemented only for the shapes of this module.
    pub trait Sealed {}
}

impl<R> sealed::Sealed for Read<'_, R> {}

impl<R: 'static> Reads for Read<'_, R> {
    type Results = Result<R, Error>;

    fn enlist<'s>(&'s self, list: &mut Listed<'s>) -> Reader<Self::Results> {
        list.0.push(self.query);
        let read = self.result;
        Box::new(move |results| match results.next()? {
            Ok(result) => read(result).map(Ok),
            Err(error) => Some(Err(error)),
        })
    }
}

shapes!(Reads, Listed, Reader);

/// The reads' names, and the function that reads their results.
pub(crate) struct Asked<R> {
    queries: Vec<(OpCode, String)>,
    read: Reader<R>,
}

impl<R: 'static> Asked<R> {
    /// The list and the names, if all reads can be sent.
    pub(crate) fn new<'s>(reads: &'s impl Reads<Results = R>) -> Result<(Listed<'s>, Self), Error> {
        let mut list = Listed::default();
        let read = reads.enlist(&mut list);
        list.0.iter().try_for_each(|query| path::check(query.path))?;
        let queries = list.0.iter().map(|query| (query.op, query.path.to_owned())).collect();
        Ok((list, Self { queries, read }))
    }

    /// Names all reads where an error has room for one path.
    pub(crate) fn name(&self) -> String {
        match self.queries.as_slice() {
            [] => "of nothing".to_owned(),
            [(_, path)] => path.clone(),
            [(_, path), rest @ ..] => format!("{path} and {} more", rest.len()),
        }
    }

    /// The results of the reads.
    pub(crate) fn results(self, call: &Call, completion: Completion) -> Result<R, Error> {
        let Self { queries, read } = self;
        let reply = call.to_result(completion)?;
        let response: MultiResponse<'_> = call.decode(&reply)?;
        let (operations, results) = (queries.len(), response.iter().count());
        if results != operations {
            return Err(call.undecodable(DecodeError::MultiLength { operations, results }));
        }
        let results = queries.iter().zip(response.iter()).map(|((op, path), result)| {
            let mismatch = DecodeError::MultiMismatch { operation: op.0, result: result.op().0 };
            match result {
                MultiResult::Error(code) => {
                    let error = Error::failed(*op, path, Failure::Refused(code));
                    Ok(Err(error.stamped(Some(reply.zxid))))
                }
                result => result_of(*op, result, &reply).map(Ok).ok_or(mismatch),
            }
        });
        let results = results.collect::<Result<Vec<_>, _>>();
        let results = results.map_err(|source| call.undecodable(source))?;
        // Each result has its read's type by now, so every reader finds one.
        let missing = || call.undecodable(DecodeError::MultiLength { operations, results: 0 });
        read(&mut results.into_iter()).ok_or_else(missing)
    }
}

/// Builds a request from reads, below a chroot.
pub(crate) fn request<T>(
    list: &Listed<'_>,
    chroot: &Chroot,
    send: impl FnOnce(&MultiRead<'_>) -> T,
) -> T {
    let paths = list.0.iter().map(|query| chroot.apply(query.path)).collect::<Vec<_>>();
    let entries = list.0.iter().zip(&paths).map(|(query, path)| match query.op {
        OpCode::GET_CHILDREN => MultiOp::GetChildren(GetChildrenRequest { path, watch: false }),
        _ => MultiOp::GetData(GetDataRequest { path, watch: false }),
    });
    let entries = entries.collect::<Vec<_>>();
    send(&MultiRead(MultiRequest::new(&entries)))
}

/// The result of a read. `None` if it is not one of that read.
fn result_of(op: OpCode, result: MultiResult<'_>, reply: &RawReply) -> Option<ReadResult> {
    match (op, result) {
        (OpCode::GET_DATA, MultiResult::GetData(GetDataResponse { data, stat })) => {
            Some(ReadResult::Data(Node::read(&reply.body, data, stat)))
        }
        (OpCode::GET_CHILDREN, MultiResult::GetChildren(GetChildrenResponse { children })) => {
            Some(ReadResult::Children(children.iter().collect()))
        }
        _ => None,
    }
}

/// A request of reads. It stays one when the list is empty.
pub(crate) struct MultiRead<'a>(MultiRequest<'a>);

impl Encode for MultiRead<'_> {
    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

impl Operation for MultiRead<'_> {
    type Reply<'r> = MultiResponse<'r>;

    fn op(&self) -> OpCode {
        OpCode::MULTI_READ
    }
}
