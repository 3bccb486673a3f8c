#![no_main]

// The command line is a program; its Markdown is taken from there as it is.
#[path = "../../../cli/src/output"]
mod output {
    mod clean;
    #[expect(dead_code, reason = "only what the target drives is used")]
    pub(crate) mod markdown;
    pub(crate) use clean::clean;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| output::markdown::fuzz::markdown(bytes));
