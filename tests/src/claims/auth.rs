//! What a client proves, and what that lets it do: on a server whose super user is [`SUPER`].

#![expect(missing_docs, reason = "the names are the claims")]

use std::time::Duration;

use anyhow::Result;
use zk_client::{
    Acl, Client, ClientBuilder, CreateOptions, ErrorCode, ErrorKind, Id, OpCode, Outcome, Perms,
    SessionState,
};

use crate::fault::{Fault, Faults};

/// The super user, and its password.
pub const SUPER: &[u8] = b"super:admin";

/// The name of [`SUPER`] in a server's configuration.
pub fn super_digest() -> String {
    zk_proto::digest(SUPER)
}

/// Puts every claim of this file to the server, new and empty each time, that `$start` yields.
#[macro_export]
macro_rules! auth_claims {
    ($server:ident, $start:expr) => {
        $crate::claims!(
            $server,
            $start,
            |server| &server.address(),
            auth:
            only_the_owner_may_read_and_still_after_a_reconnect,
            the_super_user_may_do_everything,
            a_refused_scheme_ends_the_client_and_not_the_session,
        );
    };
}

fn builder() -> ClientBuilder {
    Client::builder().session_timeout(Duration::from_secs(4))
}

pub async fn only_the_owner_may_read_and_still_after_a_reconnect(address: &str) -> Result<()> {
    let faults = Faults::new();
    let owner = builder().auth("digest", b"ann:secret").connector(faults.clone());
    let owner = owner.connect(address).await?;
    let id = zk_proto::digest(b"ann:secret");
    let acl = [Acl::new(Perms::ALL, Id::new("digest", id))];
    owner.create("/hers", b"", &CreateOptions::persistent().with_acl(&acl)).await?;

    let other = builder().connect(address).await?;
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
    // Asked while there is no connection, so it is among the first on the next one.
    let node = owner.get_data("/hers");
    assert_eq!(&node.await?.data[..], b"x");
    assert_eq!(lost.await.expect_err("its answer was lost").outcome(), Outcome::Unknown);

    other.add_auth("digest", b"ann:secret").await?;
    other.delete("/hers", None).await?;
    Ok(())
}

pub async fn the_super_user_may_do_everything(address: &str) -> Result<()> {
    let client = builder().connect(address).await?;
    let nobody = [Acl::new(Perms::READ, Id::ip("10.9.8.7"))];
    client.create("/closed", b"", &CreateOptions::persistent().with_acl(&nobody)).await?;
    client.add_auth("digest", b"super:guess").await?;
    let error = client.set_data("/closed", b"", None).await.expect_err("that was a guess");
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
    client.add_auth("digest", SUPER).await?;
    client.set_data("/closed", b"", None).await?;
    Ok(())
}

pub async fn a_refused_scheme_ends_the_client_and_not_the_session(address: &str) -> Result<()> {
    let refused = builder().auth("plug-in", b"ticket").connect(address).await;
    let error = refused.expect_err("no server knows this scheme");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::AuthFailed, Outcome::NotApplied));
    assert!(error.to_string().contains("plug-in"), "{error}");

    let client = builder().connect(address).await?;
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
    let heir = builder().session(session).connect(address).await?;
    let node = heir.adopt("/mine").await?;
    node.delete().await?;
    heir.close().await;
    Ok(())
}
