//! The locks and their relatives without real servers, nearly all in virtual time.

mod acquire;
mod barrier;
mod cached;
mod cancel;
mod counter;
mod double_barrier;
mod doubt;
mod election;
mod fence;
mod fencing;
mod frames;
mod group;
mod guard;
mod handing_on;
mod linger;
mod losses;
mod multi;
mod old_server;
mod requeue;
mod rw;
mod semaphore;
mod service;
mod ticket;
mod two_level;
mod unpolled;
mod wait;
