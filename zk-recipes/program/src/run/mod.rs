//! Runs a command for as long as something is held, and stops it in time.
//!
//! A [`group`] is the command and the processes that it starts. A [`watchdog`] is a process of that
//! group that kills the others when `zk` is gone, or when `zk` is late. [`supervise`] decides when
//! the command has to stop, and [`signals`] passes on what `zk` is sent.

pub(crate) mod group;
pub(crate) mod signals;
pub(crate) mod supervise;
pub(crate) mod uptime;
pub(crate) mod watchdog;
