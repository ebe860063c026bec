//! What users hold: the client, the reply to one request, and handles that last longer than a
//! request.
//!
//! A watcher waits for one change, and a stream reports all changes. A lease says how long the
//! caller can rely on a node. They wait and decode, and know nothing of single operations.

pub(crate) mod watcher;

pub(crate) mod watch_stream;

pub(crate) mod lease;

pub(crate) mod client;
