//! What a node, a session, a watch, a zxid and a frame are: all that the course needs.

use zk_client::CreateOptions;

use crate::Error;
use crate::contender::Contender;
use crate::stage::{Style, wrap};
use crate::world::{Cast, LOCK};

/// The words of the course.
const GLOSSARY: [(&str, &str); 17] = [
    ("ensemble", "the servers of one ZooKeeper; a majority of them agrees on every change"),
    ("node", "a name in the tree with some data; also called znode"),
    ("folder", "here: a node whose children are a queue"),
    ("container", "a node that the server removes some time after its last child has gone"),
    ("ephemeral", "said of a node: the server deletes it when its session ends"),
    ("sequential", "said of a node: the server appends the next number to its name"),
    ("session", "what a server keeps of a client across connections, until it ends"),
    ("timeout", "after so much silence the ensemble ends a session"),
    ("frame", "one message on a connection: a request, a reply or a notification"),
    ("watch", "a request to be notified, once, of the next change of a node"),
    ("zxid", "the number of a change; the changes of an ensemble have one order"),
    ("contender", "a client that has the lock or waits for it, and its node"),
    ("holder", "the contender that has the lock: it is first in the queue"),
    ("predecessor", "the contender directly ahead in the queue"),
    ("guard", "the value that a program holds as long as it holds the lock"),
    ("deadline", "until when a holder may count on its session, by its own clock"),
    ("fencing token", "a number that grows from holder to holder, so that stores can compare"),
];

pub(crate) async fn tell(cast: &Cast) -> Result<(), Error> {
    let Cast { ana, ben, world, .. } = cast;
    let (greeting, nodes) = (format!("{LOCK}/greeting"), format!("{LOCK}/dan"));
    world.observer.create(LOCK, b"", &CreateOptions::persistent()).await?;

    cast.say(
        "A LOCK makes sure that only one of several programs does something at a time, for \
         instance that one of them changes a file. If the programs run on several machines, \
         they need somebody to agree with. That is what ZooKeeper is for.",
    )
    .await?;
    cast.say(
        "ZOOKEEPER is a service of a few servers, which are called an ensemble. They keep one \
         small tree of data, and a majority of them must agree to every change. So the tree \
         survives the loss of a server, and every client sees the changes in the same order.",
    )
    .await?;
    cast.say(
        "A FRAME is one message on a connection: a request, a reply or a notification. In this \
         course, -> is a frame that a client sends and <- is one that it receives. What it \
         means to the client is on the right. Replies that only confirm a request are not \
         shown, and neither are the pings that a client sends while it has nothing else to \
         send. The names of requests are those of the protocol. Of some there is a newer kind with \
         a 2 behind its name: create2 and getChildren2 do what create and getChildren do, and the \
         reply also says what the server knows of the node, such as the number of the change that \
         made it.",
    )
    .await?;
    cast.say(
        "A SESSION is what the ensemble knows of a client. Dan connects, and gets one. It is \
         not the connection: if that breaks, Dan's client resumes the session on a new one, at \
         any server. The session ends when Dan closes it, or when the ensemble has received \
         nothing from him for the timeout. A session that has ended never comes back.",
    )
    .await?;
    let dan = Contender::connect("Dan", world).await?;

    cast.say(
        "A NODE is a name in the tree, with some data: at most a megabyte, usually a few bytes. \
         A node has a path like a file, and it may have data and children at once. Ana makes \
         one. The ensemble numbers every change of the tree. The number of a change is its \
         ZXID, and zxids only grow.",
    )
    .await?;
    ana.client.create(&greeting, b"hello", &CreateOptions::persistent()).await?;

    cast.say(
        "A WATCH. Ben reads the node and asks to be notified of its next change. Then Ana \
         writes. The notification says that the node has changed, but not what it says now: Ben \
         would have to read again. It is sent once, and after it the watch is gone.",
    )
    .await?;
    let (_, mut watch) = ben.client.get_data_and_watch(&greeting).await?;
    ana.client.set_data(&greeting, b"goodbye", None).await?;
    watch.changed().await?;

    cast.say(
        "AN EPHEMERAL NODE belongs to a session, and ends with it. Dan makes one, and Ben \
         watches it. Then Dan's session ends: here he closes it. If his program crashed, the \
         same would happen one timeout later. So others can tell that he is gone, and what he \
         had is free.",
    )
    .await?;
    dan.client.create(&nodes, b"", &CreateOptions::ephemeral()).await?;
    let (_, mut watch) = ben.client.get_data_and_watch(&nodes).await?;
    dan.client.close().await;
    watch.changed().await?;

    cast.say(
        "A SEQUENTIAL NODE gets a number from the server, behind the name that the client has \
         asked for: how many children the folder has had before. The numbers of one folder grow, \
         and no two nodes get the same. Here the first guest is number 2, since the greeting and \
         Dan's node were there before. A queue is nothing but this: whoever has the lower number \
         came first.",
    )
    .await?;
    let (options, name) = (CreateOptions::ephemeral().sequential(), format!("{LOCK}/guest-"));
    ana.client.create(&name, b"", &options).await?;
    ben.client.create(&name, b"", &options).await?;

    cast.say("THE WORDS of this course, to come back to:").await?;
    for (word, meaning) in GLOSSARY {
        for (index, line) in wrap(meaning, 74).into_iter().enumerate() {
            let word = if index == 0 { word } else { "" };
            world.stage.line(Style::Code, format!("  {word:<15} {line}"));
        }
    }
    Ok(())
}
