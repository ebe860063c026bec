//! Writes: of one node, or of many as one transaction.

use zk_proto::{
    CreateRequest, CreateTtlRequest, DeleteRequest, ErrorCode, SetDataRequest, SetDataResponse,
    Stat,
};

use crate::driver::shared_session::Completion;
use crate::error::{Cause, Error, Failure};
use crate::handles::client::{Call, Client, Reply};
use crate::model::acl;
use crate::model::node::{CreateOptions, CreateReply, Created};
use crate::model::path;
use crate::multi::op::Action;
use crate::multi::write::{self, Named, Operations, Transaction};

impl Client {
    /// Creates a node. The parent must exist.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::CreateOptions;
    ///
    /// let options = CreateOptions::persistent().sequential();
    /// let created = client.create("/jobs/job-", b"42", &options).await?;
    /// assert!(created.path.starts_with("/jobs/job-"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(&self, path: &str, data: &[u8], options: &CreateOptions<'_>) -> Reply<Created> {
        if let Err(rule) = options.check() {
            return Reply::rejected(Cause::Options { path: path.to_owned(), rule }.into());
        }
        let sequential = options.is_sequential();
        let check = if sequential { path::check_sequential } else { path::check };
        self.with_checked_path(path, check, |full| {
            acl::with_wire_acl(options.acl, |acl| {
                let (data, mode) = (Some(data), options.mode());
                match options.ttl_millis() {
                    None => {
                        self.send(path, &CreateRequest { path: full, data, acl, mode }, created)
                    }
                    Some(ttl) => {
                        let request = CreateTtlRequest { path: full, data, acl, mode, ttl };
                        self.send(path, &request, created)
                    }
                }
            })
        })
    }

    /// Deletes a node that has no children, if it is at `version`, or always if that is `None`.
    pub fn delete(&self, path: &str, version: Option<i32>) -> Reply<()> {
        self.with_checked_path(path, path::check, |full| {
            let request =
                DeleteRequest { path: full, version: version.unwrap_or(Stat::ANY_VERSION) };
            self.send(path, &request, |call, completion| call.to_result(completion).map(drop))
        })
    }

    /// Replaces a node's data. Returns its new state.
    ///
    /// The data is replaced if the node is at `version`, or always if that is `None`.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// let node = client.get_data("/counter").await?;
    /// // Fails with `BadVersion` if somebody else has written meanwhile.
    /// client.set_data("/counter", b"43", Some(node.stat.version)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        self.with_checked_path(path, path::check, |full| {
            let version = version.unwrap_or(Stat::ANY_VERSION);
            let request = SetDataRequest { path: full, data: Some(data), version };
            self.send(path, &request, |call, completion| {
                let SetDataResponse { stat } = call.decode(&call.to_result(completion)?)?;
                Ok(stat)
            })
        })
    }

    /// Carries out all operations in this order as one transaction, or none of them.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::{CreateOptions, Op};
    ///
    /// let (from, to) = (client.get_data("/todo/7").await?, "/done/7");
    /// let moved = client.multi((
    ///     Op::create(to, &from.data, &CreateOptions::persistent()),
    ///     Op::set_data("/last", b"7", None),
    ///     Op::delete("/todo/7", Some(from.stat.version)),
    /// ));
    /// match moved.await {
    ///     Ok((done, last, ())) => println!("{} is the {}th", done.path, last.version),
    ///     Err(error) => println!("operation {:?} failed: {error}", error.failed_op()),
    /// }
    ///
    /// // A list of one kind, and one of any.
    /// let stats = client.multi(["/a", "/b"].map(|path| Op::set_data(path, b"", None))).await?;
    /// let mut ops = vec![Op::check("/a", Some(stats[0].version)).any()];
    /// ops.push(Op::delete("/b", None).any());
    /// println!("{:?}", client.multi(ops).await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Returns the result of each operation, in the shape that the operations came in: see
    /// [`Operations`]. An empty list is a transaction that changes nothing. Limits apply to the
    /// request as a whole.
    ///
    /// # Errors
    ///
    /// A refused multi is [`Refused`](crate::ErrorKind::Refused) with the
    /// [`code`](crate::Error::code) of the operation that failed.
    /// [`failed_op`](crate::Error::failed_op) is the index of that operation; `None` there means
    /// that the server refused the request as a whole. An [owned](crate::Op::create_owned) create
    /// is [`InvalidOp`](crate::ErrorKind::InvalidOp): use [`multi_owned`](Self::multi_owned) for
    /// it.
    pub fn multi<O: Operations>(&self, ops: O) -> Reply<O::Results> {
        let Transaction { actions, read } = Transaction::new(&ops);
        let named = match self.named(&actions, false) {
            Ok(named) => named,
            Err(error) => return Reply::rejected(error),
        };
        write::request(&actions, &self.chroot, |request| {
            let name = named.to_string();
            self.send(&name, request, move |call, completion| named.results(call, completion, read))
        })
    }

    /// The operations of a multi by name, if all of them can be sent. Servers end the connection on
    /// a multi with an operation that they do not know.
    pub(crate) fn named(&self, actions: &[Action<'_>], owned_too: bool) -> Result<Named, Error> {
        let named = Named::new(actions, owned_too)?;
        let dialect = self.dialect();
        let lacks = |action: &Action<'_>| !dialect.understands(action.op());
        match actions.iter().enumerate().find(|(_, action)| lacks(action)) {
            Some((index, action)) => {
                let failure = Failure::OpRefused { index, code: ErrorCode::UNIMPLEMENTED };
                Err(Error::failed(action.op(), action.path(), failure))
            }
            None => Ok(named),
        }
    }
}

fn created(call: &Call, completion: Completion) -> Result<Created, Error> {
    let reply = call.to_result(completion)?;
    let op = call.shared.dialect().spell(call.op);
    let CreateReply { path, stat } =
        call.decode_by(&reply, |reader| CreateReply::decode(op, reader))?;
    let path = call.chroot.strip(path).to_owned();
    Ok(Created { path, czxid: stat.map_or(reply.zxid, |stat| stat.czxid), stat })
}
