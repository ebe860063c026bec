//! What the nodes of a queue are called, and what their names tell.
//!
//! Pure: knows no client and no time.

mod layout;

mod contender;

mod folder;

pub(crate) use contender::{Contender, Standing};
pub(crate) use folder::Folder;
pub use layout::Layout;
pub(crate) use layout::{NodeNaming, Role};
