//! How the nodes of a queue are named, and what their names say.
//!
//! Pure: knows no client and no time.

mod contender;
mod folder;
mod layout;

pub(crate) use contender::{Contender, Standing};
pub(crate) use folder::Folder;
pub use layout::Layout;
pub(crate) use layout::{NodeNaming, Role, layout_of, parse_member};
