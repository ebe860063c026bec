//! What a server did, as a line of text, and whether it is what a claim expects.
//!
//! A line has parts separated by ` ; `, such as the events that came, and a part has words: plain
//! ones, all of which are expected, and fields `name=value`, of which a claim names those that it
//! is about.

use std::collections::HashMap;

/// What names in braces stand for. A claim gives names to values of earlier answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(HashMap<String, String>);

impl Names {
    pub(super) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    /// Replaces `{name}`, `{name+3}` and `{name-3}` by what they stand for. Unknown names stay.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let Some((name, after)) = behind.split_once('}') else { break };
            filled += before;
            match self.value(name) {
                Some(value) => filled += &value,
                None => filled += &format!("{{{name}}}"),
            }
            rest = after;
        }
        filled + rest
    }

    fn value(&self, name: &str) -> Option<String> {
        let Some(at) = name.find(['+', '-']) else { return self.0.get(name).cloned() };
        let (name, more) = name.split_at_checked(at)?;
        let value: i64 = self.0.get(name)?.parse().ok()?;
        Some((value + more.parse::<i64>().ok()?).to_string())
    }
}

/// The expectation of an answer that may be any.
const ANYTHING: &str = "*";

/// Whether an outcome is as expected. Gives values names if the expectation has `field=?name`.
pub(super) fn fits(expected: &str, outcome: &str, names: &mut Names) -> bool {
    if expected == ANYTHING {
        return true;
    }
    let expected: Vec<_> = expected.split(" ; ").collect();
    let parts: Vec<_> = outcome.split(" ; ").collect();
    expected.len() == parts.len()
        && expected.iter().zip(parts).all(|(expected, part)| part_fits(expected, part, names))
}

fn part_fits(expected: &str, part: &str, names: &mut Names) -> bool {
    let is_plain = |word: &&str| operator(word).is_none();
    expected.split(' ').filter(is_plain).eq(part.split(' ').filter(is_plain))
        && expected.split(' ').all(|word| {
            let Some((name, operator, wanted)) = operator(word) else { return true };
            let Some(value) = field(part, name) else { return false };
            if let Some(name) = wanted.strip_prefix('?') {
                names.set(name, value.to_owned());
                return true;
            }
            let wanted = names.fill(wanted);
            let order = || Some(value.parse::<i64>().ok()?.cmp(&wanted.parse::<i64>().ok()?));
            match operator {
                _ if wanted == "*" => true,
                "=" => value == wanted,
                "~" => value.contains(&wanted),
                "!=" => value != wanted,
                ">" => order().is_some_and(std::cmp::Ordering::is_gt),
                _ => order().is_some_and(std::cmp::Ordering::is_lt),
            }
        })
}

/// The outcome with those fields alone that the expectation names.
pub(super) fn shown(expected: &str, outcome: &str) -> String {
    let named: Vec<_> = expected.split(' ').filter_map(|word| Some(operator(word)?.0)).collect();
    let is_shown = |word: &&str| operator(word).is_none_or(|(name, ..)| named.contains(&name));
    outcome.split(' ').filter(is_shown).collect::<Vec<_>>().join(" ")
}

/// Splits a word into the name of a field, a comparison, and a value.
fn operator(word: &str) -> Option<(&str, &str, &str)> {
    let at = word.find(['=', '!', '<', '>', '~'])?;
    let (name, rest) = word.split_at_checked(at)?;
    let length = if rest.starts_with("!=") { 2 } else { 1 };
    let (operator, value) = rest.split_at_checked(length)?;
    (!name.is_empty()).then_some((name, operator, value))
}

fn field<'a>(part: &'a str, name: &str) -> Option<&'a str> {
    part.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// A value as one word.
pub(super) fn word(value: &[u8]) -> String {
    let escaped = value.escape_ascii().to_string();
    escaped.replace(' ', "\\x20").replace(';', "\\x3b")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_fits_in_plain_words_and_in_the_fields_that_are_named() {
        let check = |expected: &str, outcome: &str, fits_it: bool| {
            let mut names = Names::default();
            names.set("z", "7".into());
            assert_eq!(fits(expected, outcome, &mut names), fits_it, "{expected:?} {outcome:?}");
        };
        check("ok", "ok version=1", true);
        check("ok version=1", "ok zxid=5 version=1", true);
        check("ok version=1", "ok zxid=5 version=2", false);
        check("ok version=1", "ok zxid=5", false);
        check("ok", "NoNode", false);
        check("ok", "ok wrong-xid", false);
        check("ok zxid={z}", "ok zxid=7", true);
        check("ok zxid={z+1}", "ok zxid=8", true);
        check("ok zxid>{z}", "ok zxid=7", false);
        check("ok zxid>{z}", "ok zxid=10", true);
        check("ok zxid!={z}", "ok zxid=7", false);
        check("ok zxid=?a mzxid={a}", "ok zxid=7 mzxid=7", true);
        check("ok zxid=?a mzxid={a}", "ok zxid=7 mzxid=8", false);
        check("NodeCreated $/a", "NodeCreated $/a zxid=5", true);
        check("NodeCreated $/a", "NodeCreated $/b zxid=5", false);
        check("none", "NodeCreated $/b zxid=5", false);
        check("ok ; check", "ok ; check", true);
        check("ok ; check", "ok ; check ; delete", false);
    }
}
