//! The signals that `zk` is sent and passes on, and their names.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::SigSet;
use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Unblocks all signals: some launchers start their programs with the mask that they need
/// themselves. With CHLD blocked the end of a child would go unnoticed, and with TERM blocked the
/// request to stop. Must be called before there are other threads.
pub(crate) fn unblock() -> io::Result<()> {
    Ok(SigSet::empty().thread_set_mask()?)
}

/// The signals that are passed on to the command. The first three also end `zk` while it waits.
const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Every signal with a name that can be sent by it.
const NAMES: [(&str, Signal); 12] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("HUP", Signal::HUP),
    ("QUIT", Signal::QUIT),
    ("KILL", Signal::KILL),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("ALRM", Signal::ALARM),
    ("ABRT", Signal::ABORT),
    ("CONT", Signal::CONT),
    ("WINCH", Signal::WINCH),
    ("PIPE", Signal::PIPE),
];

/// The signals that `zk` is sent. None of them ends it any more.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        let ignored = ignored();
        let is_ignored = |signal: &Signal| ignored & (1 << (signal.as_raw() - 1)) != 0;
        let stream = |kind: Signal| Ok((kind, signal(SignalKind::from_raw(kind.as_raw()))?));
        let signals = PASSED_ON.into_iter().filter(|signal| !is_ignored(signal));
        signals.map(stream).collect::<io::Result<_>>().map(Self)
    }

    /// The next signal. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (kind, stream) in &mut self.0 {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*kind);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next signal that asks for an end.
    pub(crate) async fn end(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT].contains(&signal) {
                return signal;
            }
        }
    }
}

/// The signals that this program was started to ignore, a bit each: by `nohup`, or in the
/// background of a script. They stay ignored, also by the command. Only Linux tells without unsafe
/// code.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Parses the name of a signal, with or without `SIG`, or its number.
pub(crate) fn parse(text: &str) -> Result<Signal, String> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let named = NAMES.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal);
    let numbered = || text.parse().ok().and_then(Signal::from_named_raw);
    let signal = named.or_else(numbered).ok_or("not the name or number of a signal")?;
    // The watchdog is sent it as well, and cannot catch these.
    match [Signal::ILL, Signal::FPE, Signal::SEGV, Signal::STOP].contains(&signal) {
        true => Err("a signal that cannot ask for an end".to_owned()),
        false => Ok(signal),
    }
}
