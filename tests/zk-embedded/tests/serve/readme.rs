//! The README: its tables are those of the program, and its script for a shell runs.

use tokio::process::Command;

use crate::program::{Program, ZK_EMBEDDED, run, run_command};

const README: &str = include_str!("../../README.md");

/// The first block of code of this language.
fn block(language: &str) -> &'static str {
    let (_, rest) = README.split_once(&format!("```{language}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

#[tokio::test]
async fn its_table_of_commands_is_what_help_prints() {
    let mut program = Program::start(&[]).await;
    let mut rows = Vec::new();
    let mut line = program.ask("help").await;
    while line != "ok" {
        let (usage, what) = line.strip_prefix("# ").unwrap().split_once("  ").unwrap();
        rows.push(format!("| `{usage}` | {} |", what.trim_start()));
        line = program.line().await;
    }
    assert!(rows.len() > 30, "{rows:#?}");
    let (_, table) = README.split_once("| command | what it does |\n|---|---|\n").unwrap();
    let table: Vec<_> = table.lines().take_while(|line| line.starts_with('|')).collect();
    assert_eq!(table, rows, "the README's rows on the left, those of `help` on the right");
    program.end().await;
}

#[tokio::test]
async fn its_options_are_those_of_help() {
    assert_eq!(block("text"), run(&["--help"]).await.output);
}

#[cfg(unix)]
#[tokio::test]
async fn its_script_for_a_shell_runs() {
    let folder = std::path::Path::new(ZK_EMBEDDED).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    let ended = run_command(bash.args(["-euc", block("sh")]).env("PATH", path)).await;
    assert_eq!((ended.status, &*ended.errors), (Some(0), ""), "{ended:?}");
    assert_eq!(ended.output, "imok\nok zookeeper\n");
}
