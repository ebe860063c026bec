//! The fuzz target without a fuzzer: its body runs over the committed corpus, and over programs
//! that look random and are the same in every run.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod seeds;

use std::collections::BTreeMap;

use zk_embedded::fuzz::{self, steps};
use zk_inputs::{Random, corpus};

use seeds::{every_operation, seeds};

/// How many generated programs to run, beside those of the corpus.
const PROGRAMS: u64 = 1000;

/// Two clients, and then random bytes.
fn any_steps(random: &mut Random) -> Vec<u8> {
    let mut program = vec![random.byte(), steps::ARRIVE, 0, steps::ARRIVE, 1];
    let length = random.below(200);
    program.extend(std::iter::repeat_with(|| random.byte()).take(length));
    program
}

/// The steps of two seeds, one behind the other, with a few bytes changed.
fn changed_seeds(random: &mut Random, seeds: &[&[u8]]) -> Vec<u8> {
    let mut program = seeds[random.below(seeds.len())].to_vec();
    program.extend(&seeds[random.below(seeds.len())][1..]);
    for _ in 0..=random.below(4) {
        let at = random.below(program.len());
        match random.below(3) {
            0 => program[at] = random.byte(),
            1 => program.insert(at, random.byte()),
            _ => program[at] = program[at].wrapping_add(1),
        }
    }
    program
}

#[test]
fn server_holds_over_its_corpus() {
    corpus::check("server", fuzz::server);
}

#[test]
fn server_holds_over_every_operation() {
    for (op, program) in every_operation() {
        corpus::run(fuzz::server, &op.to_string(), &program);
        assert_eq!(fuzz::run(&program), 1, "the program sends {op}");
    }
}

#[test]
fn server_holds_over_made_up_programs() {
    let mut random = Random::new(1);
    for round in 0..PROGRAMS {
        corpus::run(fuzz::server, &format!("program {round}"), &any_steps(&mut random));
    }
}

#[test]
fn server_holds_over_changed_seeds() {
    let seeds = seeds();
    let seeds: Vec<&[u8]> = seeds.values().map(Vec::as_slice).collect();
    let mut random = Random::new(2);
    for round in 0..PROGRAMS {
        corpus::run(fuzz::server, &format!("round {round}"), &changed_seeds(&mut random, &seeds));
    }
}

#[test]
fn the_seeds_are_in_the_corpus() {
    let seeds: BTreeMap<&str, Vec<u8>> = seeds();
    for (name, seed) in &seeds {
        corpus::check_file(&format!("server/{name}"), seed);
    }
}
