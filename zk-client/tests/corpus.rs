//! The fuzz target without a fuzzer: its body over the committed corpus, and over programs that
//! look random and are the same in every run.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::PathBuf;

use zk_client::fuzz;

/// Programs that are made up, beside those of the corpus.
const PROGRAMS: u64 = 30_000;

/// Runs one input, and names it if a claim fails.
fn run(name: &str, input: &[u8]) {
    if std::panic::catch_unwind(|| fuzz::session(input)).is_err() {
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
}

/// Steps that do much: whole reconnects, answers, transmissions and all that callers do.
const BUSY: &[u8] = &[
    0, 2, 3, 3, 4, 4, 10, 12, 12, 12, 13, 13, 13, 13, 14, 16, 19, 20, 20, 21, 22, 24, 24, 25, 26,
    27, 28, 29,
];

/// A program: any bytes, or mostly busy steps.
fn program(seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let busy = seed.is_multiple_of(2);
    let length = 8 + numbers.below(120);
    let mut program = vec![if seed.is_multiple_of(3) { 0 } else { numbers.next() as u8 }];
    if busy {
        program.push(19);
    }
    while program.len() < length {
        // Once in most programs, and not early.
        if busy && program.len() > length / 2 && numbers.below(64) == 0 {
            program.push(23);
        }
        let any = numbers.next() as u8;
        let step = *BUSY.get(numbers.below(BUSY.len())).unwrap();
        program.push(if busy && numbers.below(16) > 0 { step } else { any });
        if busy && matches!(step, 2 | 4 | 10 | 13 | 14 | 16 | 20 | 22 | 24 | 25 | 27 | 28 | 29) {
            program.push(numbers.next() as u8);
        }
    }
    program
}

#[test]
fn session_holds_over_its_corpus() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/session");
    let files = fs::read_dir(&folder).unwrap_or_else(|error| {
        panic!("the corpus is in the repository, not in the package: {}: {error}", folder.display())
    });
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "no input in {}", folder.display());
    for file in files {
        run(&file.display().to_string(), &fs::read(&file).unwrap());
    }
}

#[test]
fn session_holds_over_made_up_programs() {
    for seed in 0..PROGRAMS {
        run(&format!("program {seed}"), &program(seed));
    }
}
