//! Gives up rights for good: resource limits, capabilities, Landlock and system calls. Everything that is started later
//! inherits this.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, Scope, path_beneath_rules,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::outer::{StepContext, StepResult};
use super::spec::{RunSpec, VisiblePath};
use super::visible_paths::system_parts;
use super::{RunBounds, Sandbox, filter};
use crate::group::PROCESS_FILE_BYTES_MAX;
use crate::limits;

/// Applies every restriction that fits the sandbox. None can be undone.
pub(super) fn confine_process(spec: &RunSpec) -> StepResult<()> {
    set_rlimits(spec.sandbox, spec.bounds).at("setting limits")?;
    // The first process of a namespace may have rights there. Not dumpable, it cannot be attached to by a program that
    // wants them.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).at("giving up rights")?;
    give_up_capabilities().at("giving up rights")?;
    rustix::thread::set_no_new_privs(true).at("giving up rights")?;
    match spec.sandbox {
        Sandbox::Namespaces => second_wall(spec).map_err(io::Error::other).at("raising Landlock")?,
        Sandbox::Landlock | Sandbox::None => only_wall(spec).map_err(io::Error::other).at("raising Landlock")?,
    }
    filter::apply_filters(spec.sandbox)
        .map_err(io::Error::other)
        .at("filtering system calls")
}

fn set_rlimits(sandbox: Sandbox, bounds: RunBounds) -> io::Result<()> {
    let mut bounded = vec![
        (Resource::Fsize, PROCESS_FILE_BYTES_MAX),
        (Resource::Nofile, limits::CONTAIN_FILES_OPEN_MAX),
        (Resource::Memlock, limits::CONTAIN_LOCKED_BYTES_MAX),
        (Resource::Core, 0),
        (Resource::As, limits::CONTAIN_ADDRESSES_MAX),
    ];
    let counts = sandbox == Sandbox::Namespaces && counts_processes_by_namespace();
    if counts {
        bounded.push((Resource::Nproc, bounds.tasks));
    }
    for (resource, bound) in bounded {
        let before = rustix::process::getrlimit(resource);
        let within = |value: Option<u64>| Some(value.map_or(bound, |value| value.min(bound)));
        let both = Rlimit {
            current: within(before.current),
            maximum: within(before.maximum),
        };
        rustix::process::setrlimit(resource, both)?;
    }
    Ok(())
}

/// True if the kernel counts processes by namespace. Before Linux 5.14 all processes of the user count, and a limit for
/// the run would be reached at once.
fn counts_processes_by_namespace() -> bool {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(5), Some(14))
}

/// Gives up all capabilities, also in the bounding set, from which programs of root would get them back.
pub(crate) fn give_up_capabilities() -> io::Result<()> {
    let held = rustix::thread::capabilities(None)?;
    if held.effective.contains(CapabilitySet::SETPCAP) {
        for number in 0..64 {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            match rustix::thread::remove_capability_from_bounding_set(capability) {
                Ok(()) => {}
                // The kernel has no further capabilities.
                Err(rustix::io::Errno::INVAL) => break,
                Err(error) => return Err(error.into()),
            }
        }
    }
    let nothing = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: nothing,
        permitted: nothing,
        inheritable: nothing,
    };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Newest Landlock version whose rights are used, if the kernel knows them.
const NEWEST: ABI = ABI::V6;

/// Applies Landlock inside a root file system of the run's own: the run can write only to the places meant for writing.
fn second_wall(spec: &RunSpec) -> Result<(), landlock::RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let for_writing = ["/tmp", "/var/tmp", "/run", "/dev", "/proc"].map(PathBuf::from);
    let packages = spec.installation.as_ref().and_then(|install| install.outside.clone());
    let layers = spec.layers.iter().map(|layer| layer.place.clone());
    let builds = spec.builds.iter().map(|build| build.place.clone());
    let own = [Some(spec.root.clone()), spec.home.clone(), packages]
        .into_iter()
        .flatten()
        .chain(layers.chain(builds).filter(|place| place.is_dir()));
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        // Best effort is enough: the mount namespace already limits what the run sees.
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(for_writing.into_iter().chain(own), all))?
        .restrict_self()?;
    Ok(())
}

/// Keeps this thread and its children from signalling processes outside this Landlock domain.
pub(super) fn keep_signals_in() -> Result<(), landlock::RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    ruleset.scope(Scope::Signal)?.create()?.restrict_self()?;
    Ok(())
}

/// Applies Landlock as the only limit on files, without namespaces. Every right of the newest version is required,
/// including the one on signals.
fn only_wall(spec: &RunSpec) -> Result<(), landlock::RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    let system = system_parts().into_iter();
    let etc = super::etc_files::list_readable();
    let visible = spec.visible.iter().filter_map(|visible| match visible {
        VisiblePath::Place(path) => Some(path.clone()),
        VisiblePath::Link { .. } => None,
    });
    let devices = [
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
        "/dev/tty",
    ];
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    // The folder that holds the copy also holds the home and temporary files.
    let folder = spec.root.parent().unwrap_or(Path::new("/nonexistent"));
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(system.chain(etc).chain(visible), read))?
        .add_rules(path_beneath_rules(["/proc"], read))?
        .add_rules(path_beneath_rules(devices, device))?
        .add_rules(path_beneath_rules([folder], all))?
        .restrict_self()?;
    Ok(())
}
