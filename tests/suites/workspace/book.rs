//! The book names only what exists: tests, files, mutants and seeds; and it leaves out no hazard of
//! the catalogue. Its examples are tests of their own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::catalogue::{catalogue, is_source, trouble};

fn tests() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A chapter, or a part of one.
struct Page {
    file: PathBuf,
    /// The text with its programs.
    text: String,
}

impl Page {
    /// The text without the programs.
    fn prose(&self) -> String {
        let mut is_program = false;
        let lines = self.text.lines().filter(|line| {
            let is_fence = line.starts_with("```");
            is_program ^= is_fence;
            !is_program && !is_fence
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The tests that the page names, each with the label of its link.
    fn named_tests(&self) -> Vec<(String, Option<String>)> {
        let prose = self.prose();
        let quoted = prose.split('`').skip(1).step_by(2);
        let behind = prose.split('`').skip(2).step_by(2);
        let named = quoted.zip(behind).filter(|(quoted, _)| {
            quoted.split_once("::").is_some_and(|(file, _)| file.contains('/'))
        });
        let label = |behind: &str| {
            let (label, _) = behind.strip_prefix("][")?.split_once(']')?;
            Some(label.to_owned())
        };
        named.map(|(quoted, behind)| (quoted.to_owned(), label(behind))).collect()
    }

    /// The files that the page links to, as `(label, path)`; a link in the text has no label.
    fn links(&self) -> Vec<(Option<String>, PathBuf)> {
        let folder = self.file.parent().unwrap();
        let defined = self.text.lines().filter_map(|line| {
            let (label, path) = line.strip_prefix('[')?.split_once("]: ")?;
            Some((Some(label.to_owned()), folder.join(path)))
        });
        let in_text = self.text.split("](").skip(1).filter_map(|rest| {
            let (path, _) = rest.split_once(')')?;
            path.starts_with("../").then(|| (None, folder.join(path)))
        });
        defined.chain(in_text).collect()
    }
}

/// The pages in their order.
fn pages() -> Vec<Page> {
    let folder = tests().join("../zk-recipes/learn/book/src/chapters");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pages = files.map(|file| Page { text: fs::read_to_string(&file).unwrap(), file });
    let mut pages = pages.collect::<Vec<_>>();
    pages.sort_by(|one, other| one.file.cmp(&other.file));
    assert!(pages.len() >= 12, "the book has lost a chapter");
    pages
}

/// The reports that a text names outside of code: CURATOR-45, rust #87906.
fn reports(text: &str) -> Vec<&str> {
    let prose = text.split('`').step_by(2);
    let words = prose
        .flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || "-#".contains(c))));
    let is_report = |word: &&str| {
        let number = word.rsplit(['-', '#']).next().unwrap_or_default();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number && number.len() < word.len() && !word.starts_with(|c: char| c.is_ascii_digit())
    };
    words.filter(is_report).collect()
}

#[test]
fn every_hazard_is_told_once_with_its_reports_and_a_test_of_its_own() {
    let pages = pages();
    let hazards = catalogue().into_iter().filter(|entry| entry.number.starts_with('H'));
    let mut told = 0;
    for hazard in hazards {
        let heading = format!("\n### {}. ", hazard.number);
        let mut sections = pages.iter().filter_map(|page| page.text.split_once(&heading));
        let (_, section) =
            sections.next().unwrap_or_else(|| panic!("{} is not told", hazard.number));
        assert!(sections.next().is_none(), "{} is told twice", hazard.number);
        let section = section.split("\n### ").next().unwrap();
        let section = section.split("\n## ").next().unwrap();

        let (what, told_reports) = (reports(hazard.what), reports(section));
        assert_eq!(told_reports, what, "the reports of {}", hazard.number);
        for part in ["*Answer:* ", "*Shown by*"] {
            assert!(section.contains(part), "{} has no {part}", hazard.number);
        }
        let section = Page { file: PathBuf::new(), text: section.to_owned() };
        let named = section.named_tests();
        assert!(!named.is_empty(), "{} names no test", hazard.number);
        for (test, _) in named {
            assert!(hazard.is_shown_by(&test), "{test} is not in the row of {}", hazard.number);
        }
        told += 1;
    }
    let headings = pages.iter().map(|page| page.text.matches("\n### H").count());
    assert_eq!(headings.sum::<usize>(), told);
}

