//! `zk watch`: prints the changes of a node.

use zk_client::{Error, StreamEvent, WatchMode, WatchStream};

use crate::arguments::Watch as Arguments;
use crate::commands::holding::{or_signal, signals};
use crate::failure::Failure;
use crate::output::{Json, Output};

pub(crate) async fn run(arguments: &Arguments) -> Result<u8, Failure> {
    let target = &arguments.target;
    let mut signals = signals()?;
    let work = async {
        let client = target.connection.open().await?;
        let failed = |error: Error| Failure::of(&target.path, error);
        let mode = match arguments.recursive {
            true => WatchMode::PersistentRecursive,
            false => WatchMode::Persistent,
        };
        let stream = client.watch(&target.path, mode).await.map_err(failed)?;
        let done = print(arguments, stream).await;
        client.close().await;
        done
    };
    match or_signal(&mut signals, work).await {
        Ok(done) => done.map(|()| 0),
        Err(status) => Ok(status),
    }
}

async fn print(arguments: &Arguments, mut stream: WatchStream) -> Result<(), Failure> {
    let target = &arguments.target;
    print_line(arguments, "Armed", &target.path)?;
    loop {
        let event = stream.next().await.map_err(|error| Failure::of(&target.path, error))?;
        match event {
            StreamEvent::Changed(change) => {
                print_line(arguments, &format!("{:?}", change.kind), &change.path)?;
                if arguments.once {
                    return Ok(());
                }
            }
            StreamEvent::Rearmed => print_line(arguments, "Rearmed", &target.path)?,
            StreamEvent::Lagged(_) => print_line(arguments, "Lagged", &target.path)?,
            _ => {}
        }
    }
}

fn print_line(arguments: &Arguments, event: &str, path: &str) -> Result<(), Failure> {
    let line = match arguments.target.json {
        true => Json::object().text("event", event).text("path", path).end(),
        false => format!("{event} {path}"),
    };
    Output::new().line(line.as_bytes())
}
