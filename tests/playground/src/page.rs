//! The files of the page, as a server sends them, and all in one file with the scenes in it.

use serde::Serialize;

use crate::catalogue::{self, Catalogue};
use crate::error::{Code, Error};
use crate::scene::Scene;

/// The scripts, in the order in which index.html has them.
pub(crate) const SCRIPTS: &[(&str, &str)] = &[("app.js", include_str!("../page/app.js"))];

pub(crate) const INDEX: &str = include_str!("../page/index.html");
pub(crate) const STYLE: &str = include_str!("../page/style.css");

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
    let bundle = Bundle { catalogue: catalogue::catalogue(), scenes };
    let failed = |text: String| Error::new(Code::Failed, text);
    let json = serde_json::to_string(&bundle).map_err(|error| failed(error.to_string()))?;
    // So that nothing in it ends the element.
    let json = json.replace('<', "\\u003c");
    let data = format!("<script type=\"application/json\" id=\"scenes\">{json}</script>\n");
    let style = format!("<style>\n{STYLE}</style>");
    let mut page = put(INDEX, "<link rel=\"stylesheet\" href=\"style.css\">", &style)?;
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
