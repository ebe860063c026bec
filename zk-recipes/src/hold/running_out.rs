//! The wait until little is left of a hold, so that its work ends in time.
//!
//! The end moves on with each proof of the session, and it may also come nearer. So the lock is
//! looked at again when the time has come by the last look, and whenever its state has changed.

use std::time::Duration;

use crate::hold::Hold;

impl Hold {
    /// Waits until the lock is surely ours for no longer than `margin`.
    ///
    /// Returns for how long it still is, as [`remaining`](Self::remaining) does: zero if it is
    /// lost. So work under the lock can end in time: the margin is what it needs for that.
    ///
    /// ```
    /// use std::pin::pin;
    /// use std::time::Duration;
    ///
    /// use zk_recipes::{Error, Guard};
    ///
    /// const TO_SAVE: Duration = Duration::from_secs(2);
    ///
    /// /// Copies until all is done or the time to save has come. Returns how much was copied.
    /// async fn copy(guard: &Guard, total: u64) -> Result<u64, Error> {
    ///     let work = async {
    ///         let (mut copied, mut running_out) = (0, pin!(guard.running_out(TO_SAVE)));
    ///         while copied < total {
    ///             tokio::select! {
    ///                 _ = &mut running_out => break,
    ///                 () = copy_one(copied) => copied += 1,
    ///             }
    ///         }
    ///         save(copied).await;
    ///         copied
    ///     };
    ///     guard.run(work).await // an error if the lock is lost before all is saved
    /// }
    /// # async fn copy_one(_: u64) {}
    /// # async fn save(_: u64) {}
    /// ```
    ///
    /// # Which margin
    ///
    /// While the session is well, each proof from the ensemble moves the end on. Then, with a
    /// margin of at most a quarter of the session timeout, only the end of
    /// [`Options::max_hold`](crate::Options::max_hold) ends the wait. With a greater one it may end
    /// although all is well, and with the whole session timeout, which is never left, it ends at
    /// once. Work that needs longer to end needs a longer session timeout.
    ///
    /// The quarter is that of the default [`DeadlineRule`](zk_client::DeadlineRule), on a
    /// connection whose replies are not late. After the wait the session may recover:
    /// [`remaining`](Self::remaining) is greater again then, and another call waits again.
    ///
    /// # When it ends
    ///
    /// A process that was stopped for too long finds at its next poll that the time has come. On a
    /// machine that was suspended meanwhile, the wait may end late, when little or nothing is left:
    /// see [`Clock::sleep_until`](zk_client::Clock::sleep_until).
    ///
    /// # Cost
    ///
    /// That of [`state`](Self::state), and a timer, which is set again a few times in each session
    /// timeout.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing. Any number of tasks may wait.
    pub async fn running_out(&self, margin: Duration) -> Duration {
        let look = || {
            let remaining = self.remaining();
            match remaining.saturating_sub(margin) {
                Duration::ZERO => Ok(remaining),
                time => Err(Some(time)),
            }
        };
        self.status.wait_or_recheck(look).await
    }
}
