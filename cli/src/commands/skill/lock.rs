//! `tool skill lock` and `sync`: writes what a team has agreed on, and follows it.

use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use tool_core::api::{Effect, ErrorKind, Problem, SkillState};
use tool_registry::oci::RegistryReference;
use tool_skill::lock::{self, LockDifference, LockError, LockedSkill, SkillLock};
use tool_skill::{LockChoice, SkillHost};

use super::offer::{self, ComponentOffer};
use super::{explain_refusal, open_registry, path_text};
use crate::args::Consent;
use crate::commands::{CommandContext, read_yes};
use crate::error::Error;
use crate::output::CommandOutput;

pub(super) fn lock_skills(
    names: &[String],
    all: bool,
    dir: Option<&Path>,
    context: &CommandContext,
) -> Result<ExitCode, Error> {
    let folder = lock_folder(dir, context)?;
    let registry = open_registry(context)?;
    let known = SkillLock::read(&folder).map_err(|error| invalid_lock(&error))?;
    let choice = match (names, all) {
        (_, true) => LockChoice::All,
        ([], false) if known.is_none() => return Err(nothing_chosen(&registry)),
        ([], false) => LockChoice::Again,
        (names, false) => LockChoice::Names(names),
    };
    let (lock, left_out) = registry
        .lock(
            &folder,
            known.unwrap_or_default(),
            choice,
            tool_registry::oci::pin_source,
        )
        .map_err(explain_refusal)?;
    for (name, reason) in left_out {
        context
            .output
            .notice(&format!("`{name}` is not locked as it is now: {reason}"), None);
    }
    let path = lock.write(&folder).map_err(|error| invalid_lock(&error))?;
    let (count, are) = count_skills(&lock);
    context
        .output
        .line(&format!("{count} {are} locked in {}.", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// The error of a first lock file without names: the skills of one person are not an agreement of a team.
fn nothing_chosen(registry: &SkillHost) -> Error {
    let names: Vec<String> = registry.pinned().unwrap_or_default().into_keys().collect();
    let hint = if names.is_empty() {
        "`tool skill add` adds one".to_owned()
    } else {
        format!("`tool skill lock NAME…` with names of {}, or `--all`", names.join(", "))
    };
    Problem::new(
        ErrorKind::Usage,
        "There is no `skills.lock` yet: name the skills to lock",
    )
    .with_hint(hint)
    .into()
}

/// Prints the differences, and changes nothing.
pub(super) fn check_frozen(dir: Option<&Path>, context: &CommandContext) -> Result<ExitCode, Error> {
    let folder = lock_folder(dir, context)?;
    let lock = read_lock(&folder)?;
    let differences = open_registry(context)?.differences(&lock, &folder);
    if differences.is_empty() {
        as_locked(&lock, context)
    } else {
        Err(lock::drift_problem(&differences).into())
    }
}

/// Makes the installed skills match the lock file, one by one; asks if the user must agree. `narrow` also withdraws
/// granted effects that the file does not list.
pub(super) async fn sync_skills(
    dir: Option<&Path>,
    narrow: bool,
    consent: &Consent,
    context: &CommandContext,
) -> Result<ExitCode, Error> {
    let folder = lock_folder(dir, context)?;
    let lock = read_lock(&folder)?;
    let registry = open_registry(context)?;
    fetch_signatures(&lock, &folder, &registry, consent, context).await?;
    let differences = registry.differences(&lock, &folder);
    let mut keeping = Vec::new();
    for (name, locked) in lock.skills() {
        let mut of_it = differences.iter().filter(|difference| difference.name() == name);
        // Effects granted to another digest do not count.
        let pinned = registry.pinned_version(name, &locked.digest).map_err(explain_refusal)?;
        let granted = pinned.as_ref().map_or(&[][..], |pinned| &pinned.effects);
        let beyond: Vec<Effect> = granted
            .iter()
            .copied()
            .filter(|effect| !locked.effects.contains(effect))
            .collect();
        let takes = !beyond.is_empty() && is_narrowed(name, &beyond, narrow, consent, context.output);
        if !takes && !beyond.is_empty() {
            keeping.push(name);
        }
        if !takes && !of_it.any(LockDifference::is_mended_by_sync) {
            continue;
        }
        let kept = if takes { Vec::new() } else { beyond };
        let within = locked.effects.iter().copied().chain(kept).collect();
        install_locked(name, locked, within, &folder, &registry, consent, context).await?;
    }
    let mut left = registry.differences(&lock, &folder);
    // The user was told, and lets a skill keep effects that this repository's file withholds here.
    left.retain(|left| !matches!(left, LockDifference::Effects { name, .. } if keeping.contains(&name)));
    if left.is_empty() {
        as_locked(&lock, context)
    } else {
        Err(Error::Problem(Problem {
            kind: ErrorKind::Skill,
            ..lock::drift_problem(&left)
        }))
    }
}

/// True if a skill loses its effects beyond the file. It loses them in every repository, so the user must agree; in
/// this repository the file narrows them anyway.
fn is_narrowed(name: &str, beyond: &[Effect], narrow: bool, consent: &Consent, output: CommandOutput) -> bool {
    let effects = Effect::join_names(beyond);
    if narrow {
        output.notice(&format!("`{name}` loses {effects}, in every repository."), None);
        return true;
    }
    if consent.yes || !CommandOutput::can_ask() {
        let message = format!("`{name}` keeps {effects} for your other repositories; here the file narrows it.");
        output.notice(&message, Some("`--narrow` takes it in every repository"));
        return false;
    }
    output.ask(&format!(
        "`{name}` has {effects} beyond what is locked. Take it, in every repository? [y/N] "
    ));
    read_yes()
}

fn as_locked(lock: &SkillLock, context: &CommandContext) -> Result<ExitCode, Error> {
    let (count, are) = count_skills(lock);
    context.output.line(&format!("{count} {are} as locked."))?;
    Ok(ExitCode::SUCCESS)
}

/// Number of skills in a file, with the verb that matches it.
pub(super) fn count_skills(lock: &SkillLock) -> (String, &'static str) {
    match lock.skills().len() {
        1 => ("1 skill".to_owned(), "is"),
        count => (format!("{count} skills"), "are"),
    }
}

/// Installs one locked skill from its source, if its digest is the locked one.
async fn install_locked(
    name: &str,
    locked: &LockedSkill,
    within: Vec<Effect>,
    folder: &Path,
    registry: &SkillHost,
    consent: &Consent,
    context: &CommandContext,
) -> Result<(), Error> {
    let is_there = registry
        .inspect_installed(name, Some(&locked.digest))
        .is_ok_and(|installed| installed.digest == locked.digest);
    let offer = if is_there {
        ComponentOffer::of_installed(name, Some(&locked.digest), registry, consent, context)?
    } else {
        let source = find_source(name, locked, folder, consent, context)?;
        ComponentOffer::look_up(&source, registry, consent, context).await?
    };
    let found = &offer.inspection;
    if found.digest != locked.digest || found.name != name {
        let message = format!(
            "`{}` is not the `{name}` that is locked: its digest is {}, not {}",
            locked.source.as_deref().unwrap_or(name),
            found.digest,
            locked.digest
        );
        return Err(Error::new(ErrorKind::Skill, message));
    }
    let entry = offer.within(within).for_lock().settle(registry, consent, context)?;
    context
        .output
        .line(&format!("Pinned {} {}.", entry.name, entry.version))
}

/// Fetches the signature of each locked component that was refused because it lacks one: it may have been signed after
/// it was pulled.
async fn fetch_signatures(
    lock: &SkillLock,
    folder: &Path,
    registry: &SkillHost,
    consent: &Consent,
    context: &CommandContext,
) -> Result<(), Error> {
    for entry in registry.entries_in(Some(lock)) {
        let locked = lock.skills().get(&entry.name);
        let locked = locked.filter(|locked| entry.state == SkillState::Unsigned && entry.digest == locked.digest);
        let Some(locked) = locked else { continue };
        // A file below the folder has its signature next to it, or none.
        if !locked.source.as_deref().is_some_and(RegistryReference::is_meant) {
            continue;
        }
        let source = find_source(&entry.name, locked, folder, consent, context)?;
        if offer::fetch_signature(&entry, &source, registry, context).await? {
            context
                .output
                .line(&format!("Fetched the signature of {}.", entry.name))?;
        }
    }
    Ok(())
}

/// Source of a locked skill. A repository's file may name any registry, so the user confirms a registry first.
fn find_source(
    name: &str,
    locked: &LockedSkill,
    folder: &Path,
    consent: &Consent,
    context: &CommandContext,
) -> Result<String, Error> {
    let not_there = |what: String| {
        let hint = format!(
            "get the component from who has locked it, and `tool skill add` it: {}",
            locked.digest
        );
        Error::from(Problem::new(ErrorKind::Skill, format!("`{name}` is locked, and {what}")).with_hint(hint))
    };
    let Some(source) = &locked.source else {
        return Err(not_there("the file does not say where it lies".to_owned()));
    };
    if RegistryReference::is_meant(source) {
        let refusal = |hint: &str| {
            let message = format!("`{name}` was not pulled from {source}");
            Error::from(Problem::new(ErrorKind::Declined, message).with_hint(hint))
        };
        if consent.yes {
            return Ok(source.clone());
        }
        if !CommandOutput::can_ask() {
            return Err(refusal(
                "there is no terminal to ask on: add --yes after reading skills.lock",
            ));
        }
        context.output.ask(&format!("Pull `{name}` from {source}? [y/N] "));
        return if read_yes() {
            Ok(source.clone())
        } else {
            Err(refusal("nothing was pulled"))
        };
    }
    let path = Path::new(source);
    let is_below = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let file = folder.join(path);
    if is_below && file.is_file() {
        path_text(&file)
    } else {
        Err(not_there(format!("`{}` is not there", file.display())))
    }
}

fn lock_folder(dir: Option<&Path>, context: &CommandContext) -> Result<PathBuf, Error> {
    match dir {
        Some(dir) if !dir.is_dir() => Err(Error::new(
            ErrorKind::Usage,
            format!("Not a directory: {}", dir.display()),
        )),
        Some(dir) => std::path::absolute(dir).map_err(|error| Error::on_file("Folder", dir, &error)),
        None => Ok(context.places()?.0),
    }
}

fn read_lock(folder: &Path) -> Result<SkillLock, Error> {
    let none = || {
        let message = format!("There is no `{}` in {}", lock::NAME, folder.display());
        Problem::new(ErrorKind::ConfigLock, message).with_hint("`tool skill lock NAME…` writes one")
    };
    let lock = SkillLock::read(folder).map_err(|error| invalid_lock(&error))?;
    lock.ok_or_else(|| none().into())
}

/// The problem of an invalid file.
pub(super) fn invalid_lock(error: &LockError) -> Problem {
    let problem = Problem::new(ErrorKind::ConfigLock, error.to_string());
    match std::error::Error::source(error) {
        Some(source) => problem.with_hint(source.to_string()),
        None => problem.with_hint("`tool skill lock` writes it from what you have pinned"),
    }
}
