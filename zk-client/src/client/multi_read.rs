//! Reads of many nodes by one request: of their data, their number, their owner.

use zk_proto::{
    GetAllChildrenNumberRequest, GetAllChildrenNumberResponse, GetEphemeralsRequest,
    GetEphemeralsResponse,
};

use crate::client::handle::Client;
use crate::handles::reply::Reply;
use crate::model::path;
use crate::multi::read::{self, Asked, Reads};

impl Client {
    /// Reads many nodes by one request. Since ZooKeeper 3.6.
    ///
    /// Each node is read at the same moment as the one before it or later: writes of others may
    /// come in between. Each read succeeds or fails by itself.
    ///
    /// Separate reads that are sent together and then awaited take one round trip, too. This call
    /// saves their headers, and a server some work.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::Read;
    ///
    /// let (config, jobs) =
    ///     client.multi_read((Read::get_data("/config"), Read::get_children("/jobs"))).await?;
    /// println!("{:?} for {} jobs", config?.data, jobs?.len());
    ///
    /// for node in client.multi_read(["/a", "/b", "/c"].map(Read::get_data)).await? {
    ///     match node {
    ///         Ok(node) => println!("{:?}", node.data),
    ///         Err(error) => println!("{error}"),
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// An error of the server about one node, such as `NoNode` and `NoAuth`, fails only that read.
    /// Older servers answer [`Unimplemented`](crate#old-servers) to the whole request.
    pub fn multi_read<R: Reads>(&self, reads: R) -> Reply<R::Results> {
        let (list, asked) = match Asked::new(&reads) {
            Ok(asked) => asked,
            Err(error) => return Reply::failed(error),
        };
        let name = asked.name();
        read::request(&list, &self.chroot, |request| {
            self.send(&name, request, move |call, completion| asked.results(call, completion))
        })
    }

    /// The paths of this session's ephemeral nodes that begin with `prefix`. Since ZooKeeper 3.6.
    ///
    /// They come in no order. `/` finds all of them; below a
    /// [chroot](crate::ClientBuilder::connect), only those inside it. The prefix is one of text:
    /// `/jobs/a` finds `/jobs/ab`, too.
    ///
    /// # Errors
    ///
    /// Older servers answer [`Unimplemented`](crate#old-servers).
    pub fn get_ephemerals(&self, prefix: &str) -> Reply<Vec<String>> {
        self.at(prefix, path::check_sequential, |full| {
            let inside = match self.chroot.as_str() {
                // Without the slash, nodes whose names merely begin alike would be found.
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

    /// The number of nodes below a node, at any depth. Since ZooKeeper 3.6.
    ///
    /// This needs only the permission to read that node. The server walks the tree for it.
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
