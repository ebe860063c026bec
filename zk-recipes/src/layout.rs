//! How contenders name their nodes.
//!
//! The default is Curator's: `_c_<uuid>-lock-<sequence>`. Curator's InterProcessMutex, go-zk and
//! the Rust crate zookeeper-client sort by the number behind the last `lock-`, so all of them and
//! we exclude each other on one path.

/// What stands before the sequence number.
const MARKER: &str = "lock-";

/// The number that the server appends is padded to this width, a minus sign included.
const DIGITS: usize = 10;

/// The name of a new contender, up to the digits.
pub(crate) fn stem(unique: u128) -> String {
    let [a, b, c, d, e, f, g, h] = [112, 96, 80, 64, 48, 32, 16, 0].map(|at| (unique >> at) as u16);
    format!("_c_{a:04x}{b:04x}-{c:04x}-{d:04x}-{e:04x}-{f:04x}{g:04x}{h:04x}-{MARKER}")
}

/// A contender's number, or `None` for a child that is no contender.
///
/// Compared as a number: as text, -1 would come before -2 and the end of the range before 0.
pub(crate) fn sequence(name: &str) -> Option<i32> {
    let (_, digits) = name.rsplit_once(MARKER)?;
    let plain = digits.strip_prefix('-').unwrap_or(digits);
    let is_number = digits.len() >= DIGITS && plain.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stem_is_curators() {
        let name = stem(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
        assert_eq!(name, "_c_00112233-4455-6677-8899-aabbccddeeff-lock-");
    }

    #[test]
    fn contenders_of_every_client_that_joins_the_queue_are_counted() {
        for (name, expected) in [
            ("_c_00112233-4455-6677-8899-aabbccddeeff-lock-0000000007", 7),
            ("_c_00112233445566778899aabbccddeeff-lock-2147483647", i32::MAX),
            ("lock-0000000000", 0),
            ("_c_x-lock--2147483648", i32::MIN),
            ("_c_x-lock--000000003", -3),
            ("lock-lock-0000000012", 12),
        ] {
            assert_eq!(sequence(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn foreign_children_are_not_contenders() {
        for name in [
            "",
            "config",
            "lock-",
            "lock-x",
            "lock-12",
            "lock-+000000001",
            "lock- 000000001",
            "lock-00000000001x",
            "lock-9999999999",
            "é-lock-é000000001",
            "\u{1f512}lock-",
            "0011__lock__0000000001",
            "x-lock-0000000001-y",
            "lock---000000001",
        ] {
            assert_eq!(sequence(name), None, "{name}");
        }
    }
}
