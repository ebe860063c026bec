//! How far a tree has been read, on a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on stderr, if that is a terminal, and if nothing else is printed there.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of so many bytes, if that is known.
    pub(crate) fn new(bytes: Option<u64>) -> Self {
        let target = match std::io::stdout().is_terminal() {
            true => ProgressDrawTarget::hidden(),
            false => ProgressDrawTarget::stderr(),
        };
        let bar = ProgressBar::with_draw_target(bytes, target);
        let template = match bytes {
            Some(_) => "{bar:40} {percent}% {elapsed}, {eta} left",
            None => "{spinner} {human_pos} nodes, {per_sec}, {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// A node was read, whose line has so many bytes.
    pub(crate) fn on_node(&self, bytes: u64) {
        self.0.inc(if self.0.length().is_some() { bytes } else { 1 });
    }

    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
