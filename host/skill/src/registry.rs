//! The skills of this machine, and the rules for using them.
//!
//! Built-in skills come with the program: the build recorded their descriptors, and their code is loaded at the first
//! call. A team's components are in `~/.tool/skills`. A component that the user has not added is listed by its file
//! name and is not even compiled. Adding it pins the digest and the descriptor that the user has seen, in `pins.json`
//! beside it. A file with another digest is refused until the user trusts it again, and an unsigned one is refused if
//! signatures are required. `call` runs the calls.

mod describe;
mod locked;
mod pins;
mod rollout;
mod signed;
mod team;
mod try_out;

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::compile;
use super::imports::{HostServices, MachineServices};
use super::signature::Signature;
use super::{
    Builtin, CallContext, CallError, CallReport, Descriptor, FunctionDescriptor, HostNotes, Limits, LockedSkills,
    RawArguments, SkillHostError,
};
pub use describe::{Embedded, compiler_fingerprint, precompile_skill};
pub use locked::{LockChoice, PinSource};
pub use pins::ComponentOrigin;
use pins::Pins;
pub use rollout::{PinTerms, PinnedSkill, PulledCopy, VersionChange};
use signed::SigningRules;
pub use team::Inspection;
use team::{ComponentFingerprint, Member, SeenComponent, read_component};
use tool_boundary::{
    Cache, CallPermits, LoadedComponent, NativeComponent, PreparedCall, Runtime, Schema, Services, check_call,
    compile_schema, hold_permit, is_name, strip_path_marks,
};
use tool_core::api::{Effect, Operation, ToolSpec};
use tool_core::api::{Signed, SkillEntry, SkillFunction, SkillOrigin, SkillState};
use tool_core::digest::sha256_hex;
use tool_core::text::{clean_text, nearest_name};
use tool_repository::lock_wait;
pub use try_out::TrialSkill;

/// First sentence of the description of a team's skill for a model.
const OF_THE_TEAM: &str = "A skill of the user's team, not built in.";

/// Name of the tool that finds skills outside of the model's list of tools. The session runs it, and no skill can
/// have this name.
pub const FIND_SKILL: &str = "find_skill";

/// Name of the tool that calls skills outside of the model's list. No skill can have this name.
pub const CALL_SKILL: &str = "call_skill";

/// The session for which tools are chosen.
#[derive(Clone, Copy, Default)]
pub struct SkillScope<'a> {
    /// Lock file of the repository.
    pub lock: Option<&'a dyn LockedSkills>,
    /// Operation of the session, if it has one.
    pub operation: Option<Operation>,
}

/// Tools for a model.
#[derive(Debug, Clone, Default)]
pub struct OfferedTools {
    /// Functions of the built-in skills.
    pub builtin: Vec<ToolSpec>,
    /// Functions of a team's skills.
    pub team: Vec<SkillTool>,
}

/// A function of a skill as a tool for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct SkillTool {
    /// Specification of the tool. The description of a team's function says where it comes from.
    pub spec: ToolSpec,
    /// Words for finding it.
    pub tags: Vec<String>,
    /// Operations in which it can be called; absent for all.
    pub operations: Option<Vec<Operation>>,
}

/// All skills of this machine.
pub struct SkillHost {
    runtime: &'static Runtime,
    limits: Limits,
    turns: Arc<CallPermits>,
    services: Arc<dyn Services>,
    builtins: BTreeMap<&'static str, Arc<LoadedSkill>>,
    /// Built-in component of each built-in function.
    builtin_functions: BTreeMap<String, Arc<LoadedSkill>>,
    /// False if the built-in skills are not trusted, for attacks in tests.
    is_ours: bool,
    folder: PathBuf,
    cache: Cache,
    /// Components of the team that were examined, by file.
    team: Mutex<BTreeMap<PathBuf, SeenComponent>>,
    /// Pins, with the fingerprint of their file.
    pins: Mutex<Option<(ComponentFingerprint, Arc<Pins>)>>,
    /// Rules for the signatures of a team's components.
    signing: SigningRules,
}

