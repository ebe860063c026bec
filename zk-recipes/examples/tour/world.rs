//! Where a chapter plays: a server, the folders, and three contenders.
//!
//! Each chapter has a server of its own, in memory and in virtual time, unless the tour runs on a
//! real one. There a chapter deletes its folders when it is done.

use std::sync::Arc;
use std::time::Duration;

use zk_client::{Client, Connector, CreateOptions, Host, TcpConnector};
use zk_embedded::{Config, Server};

use crate::Error;
use crate::contender::Contender;
use crate::names::{digits, folder, person, short};
use crate::stage::{Owners, Stage, Style, wrap};

/// The folders of the locks, and what one of them protects.
pub(crate) const LOCK: &str = "/zk-recipes-tour";
pub(crate) const CATALOGUE: &str = "/zk-recipes-tour-catalogue";
pub(crate) const STOCK: &str = "/zk-recipes-tour-stock";
pub(crate) const BALANCE: &str = "/zk-recipes-tour-balance";

const NODES: [&str; 4] = [LOCK, CATALOGUE, STOCK, BALANCE];

/// A server, and how it is reached.
pub(crate) struct World {
    pub(crate) stage: Stage,
    pub(crate) address: String,
    pub(crate) network: Arc<dyn Connector>,
    /// A client whose frames are not shown.
    pub(crate) observer: Client,
    /// True if the time is real, so that what comes late is lost.
    pub(crate) is_real: bool,
    _embedded: Option<Arc<Server>>,
}

/// Who is in the queues, in a line.
fn queues(server: &Server, owners: &Owners) -> String {
    let queues = NODES.into_iter().filter_map(|path| {
        let mut names = server.children(path);
        names.sort_unstable_by(|one, other| digits(one).cmp(digits(other)));
        let contenders = names.iter().filter_map(|name| {
            let number = digits(name).parse::<u32>().ok()?;
            Some(format!("{number} {}", owners.get(person(name))?))
        });
        let contenders = contenders.collect::<Vec<_>>().join(", ");
        let queue = folder(path).unwrap_or("the queue");
        (!contenders.is_empty()).then(|| format!("[{queue}: {contenders}]"))
    });
    let queues = queues.collect::<Vec<_>>().join(" ");
    if queues.is_empty() { "[nobody is in a queue]".to_owned() } else { queues }
}

impl World {
    /// On the server at this address, or on one in this process.
    pub(crate) async fn open(stage: &Stage, address: Option<&str>) -> Result<Self, Error> {
        let embedded = address.is_none().then(|| Server::in_memory(Config::new()));
        let network: Arc<dyn Connector> = match &embedded {
            Some(server) => Arc::new(server.connector::<Host>()),
            None => Arc::new(TcpConnector),
        };
        let address = address.unwrap_or("memory").to_owned();
        let network_of_observer = Network(Arc::clone(&network));
        let builder = Client::builder().connect_timeout(Duration::from_secs(5));
        let observer = builder.connector(network_of_observer).connect(&address).await?;
        for node in NODES {
            if observer.exists(node).await?.is_some_and(|node| node.num_children > 0) {
                return Err(format!("somebody is in {node}: is another tour under way?").into());
            }
        }
        let (stage, is_real) = (stage.clone(), embedded.is_none());
        let embedded = embedded.map(Arc::new);
        if let Some(server) = embedded.clone() {
            stage.set_view(move |owners| queues(&server, owners));
        }
        Ok(Self { stage, address, network, observer, is_real, _embedded: embedded })
    }

    /// Makes folders, so that the story need not show that again.
    pub(crate) async fn make(&self, folders: &[&str]) -> Result<(), Error> {
        for folder in folders {
            self.observer.ensure(folder, &CreateOptions::container()).await?;
        }
        Ok(())
    }

    /// On a real server the reader is not waited for, or again: the clock runs there.
    pub(crate) fn set_hasty(&self, hasty: bool) {
        self.stage.set_in_haste(hasty && self.is_real);
    }

