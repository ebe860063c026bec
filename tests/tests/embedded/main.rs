//! The embedded server: what it answers, what it remembers, and what goes wrong with it on request.

mod claims;
mod faults;
mod leaks;
mod life;
mod limits;
mod multi;
mod nodes;
mod outages;
mod replica;
mod sessions;
mod tcp;
mod watches;
mod words;
