//! Claims about the client on one server with the default settings and no other clients.

#![expect(missing_docs, reason = "the names are the claims")]

use std::time::Duration;

use anyhow::Result;
use zk_client::{CreateOptions, ErrorCode, Op, Read, SessionState};

use crate::claims::target::Target;

const PERSISTENT: CreateOptions<'_> = CreateOptions::persistent();

pub async fn a_time_to_live_takes_a_server_that_allows_it(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let session = client.session();
    let brief = PERSISTENT.ttl(Duration::from_secs(1));
    // Another server may allow it, so each call sends a request; and the connection stays.
    for _ in 0..2 {
        let error = client.create("/t", b"", &brief).await.expect_err("not here");
        assert_eq!(error.code(), Some(ErrorCode::UNIMPLEMENTED));
        assert!(error.to_string().contains("extendedTypesEnabled"), "{error}");
        let ops = (Op::create("/t", b"", &brief), Op::check("/", None));
        let error = client.multi(ops).await.expect_err("not here");
        assert_eq!((error.code(), error.failed_op()), (Some(ErrorCode::UNIMPLEMENTED), Some(0)));
        assert!(error.to_string().contains("extendedTypesEnabled"), "{error}");
    }
    assert_eq!((client.exists("/t").await?, client.session()), (None, session));
    assert_eq!(client.state(), SessionState::Connected);
    Ok(())
}

pub async fn a_server_that_stands_alone_has_no_members(target: &Target) -> Result<()> {
    let config = target.connect().await?.get_config().await?;
    assert_eq!((config.members.as_slice(), config.version), (&[][..], None));
    Ok(())
}

pub async fn many_reads_are_no_transaction(target: &Target) -> Result<()> {
    let client = target.connect().await?;
    let zxid = client.create("/mark", b"", &PERSISTENT).await?.czxid;
    client.multi_read(()).await?;
    let [mark, none] =
        client.multi_read([Read::get_data("/mark"), Read::get_data("/none")]).await?;
    assert!(mark.is_ok() && none.is_err(), "{none:?}");
    let next = client.create("/next", b"", &PERSISTENT).await?.czxid;
    assert_eq!(next.0, zxid.0 + 1);
    Ok(())
}
