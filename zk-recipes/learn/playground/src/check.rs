//! Whether a script is within its bounds, and makes sense for its lock.

use crate::error::{Code, Error};
use crate::kind::{self, Kind};
use crate::script::{Action, Contender, LIMITS, SERVER, Script};

impl Script {
    /// Checks every bound. Returns the script with its actions in the order of time, and the lock.
    pub(crate) fn check(&self) -> Result<(Self, Kind), Error> {
        let kind = kind::kind(&self.lock).ok_or_else(|| {
            Error::new(Code::UnknownLock, format!("there is no lock {:?}", clip(&self.lock)))
        })?;
        self.check_contenders(kind)?;
        if self.actions.len() > LIMITS.actions {
            let text = format!("a script has at most {} actions", LIMITS.actions);
            return Err(Error::new(Code::TooManyActions, text));
        }
        if self.until_ms > LIMITS.until_ms {
            let text = format!("a scene lasts at most {} ms", LIMITS.until_ms);
            return Err(Error::new(Code::BadTime, text));
        }
        for (index, action) in self.actions.iter().enumerate() {
            self.check_action(kind, index, action)?;
        }
        let mut script = self.clone();
        script.actions.sort_by_key(|action| action.at_ms);
        Ok((script, kind))
    }

    fn check_contenders(&self, kind: Kind) -> Result<(), Error> {
        let bad = |text: String| Err(Error::new(Code::BadContenders, text));
        if self.contenders.is_empty() || self.contenders.len() > LIMITS.contenders {
            return bad(format!("there are 1 to {} contenders", LIMITS.contenders));
        }
        for (index, Contender { name, mode, with }) in self.contenders.iter().enumerate() {
            let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if name.is_empty() || name.len() > LIMITS.name_letters || !is_word || name == SERVER {
                let most = LIMITS.name_letters;
                let name = clip(name);
                return bad(format!("{name:?} is no name: 1 to {most} letters and digits"));
            }
            if self.contenders.iter().take(index).any(|earlier| earlier.name == *name) {
                return bad(format!("two contenders are called {name}"));
            }
            let mut earlier = self.contenders.iter().take(index);
            if let Some(with) = with
                && !earlier.any(|one| one.name == *with && one.with.is_none())
            {
                let with = clip(with);
                return bad(format!("{name} is no task of {with:?}: no process before it is that"));
            }
            if with.is_some() && !kind.has_tasks() {
                return bad(format!("{name} has to be a process: this lock has no tasks"));
            }
            if !kind.modes().contains(mode) {
                return bad(format!("{name} cannot read with this lock"));
            }
        }
        Ok(())
    }

    fn check_action(&self, kind: Kind, index: usize, action: &Action) -> Result<(), Error> {
        let bad = |code, text: &str| Err(Error::of_action(code, index, text));
        if !self.contenders.iter().any(|contender| contender.name == action.who) {
            let text = format!("nobody is called {:?}", clip(&action.who));
            return Err(Error::of_action(Code::UnknownContender, index, text));
        }
        if action.at_ms > self.until_ms {
            return bad(Code::BadTime, "the action comes after the end of the scene");
        }
        if !kind.can(action.what) {
            return bad(Code::BadAction, "this lock does not know the action");
        }
        match (action.what.takes_time(), action.ms) {
            (true, Some(ms)) if ms > LIMITS.delay_ms => {
                bad(Code::BadAction, "the time is too long")
            }
            (true, None) => bad(Code::BadAction, "the action takes a time in ms"),
            (false, Some(_)) => bad(Code::BadAction, "the action takes no time in ms"),
            (true, Some(_)) | (false, None) => Ok(()),
        }
    }
}

/// The beginning of a text that a stranger has sent.
fn clip(text: &str) -> String {
    text.chars().take(40).collect()
}
