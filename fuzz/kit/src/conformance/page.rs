//! A report as one HTML file without scripts.

use std::fmt::{self, Write};

use super::report::{Line, Report, Verdict};

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\">
<meta charset=\"utf-8\">
<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">
<title>ZooKeeper conformance</title>
<style>
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em }
table { border-collapse: collapse; width: 100% }
td { border-top: 1px solid #8884; padding: .3em .6em; vertical-align: top }
td:first-child, td:nth-child(2) { white-space: nowrap }
pre { margin: .3em 0; overflow-x: auto; white-space: pre-wrap }
.bad td:nth-child(2) { color: #b00020; font-weight: bold }
.quiet { opacity: .7 }
@media (prefers-color-scheme: dark) {
  body { background: #121212; color: #e0e0e0 } .bad td:nth-child(2) { color: #ff8a80 }
}
</style>
";

/// Appends the page.
pub(super) fn write(report: &Report, out: &mut String) -> fmt::Result {
    out.push_str(HEAD);
    writeln!(out, "<h1>ZooKeeper conformance</h1>\n<p>{}</p>", escaped(&report.summary()))?;
    for path in &report.left_behind {
        writeln!(out, "<p>Left behind: {}</p>", escaped(path))?;
    }
    let bad: Vec<_> = report.claims.iter().filter(|line| line.verdict.is_bad()).collect();
    if !bad.is_empty() {
        let links = bad.iter().map(|line| format!("<a href=\"#c{0}\">{0}</a>", line.number));
        writeln!(out, "<p>Unexpected: {}</p>", links.collect::<Vec<_>>().join(", "))?;
    }
    for lines in report.claims.chunk_by(|one, two| one.chapter == two.chapter) {
        let title = lines.first().map_or("", |line| &line.chapter);
        writeln!(out, "<h2>{}</h2>\n<table>", escaped(title))?;
        lines.iter().try_for_each(|line| row(line, out))?;
        writeln!(out, "</table>")?;
    }
    Ok(())
}

fn row(line: &Line, out: &mut String) -> fmt::Result {
    let class = match line.verdict {
        verdict if verdict.is_bad() => "bad",
        Verdict::AsExpected => "",
        _ => "quiet",
    };
    let (number, verdict) = (line.number, line.verdict.name());
    write!(out, "<tr id=\"c{number}\" class=\"{class}\"><td>{number}<td>{verdict}<td>")?;
    write!(out, "{}", escaped(&line.sentence))?;
    write!(
        out,
        " <span class=\"quiet\">Since {}, {}.</span>",
        line.since,
        escaped(&line.evidence)
    )?;
    if let Some(why) = &line.why {
        write!(out, "<br>{}", escaped(why))?;
    }
    let mut details = String::new();
    for step in &line.steps {
        writeln!(details, "{} => {}", step.step, step.got)?;
        if !step.is_expected {
            writeln!(details, "expected {}", step.expected)?;
        }
    }
    for frame in &line.frames {
        writeln!(details, "{frame}")?;
    }
    if !details.is_empty() {
        let open = if line.verdict.is_bad() { " open" } else { "" };
        write!(out, "<details{open}><summary>Steps</summary><pre>{}</pre></details>", {
            escaped(&details)
        })?;
    }
    writeln!(out)
}

/// Text that a server may have chosen, as text of a page.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
