//! A value of a record, there and back: the record's number in its table, then what makes the
//! value.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zk_proto::fuzz::directions(data));
