//! Pictures of scenes for the documentation: sequence diagrams that take no script to be shown.
//!
//! Each is one SVG element. In a page its ink is that of the text around it, so that it is legible
//! in light and in dark; as a file of its own it has a ground. Its first line is a whole tag and no
//! line is empty, so that Markdown takes it as it is.

use crate::catalogue;
use crate::error::Error;
use crate::scene::{Event, Fate, FrameEvent, LockState, Role, Scene, SpanKind, Tone};
use crate::script::SERVER;

/// A picture of a part of a ready-made scene.
struct Picture {
    /// Its file, from the root of the repository on.
    file: &'static str,
    /// The scene.
    scene: &'static str,
    title: &'static str,
    /// What is drawn, in milliseconds.
    from_ms: u64,
    to_ms: u64,
    /// Whether handshakes are drawn, which say little of a lock.
    handshakes: bool,
}

impl Picture {
    fn draws(&self, event: &Event) -> bool {
        match event {
            Event::Frame(frame) => match frame.content.role {
                Role::Ping => false,
                Role::Connect => self.handshakes,
                _ => true,
            },
            _ => true,
        }
    }
}

/// All pictures of the documentation.
const PICTURES: [Picture; 5] = [
    Picture {
        file: "zk-recipes/pictures/hand-over.svg",
        scene: "hand_over",
        title: "Ana releases the lock, and Ben gets it",
        from_ms: 100,
        to_ms: 2000,
        handshakes: false,
    },
    Picture {
        file: "zk-recipes/pictures/textbook.svg",
        scene: "textbook",
        title: "Ana releases the textbook lock, and Ben gets it",
        from_ms: 100,
        to_ms: 2400,
        handshakes: false,
    },
    Picture {
        file: "zk-recipes/pictures/lost-reply.svg",
        scene: "lost_reply_found",
        title: "The reply to Ana's create is lost, and her client finds the node",
        from_ms: 100,
        to_ms: 1900,
        handshakes: false,
    },
    Picture {
        file: "zk-recipes/pictures/deadline.svg",
        scene: "lost_lease",
        title: "Ana is cut off, and stops before the server gives the lock to Ben",
        from_ms: 100,
        to_ms: 21_000,
        handshakes: false,
    },
    Picture {
        file: "zk-client/pictures/missed-change.svg",
        scene: "missed_change",
        title: "Ben is cut off, resumes his session, and is notified of what he has missed",
        from_ms: 100,
        to_ms: 6500,
        handshakes: true,
    },
];

// Pixels: the times at the left, a lane, a row, and the longest pause between two.
const TIMES: f64 = 64.0;
const LANE: f64 = 260.0;
const ROW: f64 = 21.0;
const PAUSE: f64 = 16.0;
const TOP: f64 = 34.0;
const BAR: f64 = 8.0;

/// From this time without an event on, in microseconds, the next one has its time beside it.
const TOLD_PAUSE_US: u64 = 100_000;

/// How many letters fit between two lanes.
const LETTERS: usize = 42;

/// How many letters fit beside a point on an outer lane, as far as the other outer lane.
const POINT_LETTERS: usize = 75;

/// Good, bad, and for a time without proof: legible on white and on black.
const GOOD: &str = "#2f9e5c";
const BAD: &str = "#e0533d";

/// The files of all pictures, from the root of the repository on, and what is in them.
///
/// # Errors
///
/// As [`play`](crate::play()).
pub fn pictures() -> Result<Vec<(&'static str, String)>, Error> {
    let mut drawn = Vec::new();
    for picture in PICTURES {
        let scenes = catalogue::scenes();
        if let Some(ready) = scenes.iter().find(|ready| ready.id == picture.scene) {
            drawn.push((picture.file, Drawing::of(&picture, &ready.play()?)));
        }
    }
    Ok(drawn)
}

/// Where everything of a picture is.
struct Drawing<'s> {
    scene: &'s Scene,
    /// The lanes from left to right, with the server in the middle.
    lanes: Vec<&'s str>,
    /// The events that are drawn, each with its place from above.
    rows: Vec<(&'s Event, f64)>,
    height: f64,
    /// The elements.
    out: String,
}

