//! Chroots: several clients of one session, each of which sees another node as its root.
//!
//! The docs call such a client a view. It is a client with a longer chroot, and nothing else tells
//! the two apart. The session knows of no view.

use crate::client::handle::Client;
use crate::error::Error;
use crate::model::path;

impl Client {
    /// The same session as seen from below: a client whose root is the node at `path` of this one.
    ///
    /// Whatever names a path goes through the view: calls, the operations of a multi, watchers and
    /// streams, owned nodes and the paths in errors. Views can be made of views, cost no request,
    /// and are clones in all else: the session lives until the last of them is dropped, and
    /// closing one closes all.
    ///
    /// Nobody looks whether the node exists. Until it does, reads find
    /// [`NoNode`](Error::is_no_node) and creates lack a parent; `create("/", ..)` on the view makes
    /// it. A path that a server tells and that is not below the view's root is left as it is.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::CreateOptions;
    ///
    /// let shop = client.chroot("/shop")?;
    /// let orders = shop.chroot("/orders")?;
    /// let created = orders.create("/7", b"", &CreateOptions::persistent()).await?;
    /// assert_eq!(created.path, "/7"); // "/shop/orders/7" to the client
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`InvalidPath`](crate::ErrorKind::InvalidPath).
    pub fn chroot(&self, path: &str) -> Result<Self, Error> {
        path::check(path)?;
        let mut view = self.clone();
        view.chroot = self.chroot.below(path);
        Ok(view)
    }
}
