//! Cost of a call: `cargo bench --workspace --bench call`, after `scripts/build` has made the guests.
//!
//! `call a trivial skill` is the whole way: arguments parsed and validated, a turn, a fresh store and instance, the
//! guest, the answer cleaned, the receipt. `refuse arguments` is the same without anything that runs. The price of the
//! sandbox is what lies between a call and its work done `natively`. `eight callers, a call each` takes as long as all
//! eight take: eight times the single call over it is how much more gets done at once. `call a skill in …` answers with
//! its argument, and `call one in … that reads a file` gets one by `bulk`; `scripts/fixtures` unpacks these.

#[path = "common/engine.rs"]
mod engine;

use std::hint::black_box;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::Value;
use tool_skill::RawArguments;

const ECHO: &str = r#"{"text": "hello"}"#;

fn calls(criterion: &mut Criterion) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let host = engine::engine(home.path(), &["echo", "hostile"]);
    let repository = tempfile::tempdir().expect("a temporary folder");
    let file = repository.path().join("README.md");
    std::fs::write(&file, "hello").expect("the folder is writable");
    let context = engine::context(repository.path());
    let call = |skill: &str, arguments: &str| {
        let report = host.call(&context, skill, RawArguments::Text(arguments));
        black_box(report).result.expect("the call works");
    };
    criterion.bench_function("call a trivial skill", |bench| {
        bench.iter(|| call("echo", ECHO));
    });
    criterion.bench_function("answer natively", |bench| {
        let answer = || Some(serde_json::from_str::<Value>(black_box(ECHO)).ok()?.to_string());
        bench.iter(answer);
    });
    criterion.bench_function("call a skill that reads a file", |bench| {
        bench.iter(|| call("hostile", r#"{"attack": "read", "path": "/repo/README.md"}"#));
    });
    criterion.bench_function("read a file natively", |bench| {
        bench.iter(|| std::fs::read_to_string(black_box(&file)));
    });
    for (language, name) in [("Python", "contract_python"), ("JavaScript", "contract_javascript")] {
        let home = tempfile::tempdir().expect("a temporary folder");
        let host = engine::engine(home.path(), &[name]);
        let call = |arguments: &str| {
            let report = host.call(&context, name, RawArguments::Text(arguments));
            black_box(report).result.expect("the call works");
        };
        criterion.bench_function(&format!("call a skill in {language}"), |bench| {
            bench.iter(|| call(r#"{"do": "echo", "text": "hello"}"#));
        });
        criterion.bench_function(&format!("call one in {language} that reads a file"), |bench| {
            bench.iter(|| call(r#"{"do": "read", "path": "README.md"}"#));
        });
    }
    criterion.bench_function("refuse arguments", |bench| {
        bench.iter(|| black_box(host.call(&context, "echo", RawArguments::Text(r#"{"text": 1}"#))));
    });
    criterion.bench_function("eight callers, a call each", |bench| {
        let contexts = [(); 8].map(|()| engine::context(repository.path()));
        bench.iter_custom(|rounds| {
            let began = Instant::now();
            std::thread::scope(|scope| {
                for context in &contexts {
                    scope.spawn(|| {
                        for _ in 0..rounds {
                            let report = host.call(context, "echo", RawArguments::Text(ECHO));
                            black_box(report).result.expect("the call works");
                        }
                    });
                }
            });
            began.elapsed()
        });
    });
}

criterion_group!(benches, calls);
criterion_main!(benches);
