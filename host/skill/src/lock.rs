//! `skills.lock`: the skills that a team has agreed on, in a file that the team commits.
//!
//! It holds name, version, digest, contract version, granted effects and source of each skill. Writing it records
//! what one user has pinned; reading it compares that with what another user has. The file grants nothing by itself:
//! a skill that it names gets the effects that both the user and the file grant, and a skill that the user has not
//! added stays unused. A file that cannot be parsed is an error with its line, because its restrictions would be
//! unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use toml::Spanned;

use super::small_files::{self, LinkPolicy};
use crate::limits;
use tool_boundary::is_name;
use tool_boundary::{CONTRACT, LockedSkills, accepts_contract};
use tool_core::api::Effect;
use tool_core::api::{ErrorKind, Problem, SkillEntry, SkillOrigin, SkillState};
use tool_repository::{OpenError, Repository};

/// Bytes of a lock file: `TEAM_SKILLS_MAX` rows have some 50 kilobytes.
const LOCK_BYTES_MAX: u64 = 256 * 1024;

/// Name of the file. It is protected, so that no model writes it.
pub const NAME: &str = "skills.lock";

/// Scheme of references to a registry.
pub(super) const REGISTRY: &str = "oci://";

/// Version of the file's format.
const FORM: u32 = 1;

/// First line of every lock file.
const HEAD: &str =
    "# The skills that this team has agreed on. `tool skill lock` writes it, `tool skill sync` compares.\n";

/// Skills that a lock file agrees on, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SkillLock {
    skills: BTreeMap<String, LockedSkill>,
    /// True for a session that may use no other skill of a team.
    is_closed: bool,
}

/// A skill in a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedSkill {
    /// Version of the skill.
    pub version: String,
    /// SHA-256 of the component, hexadecimal.
    pub digest: String,
    /// Version of the contract that the skill was built for.
    pub world: String,
    /// Effects that the skill may use.
    pub effects: BTreeSet<Effect>,
    /// A file below the folder of the lock file, relative to it, or a reference to a registry with the digest of the
    /// manifest. Absent for a file elsewhere on a machine.
    pub source: Option<String>,
}

/// Reason why a lock file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file exists and cannot be read.
    #[error("`{}` cannot be read: {reason}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Description of the cause.
        reason: String,
    },
    /// A line is not valid.
    #[error("`{}`, line {line}: {reason}", path.display())]
    Line {
        /// Path of the file.
        path: PathBuf,
        /// Line, counted from 1.
        line: usize,
        /// The problem in the line.
        reason: String,
    },
    /// The file could not be written.
    #[error("`{}` could not be written", path.display())]
    Unwritten {
        /// Path of the file.
        path: PathBuf,
        /// Error of the file system.
        source: io::Error,
    },
}

/// A difference between the installed skills and the lock file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum LockDifference {
    /// The skill is not installed.
    Missing {
        /// Name of the skill.
        name: String,
    },
    /// The skill is installed, but may not be used.
    NotReady {
        /// Name of the skill.
        name: String,
        /// State of the skill in lists.
        state: SkillState,
        /// Description of the cause.
        reason: String,
    },
    /// The component has another digest.
    Digest {
        /// Name of the skill.
        name: String,
        /// Digest in the lock file.
        locked: String,
        /// Digest of the installed component.
        found: String,
    },
    /// The component has another version.
    Version {
        /// Name of the skill.
        name: String,
        /// Version in the lock file.
        locked: String,
        /// Version of the installed component.
        found: String,
    },
    /// The skill is granted more effects than the lock file allows.
    Effects {
        /// Name of the skill.
        name: String,
        /// Effects that the lock file does not allow.
        more: Vec<Effect>,
    },
    /// The skill is granted fewer effects than the lock file names.
    Fewer {
        /// Name of the skill.
        name: String,
        /// Effects that are missing.
        less: Vec<Effect>,
    },
    /// The skill was built for a contract that this host does not support.
    World {
        /// Name of the skill.
        name: String,
        /// Version of the contract in the lock file.
        locked: String,
    },
    /// The source is not the one that the component came from, or does not hold it.
    Source {
        /// Name of the skill.
        name: String,
        /// Description of the cause, as the end of a sentence.
        reason: String,
    },
}

