//! What the gym says beside "passed": errors of the program itself, what never fired, the page, and
//! the report.

use std::collections::HashSet;

use zk_client::{Client, CreateOptions};
use zk_gym::{Break, Broken, FOLDER, Finding, Lock, Result, Solution, examine, report};

use crate::mistakes::MISTAKES;
use crate::{EFFORT, LEVELS, naive, solutions};

fn broken(level: usize, solution: &Solution) -> Broken {
    match examine(&LEVELS[level - 1], solution, EFFORT).result {
        Finding::Broken(broken) => *broken,
        other => panic!("{other:?}"),
    }
}

/// Does something else than to acquire a lock.
struct Instead(fn());

impl Lock for Instead {
    type Held = ();

    async fn acquire(&self, client: &Client) -> Result<()> {
        (self.0)();
        client.get_data("/missing").await?;
        Ok(())
    }

    async fn release(&self, _: &Client, (): ()) -> Result<()> {
        Ok(())
    }
}

/// Asks whether the lock is free, again and again.
struct Polls;

impl Lock for Polls {
    type Held = ();

    async fn acquire(&self, client: &Client) -> Result<()> {
        while client.exists("/missing").await?.is_none() {}
        Ok(())
    }

    async fn release(&self, _: &Client, (): ()) -> Result<()> {
        Ok(())
    }
}

/// A queue of nodes that stay when their processes die.
struct Persistent;

impl Lock for Persistent {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        let options = CreateOptions::persistent().sequential();
        let ours = client.create(&format!("{FOLDER}/lock-"), b"", &options).await?.path;
        naive::queue::wait_for_turn(client, &ours).await?;
        Ok(ours)
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        Ok(client.delete(&held, None).await?)
    }
}

#[test]
fn a_node_that_outlives_its_session_is_told() {
    let broken = broken(3, &Solution::lock(|_| Persistent));
    assert_eq!((broken.kind, broken.contenders), (Break::Stuck, 1));
    assert!(broken.reason.contains("is persistent"), "{broken}");
}

/// Watches the folder, and looks again whenever anything has changed.
struct WatchesAll;

impl Lock for WatchesAll {
    type Held = String;

    async fn acquire(&self, client: &Client) -> Result<String> {
        let ours = naive::queue::join(client, "lock-").await?;
        loop {
            let (list, mut watcher) = client.get_children_and_watch(FOLDER).await?;
            let first = list.names.iter().min_by_key(|name| naive::queue::number(name));
            if first.is_some_and(|first| ours.ends_with(first)) {
                return Ok(ours);
            }
            watcher.changed().await?;
        }
    }

    async fn release(&self, client: &Client, held: String) -> Result<()> {
        Ok(client.delete(&held, None).await?)
    }
}

#[test]
fn a_watch_on_the_folder_is_a_herd_and_still_a_lock() {
    let lock = Solution::lock(|_| WatchesAll);
    assert_eq!(broken(2, &lock).kind, Break::Herd);
    assert!(matches!(examine(&LEVELS[0], &lock, EFFORT).result, Finding::Passed(_)));
}

#[test]
fn a_lock_that_polls_passes_the_first_level_which_says_so() {
    for mistake in MISTAKES.iter().filter(|mistake| mistake.kind == Break::Polling) {
        let verdict = examine(&LEVELS[0], &(mistake.solution)(), EFFORT);
        let said = verdict.to_string();
        assert!(matches!(verdict.result, Finding::Passed(_)), "{}: {said}", mistake.name);
        assert!(said.contains("Level 2 refuses that"), "{}: {said}", mistake.name);
    }
    let said = examine(&LEVELS[0], &solutions::solution(1).unwrap(), EFFORT).to_string();
    assert!(!said.contains("Level 2"), "{said}");
}

#[test]
fn an_error_of_the_program_itself_is_told() {
    let broken = broken(1, &Solution::lock(|_| Instead(|| ())));
    assert_eq!(broken.kind, Break::Error);
    assert!(broken.text.contains("NoNode"), "{}", broken.text);
}

#[test]
fn an_error_that_does_not_pass_is_told() {
    // The folder may be gone there, and this solution does not make it.
    let broken = broken(6, &solutions::solution(5).unwrap());
    assert_eq!(broken.kind, Break::Error, "{broken}");
    assert!(broken.text.contains("one error after another"), "{broken}");
    assert!(broken.reason.contains("The folder is gone"), "{broken}");
    assert!(broken.lines.len() < 60, "{broken}");
}

#[test]
fn a_process_that_has_crashed_is_told_to_start_again() {
    let wrong_wake_up = MISTAKES.iter().find(|mistake| mistake.name == "wrong_wake_up").unwrap();
    let broken = broken(3, &(wrong_wake_up.solution)());
    let lines = broken.lines.join("\n");
    let restarts = lines.matches("starts again, with a new session").count();
    assert_eq!(lines.matches("crashes").count(), restarts, "{lines}");
}

#[test]
fn a_panic_is_told() {
    let broken = broken(1, &Solution::lock(|_| Instead(|| panic!("a program of a student"))));
    assert_eq!(broken.kind, Break::Panic);
}

