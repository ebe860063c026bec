//! The names of nodes, made short enough for a line.

/// A contender's path with only the beginning of its 128 random bits.
pub(crate) fn short(path: &str) -> String {
    let own = person(path);
    if own == path {
        return path.to_owned();
    }
    let name = own.rsplit('/').next().unwrap_or(own).chars().take(7).collect::<String>();
    format!("{name}..{}", path.strip_prefix(own).unwrap_or_default())
}

/// What tells the folder of this path, or the folder itself, from the other folders of the tour.
pub(crate) fn folder(path: &str) -> Option<&str> {
    let (_, folder) = path.split_once("zk-recipes-tour-")?;
    folder.split('/').next()
}

/// What a contender's name says behind the random bits.
pub(crate) fn tail(name: &str) -> &str {
    match name.strip_prefix(person(name)) {
        Some("") | None => name,
        Some(tail) => tail.trim_start_matches('-'),
    }
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
