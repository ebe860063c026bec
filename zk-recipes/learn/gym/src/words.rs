//! Verdicts in words, for the one who has written the program.

use std::fmt;

use crate::cost::{Cost, Costs};
use crate::level::{Level, Shown};
use crate::search::Counts;
use crate::verdict::{Broken, Finding, Verdict};

/// More lines than this are cut in the middle.
const MOST_LINES: usize = 60;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, title) = (self.level.number, self.level.title);
        write!(f, "Level {number}, {title}: ")?;
        match &self.result {
            Finding::Unwritten => {
                writeln!(f, "this level is not written yet.\n\n{}\n", self.level.task)?;
                writeln!(
                    f,
                    "Write it in zk-recipes/learn/gym/students/level_{number}.rs. To read before: \
                     {} of the book, `cargo doc -p zk-book --no-deps --open`.",
                    self.level.reading
                )
            }
            Finding::Hangs => writeln!(
                f,
                "a run does not end.\n\nThe program goes round without waiting for anything. An \
                 error may come back at once, for instance when the session is over: return it, \
                 or wait."
            ),
            Finding::Broken(broken) => {
                write!(f, "broken.\n\n{broken}\n")?;
                writeln!(f, "What this level is about, in the tour and in the playground:")?;
                scenes(f, self.level)
            }
            Finding::Passed(costs) => {
                write!(f, "passed.\n\n{}", self.counts)?;
                let never = self.never_fired();
                if !never.is_empty() {
                    writeln!(f, "Kinds of faults that never fired at all: {}.", never.join(", "))?;
                }
                writeln!(f, "\n{costs}")?;
                if self.level.asks_for_lost() {
                    writeln!(
                        f,
                        "The guard of zk-recipes reads its node when `lost` is asked first, to \
                         watch it, unless it has waited and does so already. Without that it is \
                         one request less.\n"
                    )?;
                }
                writeln!(f, "To compare, in the tour and in the playground:")?;
                scenes(f, self.level)
            }
        }
    }
}

/// Where the mistakes of a level are shown, and their repairs.
fn scenes(f: &mut fmt::Formatter<'_>, level: &Level) -> fmt::Result {
    for Shown { chapter, scene } in level.watch {
        writeln!(f, "  cargo run --release --example tour -- --chapter {chapter:<2}   #{scene}")?;
    }
    Ok(())
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}.\n\nWhy: {}\n", self.text, self.reason)?;
        let faults = match &self.faults[..] {
            [] => "no fault".to_owned(),
            [fault] => format!("one fault ({fault})"),
            faults => format!("{} faults ({})", faults.len(), faults.join(", ")),
        };
        let who = if self.contenders == 1 { "contender" } else { "contenders" };
        writeln!(
            f,
            "The shortest run that was found: {} {who}, {faults}, {} requests. A frame has its \
             number in front of it. Handshakes of new sessions have numbers, too, and are not \
             shown; pings have none.\n",
            self.contenders, self.requests
        )?;
        let cut = self.lines.len().saturating_sub(MOST_LINES);
        let from = MOST_LINES / 2;
        for (index, line) in self.lines.iter().enumerate() {
            match index {
                _ if index == from && cut > 0 => writeln!(f, "    ... {cut} lines ...")?,
                _ if index > from && index < from + cut => {}
                _ => writeln!(f, "{line}")?,
            }
        }
        if !self.not_fired.is_empty() {
            let faults = self.not_fired.join(", ");
            writeln!(f, "\nFaults that were set and have found nothing to act on: {faults}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Nothing was found in {} runs: {} without a fault or with one, {} with two, and {} \
             that seeds have drawn.",
            self.runs(),
            self.sweep,
            self.pairs,
            self.seeds
        )?;
        if self.faults_set > 0 {
            writeln!(
                f,
                "Of the {} faults that were set in them, {} never fired: there was nothing to act \
                 on, or the run was over before.",
                self.faults_set, self.faults_not_fired
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Costs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Requests for a turn   alone   in a crowd of three   after a wait of a minute"
        )?;
        let rows =
            [("yours", self.yours), ("the textbook", self.textbook), ("zk-recipes", self.recipes)];
        for (name, Cost { alone, in_a_crowd, in_a_long_wait }) in rows {
            let waited = in_a_long_wait.map(|it| format!("{it:.1}")).unwrap_or_default();
            writeln!(f, "  {name:<19} {alone:>5.1}   {in_a_crowd:>19.1}   {waited:>24}")?;
        }
        if self.recipes.in_a_long_wait.is_some() {
            writeln!(
                f,
                "\nWhile it waits, the lock of zk-recipes proves every few seconds that its \
                 session lives: level 6 shows what for, and level 2 does not count that."
            )?;
        }
        if self.is_polling {
            writeln!(
                f,
                "\nYours goes on asking while it waits: the longer the lock is held, the more. \
                 Level 2 refuses that."
            )?;
        }
        Ok(())
    }
}
