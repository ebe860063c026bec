//! The committed corpora of the fuzz targets, as tests without a fuzzer run them.
//!
//! They are in the repository, not in the packages of the crates whose targets they are for.

use std::path::PathBuf;
use std::{env, fs, panic};

/// With this variable set, the seeds of the corpora are written instead of compared.
const WRITE: &str = "WRITE_SEEDS";

/// The folder with the inputs of a target.
pub fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Every committed input of a target, with the path of its file.
///
/// # Panics
///
/// There is none: a test over nothing proves nothing.
pub fn inputs(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = folder(target);
    let files = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("no corpus in {}: {error}", folder.display()));
    let paths = files.map(|file| file.expect("an input").path());
    let mut inputs: Vec<_> =
        paths.map(|path| (path.clone(), fs::read(path).expect("an input"))).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "no input in {}", folder.display());
    inputs
}

/// Runs the body of a target over its corpus.
///
/// # Panics
///
/// A claim fails for one of the inputs, or there is none.
pub fn check(target: &str, body: fn(&[u8])) {
    for (path, input) in inputs(target) {
        run(body, &path.display().to_string(), &input);
    }
}

/// Runs one input, and names it if a claim fails.
///
/// # Panics
///
/// A claim fails.
pub fn run(body: fn(&[u8]), name: &str, input: &[u8]) {
    if panic::catch_unwind(|| body(input)).is_err() {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{name} fails: {hex}");
    }
}

/// Compares a file of the corpora with what a test makes, or writes it if the environment has the
/// variable `WRITE_SEEDS`.
///
/// # Panics
///
/// The file differs.
pub fn check_file(path: &str, made: &[u8]) {
    let path = folder(path);
    if env::var_os(WRITE).is_some() {
        fs::write(&path, made).expect("a file of the corpora");
    }
    let committed = fs::read(&path).unwrap_or_default();
    assert!(committed == made, "{} differs: run again with {WRITE}=1", path.display());
}

/// Writes what a test makes for a fuzzer, in the folder `fuzz`, if the environment has the variable
/// `WRITE_SEEDS`.
///
/// # Panics
///
/// The file cannot be written.
pub fn offer(path: &str, made: &[u8]) {
    if env::var_os(WRITE).is_some() {
        let path = folder("..").join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).expect("a folder for a fuzzer");
        }
        fs::write(&path, made).expect("a file for a fuzzer");
    }
}
