//! Measures cost: time, CPU of the whole process, memory, and the latency of each request.
//!
//! The server is another process (see `server`), so all CPU of this one is the client's.

use std::fs;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Measures time and CPU from its start on.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    start: Instant,
    cpu: Duration,
}

/// The cost of some work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// The elapsed time.
    pub time: Duration,
    /// User and system time of all threads of this process.
    pub cpu: Duration,
}

impl Meter {
    /// Starts measuring.
    pub fn start() -> Self {
        Self { start: now(), cpu: cpu() }
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// The cost since the start.
    pub fn stop(self) -> Spent {
        Spent { time: self.start.elapsed(), cpu: cpu() - self.cpu }
    }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.time += other.time;
        self.cpu += other.cpu;
    }
}

/// The latencies of requests, to three digits. Tasks on any thread may record.
#[derive(Debug)]
pub struct Latencies(Mutex<Histogram<u64>>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_max(LONGEST, 3).expect("bounds that are in order");
        Self(Mutex::new(histogram))
    }
}

/// One minute in nanoseconds: longer latencies count as that.
const LONGEST: u64 = 60_000_000_000;

impl Latencies {
    /// Records the latency of one request.
    pub fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(LONGEST);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanos);
    }

    /// How often each time was recorded, in nanoseconds.
    pub fn recorded(&self) -> Vec<(u64, u64)> {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = histogram.iter_recorded();
        recorded.map(|value| (value.value_iterated_to(), value.count_at_value())).collect()
    }

    /// Adds what was [recorded](Self::recorded) elsewhere.
    pub fn add(&self, recorded: impl IntoIterator<Item = (u64, u64)>) {
        let mut histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (nanos, count) in recorded {
            histogram.saturating_record_n(nanos, count);
        }
    }

    /// The latency that this part of the requests, from 0 to 1, did not exceed, in microseconds.
    pub fn quantile(&self, part: f64) -> f64 {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.value_at_quantile(part) as f64 / 1000.0
    }
}

/// The CPU that a process has used so far, user and system time, to ten milliseconds.
pub fn cpu_of(process: u32) -> io::Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name of the program is in parentheses, and may have any character in it.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks = fields.skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>();
    let ticks = ticks.map_err(io::Error::other)?;
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}

/// The bytes that this process has in memory now, and the most that it ever had.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// VmRSS
    pub now: u64,
    /// VmHWM
    pub peak: u64,
}

impl Memory {
    /// Reads the current values.
    pub fn look() -> io::Result<Self> {
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse::<u64>().ok()
        };
        match (field("VmRSS:"), field("VmHWM:")) {
            (Some(now), Some(peak)) => Ok(Self { now: now * 1024, peak: peak * 1024 }),
            _ => Err(io::Error::other("/proc/self/status tells no memory")),
        }
    }
}

/// The core on which a process runs when it is pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Core {
    /// The core of the measured process.
    Client = 0,
    /// The core of the server.
    Server = 1,
}

/// Pins this thread, and the threads that it starts from now on, to one core.
pub fn pin(core: Core) -> io::Result<()> {
    let mut cores = CpuSet::new();
    cores.set(core as usize);
    Ok(sched_setaffinity(None, &cores)?)
}

/// The current time, for measurements.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
pub fn now() -> Instant {
    Instant::now()
}

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
