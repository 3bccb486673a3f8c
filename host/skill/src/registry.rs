//! The skills of this machine, and the rules for their use.
//!
//! Built-in skills come with the program: their descriptors were captured when it was built, and their code is loaded
//! when one is first called. A team's components lie in `~/.tool/skills`; one that the user has not added is listed by
//! its file name and gets nothing, not even compiled. Adding pins the digest and the descriptor that the user has seen
//! in `pins.json` beside it; a file whose digest is another one is refused until it is trusted again, and one that has
//! to be signed and is not until it is. Running a call is the business of `call`.

mod describe;
mod pins;
mod rollout;
mod signed;
mod team;
mod trial;

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use tokio_util::sync::CancellationToken;

use super::compile;
use super::imports::MachineServices;
use super::signature::Signature;
use super::{Builtin, CallContext, CallError, CallReport, Descriptor, HostNotes, Limits, RawArguments, SkillHostError};
pub use describe::{Embedded, compiler_fingerprint, precompile};
pub use pins::ComponentOrigin;
use pins::Pins;
pub use rollout::{Held, PinSource, Pinned, Terms, VersionChange};
use signed::Signing;
pub use team::Inspection;
use team::{ComponentFingerprint, Member, Seen, read_component};
use tool_boundary::{
    Cache, Loaded, NativeComponent, PreparedCall, Runtime, Schema, Services, Turns, check_arguments, compile_schema,
    holding, is_name,
};
use tool_core::api::Effect;
use tool_core::api::ToolSpec;
use tool_core::api::{Signed, SkillEntry, SkillOrigin, SkillState};
use tool_core::digest::sha256_hex;
use tool_core::text::{clean, nearest};
use tool_repository::waiting;
pub use trial::Trial;

/// First sentence of a team skill's description for a model.
const OF_THE_TEAM: &str = "A skill of the user's team, not built in.";

/// All skills of this machine.
pub struct SkillHost {
    runtime: &'static Runtime,
    limits: Limits,
    turns: Arc<Turns>,
    services: Arc<dyn Services>,
    builtins: BTreeMap<&'static str, Arc<Skill>>,
    /// False where the built-in skills are untrusted: attacks.
    is_ours: bool,
    folder: PathBuf,
    cache: Cache,
    team: Mutex<BTreeMap<String, Seen>>,
    /// Pinned components, with the stamp of their file.
    pins: Mutex<Option<(ComponentFingerprint, Arc<Pins>)>>,
    /// Whether a team's component needs a signature, and whose.
    signing: Signing,
}

impl std::fmt::Debug for SkillHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SkillHost")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// A skill that may be used.
struct Skill {
    descriptor: Descriptor,
    /// Effects of the descriptor that the user has granted.
    granted: Vec<Effect>,
    digest: String,
    source: Source,
    schema: OnceLock<Result<Schema, String>>,
    loaded: OnceLock<Loaded>,
    /// Held by the call that loads the code.
    loading: Mutex<()>,
}

enum Source {
    Builtin(&'static Builtin),
    Team(PathBuf),
}

impl Skill {
    fn new(descriptor: Descriptor, granted: Vec<Effect>, digest: String, source: Source) -> Arc<Self> {
        Arc::new(Self {
            descriptor,
            granted,
            digest,
            source,
            schema: OnceLock::new(),
            loaded: OnceLock::new(),
            loading: Mutex::default(),
        })
    }

    fn schema(&self) -> Result<&Schema, String> {
        self.schema
            .get_or_init(|| compile_schema(&self.descriptor.parameters))
            .as_ref()
            .map_err(Clone::clone)
    }
}

impl SkillHost {
    /// The built-in skills, and those of a team beneath `home` (`~/.tool`). Nothing is compiled or run.
    pub fn new(builtins: &'static [Builtin], home: &Path) -> Result<Arc<Self>, SkillHostError> {
        Self::with_limits(builtins, home, Limits::default())
    }

    /// Like [`Self::new`], with other bounds.
    pub fn with_limits(builtins: &'static [Builtin], home: &Path, limits: Limits) -> Result<Arc<Self>, SkillHostError> {
        Ok(Arc::new(Self::made(builtins, home, limits)?))
    }

