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

    /// The ensemble and its member that the command names.
    pub(crate) fn member(self) -> Result<(&'a Ensemble, usize), String> {
        let ensemble = self.ensemble()?;
        let member = self.member.ok_or("say at which member: at MEMBER COMMAND")?;
        Ok((ensemble, member))
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

    pub(crate) fn inject(self, fault: Fault) -> Result<(), String> {
        match self.servers {
            Servers::Alone(server) => server.inject(fault),
            Servers::Ensemble(_) => {
                let (ensemble, member) = self.member()?;
                ensemble.inject(member, fault);
            }
        }
        Ok(())
    }

    pub(crate) fn clear_faults(self) -> Result<(), String> {
        match self.servers {
            Servers::Alone(server) => server.clear_faults(),
            Servers::Ensemble(_) => {
                let (ensemble, member) = self.member()?;
                ensemble.clear_faults(member);
            }
        }
        Ok(())
    }

    pub(crate) fn stop(self) -> Result<(), String> {
        match self.servers {
            Servers::Alone(server) => server.set_serving(false),
            Servers::Ensemble(_) => {
                let (ensemble, member) = self.member()?;
                ensemble.stop(member);
            }
        }
        Ok(())
    }

    pub(crate) fn start(self) -> Result<(), String> {
        match self.servers {
            Servers::Alone(server) => server.set_serving(true),
            Servers::Ensemble(_) => self.heal()?,
        }
        Ok(())
    }

    pub(crate) fn heal(self) -> Result<(), String> {
        match self.servers {
            Servers::Alone(server) => server.heal(),
            Servers::Ensemble(_) => {
                let (ensemble, member) = self.member()?;
                ensemble.heal(member);
            }
        }
        Ok(())
    }

    pub(crate) fn set_read_only(self, on: bool) {
        match self.servers {
            Servers::Alone(server) => server.set_read_only(on),
            Servers::Ensemble(ensemble) => ensemble.set_read_only_mode(on),
        }
    }

    pub(crate) fn expire(self, session: SessionId) -> bool {
        match self.servers {
            Servers::Alone(server) => server.expire(session),
            Servers::Ensemble(ensemble) => ensemble.expire(session),
        }
    }

    pub(crate) fn disconnect(self, session: SessionId) -> bool {
        match self.servers {
            Servers::Alone(server) => server.disconnect(session),
            Servers::Ensemble(ensemble) => ensemble.disconnect(session),
        }
    }

    pub(crate) fn sessions(self) -> Vec<SessionId> {
        match self.servers {
            Servers::Alone(server) => server.sessions(),
            Servers::Ensemble(ensemble) => ensemble.sessions(),
        }
    }

    pub(crate) fn history(self) -> Vec<Commit> {
        match self.servers {
            Servers::Alone(server) => server.history(),
            Servers::Ensemble(ensemble) => ensemble.history(),
        }
    }
}
