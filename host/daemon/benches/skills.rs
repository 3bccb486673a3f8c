//! The price of the sandbox: `cargo bench --workspace --bench skills`, after `scripts/build`.
//!
//! Each skill twice on the same thousand files: as its component, through the whole of a call, and its own code
//! `natively` on the same folder, without guard, limits and validation, on one thread. The host gives the component a
//! file list that it keeps and, where the skill can be split, every core, so that the component may well be faster.

#[path = "common/engine.rs"]
mod engine;
#[path = "common/trees.rs"]
mod trees;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use skill_sdk::testing::FakeHost;
use skill_sdk::{Failure, Handler, Host, Outcome};
use tool_skill::RawArguments;

type Native = fn(&dyn Host, &str) -> Result<Outcome, Failure>;

const CASES: &[(&str, &str, Native)] = &[
    (
        "search_code",
        r#"{"pattern": "def handle_42_(7|9)\\b"}"#,
        search_code::SearchCode::call,
    ),
    (
        "find_references",
        r#"{"symbol": "handle_42_7"}"#,
        find_references::FindReferences::call,
    ),
    (
        "read_file",
        r#"{"path": "app/part7/module7.py"}"#,
        read_file::ReadFile::call,
    ),
    (
        "list_files",
        r#"{"recursive": true, "limit": 2000}"#,
        list_files::ListFiles::call,
    ),
];

fn prices(criterion: &mut Criterion) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let names: Vec<&str> = CASES.iter().map(|(name, _, _)| *name).collect();
    let host = engine::engine(home.path(), &names);
    let folder = FakeHost::new(&trees::modules(1000));
    let context = engine::context(folder.repo());
    for (name, arguments, native) in CASES {
        criterion.bench_function(&format!("{name} in the sandbox"), |bench| {
            bench.iter(|| {
                let report = host.call(&context, name, RawArguments::Text(arguments));
                black_box(report).result.expect("the call works")
            });
        });
        criterion.bench_function(&format!("{name} natively"), |bench| {
            bench.iter(|| black_box(native(&folder, arguments)).expect("the call works"));
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = prices
}
criterion_main!(benches);
