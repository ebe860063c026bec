//! Chroots: several clients of one session, each of which sees another node as its root.
//!
//! The docs call such a client a view. It differs from any other client only in its longer chroot.
//! The session knows nothing of views.

use crate::error::Error;
use crate::handles::client::Client;
use crate::model::path;

impl Client {
    /// A view of the same session: a client whose root is the node at `path` of this one.
    ///
    /// All paths are relative to the view's root: those of calls, of the operations of a multi, of
    /// watchers and streams, of owned nodes and in errors. Views can be made of views, cost no
    /// request, and are clones in all else: the session lives until the last of them is dropped,
    /// and closing one closes all.
    ///
    /// The call does not check that the node exists. Until it does, reads return
    /// [`NoNode`](Error::is_no_node) and creates lack a parent; `create("/", ..)` on the view
    /// creates it. Let it be a persistent node: a container is removed by a server when it is
    /// empty, and then nothing below the view can be created. A path from a server that is not
    /// below the view's root is returned unchanged.
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
