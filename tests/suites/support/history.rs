//! What is found in a history.

use zk_recipes::FencingToken;
use zk_test_support::history::{Entry, Event, check, problems};

/// Histories, and the problems in them. A digit is the second part of a token.
const CASES: &[(&str, &str)] = &[
    // Turns one after the other are flawless.
    ("a enters 0, a writes 0, a leaves 0, a refused 0, b enters 1, b writes 1, b leaves 1", ""),
    ("a enters 0, a writes 0, a lost 0, a refused 0, b enters 1, b writes 1, b leaves 1", ""),
    ("a enters 0, a writes 0, a gone, a refused 0, b enters 1, b writes 1, b leaves 1", ""),
    // One holder may write more than once.
    ("a enters 0, a writes 0, a writes 0, a leaves 0", ""),
    // Beliefs that overlap make a double owner.
    ("a enters 0, b enters 1, a leaves 0, b leaves 1", "b:1 entered beside a:0"),
    // Who was stopped must notice before anything else.
    ("a enters 0, a paused, b enters 1, a lost 0", ""),
    ("a enters 0, a paused, b enters 1, a leaves 0", "b:1 entered beside a:0"),
    ("a enters 0, a paused, b enters 1, a writes 0", "b:1 entered beside a:0"),
    // Readers overlap readers, in any order of their tokens, and no writer.
    ("a shares 1, b shares 0, a leaves 1, b leaves 0", ""),
    ("a shares 0, b enters 1", "b:1 entered beside a:0"),
    ("a enters 0, b shares 1", "b:1 entered beside a:0"),
    // Readers come behind the writers ahead of them.
    ("a shares 1, a leaves 1, b enters 0", "b:0 entered after 1"),
    ("a enters 1, a leaves 1, b shares 0", "b:0 entered after 1"),
    // Only a writer that has entered writes.
    ("a shares 0, a writes 0", "a:0 was not inside"),
    ("a enters 0, b writes 1", "b:1 was not inside"),
    // The end of another belief changes nothing.
    ("a enters 0, a leaves 1, b enters 1", "a:1 was not inside, b:1 entered beside a:0"),
    ("a enters 0, a lost 1, b enters 1", "a:1 was not inside, b:1 entered beside a:0"),
    ("a enters 0, b gone, b enters 1", "b:1 entered beside a:0"),
    // An older token that the store accepts is unfenced.
    ("a enters 0, b enters 1, b writes 1, a refused 0", "b:1 entered beside a:0"),
    ("a enters 0, b enters 1, b writes 1, a writes 0", "b:1 entered beside a:0, a:0 wrote after 1"),
    // Tokens are used once and in order.
    ("a enters 1, a leaves 1, b enters 0", "b:0 entered after 1"),
    ("a enters 0, a leaves 0, b enters 0", "b:0 entered after 0"),
];

fn parse(history: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let words = line.split(' ').collect::<Vec<_>>();
        let token = |pass: &str| FencingToken::new(7, pass.parse().expect("a digit"));
        let event = match words[1..] {
            ["enters", pass] => Event::Enter(token(pass)),
            ["shares", pass] => Event::EnterShared(token(pass)),
            ["leaves", pass] => Event::Leave(token(pass)),
            ["lost", pass] => Event::Lost(token(pass)),
            ["writes", pass] => Event::Write { token: token(pass), accepted: true },
            ["refused", pass] => Event::Write { token: token(pass), accepted: false },
            ["paused"] => Event::Paused,
            ["gone"] => Event::Gone,
            _ => panic!("no event: {line}"),
        };
        Entry { writer: words[0].to_owned(), event }
    };
    history.split(", ").map(entry).collect()
}

#[test]
fn every_problem_of_a_history_is_found() {
    for (text, expected) in CASES {
        let history = parse(text);
        assert_eq!(problems(&history).join(", ").replace("0x7.", ""), *expected, "{text}");
        assert_eq!(check(&history).is_ok(), expected.is_empty());
    }
}
