//! The playground: scenes show what they claim, scripts have bounds, and only the page is served.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::string_slice, reason = "tests")]

mod apart;
mod harm;
mod http;
mod pictures;
mod recorded;
mod scenes;
mod scripts;
mod whole;