    /// Like [`Self::with_limits`], but trusts the built-in skills as little as a team's components.
    pub fn of_strangers(
        builtins: &'static [Builtin],
        home: &Path,
        limits: Limits,
    ) -> Result<Arc<Self>, SkillHostError> {
        let host = Self::made(builtins, home, limits)?;
        Ok(Arc::new(Self { is_ours: false, ..host }))
    }

    fn made(builtins: &'static [Builtin], home: &Path, limits: Limits) -> Result<Self, SkillHostError> {
        let builtins = builtins
            .iter()
            .map(|builtin| Ok((builtin.name, from_builtin(builtin)?)))
            .collect::<Result<_, SkillHostError>>()?;
        Ok(Self {
            runtime: Runtime::global()?,
            limits,
            turns: Arc::new(Turns::new(limits)),
            services: Arc::new(MachineServices),
            builtins,
            is_ours: true,
            folder: home.join("skills"),
            cache: Cache::new(home),
            team: Mutex::default(),
            pins: Mutex::default(),
            signing: Signing::new(home),
        })
    }

    /// Every skill, also those that cannot be used: built-in first, then by name.
    pub fn entries(&self) -> Vec<SkillEntry> {
        let builtin = self
            .builtins
            .values()
            .map(|skill| ready_entry(skill, SkillOrigin::Builtin));
        // Checked now, whatever was written down when it was pinned: keys, signatures and the configuration change.
        let identities = LazyCell::new(|| self.signing.identities());
        let signature = |name: &str, digest: &str| {
            let path = self.component_path(name);
            let signature = Signature::place(&path).is_file().then(|| Signature::beside(&path))?;
            let by = match (signature, &*identities) {
                (Ok(Some(signature)), Some(identities)) => identities.check(name, digest, &[signature]).ok(),
                _ => None,
            };
            Some(Signed { by })
        };
        let team = self.members().into_iter().map(|(name, member)| match member {
            Member::Ready(skill) => SkillEntry {
                signature: signature(&name, &skill.digest),
                ..ready_entry(&skill, SkillOrigin::Team)
            },
            Member::Waiting {
                digest,
                state,
                reason,
                descriptor,
            } => {
                let known = descriptor.map(|known| (known.version, known.description, known.effects, known.parameters));
                let (version, description, effects, parameters) = known.unwrap_or_default();
                SkillEntry {
                    signature: signature(&name, &digest),
                    name,
                    version,
                    description,
                    effects,
                    digest,
                    origin: SkillOrigin::Team,
                    state,
                    reason: Some(reason),
                    parameters,
                }
            }
        });
        builtin.chain(team).collect()
    }

    /// Effects that a skill may cause; absent where no skill has that name.
    pub fn effects(&self, name: &str) -> Option<Vec<Effect>> {
        if let Some(skill) = self.builtins.get(name) {
            return Some(skill.descriptor.effects.clone());
        }
        self.one_member(name).map(|member| match member {
            Member::Ready(skill) => skill.granted.clone(),
            Member::Waiting { .. } => Vec::new(),
        })
    }

    /// Tools that a model is offered: every skill that is ready. Those of a team say so.
    pub fn specs(&self) -> Vec<ToolSpec> {
        // A schema that is refused here was added under another version; no model or provider is to work through it.
        let team = self.members().into_values().filter_map(|member| match member {
            Member::Ready(skill) => skill.schema().is_ok().then_some(skill),
            Member::Waiting { .. } => None,
        });
        let spec = |skill: Arc<Skill>| ToolSpec {
            name: skill.descriptor.name.clone(),
            description: match &skill.source {
                Source::Builtin(_) => skill.descriptor.description.clone(),
                Source::Team(_) => format!("{OF_THE_TEAM} {}", skill.descriptor.description),
            },
            parameters: skill.descriptor.parameters.clone(),
        };
        self.builtins.values().cloned().chain(team).map(spec).collect()
    }

    /// Calls a skill and waits for its end. Blocks: call it on a thread that may.
    pub fn call(&self, context: &Arc<CallContext>, name: &str, arguments: RawArguments<'_>) -> CallReport {
        match self.find(name) {
            Ok(skill) => self.called(context, &skill, &arguments),
            Err(error) => nothing_ran(error),
        }
    }

