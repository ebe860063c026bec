//! Claims that hold on every server, real or embedded: each is given the address of one that is new
//! and empty.
//!
//! [`auth_claims!`](crate::auth_claims), [`client_claims!`](crate::client_claims),
//! [`operation_claims!`](crate::operation_claims) and [`lock_claims!`](crate::lock_claims) make
//! tests of them.

pub mod auth;
pub mod client;
pub mod lock;
pub mod operations;

/// Makes a module of tests: for each of the claims one, with a server of its own.
#[doc(hidden)]
#[macro_export]
macro_rules! claims {
    ($server:ident, $start:expr, $claims:ident: $($claim:ident),+ $(,)?) => {
        mod $server {
            use super::*;

            $(
                #[tokio::test]
                async fn $claim() -> anyhow::Result<()> {
                    let server = $start;
                    $crate::claims::$claims::$claim(&server.address()).await
                }
            )+
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_claim_is_forgotten() {
        let (auth, operations) = (include_str!("auth.rs"), include_str!("operations.rs"));
        for file in [auth, include_str!("client.rs"), include_str!("lock.rs"), operations] {
            for function in file.split("pub async fn ").skip(1) {
                let (name, rest) = function.split_once('(').expect("parameters");
                let is_claim = rest.trim_start().starts_with("address: &str)")
                    || rest.trim_start().starts_with("address: &str,\n)");
                let is_listed = file.contains(&format!(" {name},\n"));
                assert_eq!(is_listed, is_claim, "{name}");
            }
        }
    }
}
