//! No test is lost: each test file is compiled, and a test that did not run is reported.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The files below `tests` that are part of no test program.
fn strays(tests: &Path, manifest: &str) -> Vec<String> {
    let entries = |folder: &Path| {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let mut strays = Vec::new();
    for folder in entries(tests).into_iter().filter(|path| path.is_dir()) {
        let main = fs::read_to_string(folder.join("main.rs")).unwrap_or_default();
        for file in entries(&folder) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let path = file.strip_prefix(tests).unwrap().to_str().unwrap().replace('\\', "/");
            let is_module = main.lines().any(|line| line == format!("mod {name};"));
            let is_program = manifest.contains(&format!("path = \"tests/{path}\""));
            if !(name == "main" || is_module || is_program) {
                strays.push(path);
            }
        }
    }
    strays.sort();
    strays
}

#[test]
fn every_file_of_tests_is_compiled() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    for package in ["", "locks", "simulation"] {
        let package = tests.join(package);
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        assert_eq!(strays(&package.join("tests"), &manifest), [""; 0], "{}", package.display());
    }
}

#[test]
fn a_file_of_no_program_is_found_out() {
    let tests = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        fs::create_dir_all(tests.path().join(path).parent().unwrap()).unwrap();
        fs::write(tests.path().join(path), text).unwrap();
    };
    write("whole/main.rs", "mod here;\n");
    write("whole/here.rs", "");
    write("whole/her.rs", "");
    write("apart/named.rs", "");
    write("apart/forgotten.rs", "");
    write("alone.rs", "");
    let manifest = "[[test]]\nname = \"apart_named\"\npath = \"tests/apart/named.rs\"\n";
    assert_eq!(strays(tests.path(), manifest), ["apart/forgotten.rs", "whole/her.rs"]);
}

/// What `cargo test -- --list` prints for two programs.
const LISTED: &str = "\
     Running unittests src/lib.rs (target/debug/deps/zk_proto-1)
frames::are_cut: test
frames::are_whole: test

2 tests, 0 benchmarks
     Running tests/corpus.rs (target/debug/deps/corpus-2)
frames::are_cut: test

1 test, 0 benchmarks
";

/// Runs `tests/unrun`. Returns true if it succeeded, and its output.
fn unrun(outputs: &[&str]) -> (bool, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: String, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let list = file("list".to_owned(), LISTED);
    let outputs = outputs.iter().enumerate();
    let outputs = outputs.map(|(number, output)| file(number.to_string(), output));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("unrun");
    let run = Command::new(script).arg(list).args(outputs).output().unwrap();
    let said = [run.stdout, run.stderr].concat();
    (run.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn a_test_that_did_not_run_is_found_out() {
    let library = "     Running unittests src/lib.rs (target/debug/deps/zk_proto-1)
test frames::are_cut ... ok
test frames::are_whole - should panic ... ok
";
    let corpus = "     Running tests/corpus.rs (target/debug/deps/corpus-2)\n";
    let its_test = format!("{corpus}test frames::are_cut ... ok\n");
    let (all, said) = unrun(&[&its_test, library]);
    assert!(all && said.contains("all of the 3 listed"), "{said}");

    // The test of this name ran in another program, and was ignored in this one.
    let ignored = format!("{corpus}test frames::are_cut ... ignored\n");
    for output in ["", &ignored] {
        let (all, said) = unrun(&[library, output]);
        assert!(!all && said.contains("corpus-2) frames::are_cut\n"), "{said}");
        assert!(!said.contains("zk_proto"), "{said}");
    }
}
