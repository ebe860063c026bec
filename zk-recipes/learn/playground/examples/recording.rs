//! Writes a recording of `zk tap` as a page, to be opened in a browser.
//!
//! ```text
//! zk tap 127.0.0.1:12181 127.0.0.1:2181 --record session.jsonl
//! cargo run --release --example recording -- session.jsonl session.html
//! ```
//!
//! A third argument is the time at which the page begins, in seconds of the recording. Passwords
//! are left out. The data of nodes is not, so only the owner of the new file may read it.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::time::Duration;

use zk_playground::{page, recorded};
use zk_tap::recording;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let (file, page_file, from) = match &arguments[..] {
        [file, page] => (file, page, 0.0),
        [file, page, from] => (file, page, from.parse()?),
        _ => return Err("usage: recording RECORDING PAGE [SECONDS]".into()),
    };
    let entries = recording::read(BufReader::new(File::open(file)?))?;
    let scene = recorded(file, &entries, Duration::try_from_secs_f64(from)?);
    if scene.events.is_empty() {
        return Err(format!("{file} has no events from {from} s on").into());
    }
    println!("{}", scene.text.as_deref().unwrap_or_default());
    let page = page::of_recording(scene)?;
    let created = recording::create(Path::new(page_file));
    let mut out = created.map_err(|error| format!("cannot create {page_file}: {error}"))?;
    out.write_all(page.as_bytes())?;
    Ok(())
}
