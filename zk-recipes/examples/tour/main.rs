//! A course on distributed locks, from zero: what ZooKeeper is, locks that are broken on purpose,
//! and locks that hold, with every frame that matters and its meaning.
//!
//! ```text
//! cargo run --release --example tour
//! cargo run --release --example tour -- --help
//! ```
//!
//! It plays on a server in this process, in virtual time; with `--connect HOST:PORT` on a real one.
//! With `--html FILE` it writes the scenes of the playground as one page.

mod arguments;
mod broken;
mod chapters;
mod contender;
mod course;
mod naive;
mod names;
mod narrator;
mod stage;
mod story;
mod world;

/// The lock that the course begins with.
#[path = "../textbook_lock.rs"]
#[expect(dead_code, reason = "the course has its own scene for the lock")]
mod textbook_lock;

use std::process::ExitCode;

use tokio::runtime::Builder;
use zk_client::ErrorKind;

use crate::arguments::{Arguments, Show, USAGE};
use crate::course::{CHAPTERS, Chapter, Kind};
use crate::stage::Stage;
use crate::world::{Cast, World};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let arguments = match Arguments::parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let Err(error) = show(&arguments) else {
        return ExitCode::SUCCESS;
    };
    eprintln!("\n{error}");
    let error = error.downcast_ref::<zk_client::Error>();
    if let Some(server) = arguments.server
        && error.is_some_and(|error| error.kind() == ErrorKind::NoServer)
    {
        eprintln!("\n{}", how_to_start(&server));
    }
    ExitCode::FAILURE
}

fn show(arguments: &Arguments) -> Result<(), Error> {
    let stage = Stage::new(arguments.settings);
    let is_chosen: fn(&Chapter) -> bool = match &arguments.show {
        Show::Help => {
            println!("{USAGE}");
            return Ok(());
        }
        Show::List => {
            println!("{}", course::list());
            return Ok(());
        }
        Show::Page(file) => {
            std::fs::write(file, zk_playground::page::whole()?)?;
            println!("Open {} in a browser.", file.display());
            return Ok(());
        }
        Show::Chapter(number) => {
            let number = *number;
            let chapter = number.checked_sub(1).and_then(|index| CHAPTERS.get(index));
            let chapter =
                chapter.ok_or_else(|| format!("there are {} chapters", CHAPTERS.len()))?;
            return play(&stage, number, chapter, arguments.server.as_deref());
        }
        Show::Everything => |_| true,
        Show::Broken => |chapter| matches!(chapter.kind, Kind::Broken(_)),
        Show::Questions => |chapter| matches!(chapter.kind, Kind::Questions),
    };
    for (number, chapter) in (1..).zip(&CHAPTERS) {
        if is_chosen(chapter) {
            play(&stage, number, chapter, arguments.server.as_deref())?;
        }
    }
    Ok(())
}

/// Shows a chapter from its heading to its end.
fn play(stage: &Stage, number: usize, chapter: &Chapter, real: Option<&str>) -> Result<(), Error> {
    let is_virtual = real.is_none() || !matches!(chapter.kind, Kind::Played(_));
    // One thread, so that things are shown in the order in which they happen.
    let runtime = Builder::new_current_thread().enable_all().start_paused(is_virtual).build()?;
    runtime.block_on(async {
        stage.title(&format!("{number}. {}", chapter.title.to_uppercase()));
        stage.text(&chapter.elsewhere()?);
        match chapter.kind {
            Kind::Played(tell) => {
                // First of all, so that nothing is told where there is no server.
                let world = World::open(stage, real).await?;
                let cast = Cast::meet(world).await?;
                tell(&cast).await?;
                cast.part().await
            }
            Kind::Broken(case) => broken::tell(stage, case).await,
            Kind::Questions => chapters::questions::tell(stage).await,
        }
    })
}

fn how_to_start(server: &str) -> String {
    format!(
        "No ZooKeeper answers at {server}. To start one on this machine, until Ctrl-C:\n\n\
         \x20 Debian, Ubuntu:  sudo apt-get install zookeeper\n\
         \x20                  /usr/share/zookeeper/bin/zkServer.sh start-foreground\n\
         \x20 elsewhere:       unpack a release of Apache ZooKeeper, copy conf/zoo_sample.cfg\n\
         \x20                  to conf/zoo.cfg, and run bin/zkServer.sh start-foreground\n\n\
         It prints little when it is ready. Then run the tour again. Without --connect it uses\n\
         its own server."
    )
}
