//! Records what is traced on this thread.
//!
//! It records everything at every level, of all crates, and keeps the fields as text.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};

/// A traced event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    spans: BTreeMap<u64, BTreeMap<&'static str, String>>,
    /// The entered spans, innermost last.
    entered: Vec<u64>,
}

struct Keeper {
    kept: Arc<Mutex<Kept>>,
    next: AtomicU64,
}

impl Capture {
    /// Records from now on.
    #[expect(clippy::new_without_default, reason = "it does more than it holds")]
    pub fn new() -> Self {
        let kept = Arc::<Mutex<Kept>>::default();
        let keeper = Keeper { kept: Arc::clone(&kept), next: AtomicU64::new(1) };
        Self { kept, _guard: tracing::subscriber::set_default(keeper) }
    }

    /// All events until now.
    pub fn told(&self) -> Vec<Told> {
        lock(&self.kept).told.clone()
    }

    /// The events of this target with this message.
    pub fn of(&self, target: &str, message: &str) -> Vec<Told> {
        let mut told = self.told();
        told.retain(|told| told.target == target && told.message == message);
        told
    }
}

fn lock(kept: &Mutex<Kept>) -> std::sync::MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Subscriber for Keeper {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut fields = Fields::default();
        span.record(&mut fields);
        lock(&self.kept).spans.insert(id, fields.0);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        let mut kept = lock(&self.kept);
        let recorded = kept.spans.entry(span.into_u64()).or_default();
        for (name, value) in fields.0 {
            // Subscribers that format spans as text append what is recorded again.
            let text = recorded.entry(name).or_default();
            text.push_str(&value);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let message = fields.0.remove("message").unwrap_or_default();
        let metadata = event.metadata();
        let (target, level) = (metadata.target(), *metadata.level());
        let mut kept = lock(&self.kept);
        let span = kept.entered.last().and_then(|id| kept.spans.get(id)).cloned();
        kept.told.push(Told { target, level, message, fields: fields.0, span });
    }

    fn enter(&self, span: &Id) {
        lock(&self.kept).entered.push(span.into_u64());
    }

    fn exit(&self, _: &Id) {
        lock(&self.kept).entered.pop();
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}
