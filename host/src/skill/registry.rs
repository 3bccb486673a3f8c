//! Which skills there are, and which of them may be used.
//!
//! Built-in skills come with the program: their descriptors were captured when it was built, and their code is loaded
//! when one is first called. A team's components lie in `~/.tool/skills`; one that nobody has added is listed by its
//! file name and gets nothing, not even compiled. Adding pins the digest and the descriptor that the user has seen in
//! `pins.json` beside it; a file whose digest is another one is refused until it is trusted again. Running a call is
//! the business of `call`.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use wasmtime::component::Component;

use super::bindings::tool::skill::types as wit;
use super::cache::{self, Cache};
use super::call::{Job, Loaded, Turns};
use super::compile;
use super::component::{self, Surface};
use super::engine::{self, Runtime};
use super::policy::Effect;
use super::sandbox::Call;
use super::text::clean;
use super::waiting;
use super::{Arguments, Builtin, CallContext, CallError, CallReport, Descriptor, Limits, SkillHostError, arguments};
use crate::api::SkillEntry;
use crate::limits;
use crate::provider::ToolSpec;

/// Components of a team that are looked at.
const TEAM_SKILLS_MAX: usize = 128;

/// A name may be this unlike a known one and still be taken for a slip.
const NEAREST_SIMILARITY: f64 = 0.6;

/// All skills of this machine.
pub struct SkillHost {
    runtime: &'static Runtime,
    limits: Limits,
    turns: Turns,
    builtins: BTreeMap<&'static str, Arc<Skill>>,
    /// False where what is built in is somebody else's: attacks.
    is_ours: bool,
    folder: PathBuf,
    cache: Cache,
    team: Mutex<BTreeMap<String, Seen>>,
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
    digest: String,
    source: Source,
    schema: OnceLock<Result<arguments::Schema, String>>,
    loaded: Mutex<Option<Arc<Loaded>>>,
}

enum Source {
    Builtin(&'static Builtin),
    Team(PathBuf),
}

impl Skill {
    fn new(descriptor: Descriptor, digest: String, source: Source) -> Arc<Self> {
        Arc::new(Self {
            descriptor,
            digest,
            source,
            schema: OnceLock::new(),
            loaded: Mutex::new(None),
        })
    }

    fn schema(&self) -> Result<&arguments::Schema, String> {
        self.schema
            .get_or_init(|| arguments::compile(&self.descriptor.parameters))
            .as_ref()
            .map_err(Clone::clone)
    }
}

/// A component in the team's folder, as it was when it was last read.
#[derive(Clone)]
struct Seen {
    stamp: Stamp,
    digest: String,
    /// Set once it was found to be pinned, so that its code is loaded once.
    skill: Option<Arc<Skill>>,
}

/// Tells whether a file is still the one that was hashed. The change time cannot be set back by its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// What the user has trusted, by name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pins {
    skills: BTreeMap<String, Pin>,
}

/// One trusted component: the descriptor is part of what was shown, and its effects are all it will ever get.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    digest: String,
    descriptor: Descriptor,
}

/// A component of the team with its state.
enum Member {
    Ready(Arc<Skill>),
    Waiting {
        digest: String,
        state: &'static str,
        reason: String,
    },
}

/// What a component says about itself and asks for, before it is trusted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// Name that would call it.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// What it does.
    pub description: String,
    /// Names of the effects that it would get.
    pub effects: Vec<String>,
    /// SHA-256 of the file, hexadecimal.
    pub digest: String,
    /// Bytes of the file.
    pub size: u64,
    /// The file.
    pub path: PathBuf,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

impl Inspection {
    fn new(path: &Path, wasm: &[u8], descriptor: &Descriptor) -> Self {
        Self {
            name: descriptor.name.clone(),
            version: descriptor.version.clone(),
            description: descriptor.description.clone(),
            effects: names(&descriptor.effects),
            digest: digest(wasm),
            size: wasm.len() as u64,
            path: path.to_owned(),
            parameters: descriptor.parameters.clone(),
        }
    }
}

