//! The files of the page, as a server sends them, and all in one file with the scenes in it.

use serde::Serialize;

use crate::catalogue::{self, Catalogue};
use crate::error::{Code, Error};
use crate::scene::Scene;

/// The scripts, in the order in which index.html has them.
pub(crate) const SCRIPTS: &[(&str, &str)] = &[
    ("words.js", include_str!("../page/words.js")),
    ("fragment.js", include_str!("../page/fragment.js")),
    ("source.js", include_str!("../page/source.js")),
    ("timeline.js", include_str!("../page/timeline.js")),
    ("elements.js", include_str!("../page/elements.js")),
    ("diagram.js", include_str!("../page/diagram.js")),
    ("tree.js", include_str!("../page/tree.js")),
    ("clients.js", include_str!("../page/clients.js")),
    ("frame.js", include_str!("../page/frame.js")),
    ("list.js", include_str!("../page/list.js")),
    ("player.js", include_str!("../page/player.js")),
    ("difference.js", include_str!("../page/difference.js")),
    ("guess.js", include_str!("../page/guess.js")),
    ("controls.js", include_str!("../page/controls.js")),
    ("main.js", include_str!("../page/main.js")),
];

/// The style sheets.
pub(crate) const STYLES: &[(&str, &str)] = &[
    ("style.css", include_str!("../page/style.css")),
    ("stage.css", include_str!("../page/stage.css")),
];

/// A script or a style sheet, with its type.
pub(crate) fn file(name: &str) -> Option<(&'static str, &'static str)> {
    let find = |files: &'static [(&str, &'static str)], kind| {
        let found = files.iter().find(|(file, _)| *file == name);
        found.map(|(_, text)| (kind, *text))
    };
    find(SCRIPTS, "text/javascript; charset=utf-8")
        .or_else(|| find(STYLES, "text/css; charset=utf-8"))
}

pub(crate) const INDEX: &str = include_str!("../page/index.html");

/// What a browser may do with the page when there is no server: nothing but show it.
const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
                      script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:\">";

#[derive(Serialize)]
struct Bundle {
    catalogue: Catalogue,
    scenes: Vec<Scene>,
}

/// The page with all ready-made scenes in one file, which needs no server.
///
/// # Errors
///
/// A scene cannot be played, or the page has no place for the scenes.
pub fn whole() -> Result<String, Error> {
    let scenes = catalogue::scenes().into_iter().map(|ready| ready.play());
    let scenes = scenes.collect::<Result<Vec<_>, _>>()?;
    with_scenes(&Bundle { catalogue: catalogue::catalogue(), scenes })
}

/// The page with a [recording](crate::recorded()) in one file, which needs no server.
///
/// # Errors
///
/// The page has no place for the scene.
pub fn of_recording(scene: Scene) -> Result<String, Error> {
    with_scenes(&Bundle { catalogue: catalogue::of_recording(&scene), scenes: vec![scene] })
}

fn with_scenes(bundle: &Bundle) -> Result<String, Error> {
    let failed = |text: String| Error::new(Code::Failed, text);
    let json = serde_json::to_string(bundle).map_err(|error| failed(error.to_string()))?;
    // So that nothing in it ends the element.
    let json = json.replace('<', "\\u003c");
    let data = format!("<script type=\"application/json\" id=\"scenes\">{json}</script>\n");
    let mut page = INDEX.to_owned();
    for (name, text) in STYLES {
        let link = format!("<link rel=\"stylesheet\" href=\"{name}\">");
        page = put(&page, &link, &format!("<style>\n{text}</style>"))?;
    }
    for (index, (name, text)) in SCRIPTS.iter().enumerate() {
        let data = if index == 0 { data.as_str() } else { "" };
        let script = format!("{data}<script>\n{text}</script>");
        page = put(&page, &format!("<script src=\"{name}\"></script>"), &script)?;
    }
    put(&page, "<meta charset=\"utf-8\">", &format!("<meta charset=\"utf-8\">\n{POLICY}"))
}

/// Replaces a part of the page.
fn put(page: &str, part: &str, by: &str) -> Result<String, Error> {
    match page.split_once(part) {
        Some((before, after)) => Ok(format!("{before}{by}{after}")),
        None => Err(Error::new(Code::Failed, format!("index.html has no {part}"))),
    }
}
