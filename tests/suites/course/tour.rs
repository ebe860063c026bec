//! The course runs to its end without a key press, and each of its options shows its part.

use std::fs;
use std::path::Path;

use anyhow::Result;
use zk_test_support::tour::{check, run};

#[tokio::test]
async fn the_tour_needs_no_other_server() -> Result<()> {
    check(&[]).await
}

/// The server is in this process and the time is virtual, so there is nothing to differ.
#[tokio::test]
async fn the_tour_is_the_same_each_time() -> Result<()> {
    let (first, second) = (run("tour", &[]).await?, run("tour", &[]).await?);
    let difference = first.lines().zip(second.lines()).find(|(first, second)| first != second);
    assert_eq!(difference, None);
    assert_eq!(first.len(), second.len());
    Ok(())
}

#[tokio::test]
async fn each_chapter_of_the_list_is_shown_alone_under_its_title() -> Result<()> {
    let list = run("tour", &["--list"]).await?;
    let is_number = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let chapters = list.lines().filter(is_number).collect::<Vec<_>>();
    assert_eq!(chapters.len(), 23, "{list}");
    for (number, chapter) in (1..).zip(chapters) {
        let title = chapter.trim().strip_prefix(&number.to_string()).unwrap().trim();
        let shown = run("tour", &["--chapter", &number.to_string()]).await?;
        let heading = format!("\n{number}. {}\n", title.to_uppercase());
        assert!(shown.starts_with(&heading), "{heading}: {shown}");
    }
    assert!(run("tour", &["--chapter", "24"]).await.is_err());
    Ok(())
}

#[tokio::test]
async fn each_chapter_that_the_book_names_has_the_title_that_it_names() -> Result<()> {
    let list = run("tour", &["--list"]).await?;
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../zk-recipes/learn/book/src/chapters");
    let mut named = 0;
    for page in fs::read_dir(folder)? {
        let page = fs::read_to_string(page?.path())?;
        for reference in page.split("tour -- --chapter ").skip(1) {
            let (number, title) = reference.split_once("`,").unwrap();
            let title = title.trim_start().strip_prefix('*').unwrap();
            let (title, _) = title.split_once('*').unwrap();
            assert!(list.contains(&format!("{number:>2}  {title}\n")), "{number}, {title}");
            named += 1;
        }
    }
    assert!(named >= 15, "{named}");
    Ok(())
}

#[tokio::test]
async fn the_broken_locks_are_shown_alone_each_with_its_repair() -> Result<()> {
    let shown = run("tour", &["--naive"]).await?;
    for (what, times) in [("THE REPAIR.", 9), ("  Broken: ", 9), ("  It holds: ", 9), ("->", 0)] {
        let found = shown.lines().filter(|line| line.trim_start().starts_with(what.trim()));
        assert_eq!(found.count(), times, "{what}: {shown}");
    }
    Ok(())
}

#[tokio::test]
async fn each_answer_points_at_a_chapter_with_the_title_that_it_names() -> Result<()> {
    let list = run("tour", &["--list"]).await?;
    let shown = run("tour", &["--questions"]).await?;
    let references = shown.lines().filter_map(|line| line.strip_prefix("See chapter "));
    let references = references.collect::<Vec<_>>();
    assert_eq!(references.len(), shown.matches("\nQuestion ").count(), "{shown}");
    for reference in references {
        let (chapter, _) = reference.split_once(": tour").unwrap();
        let (number, title) = chapter.split_once(", ").unwrap();
        assert!(list.contains(&format!("{number:>2}  {title}\n")), "{reference}");
    }
    Ok(())
}

/// Step by step, with nobody at the keyboard: the state is shown once, and then the tour goes on.
#[tokio::test]
async fn a_step_shows_the_tree_and_the_clients() -> Result<()> {
    let shown = run("tour", &["--step", "--chapter", "12"]).await?;
    let queue = "[the queue: 0 Ana]";
    for line in [queue, "The tree now:", "The clients now:", "Ana: connected", "[Enter]"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(shown.contains("Ben -> delete"), "{shown}");
    Ok(())
}

/// In the chapter with several folders, each node and each list says which folder it is of.
#[tokio::test]
async fn frames_of_several_locks_name_their_folders() -> Result<()> {
    let list = run("tour", &["--list"]).await?;
    let chapter = list.lines().find(|line| line.ends_with("Several locks at once")).unwrap();
    let (number, _) = chapter.trim().split_once(' ').unwrap();
    let shown = run("tour", &["--chapter", number]).await?;
    let is_about_a_folder = |line: &&str| line.contains("_c_") || line.contains("getChildren2");
    for line in shown.lines().filter(is_about_a_folder) {
        assert!(line.contains("catalogue") || line.contains("stock"), "{line}");
    }
    for line in ["create catalogue/_c_", "create stock/_c_", "<- in stock: lock-"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    Ok(())
}

#[tokio::test]
async fn a_pipe_gets_no_colours_and_no_wrong_option_is_ignored() -> Result<()> {
    let shown = run("tour", &["--chapter", "3", "--pace", "1"]).await?;
    assert!(!shown.contains('\x1b'), "{shown}");
    assert!(run("tour", &["--chapters"]).await.is_err());
    Ok(())
}

/// The page of the playground, with every scene in it.
#[tokio::test]
async fn the_scenes_are_written_as_one_page() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("scenes.html");
    let said = run("tour", &["--html", file.to_str().unwrap()]).await?;
    assert!(said.contains("scenes.html"), "{said}");
    let page = std::fs::read_to_string(file)?;
    // What is in that page is a test of the playground.
    assert!(page.contains("id=\"scenes\""));
    Ok(())
}