impl std::fmt::Debug for SkillHost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SkillHost")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// A component that may be used, loaded once for all of its functions.
struct LoadedSkill {
    descriptor: Descriptor,
    /// Effects that the user has granted, for each function in the order of the descriptor.
    granted: Vec<Vec<Effect>>,
    digest: String,
    source: SkillSource,
    /// Compiled schemas of the arguments, in the order of the descriptor.
    schemas: Vec<OnceLock<Result<Schema, String>>>,
    /// Compiled schemas of the details, for functions that have one.
    outputs: Vec<OnceLock<Option<Schema>>>,
    loaded: OnceLock<LoadedComponent>,
    /// Held while a call loads the code.
    loading: Mutex<()>,
}

enum SkillSource {
    Builtin(&'static Builtin),
    Team(PathBuf),
}

/// A function of a component.
#[derive(Clone, Copy)]
struct SkillFunctionRef<'a> {
    skill: &'a LoadedSkill,
    at: usize,
}

impl LoadedSkill {
    fn new(descriptor: Descriptor, granted: Vec<Vec<Effect>>, digest: String, source: SkillSource) -> Arc<Self> {
        let count = descriptor.functions.len();
        Arc::new(Self {
            schemas: std::iter::repeat_with(OnceLock::new).take(count).collect(),
            outputs: std::iter::repeat_with(OnceLock::new).take(count).collect(),
            descriptor,
            granted,
            digest,
            source,
            loaded: OnceLock::new(),
            loading: Mutex::default(),
        })
    }

    fn functions(&self) -> impl Iterator<Item = SkillFunctionRef<'_>> {
        (0..self.descriptor.functions.len()).map(|at| SkillFunctionRef { skill: self, at })
    }

    fn function(&self, name: &str) -> Option<SkillFunctionRef<'_>> {
        self.functions().find(|function| function.descriptor().name == name)
    }
}

impl<'a> SkillFunctionRef<'a> {
    fn descriptor(self) -> &'a FunctionDescriptor {
        &self.skill.descriptor.functions[self.at]
    }

    fn granted(self) -> &'a [Effect] {
        self.skill.granted.get(self.at).map_or(&[], Vec::as_slice)
    }

    fn spec(self) -> ToolSpec {
        let FunctionDescriptor {
            name,
            description,
            parameters,
            ..
        } = self.descriptor();
        ToolSpec {
            name: name.clone(),
            description: match &self.skill.source {
                SkillSource::Builtin(_) => description.clone(),
                SkillSource::Team(_) => format!("{OF_THE_TEAM} {description}"),
            },
            parameters: strip_path_marks(parameters),
        }
    }

    fn schema(self) -> Result<&'a Schema, String> {
        self.skill.schemas[self.at]
            .get_or_init(|| compile_schema(&self.descriptor().parameters))
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Schema of the function's details. It was checked when the component was added.
    fn output(self) -> Option<&'a Schema> {
        let compiled = || compile_schema(self.descriptor().metadata.output.as_ref()?).ok();
        self.skill.outputs[self.at].get_or_init(compiled).as_ref()
    }
}

impl SkillHost {
    /// Opens the built-in skills, and those of a team beneath `home` (`~/.tool`). Compiles and runs nothing.
    ///
    /// # Errors
    ///
    /// The machine cannot run compiled code, or a built-in skill is damaged.
    pub fn new(builtins: &'static [Builtin], home: &Path) -> Result<Arc<Self>, SkillHostError> {
        Self::with_limits(builtins, home, Limits::default())
    }

