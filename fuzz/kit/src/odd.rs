//! Odd values for the fields of a frame.

use zk_proto::any::{Field, Value};
use zk_tap::hex;

/// Chooses one of the fields that hold bytes of their own and that `fits` accepts.
pub(crate) fn choose<'a>(
    fields: &[Field<'a>],
    rng: &mut fastrand::Rng,
    fits: impl Fn(&Field<'a>) -> bool,
) -> Option<Field<'a>> {
    let leaves = fields.iter().filter(|it| it.is_leaf() && it.length > 0 && fits(it));
    let leaves: Vec<_> = leaves.copied().collect();
    rng.choice(leaves)
}

/// Another value for a field: its bytes, and what to call it.
pub(crate) fn value(field: &Field<'_>, rng: &mut fastrand::Rng) -> (Vec<u8>, String) {
    match (field.value, field.length) {
        (Value::Text(_) | Value::Buffer(_) | Value::Secret(_), 4..) => text(field, rng),
        (_, 1) => {
            let odd = one_of(rng, &[0, 1, 2, 0x7f, 0x80, 0xff]);
            (vec![odd], format!("{odd:#x}"))
        }
        (_, 4) => {
            let near = rng.i32(-130..130);
            let odd = one_of(
                rng,
                &[0, 1, -1, -2, 4, 5, 31, 32, 101, 0x000f_ffff, i32::MAX, i32::MIN, near],
            );
            (odd.to_be_bytes().to_vec(), odd.to_string())
        }
        (_, 8) => {
            let near = rng.i64(-100..100);
            let odd = one_of(
                rng,
                &[0, 1, -1, -2, 1 << 32, 1 << 40, i64::from(i32::MAX), i64::MAX, i64::MIN, near],
            );
            (odd.to_be_bytes().to_vec(), odd.to_string())
        }
        (_, length) => {
            let odd: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
            let told = hex::encode(&odd);
            (odd, told)
        }
    }
}

/// Another text, or another length in front of it.
fn text(field: &Field<'_>, rng: &mut fastrand::Rng) -> (Vec<u8>, String) {
    let length = i32::try_from(field.length - 4).unwrap_or(0);
    let contents = match field.value {
        Value::Text(text) => text.as_bytes(),
        Value::Buffer(buffer) => buffer,
        Value::Secret(secret) => secret.expose(),
        _ => None,
    };
    let contents = contents.unwrap_or_default();
    let framed = |length: i32, contents: &[u8]| [&length.to_be_bytes(), contents].concat();
    match rng.u32(..8) {
        0 => (framed(-1, b""), "null".to_owned()),
        1 => (framed(0, b""), "nothing".to_owned()),
        2 => (framed(-2, contents), "the length -2".to_owned()),
        3 => (framed(i32::MAX, contents), "the length 2147483647".to_owned()),
        4 => (framed(length + 1, contents), "a length that is 1 too much".to_owned()),
        5 if length > 0 => {
            (framed(length - 1, contents), "a length that is 1 too little".to_owned())
        }
        6 => {
            let odd = one_of(rng, &[0, 0x7f, 0x80, 0xc0, 0xed, 0xff]);
            let mut contents = contents.to_vec();
            match contents.is_empty() {
                true => contents.push(odd),
                false => {
                    let at = rng.usize(..contents.len());
                    contents[at] = odd;
                }
            }
            let length = i32::try_from(contents.len()).unwrap_or(0);
            (framed(length, &contents), format!("a byte {odd:#x} in the text"))
        }
        _ => {
            let contents = [contents, b"/", &b"x".repeat(300)].concat();
            let length = i32::try_from(contents.len()).unwrap_or(0);
            (framed(length, &contents), "301 bytes more".to_owned())
        }
    }
}

/// One of the options, with equal probability.
pub(crate) fn one_of<T: Copy>(rng: &mut fastrand::Rng, options: &[T]) -> T {
    options[rng.usize(..options.len())]
}
