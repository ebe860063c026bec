//! A value that is encoded and decoded: the record's number in its table, then the bytes that make
//! up the value.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zk_proto::fuzz::directions(data));