    /// Like [`Self::new`], with other limits.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn with_limits(builtins: &'static [Builtin], home: &Path, limits: Limits) -> Result<Arc<Self>, SkillHostError> {
        Ok(Arc::new(Self::without_connections(builtins, home, limits)?))
    }

    /// Like [`Self::new`], for a process that sends requests for skills.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn with_connections(
        builtins: &'static [Builtin],
        home: &Path,
        limits: Limits,
        surroundings: HostServices,
    ) -> Result<Arc<Self>, SkillHostError> {
        let host = Self::without_connections(builtins, home, limits)?;
        Ok(Arc::new(Self {
            services: Arc::new(MachineServices::new(home, surroundings)),
            ..host
        }))
    }

    /// Like [`Self::with_connections`], but trusts the built-in skills as little as a team's components.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn of_strangers(
        builtins: &'static [Builtin],
        home: &Path,
        limits: Limits,
        surroundings: HostServices,
    ) -> Result<Arc<Self>, SkillHostError> {
        let host = Self::without_connections(builtins, home, limits)?;
        Ok(Arc::new(Self {
            services: Arc::new(MachineServices::new(home, surroundings)),
            is_ours: false,
            ..host
        }))
    }

    fn without_connections(builtins: &'static [Builtin], home: &Path, limits: Limits) -> Result<Self, SkillHostError> {
        let builtins = builtins
            .iter()
            .map(|builtin| Ok((builtin.name, from_builtin(builtin)?)))
            .collect::<Result<BTreeMap<_, _>, SkillHostError>>()?;
        let functions_of = |skill: &Arc<LoadedSkill>| {
            let names = skill.descriptor.functions.iter().map(|function| function.name.clone());
            names.map(|name| (name, Arc::clone(skill))).collect::<Vec<_>>()
        };
        Ok(Self {
            runtime: Runtime::global()?,
            limits,
            turns: Arc::new(CallPermits::new(limits)),
            services: Arc::new(MachineServices::new(home, HostServices::default())),
            builtin_functions: builtins.values().flat_map(functions_of).collect(),
            builtins,
            is_ours: true,
            folder: home.join("skills"),
            cache: Cache::new(home),
            team: Mutex::default(),
            pins: Mutex::default(),
            signing: SigningRules::new(home),
        })
    }

    /// Lists every skill, including those that cannot be used: built-in skills first, then by name. A team's skill
    /// has the version that the user added last.
    pub fn entries(&self) -> Vec<SkillEntry> {
        self.entries_in(None)
    }

    /// Lists every skill, in the versions that a repository with this lock file uses.
    pub fn entries_in(&self, lock: Option<&dyn LockedSkills>) -> Vec<SkillEntry> {
        let builtin = self
            .builtins
            .values()
            .map(|skill| ready_entry(skill, SkillOrigin::Builtin));
        // Check now instead of trusting the pin: keys, signatures and configuration change.
        let identities = LazyCell::new(|| self.signing.identities());
        let signature = |name: &str, digest: &str| {
            let path = self.path_of(name, digest);
            let signature = Signature::signature_path(&path)
                .is_file()
                .then(|| Signature::read_beside(&path))?;
            let by = match (signature, &*identities) {
                (Ok(Some(signature)), Some(identities)) => identities.check(name, digest, &[signature]).ok(),
                _ => None,
            };
            Some(Signed { by })
        };
        let team = self.members(lock).into_iter().map(|(name, member)| match member {
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
                let known = descriptor.map(|known| {
                    let granted = known.functions.iter().map(|function| function.effects.clone());
                    let functions = function_entries(&known, granted);
                    (
                        known.version.clone(),
                        known.description.clone(),
                        known.effects(),
                        functions,
                    )
                });
                let (version, description, effects, functions) = known.unwrap_or_default();
                SkillEntry {
                    signature: signature(&name, &digest),
                    name,
                    version,
                    description,
                    effects,
                    functions,
                    digest,
                    origin: SkillOrigin::Team,
                    state,
                    reason: Some(reason),
                }
            }
        });
        builtin.chain(team).collect()
    }

    /// Name of the component that serves a function. Only this method maps functions to components: built-in
    /// components first, then those that the user has added, in the versions of this lock file.
    pub fn component_of(&self, function: &str, lock: Option<&dyn LockedSkills>) -> Option<String> {
        if let Some(skill) = self.builtin_functions.get(function) {
            return Some(skill.descriptor.name.clone());
        }
        self.pins().ok()?.component_of(function, lock).map(str::to_owned)
    }

    /// Effects of a function; `None` if there is no such function.
    pub fn effects(&self, name: &str, lock: Option<&dyn LockedSkills>) -> Option<Vec<Effect>> {
        let skill = match self.builtin_functions.get(name) {
            Some(skill) => Arc::clone(skill),
            None => {
                let component = self.component_of(name, lock);
                match self.one_member(component.as_deref().unwrap_or(name), lock)? {
                    Member::Ready(skill) => skill,
                    Member::Waiting { .. } => return Some(Vec::new()),
                }
            }
        };
        skill.function(name).map(|function| function.granted().to_vec())
    }

    /// Tools for a model: the built-in functions, and the functions of a team's skills that are ready and in scope.
    /// Functions for other operations are included, because a conversation keeps its tools when its operation
    /// changes.
    pub fn specs(&self, scope: SkillScope<'_>) -> OfferedTools {
        let builtin = self.builtins.values().flat_map(|skill| skill.functions());
        let builtin = builtin.map(|function| function.spec()).collect();
        let mut team = Vec::new();
        for (component, member) in self.members(scope.lock) {
            let Member::Ready(skill) = member else { continue };
            if !self.is_in_scope(&component, scope) {
                continue;
            }
            // The schema may have been accepted by an earlier version; no model or provider should get it now. A name
            // that another component serves would call that component.
            let is_offered = |function: &SkillFunctionRef<'_>| {
                let owner = self.component_of(&function.descriptor().name, scope.lock);
                owner.as_deref() == Some(component.as_str()) && function.schema().is_ok()
            };
            team.extend(skill.functions().filter(is_offered).map(|function| {
                let metadata = &function.descriptor().metadata;
                SkillTool {
                    spec: function.spec(),
                    tags: metadata.tags.clone(),
                    operations: metadata.operations.clone(),
                }
            }));
        }
        OfferedTools { builtin, team }
    }

    /// Calls a function and waits for its end. Blocks.
    pub fn call(&self, context: &Arc<CallContext>, name: &str, arguments: RawArguments<'_>) -> CallReport {
        let skill = match self.find(name, context.locked.as_deref()) {
            Ok(skill) => skill,
            Err(error) => return nothing_ran(error),
        };
        match skill.function(name) {
            Some(function) => self.call_function(context, function, &arguments),
            None => nothing_ran(self.unknown(name, context.locked.as_deref())),
        }
    }

    fn call_function(
        &self,
        context: &Arc<CallContext>,
        function: SkillFunctionRef<'_>,
        arguments: &RawArguments<'_>,
    ) -> CallReport {
        let (skill, descriptor) = (function.skill, function.descriptor());
        let name = descriptor.name.as_str();
        let work = || -> Result<CallReport, CallError> {
            let not_ready = |reason| CallError::NotReady {
                skill: name.to_owned(),
                reason,
            };
            let schema = function.schema().map_err(not_ready)?;
            let arguments = check_call(name, schema, arguments, context.repository.root())?;
            let loaded = self.loaded(skill, context.progress.as_ref(), &context.cancel);
            let loaded = loaded.map_err(|reason| {
                if context.cancel.is_cancelled() {
                    CallError::Cancelled { skill: name.to_owned() }
                } else {
                    not_ready(reason)
                }
            })?;
            let _turn = self.turns.take(name, context)?;
            let effects = &descriptor.effects;
            let runs = effects.contains(&Effect::RunProcess) || effects.contains(&Effect::Install);
            let may_wait = runs || context.approver.can_ask();
            let holding = may_wait.then(|| hold_permit(context, &self.turns));
            let context = holding.as_ref().unwrap_or(context);
            let is_builtin = self.is_ours && matches!(skill.source, SkillSource::Builtin(_));
            Ok(PreparedCall {
                runtime: self.runtime,
                turns: &self.turns,
                loaded,
                name,
                component: &skill.descriptor.name,
                configuration: skill.descriptor.metadata.configuration.as_ref(),
                digest: &skill.digest,
                is_builtin,
                sources: descriptor.metadata.sources.filter(|_| is_builtin),
                declared: effects,
                within: granted_effects(function, context),
                takes_cursor: takes_cursor(&descriptor.parameters),
                output: function.output(),
                arguments: arguments.value,
                changes: arguments.changes,
                paths: arguments.paths,
                context,
                services: &self.services,
                limits: self.limits,
            }
            .run())
        };
        work().unwrap_or_else(nothing_ran)
    }

    /// True for a name that no skill or function of a team can have.
    fn is_reserved(&self, name: &str) -> bool {
        [FIND_SKILL, CALL_SKILL].contains(&name)
            || self.builtins.contains_key(name)
            || self.builtin_functions.contains_key(name)
    }

    /// True if a team's skill is offered: the lock file names it, or the user has added it without a lock file.
    fn is_in_scope(&self, component: &str, scope: SkillScope<'_>) -> bool {
        let is_own = || {
            let pins = self.pins();
            pins.is_ok_and(|pins| pins.skills.get(component).is_some_and(|pin| !pin.is_shared))
        };
        match scope.lock {
            Some(lock) => lock.effects(component).is_some() || !lock.is_closed() && is_own(),
            // Without a session, the call may be about any repository.
            None => scope.operation.is_none() || is_own(),
        }
    }

    fn find(&self, function: &str, lock: Option<&dyn LockedSkills>) -> Result<Arc<LoadedSkill>, CallError> {
        if let Some(skill) = self.builtin_functions.get(function) {
            return Ok(Arc::clone(skill));
        }
        // The functions of a component that the user has not added are unknown. Its own name is known, so the error
        // can say that it has to be added.
        let component = self.component_of(function, lock);
        let component = component.as_deref().unwrap_or(function);
        match self.one_member(component, lock) {
            Some(_) if lock.is_some_and(|lock| lock.is_closed() && lock.effects(component).is_none()) => {
                Err(CallError::NotReady {
                    skill: function.to_owned(),
                    reason: format!(
                        "`{}` does not name it, and nothing may differ from that file",
                        crate::lock::NAME
                    ),
                })
            }
            Some(Member::Ready(skill)) => Ok(skill),
            Some(Member::Waiting { reason, .. }) => Err(CallError::NotReady {
                skill: function.to_owned(),
                reason,
            }),
            None => Err(self.unknown(function, lock)),
        }
    }

    fn unknown(&self, function: &str, lock: Option<&dyn LockedSkills>) -> CallError {
        let offered = self.specs(SkillScope { lock, operation: None });
        let specs = offered.builtin.iter().chain(offered.team.iter().map(|tool| &tool.spec));
        let known = specs.map(|spec| spec.name.as_str());
        CallError::Unknown {
            name: clean_text(function).into_owned(),
            nearest: nearest_name(function, known).map(str::to_owned),
        }
    }

    /// Code of the skill, loaded once.
    fn loaded<'s>(
        &self,
        skill: &'s LoadedSkill,
        progress: &dyn Fn(&str),
        cancel: &CancellationToken,
    ) -> Result<&'s LoadedComponent, String> {
        // Take no lock once the code is loaded: a call that waits for the lock sleeps for as long as fifty calls
        // take.
        if let Some(loaded) = skill.loaded.get() {
            return Ok(loaded);
        }
        // The holder of the lock may compile for minutes, so the wait can be cancelled.
        let Some(_loading) = lock_wait::lock_unless_cancelled(&skill.loading, cancel) else {
            return Err("it was being loaded when the call was cancelled".to_owned());
        };
        if let Some(loaded) = skill.loaded.get() {
            return Ok(loaded);
        }
        let component = match &skill.source {
            SkillSource::Builtin(builtin) => self.builtin_component(builtin, progress, cancel)?,
            SkillSource::Team(path) => {
                let wasm = read_component(path).map_err(|error| format!("it cannot be read: {error}"))?;
                if sha256_hex(&wasm) != skill.digest {
                    return Err("its file has changed since it was added".to_owned());
                }
                self.compiled(&skill.digest, wasm, &skill.descriptor.name, progress, cancel)?
            }
        };
        let new = LoadedComponent::new(self.runtime, component)?;
        Ok(skill.loaded.get_or_init(|| new))
    }

    fn builtin_component(
        &self,
        builtin: &Builtin,
        progress: &dyn Fn(&str),
        cancel: &CancellationToken,
    ) -> Result<NativeComponent, String> {
        let code = builtin.compiled.unpack().map_err(|error| error.to_string());
        let loaded = code.and_then(|code| self.runtime.load(&code).map_err(|error| error.to_string()));
        match loaded {
            Ok(component) => Ok(component),
            Err(error) => {
                tracing::info!(skill = builtin.name, %error, "built-in code does not load here and is compiled");
                let wasm = builtin
                    .wasm
                    .unpack()
                    .map_err(|error| format!("it is broken: {error}"))?;
                self.compiled(builtin.digest, wasm.into(), builtin.name, progress, cancel)
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
        let code = compile::compile_component(self.runtime, wasm, bounds, cancel)?;
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

/// True if a schema of arguments has the property `cursor`.
fn takes_cursor(parameters: &Value) -> bool {
    let is_closed = parameters.get("additionalProperties") == Some(&Value::Bool(false));
    !is_closed || parameters.pointer("/properties/cursor").is_some()
}

/// Effects of a function in this context: those that the user has granted, and that the repository's lock file allows
/// if it names the skill.
fn granted_effects(function: SkillFunctionRef<'_>, context: &CallContext) -> Vec<Effect> {
    let skill = function.skill;
    let locked = context
        .locked
        .as_ref()
        .filter(|_| matches!(skill.source, SkillSource::Team(_)));
    let locked = locked.and_then(|lock| lock.effects(&skill.descriptor.name));
    let is_locked = |effect: &&Effect| locked.is_none_or(|effects| effects.contains(effect));
    function.granted().iter().filter(is_locked).copied().collect()
}

fn ready_entry(skill: &LoadedSkill, origin: SkillOrigin) -> SkillEntry {
    let descriptor = &skill.descriptor;
    let mut effects: Vec<Effect> = skill.granted.iter().flatten().copied().collect();
    effects.sort_unstable();
    effects.dedup();
    SkillEntry {
        name: descriptor.name.clone(),
        version: descriptor.version.clone(),
        description: descriptor.description.clone(),
        effects,
        functions: function_entries(descriptor, skill.granted.iter().cloned()),
        digest: skill.digest.clone(),
        origin,
        state: SkillState::Ready,
        reason: None,
        signature: None,
    }
}

fn function_entries(descriptor: &Descriptor, granted: impl Iterator<Item = Vec<Effect>>) -> Vec<SkillFunction> {
    let entry = |(function, effects): (&FunctionDescriptor, Vec<Effect>)| SkillFunction {
        name: function.name.clone(),
        title: function.metadata.title.clone(),
        description: function.description.clone(),
        effects,
        parameters: function.parameters.clone(),
        output: function.metadata.output.clone(),
        tags: function.metadata.tags.clone(),
        operations: function.metadata.operations.clone(),
    };
    descriptor.functions.iter().zip(granted).map(entry).collect()
}

fn from_builtin(builtin: &'static Builtin) -> Result<Arc<LoadedSkill>, SkillHostError> {
    let broken = |reason: String| SkillHostError::Builtin {
        name: builtin.name.to_owned(),
        reason,
    };
    let descriptor: Descriptor = serde_json::from_str(builtin.descriptor).map_err(|error| broken(error.to_string()))?;
    if descriptor.name != builtin.name {
        return Err(broken(format!("it calls itself `{}`", descriptor.name)));
    }
    let granted = descriptor.functions.iter().map(|function| function.effects.clone());
    let granted = granted.collect();
    Ok(LoadedSkill::new(
        descriptor,
        granted,
        builtin.digest.to_owned(),
        SkillSource::Builtin(builtin),
    ))
}

#[cfg(test)]
mod unit {
    use std::time::{Duration, Instant};

    use super::*;
    use tool_boundary::embedded::Packed;
    use tool_boundary::policy::{EffectCause, Policy};
    use tool_core::api::{Operation, PolicyRequest};
    use tool_repository::{Options, Repository};

    #[test]
    fn a_call_that_waits_for_code_to_be_loaded_ends_with_its_session() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let builtin = Builtin {
            name: "slow",
            digest: "0",
            wasm: Packed::without_base(b""),
            compiled: Packed::without_base(b""),
            descriptor: r#"{"name": "slow", "version": "1.0.0", "description": "", "functions": [{"name": "slow",
                "description": "", "effects": [], "parameters": {"type": "object"}}]}"#,
        };
        let host = SkillHost::new(vec![builtin].leak(), folder.path()).expect("the engine starts");
        let context = Arc::new(CallContext::unattended(
            Repository::open(folder.path(), &Options::default()).expect("the folder is there"),
            Policy::new(EffectCause::Operation(Operation::Refactor), &PolicyRequest::default()).expect("it is right"),
        ));
        let skill = host.find("slow", None).expect("it is there");
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
