//! Records what is traced on this thread.
//!
//! It records everything at every level, of all crates, and keeps the fields as text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// A traced event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The target.
    pub target: &'static str,
    /// The level.
    pub level: Level,
    /// The message.
    pub message: String,
    /// The fields that have a value, by name.
    pub fields: BTreeMap<&'static str, String>,
    /// The fields of the innermost span around the event.
    pub span: Option<BTreeMap<&'static str, String>>,
}

/// `target message` and, in order, the names of the fields.
impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.fields.keys().copied().collect::<Vec<_>>();
        write!(f, "{} {} {}: {}", self.level, self.target, self.message, names.join(" "))
    }
}

/// Records everything that is traced on the thread that made it, while it lives.
#[derive(Debug)]
pub struct Capture {
    kept: Arc<Mutex<Kept>>,
    _guard: DefaultGuard,
}

#[derive(Debug, Default)]
struct Kept {
    told: Vec<Told>,
    /// The fields of all spans, whose ids begin with 1.
    spans: Vec<Fields>,
    /// The indices of the entered spans, innermost last.
    entered: Vec<usize>,
}

struct Keeper(Arc<Mutex<Kept>>);

impl Capture {
    /// Records from now on.
    #[expect(clippy::new_without_default, reason = "it does more than it holds")]
    pub fn new() -> Self {
        let kept = Arc::<Mutex<Kept>>::default();
        let keeper = Keeper(Arc::clone(&kept));
        Self { kept, _guard: tracing::subscriber::set_default(keeper) }
    }

    /// All events until now.
    pub fn told(&self) -> Vec<Told> {
        self.kept.lock().expect("no panic").told.clone()
    }

    /// The events of this target with this message.
    pub fn of(&self, target: &str, message: &str) -> Vec<Told> {
        let mut told = self.told();
        told.retain(|told| told.target == target && told.message == message);
        told
    }
}

impl Subscriber for Keeper {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        span.record(&mut fields);
        let spans = &mut self.0.lock().expect("no panic").spans;
        spans.push(fields);
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        values.record(&mut self.0.lock().expect("no panic").spans[index(span)]);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_default();
        let metadata = event.metadata();
        let (target, level) = (metadata.target(), *metadata.level());
        let mut kept = self.0.lock().expect("no panic");
        let span = kept.entered.last().map(|index| kept.spans[*index].0.clone());
        kept.told.push(Told { target, level, message, fields: fields.0, span });
    }

    fn enter(&self, span: &Id) {
        self.0.lock().expect("no panic").entered.push(index(span));
    }

    fn exit(&self, _: &Id) {
        self.0.lock().expect("no panic").entered.pop();
    }
}

fn index(span: &Id) -> usize {
    span.into_u64() as usize - 1
}

#[derive(Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // Subscribers that format spans as text append what is recorded again.
        self.0.entry(field.name()).or_default().push_str(value);
    }
}
