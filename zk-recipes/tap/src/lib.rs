//! A proxy between ZooKeeper's clients and a server, which shows what they say to each other.
//!
//! It has two halves. The [`Tap`] passes bytes on as they come and changes none of them. It then
//! cuts them into frames, and hands these to an observer on a thread of its own, which decodes,
//! shows, times and records them. Between the halves is a queue with a limit: an observer that is
//! too slow misses frames, which are counted, and never slows the road.
//!
//! A recording can be played again, by a client or by a server: see [`replay`].
//!
//! # Layout
//!
//! * [`hex`]: bytes as digits.
//! * `queue`: the events of the road, and the queue to the observer.
//! * [`recording`]: the format of recordings.
//! * `dialog`: what each frame of a connection is, [`Dialog`].
//! * [`summary`]: latencies by operation and path.
//! * `observer`: the thread that shows, times and records.
//! * `tap`: the road.
//! * [`replay`]: both ways to play a recording.

mod dialog;
pub mod hex;
mod observer;
mod queue;
pub mod recording;
pub mod replay;
pub mod summary;
mod tap;

pub use dialog::{Asked, Dialog};
pub use observer::{Observer, Report};
pub use queue::{Side, Stamp};
pub use tap::Tap;
