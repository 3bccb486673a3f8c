//! What a call costs: `cargo bench -p host`, after `scripts/build` has made the guests.
//!
//! `call` is the whole way of a trivial skill: arguments parsed and validated, a turn, a fresh store and instance, the
//! guest, the answer cleaned, the receipt. `refused` is the same without anything that runs, as the baseline.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::{Arc, Mutex};

use criterion::{Criterion, criterion_group, criterion_main};
use host::api::PolicyRequest;
use host::repository::{Options, Repository};
use host::skill::policy::{Cause, Policy};
use host::skill::{Approver, Arguments, CallContext, ChangeJournal, PreparedChange, Question, SessionFiles, SkillHost};
use tokio_util::sync::CancellationToken;

struct Nobody;

impl Approver for Nobody {
    fn can_ask(&self) -> bool {
        false
    }

    fn ask(&self, _: &Question, _: &CancellationToken) -> bool {
        false
    }
}

impl ChangeJournal for Nobody {
    fn prepare(&self, _: &PreparedChange) -> std::io::Result<()> {
        Ok(())
    }

    fn committed(&self, _: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn abandoned(&self, _: &str) -> std::io::Result<()> {
        Ok(())
    }
}

fn context(root: &Path) -> Arc<CallContext> {
    Arc::new(CallContext {
        repository: Repository::open(root, &Options::default()).expect("the folder is acceptable"),
        policy: Policy::new(Cause::SkillCall, &PolicyRequest::default()).expect("it is valid"),
        approver: Arc::new(Nobody),
        changes: Arc::new(Nobody),
        files: Mutex::new(SessionFiles::default()),
        cancel: CancellationToken::new(),
        environment: BTreeMap::new(),
        progress: Arc::new(|_| ()),
    })
}

fn calls(criterion: &mut Criterion) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("it lies in the target folder");
    let guests = target.join("wasm32-wasip2/skill");
    let host = SkillHost::new(&[], home.path()).expect("the engine starts");
    for guest in ["echo", "hostile"] {
        let shown = host
            .inspect(&guests.join(format!("{guest}.wasm")))
            .expect("the guest is built: run scripts/build");
        host.add(&shown).expect("the guest is acceptable");
    }
    let repository = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(repository.path().join("README.md"), "hello").expect("the folder is writable");
    let context = context(repository.path());
    let call = |skill: &str, arguments: &str| {
        let report = host.call(&context, skill, Arguments::Text(arguments));
        black_box(report).result.expect("the call works");
    };
    criterion.bench_function("call a trivial skill", |bench| {
        bench.iter(|| call("echo", r#"{"text": "hello"}"#));
    });
    criterion.bench_function("call a skill that reads a file", |bench| {
        bench.iter(|| call("hostile", r#"{"attack": "read", "path": "/repo/README.md"}"#));
    });
    criterion.bench_function("refuse arguments", |bench| {
        bench.iter(|| black_box(host.call(&context, "echo", Arguments::Text(r#"{"text": 1}"#))));
    });
}

criterion_group!(benches, calls);
criterion_main!(benches);
