//! Jute: the encoding of all records.

mod list;
mod record;
mod text;
mod wire;

pub use list::{List, ListIter};
pub(crate) use record::{code, record};
pub use text::{Secret, Text};
pub use wire::{Decode, Encode, Reader, Writer};
