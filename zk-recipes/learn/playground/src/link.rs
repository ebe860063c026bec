//! What the scene keeps of a connection, and the frames that are on their way.

use bytes::Bytes;
use zk_embedded::ConnectionId;

use crate::frames::Dialogue;
use crate::scene::Content;

/// The client of a connection: a contender, or the one that sets the scene.
pub(crate) type Party = Option<usize>;

/// What is said on one connection.
pub(crate) struct Talk {
    pub(crate) dialogue: Dialogue,
    /// It leads to a server that is drawn apart from the others.
    pub(crate) is_apart: bool,
}

/// The server of this connection notices that it is cut off from the others.
pub(crate) struct Alone(pub(crate) ConnectionId);

/// A frame on its way.
pub(crate) struct Flight {
    /// With its length.
    pub(crate) bytes: Bytes,
    pub(crate) sent_us: u64,
    pub(crate) content: Content,
    pub(crate) request_us: Option<u64>,
}
