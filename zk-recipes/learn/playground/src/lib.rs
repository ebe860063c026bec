//! A playground for ZooKeeper locks: a script goes in, a scene with every frame comes out.
//!
//! [`play`] runs the real client, the real locks and the embedded server in one thread and in
//! virtual time, so that the same [`Script`] always gives the same [`Scene`]. [`catalogue`] has
//! ready-made scenes. [`serve`] shows them in a browser, [`page::whole`] as one file, and
//! [`pictures`](mod@pictures) some of them in the documentation. [`recorded`] makes a scene of a
//! recording of `zk tap`.
//!
//! # Layout
//!
//! ```text
//! error script scene      what comes in and what goes out
//! naive textbook_lock     programs of zk-recipes/examples, by their paths
//! kind check              the locks that there are, and what a script may ask of them
//! frames record actor     what is recorded
//! link world moment       the server and the links, and what there is at one moment
//! network traffic         how frames pass
//! locks process           the contenders
//! verdict play            a scene
//! recorded                a scene of frames that were recorded
//! catalogue pictures      the ready-made scenes, and the pictures of the documentation
//! page                    the files of the page
//! serve                   what a browser gets
//! ```

mod error;

mod script;

mod scene;

/// The locks that are broken on purpose, which the tour shows too.
#[path = "../../../examples/tour/naive/mod.rs"]
#[expect(dead_code, reason = "the tour puts the programs to its own tests")]
mod naive;

#[path = "../../../examples/textbook_lock.rs"]
#[expect(dead_code, reason = "the example has its own scene for the lock")]
mod textbook_lock;

mod kind;

mod check;

mod frames;

mod record;

mod actor;

mod link;

mod world;

mod moment;

mod network;

mod traffic;

mod locks;

mod process;

mod verdict;

mod play;

mod recorded;

pub mod catalogue;

pub mod pictures;

pub mod page;

pub mod serve;

pub use error::{Code, Error};
pub use play::play;
pub use recorded::recorded;
pub use scene::*;
pub use script::{Action, Contender, Do, LIMITS, Limits, Mode, Script};
