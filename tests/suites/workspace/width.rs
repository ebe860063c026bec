//! Lines end at 100 columns, in code, comments and pages. rustfmt leaves comments alone.

use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS: usize = 100;

/// Folders with files that are built or downloaded, not written here.
const NOT_OURS: [&str; 4] = ["target", "corpus", "artifacts", ".git"];

#[test]
fn no_line_is_too_long() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut too_long = Vec::new();
    let files = files(&root);
    assert!(files.len() > 300, "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        for (index, line) in text.lines().enumerate() {
            // Markdown has no way to wrap a row of a table; in sources their rows are short.
            let may_be_long = is_of_kind(&file, "md") && line.starts_with('|');
            if line.chars().count() > COLUMNS && !may_be_long {
                too_long.push(format!("{}:{}: {line}", file.display(), index + 1));
            }
        }
    }
    assert!(too_long.is_empty(), "{}", too_long.join("\n"));
}

/// The sources, scripts and pages below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !NOT_OURS.contains(&name) {
                files.extend(self::files(&path));
            }
        } else if ["rs", "md", "java", "py", "sh"].iter().any(|kind| is_of_kind(&path, kind))
            || is_script(&path)
        {
            files.push(path);
        }
    }
    files
}

pub(crate) fn is_of_kind(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|extension| extension == kind)
}

fn is_script(path: &Path) -> bool {
    path.extension().is_none() && fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"#!"))
}
