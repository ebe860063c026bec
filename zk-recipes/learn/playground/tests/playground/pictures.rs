//! The pictures of the documentation are those that the scenes give.

use std::fs;
use std::path::Path;

use zk_playground::pictures::pictures;

/// The packages that have pictures.
const PACKAGES: [&str; 2] = ["zk-client", "zk-recipes"];

#[test]
fn the_pictures_of_the_documentation_are_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let pictures = pictures().unwrap();
    for (file, svg) in &pictures {
        let there = fs::read_to_string(root.join(file)).unwrap_or_default();
        let is_new = *svg == there;
        assert!(is_new, "{file} is old: cargo run -p zk-playground --example pictures");
    }
    let files = PACKAGES.map(|package| fs::read_dir(root.join(package).join("pictures")).unwrap());
    assert_eq!(files.into_iter().flatten().count(), pictures.len(), "others are left");
}

#[test]
fn a_picture_is_small_and_markdown_takes_it_as_one_piece_of_html() {
    for (name, svg) in pictures().unwrap() {
        assert!(svg.len() < 16_000, "{name}: {} bytes", svg.len());
        let mut lines = svg.lines();
        let first = lines.next().unwrap();
        assert!(first.starts_with("<svg ") && first.ends_with('>'), "{name}: {first}");
        assert!(lines.all(|line| !line.trim().is_empty()), "{name}: an empty line ends the HTML");
        let outside = svg.replace("http://www.w3.org/2000/svg", "");
        for reference in ["http", "href", "url(", "@import", "<script"] {
            assert!(!outside.contains(reference), "{name}: {reference}");
        }
    }
}
