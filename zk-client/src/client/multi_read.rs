//! Reads that concern many nodes, each by one request: of their data, their number, their owner.

use zk_proto::{
    GetAllChildrenNumberRequest, GetAllChildrenNumberResponse, GetEphemeralsRequest,
    GetEphemeralsResponse,
};

use crate::client::handle::Client;
use crate::handles::reply::Reply;
use crate::model::path;
use crate::multi::read::{self, Asked, Reads};

impl Client {
    /// Reads many nodes by one request, each at the same moment or later than the one before it:
    /// writes of others may come in between. Each read succeeds or fails by itself. Since ZooKeeper
    /// 3.6.
    ///
    /// One round trip is what reads take, too, that are called together and awaited together; this
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
    /// What the server says of one node fails that read alone, `NoNode` and `NoAuth` alike. Older
    /// servers answer [`Unimplemented`](crate#old-servers) to the whole.
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