impl<'s> Drawing<'s> {
    fn of(picture: &Picture, scene: &'s Scene) -> String {
        let names = scene.lanes.iter().map(|lane| lane.id.as_str());
        let mut lanes = names.filter(|name| *name != SERVER).collect::<Vec<_>>();
        lanes.insert(lanes.len().div_ceil(2), SERVER);
        let (mut rows, mut y, mut last) = (Vec::new(), TOP, None);
        let is_inside = |event: &&Event| {
            (picture.from_ms * 1000..picture.to_ms * 1000).contains(&event.at_us())
        };
        for event in scene.events.iter().filter(is_inside).filter(|it| picture.draws(it)) {
            let pause = last.is_some_and(|last| event.at_us() - last >= TOLD_PAUSE_US);
            y += if pause { ROW + PAUSE } else { ROW };
            last = Some(event.at_us());
            rows.push((event, y));
        }
        let mut drawing = Self { scene, lanes, rows, height: y + ROW, out: String::new() };
        drawing.lanes();
        drawing.beliefs();
        drawing.events();
        let width = TIMES + LANE * (drawing.lanes.len() - 1) as f64 + TIMES;
        let title = escaped(picture.title);
        let mut svg = String::new();
        for line in [
            format!(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"zk-picture\" width=\"{width}\" \
                 viewBox=\"0 0 {width} {}\">",
                drawing.height
            ),
            format!("<title>{title}</title>"),
            "<style>".to_owned(),
            ".zk-picture { max-width: 100% }".to_owned(),
            "svg:root { color: #1f2328; background: #fff }".to_owned(),
            "@media (prefers-color-scheme: dark) {".to_owned(),
            "svg:root { color: #d1d7e0; background: #0d1117 }".to_owned(),
            "}".to_owned(),
            "</style>".to_owned(),
            "<g font-family=\"sans-serif\" font-size=\"12\" fill=\"currentColor\" \
             stroke-width=\"1.3\">"
                .to_owned(),
        ] {
            svg += &line;
            svg.push('\n');
        }
        svg += &drawing.out;
        svg += "</g>\n</svg>\n";
        svg
    }

    fn x(&self, name: &str) -> f64 {
        let place = self.lanes.iter().position(|lane| *lane == name).unwrap_or_default();
        TIMES + LANE * place as f64
    }

    /// Where a moment is, between the rows of the events around it.
    fn y(&self, us: u64) -> f64 {
        let next = self.rows.partition_point(|(event, _)| event.at_us() <= us);
        let after = self.rows.get(next).map_or(self.height, |(_, y)| *y);
        let Some((before, y)) = next.checked_sub(1).and_then(|last| self.rows.get(last)) else {
            return TOP;
        };
        let end = self.rows.get(next).map_or(us + 1, |(event, _)| event.at_us());
        let part = (us - before.at_us()) as f64 / (end - before.at_us()) as f64;
        y + part * (after - y)
    }

    fn add(&mut self, element: impl AsRef<str>) {
        self.out += element.as_ref();
        self.out.push('\n');
    }

    fn lanes(&mut self) {
        for name in self.lanes.clone() {
            let (x, end) = (self.x(name), self.height);
            self.add(format!(
                "<text x=\"{x}\" y=\"18\" text-anchor=\"middle\" font-weight=\"bold\">{}</text>",
                escaped(name)
            ));
            self.add(format!(
                "<path d=\"M{x} 26V{end}\" stroke=\"currentColor\" stroke-opacity=\".35\"/>"
            ));
        }
    }

    /// A hollow bar where a contender waits, and a full one where it takes the lock for its own.
    fn beliefs(&mut self) {
        for (who, from_us, to_us) in self.waits() {
            let style = "fill=\"none\" stroke=\"currentColor\" stroke-opacity=\".6\"";
            self.bar(&who, from_us, to_us, style);
        }
        for span in &self.scene.spans {
            let style = match span.kind {
                SpanKind::Held => format!("fill=\"{GOOD}\""),
                SpanKind::Maybe => {
                    format!("fill=\"{GOOD}\" fill-opacity=\".35\" stroke=\"{GOOD}\"")
                }
                SpanKind::Stale => format!("fill=\"{BAD}\""),
            };
            self.bar(&span.who, span.from_us, span.to_us, &style);
        }
    }

    fn waits(&self) -> Vec<(String, u64, u64)> {
        let (mut waits, mut since) = (Vec::new(), Vec::<(String, u64)>::new());
        for (event, state) in self.scene.events.iter().zip(&self.scene.states) {
            for client in &state.clients {
                let waits_now = matches!(client.lock, LockState::Joining | LockState::Waiting);
                let known = since.iter().position(|(who, _)| *who == client.who);
                match known {
                    None if waits_now => since.push((client.who.clone(), event.at_us())),
                    Some(known) if !waits_now => {
                        let (who, from_us) = since.remove(known);
                        waits.push((who, from_us, event.at_us()));
                    }
                    _ => {}
                }
            }
        }
        waits.extend(since.into_iter().map(|(who, from)| (who, from, self.scene.ended_us)));
        waits
    }

