//! What the benchmarks share: a host with the product's own components, a call's surroundings, and trees of files.
#![allow(dead_code, reason = "each benchmark is a program of its own and uses a part of it")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use host::api::PolicyRequest;
use host::repository::{Options, Repository};
use host::skill::policy::{Cause, Policy};
use host::skill::{
    Approver, Builtin, CallContext, ChangeJournal, Conversation, PreparedChange, Question, SessionFiles, SkillHost,
    precompile,
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

/// The surroundings of a call on the folder `root`.
pub(crate) fn context(root: &Path) -> Arc<CallContext> {
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

/// An engine with these components.
pub(crate) fn engine(home: &Path, names: &[&'static str]) -> Arc<SkillHost> {
    let skills: Vec<Builtin> = names.iter().copied().map(embedded).collect();
    SkillHost::new(skills.leak(), home).expect("the engine starts")
}

/// Python modules that import each other, with twelve functions each: paths and texts.
pub(crate) fn modules(count: usize) -> Vec<(String, String)> {
    let module = |at: usize| {
        let mut text = format!("from app.part{} import module{}\n\n", at * 7 % 40, at * 31 % count);
        for function in 0..12 {
            let _ = writeln!(
                text,
                "def handle_{}_{function}(request, session):\n    value = request.field_{}\n    return value\n\n",
                at % 97,
                at * function % 211
            );
        }
        (format!("app/part{}/module{at}.py", at % 40), text)
    };
    (0..count).map(module).collect()
}

/// Writes files below a folder.
pub(crate) fn write(root: &Path, files: &[(String, String)]) {
    for (path, text) in files {
        let place = root.join(path);
        std::fs::create_dir_all(place.parent().expect("a file has a parent")).expect("the folder is ours");
        std::fs::write(place, text).expect("the folder is ours");
    }
}
