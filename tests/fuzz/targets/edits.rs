#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| write_file::fuzz(bytes));
