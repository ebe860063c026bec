//! The ensemble itself: its members, and changing them while it serves.
//!
//! The membership is the data of a node outside of every chroot.

use zk_proto::{GetDataRequest, GetDataResponse, ReconfigRequest, Text, Zxid};

use crate::driver::shared_session::Completion;
use crate::error::Error;
use crate::handles::client::{Call, Client, Reply};
use crate::handles::watcher::Watcher;
use crate::model::ensemble::{EnsembleConfig, Reconfig, joined};
use crate::session::WatchKind;

/// Where servers keep the membership.
const CONFIG: &str = "/zookeeper/config";

/// Any configuration will do.
const ANY_CONFIG: i64 = -1;

impl Client {
    /// The members of the ensemble; none if the server is standalone. Since ZooKeeper 3.5.
    ///
    /// A chroot does not matter. The server replies with the state that it knows: call
    /// [`sync`](Self::sync) first to see what others have just changed.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// for member in client.get_config().await?.members {
    ///     println!("{} is {:?}, for clients at {:?}", member.id, member.role, member.client);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_config(&self) -> Reply<EnsembleConfig> {
        self.send(CONFIG, &GetDataRequest { path: CONFIG, watch: false }, config)
    }

    /// Like [`get_config`](Self::get_config), with a watch for the next change of the membership.
    pub fn get_config_and_watch(&self) -> Reply<(EnsembleConfig, Watcher)> {
        let request = GetDataRequest { path: CONFIG, watch: true };
        self.send_watching(CONFIG, CONFIG, &request, WatchKind::Data, config)
    }

    /// Changes the membership of the ensemble. Returns the new configuration. Since ZooKeeper 3.5.
    ///
    /// The change is made if the configuration is still `from_config`, or always if that is `None`.
    /// The servers must run with `reconfigEnabled=true`, and this client needs the permission to
    /// write `/zookeeper/config`, which by default only the superuser has.
    ///
    /// ```
    /// # async fn f(client: &zk_client::Client) -> Result<(), zk_client::Error> {
    /// use zk_client::{Member, Reconfig};
    ///
    /// let now = client.get_config().await?;
    /// let joining = [Member::new(4, "zk4:2888:3888").client("2181").observer()];
    /// let change = Reconfig::Change { joining: &joining, leaving: &[3] };
    /// let then = client.reconfig(change, now.version).await?;
    /// println!("{} members", then.members.len());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// `ReconfigDisabled` if the servers do not allow it, and `Unimplemented` if the server is
    /// standalone or [too old](crate#old-servers); `NoAuth`; `BadVersion` if the configuration is
    /// another one; `BadArguments` if the change makes no sense; `NewConfigNoQuorum` if too few of
    /// the new members are running and up to date; `ReconfigInProgress`.
    ///
    /// A change that deposes the leader breaks this client's connection, with the
    /// [`outcome`](Error::outcome) `Unknown`: [`get_config`](Self::get_config) shows whether it was
    /// made.
    pub fn reconfig(
        &self,
        change: Reconfig<'_>,
        from_config: Option<Zxid>,
    ) -> Reply<EnsembleConfig> {
        let (joining, leaving, members) = match change {
            Reconfig::Change { joining, leaving } => (joined(joining), joined(leaving), None),
            Reconfig::Members(members) => (None, None, joined(members)),
        };
        let request = ReconfigRequest {
            joining_servers: text(joining.as_deref()),
            leaving_servers: text(leaving.as_deref()),
            new_members: text(members.as_deref()),
            cur_config_id: from_config.map_or(ANY_CONFIG, |Zxid(id)| id),
        };
        self.send(CONFIG, &request, config)
    }
}

fn text(part: Option<&str>) -> Text<'_> {
    part.map_or(Text::NULL, Text::new)
}

fn config(call: &Call, completion: Completion) -> Result<EnsembleConfig, Error> {
    let reply = call.to_result(completion)?;
    let GetDataResponse { data, stat } = call.decode(&reply)?;
    let text = String::from_utf8_lossy(data.unwrap_or_default()).into_owned();
    Ok(EnsembleConfig::parse(text, stat))
}
