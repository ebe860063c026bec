//! Claims about groups on a server: who is in them, and what a takeover does.

use anyhow::Result;
use zk_recipes::{ErrorKind, Group, LockState, Loss, Release};

use crate::claims::lock::connect;
use crate::claims::target::Target;
use crate::fault::Faults;

const PATH: &str = "/service/members";

async fn group(target: &Target) -> Result<Group> {
    Ok(Group::new(&connect(target, &Faults::new()).await?, PATH)?)
}

pub async fn a_takeover_ends_the_earlier_member_in_one_transaction(target: &Target) -> Result<()> {
    let observed = group(target).await?;
    let mut members = observed.watch();
    let old = group(target).await?.join("ana", "old").await?;
    while members.next().await?.members.is_empty() {}
    let new = group(target).await?.take_over("ana", "new").await?;
    let view = members.next().await?;
    let [member] = &view.members[..] else { anyhow::bail!("{view:?}") };
    assert_eq!((member.czxid.0, &*member.data), (new.token().czxid(), &b"new"[..]));
    assert!(new.token() > old.token());
    assert_eq!(old.set_data("x").await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(old.state(), LockState::Lost(Loss::NodeDeleted));
    assert_eq!(old.leave().await?, Release::AlreadyLost);
    new.verify().await?;
    Ok(())
}
