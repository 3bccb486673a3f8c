#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| host::fuzz::run("ignores", bytes));
