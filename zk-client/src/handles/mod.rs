//! What calls return: the reply to one request, and what lasts longer than a request.
//!
//! A watcher waits for one change and a stream tells all; a lease says how long a node can be
//! counted on. They wait and decode. They know nothing of the operations that return them.

pub(crate) mod watcher;

pub(crate) mod watch_stream;

pub(crate) mod lease;

pub(crate) mod reply;