impl LockDifference {
    /// Name of the skill.
    pub fn name(&self) -> &str {
        match self {
            Self::Missing { name }
            | Self::NotReady { name, .. }
            | Self::Digest { name, .. }
            | Self::Version { name, .. }
            | Self::Effects { name, .. }
            | Self::Fewer { name, .. }
            | Self::World { name, .. }
            | Self::Source { name, .. } => name,
        }
    }
}

impl LockDifference {
    /// True if getting or pinning the skill again resolves the difference, without taking anything from the user.
    pub fn is_mended_by_sync(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Digest { .. } | Self::Version { .. } | Self::Fewer { .. } => true,
            Self::NotReady { state, .. } => !matches!(state, SkillState::Disabled | SkillState::Unsigned),
            Self::Effects { .. } | Self::World { .. } | Self::Source { .. } => false,
        }
    }

    /// The command that resolves the difference, if there is one, and its effect.
    pub fn remedy(&self) -> Option<String> {
        Some(match self {
            _ if self.is_mended_by_sync() => "`tool skill sync` makes them what is locked".to_owned(),
            Self::NotReady {
                name,
                state: SkillState::Unsigned,
                ..
            } => {
                format!(
                    "`tool skill sync` fetches its signature once it is signed; `tool skill sign {name} --key FILE` signs it"
                )
            }
            Self::NotReady { name, .. } => format!("`tool skill enable {name}` brings it back"),
            Self::Effects { .. } => {
                "`tool skill sync --narrow` takes what is not locked, in every repository".to_owned()
            }
            Self::Source { name, .. } => format!("`tool skill lock {name}` writes its source anew"),
            _ => return None,
        })
    }
}

impl fmt::Display for LockDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |digest: &str| digest.get(..12).unwrap_or(digest).to_owned();
        match self {
            Self::Missing { name } => write!(formatter, "`{name}` is locked and not there"),
            Self::NotReady { name, reason, .. } => write!(formatter, "`{name}` is locked and cannot be used: {reason}"),
            Self::Digest { name, locked, found } => {
                let (locked, found) = (short(locked), short(found));
                write!(formatter, "`{name}` is locked with the digest {locked}, and is {found}")
            }
            Self::Version { name, locked, found } => {
                write!(formatter, "`{name}` is locked in version {locked}, and is {found}")
            }
            Self::Effects { name, more } => {
                write!(
                    formatter,
                    "`{name}` is granted more than is locked: {}",
                    list_effects(more)
                )
            }
            Self::Fewer { name, less } => {
                write!(
                    formatter,
                    "`{name}` is granted less than is locked: {}",
                    list_effects(less)
                )
            }
            Self::World { name, locked } => write!(
                formatter,
                "`{name}` is locked for tool:skill@{locked}, and this host has tool:skill@{CONTRACT}"
            ),
            Self::Source { name, reason } => write!(formatter, "the source of `{name}` {reason}"),
        }
    }
}

fn list_effects(effects: &[Effect]) -> String {
    effects.iter().map(Effect::to_string).collect::<Vec<_>>().join(", ")
}

/// Combines differences to one problem, each on a line, with the commands that resolve them.
pub fn drift_problem(differences: &[LockDifference]) -> Problem {
    let lines: Vec<String> = differences
        .iter()
        .map(|difference| format!("\n  {difference}"))
        .collect();
    let message = format!("The skills differ from `{NAME}`:{}", lines.concat());
    let mut remedies: Vec<String> = Vec::new();
    for remedy in differences.iter().filter_map(LockDifference::remedy) {
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    }
    remedies.push("`tool skill lock` locks what they are".to_owned());
    Problem::new(ErrorKind::ConfigDrift, message).with_hint(remedies.join(", "))
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFile {
    version: u32,
    #[serde(default)]
    skill: Vec<LockRow>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockRow {
    name: Spanned<String>,
    version: String,
    digest: Spanned<String>,
    world: String,
    effects: BTreeSet<Effect>,
    #[serde(default)]
    source: Option<Spanned<String>>,
}

/// A row of the file.
#[derive(Serialize)]
struct WrittenRow<'a> {
    name: &'a str,
    version: &'a str,
    digest: String,
    world: &'a str,
    effects: &'a BTreeSet<Effect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
}

#[derive(Serialize)]
struct WrittenFile<'a> {
    version: u32,
    skill: Vec<WrittenRow<'a>>,
}

