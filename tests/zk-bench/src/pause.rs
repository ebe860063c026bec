//! Pauses of random length, as between the jobs of a service.
//!
//! Tokio's own timers have a resolution of a millisecond, which is too coarse for pauses of some
//! hundred microseconds. The kernel's timers are exact, and the runtime goes on serving the client
//! meanwhile.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

/// Pauses whose lengths have an exponential distribution.
#[derive(Debug)]
pub struct Pause {
    mean: Duration,
    /// A timer is not a pipe, but it becomes ready and is read in the same way.
    timer: Receiver,
}

impl Pause {
    /// Makes a pause; needs a runtime. With a mean of zero there are no pauses.
    pub fn new(mean: Duration) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let timer = Receiver::from_owned_fd_unchecked(timer)?;
        Ok(Self { mean, timer })
    }

    /// Waits once.
    pub async fn wait(&mut self) -> io::Result<()> {
        // From 0 to 1, without 0, which has no logarithm.
        let random = 1.0 - fastrand::f64();
        let pause = self.mean.mul_f64(-random.ln());
        let it_value = Timespec::try_from(pause).map_err(io::Error::other)?;
        if pause.is_zero() {
            return Ok(());
        }
        let once = Itimerspec { it_interval: Timespec::default(), it_value };
        timerfd_settime(self.timer.as_fd(), TimerfdTimerFlags::empty(), &once)?;
        self.timer.read_u64_le().await.map(drop)
    }
}
