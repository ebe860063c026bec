//! A mutex that survives the panic of a task that had locked it.
//!
//! No such panic leaves a value half changed here, so the value is as good as it was before.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the mutex, whatever became of those who had locked it before.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