/// A component that was looked at, with what is needed to keep it.
struct Inspected {
    inspection: Inspection,
    descriptor: Descriptor,
    wasm: Arc<[u8]>,
}

impl SkillHost {
    /// The built-in skills, and those of a team beneath `home` (`~/.tool`). Nothing is compiled or run.
    pub fn new(builtins: &'static [Builtin], home: &Path) -> Result<Arc<Self>, SkillHostError> {
        Self::with_limits(builtins, home, Limits::default())
    }

    /// The same with other bounds.
    pub fn with_limits(builtins: &'static [Builtin], home: &Path, limits: Limits) -> Result<Arc<Self>, SkillHostError> {
        Ok(Arc::new(Self::made(builtins, home, limits)?))
    }

    /// The same where what is built in is as little trusted as a component of a team.
    pub(super) fn of_strangers(
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
            turns: Turns::new(limits),
            builtins,
            is_ours: true,
            folder: home.join("skills"),
            cache: Cache::new(home),
            team: Mutex::default(),
        })
    }

    /// Every skill, also those that cannot be used: built-in first, then by name.
    pub fn entries(&self) -> Vec<SkillEntry> {
        let builtin = self.builtins.values().map(|skill| ready_entry(skill, "builtin"));
        let team = self.members().into_iter().map(|(name, member)| match member {
            Member::Ready(skill) => ready_entry(&skill, "team"),
            Member::Waiting { digest, state, reason } => SkillEntry {
                name,
                version: String::new(),
                description: String::new(),
                effects: Vec::new(),
                digest,
                origin: "team".to_owned(),
                state: state.to_owned(),
                reason: Some(reason),
                parameters: Value::Null,
            },
        });
        builtin.chain(team).collect()
    }

    /// What a skill declares that it may cause; absent where there is none of that name.
    pub fn effects(&self, name: &str) -> Option<Vec<String>> {
        if let Some(skill) = self.builtins.get(name) {
            return Some(names(&skill.descriptor.effects));
        }
        self.members().remove(name).map(|member| match member {
            Member::Ready(skill) => names(&skill.descriptor.effects),
            Member::Waiting { .. } => Vec::new(),
        })
    }

    /// What a model is offered: every skill that is ready.
    pub fn specs(&self) -> Vec<ToolSpec> {
        // A schema that is refused here was added under another version; no model or provider is to work through it.
        let team = self.members().into_values().filter_map(|member| match member {
            Member::Ready(skill) => skill.schema().is_ok().then_some(skill),
            Member::Waiting { .. } => None,
        });
        let spec = |skill: Arc<Skill>| ToolSpec {
            name: skill.descriptor.name.clone(),
            description: skill.descriptor.description.clone(),
            parameters: skill.descriptor.parameters.clone(),
        };
        self.builtins.values().cloned().chain(team).map(spec).collect()
    }

    /// Calls a skill and waits for its end. Blocks: call it on a thread that may.
    pub fn call(&self, context: &Arc<CallContext>, name: &str, arguments: Arguments<'_>) -> CallReport {
        let work = || -> Result<CallReport, CallError> {
            let skill = self.find(name)?;
            let not_ready = |reason| CallError::NotReady {
                skill: name.to_owned(),
                reason,
            };
            let schema = skill.schema().map_err(not_ready)?;
            let arguments = arguments::check(name, schema, &arguments)?;
            let loaded = self.loaded(&skill, context.progress.as_ref(), &context.cancel);
            let loaded = loaded.map_err(|reason| match context.cancel.is_cancelled() {
                true => CallError::Cancelled { skill: name.to_owned() },
                false => not_ready(reason),
            })?;
            let _turn = self.turns.take(name, context)?;
            Ok(Job {
                runtime: self.runtime,
                turns: &self.turns,
                loaded: &loaded,
                name,
                digest: &skill.digest,
                is_builtin: self.is_ours && self.builtins.contains_key(name),
                declared: &skill.descriptor.effects,
                arguments,
                context,
                limits: self.limits,
            }
            .run())
        };
        work().unwrap_or_else(|error| CallReport {
            result: Err(error),
            receipt: None,
            foreign: Vec::new(),
        })
    }

    fn find(&self, name: &str) -> Result<Arc<Skill>, CallError> {
        if let Some(skill) = self.builtins.get(name) {
            return Ok(Arc::clone(skill));
        }
        let mut members = self.members();
        match members.remove(name) {
            Some(Member::Ready(skill)) => Ok(skill),
            Some(Member::Waiting { reason, .. }) => Err(CallError::NotReady {
                skill: name.to_owned(),
                reason,
            }),
            None => {
                let known = self.builtins.keys().copied().chain(members.keys().map(String::as_str));
                Err(CallError::Unknown {
                    name: clean(name).into_owned(),
                    nearest: nearest(name, known),
                })
            }
        }
    }

    /// The skill's code, loaded once.
    fn loaded(
        &self,
        skill: &Skill,
        progress: &dyn Fn(&str),
        cancel: &CancellationToken,
    ) -> Result<Arc<Loaded>, String> {
        // Whoever holds it may be compiling, for minutes.
        let Some(mut loaded) = waiting::lock(&skill.loaded, cancel) else {
            return Err("it was being loaded when the call was cancelled".to_owned());
        };
        if let Some(loaded) = &*loaded {
            return Ok(Arc::clone(loaded));
        }
        let component = match &skill.source {
            Source::Builtin(builtin) => self.builtin_component(builtin, progress, cancel)?,
            Source::Team(path) => {
                let wasm = read_component(path).map_err(|error| format!("it cannot be read: {error}"))?;
                if digest(&wasm) != skill.digest {
                    return Err("its file has changed since it was added".to_owned());
                }
                self.compiled(&skill.digest, wasm, &skill.descriptor.name, progress, cancel)?
            }
        };
        let new = Arc::new(Loaded::new(self.runtime, &component)?);
        *loaded = Some(Arc::clone(&new));
        Ok(new)
    }

    fn builtin_component(
        &self,
        builtin: &Builtin,
        progress: &dyn Fn(&str),
        cancel: &CancellationToken,
    ) -> Result<Component, String> {
        match cache::deserialize(&self.runtime.engine, builtin.compiled) {
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
    ) -> Result<Component, String> {
        if let Some(component) = self.cache.load(&self.runtime.engine, digest) {
            return Ok(component);
        }
        progress(&format!("compiling the skill `{name}`, once"));
        let bounds = compile::Bounds {
            time: self.limits.compile,
            memory_bytes: self.limits.compile_memory_bytes,
        };
        let code = compile::compile(&self.runtime.engine, wasm, bounds, cancel)?;
        let component = cache::deserialize(&self.runtime.engine, &code)
            .map_err(|error| format!("its compiled code does not load: {error:#}"))?;
        self.cache.store(&self.runtime.engine, digest, &code);
        Ok(component)
    }

    // ---- a team's components ----

    /// What lies in the team's folder, by name.
    fn members(&self) -> BTreeMap<String, Member> {
        let files = component_files(&self.folder);
        if files.is_empty() {
            return BTreeMap::new();
        }
        let pins = Pins::read(&self.folder);
        let mut seen = self.team.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|name, _| files.iter().any(|(known, _)| known == name));
        files
            .into_iter()
            .map(|(name, path)| {
                let member = self.member(&mut seen, &name, &path, pins.as_ref());
                (name, member)
            })
            .collect()
    }

    fn member(
        &self,
        seen: &mut BTreeMap<String, Seen>,
        name: &str,
        path: &Path,
        pins: Result<&Pins, &SkillHostError>,
    ) -> Member {
        let waiting = |digest: &str, state, reason: String| Member::Waiting {
            digest: digest.to_owned(),
            state,
            reason,
        };
        if self.builtins.contains_key(name) {
            return waiting("", "refused", "its name is that of a built-in skill".to_owned());
        }
        let seen = match look(seen, name, path) {
            Ok(seen) => seen,
            Err(error) => return waiting("", "refused", format!("it cannot be read: {error}")),
        };
        let pin = match pins {
            Ok(pins) => pins.skills.get(name),
            Err(error) => return waiting(&seen.digest, "refused", error.to_string()),
        };
        match pin {
            None => {
                let reason = format!("nobody has added it; `tool skill trust {name}` shows what it asks for");
                waiting(&seen.digest, "untrusted", reason)
            }
            Some(pin) if pin.digest != seen.digest => {
                let reason = format!("its file has changed since it was added; `tool skill trust {name}` looks again");
                waiting(&seen.digest, "changed", reason)
            }
            Some(pin) => {
                let fits = |skill: &&Arc<Skill>| skill.descriptor == pin.descriptor;
                if let Some(skill) = seen.skill.as_ref().filter(fits) {
                    return Member::Ready(Arc::clone(skill));
                }
                let source = Source::Team(path.to_owned());
                let skill = Skill::new(pin.descriptor.clone(), pin.digest.clone(), source);
                seen.skill = Some(Arc::clone(&skill));
                Member::Ready(skill)
            }
        }
    }

    /// Looks at a component without trusting it: it is checked, compiled, and asked to describe itself with every
    /// capability denied.
    pub fn inspect(&self, file: &Path) -> Result<Inspection, SkillHostError> {
        Ok(self.inspected(file)?.inspection)
    }

    /// The same for a component that lies in the team's folder.
    pub fn inspect_installed(&self, name: &str) -> Result<Inspection, SkillHostError> {
        let path = self.installed(name)?;
        let inspection = self.inspect(&path)?;
        match inspection.name == name {
            true => Ok(inspection),
            false => Err(SkillHostError::Refused {
                path,
                reason: format!("it calls itself `{0}`; name the file `{0}.wasm`", inspection.name),
            }),
        }
    }

    fn inspected(&self, file: &Path) -> Result<Inspected, SkillHostError> {
        let wasm = read_component(file).map_err(|source| io(file, "read", source))?;
        let refused = |reason| SkillHostError::Refused {
            path: file.to_owned(),
            reason,
        };
        let surface = component::inspect(&wasm).map_err(refused)?;
        let component = self
            .compiled(
                &digest(&wasm),
                Arc::clone(&wasm),
                &file.display().to_string(),
                &|_| (),
                &CancellationToken::new(),
            )
            .map_err(refused)?;
        let descriptor = describe(self.runtime, &component, &surface, self.limits).map_err(refused)?;
        if self.builtins.contains_key(descriptor.name.as_str()) {
            let reason = format!("its name, `{}`, is that of a built-in skill", descriptor.name);
            return Err(refused(reason));
        }
        Ok(Inspected {
            inspection: Inspection::new(file, &wasm, &descriptor),
            descriptor,
            wasm,
        })
    }

    /// Adds the component that was shown: copies it into the team's folder and pins its digest and descriptor. Refused
    /// where the file is no longer the one that was shown.
    pub fn add(&self, shown: &Inspection) -> Result<SkillEntry, SkillHostError> {
        let inspected = self.shown_again(shown)?;
        let target = self.component_path(&inspected.descriptor.name);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .map_err(|source| io(&self.folder, "made", source))?;
        write(&target, &inspected.wasm)?;
        self.pin(inspected)
    }

    /// Trusts the component that was shown where it lies: in the team's folder.
    pub fn trust(&self, shown: &Inspection) -> Result<SkillEntry, SkillHostError> {
        let inspected = self.shown_again(shown)?;
        if self.installed(&inspected.descriptor.name)? != shown.path {
            return Err(SkillHostError::Refused {
                path: shown.path.clone(),
                reason: "it does not lie in the folder of skills under its own name".to_owned(),
            });
        }
        self.pin(inspected)
    }

    fn shown_again(&self, shown: &Inspection) -> Result<Inspected, SkillHostError> {
        let inspected = self.inspected(&shown.path)?;
        match inspected.inspection.digest == shown.digest {
            true => Ok(inspected),
            false => Err(SkillHostError::Changed {
                path: shown.path.clone(),
                shown: shown.digest.clone(),
                found: inspected.inspection.digest,
            }),
        }
    }

    /// Takes a team's component away: its pin and its file.
    pub fn remove(&self, name: &str) -> Result<(), SkillHostError> {
        let path = self.installed(name)?;
        let mut pins = Pins::read(&self.folder)?;
        if pins.skills.remove(name).is_some() {
            pins.write(&self.folder)?;
        }
        fs::remove_file(&path).map_err(|source| io(&path, "removed", source))
    }

    /// The file of a component in the team's folder.
    fn installed(&self, name: &str) -> Result<PathBuf, SkillHostError> {
        let path = self.component_path(name);
        match is_name(name) && path.is_file() {
            true => Ok(path),
            false => Err(SkillHostError::Unknown { name: name.to_owned() }),
        }
    }

    fn component_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.wasm"))
    }

    fn pin(&self, inspected: Inspected) -> Result<SkillEntry, SkillHostError> {
        let Inspected {
            inspection, descriptor, ..
        } = inspected;
        let mut pins = Pins::read(&self.folder)?;
        let pin = Pin {
            digest: inspection.digest.clone(),
            descriptor: descriptor.clone(),
        };
        pins.skills.insert(inspection.name, pin);
        pins.write(&self.folder)?;
        let skill = Skill::new(descriptor, inspection.digest, Source::Team(inspection.path));
        Ok(ready_entry(&skill, "team"))
    }
}

