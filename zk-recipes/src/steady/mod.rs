//! Surviving faults, once for all recipes: what is sent again and how often, for how long a silent
//! watch is believed, which server is believed at all, and when work must stop.
//!
//! A recipe that needs one of these rules calls it here, and has no copy of it.

pub(crate) mod absent;
pub(crate) mod mutex;
pub(crate) mod quorum;
pub(crate) mod retries;
pub(crate) mod retry;
pub(crate) mod wakeups;
pub(crate) mod watch;
pub(crate) mod work;
