//! Claims about authentication and its effects, on servers whose superuser is [`SUPER`].

#![expect(missing_docs, reason = "the names are the claims")]

use anyhow::Result;
use zk_client::{
    Acl, CreateOptions, ErrorCode, ErrorKind, Id, OpCode, Outcome, Perms, SessionState,
};

use crate::claims::target::Target;
use crate::fault::{Fault, Faults};

/// The superuser, with its password.
pub const SUPER: &[u8] = b"super:admin";

/// The digest of [`SUPER`] for a server's configuration.
pub fn super_digest() -> String {
    zk_proto::digest(SUPER)
}

pub async fn only_the_owner_may_read_and_still_after_a_reconnect(target: &Target) -> Result<()> {
    let faults = Faults::over(target.way());
    let owner = target.builder().auth("digest", b"ann:secret").connector(faults.clone());
    let owner = owner.connect(&target.servers()).await?;
    let id = zk_proto::digest(b"ann:secret");
    let acl = [Acl::new(Perms::ALL, Id::new("digest", id))];
    owner.create("/hers", b"", &CreateOptions::persistent().with_acl(&acl)).await?;

    let other = target.connect().await?;
    other.wait_for_zxid(owner.last_zxid()).await?;
    for proof in [None, Some(b"ann:wrong".as_slice()), Some(b"bob:secret")] {
        if let Some(proof) = proof {
            other.add_auth("digest", proof).await?;
        }
        let error = other.get_data("/hers").await.expect_err("it is hers");
        assert_eq!(error.code(), Some(ErrorCode::NO_AUTH), "{proof:?}");
    }

    let mut states = owner.states();
    faults.arm(Fault::LoseReply(OpCode::SET_DATA));
    let lost = owner.set_data("/hers", b"x", None);
    states.wait_for(|state| *state == SessionState::Disconnected).await?;
    // They are asked while there is no connection, so they are the first requests on the next one.
    let (synced, node) = (owner.sync("/"), owner.get_data("/hers"));
    synced.await?;
    assert_eq!(&node.await?.data[..], b"x");
    assert_eq!(lost.await.expect_err("its answer was lost").outcome(), Outcome::Unknown);

    other.add_auth("digest", b"ann:secret").await?;
    other.delete("/hers", None).await?;
    Ok(())
}

pub async fn the_super_user_may_do_everything(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let nobody = [Acl::new(Perms::READ, Id::ip("10.9.8.7"))];
    client.create("/closed", b"", &CreateOptions::persistent().with_acl(&nobody)).await?;
    client.add_auth("digest", b"super:guess").await?;
    let error = client.set_data("/closed", b"", None).await.expect_err("that was a guess");
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
    client.add_auth("digest", SUPER).await?;
    client.set_data("/closed", b"", None).await?;
    Ok(())
}

pub async fn a_refused_scheme_ends_the_client_and_not_the_session(target: &Target) -> Result<()> {
    let refused = target.builder().auth("plug-in", b"ticket").connect(&target.servers()).await;
    let error = refused.expect_err("no server knows this scheme");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::AuthFailed, Outcome::NotApplied));
    assert!(error.to_string().contains("plug-in"), "{error}");

    let client = target.connect().await?;
    client.create("/mine", b"", &CreateOptions::ephemeral()).await?;
    let session = client.session();
    let (_, mut watch) = client.get_data_and_watch("/mine").await?;
    let (proof, later) =
        client.batch(|| (client.add_auth("plug-in", b"ticket"), client.get_data("/mine")));
    for error in [
        proof.await.expect_err("no server knows this scheme"),
        later.await.map(drop).expect_err("the client is over"),
        watch.changed().await.map(drop).expect_err("the client is over"),
        client.sync("/").await.expect_err("the client is over"),
    ] {
        assert_eq!(error.kind(), ErrorKind::AuthFailed);
        let text = error.to_string();
        assert!(text.contains("plug-in") && !text.contains("ticket"), "{text}");
    }

    let session = session.expect("it was given one");
    let heir = target.builder().session(session).connect(&target.servers()).await?;
    heir.sync("/").await?;
    let node = heir.adopt("/mine").await?;
    node.delete().await?;
    heir.close().await;
    Ok(())
}
