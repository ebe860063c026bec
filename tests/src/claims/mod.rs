//! Claims that hold on every server, real or embedded, alone or in an ensemble: each is given one
//! that is new and empty, as a [`Target`](target::Target) or by its address.
//!
//! [`auth_claims!`](crate::auth_claims), [`client_claims!`](crate::client_claims),
//! [`composed_claims!`](crate::composed_claims), [`operation_claims!`](crate::operation_claims),
//! [`leak_claims!`](crate::leak_claims) and
//! [`lock_claims!`](crate::lock_claims) make tests of them.

pub mod auth;
pub mod client;
pub mod composed;
pub mod leaks;
pub mod lock;
pub mod operations;
pub mod target;

/// Makes a module of tests: for each of the claims one, with a server of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! claims {
    ($tests:ident, $start:expr, |$server:ident| $place:expr, $claims:ident: $($claim:ident),+ $(,)?) => {
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

/// Makes one test: all of the claims at once on the same servers, each in a tree of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! claims_at_once {
    ($test:ident, $start:expr, |$server:ident| $place:expr, $claims:ident: $($claim:ident),+ $(,)?) => {
        #[tokio::test]
        async fn $test() -> anyhow::Result<()> {
            let names = [$(stringify!($claim)),+];
            let whole = $crate::claims::target::Target::from($start);
            let mut parts = whole.divided(&names).await?.into_iter();
            let mut running = Vec::new();
            $(
                let $server = parts.next().expect("one for each name");
                running.push(tokio::spawn(async move {
                    $crate::claims::$claims::$claim($place).await
                }));
            )+
            let mut broken = Vec::new();
            for (name, claim) in names.into_iter().zip(running) {
                match claim.await {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => broken.push(format!("{name}: {error:#}")),
                    Err(panic) => broken.push(format!("{name}: {panic}")),
                }
            }
            assert!(broken.is_empty(), "{broken:#?}");
            Ok(())
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_claim_is_forgotten() {
        let (auth, operations) = (include_str!("auth.rs"), include_str!("operations.rs"));
        let (client, composed) = (include_str!("client.rs"), include_str!("composed.rs"));
        let (leaks, lock) = (include_str!("leaks.rs"), include_str!("lock.rs"));
        for file in [auth, client, composed, leaks, lock, operations] {
            for function in file.split("pub async fn ").skip(1) {
                let (name, rest) = function.split_once('(').expect("parameters");
                let given = rest.trim_start();
                let is_claim = ["address: &str)", "address: &str,\n)", "target: &Target"]
                    .iter()
                    .any(|parameter| given.starts_with(parameter));
                let is_listed = file.contains(&format!(" {name},\n"));
                assert_eq!(is_listed, is_claim, "{name}");
            }
        }
    }
}
