//! Access: who may do what to a node, and who this client is to the servers.

use zk_proto::{
    GetAclRequest, GetAclResponse, SetAclRequest, SetAclResponse, Stat, WhoAmIRequest,
    WhoAmIResponse,
};

use crate::client::handle::Client;
use crate::handles::reply::Reply;
use crate::model::acl::{self, AccessList, Acl, Id};
use crate::model::path;

/// Any version will do.
const ANY_VERSION: i32 = -1;

impl Client {
    /// Who may do what to a node. It takes the permission to read the node, or to change this list;
    /// from those who have only the former, servers hide the hashes of digests.
    pub fn get_acl(&self, path: &str) -> Reply<AccessList> {
        self.at(path, path::check, |full| {
            self.send(path, &GetAclRequest { path: full }, |call, completion| {
                let answer = call.answer(completion)?;
                let GetAclResponse { acl, stat } = call.decode(&answer)?;
                Ok(AccessList { acl: acl.iter().map(Acl::from).collect(), stat })
            })
        })
    }

    /// Replaces a node's access list, if it was changed `aversion` times or that is `None`. Returns
    /// the node's new state. It takes the permission [`ADMIN`](crate::Perms::ADMIN).
    ///
    /// The list counts its changes by itself, in [`Stat::aversion`]: neither the node's version nor
    /// its time of modification moves, and no watch fires.
    ///
    /// A leader judges writes by the old list until it has applied the new one itself, and may do
    /// so later than the server that answers: seen with 3.8.0, for milliseconds.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::{Acl, Id, Perms};
    ///
    /// let mut list = client.get_acl("/orders").await?;
    /// list.acl.push(Acl::new(Perms::READ, Id::ip("10.0.0.0/8")));
    /// // Fails with `BadVersion` if somebody else has changed the list meanwhile.
    /// client.set_acl("/orders", &list.acl, Some(list.stat.aversion)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidACL` if the list is empty or the server knows no such identity;
    /// [`Acl::CREATOR_ALL`] is one for a connection that has authenticated as nobody.
    pub fn set_acl(&self, path: &str, acl: &[Acl], aversion: Option<i32>) -> Reply<Stat> {
        self.at(path, path::check, |full| {
            acl::lend(acl, |acl| {
                let version = aversion.unwrap_or(ANY_VERSION);
                let request = SetAclRequest { path: full, acl, version };
                self.send(path, &request, |call, completion| {
                    let SetAclResponse { stat } = call.decode(&call.answer(completion)?)?;
                    Ok(stat)
                })
            })
        })
    }

    /// Who this client is to its server, in all of its identities: the address that it connects
    /// from, and whatever it has authenticated as. A digest shows the user alone, so it is not what
    /// an access list takes. Since ZooKeeper 3.7.
    ///
    /// # Errors
    ///
    /// Older servers answer [`Unimplemented`](crate#old-servers).
    pub fn who_am_i(&self) -> Reply<Vec<Id>> {
        self.send("/", &WhoAmIRequest, |call, completion| {
            let answer = call.answer(completion)?;
            let WhoAmIResponse { client_info } = call.decode(&answer)?;
            let identity = |info: zk_proto::ClientInfo<'_>| {
                Id::new(info.auth_scheme.to_string_lossy(), info.user.to_string_lossy())
            };
            Ok(client_info.iter().map(identity).collect())
        })
    }
}
