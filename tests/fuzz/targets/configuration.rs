#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tool_config::fuzz::configuration(bytes));