impl LockedSkills for SkillLock {
    fn effects(&self, skill: &str) -> Option<&BTreeSet<Effect>> {
        self.skills.get(skill).map(|locked| &locked.effects)
    }

    fn digest(&self, skill: &str) -> Option<&str> {
        self.skills.get(skill).map(|locked| locked.digest.as_str())
    }

    fn is_closed(&self) -> bool {
        self.is_closed
    }
}

impl SkillLock {
    /// Creates a lock file with these skills.
    pub fn new(skills: BTreeMap<String, LockedSkill>) -> Self {
        Self {
            skills,
            is_closed: false,
        }
    }

    /// Closes the lock file: a session may then use no skill of a team except those in it.
    #[must_use]
    pub fn closed(self) -> Self {
        Self {
            is_closed: true,
            ..self
        }
    }

    /// The skills in the file, by name.
    pub fn skills(&self) -> &BTreeMap<String, LockedSkill> {
        &self.skills
    }

    /// Reads the file of a repository through its guard; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read or parsed.
    pub fn read_repository(repository: &Repository, cancel: &CancellationToken) -> Result<Option<Self>, LockError> {
        let path = Path::new(NAME);
        match repository.read_within(NAME, LOCK_BYTES_MAX, cancel) {
            Ok(content) => Self::parse(path, &content).map(Some),
            Err(OpenError::NotFound { .. }) => Ok(None),
            Err(error) => Err(unreadable_error(path, error.to_string())),
        }
    }

    /// Reads the file in a folder of the user; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read or parsed.
    pub fn read(folder: &Path) -> Result<Option<Self>, LockError> {
        let path = folder.join(NAME);
        match small_files::read_bytes(&path, LOCK_BYTES_MAX, LinkPolicy::Refused) {
            Ok(content) => Self::parse(&path, &content).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable_error(&path, error.to_string())),
        }
    }

    fn parse(path: &Path, content: &[u8]) -> Result<Self, LockError> {
        let text = std::str::from_utf8(content).map_err(|_| unreadable_error(path, "it is not UTF-8".to_owned()))?;
        let at = |start: usize, reason: String| LockError::Line {
            path: path.to_owned(),
            line: text.as_bytes()[..start.min(text.len())]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
                + 1,
            reason,
        };
        let file: LockFile = toml::from_str(text).map_err(|error| {
            let words = error.message().lines().next().unwrap_or_default().to_owned();
            at(error.span().map_or(0, |span| span.start), words)
        })?;
        if file.version != FORM {
            return Err(at(0, format!("its form is {}, and only {FORM} is known", file.version)));
        }
        if file.skill.len() > limits::TEAM_SKILLS_MAX {
            return Err(at(0, format!("it names more than {} skills", limits::TEAM_SKILLS_MAX)));
        }
        let mut skills = BTreeMap::new();
        for row in file.skill {
            let (name, digest) = (row.name.get_ref().clone(), row.digest.get_ref());
            let start = row.name.span().start;
            if !is_name(&name) {
                return Err(at(start, format!("`{}` is no name of a skill", name.escape_debug())));
            }
            let digest = sha256_digits(digest).ok_or_else(|| {
                at(
                    row.digest.span().start,
                    "a digest is `sha256:` and 64 digits".to_owned(),
                )
            })?;
            if let Some(source) = &row.source {
                check_source(source.get_ref()).map_err(|reason| at(source.span().start, reason.to_owned()))?;
            }
            let locked = LockedSkill {
                version: row.version,
                digest,
                world: row.world,
                effects: row.effects,
                source: row.source.map(Spanned::into_inner),
            };
            if skills.insert(name.clone(), locked).is_some() {
                return Err(at(start, format!("`{name}` is named twice")));
            }
        }
        Ok(Self::new(skills))
    }

    /// Formats the file. The same skills always yield the same bytes.
    pub fn to_text(&self) -> String {
        let rows = self.skills.iter().map(|(name, locked)| WrittenRow {
            name,
            version: &locked.version,
            digest: format!("sha256:{}", locked.digest),
            world: &locked.world,
            effects: &locked.effects,
            source: locked.source.as_deref(),
        });
        let file = WrittenFile {
            version: FORM,
            skill: rows.collect(),
        };
        let text = toml::to_string(&file).expect("it has string keys only");
        format!("{HEAD}{text}")
    }

    /// Writes the file to a folder, and replaces an existing one. Returns its path.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, LockError> {
        let path = folder.join(NAME);
        let attempt = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(self.to_text().as_bytes())?;
            file.as_file().set_permissions(PermissionsExt::from_mode(0o644))?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        attempt().map_err(|source| LockError::Unwritten {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }

    /// Finds the differences from the user's skills, except for sources. Skills that the file does not name are not
    /// compared.
    pub fn differences(&self, entries: &[SkillEntry]) -> Vec<LockDifference> {
        let present: BTreeMap<&str, &SkillEntry> = entries
            .iter()
            .filter(|entry| entry.origin == SkillOrigin::Team)
            .map(|entry| (entry.name.as_str(), entry))
            .collect();
        let mut differences = Vec::new();
        for (name, locked) in &self.skills {
            match present.get(name.as_str()) {
                Some(entry) => differences.extend(locked.differences(name, entry)),
                None => differences.push(LockDifference::Missing { name: name.clone() }),
            }
            if !accepts_contract(&locked.world) {
                differences.push(LockDifference::World {
                    name: name.clone(),
                    locked: locked.world.clone(),
                });
            }
        }
        differences
    }
}

