//! A server that behaves correctly in the main, and now and then does not.
//!
//! Between a client and zk-embedded is a relay, which knows what each frame of the server answers.
//! A seed decides which frames get a fault, and which one (`plan`). A frame is named by its
//! connection and its place in it, and pings do not count, so that a fault does not depend on the
//! clock. What is done to the frame is in `fault`.
//!
//! [`Campaign`] runs a command against such servers, and reports crashes, hangs and wrong results.

mod campaign;
mod command;
mod fault;
mod plan;
mod relay;

pub use self::campaign::{Campaign, Finding, Report};
pub use self::command::{Ending, Options};
pub use self::fault::Fault;
pub use self::plan::{Place, Plan};
pub use self::relay::{Applied, Hostile};
