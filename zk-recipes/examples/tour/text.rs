//! How the story is written: its paragraphs, and the names of nodes made short.

/// How wide the story is.
const WIDTH: usize = 92;

/// Prints a paragraph.
pub(crate) fn say(text: &str) {
    println!();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + word.len() >= WIDTH {
            println!("{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    println!("{line}");
}

/// Prints what happens besides the frames.
pub(crate) fn note(text: &str) {
    println!("        {text}");
}

/// A contender's name with no more than a glimpse of its 128 random bits.
pub(crate) fn short(path: &str) -> String {
    let own = person(path);
    if own == path {
        return path.to_owned();
    }
    let name = own.rsplit('/').next().unwrap_or(own).chars().take(7).collect::<String>();
    format!("{name}..{}", path.strip_prefix(own).unwrap_or_default())
}

/// What stands behind them.
pub(crate) fn tail(name: &str) -> &str {
    name.strip_prefix(person(name)).unwrap_or_default().trim_start_matches('-')
}

/// A contender's path as far as it is the same whatever its role and number: `_c_` and a UUID.
pub(crate) fn person(path: &str) -> &str {
    let start = path.find("_c_");
    start.and_then(|start| path.get(..start + "_c_".len() + 36)).unwrap_or(path)
}

/// The number of a sequential node.
pub(crate) fn digits(name: &str) -> &str {
    name.get(name.len().saturating_sub(10)..).unwrap_or_default()
}