impl LockedSkill {
    fn differences(&self, name: &str, entry: &SkillEntry) -> Vec<LockDifference> {
        let name = || name.to_owned();
        let mut differences = Vec::new();
        if let Some(reason) = entry.reason.clone().filter(|_| entry.state != SkillState::Ready) {
            differences.push(LockDifference::NotReady {
                name: name(),
                state: entry.state,
                reason,
            });
        }
        if entry.digest != self.digest {
            differences.push(LockDifference::Digest {
                name: name(),
                locked: self.digest.clone(),
                found: entry.digest.clone(),
            });
        }
        if entry.state == SkillState::Ready && entry.version != self.version {
            differences.push(LockDifference::Version {
                name: name(),
                locked: self.version.clone(),
                found: entry.version.clone(),
            });
        }
        let granted: BTreeSet<Effect> = entry.effects.iter().copied().collect();
        let more: Vec<Effect> = granted.difference(&self.effects).copied().collect();
        if !more.is_empty() {
            differences.push(LockDifference::Effects { name: name(), more });
        }
        let less: Vec<Effect> = self.effects.difference(&granted).copied().collect();
        // A skill that cannot be used is granted nothing.
        if entry.state == SkillState::Ready && !less.is_empty() {
            differences.push(LockDifference::Fewer { name: name(), less });
        }
        differences
    }
}

fn unreadable_error(path: &Path, reason: String) -> LockError {
    LockError::Unreadable {
        path: path.to_owned(),
        reason,
    }
}

/// Accepts a file below the folder of the lock file, or a reference to a registry with a digest.
fn check_source(source: &str) -> Result<(), &'static str> {
    if source.starts_with(REGISTRY) {
        let is_pinned = source
            .rsplit_once('@')
            .is_some_and(|(_, digest)| sha256_digits(digest).is_some());
        return if is_pinned {
            Ok(())
        } else {
            Err("a place in a registry ends with `@sha256:` and 64 digits: a tag alone may move")
        };
    }
    let is_below = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !source.is_empty() && Path::new(source).components().all(is_below) {
        Ok(())
    } else {
        Err("a source is a file below the folder of this file, or a place in a registry")
    }
}

/// Splits a reference to a registry into place without tag, and digest.
pub(super) fn place_and_digest(source: &str) -> Option<(&str, &str)> {
    let (place, digest) = source.strip_prefix(REGISTRY)?.rsplit_once('@')?;
    Some((without_tag(place), digest))
}

/// Removes the tag from a reference. A colon before the last `/` belongs to a port.
pub(super) fn without_tag(place: &str) -> &str {
    match place.rsplit_once(':') {
        Some((untagged, tag)) if !tag.contains('/') => untagged,
        _ => place,
    }
}

/// Hexadecimal digits of a SHA-256 in the format `sha256:HEX`.
fn sha256_digits(digest: &str) -> Option<String> {
    let digits = digest.strip_prefix("sha256:")?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (digits.len() == 64 && digits.bytes().all(is_digit)).then(|| digits.to_owned())
}

#[cfg(test)]
mod tests;
