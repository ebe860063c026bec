//! What the page offers: the locks, the actions, and scenes that are ready to be played.

use serde::Serialize;

use crate::kind::{self, Description as Lock, Kind};
use crate::recorded;
use crate::scene::Scene;
use crate::script::{ACTIONS, Description, LIMITS, Limits};

mod ready;

mod recipes;

mod cases;

pub use ready::Ready;

/// Everything that the page offers.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Catalogue {
    locks: Vec<Lock>,
    scenes: Vec<Ready>,
    limits: Limits,
    actions: [Description; ACTIONS.len()],
}

/// Everything that the page offers.
pub fn catalogue() -> Catalogue {
    let locks = kind::kinds().into_iter().map(Kind::describe).collect();
    Catalogue { locks, scenes: scenes(), limits: LIMITS, actions: ACTIONS }
}

/// What the page offers with a recording: nothing else.
pub(crate) fn of_recording(scene: &Scene) -> Catalogue {
    let ready = Ready {
        id: recorded::ID,
        title: recorded::TITLE,
        text: scene.text.clone().unwrap_or_default(),
        lesson: "",
        look: "",
        group: "recordings",
        pair: None,
        script: scene.script.clone(),
        claim: scene.verdict.kind,
    };
    Catalogue { locks: Vec::new(), scenes: vec![ready], limits: LIMITS, actions: ACTIONS }
}

/// The ready-made scenes; the first is the front page.
pub fn scenes() -> Vec<Ready> {
    let mut scenes = recipes::scenes();
    scenes.extend(cases::scenes());
    scenes
}
