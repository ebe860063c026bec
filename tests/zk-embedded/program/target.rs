//! Whom a command is for: a server that is alone, or an ensemble and one of its members.

use std::sync::Arc;

use zk_embedded::{Commit, Core, Ensemble, Fault, Server, SessionId};

/// What the program runs.
#[derive(Clone)]
pub(crate) enum Servers {
    Alone(Arc<Server>),
    Ensemble(Arc<Ensemble>),
}

impl Servers {
    /// The connect string.
    pub(crate) fn addresses(&self) -> String {
        match self {
            Self::Alone(server) => server.address().to_owned(),
            Self::Ensemble(ensemble) => ensemble.connect_string(),
        }
    }
}

/// What commands work on.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) servers: &'a Servers,
    /// Whether the servers record their changes.
    pub(crate) keeps_history: bool,
    /// The member that the command names.
    pub(crate) member: Option<usize>,
}

impl<'a> Target<'a> {
    /// The same with a member of the ensemble.
    pub(crate) fn at(self, member: usize) -> Result<Self, String> {
        let found = self.ensemble()?.member(member, |_| Self { member: Some(member), ..self });
        found.ok_or_else(|| format!("there is no member {member}"))
    }

    /// The servers, for a command that is for all of them.
    pub(crate) fn all(self) -> Result<&'a Servers, String> {
        match self.member {
            None => Ok(self.servers),
            Some(_) => Err("this is not for one member".to_owned()),
        }
    }

    /// The server that is alone.
    pub(crate) fn server(self) -> Result<&'a Server, String> {
        match self.servers {
            Servers::Alone(server) => Ok(server),
            Servers::Ensemble(_) => Err("this is not for ensembles".to_owned()),
        }
    }

    pub(crate) fn ensemble(self) -> Result<&'a Ensemble, String> {
        match self.servers {
            Servers::Alone(_) => Err("this is for ensembles, see --members".to_owned()),
            Servers::Ensemble(ensemble) => Ok(ensemble),
        }
    }

    /// Does something to the member of the ensemble that the command names.
    pub(crate) fn at_member<R>(self, act: impl FnOnce(&Ensemble, usize) -> R) -> Result<R, String> {
        let ensemble = self.ensemble()?;
        let member = self.member.ok_or("say at which member: at MEMBER COMMAND")?;
        Ok(act(ensemble, member))
    }

    /// Does the one thing to the server if it is alone, and else the other to the member.
    pub(crate) fn either(
        self,
        alone: impl FnOnce(&Server),
        member: impl FnOnce(&Ensemble, usize),
    ) -> Result<(), String> {
        match self.servers {
            Servers::Alone(server) => {
                alone(server);
                Ok(())
            }
            Servers::Ensemble(_) => self.at_member(member),
        }
    }

    /// Looks at the server, at the member that the command names, or else at the leader.
    pub(crate) fn look<R>(self, look: impl FnOnce(&Core) -> R) -> Result<R, String> {
        match self.servers {
            Servers::Alone(server) => Ok(server.look(look)),
            Servers::Ensemble(ensemble) => {
                let member = self.member.unwrap_or_else(|| ensemble.leader());
                ensemble.member(member, look).ok_or_else(|| format!("there is no member {member}"))
            }
        }
    }

    pub(crate) fn inject(self, fault: &Fault) -> Result<(), String> {
        self.either(
            |server| server.inject(fault.clone()),
            |ensemble, member| ensemble.inject(member, fault.clone()),
        )
    }

    pub(crate) fn leader(self) -> Result<usize, String> {
        self.all()?;
        let ensemble = self.ensemble()?;
        let leader = ensemble.leader();
        match ensemble.member(leader, Core::leads) {
            Some(true) => Ok(leader),
            _ => Err(format!("no member leads: {leader} is down or cut off, or has no majority")),
        }
    }

    pub(crate) fn set_read_only(self, on: bool) -> Result<(), String> {
        match self.all()? {
            Servers::Alone(server) => server.set_read_only(on),
            Servers::Ensemble(ensemble) => ensemble.set_read_only_mode(on),
        }
        Ok(())
    }

    pub(crate) fn expire(self, session: SessionId) -> Result<bool, String> {
        Ok(match self.all()? {
            Servers::Alone(server) => server.expire(session),
            Servers::Ensemble(ensemble) => ensemble.expire(session),
        })
    }

    pub(crate) fn disconnect(self, session: SessionId) -> Result<bool, String> {
        Ok(match self.all()? {
            Servers::Alone(server) => server.disconnect(session),
            Servers::Ensemble(ensemble) => ensemble.disconnect(session),
        })
    }

    pub(crate) fn sessions(self) -> Result<Vec<SessionId>, String> {
        Ok(match self.all()? {
            Servers::Alone(server) => server.sessions(),
            Servers::Ensemble(ensemble) => ensemble.sessions(),
        })
    }

    pub(crate) fn history(self) -> Result<Vec<Commit>, String> {
        Ok(match self.all()? {
            Servers::Alone(server) => server.history(),
            Servers::Ensemble(ensemble) => ensemble.history(),
        })
    }
}
