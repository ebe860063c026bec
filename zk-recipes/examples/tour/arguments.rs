//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, ValueExt};

use crate::stage::Settings;

pub(crate) const USAGE: &str = "\
Usage: tour [OPTIONS]

A course on distributed locks: what ZooKeeper is, how locks go wrong, and the frames of locks that
do not.

  --list              list the chapters
  --chapter N         show chapter N alone
  --naive             show only the locks that are broken on purpose
  --questions         show only the questions at the end
  --step              wait for the Enter key after each step, show the queues beside the frames,
                      and then the tree and the clients; the default on a terminal
  --no-step           go on by itself, at a pace to read along
  --pace MS           go on by itself, so long after a line of an event, and four times as long
                      after one of text; by default 1000 on a terminal and 0 elsewhere
  --html FILE         write the scenes of the playground as one page, to be opened in a browser
  --connect HOST:PORT play on a real server; by default a server in this process plays along
  -h, --help          print this text

Colours are left out if NO_COLOR is set.";

/// What is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Help,
    List,
    Everything,
    Chapter(usize),
    Broken,
    Questions,
    /// The scenes of the playground, in a file.
    Page(PathBuf),
}

pub(crate) struct Arguments {
    pub(crate) show: Show,
    /// The real server to play on.
    pub(crate) server: Option<String>,
    pub(crate) settings: Settings,
}

impl Arguments {
    pub(crate) fn parse() -> Result<Self, lexopt::Error> {
        let mut arguments =
            Self { show: Show::Everything, server: None, settings: Settings::of_output() };
        let (mut pace, mut step) = (None, None);
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Long("list") => arguments.show = Show::List,
                Arg::Long("chapter") => arguments.show = Show::Chapter(parser.value()?.parse()?),
                Arg::Long("naive") => arguments.show = Show::Broken,
                Arg::Long("questions") => arguments.show = Show::Questions,
                Arg::Long("html") => arguments.show = Show::Page(parser.value()?.into()),
                Arg::Long("step") => step = Some(true),
                Arg::Long("no-step") => step = Some(false),
                Arg::Long("pace") => pace = Some(parser.value()?.parse()?),
                Arg::Long("connect") => arguments.server = Some(parser.value()?.string()?),
                Arg::Short('h') | Arg::Long("help") => arguments.show = Show::Help,
                other => return Err(other.unexpected()),
            }
        }
        let settings = &mut arguments.settings;
        settings.step = step.unwrap_or(settings.step && pace.is_none());
        match pace {
            Some(pace) => settings.pace = Duration::from_millis(pace),
            // The Enter key is the pace.
            None if settings.step => settings.pace = Duration::ZERO,
            None => {}
        }
        Ok(arguments)
    }
}
