//! A program of callers, a server and a clock around one session.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zk_client::fuzz::session(data));