    fn bar(&mut self, who: &str, from_us: u64, to_us: u64, style: &str) {
        let last = self.rows.last().map_or(0, |(event, _)| event.at_us());
        let from = self.y(from_us);
        let to = if to_us > last { self.height } else { self.y(to_us) };
        if from_us <= last && to > from {
            let (x, height) = (self.x(who) - BAR / 2.0, to - from);
            self.add(format!(
                "<rect x=\"{x}\" y=\"{from:.0}\" width=\"{BAR}\" height=\"{height:.0}\" {style}/>"
            ));
        }
    }

    fn events(&mut self) {
        let mut last = None;
        for (event, y) in self.rows.clone() {
            let at = event.at_us();
            if last.is_none_or(|last| at - last >= TOLD_PAUSE_US) {
                let seconds = at as f64 / 1e6;
                self.add(format!(
                    "<text x=\"2\" y=\"{y}\" font-size=\"11\" fill-opacity=\".75\">\
                     {seconds:.2} s</text>"
                ));
            }
            last = Some(at);
            match event {
                Event::Frame(frame) => self.frame(frame, y),
                Event::Action { who, text, .. } => {
                    let text = text.strip_prefix(who.as_str()).unwrap_or(text).trim();
                    let text = text.split(':').next().unwrap_or_default();
                    self.point(who, y, text, "font-weight=\"bold\"", "currentColor");
                }
                Event::Note { who, text, tone, .. } => {
                    let ink = match tone {
                        Tone::Good => GOOD,
                        Tone::Bad => BAD,
                        Tone::Plain => "currentColor",
                    };
                    self.point(who, y, text, "font-style=\"italic\"", ink);
                }
            }
        }
    }

    fn frame(&mut self, frame: &FrameEvent, y: f64) {
        let (from, to) = (self.x(&frame.from), self.x(&frame.to));
        let right = if from < to { 1.0 } else { -1.0 };
        let is_lost = frame.fate == Fate::Lost;
        let ink = if is_lost { BAD } else { "currentColor" };
        let dashes = match frame.content.role {
            Role::Reply => " stroke-dasharray=\"6 3\"",
            Role::Notification => " stroke-dasharray=\"2 3\"",
            _ => "",
        };
        let begin = from + right * BAR / 2.0;
        let end = if is_lost { from + 0.6 * (to - from) } else { to - right * BAR / 2.0 };
        let (top, back) = (y - 5.0, end - right * 7.0);
        self.add(format!(
            "<path d=\"M{begin} {top}L{end} {y}\" fill=\"none\" stroke=\"{ink}\"{dashes}/>"
        ));
        let head = match is_lost {
            true => {
                let (left, right, low, high) = (end - 4.0, end + 4.0, y - 4.0, y + 4.0);
                format!("M{left} {low}L{right} {high}M{left} {high}L{right} {low}")
            }
            false => format!("M{back} {}L{end} {y}L{back} {}", y - 4.0, y + 4.0),
        };
        self.add(format!("<path d=\"{head}\" fill=\"none\" stroke=\"{ink}\"/>"));
        let middle = (from + to) / 2.0;
        let label = escaped(&label(&frame.content.summary, LETTERS));
        self.add(format!(
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            y - 6.0
        ));
    }

    fn point(&mut self, who: &str, y: f64, text: &str, style: &str, ink: &str) {
        let x = self.x(who);
        let is_last = self.lanes.last() == Some(&who);
        let (at, anchor) = if is_last { (x - 10.0, "end") } else { (x + 10.0, "start") };
        self.add(format!("<circle cx=\"{x}\" cy=\"{}\" r=\"3.5\" fill=\"{ink}\"/>", y - 4.0));
        let text = escaped(&label(text, POINT_LETTERS));
        self.add(format!(
            "<text x=\"{at}\" y=\"{y}\" text-anchor=\"{anchor}\" {style}>{text}</text>"
        ));
    }
}

/// A text without what only makes names unique, and no longer than there is room.
fn label(text: &str, letters: usize) -> String {
    let mut short = String::new();
    let mut rest = text.replace("/lock/", "");
    while let Some(at) = rest.find("_c_") {
        let name = rest.split_off(at);
        let is_unique = |c: char| c.is_ascii_hexdigit() || c == '-';
        let unique = name.get(3..).unwrap_or_default();
        let end = unique.find(|c| !is_unique(c)).map_or(name.len(), |end| 3 + end);
        short += &rest;
        short.push('…');
        rest = name.get(end..).unwrap_or_default().to_owned();
    }
    short += &rest;
    match short.char_indices().nth(letters) {
        Some((end, _)) => format!("{}…", short.get(..end).unwrap_or_default().trim_end()),
        None => short,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