impl Pins {
    fn path(folder: &Path) -> PathBuf {
        folder.join("pins.json")
    }

    fn read(folder: &Path) -> Result<Self, SkillHostError> {
        let path = Self::path(folder);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text.map_err(|source| io(&path, "read", source))?,
        };
        serde_json::from_slice(&text).map_err(|error| SkillHostError::Pins {
            path,
            reason: error.to_string(),
        })
    }

    fn write(&self, folder: &Path) -> Result<(), SkillHostError> {
        let path = Self::path(folder);
        let text = serde_json::to_vec_pretty(self).map_err(|error| SkillHostError::Pins {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        write(&path, &text)
    }
}

/// Replaces a file as a whole, with mode 0600.
fn write(path: &Path, content: &[u8]) -> Result<(), SkillHostError> {
    let attempt = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    attempt().map_err(|source| io(path, "written", source))
}

fn io(path: &Path, action: &'static str, source: std::io::Error) -> SkillHostError {
    SkillHostError::Io {
        path: path.to_owned(),
        action,
        source,
    }
}

/// The components in a folder, by the name that their files give them.
fn component_files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let path = entry.path();
            let name = path.file_name()?.to_str()?.strip_suffix(".wasm")?.to_owned();
            (is_name(&name) && entry.file_type().ok()?.is_file()).then_some((name, path))
        })
        .take(TEAM_SKILLS_MAX)
        .collect()
}

