//! A program of clients, an operator and a clock around one embedded server.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zk_embedded::fuzz::server(data));
