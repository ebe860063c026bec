//! The pictures of the documentation are those that the scenes give.

use std::fs;
use std::path::Path;

use zk_playground::pictures::pictures;

/// Where zk-recipes has them.
fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../zk-recipes/pictures")
}

#[test]
fn the_pictures_of_the_documentation_are_up_to_date() {
    let pictures = pictures().unwrap();
    for (name, svg) in &pictures {
        let there = fs::read_to_string(folder().join(name)).unwrap_or_default();
        assert!(
            *svg == there,
            "zk-recipes/pictures/{name} is old: cargo run -p zk-playground --example pictures"
        );
    }
    assert_eq!(fs::read_dir(folder()).unwrap().count(), pictures.len(), "others are left");
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
