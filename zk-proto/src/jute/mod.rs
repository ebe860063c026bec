//! Jute: the encoding of all records.

mod field;
mod list;
mod record;
mod text;
mod wire;

#[cfg(feature = "arbitrary")]
pub use field::Breakable;
#[cfg(feature = "arbitrary")]
pub(crate) use field::lengths;
pub use field::{Field, Name, Value};
pub(crate) use field::{Inspect, Walk, leaf};
pub(crate) use list::lists;
#[cfg(feature = "arbitrary")]
pub(crate) use list::part;
pub use list::{List, ListIter};
pub(crate) use record::{breakable, code, inspect, record};
pub use text::{Secret, Text};
pub use wire::{Decode, Encode, Reader, Writer};
