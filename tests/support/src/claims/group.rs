//! Claims about groups on a server: who is in them, and what a takeover does.

#![expect(missing_docs, reason = "the names are the claims")]

use anyhow::{Context, Result, ensure};
use zk_recipes::{ErrorKind, Group, LockState, Loss, Members, Release};

use crate::claims::lock::connect;
use crate::claims::target::Target;
use crate::fault::Faults;

/// Runs every claim of this file on the target that `$start` yields: see
/// [`target_claims!`](crate::target_claims).
#[macro_export]
macro_rules! group_claims {
    ($($given:tt)*) => {
        $crate::target_claims! {
            [$($given)*],
            group:
            a_group_shows_who_joins_changes_and_leaves,
            a_takeover_ends_the_earlier_member_in_one_transaction,
            an_id_is_free_when_its_member_has_left,
        }
    };
}

const PATH: &str = "/service/members";

async fn group(target: &Target) -> Result<Group> {
    Ok(Group::new(&connect(target, &Faults::new()).await?, PATH)?)
}

/// Waits for a view with these members, and checks that epochs grow.
async fn shows(members: &mut Members, expected: &[(&str, &[u8])]) -> Result<()> {
    loop {
        let last = members.last().map(|view| view.epoch);
        let view = members.next().await?;
        ensure!(Some(view.epoch) > last, "{view:?} follows {last:?}");
        let found = view.members.iter().map(|member| (&*member.id, &*member.data));
        if found.eq(expected.iter().copied()) {
            return Ok(());
        }
    }
}

pub async fn a_group_shows_who_joins_changes_and_leaves(target: &Target) -> Result<()> {
    let mut members = group(target).await?.watch();
    shows(&mut members, &[]).await?;
    let ana = group(target).await?.join("ana", "1").await?;
    shows(&mut members, &[("ana", b"1")]).await?;
    let ben = group(target).await?.join("ben", "2").await?;
    shows(&mut members, &[("ana", b"1"), ("ben", b"2")]).await?;
    ana.set_data("one").await?;
    shows(&mut members, &[("ana", b"one"), ("ben", b"2")]).await?;
    assert_eq!(ben.leave().await?, Release::Released);
    shows(&mut members, &[("ana", b"one")]).await?;
    drop(ana);
    shows(&mut members, &[]).await
}

pub async fn a_takeover_ends_the_earlier_member_in_one_transaction(target: &Target) -> Result<()> {
    let observed = group(target).await?;
    let mut members = observed.watch();
    let old = group(target).await?.join("ana", "old").await?;
    shows(&mut members, &[("ana", b"old")]).await?;
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

pub async fn an_id_is_free_when_its_member_has_left(target: &Target) -> Result<()> {
    let first = group(target).await?.join("ana", "1").await?;
    let second = group(target).await?;
    assert!(second.try_join("ana", "2").await?.is_none());
    let waits = second.clone();
    let waiting = tokio::spawn(async move { waits.join("ana", "2").await });
    drop(first);
    let second = waiting.await??;
    let other = group(target).await?.try_join("a", "").await?.context("another id")?;
    second.verify().await?;
    drop(other);
    Ok(())
}
