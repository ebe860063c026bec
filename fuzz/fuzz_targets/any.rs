//! A payload of any kind: the kind, the opcode that a reply answers, then the bytes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| zk_proto::fuzz::any(data));
