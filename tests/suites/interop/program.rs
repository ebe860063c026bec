//! The program `zk-embedded` from other languages: the examples of its README, as they stand there.

use std::path::PathBuf;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;
use zk_test_support::foreign::{Program, with_curator};

const README: &str = include_str!("../../zk-embedded/README.md");

/// The first block of code of this language.
fn block(language: &str) -> Result<&'static str> {
    let (_, rest) = README.split_once(&format!("```{language}\n")).context("no such block")?;
    Ok(rest.split_once("```").context("the end of a block")?.0)
}

/// The program, which Cargo builds with the whole workspace.
pub(crate) fn zk_embedded() -> Result<PathBuf> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_contender")).with_file_name("zk-embedded");
    ensure!(program.exists(), "no zk-embedded: cargo build --workspace --bins");
    Ok(program)
}

/// Runs an example, which finds the program where it looks for all of them.
async fn run(mut command: Command) -> Result<()> {
    let folder = zk_embedded()?.parent().context("a folder")?.to_owned();
    let mut path = vec![folder];
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    command.env("PATH", env::join_paths(path)?);
    Program::start(command)?.finish().await
}

#[tokio::test]
async fn the_example_with_kazoo_runs() -> Result<()> {
    let python = env::var_os("ZK_INTEROP_PYTHON")
        .context("ZK_INTEROP_PYTHON is not set; tests/run installs kazoo and sets it")?;
    let mut command = Command::new(python);
    command.args(["-c", block("python")?]);
    run(command).await
}

#[tokio::test]
async fn the_example_with_curator_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("LockTest.java");
    fs::write(&source, block("java")?)?;
    run(with_curator(&source)).await
}