/// Hashes a component, unless it is still the one that was hashed before.
fn look<'a>(seen: &'a mut BTreeMap<String, Seen>, name: &str, path: &Path) -> std::io::Result<&'a mut Seen> {
    let stamp = Stamp::of(&fs::symlink_metadata(path)?);
    if seen.get(name).is_none_or(|seen| seen.stamp != stamp) {
        let digest = digest(&read_component(path)?);
        let skill = None;
        seen.insert(name.to_owned(), Seen { stamp, digest, skill });
    }
    seen.get_mut(name).ok_or_else(|| std::io::ErrorKind::NotFound.into())
}

/// Reads a component of bounded size; never waits on a FIFO.
fn read_component(path: &Path) -> std::io::Result<Arc<[u8]>> {
    let flags = rustix::fs::OFlags::NONBLOCK;
    let file: File = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a file"));
    }
    let mut wasm = Vec::new();
    file.take(limits::COMPONENT_BYTES_MAX + 1).read_to_end(&mut wasm)?;
    match wasm.len() as u64 > limits::COMPONENT_BYTES_MAX {
        true => Err(std::io::Error::other(format!(
            "it is larger than {} bytes",
            limits::COMPONENT_BYTES_MAX
        ))),
        false => Ok(wasm.into()),
    }
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .filter(|(similarity, _)| *similarity >= NEAREST_SIMILARITY)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, known)| known.to_owned())
}

