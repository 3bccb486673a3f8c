//! A host with the product's own components, and a call's surroundings.

use std::path::Path;
use std::sync::Arc;

use tool_core::api::PolicyRequest;
use tool_repository::{Options, Repository};
use tool_skill::embedded::{Packed, pack_component};
use tool_skill::policy::{EffectCause, Policy};
use tool_skill::{Builtin, CallContext, SkillHost, precompile_skill};

/// The surroundings of a call on the folder `root`.
pub(crate) fn context(root: &Path) -> Arc<CallContext> {
    Arc::new(CallContext::unattended(
        Repository::open(root, &Options::default()).expect("the folder is acceptable"),
        Policy::new(EffectCause::SkillCall, &PolicyRequest::default()).expect("it is valid"),
    ))
}

/// A guest as the product embeds its skills, or with `contract_` and a language its component that uses the whole contract.
fn builtin(name: &'static str) -> Builtin {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .expect("it lies in the target folder");
    let path = match name.strip_prefix("contract_") {
        Some(language) => target.join(format!("fixtures/skills/contract_{language}.wasm")),
        None => target.join("wasm32-wasip2/skill").join(format!("{name}.wasm")),
    };
    let skill = precompile_skill(&path).expect("the guest is built: run scripts/build and scripts/fixtures");
    Builtin {
        name,
        digest: skill.digest.leak(),
        wasm: Packed::without_base(&[]),
        compiled: Packed::without_base(pack_component(&skill.compiled, &[]).expect("memory is there").leak()),
        descriptor: serde_json::to_string(&skill.descriptor)
            .expect("it is plain data")
            .leak(),
    }
}

/// An engine with these components.
pub(crate) fn engine(home: &Path, names: &[&'static str]) -> Arc<SkillHost> {
    let skills: Vec<Builtin> = names.iter().copied().map(builtin).collect();
    SkillHost::new(skills.leak(), home).expect("the engine starts")
}
