//! A playground for ZooKeeper locks: a script goes in, a scene with every frame comes out.
//!
//! [`play`] runs the real client, the real locks and the embedded server in one thread and in
//! virtual time, so that the same [`Script`] always gives the same [`Scene`]. [`catalogue`] has
//! ready-made scenes. [`serve`] shows them in a browser, and [`page::whole`] as one file.
//!
//! # Layout
//!
//! ```text
//! error script scene      what comes in and what goes out
//! naive textbook_lock     programs of zk-recipes/examples, by their paths
//! frames record actor     what is recorded
//! link network            the server and the links
//! traffic moment          how frames pass, and what there is at one moment
//! locks process           the contenders
//! verdict play            a scene
//! catalogue page          the ready-made scenes, and the files of the page
//! serve                   what a browser gets
//! ```

mod error;
mod script;

mod scene;

mod frames;
mod record;

mod actor;

mod link;

mod network;

mod traffic;

mod moment;

mod locks;

mod process;

mod verdict;

mod play;

/// The locks that are broken on purpose, which the tour shows too.
#[path = "../../../zk-recipes/examples/tour/naive/mod.rs"]
#[expect(dead_code, reason = "the tour puts the programs to its own tests")]
mod naive;

#[path = "../../../zk-recipes/examples/textbook_lock.rs"]
#[expect(dead_code, reason = "the example has its own scene for the lock")]
mod textbook_lock;

pub mod catalogue;

pub mod page;

pub mod serve;

pub use error::{Code, Error};
pub use play::play;
pub use scene::*;
pub use script::{Action, Contender, Do, LIMITS, Limits, Mode, Script};