    /// Calls a skill that was found.
    fn called(&self, context: &Arc<CallContext>, skill: &Skill, arguments: &RawArguments<'_>) -> CallReport {
        let name = skill.descriptor.name.as_str();
        let work = || -> Result<CallReport, CallError> {
            let not_ready = |reason| CallError::NotReady {
                skill: name.to_owned(),
                reason,
            };
            let schema = skill.schema().map_err(not_ready)?;
            let arguments = check_arguments(name, schema, arguments)?;
            let loaded = self.loaded(skill, context.progress.as_ref(), &context.cancel);
            let loaded = loaded.map_err(|reason| {
                if context.cancel.is_cancelled() {
                    CallError::Cancelled { skill: name.to_owned() }
                } else {
                    not_ready(reason)
                }
            })?;
            let _turn = self.turns.take(name, context)?;
            let effects = &skill.descriptor.effects;
            let runs = effects.contains(&Effect::RunProcess) || effects.contains(&Effect::Install);
            let may_wait = runs || context.approver.can_ask();
            let holding = may_wait.then(|| holding(context, &self.turns));
            let context = holding.as_ref().unwrap_or(context);
            Ok(PreparedCall {
                runtime: self.runtime,
                turns: &self.turns,
                loaded,
                name,
                digest: &skill.digest,
                is_builtin: self.is_ours && self.builtins.contains_key(name),
                declared: &skill.descriptor.effects,
                within: within(skill, context),
                arguments,
                context,
                services: &self.services,
                limits: self.limits,
            }
            .run())
        };
        work().unwrap_or_else(nothing_ran)
    }

    fn find(&self, name: &str) -> Result<Arc<Skill>, CallError> {
        if let Some(skill) = self.builtins.get(name) {
            return Ok(Arc::clone(skill));
        }
        match self.one_member(name) {
            Some(Member::Ready(skill)) => Ok(skill),
            Some(Member::Waiting { reason, .. }) => Err(CallError::NotReady {
                skill: name.to_owned(),
                reason,
            }),
            None => {
                let members = self.members();
                let known = self.builtins.keys().copied().chain(members.keys().map(String::as_str));
                Err(CallError::Unknown {
                    name: clean(name).into_owned(),
                    nearest: nearest(name, known).map(str::to_owned),
                })
            }
        }
    }

    /// The skill's code, loaded once.
    fn loaded<'s>(
        &self,
        skill: &'s Skill,
        progress: &dyn Fn(&str),
        cancel: &CancellationToken,
    ) -> Result<&'s Loaded, String> {
        // Calls take no lock once the code is loaded: a call that met another one at the lock would sleep for fifty
        // calls.
        if let Some(loaded) = skill.loaded.get() {
            return Ok(loaded);
        }
        // The holder of the lock may be compiling, for minutes.
        let Some(_loading) = waiting::lock(&skill.loading, cancel) else {
            return Err("it was being loaded when the call was cancelled".to_owned());
        };
        if let Some(loaded) = skill.loaded.get() {
            return Ok(loaded);
        }
        let component = match &skill.source {
            Source::Builtin(builtin) => self.builtin_component(builtin, progress, cancel)?,
            Source::Team(path) => {
                let wasm = read_component(path).map_err(|error| format!("it cannot be read: {error}"))?;
                if sha256_hex(&wasm) != skill.digest {
                    return Err("its file has changed since it was added".to_owned());
                }
                self.compiled(&skill.digest, wasm, &skill.descriptor.name, progress, cancel)?
            }
        };
        let new = Loaded::new(self.runtime, component)?;
        Ok(skill.loaded.get_or_init(|| new))
    }

    fn builtin_component(
        &self,
        builtin: &Builtin,
        progress: &dyn Fn(&str),
        cancel: &CancellationToken,
    ) -> Result<NativeComponent, String> {
        match self.runtime.load(builtin.compiled) {
            Ok(component) => Ok(component),
            Err(error) => {
                tracing::info!(skill = builtin.name, %error, "built-in code does not load here and is compiled");
                self.compiled(builtin.digest, builtin.wasm.into(), builtin.name, progress, cancel)
            }
        }
    }

    fn compiled(
        &self,
        digest: &str,
        wasm: Arc<[u8]>,
        name: &str,
        progress: &dyn Fn(&str),
        cancel: &CancellationToken,
    ) -> Result<NativeComponent, String> {
        if let Some(component) = self.cache.load(self.runtime, digest) {
            return Ok(component);
        }
        progress(&format!("compiling the skill `{name}`, once"));
        let bounds = compile::CompileBounds {
            time: self.limits.compile,
            memory_bytes: self.limits.compile_memory_bytes,
        };
        let code = compile::compile(self.runtime, wasm, bounds, cancel)?;
        let component = self
            .runtime
            .load(&code)
            .map_err(|error| format!("its compiled code does not load: {error:#}"))?;
        self.cache.store(self.runtime, digest, &code);
        Ok(component)
    }
}

