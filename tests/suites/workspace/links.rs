//! Links lead somewhere: the crates are not published yet, so no page of a registry has them, and
//! the files that a page names are there.

use std::fs;
use std::path::Path;

use crate::width::{files, is_of_kind};

/// The folders of the crates that may be published.
const CRATES: [&str; 4] = ["zk-proto", "zk-client", "zk-recipes", "tests/zk-embedded"];

#[test]
fn nothing_leads_to_a_page_before_its_publication() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let of_ours = |link: &str| {
        CRATES.iter().any(|folder| link.starts_with(folder.trim_start_matches("tests/")))
    };
    let manifests = CRATES.map(|folder| root.join(folder).join("Cargo.toml"));
    let mut found = Vec::new();
    let files = files(&root);
    assert!(files.len() > 500, "{}", files.len());
    for file in files.into_iter().chain(manifests) {
        let text = fs::read_to_string(&file).unwrap();
        for host in ["docs.rs", "crates.io/crates"].map(|host| format!("{host}/")) {
            let links = text.split(&host).skip(1).filter(|link| of_ours(link));
            found.extend(links.map(|link| format!("{}: {link:.30}", file.display())));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn the_files_that_pages_name_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut seen, mut missing) = (0, Vec::new());
    for file in files(&root).iter().filter(|file| is_of_kind(file, "md")) {
        let text = fs::read_to_string(file).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')) {
            let target = link.0.split('#').next().unwrap_or_default();
            // What has a scheme or is an item of Rust is checked by others, or not at all.
            if target.is_empty()
                || target.contains(':')
                || is_item(file.strip_prefix(&root).unwrap_or(file), target)
            {
                continue;
            }
            seen += 1;
            if !file.parent().unwrap().join(target).exists() {
                missing.push(format!("{}: {target}", file.display()));
            }
        }
    }
    assert!(seen > 50, "{seen}");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// True in a page of the documentation, whose links rustdoc checks.
fn is_item(file: &Path, target: &str) -> bool {
    file.components().any(|it| it.as_os_str() == "src") && !target.contains('/')
}
