//! Surveys: reads of many nodes by one request.

use zk_proto::{
    GetAllChildrenNumberRequest, GetAllChildrenNumberResponse, GetEphemeralsRequest,
    GetEphemeralsResponse,
};

use crate::client::handle::Client;
use crate::path;
use crate::reply::Reply;

impl Client {
    /// The paths of this session's ephemeral nodes that begin with these characters, in no order;
    /// `/` is for all of them. Below a [chroot](crate::ClientBuilder::connect) only what is in it.
    /// Since ZooKeeper 3.6.
    ///
    /// It is a prefix of text: `/jobs/a` finds `/jobs/ab`, too.
    ///
    /// # Errors
    ///
    /// Older servers answer [`Unimplemented`](crate#old-servers).
    pub fn get_ephemerals(&self, prefix: &str) -> Reply<Vec<String>> {
        self.at(prefix, path::check_sequential, |full| {
            let inside = match self.chroot.as_str() {
                // Not what merely begins with the same name.
                Some(chroot) if full == chroot => format!("{chroot}/"),
                _ => full.to_owned(),
            };
            let request = GetEphemeralsRequest { prefix_path: inside.as_str().into() };
            self.send(prefix, &request, |call, completion| {
                let answer = call.answer(completion)?;
                let GetEphemeralsResponse { ephemerals } = call.decode(&answer)?;
                Ok(ephemerals.iter().map(|path| call.chroot.strip(path).to_owned()).collect())
            })
        })
    }

    /// How many nodes there are below a node, at any depth. It takes the permission to read that
    /// node alone, and the server walks the tree for it. Since ZooKeeper 3.6.
    ///
    /// # Errors
    ///
    /// Older servers answer [`Unimplemented`](crate#old-servers).
    pub fn get_all_children_number(&self, path: &str) -> Reply<i32> {
        self.at(path, path::check, |full| {
            self.send(path, &GetAllChildrenNumberRequest { path: full }, |call, completion| {
                let answer = call.answer(completion)?;
                let GetAllChildrenNumberResponse { total_number } = call.decode(&answer)?;
                Ok(total_number)
            })
        })
    }
}
