//! No test is lost: each test file is compiled, and a test that did not run is reported.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::width::files;

/// The files below `folder` of a package that are part of no test program. Cargo finds the programs
/// in a folder `tests` by itself; those in another folder are named in the manifest.
fn strays(package: &Path, folder: &str, manifest: &str) -> Vec<String> {
    let root = package.join(folder);
    let entries = |folder: &Path| {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
    };
    let is_program = |file: &Path| {
        let path = file.strip_prefix(package).unwrap().to_str().unwrap().replace('\\', "/");
        manifest.contains(&format!("path = \"{path}\""))
    };
    let is_found = folder == "tests";
    let mut strays = Vec::new();
    for entry in entries(&root) {
        if entry.is_file() {
            strays.extend((!is_found && !is_program(&entry)).then_some(entry));
            continue;
        }
        let main = entry.join("main.rs");
        // A module of programs beside it.
        if entry.join("mod.rs").exists() {
            continue;
        }
        let text = fs::read_to_string(&main).unwrap_or_default();
        for file in entries(&entry) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            let is_module = text.lines().any(|line| line == format!("mod {name};"));
            let is_main = file == main && is_found;
            if !(is_main || is_module || is_program(&file)) {
                strays.push(file);
            }
        }
    }
    let name = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
    let mut names = strays.iter().map(name).collect::<Vec<_>>();
    names.sort();
    names
}

#[test]
fn every_file_of_tests_is_compiled() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = "../zk-recipes/program";
    let folders = [
        ("", "suites"),
        ("../fuzz/kit", "tests"),
        ("../zk-recipes/learn/playground", "tests"),
        ("../zk-recipes/learn/gym", "tests"),
        ("simulation", "tests"),
        ("zk-embedded", "tests"),
        (program, "tests"),
    ];
    for (package, folder) in folders {
        let package = tests.join(package);
        let manifest = fs::read_to_string(package.join("Cargo.toml")).unwrap();
        assert_eq!(strays(&package, folder, &manifest), [""; 0], "{}", package.display());
    }
}

#[test]
fn a_file_of_no_program_is_found_out() {
    let package = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        for folder in ["tests", "suites"] {
            let path = package.path().join(folder).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    };
    write("whole/main.rs", "mod here;\n");
    write("whole/here.rs", "");
    write("whole/her.rs", "");
    write("apart/named.rs", "");
    write("apart/forgotten.rs", "");
    write("alone.rs", "");
    let manifest = "path = \"tests/apart/named.rs\"\npath = \"suites/apart/named.rs\"\n";
    let found = ["apart/forgotten.rs", "whole/her.rs"];
    assert_eq!(strays(package.path(), "tests", manifest), found);
    let unnamed = ["alone.rs", "apart/forgotten.rs", "whole/her.rs", "whole/main.rs"];
    assert_eq!(strays(package.path(), "suites", manifest), unnamed);
}

/// `tests/run` does not build the unit tests of these packages.
#[test]
fn packages_whose_unit_tests_are_not_built_have_none() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let run = read("tests/run");
    let list = run.lines().find(|line| line.starts_with("no_unit_tests=")).unwrap();
    let mut names: BTreeSet<_> =
        list.split([' ', ')']).filter(|word| word.starts_with("zk-")).collect();
    assert!(!names.is_empty(), "{list}");
    for member in read("Cargo.toml").split('"') {
        let manifest = fs::read_to_string(root.join(member).join("Cargo.toml")).unwrap_or_default();
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap_or("");
        if names.remove(name.trim_matches('"')) {
            for file in files(&root.join(member).join("src")) {
                let text = fs::read_to_string(&file).unwrap();
                let has_test = text.contains("#[test]") || text.contains("#[tokio::test");
                assert!(!has_test, "nobody runs the tests in {}", file.display());
            }
        }
    }
    assert!(names.is_empty(), "there are no such packages: {names:?}");
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
