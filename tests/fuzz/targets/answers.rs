#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    tool_context::fuzz::answers(bytes);
    host::fuzz::run("answers", bytes);
});