    /// Deletes what the chapter has left.
    pub(crate) async fn close(self) -> Result<(), Error> {
        for node in NODES {
            match self.observer.delete_all(node).await {
                Err(error) if !error.is_no_node() => return Err(error.into()),
                _ => {}
            }
        }
        self.observer.close().await;
        Ok(())
    }

    /// Shows the tree and the clients to a reader who goes step by step.
    async fn show_state(&self) -> Result<(), Error> {
        let line = |text: String| self.stage.line(Style::State, text);
        line(String::new());
        line("  The tree now:".to_owned());
        let mut is_empty = true;
        for folder in NODES {
            let mut nodes = vec![folder.to_owned()];
            while let Some(node) = nodes.pop() {
                let (Ok(data), Ok(list)) =
                    (self.observer.get_data(&node).await, self.observer.get_children(&node).await)
                else {
                    continue;
                };
                is_empty = false;
                let mut children = list.names.iter().collect::<Vec<_>>();
                children.sort_unstable_by_key(|name| std::cmp::Reverse(digits(name)));
                nodes.extend(children.into_iter().map(|name| format!("{node}/{name}")));
                let name = short(&node);
                let indent = if name == node { "    " } else { "      " };
                let data = String::from_utf8_lossy(&data.data).into_owned();
                line(format!("{indent}{name:<40} {data}").trim_end().to_owned());
            }
        }
        if is_empty {
            line("    (empty)".to_owned());
        }
        line("  The clients now:".to_owned());
        for client in self.stage.clients() {
            for (index, part) in wrap(&client, 84).into_iter().enumerate() {
                line(format!("{}{part}", if index == 0 { "    " } else { "         " }));
            }
        }
        Ok(())
    }

    /// Ends the step before, and begins the next one with a paragraph.
    pub(crate) async fn say(&self, text: &str) -> Result<(), Error> {
        self.end_step().await?;
        self.stage.text(text);
        self.stage.show().await;
        Ok(())
    }

    /// Shows what has happened, and waits for a reader who goes step by step.
    pub(crate) async fn end_step(&self) -> Result<(), Error> {
        if !self.stage.has_events() {
            // A paragraph follows the heading.
            self.stage.show().await;
            return Ok(());
        }
        if self.stage.is_stepping() {
            self.show_state().await?;
        }
        self.stage.pause().await;
        Ok(())
    }
}

/// A way to connect that several clients share.
pub(crate) struct Network(pub(crate) Arc<dyn Connector>);

impl Connector for Network {
    fn connect<'a>(&'a self, host: &'a Host) -> zk_client::Connecting<'a> {
        self.0.connect(host)
    }
}

/// Those who are in the queues most of the time.
pub(crate) struct Cast {
    pub(crate) world: World,
    pub(crate) ana: Contender,
    pub(crate) ben: Contender,
    pub(crate) cho: Contender,
}

impl Cast {
    /// Connects all three. Their handshakes are not shown.
    pub(crate) async fn meet(world: World) -> Result<Self, Error> {
        let ana = Contender::meet("Ana", &world).await?;
        let ben = Contender::meet("Ben", &world).await?;
        let cho = Contender::meet("Cho", &world).await?;
        Ok(Self { world, ana, ben, cho })
    }

    /// Ends a chapter.
    pub(crate) async fn part(self) -> Result<(), Error> {
        self.world.end_step().await?;
        for contender in [self.ana, self.ben, self.cho] {
            contender.narrator.quiet();
            contender.client.close().await;
        }
        self.world.stage.show().await;
        self.world.stage.clear();
        self.world.close().await
    }

    pub(crate) async fn say(&self, text: &str) -> Result<(), Error> {
        self.world.say(text).await
    }

    pub(crate) fn note(&self, text: &str) {
        self.world.stage.note(text);
    }

    /// The frames of nobody, or of everybody again.
    pub(crate) fn set_quiet(&self, quiet: bool) {
        for contender in [&self.ana, &self.ben, &self.cho] {
            match quiet {
                true => contender.narrator.quiet(),
                false => contender.narrator.loud(),
            }
        }
    }
}