#[test]
fn a_program_that_polls_is_told_so() {
    let broken = broken(1, &Solution::lock(|_| Polls));
    assert_eq!((broken.kind, broken.contenders), (Break::Busy, 1));
}

#[test]
fn every_run_is_a_page_with_its_frames_and_a_report() {
    for mistake in &MISTAKES {
        let verdict = examine(&LEVELS[mistake.level - 1], &(mistake.solution)(), EFFORT);
        let page = verdict.page().unwrap();
        let report: serde_json::Value = serde_json::from_str(&report(&[verdict])).unwrap();
        let level = &report["levels"][0];
        assert_eq!(level["result"], "broken");
        let why = &level["broken"];
        assert_eq!(why["faults_not_fired"], serde_json::json!([]), "{}", mistake.name);
        // What the lines say is in the data of the page.
        for text in [&why["text"], &serde_json::json!("create2")] {
            assert!(page.contains(text.as_str().unwrap()), "{}: {text}", mistake.name);
        }
        let requests = page.matches("\"role\":\"request\"").count() as u64;
        assert_eq!(why["requests"].as_u64(), Some(requests), "{}", mistake.name);
    }
}

#[test]
fn the_page_tells_every_kind_of_verdict_in_the_words_of_the_gym_and_when_it_breaks() {
    let others = [
        (1, Solution::lock(|_| Instead(|| ()))),
        (1, Solution::lock(|_| Instead(|| panic!("a program of a student")))),
        (1, Solution::lock(|_| Polls)),
    ];
    let mistakes = MISTAKES.iter().map(|mistake| (mistake.level, (mistake.solution)()));
    let mut kinds = HashSet::new();
    for (level, solution) in mistakes.chain(others) {
        let verdict = examine(&LEVELS[level - 1], &solution, EFFORT);
        let page = verdict.page().unwrap();
        let Finding::Broken(broken) = verdict.result else {
            panic!("level {level}");
        };
        let (_, data) = page.split_once("id=\"scenes\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        let scene = &data["scenes"][0];
        let told = &scene["verdict"];
        assert_eq!((&told["kind"], &told["holds"]), (&"told".into(), &false.into()), "{broken}");
        assert_eq!(told["text"], format!("{}. {}", broken.text, broken.reason), "{broken}");
        // The run ends as it breaks. One without end is longer than a page.
        let last = scene["events"].as_array().unwrap().last().unwrap();
        let [ended, from, to] =
            [&last["at_us"], &told["breach"]["from_us"], &told["breach"]["to_us"]];
        if broken.kind == Break::Busy {
            assert!(from.as_u64() > ended.as_u64(), "{broken}");
        } else {
            assert_eq!(last["text"], format!("*** {}", broken.text), "{broken}");
            assert_eq!((from, to), (ended, ended), "{broken}");
        }
        kinds.insert(format!("{:?}", broken.kind));
    }
    assert_eq!(kinds.len(), 8, "{kinds:?}");
}

#[test]
fn a_fault_has_the_number_of_the_frame_that_stands_ahead_of_it() {
    let mut told = 0;
    for mistake in &MISTAKES {
        let level = &LEVELS[mistake.level - 1];
        let broken = broken(mistake.level, &(mistake.solution)());
        for struck in &broken.faults {
            let (name, number) = struck.split_once('@').unwrap();
            let fault = level.faults.iter().find(|fault| format!("{fault:?}") == name).unwrap();
            let at = broken.lines.iter().position(|line| line.ends_with(fault.words())).unwrap();
            let mut ahead = broken.lines[..at].iter().map(|line| line.trim());
            let frame = ahead.find(|line| line.split(' ').next() == Some(&format!("#{number}")));
            let frame = frame.unwrap_or_else(|| panic!("{}: {broken}", mistake.name));
            // Some faults strike a millisecond later, when other frames have come.
            let [since, until] = [frame, broken.lines[at].as_str()].map(seconds);
            let who = broken.lines[at].split_whitespace().nth(2).unwrap();
            assert!((0.0..0.0015).contains(&(until - since)), "{}: {broken}", mistake.name);
            assert!(frame.contains(who), "{}: {broken}", mistake.name);
            told += 1;
        }
    }
    assert!(told >= 4, "{told}");
}

/// The time in a line of a trace.
fn seconds(line: &str) -> f64 {
    let (ahead, _) = line.split_once(" s ").unwrap();
    ahead.rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_same_program_gets_the_same_verdict() {
    for mistake in &MISTAKES {
        let verdict = || {
            let level = &LEVELS[mistake.level - 1];
            report(&[examine(level, &(mistake.solution)(), EFFORT)])
        };
        assert_eq!(verdict(), verdict(), "{}", mistake.name);
    }
}

#[test]
fn the_report_of_a_level_that_is_passed_has_its_costs() {
    let solution = solutions::solution(2).unwrap();
    let verdict = examine(&LEVELS[1], &solution, EFFORT);
    let report: serde_json::Value = serde_json::from_str(&report(&[verdict])).unwrap();
    let level = &report["levels"][0];
    assert_eq!((&level["level"], &level["result"]), (&2.into(), &"passed".into()));
    // A create, a look and a delete.
    assert_eq!(level["requests_per_turn"]["yours"]["alone"], 3.0);
}
