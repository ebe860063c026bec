//! Bytes as a record: the record's number in the table, then its bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zk_proto::fuzz::records(data));
