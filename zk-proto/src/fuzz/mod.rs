//! Claims that must hold for any bytes: the bodies of the fuzz targets.
//!
//! They are part of the library so that stable tests check the same claims on the committed corpus.
//! A claim that does not hold is a failed assertion.

mod encoded;

mod frame;

mod records;

mod directions;

mod table;

mod any;

pub use any::{KIND, any};
pub use frame::{FRAME_LIMIT, STEPS, frame};
pub use table::{RECORDS, Record, directions, records};
