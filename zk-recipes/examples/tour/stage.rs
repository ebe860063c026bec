//! Where the course is shown: paragraphs, programs and frames, at a pace that a person can follow.
//!
//! Lines are collected while things happen, and shown before the story goes on. So a reader who
//! takes a minute holds up no connection: the sessions stay alive meanwhile. Knows no ZooKeeper.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How wide the course is.
const WIDTH: usize = 92;

/// How it is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How long a line of an event is looked at. A line of text takes four times as long.
    pub(crate) pace: Duration,
    /// Wait for the Enter key after each step.
    pub(crate) step: bool,
    pub(crate) colour: bool,
}

impl Settings {
    /// For whatever standard output is: a person reads a terminal, and a program reads a pipe. Who
    /// has a keyboard, too, decides when to go on.
    pub(crate) fn of_output() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let pace = Duration::from_millis(if is_terminal { 1000 } else { 0 });
        let colour = is_terminal && !is_set("NO_COLOR") && !is_dumb;
        Self { pace, step: is_terminal && io::stdin().is_terminal(), colour }
    }
}

/// The kinds of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Title,
    Text,
    Sent,
    Received,
    Broken,
    Event,
    Code,
    Removed,
    Added,
    Good,
    State,
}

impl Style {
    /// The parameters of the ANSI escape sequence.
    fn colour(self) -> &'static str {
        match self {
            Self::Title => "1;4",
            Self::Text => "0",
            Self::Sent => "36",
            Self::Received => "34",
            Self::Broken => "1;31",
            Self::Event => "33",
            Self::Code | Self::State => "2",
            Self::Removed => "31",
            Self::Added => "32",
            Self::Good => "1;32",
        }
    }
}

/// The stage. Clones are one stage.
#[derive(Clone)]
pub(crate) struct Stage(Arc<Mutex<State>>);

struct State {
    settings: Settings,
    /// What has happened and is not shown yet.
    lines: Vec<(Style, String)>,
    /// What each client is up to, for a reader who goes step by step.
    clients: BTreeMap<&'static str, String>,
    /// What is whose, for the same reader.
    owners: Owners,
    /// Looks at the world: what to write beside what happens.
    view: Option<View>,
    /// What it saw last.
    seen: String,
    /// The clock is running, and what comes must not be late.
    in_haste: bool,
}

/// What is whose.
pub(crate) type Owners = BTreeMap<String, &'static str>;

/// Describes the world in a line.
type View = Box<dyn Fn(&Owners) -> String + Send>;

/// In which column a view begins: where the meaning of a frame does.
const VIEW: usize = 50;

impl Stage {
    pub(crate) fn new(settings: Settings) -> Self {
        let (lines, clients, owners, seen) = Default::default();
        let state = State { settings, lines, clients, owners, view: None, seen, in_haste: false };
        Self(Arc::new(Mutex::new(state)))
    }

    /// From now on what `view` returns is shown beside the events that change it, to a reader who
    /// goes step by step.
    pub(crate) fn set_view(&self, view: impl Fn(&Owners) -> String + Send + 'static) {
        let mut state = self.state();
        state.seen = view(&state.owners);
        state.view = Some(Box::new(view));
    }

    /// Notes that something is of this client.
    pub(crate) fn set_owner(&self, of: String, name: &'static str) {
        self.state().owners.insert(of, name);
    }

