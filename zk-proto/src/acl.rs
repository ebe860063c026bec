//! Who may do what to a node.

use crate::jute::{Text, record};

record! {
    /// Whom an entry of an access list means.
    Id<'a> {
        /// How the identity is established: `world`, `digest`, `ip`, `auth`, `sasl`, `x509`.
        scheme: Text<'a>,
        /// The identity, in the scheme's own form.
        id: Text<'a>,
    }
}

record! {
    /// One entry of an access list; the list is the union of its entries.
    Acl<'a> {
        /// A sum of [`Acl::READ`] and its like.
        perms: i32,
        /// Whom it permits.
        id: Id<'a>,
    }
}

impl Acl<'_> {
    /// Read the data, list the children.
    pub const READ: i32 = 1;
    /// Write the data.
    pub const WRITE: i32 = 2;
    /// Create children.
    pub const CREATE: i32 = 4;
    /// Delete children.
    pub const DELETE: i32 = 8;
    /// Change the access list.
    pub const ADMIN: i32 = 16;
    /// Everything.
    pub const ALL: i32 = 31;
    /// Everybody may do everything: ZooKeeper's own default.
    pub const OPEN: Acl<'static> =
        Acl { perms: Self::ALL, id: Id { scheme: Text::new("world"), id: Text::new("anyone") } };
}
