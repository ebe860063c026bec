//! The locks without real servers, nearly all in virtual time.

mod acquire;
mod again;
mod alone;
mod cancel;
mod chain;
mod doubt;
mod fence;
mod fencing;
mod frames;
mod guard;
mod handing_on;
mod losses;
mod mirror;
mod multi;
mod old_server;
mod rw;
mod ticket;
mod two_level;
mod unpolled;
mod wait;