fn ready_entry(skill: &Skill, origin: &str) -> SkillEntry {
    let descriptor = &skill.descriptor;
    SkillEntry {
        name: descriptor.name.clone(),
        version: descriptor.version.clone(),
        description: descriptor.description.clone(),
        effects: names(&descriptor.effects),
        digest: skill.digest.clone(),
        origin: origin.to_owned(),
        state: "ready".to_owned(),
        reason: None,
        parameters: descriptor.parameters.clone(),
    }
}

fn names(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(|effect| effect.name().to_owned()).collect()
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
    Ok(Skill::new(
        descriptor,
        builtin.digest.to_owned(),
        Source::Builtin(builtin),
    ))
}

/// Asks a compiled component what it is. The error is the end of a sentence.
fn describe(runtime: &Runtime, component: &Component, surface: &Surface, limits: Limits) -> Result<Descriptor, String> {
    let limits = Limits {
        wall: limits.describe,
        ..limits
    };
    let call = Call::new("describe", limits, &CancellationToken::new());
    runtime.watch(&call);
    let described = Loaded::new(runtime, component)?
        .describe(runtime, &call)
        .map_err(|error| match error {
            CallError::Trap { reason, .. } => format!("it does not describe itself: it crashed: {reason}"),
            CallError::Limit { limit, .. } => format!("it does not describe itself within the limit of {limit}"),
            error => format!("it does not describe itself: {error}"),
        })?;
    let descriptor = parse_descriptor(described)?;
    surface.check_effects(&descriptor.effects)?;
    arguments::compile(&descriptor.parameters)?;
    Ok(descriptor)
}

