//! The course runs to its end without a key press, and each of its options shows its part.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::Result;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
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

/// A place where the book names a chapter of the tour.
struct Named {
    /// The chapter of the book.
    page: usize,
    /// The chapter of the tour, and its title.
    number: usize,
    title: String,
    /// The scene of the playground that is named beside it.
    scene: Option<String>,
}

fn named_by_the_book() -> Result<Vec<Named>> {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../zk-recipes/learn/book/src/chapters");
    let mut named = Vec::new();
    for file in fs::read_dir(folder)? {
        let file = file?;
        let page = file.file_name().to_string_lossy()[..2].parse::<usize>()?;
        for reference in fs::read_to_string(file.path())?.split("tour -- --chapter ").skip(1) {
            let (number, rest) = reference.split_once("`,").unwrap();
            let rest = rest.trim_start().strip_prefix('*').unwrap();
            let (title, rest) = rest.split_once('*').unwrap();
            let rest = rest.split_whitespace().take(2).collect::<Vec<_>>();
            let scene = rest.strip_prefix(&["(scene"]).map(|rest| {
                let scene = rest[0].split('`').nth(1).unwrap();
                scene.strip_prefix('#').unwrap().to_owned()
            });
            let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
            named.push(Named { page, number: number.parse()?, title, scene });
        }
    }
    Ok(named)
}

#[tokio::test]
async fn each_chapter_that_the_book_names_has_the_title_that_it_names() -> Result<()> {
    let list = run("tour", &["--list"]).await?;
    let named = named_by_the_book()?;
    for Named { number, title, .. } in &named {
        assert!(list.contains(&format!("{number:>2}  {title}\n")), "{number}, {title}");
    }
    let chapters = named.iter().map(|named| named.number).collect::<BTreeSet<_>>();
    assert_eq!(chapters.len(), 23, "{chapters:?}");
    Ok(())
}

#[tokio::test]
async fn tour_and_book_name_each_other_and_the_same_scene() -> Result<()> {
    let named = named_by_the_book()?;
    for number in 1..=23 {
        let shown = run("tour", &["--chapter", &number.to_string()]).await?;
        let (_, place) = shown.split_once("In the book: chapter ").unwrap();
        let (place, _) = place.split_once("\n\n").unwrap();
        let (chapter, rest) = place.split_once(',').unwrap();
        let scene = rest.split_once("(#").and_then(|(_, scene)| scene.split_once(')'));
        let scene = scene.map(|(scene, _)| scene.to_owned());
        let chapter = chapter.parse::<usize>()?;
        let is_back =
            |named: &Named| (named.page, named.number) == (chapter, number) && named.scene == scene;
        assert!(named.iter().any(is_back), "{chapter} does not name {number} and {scene:?}");
        for named in named.iter().filter(|named| named.number == number) {
            let is_other = named.scene.is_some() && named.scene != scene;
            assert!(!is_other, "chapter {number}: {:?}", named.scene);
        }
    }
    Ok(())
}

/// The levels of the gym name chapters of the tour with their scenes, and those name the levels.
#[tokio::test]
async fn tour_and_gym_name_each_other_and_the_same_scene() -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../zk-recipes/learn/gym/README.md");
    let page = fs::read_to_string(file)?;
    let is_row = |line: &&str| line.starts_with("| ") && line.contains("(`#");
    let mut named = BTreeSet::new();
    for row in page.lines().filter(is_row) {
        let cells = row.split('|').map(str::trim).collect::<Vec<_>>();
        let [_, level, .., chapters, ""] = cells[..] else { panic!("{row}") };
        let (number, title) = level.split_once(' ').unwrap();
        for chapter in chapters.split(", ") {
            let (chapter, scene) = chapter.split_once(" (`#").unwrap();
            let scene = scene.strip_suffix("`)").unwrap();
            let shown = run("tour", &["--chapter", chapter]).await?;
            let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            let back = format!("(#{scene}). In the gym: level {number}, {title}.");
            assert!(shown.contains(&back), "chapter {chapter} does not say {back}");
        }
        named.insert(number.to_owned());
    }
    assert_eq!(named.len(), 9, "{named:?}");
    Ok(())
}

#[tokio::test]
async fn the_program_of_a_broken_lock_says_what_its_helpers_do() -> Result<()> {
    let shown = run("tour", &["--chapter", "5"]).await?;
    let (program, rest) = shown.split_once("where nothing is broken, it calls:").unwrap();
    for helper in ["nearest_ahead", "wait_until_gone"] {
        assert!(program.contains(&format!("{helper}(")), "{program}");
        assert!(rest.contains(&format!("\n    {helper}: ")), "{helper}: {rest}");
    }
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

/// The tour on a terminal of its own, where these keys are pressed.
async fn on_a_terminal(arguments: &str, keys: &str) -> Result<String> {
    // Builds it, if that was not done yet.
    run("tour", &["--list"]).await?;
    let tests = std::env::current_exe()?;
    let tour = tests.ancestors().nth(2).unwrap().join("examples/tour");
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--command"])
        .arg(format!("{} {arguments}", tour.display()))
        .arg("/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    // The end of the keys is the end of the terminal's input.
    script.stdin.take().unwrap().write_all(keys.as_bytes()).await?;
    let said = script.wait_with_output().await?;
    assert!(said.status.success(), "{said:?}");
    Ok(String::from_utf8(said.stdout)?)
}

const PROMPT: &str = "[Enter] goes on";

#[tokio::test]
async fn on_a_terminal_the_enter_key_is_waited_for_unless_that_is_not_wanted() -> Result<()> {
    let shown = on_a_terminal("--chapter 12", "\nq\n").await?;
    assert_eq!(shown.matches(PROMPT).count(), 2, "{shown}");
    assert!(shown.contains("Ana -> create2") && !shown.contains("CHO CHANGES HER MIND"), "{shown}");
    for arguments in ["--chapter 12 --no-step --pace 0", "--chapter 12 --pace 0"] {
        let shown = on_a_terminal(arguments, "").await?;
        assert!(shown.contains("CHO CHANGES HER MIND"), "{arguments}: {shown}");
        assert!(!shown.contains(PROMPT), "{arguments}: {shown}");
    }
    Ok(())
}

#[tokio::test]
async fn where_nobody_is_at_a_keyboard_nobody_is_waited_for() -> Result<()> {
    let shown = run("tour", &["--chapter", "12"]).await?;
    assert!(!shown.contains(PROMPT), "{shown}");
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
