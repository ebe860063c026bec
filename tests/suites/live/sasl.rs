//! SASL's DIGEST-MD5 with real servers, which read their users from a JAAS configuration.

use std::fs;

use anyhow::Result;
use tempfile::TempDir;
use zk_client::{
    Acl, Client, ClientBuilder, CreateOptions, ErrorCode, ErrorKind, Id, Perms, SessionState,
};
use zk_test_support::server::{ServerConfig, Standalone};

/// A user name and a password that need every kind of quoting.
const ODD: (&str, &str) = ("b\u{f6}b \u{20ac}", "p=\u{e4},ss \u{20ac}");

/// A server with users, and the folder that holds their names.
async fn server(insists: bool) -> Result<(Standalone, TempDir)> {
    let folder = tempfile::tempdir()?;
    let jaas = folder.path().join("jaas.conf");
    let (odd, password) = ODD;
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let users = format!("user_bob=\"secret\" user_super=\"admin\" \"user_{odd}\"=\"{password}\"");
    fs::write(&jaas, format!("Server {{ {module} {users}; }};\n"))?;
    let mut properties = vec![
        ("java.security.auth.login.config".to_owned(), jaas.display().to_string()),
        (
            "zookeeper.authProvider.1".to_owned(),
            "org.apache.zookeeper.server.auth.SASLAuthenticationProvider".to_owned(),
        ),
        ("file.encoding".to_owned(), "UTF-8".to_owned()),
    ];
    if insists {
        let name = "zookeeper.sessionRequireClientSASLAuth".to_owned();
        properties.push((name, "true".to_owned()));
    }
    let config = ServerConfig { properties, ..ServerConfig::lasting() };
    Ok((Standalone::with(&config).await?, folder))
}

fn builder() -> ClientBuilder {
    Client::builder().session_timeout(ServerConfig::LASTING)
}

#[tokio::test]
async fn a_user_may_what_others_may_not_and_still_after_a_reconnect() -> Result<()> {
    for insists in [false, true] {
        let (mut server, _folder) = server(insists).await?;
        let bob = builder().sasl_digest_md5("bob", "secret").connect(&server.address()).await?;
        let session = bob.session();
        let id = Id::new("sasl", "bob");
        assert!(bob.who_am_i().await?.contains(&id));
        let acl = [Acl::new(Perms::ALL, id)];
        bob.create("/his", b"x", &CreateOptions::persistent().with_acl(&acl)).await?;

        let mut states = bob.states();
        let restarted = server.restart();
        let (lost, restarted) =
            tokio::join!(states.wait_for(|state| *state == SessionState::Disconnected), restarted);
        drop(lost?);
        restarted?;
        assert_eq!(&bob.get_data("/his").await?.data[..], b"x");
        assert_eq!(bob.session(), session);

        // The user `super` is the superuser.
        let root = builder().sasl_digest_md5("super", "admin").connect(&server.address()).await?;
        assert_eq!(&root.get_data("/his").await?.data[..], b"x");
        let (name, password) = ODD;
        let other = builder().sasl_digest_md5(name, password).connect(&server.address()).await?;
        assert!(other.who_am_i().await?.contains(&Id::new("sasl", name)));
        let error = other.get_data("/his").await.expect_err("it is his");
        assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
        if !insists {
            let nobody = builder().connect(&server.address()).await?;
            let error = nobody.get_data("/his").await.expect_err("it is his");
            assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_user_are_refused_for_good() -> Result<()> {
    let (server, _folder) = server(true).await?;
    // The test does not use the password of another user: 3.8.0 accepts an unknown user with the
    // password of the last known user.
    for (user, password) in [("bob", "guess"), ("nobody", "guess")] {
        let builder = builder().sasl_digest_md5(user, password);
        let error = builder.connect(&server.address()).await.expect_err("it must not be let in");
        assert_eq!(error.kind(), ErrorKind::AuthFailed);
        let text = error.to_string();
        let expected = "authentication failed: the server refused the user of SASL, or the user's \
                        password or ticket";
        assert_eq!(text, expected);
    }
    // A server that requires SASL closes the connection of a client that does not use it.
    let nobody = builder().connect(&server.address()).await?;
    let error = nobody.get_data("/").await.expect_err("without SASL");
    assert_eq!(error.code(), Some(ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH));
    Ok(())
}

#[tokio::test]
async fn a_server_without_sasl_is_an_error_that_says_so() -> Result<()> {
    let server = Standalone::start().await?;
    let builder = builder().sasl_digest_md5("bob", "secret");
    let error = builder.connect(&server.address()).await.expect_err("it has no SASL");
    assert_eq!(error.to_string(), "authentication failed: the server has no SASL");
    Ok(())
}
