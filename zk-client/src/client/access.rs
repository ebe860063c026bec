//! Access: who may do what to a node, and who this client is to the servers.

use zk_proto::{
    GetAclRequest, GetAclResponse, SetAclRequest, SetAclResponse, Stat, WhoAmIRequest,
    WhoAmIResponse,
};

use crate::handles::client::{Client, Reply};
use crate::model::acl::{self, AccessList, Acl, Id};
use crate::model::path;

impl Client {
    /// The access list of a node.
    ///
    /// This needs the permission to read the node or to change the list. From a client that may
    /// only read, servers hide the hashes of digests.
    pub fn get_acl(&self, path: &str) -> Reply<AccessList> {
        self.with_checked_path(path, path::check, |full| {
            self.send(path, &GetAclRequest { path: full }, |call, completion| {
                let reply = call.to_result(completion)?;
                let GetAclResponse { acl, stat } = call.decode(&reply)?;
                Ok(AccessList { acl: acl.iter().map(Acl::from).collect(), stat })
            })
        })
    }

    /// Replaces a node's access list. Returns the node's new state.
    ///
    /// The list is replaced if it was changed `aversion` times, or always if that is `None`. This
    /// needs the permission [`ADMIN`](crate::Perms::ADMIN).
    ///
    /// Changes of the list have their own count, [`Stat::aversion`]. The node's version and its
    /// time of modification stay as they are, and no watch fires.
    ///
    /// A leader checks writes against the old list until it has applied the new one itself, which
    /// may be later than the server that replies: seen with 3.8.0, for milliseconds.
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
    /// `InvalidACL` if the list is empty or names an identity that the server does not know, as
    /// [`Acl::CREATOR_ALL`] does on a connection that has not authenticated.
    pub fn set_acl(&self, path: &str, acl: &[Acl], aversion: Option<i32>) -> Reply<Stat> {
        self.with_checked_path(path, path::check, |full| {
            acl::with_wire_acl(acl, |acl| {
                let version = aversion.unwrap_or(Stat::ANY_VERSION);
                let request = SetAclRequest { path: full, acl, version };
                self.send(path, &request, |call, completion| {
                    let SetAclResponse { stat } = call.decode(&call.to_result(completion)?)?;
                    Ok(stat)
                })
            })
        })
    }

    /// All identities that the server knows this client by. Since ZooKeeper 3.7.
    ///
    /// They are the address that the client connects from, and those it has authenticated as. Of a
    /// digest only the user is shown, so it cannot be used in an access list.
    ///
    /// # Errors
    ///
    /// Older servers answer [`Unimplemented`](crate#old-servers).
    pub fn who_am_i(&self) -> Reply<Vec<Id>> {
        self.send("/", &WhoAmIRequest, |call, completion| {
            let reply = call.to_result(completion)?;
            let WhoAmIResponse { client_info } = call.decode(&reply)?;
            let identity = |info: zk_proto::ClientInfo<'_>| {
                Id::new(info.auth_scheme.to_string_lossy(), info.user.to_string_lossy())
            };
            Ok(client_info.iter().map(identity).collect())
        })
    }
}
