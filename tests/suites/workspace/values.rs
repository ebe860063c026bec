//! What the types of the public API let a caller do, and what the compiler tells one who drops
//! them. Both are attributes that nobody misses until a program needs them.

use std::fs;
use std::path::Path;

use crate::wall_clock::sources;

const CRATES: [&str; 4] = ["zk-proto", "zk-client", "zk-recipes", "tests/zk-embedded"];

/// The items with one of these attributes: the attribute's line, and the line of the item.
fn items(attribute: &str) -> Vec<(String, String)> {
    let mut items = Vec::new();
    for name in CRATES {
        for (_, text) in sources(name) {
            let mut lines = text.lines().map(str::trim);
            while let Some(line) = lines.next() {
                if line.starts_with(attribute) {
                    let mut rest = lines.clone();
                    let item = rest.find(|it| !it.starts_with("#[") && !it.starts_with("///"));
                    items.push((line.to_owned(), item.unwrap_or_default().to_owned()));
                }
            }
        }
    }
    items
}

#[test]
fn enums_that_are_copied_and_compared_are_keys_of_a_map() {
    let derives = items("#[derive(");
    // One that borrows is a value off the wire and no kind.
    let is_kind = |item: &str| item.starts_with("pub enum ") && !item.contains('<');
    let kinds = derives.iter().filter(|(derive, item)| {
        is_kind(item) && ["Copy,", " Eq"].iter().all(|it| derive.contains(it))
    });
    let (keys, others): (Vec<_>, Vec<_>) = kinds.partition(|(derive, _)| derive.contains("Hash"));
    assert!(keys.len() > 20, "{keys:#?}");
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn what_ends_by_a_drop_asks_to_be_bound_to_a_name() {
    let told = items("#[must_use = ");
    let dropped = told.iter().filter(|(told, _)| told.contains("dropping")).collect::<Vec<_>>();
    assert!(dropped.len() > 10, "{dropped:#?}");
    for (told, item) in dropped {
        assert!(told.ends_with(": bind it to a name (`_` is none)\"]"), "{told} {item}");
    }
}

/// Of an unnamed future that nobody awaits, the compiler says that it does nothing.
#[test]
fn a_release_that_nobody_awaits_is_not_said_to_do_nothing() {
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("api/zk-recipes.txt");
    let list = fs::read_to_string(list).unwrap();
    let calls = ["::release(", "Membership::leave("];
    let is_release = |line: &&str| calls.iter().any(|call| line.contains(call));
    let releases = list.lines().filter(is_release).collect::<Vec<_>>();
    assert!(releases.len() > 4, "{releases:#?}");
    for release in releases {
        assert!(release.ends_with("-> zk_recipes::Releasing"), "{release}");
    }
    let told = items("#[must_use = ");
    let (told, _) = told.iter().find(|(_, item)| item.starts_with("pub struct Releasing")).unwrap();
    assert!(told.contains("the release happens in any case"), "{told}");
}
