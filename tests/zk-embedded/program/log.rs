//! The warnings of the server on standard error, a line each.
//!
//! They say why a client is refused that would try again for ever.

use std::fmt::Debug;
use std::io::Write;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Writes what the server warns of.
struct Warnings;

/// Writes the warnings of this process from now on.
pub(crate) fn start() {
    // Nobody else has set one: this is the program.
    drop(tracing::subscriber::set_global_default(Warnings));
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= Level::WARN
            && metadata.target().starts_with("zk_embedded")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let Line { message, fields } = line;
        // If nobody reads that, there is nobody else to tell.
        drop(writeln!(std::io::stderr(), "zk-embedded: {message}{fields}"));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// An event as text: its message, and its fields behind it.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message += &format!("{value:?}"),
            name => self.fields += &format!(" {name}={value:?}"),
        }
    }
}
