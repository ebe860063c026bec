//! The fuzz target without a fuzzer: its body over the committed corpus, and over programs that
//! look random and are the same in every run.

#![expect(clippy::unwrap_used, reason = "tests")]

use zk_client::fuzz;
use zk_inputs::{Random, corpus};

/// Programs that are made up, beside those of the corpus.
const PROGRAMS: u64 = 30_000;

/// Steps that do much: whole reconnects, answers, transmissions and all that callers do.
const BUSY: &[u8] = &[
    0, 2, 3, 3, 4, 4, 10, 12, 12, 12, 13, 13, 13, 13, 14, 16, 19, 20, 20, 21, 22, 24, 24, 25, 26,
    27, 28, 29,
];

/// A program: any bytes, or mostly busy steps.
fn program(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let busy = seed.is_multiple_of(2);
    let length = 8 + random.below(120);
    let mut program = vec![if seed.is_multiple_of(3) { 0 } else { random.byte() }];
    if busy {
        program.push(19);
    }
    while program.len() < length {
        // Once in most programs, and not early.
        if busy && program.len() > length / 2 && random.below(64) == 0 {
            program.push(23);
        }
        let any = random.byte();
        let step = *BUSY.get(random.below(BUSY.len())).unwrap();
        program.push(if busy && random.below(16) > 0 { step } else { any });
        if busy && matches!(step, 2 | 4 | 10 | 13 | 14 | 16 | 20 | 22 | 24 | 25 | 27 | 28 | 29) {
            program.push(random.byte());
        }
    }
    program
}

#[test]
fn session_holds_over_its_corpus() {
    corpus::check("session", fuzz::session);
}

#[test]
fn session_holds_over_made_up_programs() {
    for seed in 0..PROGRAMS {
        corpus::run(fuzz::session, &format!("program {seed}"), &program(seed));
    }
}
