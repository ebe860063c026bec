//! A byte stream in pieces: the steps of the cuts, then the stream.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zk_proto::fuzz::frame(data));
