//! Deviations that are known: numbers of claims, one in a line, each with a comment that says why.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

use super::claim::Number;

/// A list of known deviations.
#[derive(Clone, Debug, Default)]
pub struct Allowed(BTreeMap<Number, String>);

impl Allowed {
    /// Reads a list. Behind a `#` is a comment, which reports show.
    ///
    /// ```
    /// use zk_fuzz_kit::conformance::Allowed;
    ///
    /// let allowed = Allowed::parse("# Of our own.\n4.12  # create answers too early\n")?;
    /// assert_eq!(allowed.reason("4.12".parse()?), Some("create answers too early"));
    /// assert!(Allowed::parse("four").is_err());
    /// # Ok::<(), anyhow::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A line that has no number of a claim.
    pub fn parse(text: &str) -> Result<Self> {
        let mut allowed = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let (number, comment) = line.split_once('#').unwrap_or((line, ""));
            if !number.trim().is_empty() {
                let number = number.trim().parse();
                let number = number.with_context(|| format!("line {}", index + 1))?;
                allowed.insert(number, comment.trim().to_owned());
            }
        }
        Ok(Self(allowed))
    }

    /// Why the claim need not hold, if it need not.
    pub fn reason(&self, number: Number) -> Option<&str> {
        self.0.get(&number).map(String::as_str)
    }
}
