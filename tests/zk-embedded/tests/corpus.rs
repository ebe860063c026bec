//! The fuzz target without a fuzzer: its body runs over the committed corpus, and over programs
//! that look random and are the same in every run.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod seeds;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use zk_embedded::fuzz::{self, steps};

use seeds::seeds;

/// How many generated programs to run, beside those of the corpus.
const PROGRAMS: u64 = 1000;

/// With this variable set, the seeds are written instead of compared.
const WRITE: &str = "WRITE_SEEDS";

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/server")
}

/// Runs one input, and prints it if a claim fails.
fn run(name: &str, input: &[u8]) {
    if std::panic::catch_unwind(|| fuzz::server(input)).is_err() {
        let hex: String = input.iter().map(|byte| format!("{byte:02x}")).collect();
        panic!("{name} fails: {hex}");
    }
}

/// Numbers that look random and are the same in every run (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }
}

/// Two clients, and then random bytes.
fn any_steps(numbers: &mut Numbers) -> Vec<u8> {
    let mut program = vec![numbers.byte(), steps::ARRIVE, 0, steps::ARRIVE, 1];
    let length = numbers.below(200);
    program.extend(std::iter::repeat_with(|| numbers.byte()).take(length));
    program
}

/// The steps of two seeds, one behind the other, with a few bytes changed.
fn changed_seeds(numbers: &mut Numbers, seeds: &[&[u8]]) -> Vec<u8> {
    let mut program = seeds[numbers.below(seeds.len())].to_vec();
    program.extend(&seeds[numbers.below(seeds.len())][1..]);
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(program.len());
        match numbers.below(3) {
            0 => program[at] = numbers.byte(),
            1 => program.insert(at, numbers.byte()),
            _ => program[at] = program[at].wrapping_add(1),
        }
    }
    program
}

#[test]
fn server_holds_over_its_corpus() {
    let files = fs::read_dir(corpus()).unwrap_or_else(|error| {
        panic!("the corpus is in the repository, not in the package: {error}")
    });
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no input in {}", corpus().display());
    for file in files {
        run(&file.display().to_string(), &fs::read(&file).unwrap());
    }
}

#[test]
fn server_holds_over_made_up_programs() {
    let mut numbers = Numbers(1);
    for round in 0..PROGRAMS {
        run(&format!("program {round}"), &any_steps(&mut numbers));
    }
}

#[test]
fn server_holds_over_changed_seeds() {
    let seeds = seeds();
    let seeds: Vec<&[u8]> = seeds.values().map(Vec::as_slice).collect();
    let mut numbers = Numbers(2);
    for round in 0..PROGRAMS {
        run(&format!("round {round}"), &changed_seeds(&mut numbers, &seeds));
    }
}

#[test]
fn the_seeds_are_in_the_corpus() {
    let seeds: BTreeMap<&str, Vec<u8>> = seeds();
    for (name, seed) in &seeds {
        let path = corpus().join(name);
        if std::env::var_os(WRITE).is_some() {
            fs::create_dir_all(corpus()).unwrap();
            fs::write(&path, seed).unwrap();
        }
        let committed = fs::read(&path).unwrap_or_default();
        assert_eq!(committed, *seed, "{}: run again with {WRITE}=1", path.display());
    }
}
