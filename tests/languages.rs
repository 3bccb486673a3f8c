//! Skills in Rust, Python and JavaScript: the tests that hold for all of them.
//!
//! One component of each language uses every function of the contract and gets the same answers. `tests/fixtures/skills` has
//! the sources of those in Python and JavaScript, and of attackers, which get no further than the one in Rust.
//! `scripts/fixtures` builds them.

mod attackers;
mod whole;

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use tool_core::api::{SkillEntry, SkillState};
use tool_skill::embedded::{Packed, pack_component};
use tool_skill::{Builtin, SkillHost, compiler_fingerprint, precompile_skill};

use crate::support::{fixture_path, guest};

/// Languages of the components.
const LANGUAGES: [&str; 3] = ["rust", "python", "javascript"];

/// A folder that is kept between runs, so that each component is compiled once.
fn kept(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("languages").join(name);
    fs::create_dir_all(&folder).expect("the folder is writable");
    folder
}

/// Holds a lock, which tests of other processes want, too, until the file is dropped.
fn locked(place: &Path) -> fs::File {
    let lock = fs::File::create(place).expect("the folder is writable");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locks work");
    lock
}

/// The component of a language that uses the whole contract.
fn whole_contract(language: &str) -> PathBuf {
    match language {
        "rust" => guest("contract"),
        language => fixture_path("skills").join(format!("contract_{language}.wasm")),
    }
}

/// A home to which the component of each language has been added.
fn home() -> &'static Path {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let home = kept("home");
        let _lock = locked(&home.join("lock"));
        // Settings and a secret of the skills.
        let settings = LANGUAGES.map(|language| format!("[skills.config.contract_{language}]\nproject = \"CORE\"\n"));
        write_new(&home.join("config.toml"), &settings.concat());
        let secret = serde_json::json!({
            "host": "tickets.example.org", "header": "authorization", "value": whole::SECRET,
        });
        let secrets = serde_json::json!({"secrets": {"contract_token": secret}});
        write_new(&home.join("secrets.json"), &secrets.to_string());
        let host = host();
        for language in LANGUAGES {
            let name = format!("contract_{language}");
            let wasm = fs::read(whole_contract(language)).expect("it is built");
            let is_there = |entry: &SkillEntry| entry.name == name && entry.state == SkillState::Ready;
            let copy = home.join("skills").join(format!("{name}.wasm"));
            if host.entries().iter().any(is_there) && fs::read(copy).is_ok_and(|copy| copy == wasm) {
                continue;
            }
            let shown = host.inspect(&whole_contract(language)).expect("it is a skill");
            host.add(&shown).expect("it is what was shown");
        }
        home
    })
}

/// Writes a file in one step, for its owner alone.
fn write_new(place: &Path, content: &str) {
    use std::os::unix::fs::PermissionsExt;
    let new = place.with_extension("new");
    fs::write(&new, content).expect("the folder is writable");
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("it is ours");
    fs::rename(new, place).expect("the folder is writable");
}

/// A host with the skills of that home.
fn host() -> Arc<SkillHost> {
    SkillHost::new(&[], &kept("home")).expect("the engine starts")
}

/// A component as the product embeds its skills. What was compiled is kept, because that takes a quarter of a minute.
pub(crate) fn embedded(name: &'static str, component: &Path) -> &'static [Builtin] {
    let wasm = fs::read(component).expect("it is built");
    let mut hasher = DefaultHasher::new();
    (wasm, compiler_fingerprint().expect("the engine starts")).hash(&mut hasher);
    let folder = kept("compiled");
    let place = |end| folder.join(format!("{:016x}.packed.{end}", hasher.finish()));
    let (code, facts) = (place("code"), place("json"));
    // Several tests want the same one, under names of their own.
    let lock = locked(&place("lock"));
    if !facts.is_file() {
        let made = precompile_skill(component).expect("it is a skill");
        let told = serde_json::json!([made.digest, made.descriptor]).to_string();
        for (place, content) in [
            (
                &code,
                pack_component(&made.compiled, &[]).expect("memory is there").as_slice(),
            ),
            (&facts, told.as_bytes()),
        ] {
            let new = place.with_extension("new");
            fs::write(&new, content).expect("the folder is writable");
            fs::rename(new, place).expect("the folder is writable");
        }
    }
    drop(lock);
    let facts = fs::read(&facts).expect("it was written");
    let (digest, mut descriptor): (String, Value) = serde_json::from_slice(&facts).expect("it was written");
    descriptor["name"] = name.into();
    descriptor["functions"][0]["name"] = name.into();
    let skill = Builtin {
        name,
        digest: digest.leak(),
        wasm: Packed::without_base(&[]),
        compiled: Packed::without_base(fs::read(code).expect("it was written").leak()),
        descriptor: descriptor.to_string().leak(),
    };
    vec![skill].leak()
}