    /// Shows the view, if it has changed.
    pub(crate) fn look(&self) {
        let mut state = self.state();
        let Some(view) = state.view.as_ref().filter(|_| state.settings.step) else {
            return;
        };
        let seen = view(&state.owners);
        if seen != state.seen {
            state.lines.push((Style::State, format!("{:VIEW$}{seen}", "")));
            state.seen = seen;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A line, which is shown with the next step of the story.
    pub(crate) fn line(&self, style: Style, text: impl Into<String>) {
        self.state().lines.push((style, text.into()));
    }

    /// Something that happens besides the frames.
    pub(crate) fn note(&self, text: &str) {
        self.line(Style::Event, format!("        {text}"));
    }

    /// A paragraph, which is shown with the next step.
    pub(crate) fn text(&self, text: &str) {
        let mut state = self.state();
        state.lines.push((Style::Text, String::new()));
        state.lines.extend(wrap(text, WIDTH).into_iter().map(|line| (Style::Text, line)));
    }

    /// A heading.
    pub(crate) fn title(&self, text: &str) {
        self.line(Style::Text, "");
        self.line(Style::Title, text);
    }

    /// What a client is up to now.
    pub(crate) fn set_client(&self, name: &'static str, doing: String) {
        self.state().clients.insert(name, doing);
    }

    /// The clients and what they are up to.
    pub(crate) fn clients(&self) -> Vec<String> {
        let state = self.state();
        state.clients.iter().map(|(name, doing)| format!("{name}: {doing}")).collect()
    }

    /// Forgets the clients and the world of the last chapter.
    pub(crate) fn clear(&self) {
        let mut state = self.state();
        state.clients.clear();
        state.owners.clear();
        state.view = None;
        state.seen.clear();
    }

    /// From now on nobody is waited for, or again.
    pub(crate) fn set_in_haste(&self, in_haste: bool) {
        self.state().in_haste = in_haste;
    }

    /// True if something has happened that was not shown yet.
    pub(crate) fn has_events(&self) -> bool {
        let is_event = |(style, _): &(Style, String)| !matches!(style, Style::Text | Style::Title);
        self.state().lines.iter().any(is_event)
    }

    /// True if a reader wants to see the state after each step.
    pub(crate) fn is_stepping(&self) -> bool {
        let state = self.state();
        state.settings.step && !state.in_haste
    }

    /// Shows the lines so far.
    pub(crate) async fn show(&self) {
        self.present(false).await;
    }

    /// Shows the lines so far, and waits for the reader who goes step by step.
    pub(crate) async fn pause(&self) {
        self.present(true).await;
    }

    async fn present(&self, waits: bool) {
        let (lines, mut settings) = {
            let mut state = self.state();
            (std::mem::take(&mut state.lines), state.settings)
        };
        let in_haste = self.state().in_haste;
        settings.step &= waits && !in_haste;
        if in_haste {
            settings.pace = Duration::ZERO;
        }
        if settings.pace.is_zero() && !settings.step {
            print(&lines, settings);
            return;
        }
        // On a thread of its own, so that the clients go on. A virtual clock stands still.
        let shown = tokio::task::spawn_blocking(move || {
            print(&lines, settings);
            !settings.step || enter(settings.colour)
        });
        if !shown.await.unwrap_or(true) {
            self.state().settings.step = false;
        }
    }
}

fn print(lines: &[(Style, String)], settings: Settings) {
    let mut output = io::stdout();
    for (style, text) in lines {
        let printed = match settings.colour && !text.is_empty() {
            true => writeln!(output, "\x1b[{}m{text}\x1b[0m", style.colour()),
            false => writeln!(output, "{text}"),
        };
        if printed.is_err() {
            // Nobody reads any more, as behind a pipe into `head`.
            process::exit(0);
        }
        thread::sleep(match style {
            _ if text.is_empty() => Duration::ZERO,
            Style::Text | Style::Code => settings.pace * 4,
            _ => settings.pace,
        });
    }
}

/// Waits for the Enter key. Returns false if there is nobody to press it.
fn enter(colour: bool) -> bool {
    let prompt = "  [Enter] goes on, q and [Enter] ends the tour ";
    let (dim, plain) = if colour { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
    print!("{dim}{prompt}{plain}");
    let mut answer = String::new();
    let read = io::stdout().flush().and_then(|()| io::stdin().read_line(&mut answer));
    if answer.trim() == "q" {
        process::exit(0);
    }
    read.is_ok_and(|bytes| bytes > 0)
}

/// The lines of a paragraph.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}