/// The names of the libraries are links only in a book that is built behind their pages.
#[test]
fn whoever_is_told_how_to_read_the_book_is_told_to_build_what_it_links_to() {
    let named = pages().iter().map(|page| page.text.matches("[`zk_").count()).sum::<usize>();
    assert!(named >= 5, "{named}");
    let pages_first = "cargo doc -p zk-client -p zk-recipes --no-deps && ";
    let mut told = 0;
    for file in ["README.md", "CHANGELOG.md", "zk-recipes/learn/book/src/lib.rs"] {
        let text = fs::read_to_string(tests().join("..").join(file)).unwrap();
        let commands = text.match_indices("cargo doc -p zk-book --no-deps");
        for (at, _) in commands {
            assert!(text[..at].ends_with(pages_first), "{file}");
            told += 1;
        }
    }
    assert_eq!(told, 2);
}

#[test]
fn every_number_that_is_named_is_in_the_catalogue() {
    let numbers = catalogue().into_iter().map(|entry| entry.number.trim_end_matches('*'));
    let numbers = numbers.collect::<Vec<_>>();
    let mut named = 0;
    for page in pages() {
        for word in page.text.split(|c: char| !c.is_ascii_alphanumeric()) {
            let is_number = word.len() == 3 && word[1..].bytes().all(|byte| byte.is_ascii_digit());
            if is_number && word.starts_with(['H', 'D']) {
                assert!(numbers.contains(&word), "{}: {word}", page.file.display());
                named += 1;
            }
        }
    }
    assert!(named > 50, "{named}");
}

#[test]
fn every_test_that_is_named_exists_and_is_linked_to_its_file() {
    let mut named = 0;
    for page in pages() {
        let links = page.links();
        for (test, label) in page.named_tests() {
            assert_eq!(trouble(&test), None);
            let label = label.unwrap_or_else(|| panic!("{test} is no link"));
            let link = links.iter().find(|(other, _)| other.as_ref() == Some(&label));
            let (_, path) = link.unwrap_or_else(|| panic!("{test}: no link [{label}]"));
            let (file, _) = test.split_once("::").unwrap();
            assert!(is_source(path, file), "{test} is not in {}", path.display());
            named += 1;
        }
    }
    assert!(named > 50, "{named}");
}

#[test]
fn every_link_to_a_file_leads_to_one_and_is_used() {
    for page in pages() {
        for (label, path) in page.links() {
            assert!(path.exists(), "{}: {}", page.file.display(), path.display());
            let is_used = label.is_none_or(|label| page.text.contains(&format!("][{label}]")));
            assert!(is_used, "{}: no use of {}", page.file.display(), path.display());
        }
    }
}

#[test]
fn every_mutant_and_every_simulation_that_is_named_exists() {
    let mutants = |name: &str| tests().join(format!("mutants/{name}.patch")).is_file();
    let read = |file: &str| fs::read_to_string(tests().join(file)).unwrap();
    let simulation =
        ["main", "faults"].map(|file| format!("simulation/tests/simulation/{file}.rs"));
    let simulation = simulation.map(|file| read(&file)).concat();
    let families = read("simulation/src/family.rs");
    let (mut runs, mut replays, mut of_mutants) = (0, 0, 0);
    for Page { text, .. } in pages() {
        let words = |before: &'static str| {
            text.split(before).skip(1).map(|rest| {
                let is_end = |c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c));
                rest.split(is_end).next().unwrap().to_owned()
            })
        };
        let named = ["tests/mutants/run ", "mutant(\"", "mutants/", "mutant `", "\n| `"];
        let named = named.into_iter().flat_map(words).filter(|name| name.contains('-'));
        for name in named {
            assert!(mutants(&name), "there is no mutant {name}");
            of_mutants += 1;
        }
        for name in words("cargo test -p zk-simulation ").filter(|name| !name.is_empty()) {
            let is_test = simulation.contains(&format!("fn {name}"));
            assert!(is_test, "there is no simulation {name}");
            runs += 1;
        }
        for name in words("ZK_SIM_FAMILY=") {
            let is_family = families.contains(&format!("        Self::{name},\n"));
            assert!(is_family, "there is no family {name}");
            replays += 1;
        }
    }
    assert!(of_mutants >= 10 && runs >= 2 && replays >= 2, "{of_mutants}, {runs}, {replays}");
}

