//! A scene that is ready to be played, and how its script is written.

use serde::Serialize;

use crate::error::Error;
use crate::play::play;
use crate::scene::{Scene, VerdictKind};
use crate::script::{Action, Contender, Do, Mode, Script};

/// A scene that is ready to be played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Ready {
    /// The name.
    pub id: &'static str,
    /// The title.
    pub title: &'static str,
    /// What happens.
    pub text: String,
    /// What is to be learned from it, which gives away what happens.
    pub lesson: &'static str,
    /// What to look at.
    pub look: &'static str,
    /// Which part of the catalogue it is in.
    pub group: &'static str,
    /// The name of the same scene with the other lock, broken or repaired.
    pub pair: Option<&'static str>,
    /// The script.
    pub script: Script,
    /// What the scene shows of the lock. The page gets that with the scene that was played.
    #[serde(skip)]
    pub claim: VerdictKind,
}

impl Ready {
    /// Plays it.
    ///
    /// # Errors
    ///
    /// As [`play`].
    pub fn play(&self) -> Result<Scene, Error> {
        let scene = play(&self.script)?;
        let Self { id, title, text, look, .. } = self.clone();
        Ok(Scene { id: Some(id), title: Some(title), text: Some(text), look: Some(look), ..scene })
    }
}

/// How long contenders work in these scenes, if they do.
const WORK_MS: u64 = 100;

/// A script. The contenders are those who act, in the order in which they do first.
pub(crate) fn script(
    lock: &str,
    until_ms: u64,
    readers: &[&str],
    actions: &[(u64, &str, Do)],
) -> Script {
    let mut contenders = Vec::<Contender>::new();
    for (_, who, _) in actions {
        if !contenders.iter().any(|one| one.name == *who) {
            let mode = if readers.contains(who) { Mode::Read } else { Mode::Write };
            contenders.push(Contender { name: (*who).to_owned(), mode, with: None });
        }
    }
    contenders.sort_by(|a, b| a.name.cmp(&b.name));
    let actions = actions.iter().map(|(at_ms, who, what)| Action {
        at_ms: *at_ms,
        who: (*who).to_owned(),
        what: *what,
        ms: (*what == Do::Work).then_some(WORK_MS),
    });
    Script { seed: 7, lock: lock.to_owned(), contenders, actions: actions.collect(), until_ms }
}
