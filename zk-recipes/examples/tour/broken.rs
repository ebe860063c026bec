//! How a lock that is broken on purpose is shown: the program, what happens to it, and its repair.

use crate::Error;
use crate::naive::diff::{Line, changes};
use crate::naive::{Case, Version};
use crate::stage::{Stage, Style};

const FOLDER: &str = "zk-recipes/examples/tour/naive";

const QUEUE: &str = include_str!("naive/queue.rs");

pub(crate) async fn tell(stage: &Stage, case: &Case) -> Result<(), Error> {
    stage.text(case.story);
    stage.text(&format!("The program is {FOLDER}/{}/broken.rs:", case.folder));
    stage.line(Style::Text, "");
    for line in case.source(Version::Broken).lines() {
        stage.line(Style::Code, format!("    {line}").trim_end());
    }
    let helpers = helpers(case.source(Version::Broken));
    if !helpers.is_empty() {
        stage.text(&format!("Of {FOLDER}/queue.rs, where nothing is broken, it calls:"));
        stage.line(Style::Text, "");
        helpers.into_iter().for_each(|helper| stage.line(Style::Code, format!("    {helper}")));
    }
    stage.pause().await;

    run(stage, case, Version::Broken).await?;
    stage.text(case.lesson);
    let row = case.hazard.map(|hazard| format!(" In tests/CATALOGUE.md this is hazard {hazard}."));
    stage.text(&format!("Seen in: {}.{}", case.reports, row.unwrap_or_default()));
    stage.pause().await;

    stage.text(&format!("THE REPAIR. {}", case.repair));
    stage.line(Style::Text, "");
    for line in changes(case.source(Version::Broken), case.source(Version::Repaired), 2) {
        let (style, line) = match line {
            Line::Both(line) => (Style::Code, format!("    {line}")),
            Line::Removed(line) => (Style::Removed, format!("  - {line}")),
            Line::Added(line) => (Style::Added, format!("  + {line}")),
            Line::Gap => (Style::Code, "    ...".to_owned()),
        };
        stage.line(style, line.trim_end());
    }
    stage.pause().await;

    run(stage, case, Version::Repaired).await?;
    stage.text(&format!("Where this is taken care of: {}", case.handled_in));
    stage.pause().await;
    Ok(())
}

/// What a program takes from the file that they share: each name with its documentation.
fn helpers(program: &str) -> Vec<String> {
    let lines = QUEUE.lines().zip(QUEUE.lines().skip(1));
    let helpers = lines.filter_map(|(documentation, item)| {
        let documentation = documentation.strip_prefix("/// ")?;
        let (_, signature) = item.split_once("fn ")?;
        let (name, _) = signature.split_once('(')?;
        program.contains(&format!("{name}(")).then(|| format!("{name}: {documentation}"))
    });
    helpers.collect()
}

/// Runs one of the programs, and shows what happened.
async fn run(stage: &Stage, case: &Case, version: Version) -> Result<(), Error> {
    let report = case.run(version).await?;
    stage.line(Style::Text, "");
    for event in report.log {
        stage.line(Style::Event, format!("  {event}"));
    }
    let style = if report.is_broken { Style::Broken } else { Style::Good };
    stage.line(style, format!("  {}", report.verdict));
    Ok(())
}
