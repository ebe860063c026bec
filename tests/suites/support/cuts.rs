//! Members of an ensemble that can be cut off.

use zk_test_support::relay::advertise;

#[test]
fn another_address_is_advertised_and_the_rest_stays() {
    let message = |address: &str| {
        let length = u32::try_from(address.len()).unwrap().to_be_bytes();
        [&[7; 16], &length[..], address.as_bytes(), b"more"].concat()
    };
    let (before, after) = (message("127.0.0.1:1"), message("127.0.0.1:23456"));
    assert_eq!(advertise(&before, "127.0.0.1:23456"), Some(after));
    for end in 0..before.len() - b"more".len() {
        assert_eq!(advertise(&before[..end], "127.0.0.1:23456"), None, "{end} bytes");
    }
}