#[test]
fn every_page_is_part_of_the_book_and_every_chapter_is_in_its_contents() {
    let book = fs::read_to_string(tests().join("../zk-recipes/learn/book/src/lib.rs")).unwrap();
    for Page { file, .. } in pages() {
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(book.contains(&format!("include_str!(\"chapters/{name}\")")), "{name}");
    }
    let chapters = book.lines().filter_map(|line| line.strip_prefix("pub mod ch"));
    let mut last = 0;
    for chapter in chapters {
        let name = format!("ch{}", chapter.trim_end_matches(" {}"));
        let number = name[2..4].parse::<u32>().unwrap();
        assert_eq!(number, last + 1, "{name}");
        assert!(book.contains(&format!("//! {number}. [")) && book.contains(&format!("({name})")));
        last = number;
    }
    assert!(last >= 11, "{last}");
}

#[test]
fn every_chapter_leads_to_the_one_before_and_to_the_next() {
    let book = fs::read_to_string(tests().join("../zk-recipes/learn/book/src/lib.rs")).unwrap();
    let names = book.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(" {}"));
    let names = names.collect::<Vec<_>>();
    let mut chapters = pages();
    // A chapter of two parts leads on from its second one.
    chapters.retain(|page| !page.file.ends_with("05-hazards-of-one.md"));
    chapters.sort_by_key(|page| page.file.file_name().map(|name| name.to_owned()));
    assert_eq!(chapters.len(), names.len());
    for (place, page) in chapters.iter().enumerate() {
        let (_, foot) = page.text.rsplit_once("\n---\n").unwrap();
        let before = place.checked_sub(1).map(|before| names[before]);
        for (word, name) in [("Before", before), ("Next", names.get(place + 1).copied())] {
            let link = name.map(|name| format!("](crate::{name})."));
            let line = foot.split(&format!("{word}: [")).nth(1);
            let leads = line.is_some_and(|line| link.as_ref().is_some_and(|it| line.contains(it)));
            assert_eq!(leads, link.is_some(), "{word} of {}: {foot}", page.file.display());
            assert_eq!(line.is_some(), link.is_some(), "{word} of {}", page.file.display());
        }
    }
}

#[test]
fn what_the_book_may_get_wrong_is_found_out() {
    let page = Page {
        file: tests().join("../zk-recipes/learn/book/src/chapters/wrong.md"),
        text: "\n```rust\nlet a = `lock/no::program`;\n```\n\
               [`lock/wait::nothing`][wait] and `lock/wait::unlinked`, [CURATOR](../nowhere.rs)\n\
               [wait]: ../../../../../tests/suites/lock/rw.rs\n"
            .to_owned(),
    };
    let label = Some("wait".to_owned());
    let named = [("lock/wait::nothing".to_owned(), label.clone())];
    let unlinked = ("lock/wait::unlinked".to_owned(), None);
    assert_eq!(page.named_tests(), [named, [unlinked]].concat());
    let links = page.links();
    assert_eq!(links.len(), 2);
    assert_eq!(links[0].0, label);
    assert!(!is_source(&links[0].1, "lock/wait") && is_source(&links[0].1, "lock/rw"));
    assert!(!links[1].1.exists());
    assert_eq!(
        reports("CURATOR-45, samuel/go-zookeeper #229, H01, 2^31-1"),
        ["CURATOR-45", "#229"]
    );
}