fn parse_descriptor(described: wit::Descriptor) -> Result<Descriptor, String> {
    if !is_name(&described.name) {
        return Err(format!("`{}` is not a name of a skill", clean(&described.name)));
    }
    let longest = described
        .description
        .len()
        .max(described.parameters.len())
        .max(described.version.len());
    if longest > limits::DESCRIPTOR_TEXT_BYTES_MAX {
        return Err(format!(
            "its description is longer than {} bytes",
            limits::DESCRIPTOR_TEXT_BYTES_MAX
        ));
    }
    let mut effects = described
        .effects
        .iter()
        .map(|effect| effect.parse())
        .collect::<Result<Vec<Effect>, _>>()
        .map_err(|_| {
            format!(
                "it declares effects that this host does not know: {}",
                described.effects.join(", ")
            )
        })?;
    effects.sort_unstable();
    effects.dedup();
    Ok(Descriptor {
        parameters: serde_json::from_str(&described.parameters)
            .map_err(|error| format!("its schema is not JSON: {error}"))?,
        name: described.name,
        version: clean(&described.version).into_owned(),
        description: clean(&described.description).into_owned(),
        effects,
    })
}

/// A built-in skill as its build embeds it.
#[derive(Debug)]
pub struct Embedded {
    /// What it says about itself.
    pub descriptor: Descriptor,
    /// SHA-256 of the component, hexadecimal.
    pub digest: String,
    /// Its code, for every machine of this architecture.
    pub compiled: Vec<u8>,
}

