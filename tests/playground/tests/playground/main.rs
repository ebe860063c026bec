//! The playground: scenes show what they claim, scripts have bounds, and only the page is served.

mod http;
mod scenes;
mod scripts;
mod whole;
