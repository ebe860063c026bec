//! What must hold whatever the bytes: the bodies of the fuzz targets.
//!
//! They live in the library so that stable tests run the same claims over the committed corpus. A
//! claim that does not hold is a failed assertion.

mod encoded;

mod frame;

mod records;

mod values;

mod directions;

pub use directions::{VALUES, directions};
pub use frame::{FRAME_LIMIT, STEPS, frame};
pub use records::{RECORDS, records};