fn nothing_ran(error: CallError) -> CallReport {
    CallReport {
        result: Err(error),
        receipt: None,
        foreign: Vec::new(),
        notes: HostNotes::default(),
    }
}

/// Effects of a skill that count in this context: those that the user has granted, within the repository's lock file
/// where it names the skill.
fn within(skill: &Skill, context: &CallContext) -> Vec<Effect> {
    let locked = context
        .locked
        .as_ref()
        .filter(|_| matches!(skill.source, Source::Team(_)));
    let locked = locked.and_then(|lock| lock.effects(&skill.descriptor.name));
    let is_locked = |effect: &&Effect| locked.is_none_or(|effects| effects.contains(effect));
    skill.granted.iter().filter(is_locked).copied().collect()
}

fn ready_entry(skill: &Skill, origin: SkillOrigin) -> SkillEntry {
    let descriptor = &skill.descriptor;
    SkillEntry {
        name: descriptor.name.clone(),
        version: descriptor.version.clone(),
        description: descriptor.description.clone(),
        effects: skill.granted.clone(),
        digest: skill.digest.clone(),
        origin,
        state: SkillState::Ready,
        reason: None,
        signature: None,
        parameters: descriptor.parameters.clone(),
    }
}

fn from_builtin(builtin: &'static Builtin) -> Result<Arc<Skill>, SkillHostError> {
    let broken = |reason: String| SkillHostError::Builtin {
        name: builtin.name.to_owned(),
        reason,
    };
    let descriptor: Descriptor = serde_json::from_str(builtin.descriptor).map_err(|error| broken(error.to_string()))?;
    if descriptor.name != builtin.name {
        return Err(broken(format!("it calls itself `{}`", descriptor.name)));
    }
    let granted = descriptor.effects.clone();
    Ok(Skill::new(
        descriptor,
        granted,
        builtin.digest.to_owned(),
        Source::Builtin(builtin),
    ))
}

#[cfg(test)]
mod unit {
    use std::time::{Duration, Instant};

    use super::*;
    use tool_boundary::policy::{Cause, Policy};
    use tool_core::api::{Operation, PolicyRequest};
    use tool_repository::{Options, Repository};

    #[test]
    fn a_call_that_waits_for_code_to_be_loaded_ends_with_its_session() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let builtin = Builtin {
            name: "slow",
            digest: "0",
            wasm: b"",
            compiled: b"",
            descriptor: r#"{"name": "slow", "version": "1", "description": "", "effects": [],
                "parameters": {"type": "object"}}"#,
        };
        let host = SkillHost::new(vec![builtin].leak(), folder.path()).expect("the engine starts");
        let context = Arc::new(CallContext::unattended(
            Repository::open(folder.path(), &Options::default()).expect("the folder is there"),
            Policy::new(Cause::Operation(Operation::Refactor), &PolicyRequest::default()).expect("it is right"),
        ));
        let skill = host.find("slow").expect("it is there");
        let compiling = skill.loading.lock().expect("not poisoned");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| host.call(&context, "slow", RawArguments::Text("{}")));
            std::thread::sleep(Duration::from_millis(20));
            let since = Instant::now();
            context.cancel.cancel();
            let report = waiting.join().expect("no panic");
            assert!(
                matches!(report.result, Err(CallError::Cancelled { .. })),
                "{:?}",
                report.result
            );
            assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
        });
        drop(compiling);
    }
}
