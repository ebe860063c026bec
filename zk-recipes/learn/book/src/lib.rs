//! A book on ZooKeeper and its locks. Each Rust example in it is a test: it runs on a server in
//! this process each time the tests run.
//!
//! It is for somebody who can program and has never used ZooKeeper, and it ends where this
//! repository's own locks begin. The tour, `cargo run --release --example tour`, is its companion:
//! it plays the same scenes and prints every message that passes. Read a chapter, and then watch
//! it, or the other way round. Each chapter ends with the command that shows it, and with the name
//! of its scene in the playground, such as `#queue`: `cargo run --release --example playground`
//! prints an address, and the name goes behind that. Some end with a level of the gym, too: there
//! you write the lock, `cargo run -p zk-gym -- 1`, and see it broken.
//!
//! # Contents
//!
//! 1. [How ZooKeeper answers](ch01_answers): nodes, zxids, order, and what is read may be old
//! 2. [Sessions and time](ch02_sessions): how long a lock lasts, and who ends it
//! 3. [Watches](ch03_watches): what they promise, and what they do not
//! 4. [The textbook lock](ch04_textbook): join, look, wait
//! 5. [The hazards](ch05_hazards): forty ways in which locks go wrong, with the test for each
//! 6. [Losing a lock](ch06_fencing): deadlines, fencing tokens, and a server that is cut off
//! 7. [Sharing a lock](ch07_sharing): readers and writers, two levels, and a lock that lingers
//! 8. [Election and the relatives](ch08_relatives): the same queue for other things
//! 9. [How it is tested](ch09_testing): virtual time, seeds, and locks that are broken on purpose
//! 10. [Reading the wire](ch10_wire): an exchange byte by byte
//! 11. [Fuzzing](ch11_fuzzing): bytes that nobody would send, and somebody else's software
//! 12. [Exercises](ch12_exercises): fifteen questions with their answers
//!
//! Read it as the files of `src/chapters`, or so; the first command is for the names of the
//! libraries, which are links only if their pages are there:
//!
//! ```sh
//! cargo doc -p zk-client -p zk-recipes --no-deps && cargo doc -p zk-book --no-deps --open
//! ```
//!
//! Links to tests and other files work in both, if Cargo builds into the folder `target` of the
//! repository.
//!
//! # How to run an example
//!
//! Each example begins with [`scene::play`], which starts a server, and the people in it come in
//! with [`scene::connect`]. Copy one into a test of your own, change it, and see it fail.
//! `cargo test --doc -p zk-book` runs all of them. An example fails if a fault that it injects does
//! not happen.

pub mod scene;

#[doc = include_str!("chapters/01-answers.md")]
pub mod ch01_answers {}

#[doc = include_str!("chapters/02-sessions.md")]
pub mod ch02_sessions {}

#[doc = include_str!("chapters/03-watches.md")]
pub mod ch03_watches {}

#[doc = include_str!("chapters/04-textbook.md")]
pub mod ch04_textbook {}

#[doc = include_str!("chapters/05-hazards-of-one.md")]
///
#[doc = include_str!("chapters/05-hazards-of-many.md")]
pub mod ch05_hazards {}

#[doc = include_str!("chapters/06-fencing.md")]
pub mod ch06_fencing {}

#[doc = include_str!("chapters/07-sharing.md")]
pub mod ch07_sharing {}

#[doc = include_str!("chapters/08-relatives.md")]
pub mod ch08_relatives {}

#[doc = include_str!("chapters/09-testing.md")]
pub mod ch09_testing {}

#[doc = include_str!("chapters/10-wire.md")]
pub mod ch10_wire {}

#[doc = include_str!("chapters/11-fuzzing.md")]
pub mod ch11_fuzzing {}

#[doc = include_str!("chapters/12-exercises.md")]
pub mod ch12_exercises {}
