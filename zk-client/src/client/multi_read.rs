//! Many reads in one request.

use crate::handles::client::{Client, Reply};
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
            Err(error) => return Reply::rejected(error),
        };
        let name = asked.name();
        read::request(&list, &self.chroot, |request| {
            self.send(&name, request, move |call, completion| asked.results(call, completion))
        })
    }
}
