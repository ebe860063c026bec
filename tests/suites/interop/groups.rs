//! Our groups in one folder with kazoo's parties.

use anyhow::Result;
use zk_client::Client;
use zk_recipes::{Group, Members};
use zk_test_support::server::Standalone;

use crate::locks::kazoo;

const PATH: &str = "/service/members";

/// Waits until the members have these data, in any order.
async fn shows(members: &mut Members, expected: &[&str]) -> Result<()> {
    loop {
        let view = members.next().await?;
        let mut data = view.members.iter().map(|member| &*member.data).collect::<Vec<_>>();
        data.sort_unstable();
        if data.iter().copied().eq(expected.iter().map(|data| data.as_bytes())) {
            return Ok(());
        }
    }
}

#[tokio::test]
async fn a_party_of_kazoos_sees_our_member_and_ours_sees_its() -> Result<()> {
    let server = Standalone::start().await?;
    let client = Client::connect(&server.address()).await?;
    let group = Group::new(&client, PATH)?;
    let mut members = group.watch();
    let ours = group.join("worker-7", "ours").await?;
    shows(&mut members, &["ours"]).await?;
    let theirs = kazoo(&server, &["attends", PATH, "theirs", "ours"])?;
    shows(&mut members, &["ours", "theirs"]).await?;
    ours.leave().await?;
    theirs.finish().await?;
    shows(&mut members, &[]).await?;
    client.close().await;
    Ok(())
}
