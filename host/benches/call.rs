//! What a call costs: `cargo bench -p host`, after `scripts/build` has made the guests.
//!
//! `call a trivial skill` is the whole way: arguments parsed and validated, a turn, a fresh store and instance, the
//! guest, the answer cleaned, the receipt. `refuse arguments` is the same without anything that runs: the baseline.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::{Arc, Mutex};

use criterion::{Criterion, criterion_group, criterion_main};
use host::api::PolicyRequest;
use host::repository::{Options, Repository};
use host::skill::policy::{Cause, Policy};
use host::skill::{
    Approver, Arguments, Builtin, CallContext, ChangeJournal, Conversation, PreparedChange, Question, SessionFiles,
    SkillHost, precompile,
};
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
        conversation: Conversation::default(),
        cancel: CancellationToken::new(),
        environment: BTreeMap::new(),
        progress: Arc::new(|_| ()),
    })
}

/// A guest as the product embeds its skills.
fn embedded(name: &'static str) -> Builtin {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("it lies in the target folder");
    let path = target.join("wasm32-wasip2/skill").join(format!("{name}.wasm"));
    let embedded = precompile(&path).expect("the guest is built: run scripts/build");
    Builtin {
        name,
        digest: embedded.digest.leak(),
        wasm: &[],
        compiled: embedded.compiled.leak(),
        descriptor: serde_json::to_string(&embedded.descriptor)
            .expect("it is plain data")
            .leak(),
    }
}

fn calls(criterion: &mut Criterion) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let skills = vec![embedded("echo"), embedded("hostile")].leak();
    let host = SkillHost::new(skills, home.path()).expect("the engine starts");
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
