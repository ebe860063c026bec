//! Claims that hold on every server, real or embedded, alone or in an ensemble.
//!
//! Each claim gets a new and empty server, as a [`Target`] or by its address.
//!
//! Each file has a macro that lists its claims. [`leak_claims!`](crate::leak_claims) makes tests of
//! claims that take an address. The others take a value that becomes a [`Target`], and make tests
//! with a server for each claim. Without a value they make a list of [`Claim`]s: for
//! [`claims_at_once!`](crate::claims_at_once), which makes one test of several lists, and for
//! [`broken_of`], which tells the claims that do not hold on a server.

pub mod alone;
pub mod auth;
pub mod barrier;
pub mod cached;
pub mod client;
pub mod composed;
pub mod counter;
pub mod election;
pub mod group;
pub mod leaks;
pub mod lock;
pub mod operations;
pub mod partitioner;
pub mod semaphore;
pub mod target;
pub mod tree_cache;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::time::timeout;

use crate::server::ServerConfig;
use target::{SESSION_TIMEOUT, Target};

/// Makes a module of tests: one for each claim, with a server of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! claims {
    (
        $tests:ident, $start:expr, |$server:ident| $place:expr,
        $claims:ident: $($claim:ident),+ $(,)?
    ) => {
        mod $tests {
            use super::*;

            $(
                #[tokio::test]
                async fn $claim() -> anyhow::Result<()> {
                    let $server = $start;
                    $crate::claims::$claims::$claim($place).await
                }
            )+
        }
    };
}

/// How the lists of claims that take a [`Target`] expand. With a name and an expression that yields
/// a target they make a module of tests, as [`claims!`](crate::claims) does. Without arguments they
/// make the claims themselves, for [`claims_at_once!`](crate::claims_at_once).
#[doc(hidden)]
#[macro_export]
macro_rules! target_claims {
    ([$tests:ident, $start:expr], $claims:ident: $($claim:ident),+ $(,)?) => {
        $crate::claims!(
            $tests,
            $start,
            |target| &$crate::claims::target::Target::from(target),
            $claims: $($claim),+
        );
    };
    ([], $claims:ident: $($claim:ident),+ $(,)?) => {
        [$($crate::claims::Claim {
            name: stringify!($claim),
            holds: |target| Box::pin(async move {
                $crate::claims::$claims::$claim(&target).await
            }),
        }),+]
    };
}

/// Makes one test that runs all claims of these lists at once on the same servers.
///
/// Each claim has a tree of its own.
#[macro_export]
macro_rules! claims_at_once {
    ($test:ident, $start:expr, $($list:ident),+ $(,)?) => {
        #[tokio::test]
        async fn $test() -> anyhow::Result<()> {
            let target = $crate::claims::target::Target::from($start);
            let mut claims = Vec::new();
            $(claims.extend($crate::$list!());)+
            $crate::claims::hold_at_once(&target, &claims).await
        }
    };
}

/// One claim.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    /// The claim's name.
    pub name: &'static str,
    /// The check of the claim.
    pub holds: fn(Target) -> Holds,
}

/// The future of a check: see [`Claim::holds`].
pub type Holds = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// Runs all of the claims at once on the same servers, and fails with the names of those that fail.
pub async fn hold_at_once(target: &Target, claims: &[Claim]) -> Result<()> {
    let names = claims.iter().map(|claim| claim.name).collect::<Vec<_>>();
    let parts = target.divided(&names).await?;
    let broken = broken_of(claims.iter().copied().zip(parts), Duration::MAX).await;
    ensure!(broken.is_empty(), "{broken:#?}");
    Ok(())
}

/// Runs all of these claims at once, each on its servers. Returns those that do not hold, or not
/// within this time, with the reasons.
pub async fn broken_of(
    claims: impl IntoIterator<Item = (Claim, Target)>,
    patience: Duration,
) -> BTreeMap<&'static str, String> {
    let start = |(claim, target): (Claim, Target)| {
        (claim.name, tokio::spawn(timeout(patience, (claim.holds)(target))))
    };
    let running = claims.into_iter().map(start).collect::<Vec<_>>();
    let mut broken = BTreeMap::new();
    for (name, claim) in running {
        let why = match claim.await {
            Ok(Ok(Ok(()))) => continue,
            Ok(Ok(Err(error))) => format!("{error:#}"),
            Ok(Err(late)) => late.to_string(),
            Err(panic) => panic.to_string(),
        };
        broken.insert(name, why);
    }
    broken
}

/// Configures a real server as the claims need it.
///
/// It gets nodes with a time to live, and [a superuser](auth::SUPER).
#[must_use]
pub fn equipped(mut config: ServerConfig) -> ServerConfig {
    let more = [
        ("zookeeper.extendedTypesEnabled", "true".to_owned()),
        ("zookeeper.DigestAuthenticationProvider.superDigest", auth::super_digest()),
    ];
    config.properties.extend(more.map(|(name, value)| (name.to_owned(), value)));
    // The default with a tick of 200 ms would be 4 seconds at most.
    config.max_session_timeout.get_or_insert(SESSION_TIMEOUT);
    config
}

/// Configures the embedded server as the claims need it.
pub fn equipped_embedded(config: zk_embedded::Config) -> zk_embedded::Config {
    // All claims at once may have more connections than the 60 of the default.
    config.extended_types(true).super_digest(auth::super_digest()).max_connections_per_host(0)
}