/// Which compiler and configuration [`precompile`] uses: code of another one does not load.
pub fn compiler_fingerprint() -> Result<String, SkillHostError> {
    Ok(cache::fingerprint(&Runtime::global()?.engine))
}

/// Compiles a component of ours ahead of time and captures what it says about itself. For the build of the product.
pub fn precompile(path: &Path) -> Result<Embedded, SkillHostError> {
    let refused = |reason| SkillHostError::Refused {
        path: path.to_owned(),
        reason,
    };
    let wasm = read_component(path).map_err(|source| io(path, "read", source))?;
    let surface = component::inspect(&wasm).map_err(refused)?;
    let compiled = engine::precompile(&wasm).map_err(|error| refused(format!("it does not compile: {error:#}")))?;
    let runtime = Runtime::global()?;
    let component = cache::deserialize(&runtime.engine, &compiled).map_err(|error| {
        refused(format!(
            "its code does not load on the machine that builds it: {error:#}"
        ))
    })?;
    let descriptor = describe(runtime, &component, &surface, Limits::default()).map_err(refused)?;
    if let Some((effect, interface)) = surface.unused_effect(&descriptor.effects) {
        return Err(refused(format!(
            "it declares the effect `{effect}` and does not import `tool:skill/{interface}`"
        )));
    }
    Ok(Embedded {
        descriptor,
        digest: digest(&wasm),
        compiled,
    })
}

#[cfg(test)]
mod unit {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::api::{Operation, PolicyRequest};
    use crate::repository::{Options, Repository};
    use crate::skill::policy::{Cause, Policy};
    use crate::skill::{Approver, ChangeJournal, Conversation, PreparedChange, Question};

    struct Nothing;

    impl Approver for Nothing {
        fn can_ask(&self) -> bool {
            false
        }

        fn ask(&self, _: &Question, _: &CancellationToken) -> bool {
            false
        }
    }

    impl ChangeJournal for Nothing {
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
        let context = Arc::new(CallContext {
            repository: Repository::open(folder.path(), &Options::default()).expect("the folder is there"),
            policy: Policy::new(Cause::Operation(Operation::Refactor), &PolicyRequest::default()).expect("it is right"),
            approver: Arc::new(Nothing),
            changes: Arc::new(Nothing),
            files: Mutex::default(),
            conversation: Conversation::default(),
            cancel: CancellationToken::new(),
            environment: BTreeMap::new(),
            progress: Arc::new(|_| ()),
        });
        let skill = host.find("slow").expect("it is there");
        let compiling = skill.loaded.lock().expect("not poisoned");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| host.call(&context, "slow", Arguments::Text("{}")));
            std::thread::sleep(Duration::from_millis(20));
            let since = Instant::now();
            context.cancel.cancel();
            let report = waiting.join().expect("no panic");
            assert!(
                matches!(report.result, Err(CallError::Cancelled { .. })),
                "{:?}",
                report.result
            );
            // The promise; a busy machine takes some of it.
            assert!(since.elapsed() < Duration::from_millis(500), "{:?}", since.elapsed());
        });
        drop(compiling);
    }

    #[test]
    fn a_description_is_of_bounded_length() {
        let described = |longer: usize| wit::Descriptor {
            name: "talker".to_owned(),
            version: "1.0.0".to_owned(),
            description: "x".repeat(limits::DESCRIPTOR_TEXT_BYTES_MAX + longer),
            parameters: r#"{"type": "object"}"#.to_owned(),
            effects: Vec::new(),
        };
        assert!(parse_descriptor(described(0)).is_ok());
        let refused = parse_descriptor(described(1)).expect_err("it is longer than the bound");
        assert_eq!(refused, "its description is longer than 65536 bytes");
    }
}
