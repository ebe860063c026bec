//! Limits on the memory that a client uses and on the size of its requests and replies.
//!
//! They guard against callers that send requests faster than the ensemble answers, and against
//! servers whose replies are large. This file enforces none of them.

use zk_proto::frame;

/// Limits on the memory that a client uses and on the size of requests and replies.
///
/// ```
/// use zk_client::{Client, Limits};
///
/// let mut limits = Limits::default();
/// limits.max_reply = 1024 * 1024;
/// let builder = Client::builder().limits(limits);
/// # drop(builder);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Requests that wait for a reply or to be sent. Default: 100,000.
    pub max_requests: usize,
    /// Bytes of requests that wait to be sent. Default: 64 MiB.
    pub max_queued_bytes: usize,
    /// The largest request, in bytes. Servers close the connection on a request above their
    /// `jute.maxbuffer`, without an error, so the default is the servers' default: 1,048,575.
    pub max_request: usize,
    /// The largest reply, in bytes. Default: 16 MiB. The client discards a larger reply as it
    /// arrives, and the request fails with [`ReplyTooLarge`](crate::ErrorKind::ReplyTooLarge).
    /// Connection and session live on. A reply that takes long to arrive ends the connection only
    /// if it comes at less than 1,024 bytes per second, but leases wait for what is behind it.
    /// Watch events, ping replies and handshakes are small: the client closes the connection to a
    /// server that sends one above this limit.
    pub max_reply: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_requests: 100_000,
            max_queued_bytes: 64 * 1024 * 1024,
            max_request: frame::SERVER_FRAME_LIMIT,
            max_reply: frame::CLIENT_FRAME_LIMIT,
        }
    }
}
